//! `polychip run`: the outputs of a model, and what ran where.
//!
//! Invariant: no file is written unless the whole run went well.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use polychip::{DType, Packed, Report, Session};
use polychip_partitioner::Time;
use schemars::JsonSchema;
use serde::Serialize;

use crate::array::{Array, numbers};
use crate::boxes::{Detection, boxes};
use crate::exit::bad_input;
use crate::input::{InputArguments, InputData, labels};
use crate::label::{Top, top};
use crate::media_arguments::MediaArguments;
use crate::output::Output;
use crate::progress::Progress;
use crate::setup::{BucketArguments, ModelArguments, PATIENCE, Precision, SessionArguments};
use crate::{file, npy};

/// A run that takes less is run once more, so that the report has a figure of a warm run.
const SHORT: Duration = Duration::from_secs(1);
/// Values of an output that are shown.
const SHOWN: usize = 6;
/// Strings of an output that JSON holds.
const LISTED: usize = 1000;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    buckets: BucketArguments,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    media: MediaArguments,
    /// Read class labels from this file, one a line, and print the label of the highest value
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    labels: Option<PathBuf>,
    /// Print the K highest values of each row, by label or number
    #[arg(long, value_name = "K", help_heading = "Outputs", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Print a detector's boxes with at least this score, by label or class number; 0.25 without a number
    #[arg(long, value_name = "SCORE", help_heading = "Outputs", num_args = 0..=1, default_missing_value = "0.25",
        value_parser = crate::media_arguments::number, conflicts_with = "top")]
    boxes: Option<f64>,
    /// Write NAME.npy for each output and each generated input to this folder
    #[arg(long, value_name = "DIR", help_heading = "Outputs")]
    save: Option<PathBuf>,
    /// Write a trace of parts and kernels for Perfetto or Chrome
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Outputs")]
    json: bool,
    #[command(flatten)]
    session: SessionArguments,
}

/// Output of `run --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunOutput {
    /// Model file.
    model: String,
    /// The inputs in the model's order.
    inputs: Vec<InputLine>,
    /// The outputs in the model's order.
    outputs: Vec<OutputLine>,
    /// The labels of the highest values of each row, with `--labels` or `--top`.
    labels: Option<Vec<Top>>,
    /// The boxes of a detector, with `--boxes`.
    boxes: Option<Vec<Detection>>,
    /// Time from submit to the outputs, of this first run, in nanoseconds.
    first_run_ns: u64,
    /// Lateness of this first run in nanoseconds, up to its last part; null if in time or without a deadline.
    late_ns: Option<u64>,
    /// With `--precision reduced`: largest output difference from exact precision, over the largest value.
    deviation: Option<f64>,
    /// Devices of the parts.
    report: Report,
}

/// An input.
#[derive(Debug, Serialize, JsonSchema)]
struct InputLine {
    /// Name in the model.
    name: String,
    /// Element type.
    dtype: &'static str,
    /// Shape.
    shape: Vec<usize>,
    /// Its file; null if generated from the seed.
    file: Option<String>,
}

