//! Language models on the command line: what `generate`, `chat`, `serve`, `logits` and `bench-llm` share.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod generate;
pub(crate) mod logits;
#[cfg(feature = "serve")]
pub(crate) mod serve;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use polychip_llm::{
    Answer, Generate, LanguageModel, Message, Options, Sampling, Sequence, Specials, TokenId,
};

use crate::exit::bad_input;
use crate::output::Output;
use crate::progress::Progress;
use crate::setup::PlanArguments;

/// The model and where it runs.
#[derive(Debug, clap::Args)]
pub(crate) struct LanguageArguments {
    /// Language model in a GGUF file
    pub(crate) model: PathBuf,
    /// Room for so many tokens of prompt and answer together (4096 where left out, or as many as the model knows)
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) context: Option<u32>,
    #[command(flatten)]
    pub(crate) plan: PlanArguments,
}

/// How tokens are chosen, and where an answer ends.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Answer")]
pub(crate) struct AnswerArguments {
    /// Most tokens of the answer
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: u32,
    /// Take the most likely token always
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "min_p", "seed"])]
    pub(crate) greedy: bool,
    /// What logits are divided by: less is more predictable, 0 is --greedy
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    pub(crate) temperature: f32,
    /// Choose among so many of the most likely tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = 40)]
    pub(crate) top_k: usize,
    /// Choose among the most likely tokens that have this probability together
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    pub(crate) top_p: f32,
    /// Leave out tokens below this part of the most likely one's probability
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    pub(crate) min_p: f32,
    /// Make tokens of the last 64 less likely; 1 for no change
    #[arg(long, value_name = "PENALTY", default_value_t = 1.0)]
    pub(crate) repetition: f32,
    /// Seed of the draws; another one each time where left out
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// End the answer before this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
}

impl LanguageArguments {
    /// Opens the model.
    pub(crate) fn open(&self) -> anyhow::Result<LanguageModel> {
        let runtime = self.plan.runtime(None)?;
        let mut options = Options::new().runtime(&runtime).policy(self.plan.policy());
        if let Some(context) = self.context {
            options = options.capacity(context as usize);
        }
        open(&self.model, options)
    }
}

fn open(path: &Path, options: Options) -> anyhow::Result<LanguageModel> {
    use anyhow::Context as _;
    let _progress = Progress::of(format!("reading {}", path.display()));
    LanguageModel::open(path, options).with_context(|| path.display().to_string())
}

/// Plans and compiles what a prompt of so many tokens needs, and says so where it takes long.
pub(crate) fn prepare(model: &LanguageModel, prompt: usize) -> anyhow::Result<()> {
    let _progress = Progress::of("packing weights");
    Ok(model.prepare(prompt)?)
}

impl AnswerArguments {
    pub(crate) fn wanted(&self) -> anyhow::Result<Generate> {
        let seed = match self.seed {
            Some(seed) => seed,
            None => getrandom::u64().map_err(|error| anyhow::anyhow!("no random seed: {error}"))?,
        };
        let mut sampling = Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            ..Sampling::usual(seed)
        };
        if self.greedy {
            sampling = Sampling::greedy();
        }
        sampling.repetition = self.repetition;
        Ok(Generate {
            max_tokens: self.max_tokens as usize,
            sampling,
            stop: self.stop.clone(),
            ignore_end: false,
        })
    }
}

/// Answers a prompt, and prints the answer as it comes where there is somewhere to print it.
pub(crate) fn answer(
    sequence: &mut Sequence,
    prompt: &[TokenId],
    wanted: &Generate,
    mut out: Option<&mut Output>,
) -> anyhow::Result<Answer> {
    let mut failed = None;
    let answer = sequence.generate(prompt, wanted, &mut |piece| match out
        .as_mut()
        .map_or(Ok(()), |out| out.piece(piece))
    {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    if let Some(out) = out {
        out.text("")?;
    }
    Ok(answer)
}

/// The tokens of a chat, up to where an answer begins.
pub(crate) fn chat_prompt(model: &LanguageModel, messages: &[Message]) -> anyhow::Result<Vec<TokenId>> {
    let template = model.template().ok_or_else(|| {
        bad_input(format!(
            "{} has no chat template: `--raw` gives it a text to go on with",
            model.path().display()
        ))
    })?;
    let text = template.render(messages, true)?;
    Ok(model.tokenizer().encode_prompt(&text, Specials::Parse)?)
}
