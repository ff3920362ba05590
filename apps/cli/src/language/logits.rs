//! `polychip logits`: the logits behind each token of a given text, for comparing a model with another implementation.

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
    /// Tokens, as integers of a NumPy file of one axis
    #[arg(long, value_name = "FILE.npy", required_unless_present = "text")]
    tokens: Option<PathBuf>,
    /// The tokens of this text instead, with those that the model begins a text with
    #[arg(long, value_name = "FILE", conflicts_with = "tokens")]
    text: Option<PathBuf>,
    /// Only the first so many tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    first: Option<u32>,
    /// Write the tokens here, u32
    #[arg(long, value_name = "FILE.npy")]
    save_tokens: Option<PathBuf>,
    /// Write the logits here, f32 `[tokens, vocabulary]`: row i is behind token i
    #[arg(long, value_name = "FILE.npy")]
    save: PathBuf,
    #[command(flatten)]
    model: LanguageArguments,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    if arguments.model.phases.is_some() {
        return Err(crate::exit::bad_input(
            "logits of every token are of one graph over all devices: leave --phases out",
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
        "{} rows of {vocabulary} logits: {}",
        tokens.len(),
        arguments.save.display()
    ))
}

fn tokens(path: &std::path::Path) -> anyhow::Result<Vec<u32>> {
    let array = npy::read(&file::read(path)?).with_context(|| path.display().to_string())?;
    let wrong = || {
        bad_input(format!(
            "{}: tokens are integers of 0 or more on one axis, not {} of shape {:?}",
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
