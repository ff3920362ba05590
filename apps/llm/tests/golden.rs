//! What others make of the same files: values of blocks by the Python package `gguf`, tokens by `tokenizers` and SentencePiece,
//! chats by Jinja.
//!
//! The golden files were written by `device-tests/witness/llm/golden.py`, whose other use here is to dequantise fresh files.
//! Where `cargo xtask vendor gguf` has not been run, what needs Python or SmolLM2 is reported as skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip_llm::gguf::{Gguf, TensorType};
use polychip_llm::testing::{GgufWriter, TinyModel};
use polychip_llm::{
    Architecture, ChatTemplate, Config, Detokenizer, Message, RopePairing, Specials, TokenId, Tokenizer,
};
use polychip_test_requirements::{Need, skipped};
use serde::Deserialize;
use serde::de::DeserializeOwned;

const MODEL: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const ABSENT: &str = "`cargo xtask vendor gguf` has not been run";

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = vec![
        Trial::test("values of blocks", || done(blocks())),
        Trial::test("tokens of pieces", || done(sentence_piece())),
        Trial::test("chats", || done(chats())),
        Trial::test("tokens of text", || done(as_text())),
    ];
    for pre in ["gpt-2", "smollm", "llama-bpe", "qwen2", "default"] {
        trials.push(Trial::test(format!("tokens by {pre}"), move || {
            done(byte_level(pre))
        }));
    }
    let vendor = root().join("target/vendor/gguf");
    let named = |variable: &str, file: &str| {
        let named = std::env::var_os(variable).filter(|path| !path.is_empty());
        Some(named.map_or_else(|| vendor.join(file), PathBuf::from)).filter(|path| path.is_file())
    };
    trials.push(match named("SMOLLM2_GGUF", MODEL) {
        Some(model) => Trial::test("SmolLM2", move || done(smollm2(&model))),
        None => skipped("SmolLM2", Need::Smollm2, ABSENT),
    });
    trials.push(match named("GGUF_PYTHON", "venv/bin/python") {
        Some(python) => Trial::test("values of fresh files", move || done(fresh(&python))),
        None => skipped("values of fresh files", Need::Gguf, ABSENT),
    });
    libtest_mimic::run(&arguments, trials).exit()
}

fn done(result: Result<()>) -> Result<(), Failed> {
    result.map_err(|error| format!("{error:#}").into())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn golden<T: DeserializeOwned>(name: &str) -> Result<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    (0..text.len())
        .step_by(2)
        .map(|at| Ok(u8::from_str_radix(&text[at..at + 2], 16)?))
        .collect()
}

fn floats(bytes: &[u8]) -> Vec<u32> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| u32::from_le_bytes(*bytes))
        .collect()
}

/// Bit by bit.
fn same(what: &str, ours: &[f32], theirs: &[u32]) -> Result<()> {
    ensure!(
        ours.len() == theirs.len(),
        "{what}: {} values, {} expected",
        ours.len(),
        theirs.len()
    );
    let differ = ours
        .iter()
        .zip(theirs)
        .position(|(ours, theirs)| ours.to_bits() != *theirs);
    if let Some(at) = differ {
        anyhow::bail!(
            "{what}: value {at} is {:e}, expected {:e}",
            ours[at],
            f32::from_bits(theirs[at])
        );
    }
    Ok(())
}

#[derive(Deserialize)]
struct Block {
    r#type: String,
    blocks: String,
    values: String,
}

