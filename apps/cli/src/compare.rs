//! `polychip compare`: compares two models, two ways to run one model, or array files, layer by layer, with time and
//! memory side by side.
//!
//! Invariants:
//! 1. Both sides compute from the same inputs.
//! 2. The first drifting layer is the first in execution order of the first side's graph: none of its compared inputs
//!    drifts.
//! 3. Timed runs alternate, and keep no intermediate tensors.
//!
//! Not here: how tensors are paired (`pair`, `rows`) and kept (`side`), what an error is (`measure`).

mod loss;
mod measure;
mod output;
mod pair;
mod rows;
mod side;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use polychip::settings::pin;
use polychip::{Model, Runtime};

use measure::Limits;
pub(crate) use output::CompareOutput;
use output::{LayerLine, LimitsLine, Memory, SideLine, some};
use rows::{Row, groups, judged, of_files, of_model_and_files, of_models};
use side::{FileSide, ModelSide, inputs_of};

use crate::array::Array;
use crate::bench::Latency;
use crate::exit::{Code, bad_input, failure, usage};
use crate::input::InputArguments;
use crate::load::Load;
use crate::output::Output;
use crate::progress::Progress;
use crate::run::feed;
use crate::setup::{ModelArguments, Precision, SessionArguments};

/// Runs of a turn.
const BLOCK: u64 = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Reference: an ONNX model, a .npy file, or a folder of .npy files named after tensors, as `run --save` writes
    /// them
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Candidate: the same kinds; default: the model of A, run with the options under "Side B"
    #[arg(value_name = "B")]
    b: Option<PathBuf>,
    /// Set the size of a named dimension
    #[arg(long = "dim", value_name = "NAME=N", value_parser = crate::setup::dimension)]
    dims: Vec<(String, usize)>,
    /// Set the shape of an input, and with it the model's open dimensions
    #[arg(long = "shape", value_name = "INPUT=1x3x48x192", value_parser = crate::setup::shape)]
    shapes: Vec<(String, Vec<usize>)>,
    /// Report drift where a layer's largest error exceeds this share of its largest value; default
    /// if none of these three options is given: 0.001, or 0.05 for 16-bit floats and 0.2 for
    /// quantised integers
    #[arg(long, value_name = "SHARE", value_parser = limit, help_heading = "Drift")]
    max_error: Option<f64>,
    /// Report drift where the cosine of a layer's values on both sides is below this
    #[arg(long, value_name = "COSINE", value_parser = limit, help_heading = "Drift")]
    min_cosine: Option<f64>,
    /// Report drift where a layer's signal-to-noise ratio is below this, in decibels
    #[arg(long, value_name = "DB", value_parser = limit, help_heading = "Drift")]
    min_snr: Option<f64>,
    /// Exit with code 1 if a layer drifts, if an output drifts, or if B's median time exceeds A's by more than
    /// PERCENT (default: 0); repeatable
    #[arg(long, value_name = "drift|output|slower[=PERCENT]", value_parser = gate)]
    fail_on: Vec<Gate>,
    /// Warm-up runs of each side
    #[arg(long, value_name = "N", default_value_t = 5)]
    warmup: u64,
    /// Timed runs of each side, alternating; 0 for none
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    iters: u64,
    /// Print all layers
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "all")]
    json: bool,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    side: SideArguments,
    #[command(flatten)]
    session: SessionArguments,
}

/// What is other on the second side.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Side B")]
struct SideArguments {
    /// Devices of B; see `--devices`
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::builder::NonEmptyStringValueParser::new())]
    b_devices: Vec<String>,
    /// Run the nodes of B whose names match a pattern on a device; repeatable; see `--pin`
    #[arg(long, value_name = "PATTERN=DEVICE", value_parser = pin, conflicts_with = "b_plan")]
    b_pin: Vec<(String, String)>,
    /// Plan of B; see `--plan`
    #[arg(long, value_name = "FILE", conflicts_with = "b_devices")]
    b_plan: Option<PathBuf>,
    /// Numeric precision of B; see `--precision`
    #[arg(long, value_enum)]
    b_precision: Option<Precision>,
    /// Maximum number of CPU threads for B; see `--threads`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    b_threads: Option<u32>,
}