/// An output.
#[derive(Debug, Serialize, JsonSchema)]
struct OutputLine {
    /// Name in the model.
    name: String,
    /// Element type.
    dtype: &'static str,
    /// Shape.
    shape: Vec<usize>,
    /// Least value; null if all are NaN.
    min: Option<f64>,
    /// Greatest value; null if all are NaN.
    max: Option<f64>,
    /// Mean value; null if all are NaN or one is not finite.
    mean: Option<f64>,
    /// The strings in row-major order, at most 1,000; null for numbers.
    strings: Option<Vec<String>>,
    /// The file that it was written to, with `--save`.
    file: Option<String>,
    /// Difference of the file from the tensor, if any.
    note: Option<&'static str>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    // what is wrong with the command line is said before anything is loaded
    let labels = arguments.labels.as_deref().map(labels).transpose()?;
    if let Some(folder) = &arguments.save {
        file::check_folder(folder)?;
    }
    let runtime = arguments.session.runtime()?;
    let model = arguments.model.load(&runtime)?;
    let (model, given) = arguments.inputs.read_by(&model, &arguments.media)?;
    let session = if arguments.buckets.buckets.is_empty() {
        arguments.session.session(&runtime, &model)?
    } else {
        let buckets = &arguments.buckets;
        arguments
            .session
            .bucketed(&runtime, &arguments.model, buckets, &given, 1)?
    };
    if arguments.save.is_some() {
        check_names(&session, &given)?;
    }
    let mut watched = arguments
        .trace
        .as_ref()
        .map(|_| crate::trace::Watched::new(&runtime, &session, true));
    let First {
        outputs,
        took: first_run,
        late_by,
    } = run_once(&session, &given)?;
    if let (Some(mut watched), Some(path)) = (watched.take(), &arguments.trace) {
        watched.look();
        watched
            .end()
            .write(&arguments.model.model.display().to_string(), path)?;
    }
    let found = arguments
        .boxes
        .map(|least| boxes(&outputs, labels.as_deref(), least));
    let found = found.transpose()?;
    let most = arguments.top.map(|most| most as usize);
    let wanted = found.is_none() && (labels.is_some() || most.is_some());
    let labels = wanted.then(|| top(&outputs, labels.as_deref(), most.unwrap_or(1)));
    let labels = labels.transpose()?;
    if let Some(folder) = &arguments.save {
        save(folder, &given, &outputs)?;
    }
    let report = session.report();
    drop(session);
    let deviation = match arguments.session.plan_arguments.precision.resolved() {
        Precision::Exact => None,
        Precision::Reduced => {
            let policy = arguments.session.policy().precision(polychip::Precision::Exact);
            let exact = run_once(&runtime.session(&model, policy)?, &given)?.outputs;
            deviation(&outputs, &exact)
        }
    };
    if arguments.json {
        let folder = arguments.save.as_deref();
        return out.json(&RunOutput {
            model: arguments.model.model.display().to_string(),
            inputs: given.iter().map(input_line).collect(),
            outputs: outputs
                .iter()
                .map(|(name, array)| output_line(name, array, folder))
                .collect(),
            labels,
            boxes: found,
            first_run_ns: u64::try_from(first_run.as_nanos()).unwrap_or(u64::MAX),
            late_ns: late_by.map(|late| u64::try_from(late.as_nanos()).unwrap_or(u64::MAX)),
            deviation,
            report,
        });
    }
    let mut text = String::new();
    match (&labels, &found) {
        (Some(tops), _) => tops.iter().for_each(|top| text.push_str(&format!("{top}\n"))),
        (None, Some(found)) if found.is_empty() => text.push_str("no boxes\n"),
        (None, Some(found)) => found
            .iter()
            .for_each(|found| text.push_str(&format!("{found}\n"))),
        (None, None) => outputs
            .iter()
            .for_each(|(name, array)| text.push_str(&format!("{}\n", summary(name, array)))),
    }
    if let Some(folder) = &arguments.save {
        for (name, array) in &outputs {
            let note = npy::note(array.dtype)
                .map(|note| format!(" ({note})"))
                .unwrap_or_default();
            text.push_str(&format!(
                "wrote {}{note}\n",
                folder.join(file::name_of(name)).display()
            ));
        }
    }
    let nanoseconds = u64::try_from(first_run.as_nanos()).unwrap_or(u64::MAX);
    let time = |ns: u128| Time::from_nanoseconds(u64::try_from(ns).unwrap_or(u64::MAX));
    let lateness = match (arguments.session.deadline, late_by) {
        (Some(deadline), Some(late)) => format!(
            ", late by {}: the deadline was {}",
            time(late.as_nanos()),
            time(deadline.as_nanos())
        ),
        (Some(deadline), None) => format!(", in time: the deadline was {}", time(deadline.as_nanos())),
        (None, _) => String::new(),
    };
    text.push_str(&format!(
        "\n{report}\nfirst run: {}{lateness}\n",
        Time::from_nanoseconds(nanoseconds)
    ));
    if let Some(deviation) = deviation {
        text.push_str(&format!(
            "reduced precision: outputs within {deviation:.1e} of exact precision's largest value\n"
        ));
    }
    out.text(&text)
}

/// The largest difference of an output from what exact precision gives of the same inputs, over the largest value of
/// that output; none where no output holds floating-point numbers.
pub(crate) fn deviation(reduced: &[(String, Array)], exact: &[(String, Array)]) -> Option<f64> {
    let mut worst = None;
    for ((_, have), (_, want)) in reduced.iter().zip(exact) {
        let values = |array: &Array| numbers(array.dtype, &array.bytes);
        let (true, Some(have), Some(want)) = (want.dtype.is_float(), values(have), values(want)) else {
            continue;
        };
        let largest = want.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
        let differences = have.iter().zip(&want).map(|(a, b)| (a - b).abs());
        let far = differences.fold(0.0f64, f64::max);
        let share = if far == 0.0 { 0.0 } else { far / largest };
        worst = Some(worst.map_or(share, |worst: f64| worst.max(share)));
    }
    worst
}

