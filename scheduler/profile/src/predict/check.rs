//! The quality of predictions: every whole model of a profile, predicted from the other ones.
//!
//! Invariants:
//! 1. A model is predicted by fits without its own measurements, and without networks that share
//!    more than half of their groups with it; the regression column also excludes all of its
//!    groups.
//! 2. Errors are of times from submit to outputs, which an app waits for; they are listed with the
//!    repeatability of the measured figure itself.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::fit::{Fit, Known, Table, Without};
use crate::record::ProfileFile;

/// Predictions of a device's whole models at an operating point.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DevicePrediction {
    /// Identity of the device: plugin, build, device, driver.
    pub device: String,
    /// The policy's settings for the device; empty for the defaults.
    pub operating_point: String,
    /// Whether the figures are an emulated device's.
    pub emulated: bool,
    /// Every measured whole model.
    pub models: Vec<ModelPrediction>,
    /// Errors of compositions.
    pub composed: Errors,
    /// Errors of regression alone.
    pub fitted: Errors,
    /// Deviations of batch medians from the overall median.
    pub repeated: Errors,
    /// Time of the shortest runs beyond the device time, in nanoseconds.
    pub launch_ns: u64,
    /// Time of whole models relative to the sums of their segments, in millionths.
    pub scale_ppm: u64,
    /// Picoseconds per byte that crosses a border between segments.
    pub border_ps: u64,
    /// Rows that the regression models are fitted to: segments less their shared groups, and whole
    /// models.
    pub rows: u64,
    /// Measured over predicted time of these rows, 10th and 90th percentile, in millionths.
    pub spread_ppm: [u64; 2],
    /// The regression models.
    pub op_classes: Vec<OpClassModel>,
}

/// A whole model, measured and predicted.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ModelPrediction {
    /// The model.
    pub model: String,
    /// Number of its fusion groups, including single nodes.
    pub groups: u64,
    /// Median from submit to outputs, in nanoseconds.
    pub measured_ns: u64,
    /// Largest deviation of a batch median from it, in millionths; none for a single batch.
    pub repeated_ppm: Option<u64>,
    /// Composed of measured segments, in nanoseconds; none if it is too small to cut or a segment
    /// was not measured.
    pub composed_ns: Option<u64>,
    /// Its error in millionths of the measured time.
    pub composed_ppm: Option<i64>,
    /// Predicted by regression alone, in nanoseconds; none if too little else was measured.
    pub fitted_ns: Option<u64>,
    /// Its error in millionths of the measured time.
    pub fitted_ppm: Option<i64>,
    /// Op classes of its groups without other measurements; they count zero in `fitted_ns`.
    pub unknown: Vec<String>,
}

/// Error statistics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Errors {
    /// Number of models.
    pub models: u64,
    /// Median, in millionths; 0 without models.
    pub p50_ppm: u64,
    /// 95th percentile, in millionths.
    pub p95_ppm: u64,
}

/// The regression model of an op class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OpClassModel {
    /// The op, and of convolutions the kind of loop.
    pub op_class: String,
    /// Nanoseconds per group.
    pub group_ns: u64,
    /// Femtoseconds per multiply-add.
    pub mac_fs: u64,
    /// Femtoseconds per byte read or written.
    pub byte_fs: u64,
    /// Femtoseconds per byte of constants.
    pub constant_fs: u64,
}

impl Errors {
    /// The statistics of errors in millionths, without their signs.
    #[must_use]
    pub fn of(errors: impl IntoIterator<Item = i64>) -> Errors {
        let mut sizes: Vec<u64> = errors.into_iter().map(i64::unsigned_abs).collect();
        sizes.sort_unstable();
        // nearest rank
        let at = |percent: usize| {
            let rank = (sizes.len() * percent).div_ceil(100).max(1);
            sizes.get(rank - 1).copied().unwrap_or(0)
        };
        Errors {
            models: sizes.len() as u64,
            p50_ppm: at(50),
            p95_ppm: at(95),
        }
    }
}