fn blocks() -> Result<()> {
    let cases: Vec<Block> = golden("blocks.json")?;
    for kind in TensorType::ALL {
        let case = cases
            .iter()
            .find(|case| case.r#type == kind.name())
            .with_context(|| format!("no golden blocks of {kind}"))?;
        let data = unhex(&case.blocks)?;
        let weights = data.len() / kind.block_bytes() * kind.block_len();
        let mut writer = GgufWriter::new();
        writer.tensor("t", kind, &[weights as u64], data);
        let file = Gguf::read(writer.finish().into())?;
        let mut values = vec![0.0; weights];
        file.tensor("t")
            .context("it was written")?
            .dequantize(0, &mut values);
        same(kind.name(), &values, &floats(&unhex(&case.values)?))?;
    }
    Ok(())
}

/// Files of our writer, read and dequantised by the package `gguf`.
fn fresh(python: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (path, out) = (folder.path().join("tiny.gguf"), folder.path().join("values"));
    for (seed, kind) in TensorType::ALL.into_iter().enumerate() {
        let model = TinyModel {
            architecture: Architecture::Qwen3,
            kind,
            layers: 1,
            tied: false,
            seed: seed as u64,
        };
        std::fs::write(&path, model.writer().finish())?;
        let output = Command::new(python)
            .arg(root().join("device-tests/witness/llm/golden.py"))
            .arg("dequantize")
            .args([&path, &out])
            .output()
            .with_context(|| python.display().to_string())?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let theirs = floats(&std::fs::read(&out)?);
        let mut rest = &theirs[..];
        for tensor in Gguf::open(&path)?.tensors() {
            let mut values = vec![0.0; tensor.len()];
            tensor.dequantize(0, &mut values);
            let (theirs, others) = rest.split_at_checked(values.len()).context("too few values")?;
            same(&format!("{kind}, {}", tensor.name()), &values, theirs)?;
            rest = others;
        }
        ensure!(rest.is_empty(), "{} values too many", rest.len());
    }
    Ok(())
}

#[derive(Deserialize)]
struct ByteLevel {
    tokens: Vec<String>,
    specials: Vec<String>,
    merges: Vec<String>,
    texts: Vec<String>,
    ids: std::collections::BTreeMap<String, Vec<Vec<TokenId>>>,
    as_text: Vec<Vec<TokenId>>,
}

impl ByteLevel {
    fn tokenizer(&self, pre: &str) -> Result<Tokenizer> {
        let mut writer = GgufWriter::new();
        writer.text("tokenizer.ggml.model", "gpt2");
        writer.text("tokenizer.ggml.pre", pre);
        writer.texts("tokenizer.ggml.tokens", &self.tokens);
        writer.texts("tokenizer.ggml.merges", &self.merges);
        let kind = |token| if self.specials.contains(token) { 3 } else { 1 };
        let kinds: Vec<i32> = self.tokens.iter().map(kind).collect();
        writer.i32s("tokenizer.ggml.token_type", &kinds);
        Ok(Tokenizer::read(&Gguf::read(writer.finish().into())?)?)
    }
}

/// The ids of each text are these, and give the text back.
fn alike(
    tokenizer: &Tokenizer,
    texts: &[String],
    ids: &[Vec<TokenId>],
    specials: Specials,
    back: bool,
) -> Result<()> {
    ensure!(texts.len() == ids.len() && !texts.is_empty());
    for (text, expected) in texts.iter().zip(ids) {
        let ours = tokenizer.encode(text, specials)?;
        ensure!(&ours == expected, "{text:?} is {ours:?}, expected {expected:?}");
        let mut stream = Detokenizer::new(tokenizer).showing_controls();
        let mut pieces = String::new();
        for id in &ours {
            pieces += &stream.push(*id)?;
        }
        pieces += &stream.finish();
        ensure!(!back || &pieces == text, "{text:?} comes back as {pieces:?}");
    }
    Ok(())
}

fn byte_level(pre: &str) -> Result<()> {
    let golden: ByteLevel = golden("byte_level.json")?;
    let tokenizer = golden.tokenizer(pre)?;
    // qwen2 composes characters: a text may come back in another form
    alike(
        &tokenizer,
        &golden.texts,
        &golden.ids[pre],
        Specials::Parse,
        pre != "qwen2",
    )
}

fn as_text() -> Result<()> {
    let golden: ByteLevel = golden("byte_level.json")?;
    let tokenizer = golden.tokenizer("smollm")?;
    alike(&tokenizer, &golden.texts, &golden.as_text, Specials::AsText, true)?;
    ensure!(
        golden.as_text != golden.ids["smollm"],
        "no text names a control token"
    );
    Ok(())
}

#[derive(Deserialize)]
struct Pieces {
    tokens: Vec<String>,
    scores: Vec<f32>,
    kinds: Vec<i32>,
    unknown: u32,
    texts: Vec<String>,
    ids: Vec<Vec<TokenId>>,
    decoded: Vec<String>,
}

fn sentence_piece() -> Result<()> {
    let golden: Pieces = golden("sentence_piece.json")?;
    let mut writer = GgufWriter::new();
    writer.text("tokenizer.ggml.model", "llama");
    writer.texts("tokenizer.ggml.tokens", &golden.tokens);
    writer.f32s("tokenizer.ggml.scores", &golden.scores);
    writer.i32s("tokenizer.ggml.token_type", &golden.kinds);
    writer.u32("tokenizer.ggml.unknown_token_id", golden.unknown);
    let tokenizer = Tokenizer::read(&Gguf::read(writer.finish().into())?)?;
    alike(&tokenizer, &golden.texts, &golden.ids, Specials::Parse, false)?;
    for (ids, text) in golden.ids.iter().zip(&golden.decoded) {
        ensure!(
            &tokenizer.decode(ids)? == text,
            "{ids:?} is {:?}, expected {text:?}",
            tokenizer.decode(ids)?
        );
    }
    Ok(())
}

#[derive(Deserialize)]
struct Said {
    role: String,
    content: String,
}

fn messages(said: &[Said]) -> Vec<Message> {
    said.iter()
        .map(|said| Message::new(&said.role, &said.content))
        .collect()
}

#[derive(Deserialize)]
struct Chat {
    #[serde(default)]
    template: String,
    messages: Vec<Said>,
    #[serde(default)]
    add_generation_prompt: bool,
    text: String,
}

#[derive(Deserialize)]
struct Chats {
    tools: Box<serde_json::value::RawValue>,
    chats: Vec<Chat>,
}

fn chats() -> Result<()> {
    let golden: Chats = golden("templates.json")?;
    ensure!(!golden.chats.is_empty());
    let mut wrong = Vec::new();
    for chat in &golden.chats {
        let template = ChatTemplate::new(&chat.template)?
            .with_json("tools", golden.tools.get())?
            .with_time("2026-03-09T07:05:00")?;
        match template.render(&messages(&chat.messages), true) {
            Ok(text) if text == chat.text => {}
            other => wrong.push(format!(
                "{:?}\ngave     {other:?}\nexpected {:?}",
                chat.template, chat.text
            )),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

#[derive(Deserialize)]
struct Smollm2 {
    texts: Vec<String>,
    ids: Vec<Vec<TokenId>>,
    as_text: Vec<Vec<TokenId>>,
    chats: Vec<Chat>,
}

fn smollm2(path: &Path) -> Result<()> {
    let file = Gguf::open(path)?;
    let config = Config::read(&file)?;
    ensure!(
        (
            config.layers,
            config.embedding,
            config.feed_forward,
            config.heads,
            config.kv_heads,
            config.head_size
        ) == (30, 576, 1536, 9, 3, 64),
        "{config:?}"
    );
    ensure!(config.tied && config.vocabulary == 49_152 && config.rope_pairing == RopePairing::Interleaved);
    let golden: Smollm2 = golden("smollm2.json")?;
    let tokenizer = Tokenizer::read(&file)?;
    alike(&tokenizer, &golden.texts, &golden.ids, Specials::Parse, true)?;
    alike(&tokenizer, &golden.texts, &golden.as_text, Specials::AsText, true)?;
    let template = ChatTemplate::read(&file, &tokenizer)?.context("the file has a template")?;
    for chat in &golden.chats {
        let text = template.render(&messages(&chat.messages), chat.add_generation_prompt)?;
        ensure!(text == chat.text, "{text:?}, expected {:?}", chat.text);
    }
    let end = tokenizer.id("<|im_end|>").context("a token")?;
    ensure!(tokenizer.is_end(end) && tokenizer.is_control(end));
    Ok(())
}