/// Writes the inputs into the session's memory.
pub(crate) fn feed(session: &Session, given: &[InputData]) -> anyhow::Result<Vec<polychip::Input>> {
    let mut inputs = Vec::with_capacity(given.len());
    for value in given {
        let mut input = session.input(&value.name)?;
        let spec = session.inputs().find(|spec| spec.name == value.name);
        if spec.is_some_and(|spec| !spec.open.is_empty() && !spec.packed) {
            input.resize(&value.array.shape)?;
        }
        match value
            .array
            .packed()
            .filter(|_| value.array.dtype == DType::String)
        {
            Some(strings) => input.write_packed(&strings)?,
            None => input.write_bytes(&value.array.bytes)?,
        }
        inputs.push(input);
    }
    Ok(inputs)
}

/// A first run: copies of its outputs, its time, and by how much it was late.
pub(crate) struct First {
    pub(crate) outputs: Vec<(String, Array)>,
    took: Duration,
    late_by: Option<Duration>,
}

/// One run. A short one is run again to be measured warm.
pub(crate) fn run_once(session: &Session, given: &[InputData]) -> anyhow::Result<First> {
    let inputs = feed(session, given)?;
    let inputs: Vec<&polychip::Input> = inputs.iter().collect();
    let _progress = Progress::of("running");
    let start = Instant::now();
    let done = session.submit(&inputs)?.wait(PATIENCE)?;
    let took = start.elapsed();
    let planned = session.planned().context("the session has no plan yet")?;
    let graph = planned.graph();
    let mut outputs = Vec::with_capacity(done.len());
    for (index, id) in graph.outputs.iter().enumerate() {
        let name = &graph.tensor(*id).name;
        // an output that is an input of the model is read where it was written
        let same = given
            .iter()
            .find(|given| graph.is_input(*id) && given.name == *name);
        let is_packed = graph.tensor(*id).is_packed();
        match same {
            Some(given) => outputs.push((name.clone(), given.array.clone())),
            None if is_packed => outputs.extend(unpacked(name, &done.at(index)?)?),
            None => {
                let view = done.at(index)?;
                let array = Array {
                    dtype: view.dtype(),
                    shape: view.shape().to_vec(),
                    bytes: view.bytes().to_vec(),
                };
                outputs.push((name.clone(), array));
            }
        }
    }
    let late_by = done.late_by();
    // the outputs hold the run's memory
    drop(done);
    if took < SHORT {
        drop(session.submit(&inputs)?.wait(PATIENCE)?);
    }
    Ok(First {
        outputs,
        took,
        late_by,
    })
}

/// The tensors of a packed output: strings, what an optional holds, or the elements of a sequence, which are
/// named `NAME[0]` and so on.
fn unpacked(name: &str, view: &polychip::OutputView<'_>) -> anyhow::Result<Vec<(String, Array)>> {
    let packed = Packed::from_bytes(view.bytes());
    Ok(
        match packed.with_context(|| format!("output {name:?} is not readable"))? {
            Packed::Nothing => Vec::new(),
            Packed::Tensor(tensor) => vec![(name.to_owned(), Array::of_literal(&tensor))],
            Packed::Sequence(tensors) => {
                let named = tensors.iter().enumerate();
                named
                    .map(|(index, tensor)| (format!("{name}[{index}]"), Array::of_literal(tensor)))
                    .collect()
            }
        },
    )
}

/// The tensors that `--save` writes: outputs, and inputs that have no file yet.
fn saved<'a>(
    given: &'a [InputData],
    outputs: impl Iterator<Item = &'a str> + 'a,
) -> impl Iterator<Item = &'a str> + 'a {
    given
        .iter()
        .filter(|given| given.file.is_none())
        .map(|given| &*given.name)
        .chain(outputs)
}

/// An error where two tensors would be written to one file.
fn check_names(session: &Session, given: &[InputData]) -> anyhow::Result<()> {
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for tensor in saved(given, session.outputs().map(|spec| &*spec.name)) {
        if let Some(other) = names.insert(file::name_of(tensor), tensor)
            && other != tensor
        {
            return Err(bad_input(format!(
                "--save: tensors {other:?} and {tensor:?} would both be written to {}",
                file::name_of(tensor)
            )));
        }
    }
    Ok(())
}

