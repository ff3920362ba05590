//! The output of `polychip compare`: JSON and text.
//!
//! Invariant: a non-finite figure is omitted from JSON, and reported in text.

use std::path::Path;

use polychip_graph::Graph;
use polychip_partitioner::Time;
use schemars::JsonSchema;
use serde::Serialize;

use super::measure::Error;
use super::pair::{Layer, Matched, name_of};
use crate::bench::Latency;
use crate::setup::Precision;

/// Why integers have a limit of their own.
pub(super) const INTEGERS: &str = "quantised integers";

/// Rows that are printed where there are more; JSON has all.
const ROWS: usize = 20;
/// Rows before the first that drifts, of these.
const BEFORE: usize = 3;

/// Output of `compare --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CompareOutput {
    /// The reference.
    pub(super) a: SideLine,
    /// The candidate.
    pub(super) b: SideLine,
    /// Limits of an error.
    pub(super) limits: LimitsLine,
    /// The first drifting layer in graph order; null without drift.
    pub(super) first_drift: Option<LayerLine>,
    /// The layers that both sides have, in the order of the graph; of files, in order of their names.
    pub(super) layers: Vec<LayerLine>,
    /// An input was made from a seed.
    pub(super) has_made_inputs: bool,
    /// Layers of A that have no counterpart.
    pub(super) alone_a: Vec<String>,
    /// Layers of B that have no counterpart.
    pub(super) alone_b: Vec<String>,
    /// Failed `--fail-on` gates as text; if there is any, the exit code is 1.
    pub(super) failed: Vec<String>,
    #[serde(skip)]
    pub(super) shows_all: bool,
}

/// One side.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SideLine {
    /// Model, file or folder.
    pub(super) path: String,
    /// How exactly a model was computed; none for files.
    pub(super) precision: Option<Precision>,
    /// Plan file, if given.
    pub(super) plan: Option<String>,
    /// Devices that ran parts of it.
    pub(super) devices: Vec<String>,
    /// A device is emulated: times are those of the computer that emulates it.
    pub(super) emulated: bool,
    /// Time of a run from submission to outputs in nanoseconds; null if no run was timed.
    pub(super) latency_ns: Option<Latency>,
    /// Memory that a session holds; none for files.
    pub(super) memory: Option<Memory>,
    /// The largest difference of an output in runs that kept tensors inside from the output of the model as it is, over the
    /// largest value of that output: what keeping them changes. None where none was kept.
    pub(super) kept_deviation: Option<f64>,
}

/// Memory of a session, in bytes.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(super) struct Memory {
    /// Constants of the model, as its file has them.
    pub(super) model_bytes: u64,
    /// Constants and code in device memory, as stated by the devices; memory shared with A counts only for A.
    pub(super) constant_bytes: u64,
    /// Tensors inside parts, as the devices state them.
    pub(super) intermediate_bytes: u64,
    /// Shared memory of tensors between parts.
    pub(super) arena_bytes: u64,
}

/// Limits of an error.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LimitsLine {
    /// Most of `relative_error`.
    pub(super) max_error: Option<f64>,
    /// Least of `cosine`.
    pub(super) min_cosine: Option<f64>,
    /// Least of `snr_db`.
    pub(super) min_snr_db: Option<f64>,
    /// Why they are these.
    pub(super) why: &'static str,
}

