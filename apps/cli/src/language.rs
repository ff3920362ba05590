//! Shared code of the language model commands: `generate`, `chat`, `serve`, `logits`, `bench-llm` and `phases`.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod generate;
pub(crate) mod logits;
pub(crate) mod phases;
#[cfg(feature = "serve")]
pub(crate) mod serve;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use polychip::Runtime;
use polychip_llm::prefill_decode::{PhaseCosts, PhaseLimits, PhaseShare};
use polychip_llm::{
    Adapter, Completion, Draft, Generate, Generation, Grammar, LanguageModel, Message, Options, Sampling,
    Sequence, Specials, Speculation, Step, TokenId,
};

use crate::exit::{bad_input, usage};
use crate::file;
use crate::output::Output;
use crate::progress::Progress;
use crate::setup::{LearnArguments, PlanArguments, Precision, PrecisionArgument};

/// The only argument of a sandbox process, which reads chat templates and grammars for the process that started it.
const SANDBOX: &str = "--llm-sandbox";

/// The exit code of this process, if it is a sandbox. Else its own sandboxes are made known.
pub(crate) fn sandbox(line: &[OsString]) -> Option<u8> {
    if matches!(line, [_, only] if only == SANDBOX) {
        return Some(polychip_llm::sandbox::serve());
    }
    let program = std::env::current_exe().ok()?;
    // another program, such as an interpreter, that this is a library of would do something else
    if program.file_stem().is_some_and(|name| name == "polychip") {
        // the same file, even if it was replaced or deleted meanwhile
        let running = PathBuf::from("/proc/self/exe");
        let program = if running.exists() { running } else { program };
        polychip_llm::sandbox::set_command(program, [SANDBOX.into()]);
    }
    None
}

/// Starts sandboxes with an interpreter that has this library as the module `polychip`.
pub(crate) fn sandbox_by(interpreter: PathBuf) {
    let arguments = ["-m", "polychip", SANDBOX].map(OsString::from);
    polychip_llm::sandbox::set_command(interpreter, arguments);
}

/// The model and where it runs.
#[derive(Debug, clap::Args)]
pub(crate) struct LanguageArguments {
    /// Language model: a GGUF file, a safetensors folder, or an ONNX Runtime GenAI folder
    pub(crate) model: PathBuf,
    /// Context length in tokens, for prompt and answer together; default: 4096, or the model's maximum if smaller
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) context: Option<u32>,
    /// Apply a LoRA adapter from a GGUF file, scaled by SCALE (default: 1); repeatable
    #[arg(long, value_name = "FILE[:SCALE]", value_parser = scaled)]
    pub(crate) lora: Vec<(PathBuf, f32)>,
    /// Place prefill chunks and decode steps on the cheapest device by the costs in this file, written by `polychip
    /// phases -o`
    #[arg(long, value_name = "FILE", help_heading = "Phases")]
    pub(crate) phases: Option<PathBuf>,
    /// Maximum memory in MiB on all devices together for prefill and decode placement, weights included
    #[arg(long, value_name = "MIB", help_heading = "Phases", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) phase_memory: Option<u32>,
    #[command(flatten)]
    pub(crate) learn: LearnArguments,
    #[command(flatten)]
    pub(crate) plan: PlanArguments,
}

/// How tokens are chosen, and where an answer ends.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Answer")]
pub(crate) struct GenerationArguments {
    /// Maximum number of answer tokens
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: u32,
    /// Always take the most likely token
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "min_p", "seed"])]
    pub(crate) greedy: bool,
    /// Sampling temperature: lower is more predictable, 0 is --greedy
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    pub(crate) temperature: f32,
    /// Sample from this many of the most likely tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = 40)]
    pub(crate) top_k: usize,
    /// Sample from the most likely tokens whose probabilities add up to this
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    pub(crate) top_p: f32,
    /// Exclude tokens below this fraction of the most likely token's probability
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    pub(crate) min_p: f32,
    /// Repetition penalty on the last 64 tokens; 1 for none
    #[arg(long, value_name = "PENALTY", default_value_t = 1.0)]
    pub(crate) repetition: f32,
    /// Sampling seed; default: a different seed each time
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Stop the answer before this text; repeatable
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
    /// Speculative decoding: draft the next tokens and verify several in one run; the answer stays the same
    #[arg(long, value_name = "HOW", conflicts_with = "phases")]
    pub(crate) speculate: Option<Speculate>,
    /// Speculative decoding with this smaller draft model of the same vocabulary; the answer stays the same
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["phases", "speculate"])]
    pub(crate) draft: Option<PathBuf>,
}