impl SideArguments {
    fn is_empty(&self) -> bool {
        let is_bare = self.b_devices.is_empty() && self.b_pin.is_empty() && self.b_plan.is_none();
        is_bare && self.b_precision.is_none() && self.b_threads.is_none()
    }

    /// How the second side is run, where the first one is run so.
    fn of(&self, a: &SessionArguments) -> SessionArguments {
        let mut b = a.clone();
        if !self.b_devices.is_empty() {
            b.plan_arguments.devices.clone_from(&self.b_devices);
            (b.plan, b.locked) = (None, false);
        }
        if !self.b_pin.is_empty() {
            b.plan_arguments.pin.clone_from(&self.b_pin);
            (b.plan, b.locked) = (None, false);
        }
        if self.b_plan.is_some() {
            b.plan.clone_from(&self.b_plan);
            b.locked = false;
            b.plan_arguments.devices.clear();
        }
        if let Some(precision) = self.b_precision {
            b.plan_arguments.precision = precision.into();
        }
        b.plan_arguments.threads = self.b_threads.or(b.plan_arguments.threads);
        b
    }
}

/// What fails a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gate {
    /// A layer drifts.
    Drift,
    /// An output drifts.
    Output,
    /// The second side takes longer by more than so many per cent.
    Slower(f64),
}

/// Reads `drift`, `output` or `slower[=PERCENT]`.
fn gate(text: &str) -> Result<Gate, String> {
    let percent = match text.split_once('=') {
        None if text == "drift" => return Ok(Gate::Drift),
        None if text == "output" => return Ok(Gate::Output),
        None if text == "slower" => "0",
        Some(("slower", percent)) => percent,
        _ => return Err("write drift, output, slower or slower=PERCENT".into()),
    };
    match percent.parse::<f64>() {
        Ok(value) if (0.0..=100_000.0).contains(&value) => Ok(Gate::Slower(value)),
        _ => Err(format!(
            "invalid percentage {percent:?}: expected a number from 0 to 100000"
        )),
    }
}

/// Reads a limit, which is a finite number.
fn limit(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("{text:?} is not a number")),
    }
}

impl Gate {
    /// Why the comparison fails, if so.
    fn trips(self, answer: &CompareOutput) -> Option<String> {
        let drifting = |lines: Vec<&LayerLine>, what: &str, gate: &str| {
            let count = lines.iter().filter(|line| line.drifts).count();
            (count > 0).then(|| format!("{count} of {} {what} drift (--fail-on {gate})", lines.len()))
        };
        match self {
            Gate::Drift => drifting(answer.layers.iter().collect(), "layers", "drift"),
            Gate::Output => {
                let outputs = answer.layers.iter().filter(|line| line.is_output);
                drifting(outputs.collect(), "outputs", "output")
            }
            Gate::Slower(limit) => {
                let (a, b) = (answer.a.latency_ns?.p50 as f64, answer.b.latency_ns?.p50 as f64);
                let percent = 100.0 * (b / a.max(1.0) - 1.0);
                (percent > limit).then(|| {
                    format!("B is slower by {percent:.1} %; the limit is {limit} % (--fail-on slower)")
                })
            }
        }
    }
}