/// A layer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct LayerLine {
    /// Name of the node, or of its tensor for an unnamed node.
    layer: String,
    /// Its operator; none for files.
    op: Option<String>,
    /// The tensor.
    pub(super) tensor: String,
    /// The tensor on side B, if its name differs.
    pub(super) tensor_b: Option<String>,
    /// How the two were found to be the same.
    pub(super) matched: Matched,
    /// It is an output of the model.
    pub(super) is_output: bool,
    /// One side's unmodified model has no such tensor, because its layer is fused or eliminated; it was computed
    /// separately.
    pub(super) is_fused: bool,
    /// Type of the elements on side A.
    pub(super) dtype_a: &'static str,
    /// Type of the elements on side B.
    pub(super) dtype_b: &'static str,
    /// Shape on side A.
    pub(super) shape_a: Vec<usize>,
    /// Shape on side B; if it differs, there are no figures.
    pub(super) shape_b: Vec<usize>,
    /// Cosine of the angle between the values of the two sides.
    cosine: Option<f64>,
    /// Signal-to-noise ratio in decibels, A's values being the signal; none without an error too.
    snr_db: Option<f64>,
    /// Lowest ratio of this layer's inputs; null without input error. A lower ratio here arose in this layer.
    pub(super) read_snr_db: Option<f64>,
    /// Largest absolute error.
    absolute_error: Option<f64>,
    /// The same over the largest value of A; null if that is zero and the error is not.
    relative_error: Option<f64>,
    /// Elements of A that are no finite number.
    not_finite_a: u64,
    /// Elements of B that are no finite number.
    not_finite_b: u64,
    /// Unequal elements that are not finite on both sides.
    broken: u64,
    /// The error is beyond a limit.
    pub(super) drifts: bool,
}

impl LayerLine {
    /// A layer without figures.
    pub(super) fn new(graph: &Graph, layer: &Layer) -> LayerLine {
        let tensor = graph.tensor(layer.tensor).name.clone();
        LayerLine {
            layer: name_of(graph, layer),
            op: Some(graph.node(layer.node).label()),
            is_output: graph.is_output(layer.tensor),
            ..LayerLine::of_file(&tensor, &tensor)
        }
    }

    /// A file without figures.
    pub(super) fn of_file(a: &str, b: &str) -> LayerLine {
        LayerLine {
            layer: a.to_owned(),
            op: None,
            tensor: a.to_owned(),
            tensor_b: Some(b.to_owned()).filter(|b| *b != a),
            matched: Matched::Name,
            is_output: false,
            is_fused: false,
            dtype_a: "",
            dtype_b: "",
            shape_a: Vec::new(),
            shape_b: Vec::new(),
            cosine: None,
            snr_db: None,
            read_snr_db: None,
            absolute_error: None,
            relative_error: None,
            not_finite_a: 0,
            not_finite_b: 0,
            broken: 0,
            drifts: false,
        }
    }

    /// Takes figures.
    pub(super) fn set(&mut self, error: &Error) {
        let finite = |value: f64| value.is_finite().then_some(value);
        self.cosine = finite(error.cosine);
        self.snr_db = finite(error.snr_db);
        self.absolute_error = finite(error.absolute);
        self.relative_error = finite(error.relative);
        [self.not_finite_a, self.not_finite_b] = error.not_finite;
        self.broken = error.broken;
    }

    /// What is to be said beside the figures.
    fn notes(&self) -> String {
        let mut notes = Vec::new();
        if self.shape_a != self.shape_b {
            notes.push(format!("{:?} in A, {:?} in B", self.shape_a, self.shape_b));
        }
        let sides = [("A", self.not_finite_a), ("B", self.not_finite_b)];
        for (side, count) in sides.iter().filter(|(_, count)| *count > 0) {
            let all: usize = self.shape_a.iter().product();
            notes.push(format!("{count} of {all} values are not finite in {side}"));
        }
        if self.is_output {
            notes.push("output".to_owned());
        }
        if self.is_fused {
            notes.push("fused".to_owned());
        }
        if self.matched != Matched::Name {
            notes.push(format!("B: {}", self.tensor_b.as_deref().unwrap_or_default()));
        }
        notes.join(", ")
    }

    /// The signal-to-noise ratio in decibels, infinite without an error; what is broken is all noise.
    pub(super) fn ratio(&self) -> f64 {
        match (self.broken > 0 || self.shape_a != self.shape_b, self.is_equal()) {
            (true, _) => f64::NEG_INFINITY,
            (false, true) => f64::INFINITY,
            // an error where A is zero everywhere
            (false, false) => self.snr_db.unwrap_or(f64::NEG_INFINITY),
        }
    }