/// How next tokens are drafted.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Speculate {
    /// Draft the tokens that followed the last occurrence of the latest tokens; faster where the text repeats itself
    PromptLookup,
}

/// What the answer's text must be.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Answer")]
pub(crate) struct FormatArguments {
    /// Constrain the answer to JSON of the schema in this file
    #[arg(long, value_name = "FILE", conflicts_with = "grammar")]
    pub(crate) json_schema: Option<PathBuf>,
    /// Constrain the answer to the grammar in this file, in Lark notation
    #[arg(long, value_name = "FILE")]
    pub(crate) grammar: Option<PathBuf>,
}

impl FormatArguments {
    /// The grammar that is asked for.
    pub(crate) fn grammar(&self, model: &LanguageModel) -> anyhow::Result<Option<Grammar>> {
        let (file, grammar) = match (&self.json_schema, &self.grammar) {
            (Some(file), _) => {
                let schema = serde_json::from_str(&file::read_text(file)?)
                    .map_err(|error| bad_input(format!("{}: no JSON: {error}", file.display())))?;
                (file, Grammar::json_schema(model, &schema))
            }
            (None, Some(file)) => (file, Grammar::lark(model, &file::read_text(file)?)),
            (None, None) => return Ok(None),
        };
        let grammar = grammar.map_err(|error| bad_input(format!("{}: {error}", file.display())))?;
        Ok(Some(grammar))
    }
}

impl LanguageArguments {
    /// Opens the model.
    pub(crate) fn open(&self) -> anyhow::Result<LanguageModel> {
        self.open_on(|| self.plan.runtime(None))
    }

    /// The same for a command that measures times.
    pub(crate) fn open_timed(&self) -> anyhow::Result<LanguageModel> {
        self.open_on(|| self.plan.timed_runtime(None))
    }

    fn open_on(&self, runtime: impl FnOnce() -> anyhow::Result<Runtime>) -> anyhow::Result<LanguageModel> {
        if self.phase_memory.is_some() && self.phases.is_none() {
            return Err(usage(
                "--phase-memory limits prefill and decode placement: it needs --phases FILE",
            ));
        }
        self.placed(self.on(&runtime()?)?)
    }

    /// Opens the model without prefill and decode placement, for a command that measures times.
    pub(crate) fn unplaced(&self) -> anyhow::Result<LanguageModel> {
        self.on(&self.plan.timed_runtime(None)?)
    }

    fn on(&self, runtime: &Runtime) -> anyhow::Result<LanguageModel> {
        let mut options = Options::new()
            .runtime(runtime)
            .policy(self.plan.policy().learn(self.learn.learn));
        options = match self.plan.precision {
            PrecisionArgument::Auto => options.auto_precision(),
            PrecisionArgument::Exact => options.precision(polychip::Precision::Exact),
            PrecisionArgument::Reduced => options.precision(polychip::Precision::Reduced),
        };
        if let Some(context) = self.context {
            options = options.capacity(context as usize);
        }
        for (file, scale) in &self.lora {
            options = options.adapter(Adapter::open(file, *scale)?);
        }
        open(&self.model, options)
    }

    fn placed(&self, model: LanguageModel) -> anyhow::Result<LanguageModel> {
        if let Some(file) = &self.phases {
            model.place_phases(costs(file)?, self.phase_limits())?;
        }
        Ok(model)
    }

    /// What plans by phases are held to.
    pub(crate) fn phase_limits(&self) -> PhaseLimits {
        PhaseLimits {
            memory_bytes: self.phase_memory.map(|mib| u64::from(mib) << 20),
            seconds_per_joule: self.plan.policy().joule_price().as_secs_f64(),
            largest_chunk: None,
        }
    }
}

/// A file, and a number behind its last colon.
fn scaled(text: &str) -> Result<(PathBuf, f32), String> {
    match text
        .rsplit_once(':')
        .map(|(file, scale)| (file, scale.parse::<f32>()))
    {
        Some((file, Ok(scale))) if scale.is_finite() => Ok((file.into(), scale)),
        _ => Ok((text.into(), 1.0)),
    }
}

/// Reads costs of phases from a file.
pub(crate) fn costs(file: &Path) -> anyhow::Result<PhaseCosts> {
    let text = file::read_text(file)?;
    serde_json::from_str(&text)
        .map_err(|error| bad_input(format!("{}: not a file of phase costs: {error}", file.display())))
}

/// Writes costs of phases to a file.
pub(crate) fn keep_costs(file: &Path, costs: &PhaseCosts) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(costs)?;
    file::write(file, (text + "\n").as_bytes())
}