fn save(folder: &Path, given: &[InputData], outputs: &[(String, Array)]) -> anyhow::Result<()> {
    let inputs = given
        .iter()
        .filter(|given| given.file.is_none())
        .map(|given| (&given.name, &given.array));
    let mut files = BTreeMap::new();
    for (name, array) in inputs.chain(outputs.iter().map(|(name, array)| (name, array))) {
        let bytes = npy::write(array).map_err(|error| bad_input(format!("--save: {name:?}: {error}")))?;
        files.insert(file::name_of(name), bytes);
    }
    file::write_all(folder, &files)
}

fn input_line(given: &InputData) -> InputLine {
    InputLine {
        name: given.name.clone(),
        dtype: given.array.dtype.name(),
        shape: given.array.shape.clone(),
        file: given.file.as_ref().map(|file| file.display().to_string()),
    }
}

fn output_line(name: &str, array: &Array, folder: Option<&Path>) -> OutputLine {
    let values = numbers(array.dtype, &array.bytes).unwrap_or_default();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let finite = |value: f64| value.is_finite().then_some(value);
    OutputLine {
        name: name.to_owned(),
        dtype: array.dtype.name(),
        shape: array.shape.clone(),
        min: values.iter().copied().reduce(f64::min).and_then(finite),
        max: values.iter().copied().reduce(f64::max).and_then(finite),
        mean: finite(mean),
        strings: array
            .strings()
            .map(|strings| strings.into_iter().take(LISTED).collect()),
        file: folder.map(|folder| folder.join(file::name_of(name)).display().to_string()),
        note: folder.and_then(|_| npy::note(array.dtype)),
    }
}

/// A line with the first values.
fn summary(name: &str, array: &Array) -> String {
    let values = numbers(array.dtype, &array.bytes).unwrap_or_default();
    let mut words: Vec<String> = values
        .iter()
        .take(SHOWN)
        .map(|value| format!("{value:.5}"))
        .collect();
    if let Some(strings) = array.strings() {
        words = strings
            .iter()
            .take(SHOWN)
            .map(|text| format!("{text:?}"))
            .collect();
        if strings.len() > SHOWN {
            words.push("…".into());
        }
    }
    if array.dtype.is_int() || array.dtype == polychip::DType::Bool {
        words = values
            .iter()
            .take(SHOWN)
            .map(|value| format!("{value}"))
            .collect();
    }
    if values.len() > SHOWN {
        words.push("…".into());
    }
    format!(
        "{name}: {} {:?}: {}",
        array.dtype.name(),
        array.shape,
        words.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_shown_as_text() {
        let array = Array::of_strings(vec![2, 1], &["cat", "a \"b\""]).unwrap();
        assert_eq!(summary("l", &array), r#"l: string [2, 1]: "cat" "a \"b\"""#);
        let line = output_line("l", &array, Some(Path::new("out")));
        assert_eq!((line.dtype, line.min, line.note), ("string", None, None));
        assert_eq!(line.strings.unwrap(), ["cat", "a \"b\""]);
        assert_eq!(line.file.as_deref(), Some("out/l.npy"));
        let many = Array::of_strings(vec![7], &["x"; 7]).unwrap();
        assert!(summary("l", &many).ends_with(" …"));
        assert_eq!(output_line("l", &many, None).strings.unwrap().len(), 7);
    }

    #[test]
    fn output_line_shows_its_figures() {
        let bytes = [1.0f32, -2.0, 4.0]
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let array = Array {
            dtype: DType::F32,
            shape: vec![3],
            bytes,
        };
        let line = output_line("y", &array, None);
        assert_eq!(
            (line.min, line.max, line.mean),
            (Some(-2.0), Some(4.0), Some(1.0))
        );
        assert_eq!(summary("y", &array), "y: f32 [3]: 1.00000 -2.00000 4.00000");
        let empty = Array {
            dtype: DType::I64,
            shape: vec![0],
            bytes: vec![],
        };
        let line = output_line("y", &empty, Some(Path::new("out")));
        assert_eq!(
            (line.min, line.mean, line.file),
            (None, None, Some("out/y.npy".into()))
        );
    }
}
