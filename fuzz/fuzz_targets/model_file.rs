//! Reads all of a language model's file: weights, settings, vocabulary, and a text by them.

use polychip_llm::{Config, Detokenizer, Gguf, Specials, Tokenizer};

/// Each step may refuse the file; none may panic.
pub(crate) fn read(file: &Gguf, text: &str) {
    for tensor in file.tensors() {
        let mut block = vec![0.0; tensor.kind().block_len()];
        let blocks = tensor.len() / block.len();
        if blocks > 0 {
            tensor.dequantize(blocks - 1, &mut block);
        }
    }
    let _settings = Config::read(file);
    let Ok(tokenizer) = Tokenizer::read(file) else {
        return;
    };
    for specials in [Specials::Parse, Specials::AsText] {
        let Ok(ids) = tokenizer.encode_prompt(text, specials) else {
            continue;
        };
        let mut stream = Detokenizer::new(&tokenizer);
        for id in ids {
            stream.push(id).expect("a token of the vocabulary has a text");
        }
        let _rest = stream.finish();
    }
}
