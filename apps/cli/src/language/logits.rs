//! `polychip logits`: the logits after each token of a given text, to compare a model with another implementation.

use std::path::PathBuf;

use anyhow::Context as _;
use polychip::DType;
use polychip_llm::Specials;

use super::LanguageArguments;
use crate::array::Array;
use crate::exit::bad_input;
use crate::output::Output;
use crate::progress::Progress;
use crate::{array, file, npy};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Tokens: a one-dimensional NumPy file of integers
    #[arg(long, value_name = "FILE.npy", required_unless_present = "text")]
    tokens: Option<PathBuf>,
    /// Use the tokens of this text instead, with the model's beginning-of-text tokens
    #[arg(long, value_name = "FILE", conflicts_with = "tokens")]
    text: Option<PathBuf>,
    /// Use only the first N tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    first: Option<u32>,
    /// Write the tokens to this file as u32
    #[arg(long, value_name = "FILE.npy")]
    save_tokens: Option<PathBuf>,
    /// Write the logits to this file as f32 `[tokens, vocabulary]`; row i follows token i
    #[arg(long, value_name = "FILE.npy")]
    save: PathBuf,
    #[command(flatten)]
    model: LanguageArguments,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    if arguments.model.phases.is_some() {
        return Err(crate::exit::bad_input(
            "--phases cannot be used here: one graph over all devices computes the logits of every token",
        ));
    }
    for path in [Some(&arguments.save), arguments.save_tokens.as_ref()]
        .into_iter()
        .flatten()
    {
        file::check_place(path)?;
    }
    let given = arguments.tokens.as_deref().map(tokens).transpose()?;
    let text = arguments.text.as_deref().map(file::read_text).transpose()?;
    let model = arguments.model.open()?;
    let mut tokens = match (given, text) {
        (Some(tokens), _) => tokens,
        (None, text) => model
            .tokenizer()
            .encode_prompt(&text.unwrap_or_default(), Specials::AsText)?,
    };
    if let Some(first) = arguments.first {
        tokens.truncate(first as usize);
    }
    let vocabulary = model.sizes().vocabulary as usize;
    let mut bytes = Vec::with_capacity(tokens.len() * vocabulary * 4);
    {
        let _progress = Progress::of(format!("reading {} tokens", tokens.len()));
        model.sequence()?.append_all(&tokens, |logits| {
            bytes.extend(logits.iter().flat_map(|logit| logit.to_le_bytes()));
        })?;
    }
    let array = Array {
        dtype: DType::F32,
        shape: vec![tokens.len(), vocabulary],
        bytes,
    };
    if let Some(path) = &arguments.save_tokens {
        let array = Array {
            dtype: DType::U32,
            shape: vec![tokens.len()],
            bytes: tokens.iter().flat_map(|token| token.to_le_bytes()).collect(),
        };
        file::write(path, &npy::write(&array)?)?;
    }
    file::write(&arguments.save, &npy::write(&array)?)?;
    out.text(&format!(
        "{} rows of {vocabulary} logits: {}\nprecision: {}",
        tokens.len(),
        arguments.save.display(),
        model.precision()
    ))
}

fn tokens(path: &std::path::Path) -> anyhow::Result<Vec<u32>> {
    let array = npy::read(&file::read(path)?).with_context(|| path.display().to_string())?;
    let wrong = || {
        bad_input(format!(
            "{}: tokens must be a one-dimensional array of non-negative integers, not {} of shape {:?}",
            path.display(),
            array.dtype.name(),
            array.shape
        ))
    };
    if array.shape.len() != 1 || !array.dtype.is_int() {
        return Err(wrong());
    }
    let numbers = array::numbers(array.dtype, &array.bytes).ok_or_else(wrong)?;
    let tokens = numbers.into_iter().map(|number| {
        (0.0..=f64::from(u32::MAX))
            .contains(&number)
            .then_some(number as u32)
            .ok_or_else(wrong)
    });
    tokens.collect()
}