/// One side: what it is.
enum Side<'a> {
    Model(Box<ModelSide<'a>>),
    Files(FileSide),
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    if arguments.b.is_none() && arguments.side.is_empty() {
        return Err(usage(
            "nothing to compare A with: give B, or run A's model another way with --b-precision, --b-devices, --b-pin, --b-plan or --b-threads",
        ));
    }
    let path_b = arguments.b.as_ref().unwrap_or(&arguments.a);
    let (files_a, files_b) = (FileSide::at(&arguments.a)?, FileSide::at(path_b)?);
    let has_no_time = files_a.is_some() || files_b.is_some() || arguments.iters == 0;
    let is_timed = |gate: &Gate| matches!(gate, Gate::Slower(_));
    if has_no_time && arguments.fail_on.iter().any(is_timed) {
        return Err(usage(
            "--fail-on slower needs two models and timed runs (--iters)",
        ));
    }
    if files_b.is_some() && !arguments.side.is_empty() {
        return Err(usage(
            "the options under \"Side B\" need a model, and B is read from files",
        ));
    }
    let settings_b = arguments.side.of(&arguments.session);
    // arrays alone need no device
    let runtime = match (&files_a, &files_b) {
        (Some(_), Some(_)) => None,
        _ => Some(arguments.session.runtime()?),
    };
    let (mut a, mut b) = arguments.sides((files_a, files_b), path_b, runtime.as_ref(), &settings_b)?;
    let limits = arguments.limits(&a, &b);
    let (layers, alone_a, alone_b) = compared(&mut a, &mut b, limits.0)?;
    let latencies = match (&a, &b) {
        (Side::Model(a), Side::Model(b)) if arguments.iters > 0 => Some(arguments.timed(a, b)?),
        _ => None,
    };
    let mut answer = CompareOutput {
        a: line_of(&arguments.a, &arguments.session, &a),
        b: line_of(path_b, &settings_b, &b),
        limits: LimitsLine {
            max_error: limits.0.most_relative,
            min_cosine: limits.0.least_cosine,
            min_snr_db: limits.0.least_snr_db,
            why: limits.1,
        },
        first_drift: layers.iter().find(|line| line.drifts).cloned(),
        layers,
        has_made_inputs: [&a, &b].iter().any(|side| side.has_made_inputs()),
        alone_a,
        alone_b,
        failed: Vec::new(),
        shows_all: arguments.all,
    };
    if let Some((time_a, time_b)) = latencies {
        answer.a.latency_ns = Some(time_a);
        answer.b.latency_ns = Some(time_b);
    }
    answer.failed = arguments
        .fail_on
        .iter()
        .filter_map(|gate| gate.trips(&answer))
        .collect();
    if arguments.json {
        out.json(&answer)?
    } else {
        out.text(&answer.to_string())?
    }
    if answer.failed.is_empty() {
        Ok(())
    } else {
        Err(failure(Code::Differs, answer.failed.join("; ")))
    }
}