    /// By how many decibels the ratio is less than that of what the layer reads.
    fn loss(&self) -> Option<f64> {
        let loss = self.read_snr_db? - self.snr_db?;
        Some(loss).filter(|loss| *loss > 0.0)
    }

    /// Whether the two are the same.
    fn is_equal(&self) -> bool {
        self.broken == 0 && self.absolute_error == Some(0.0)
    }

    fn figures(&self) -> [String; 4] {
        let figure =
            |value: Option<f64>, words: &dyn Fn(f64) -> String| value.map_or_else(|| "-".to_owned(), words);
        let snr = if self.is_equal() {
            "equal".to_owned()
        } else {
            figure(self.snr_db, &|x| format!("{x:.1} dB"))
        };
        [
            figure(self.cosine, &|x| format!("{x:.6}")),
            snr,
            figure(self.absolute_error, &|x| format!("{x:.2e}")),
            figure(self.relative_error, &|x| format!("{x:.2e}")),
        ]
    }
}

impl SideLine {
    /// A side without figures.
    pub(super) fn new(path: &Path) -> SideLine {
        SideLine {
            path: path.display().to_string(),
            precision: None,
            plan: None,
            devices: Vec::new(),
            emulated: false,
            latency_ns: None,
            memory: None,
            kept_deviation: None,
        }
    }

    fn words(&self) -> String {
        let mut words = self.path.clone();
        if let Some(precision) = self.precision {
            let precision = match precision {
                Precision::Exact => "exact",
                Precision::Reduced => "reduced",
            };
            words.push_str(&format!(", {precision}, on {}", self.devices.join(", ")));
        }
        if self.emulated {
            words.push_str(", emulated");
        }
        if let Some(plan) = &self.plan {
            words.push_str(&format!(", plan {plan}"));
        }
        words
    }
}

impl LimitsLine {
    fn words(&self) -> String {
        let mut words = Vec::new();
        if let Some(most) = self.max_error {
            words.push(format!("its largest error exceeds {most} of its largest value"));
        }
        if let Some(least) = self.min_cosine {
            words.push(format!("its cosine is below {least}"));
        }
        if let Some(least) = self.min_snr_db {
            words.push(format!("its signal-to-noise ratio is below {least} dB"));
        }
        format!(
            "a layer drifts if {}, or if a value is not finite on one side only ({})",
            words.join(" or "),
            self.why
        )
    }
}

/// The first names of some.
pub(super) fn some(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(5).map(|name| &**name).collect();
    match (first.is_empty(), names.len() - first.len()) {
        (true, _) => "none".to_owned(),
        (false, 0) => first.join(", "),
        (false, more) => format!("{} and {more} more", first.join(", ")),
    }
}

/// Bytes as a person reads them.
fn mebibytes(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
}

impl CompareOutput {
    /// The rows that are printed: all where they are few, else those around the first that drifts, or the last ones.
    fn shown(&self) -> &[LayerLine] {
        if self.shows_all || self.layers.len() <= ROWS {
            return &self.layers;
        }
        let last = self.layers.len() - ROWS;
        let first = self.layers.iter().position(|line| line.drifts);
        let start = first.map_or(last, |first| first.saturating_sub(BEFORE)).min(last);
        &self.layers[start..start + ROWS]
    }

    fn fmt_layers(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header([
            "layer",
            "op",
            "cosine",
            "SNR",
            "max error",
            "of max value",
            "",
            "notes",
        ]);
        let shown = self.shown();
        for line in shown {
            let [cosine, snr, absolute, relative] = line.figures();
            table.add_row([
                line.layer.clone(),
                line.op.clone().unwrap_or_else(|| "-".to_owned()),
                cosine,
                snr,
                absolute,
                relative,
                if line.drifts { "drifts" } else { "" }.to_owned(),
                line.notes(),
            ]);
        }
        for line in table.to_string().lines() {
            writeln!(f, "{}", line.trim_end())?;
        }
        if shown.len() < self.layers.len() {
            writeln!(
                f,
                "{} of {} layers; --all prints the others",
                shown.len(),
                self.layers.len()
            )?;
        }
        for (side, alone) in [("A", &self.alone_a), ("B", &self.alone_b)] {
            if !alone.is_empty() {
                writeln!(f, "only {side} has {}", some(alone))?;
            }
        }
        if self.layers.iter().any(|line| line.is_fused) {
            writeln!(
                f,
                "fused: the unmodified model has no such tensor, because its layer is fused with the next one or \
                 eliminated; it was computed separately here"
            )?;
        }
        for (side, line) in [("A", &self.a), ("B", &self.b)] {
            if let Some(far) = line.kept_deviation.filter(|far| *far > 0.0) {
                writeln!(
                    f,
                    "keeping intermediate tensors changes the outputs of {side} by up to {far:.1e} of their largest value"
                )?;
            }
        }
        Ok(())
    }

