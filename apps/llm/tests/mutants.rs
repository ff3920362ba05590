//! Mutants of files, vocabularies and chat templates: each is refused by name or read, none panics, none takes much memory.
//!
//! `POLYCHIP_MUTANTS=20000 cargo test -p polychip-llm --test mutants` tries that many of each; `POLYCHIP_FIRST=7` begins at another seed.

use peak_alloc::PeakAlloc;
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::{GgufWriter, TinyModel, mutant, template_mutant};
use polychip_llm::{Architecture, ChatTemplate, Config, Detokenizer, Gguf, Message, Specials, Tokenizer};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// What reading a file may take beside the file, in bytes: tables of regular expressions, a vocabulary's maps.
const FOR_A_FILE: usize = 32 << 20;
/// What a template may make, in bytes.
const FOR_A_TEMPLATE: usize = 256 << 20;

/// A number from the environment, or this one.
fn said(variable: &str, otherwise: u64) -> u64 {
    let said = std::env::var(variable).ok();
    said.map_or(otherwise, |said| said.parse().expect("a number"))
}

fn count() -> u64 {
    said("POLYCHIP_MUTANTS", 400)
}

fn seeds() -> std::ops::Range<u64> {
    let first = said("POLYCHIP_FIRST", 0);
    first..first + count()
}

fn models() -> Vec<GgufWriter> {
    let architectures = Architecture::ALL;
    TensorType::ALL
        .into_iter()
        .zip(architectures.into_iter().cycle())
        .map(|(kind, architecture)| {
            TinyModel {
                architecture,
                kind,
                layers: 1,
                tied: true,
                seed: 3,
            }
            .writer()
        })
        .collect()
}

/// Reports the mutant that panics.
struct Tried<'a>(u64, &'a str);

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} panics: {}", self.0, self.1);
        }
    }
}

/// Reads all of a file and uses its contents; returns an error if it is not a model.
fn use_file(bytes: Vec<u8>) -> Result<(), polychip_llm::Error> {
    let file = Gguf::read(bytes.into())?;
    for tensor in file.tensors() {
        let mut block = vec![0.0; tensor.kind().block_len()];
        tensor.dequantize(tensor.len() / block.len() - 1, &mut block);
    }
    // one of the three may be sound where another is not
    let config = Config::read(&file);
    let tokenizer = Tokenizer::read(&file)?;
    let text = "hello  world 123 é漢😀 <|start|>\n";
    for specials in [Specials::Parse, Specials::AsText] {
        if let Ok(ids) = tokenizer.encode_prompt(text, specials) {
            let mut stream = Detokenizer::new(&tokenizer);
            for id in ids {
                stream.push(id)?;
            }
            let _ = stream.finish();
        }
    }
    for id in 0..tokenizer.len() as u32 {
        tokenizer.decode(&[id])?;
    }
    if let Some(template) = ChatTemplate::read(&file, &tokenizer)? {
        let _ = template.render(&chat(), true);
    }
    config.map(|_| ())
}

fn chat() -> [Message; 2] {
    [Message::new("system", "be brief"), Message::new("user", "a b a")]
}

/// The peak memory of a call above the memory in use before it.
fn peak<T>(call: impl FnOnce() -> T) -> (usize, T) {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let result = call();
    (MEMORY.peak_usage().saturating_sub(before), result)
}

/// All in one test: memory is counted for the whole process.
#[test]
fn mutants_are_refused_or_read() {
    files();
    templates();
}

fn files() {
    let models = models();
    let (mut read, mut refused) = (0, 0);
    for seed in seeds() {
        let model = &models[(seed % models.len() as u64) as usize];
        let mutant = mutant(model, seed);
        let tried = Tried(seed, &mutant.words);
        let (peak, result) = peak(|| use_file(mutant.bytes));
        drop(tried);
        assert!(
            peak < FOR_A_FILE,
            "seed {seed} ({}) takes {} MiB",
            mutant.words,
            peak >> 20
        );
        match result {
            Ok(()) => read += 1,
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty(), "seed {seed}");
            }
        }
    }
    // if nearly all mutants were refused, or none, the suite would test nothing
    assert!(
        read * 20 > count() && refused * 5 > count(),
        "{read} read, {refused} refused"
    );
    eprintln!("{read} files read, {refused} refused");
}

fn templates() {
    let templates = [
        "{% for m in messages %}{{ '<' + m['role'] + '>\\n' + m['content'] | trim }}{% endfor %}{% if add_generation_prompt %}{{ bos_token }}{% endif %}",
        "{%- set ns = namespace(x='a') -%}{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{% for m in messages[1:] %}{% if loop.last %}{{ f(m.content.split(' ')[0]) | tojson }}{% else %}{% set ns.x = ns.x ~ m.role %}{% endif %}{% endfor %}{{ ns.x }}",
    ];
    let (mut written, mut refused) = (0, 0);
    for seed in seeds() {
        let source = template_mutant(templates[(seed % 2) as usize], seed);
        let tried = Tried(seed, &source);
        let (peak, result) = peak(|| ChatTemplate::new(&source)?.render(&chat(), true));
        drop(tried);
        assert!(
            peak < FOR_A_TEMPLATE,
            "seed {seed} takes {} MiB: {source:?}",
            peak >> 20
        );
        match result {
            Ok(_) => written += 1,
            Err(error) => {
                refused += 1;
                assert!(
                    error.to_string().starts_with("chat template: "),
                    "seed {seed}: {error}"
                );
            }
        }
    }
    assert!(
        written * 20 > count() && refused * 5 > count(),
        "{written} written, {refused} refused"
    );
    eprintln!("{written} chats written, {refused} templates refused");
}