impl Arguments {
    /// Reads both sides, and runs the models once.
    fn sides<'a>(
        &'a self,
        files: (Option<FileSide>, Option<FileSide>),
        path_b: &Path,
        runtime: Option<&'a Runtime>,
        settings_b: &'a SessionArguments,
    ) -> anyhow::Result<(Side<'a>, Side<'a>)> {
        let Some(runtime) = runtime else {
            let (Some(a), Some(b)) = files else {
                return Err(usage("invariant: a model has a runtime"));
            };
            return Ok((Side::Files(a), Side::Files(b)));
        };
        let load = |path: &Path| {
            let arguments = ModelArguments {
                model: path.to_owned(),
                dims: self.dims.clone(),
                shapes: self.shapes.clone(),
            };
            arguments.load(runtime)
        };
        match files {
            (Some(files), _) => {
                let model = load(path_b)?;
                let (model, given) = self.filled(self.beside(&model, &files)).read(&model)?;
                let b = ModelSide::new(runtime, settings_b, model, given)?;
                Ok((Side::Files(files), Side::Model(Box::new(b))))
            }
            (None, Some(files)) => {
                let model = load(&self.a)?;
                let (model, given) = self.filled(self.beside(&model, &files)).read(&model)?;
                let a = ModelSide::new(runtime, &self.session, model, given)?;
                Ok((Side::Model(Box::new(a)), Side::Files(files)))
            }
            (None, None) => {
                let (model, given) = self.filled(Vec::new()).read(&load(&self.a)?)?;
                let (other, given_b) = match &self.b {
                    None => (model.clone(), given.clone()),
                    // its open sizes are those of the values
                    Some(path) => inputs_of(&runtime.load(path)?, &given)?,
                };
                let a = ModelSide::new(runtime, &self.session, model, given)?;
                let b = ModelSide::new(runtime, settings_b, other, given_b)?;
                Ok((Side::Model(Box::new(a)), Side::Model(Box::new(b))))
            }
        }
    }

    /// Inputs as they are asked for, with those that are not made of seed 0.
    fn filled(&self, more: Vec<(String, PathBuf)>) -> InputArguments {
        InputArguments {
            inputs: self.inputs.inputs.iter().cloned().chain(more).collect(),
            fill: Some(self.inputs.fill.unwrap_or(0)),
        }
    }

    /// Files beside the other side's arrays for a model's inputs, without the inputs that were given.
    fn beside(&self, model: &Model, files: &FileSide) -> Vec<(String, PathBuf)> {
        let graph = model.graph();
        let names = graph.inputs.iter().map(|id| &graph.tensor(*id).name);
        let free = names.filter(|name| self.inputs.inputs.iter().all(|(other, _)| other != *name));
        free.filter_map(|name| Some((name.clone(), files.file_of(name)?.clone())))
            .collect()
    }

    /// What an error may be, and why.
    fn limits(&self, a: &Side<'_>, b: &Side<'_>) -> (Limits, &'static str) {
        let given = Limits {
            most_relative: self.max_error,
            least_cosine: self.min_cosine,
            least_snr_db: self.min_snr,
        };
        if given != Limits::default() {
            return (given, "as asked for");
        }
        let is_any = |is: &dyn Fn(&ModelSide<'_>) -> bool| {
            [a, b]
                .iter()
                .any(|side| matches!(side, Side::Model(side) if is(side)))
        };
        let (most, why) = if is_any(&|side| side.is_quantised()) {
            (0.2, output::INTEGERS)
        } else if is_any(&|side| side.is_half()) {
            (0.05, "16-bit floats are computed")
        } else {
            (0.001, "neither side rounds below 32 bits")
        };
        let limits = Limits {
            most_relative: Some(most),
            ..Limits::default()
        };
        (limits, why)
    }

    /// Times of both sides' runs, in turns.
    fn timed(&self, a: &ModelSide<'_>, b: &ModelSide<'_>) -> anyhow::Result<(Latency, Latency)> {
        let progress = Progress::steps("measuring", 2 * (self.warmup + self.iters));
        let (inputs_a, inputs_b) = (feed(&a.session, &a.given)?, feed(&b.session, &b.given)?);
        let mut loads = [
            Load::new(&a.session, inputs_a.iter().collect(), 1),
            Load::new(&b.session, inputs_b.iter().collect(), 1),
        ];
        for load in &mut loads {
            for _ in 0..self.warmup {
                load.once()?;
                progress.step();
            }
            load.times.clear();
        }
        let mut left = self.iters;
        let mut turn = 0;
        while left > 0 {
            let block = left.min(BLOCK);
            left -= block;
            // alternate the order, so that drift affects both sides equally
            for place in [turn, 1 - turn] {
                for _ in 0..block {
                    loads[place].once()?;
                    progress.step();
                }
            }
            turn = 1 - turn;
        }
        let [mut a, mut b] = loads;
        let times = |load: &mut Load<'_>| Latency::of(std::mem::take(&mut load.times));
        Ok((times(&mut a), times(&mut b)))
    }
}