    fn fmt_costs(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header(["", "A", "B", "B of A"]);
        let mut row = |what: &str, a: f64, b: f64, words: &dyn Fn(f64) -> String| {
            let share = if a > 0.0 {
                format!("{:.1} %", 100.0 * b / a)
            } else {
                "-".to_owned()
            };
            table.add_row([what.to_owned(), words(a), words(b), share]);
        };
        if let (Some(a), Some(b)) = (self.a.latency_ns, self.b.latency_ns) {
            let time = |ns: f64| Time::from_nanoseconds(ns as u64).to_string();
            row("run, median", a.p50 as f64, b.p50 as f64, &time);
            row("run, p99", a.p99 as f64, b.p99 as f64, &time);
        }
        if let (Some(a), Some(b)) = (self.a.memory, self.b.memory) {
            let size = |bytes: f64| mebibytes(bytes as u64);
            for (what, of) in [
                (
                    "constants in the file",
                    (|memory| memory.model_bytes) as fn(&Memory) -> u64,
                ),
                ("constants on devices, shared ones in A", |memory| {
                    memory.constant_bytes
                }),
                ("tensors inside parts", |memory| memory.intermediate_bytes),
                ("tensors between parts", |memory| memory.arena_bytes),
            ] {
                row(what, of(&a) as f64, of(&b) as f64, &size);
            }
        }
        if table.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        for line in table.to_string().lines() {
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

impl std::fmt::Display for CompareOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "A: {}\nB: {}\n", self.a.words(), self.b.words())?;
        self.fmt_layers(f)?;
        writeln!(f, "\n{}", self.limits.words())?;
        if self.has_made_inputs && self.limits.why == INTEGERS {
            writeln!(
                f,
                "the inputs were generated, but quantisation scales are calibrated on real ones: give real inputs with --input"
            )?;
        }
        match &self.first_drift {
            None => writeln!(f, "no layer drifts")?,
            Some(line) => {
                let op = line.op.as_ref().map(|op| format!(" ({op})")).unwrap_or_default();
                let drifting = self.layers.iter().filter(|line| line.drifts).count();
                let notes = line.notes();
                // where values are broken, the error of the others says little
                let words = match line.relative_error.filter(|_| line.broken == 0) {
                    Some(relative) if notes.is_empty() => {
                        format!("error {relative:.1e} of its largest value")
                    }
                    Some(relative) => format!("error {relative:.1e} of its largest value, {notes}"),
                    None => notes,
                };
                writeln!(f, "first layer that drifts: {}{op}: {words}", line.layer)?;
                writeln!(f, "{drifting} of {} layers drift", self.layers.len())?;
            }
        }
        let losses = self.layers.iter().filter_map(|line| Some((line.loss()?, line)));
        if let Some((_, line)) = losses.max_by(|a, b| a.0.total_cmp(&b.0)) {
            let op = line.op.as_ref().map(|op| format!(" ({op})")).unwrap_or_default();
            writeln!(
                f,
                "largest loss in one layer: {}{op}, from {:.1} dB to {:.1} dB",
                line.layer,
                line.read_snr_db.unwrap_or_default(),
                line.snr_db.unwrap_or_default()
            )?;
        }
        self.fmt_costs(f)
    }
}