/// Predicts every whole model that was measured from what was measured of the other ones, on every device.
pub(crate) fn check(file: &ProfileFile) -> Vec<DevicePrediction> {
    let table = Table::new(file);
    let devices = table.devices.iter().filter(|(_, known)| !known.runs.is_empty());
    let predicted = devices.filter_map(|((device, point), known)| {
        let mut prediction = of_device(&table, known)?;
        prediction.device.clone_from(device);
        prediction.operating_point.clone_from(point);
        Some(prediction)
    });
    predicted.collect()
}

fn of_device(table: &Table, known: &Known) -> Option<DevicePrediction> {
    let all = Fit::new(table, known, &Without::default())?;
    let mut models: Vec<ModelPrediction> = known
        .runs
        .keys()
        .map(|whole| model(table, known, whole))
        .collect();
    models.sort_by(|a, b| a.measured_ns.cmp(&b.measured_ns).then(a.model.cmp(&b.model)));
    let signed = |ppm: u64| i64::try_from(ppm).unwrap_or(i64::MAX);
    let positive = |value: f64| value.max(0.0).round() as u64;
    Some(DevicePrediction {
        device: String::new(),
        operating_point: String::new(),
        emulated: known.emulated,
        composed: Errors::of(models.iter().filter_map(|model| model.composed_ppm)),
        fitted: Errors::of(models.iter().filter_map(|model| model.fitted_ppm)),
        repeated: Errors::of(models.iter().filter_map(|model| model.repeated_ppm.map(signed))),
        models,
        launch_ns: positive(all.run(1.0, 1) - 1.0),
        scale_ppm: positive(all.scale * 1e6),
        border_ps: positive(all.border * 1e3),
        rows: all.rows as u64,
        spread_ppm: all.spread.map(|ratio| positive(ratio * 1e6)),
        op_classes: all
            .classes
            .iter()
            .map(|(op_class, coefficients)| OpClassModel {
                op_class: op_class.clone(),
                group_ns: positive(coefficients[0]),
                mac_fs: positive(coefficients[1] * 1e6),
                byte_fs: positive(coefficients[2] * 1e6),
                constant_fs: positive(coefficients[3] * 1e6),
            })
            .collect(),
    })
}

fn model(table: &Table, known: &Known, whole: &str) -> ModelPrediction {
    let content = &table.contents[whole];
    let own = table.groups(whole);
    let is_alike = |other: &&String| {
        let others = table.groups(other);
        2 * own.intersection(&others).count() > own.len().min(others.len())
    };
    let wholes: BTreeSet<&str> = known.runs.keys().filter(is_alike).map(String::as_str).collect();
    let groups = wholes.iter().flat_map(|alike| table.groups(alike)).collect();
    let (measured, batches) = &known.runs[whole];
    let error = |time: f64| ((time / measured - 1.0) * 1e6).round() as i64;
    let nanoseconds = |time: f64| time.round() as u64;
    let repeated = batches
        .iter()
        .map(|batch| (batch / measured - 1.0).abs())
        .fold(0.0, f64::max);
    let composed = {
        let without = Without {
            wholes: wholes.clone(),
            groups: BTreeSet::new(),
        };
        let fit = Fit::new(table, known, &without);
        fit.and_then(|fit| Some(fit.run(fit.whole(known, &content.composition)?, content.border)))
    };
    let fit = Fit::new(table, known, &Without { wholes, groups });
    let fitted = fit
        .as_ref()
        .map(|fit| fit.run(fit.part(&content.groups), content.border));
    let unknown: BTreeSet<String> = content
        .groups
        .iter()
        .filter(|group| fit.as_ref().is_some_and(|fit| fit.group(group).is_none()))
        .map(|group| group.op_class.clone())
        .collect();
    ModelPrediction {
        model: content.name.clone(),
        groups: content.count(),
        measured_ns: nanoseconds(*measured),
        repeated_ppm: (batches.len() > 1).then(|| (repeated * 1e6).round() as u64),
        composed_ns: composed.map(nanoseconds),
        composed_ppm: composed.map(error),
        fitted_ns: fitted.map(nanoseconds),
        fitted_ppm: fitted.map(error),
        unknown: unknown.into_iter().collect(),
    }
}