/// All layers that both sides have, and those that one has alone.
fn compared(
    a: &mut Side<'_>,
    b: &mut Side<'_>,
    limits: Limits,
) -> anyhow::Result<(Vec<LayerLine>, Vec<String>, Vec<String>)> {
    let (rows, alone_a, alone_b) = match (&*a, &*b) {
        (Side::Model(a), Side::Model(b)) => of_models(a, b),
        (Side::Model(a), Side::Files(b)) => of_model_and_files(a, b),
        (Side::Files(a), Side::Model(b)) => {
            let (mut rows, alone_b, alone_a) = of_model_and_files(b, a);
            for row in &mut rows {
                std::mem::swap(&mut row.a, &mut row.b);
                row.scales.reverse();
            }
            (rows, alone_a, alone_b)
        }
        (Side::Files(a), Side::Files(b)) => of_files(a, b),
    };
    if rows.is_empty() {
        return Err(bad_input(format!(
            "the sides have no common layer: A has {}, B has {}",
            some(&alone_a),
            some(&alone_b)
        )));
    }
    let mut lines: Vec<Option<LayerLine>> = rows.iter().map(|_| None).collect();
    for group in groups(&rows) {
        let names = |name: &dyn Fn(&Row) -> String| group.iter().map(|place| name(&rows[*place])).collect();
        let values_a = a.values(&names(&|row| row.a.clone()))?;
        let values_b = b.values(&names(&|row| row.b.clone()))?;
        for place in group {
            let row = &rows[place];
            let values = values_a.get(&row.a).zip(values_b.get(&row.b));
            let (x, y) = values.ok_or_else(|| bad_input(format!("{:?} has no values", row.a)))?;
            lines[place] = judged(row, x, y, limits);
        }
    }
    let graph = match (&*a, &*b) {
        (Side::Model(side), _) | (_, Side::Model(side)) => Some(side.model.graph()),
        _ => None,
    };
    if let Some(graph) = graph {
        let ratios = rows.iter().zip(&lines).filter_map(|(row, line)| {
            let line = line.as_ref()?;
            Some((row.tensor?, line.ratio()))
        });
        let read = loss::least_read(graph, &ratios.collect());
        for (row, line) in rows.iter().zip(&mut lines) {
            let least = row.tensor.and_then(|id| read.get(&id)).copied();
            if let (Some(line), Some(least)) = (line, least.filter(|least| least.is_finite())) {
                line.read_snr_db = Some(least);
            }
        }
    }
    Ok((lines.into_iter().flatten().collect(), alone_a, alone_b))
}

impl Side<'_> {
    /// Whether an input was made from a seed.
    fn has_made_inputs(&self) -> bool {
        matches!(self, Side::Model(side) if side.given.iter().any(|given| given.file.is_none()))
    }

    /// The values of tensors.
    fn values(&mut self, names: &BTreeSet<String>) -> anyhow::Result<BTreeMap<String, Array>> {
        match self {
            Side::Model(side) => side.values(names),
            Side::Files(side) => {
                let arrays = names.iter().map(|name| Ok((name.clone(), side.array(name)?)));
                arrays.collect()
            }
        }
    }
}

/// What a side is, and its figures.
fn line_of(path: &Path, settings: &SessionArguments, side: &Side<'_>) -> SideLine {
    let mut line = SideLine::new(path);
    if let Side::Model(side) = side {
        let report = side.session.report();
        line.precision = Some(settings.plan_arguments.precision.resolved());
        line.plan = settings.plan.as_ref().map(|plan| plan.display().to_string());
        line.devices = side.devices();
        line.emulated = report.emulated;
        line.kept_deviation = side.kept_deviation;
        line.memory = Some(Memory {
            model_bytes: side.model.graph().constant_bytes(),
            constant_bytes: report.parts.iter().map(|part| part.constant_bytes).sum(),
            intermediate_bytes: report.parts.iter().map(|part| part.intermediate_bytes).sum(),
            arena_bytes: report.arena_bytes,
        });
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_drift_output_and_slower_with_a_limit() {
        assert_eq!(gate("drift"), Ok(Gate::Drift));
        assert_eq!(gate("output"), Ok(Gate::Output));
        assert_eq!(gate("slower"), Ok(Gate::Slower(0.0)));
        assert_eq!(gate("slower=2.5"), Ok(Gate::Slower(2.5)));
        for bad in ["", "drift=1", "faster", "slower=", "slower=-1", "slower=nan"] {
            assert!(gate(bad).is_err(), "{bad}");
        }
        assert!(limit("nan").is_err() && limit("x").is_err() && limit("0.5") == Ok(0.5));
    }
}