/// Devices of each phase as text; empty without prefill and decode placement.
pub(crate) fn phases_text(sequence: &Sequence) -> String {
    let report = sequence.phases();
    let shares = |shares: &[PhaseShare]| {
        let words: Vec<String> = shares
            .iter()
            .map(|share| {
                let emulated = if share.emulated { " (emulated)" } else { "" };
                format!("{}{emulated} x {}", share.device, share.tokens)
            })
            .collect();
        words.join(", ")
    };
    if report.prompt.is_empty() && report.answer.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "prefill on {}; decode on {}",
        shares(&report.prompt),
        shares(&report.answer)
    );
    for moved in &report.moves {
        text.push_str(&format!(
            "; from position {} on {} instead of {}, which took {:.2} times the measured time",
            moved.position, moved.to, moved.from, moved.slowdown
        ));
    }
    text
}

fn open(path: &Path, options: Options) -> anyhow::Result<LanguageModel> {
    use anyhow::Context as _;
    let _progress = Progress::of(format!("reading {}", path.display()));
    LanguageModel::open(path, options).with_context(|| path.display().to_string())
}

/// The precision that a language model computes in, and why.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct PrecisionOutput {
    /// `exact` or `reduced`.
    pub(crate) chosen: &'static str,
    /// Mean Kullback-Leibler divergence in nats of reduced precision from exact precision; null if it was not measured
    /// or is not finite.
    divergence: Option<f64>,
    /// Why this precision was chosen.
    pub(crate) reason: String,
}

impl PrecisionOutput {
    pub(crate) fn of(model: &LanguageModel) -> PrecisionOutput {
        let choice = model.precision();
        PrecisionOutput {
            chosen: Precision::name(choice.precision),
            divergence: choice.divergence,
            reason: choice.reason.clone(),
        }
    }
}

/// Plans and compiles for a prompt of this many tokens, and shows progress if that takes long.
pub(crate) fn prepare(model: &LanguageModel, prompt: usize) -> anyhow::Result<()> {
    let _progress = Progress::of("packing weights");
    Ok(model.prepare(prompt)?)
}

impl GenerationArguments {
    pub(crate) fn wanted(&self) -> anyhow::Result<Generate> {
        let seed = match self.seed {
            Some(seed) => seed,
            None => {
                getrandom::u64().map_err(|error| anyhow::anyhow!("cannot draw a random seed: {error}"))?
            }
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
            sampling,
            stop: self.stop.clone(),
            speculation: self
                .speculate
                .map(|Speculate::PromptLookup| Speculation::PromptLookup),
            ..Generate::greedy(self.max_tokens as usize)
        })
    }
}

/// Plans and compiles the graphs of speculative decoding for a prompt of this length, including those of a draft model.
pub(crate) fn prepare_speculation(
    arguments: &GenerationArguments,
    model: &LanguageModel,
    prompt: usize,
    wanted: &mut Generate,
) -> anyhow::Result<()> {
    if let Some(file) = &arguments.draft {
        let options = Options::new()
            .runtime(model.runtime())
            .policy(model.policy().clone())
            .precision(model.precision().precision)
            .capacity_up_to(model.capacity());
        let smaller = open(file, options)?;
        prepare(&smaller, prompt)?;
        let draft = Draft::new(smaller, model).map_err(|error| bad_input(error.to_string()))?;
        wanted.speculation = Some(Speculation::Draft(draft));
    }
    if wanted.speculation.is_some() {
        model.prepare_speculation()?;
    }
    Ok(())
}

/// Answers a prompt, and prints the answer as it comes where there is somewhere to print it. Ends once `stop` is set.
pub(crate) fn answer(
    sequence: &mut Sequence,
    prompt: &[TokenId],
    wanted: &Generate,
    mut out: Option<&mut Output>,
    stop: Option<&AtomicBool>,
) -> anyhow::Result<Completion> {
    let mut show = |piece: &str| match out.as_mut().filter(|_| !piece.is_empty()) {
        Some(out) => out.piece(piece),
        None => Ok(()),
    };
    let mut generation = Generation::new(&mut *sequence, prompt, wanted)?;
    loop {
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            show(&generation.cancel())?;
            break;
        }
        match generation.step(usize::MAX)? {
            Step::Read => {}
            Step::Piece(piece) => show(&piece)?,
            Step::Finished(rest) => {
                show(&rest)?;
                break;
            }
        }
    }
    let (_, answer) = generation.into_completion();
    for words in &sequence.phases().quarantined {
        eprintln!("warning: {words}");
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
            "{} has no chat template; use `polychip generate --raw` to continue a text",
            model.path().display()
        ))
    })?;
    let text = template.render(messages, true)?;
    Ok(model.tokenizer().encode_prompt(&text, Specials::Parse)?)
}
