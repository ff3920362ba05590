//! `polychip generate`: one answer to one prompt.

use std::path::{Path, PathBuf};

use polychip_llm::{Finish, Message, Specials};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    FormatArguments, GenerationArguments, LanguageArguments, PrecisionOutput, answer, chat_prompt, prepare,
    prepare_speculation,
};
use crate::file;
use crate::output::Output;
use crate::peak::peak_bytes;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Prompt to answer; `-` reads it from standard input, without the last line end
    #[arg(long, value_name = "TEXT", required_unless_present = "prompt_file")]
    prompt: Option<String>,
    /// Read the prompt from this file, without the last line end
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// Continue the prompt as plain text, without the model's chat template
    #[arg(long, conflicts_with = "system")]
    raw: bool,
    /// System prompt
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Load the KV cache of earlier prompts and answers from this file if it exists, and save this one's to it; a
    /// common beginning is not processed again
    #[arg(long, value_name = "FILE")]
    prompt_cache: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: LanguageArguments,
    #[command(flatten)]
    answer: GenerationArguments,
    #[command(flatten)]
    format: FormatArguments,
}

/// Output of `generate --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GenerateOutput {
    /// Model file.
    model: String,
    /// The answer's text.
    text: String,
    /// The answer's tokens, without the one that ended it.
    tokens: Vec<u32>,
    /// Why it ended: `end` (the model's own), `length`, `stop`, `room`.
    finish: &'static str,
    /// Tokens of the prompt.
    prompt_tokens: usize,
    /// Tokens of these that the prompt cache already held.
    reused_tokens: usize,
    /// Prompt tokens per second, without reused tokens, planning and packing.
    prefill_tokens_per_s: f64,
    /// Answer tokens after the first, per second; null without a second one.
    decode_tokens_per_s: Option<f64>,
    /// Drafted and accepted tokens; null without `--speculate` or `--draft`.
    speculated: Option<Speculated>,
    /// The precision that was computed in.
    precision: PrecisionOutput,
    /// Bytes of the KV cache of prompt and answer.
    kv_bytes: u64,
    /// Peak memory of this process in bytes; null if the system does not report it.
    peak_bytes: Option<u64>,
}

/// Results of speculative decoding.
#[derive(Debug, Serialize, JsonSchema)]
struct Speculated {
    /// Runs that had draft tokens to verify.
    runs: usize,
    /// Drafted tokens.
    proposed: usize,
    /// Those of them that stood.
    accepted: usize,
}

/// The word for why an answer ended.
pub(crate) fn finish(finish: Finish) -> &'static str {
    match finish {
        Finish::End => "end",
        Finish::Length => "length",
        Finish::Stop(_) => "stop",
        Finish::Room => "room",
        Finish::Cancelled => "cancelled",
    }
}

impl Arguments {
    /// The prompt, from where it is given.
    fn prompt(&self) -> anyhow::Result<String> {
        let mut text = match (&self.prompt, &self.prompt_file) {
            (_, Some(file)) => file::read_text(file)?,
            (Some(prompt), None) if prompt == "-" => file::read_text(Path::new("-"))?,
            (Some(prompt), None) => return Ok(prompt.clone()),
            (None, None) => String::new(),
        };
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        Ok(text)
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    if let Some(file) = &arguments.prompt_cache {
        file::check_place(file)?;
    }
    let said = arguments.prompt()?;
    let mut wanted = arguments.answer.wanted()?;
    let model = arguments.model.open()?;
    wanted.grammar = arguments.format.grammar(&model)?;
    let prompt = if arguments.raw {
        model.tokenizer().encode_prompt(&said, Specials::AsText)?
    } else {
        let system = arguments.system.iter().map(|text| Message::new("system", text));
        let messages: Vec<Message> = system.chain([Message::new("user", &said)]).collect();
        chat_prompt(&model, &messages)?
    };
    let mut sequence = match &arguments.prompt_cache {
        Some(file) if file.exists() => model.load_sequence(file)?,
        _ => model.sequence()?,
    };
    let known = sequence.shared(&prompt).min(prompt.len().saturating_sub(1));
    prepare(&model, prompt.len() - known)?;
    prepare_speculation(&arguments.answer, &model, prompt.len(), &mut wanted)?;
    let shown = (!arguments.json).then_some(&mut *out);
    let generated = answer(&mut sequence, &prompt, &wanted, shown, None)?;
    let answer = GenerateOutput {
        model: arguments.model.model.display().to_string(),
        finish: finish(generated.finish),
        prompt_tokens: generated.prompt_tokens,
        reused_tokens: generated.reused_tokens,
        prefill_tokens_per_s: generated.prefill_tokens_per_s(),
        decode_tokens_per_s: generated.decode_tokens_per_s(),
        speculated: generated.speculated.map(|found| Speculated {
            runs: found.runs,
            proposed: found.proposed,
            accepted: found.accepted,
        }),
        precision: PrecisionOutput::of(&model),
        kv_bytes: sequence.bytes(),
        peak_bytes: peak_bytes(),
        text: generated.text,
        tokens: generated.tokens,
    };
    if arguments.json {
        out.json(&answer)?;
    } else {
        eprintln!("{}", speeds(&answer));
        eprintln!("precision: {}", model.precision());
        let phases = super::phases_text(&sequence);
        if !phases.is_empty() {
            eprintln!("{phases}");
        }
    }
    // behind the answer, which is there whatever becomes of the file
    match &arguments.prompt_cache {
        Some(file) => Ok(sequence.save(file)?),
        None => Ok(()),
    }
}

/// What is said behind an answer.
fn speeds(answer: &GenerateOutput) -> String {
    let decode = match answer.decode_tokens_per_s {
        Some(speed) => format!(", {} answer tokens at {speed:.1}/s", answer.tokens.len()),
        None => String::new(),
    };
    let drafted = match &answer.speculated {
        Some(found) => format!(
            ", {} of {} draft tokens accepted in {} runs",
            found.accepted, found.proposed, found.runs
        ),
        None => String::new(),
    };
    let known = match answer.reused_tokens {
        0 => String::new(),
        known => format!(" ({known} of them cached)"),
    };
    format!(
        "{} prompt tokens{known} at {:.1}/s{decode}{drafted}, stopped by {}",
        answer.prompt_tokens, answer.prefill_tokens_per_s, answer.finish
    )
}
