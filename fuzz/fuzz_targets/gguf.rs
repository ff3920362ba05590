//! A GGUF file: a mutant of a tiny model by its fields, or arbitrary bytes.
//!
//! Invariant: the file is refused, or its weights, settings, vocabulary and text are read without a panic. Not here:
//! chat templates, which run in processes of their own, and the model's computation.

#![no_main]

mod model_file;

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::{GgufWriter, TinyModel, mutant};
use polychip_llm::{Architecture, Gguf};

thread_local! {
    static MODELS: OnceCell<Vec<GgufWriter>> = const { OnceCell::new() };
}

fuzz_target!(|input: &[u8]| {
    // eight bytes are the seed of a mutant, what follows them a text for it; a file begins with GGUF, or is too short
    match input.split_first_chunk::<8>() {
        Some((seed, [])) => read(mutated(u64::from_le_bytes(*seed)), "hello 123 é漢😀 <|start|>\n"),
        Some((seed, text)) if !input.starts_with(b"GGUF") => {
            read(mutated(u64::from_le_bytes(*seed)), &String::from_utf8_lossy(text));
        }
        _ => read(input.to_vec(), "hello"),
    }
});

fn mutated(seed: u64) -> Vec<u8> {
    MODELS.with(|models| {
        let models = models.get_or_init(tiny);
        mutant(&models[(seed % models.len() as u64) as usize], seed).bytes
    })
}

fn tiny() -> Vec<GgufWriter> {
    let architectures = [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3];
    let kinds = TensorType::ALL.into_iter().zip(architectures.into_iter().cycle());
    let model = |(kind, architecture)| TinyModel {
        architecture,
        kind,
        layers: 1,
        tied: true,
        seed: 3,
    };
    kinds.map(|kind| model(kind).writer()).collect()
}

fn read(bytes: Vec<u8>, text: &str) {
    if let Ok(file) = Gguf::read(bytes.into()) {
        model_file::read(&file, text);
    }
}
