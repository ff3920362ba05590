//! Regression models fitted to a profile, one set per device and operating point; and compositions
//! of measured segments.
//!
//! An op class of groups (the op, and for convolutions the kind of loop) has four coefficients:
//! nanoseconds per group, picoseconds per multiply-add, per byte read or written, per byte of
//! constants. They are fitted by non-negative least squares of relative errors on groups *in their
//! context*: segments less their shared groups (see `segment`), and whole models. Single groups
//! would teach the cost of borders, not of groups.
//!
//! Invariants:
//! 1. The same profile gives the same figures.
//! 2. An op class without rows has no regression model: it is not predicted.
//! 3. A check leaves out a network completely: the network, every row that contains one of its
//!    groups, the launch, and the scale of compositions.

use std::collections::{BTreeMap, BTreeSet};

use super::content::Content;
use super::group::FusionGroup;
use super::nnls::Nnls;
use super::point::on_device;
use super::segment::Composition;
use crate::record::ProfileFile;
use crate::statistics::median;

/// Coefficients of an op class.
pub(super) const TERMS: usize = 4;
/// Fewest rows that a fit is made of.
const ROWS: usize = 8;
/// A segment whose shared group takes more than the rest of it tells more of noise than of its groups.
const REST: f64 = 0.15;
/// Weight of a whole model in segments, of which it holds about as many.
const WHOLE_WEIGHT: f64 = 2.0;
/// How little op classes are drawn to what they have in common, against the error that remains.
const SPREAD: f64 = 0.5;
/// How far the sum of segments may be scaled, either way.
const SCALE: f64 = 1.25;
/// Parts nearest in time and size that a launch is the median of.
const NEAREST: usize = 15;

/// Everything that is known of a device at an operating point.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(super) emulated: bool,
    /// Medians in nanoseconds of parts on the device.
    pub(super) times: BTreeMap<String, f64>,
    /// Medians in nanoseconds of runs of whole models from submit to outputs, with the median of each batch.
    pub(super) runs: BTreeMap<String, (f64, Vec<f64>)>,
    /// Medians in nanoseconds of runs of any part from submit to outputs.
    pub(super) latencies: BTreeMap<String, f64>,
}

/// A profile as fits read it.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(super) contents: BTreeMap<String, Content>,
    /// By identity of the device and operating point.
    pub(super) devices: BTreeMap<(String, String), Known>,
}

impl Table {
    pub(crate) fn new(file: &ProfileFile) -> Table {
        let mut table = Table::default();
        for record in &file.contents {
            // what another build describes in other words is not used
            if let Ok(content) = serde_json::from_str(&record.content) {
                table.contents.insert(record.fingerprint.clone(), content);
            }
        }
        for part in &file.parts {
            let Some(content) = table.contents.get(&part.fingerprint) else {
                continue;
            };
            let middle = |mut times: Vec<u64>| median(&mut times, u64::cmp).map(|ns| ns as f64);
            let batch = |times: &[u64]| middle(times.to_vec());
            let all: Vec<u64> = part
                .batches
                .iter()
                .flat_map(|batch| batch.times_ns.iter().copied())
                .collect();
            let Some(time) = middle(all).filter(|time| *time > 0.0) else {
                continue;
            };
            let (point, is_run) = match on_device(&part.operating_point) {
                Some(point) => (point, true),
                None => (part.operating_point.as_str(), false),
            };
            let is_whole = !content.name.is_empty();
            let known = table
                .devices
                .entry((part.device.clone(), point.to_owned()))
                .or_default();
            known.emulated |= part.emulated;
            if is_run {
                known.latencies.insert(part.fingerprint.clone(), time);
            }
            if is_run && is_whole {
                let batches = part
                    .batches
                    .iter()
                    .filter_map(|one| batch(&one.times_ns))
                    .collect();
                known.runs.insert(part.fingerprint.clone(), (time, batches));
            } else if !is_run {
                known.times.insert(part.fingerprint.clone(), time);
            }
        }
        table
    }

    /// Fingerprints of the groups of a part.
    pub(super) fn groups(&self, part: &str) -> BTreeSet<&str> {
        let content = self.contents.get(part);
        content.map_or_else(BTreeSet::new, |content| {
            content
                .groups
                .iter()
                .map(|group| group.fingerprint.as_str())
                .collect()
        })
    }
}

/// What a row is about: counts of groups, multiply-adds, bytes and bytes of constants by op class.
type Work = BTreeMap<String, [f64; TERMS]>;

fn add(work: &mut Work, groups: &[FusionGroup], sign: f64) {
    for group in groups {
        let count = sign * f64::from(group.count);
        let terms = [1.0, group.macs as f64, group.bytes as f64, group.constants as f64];
        let sums = work.entry(group.op_class.clone()).or_default();
        for (sum, term) in sums.iter_mut().zip(terms) {
            *sum += count * term;
        }
    }
}

struct Row {
    work: Work,
    time: f64,
    weight: f64,
}

/// What a run took from submit to outputs beside its time on the device.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Launch {
    /// Nanoseconds on the device.
    time: f64,
    /// Bytes that it reads and writes beside constants.
    border: f64,
    /// Nanoseconds beside.
    beside: f64,
}

/// What is left out of a fit.
#[derive(Debug, Default)]
pub(super) struct Without<'a> {
    /// Whole models.
    pub(super) wholes: BTreeSet<&'a str>,
    /// Fusion groups that no row may hold.
    pub(super) groups: BTreeSet<&'a str>,
}

/// The regression models of a device at an operating point.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fit {
    /// By op class, in nanoseconds per group, multiply-add, byte, byte of constants.
    pub(super) classes: BTreeMap<String, [f64; TERMS]>,
    launches: Vec<Launch>,
    /// What whole models take of the sums of their segments, and nanoseconds of a byte that crosses a border in the
    /// segments only.
    pub(super) scale: f64,
    pub(super) border: f64,
    /// Rows that the op classes were fitted on.
    pub(super) rows: usize,
    /// Measured over predicted, of the rows: tenth and ninetieth percentile.
    pub(super) spread: [f64; 2],
}

impl Fit {
    /// Fits all that is known but for what is left out; none where that is too little.
    pub(super) fn new(table: &Table, known: &Known, without: &Without<'_>) -> Option<Fit> {
        let rows = rows(table, known, without);
        if rows.len() < ROWS {
            return None;
        }
        let names: BTreeSet<&str> = rows
            .iter()
            .flat_map(|row| row.work.keys().map(String::as_str))
            .collect();
        let index: BTreeMap<&str, usize> = names
            .into_iter()
            .enumerate()
            .map(|(at, name)| (name, at))
            .collect();
        let solved = solve(&rows, &index);
        let classes = index.into_iter().map(|(name, at)| {
            let terms = std::array::from_fn(|term| solved[at * TERMS + term]);
            (name.to_owned(), terms)
        });
        let (scale, border) = composed(table, known, without);
        let mut fit = Fit {
            classes: classes.collect(),
            launches: launches(table, known, without),
            scale,
            border,
            rows: rows.len(),
            spread: [1.0, 1.0],
        };
        let mut ratios: Vec<f64> = rows
            .iter()
            .map(|row| row.time / fit.sum(&row.work).max(1.0))
            .collect();
        ratios.sort_by(f64::total_cmp);
        fit.spread = [1, 9].map(|tenth| ratios[(ratios.len() - 1) * tenth / 10]);
        Some(fit)
    }

    fn sum(&self, work: &Work) -> f64 {
        let of = |(name, terms): (&String, &[f64; TERMS])| {
            let coefficients = self.classes.get(name);
            coefficients.map_or(0.0, |coefficients| {
                coefficients
                    .iter()
                    .zip(terms)
                    .map(|(coefficient, term)| coefficient * term)
                    .sum()
            })
        };
        work.iter().map(of).sum()
    }

    /// Nanoseconds of a group in its context; none where its op class has no regression model.
    pub(crate) fn group(&self, group: &FusionGroup) -> Option<f64> {
        self.classes
            .contains_key(&group.op_class)
            .then(|| self.part(std::slice::from_ref(group)))
    }

    /// Nanoseconds of some groups together, those without a regression model not counted.
    pub(super) fn part(&self, groups: &[FusionGroup]) -> f64 {
        let mut work = Work::new();
        add(&mut work, groups, 1.0);
        self.sum(&work)
    }

    /// Nanoseconds from submit to outputs of a run that takes so many on the device and reads and writes so many bytes:
    /// what runs of about that length and size take beside it. Who waits for a short run spins; who waits for a long one
    /// sleeps, and takes time to wake.
    pub(super) fn run(&self, time: f64, border: u64) -> f64 {
        let far = |known: f64, asked: f64| (known.max(1.0) / asked.max(1.0)).ln().abs();
        let distance = |launch: &Launch| far(launch.time, time) + far(launch.border, border as f64);
        let mut near: Vec<(f64, f64)> = self
            .launches
            .iter()
            .map(|launch| (distance(launch), launch.beside))
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        near.truncate(NEAREST);
        near.sort_by(|a, b| a.1.total_cmp(&b.1));
        time + near.get(near.len() / 2).map_or(0.0, |(_, beside)| *beside)
    }

    /// Nanoseconds of a whole model on the device, composed of its segments; none where one was not measured.
    pub(crate) fn whole(&self, known: &Known, composition: &Composition) -> Option<f64> {
        let sum = sum_of_steps(known, composition)?;
        let time = self.scale * sum - self.border * composition.border as f64;
        // borders that take half of it are not known well enough to be taken off
        Some(time.max(sum / 2.0))
    }
}

/// The sum of the segments less what they share, in nanoseconds.
fn sum_of_steps(known: &Known, composition: &Composition) -> Option<f64> {
    let mut sum = 0.0;
    for step in &composition.steps {
        sum += known.times.get(&step.segment)?;
        if let Some(shared) = &step.shared {
            sum -= known.times.get(shared)?;
        }
    }
    (sum > 0.0).then_some(sum)
}

/// The coefficients of each op class: as a first step those that fit best, and with the error that remains, those that
/// stay near to what all op classes have in common, the nearer the larger the error. Terms that the rows hardly tell apart
/// would else follow their noise.
fn solve(rows: &[Row], index: &BTreeMap<&str, usize>) -> Vec<f64> {
    let mut own = Nnls::new(index.len() * TERMS);
    let mut pooled = Nnls::new(TERMS);
    let mut size = vec![0.0; index.len() * TERMS];
    // relative errors: a row of a microsecond counts like one of a second
    let cells = |row: &Row| -> Vec<(usize, f64)> {
        let factor = row.weight / row.time;
        let of_class = |(name, terms): (&String, &[f64; TERMS])| {
            let first = index[name.as_str()] * TERMS;
            std::array::from_fn::<_, TERMS, _>(|at| (first + at, terms[at] * factor))
        };
        row.work.iter().flat_map(of_class).collect()
    };
    for row in rows {
        let cells = cells(row);
        own.add(&cells, row.weight);
        let mut sums = [0.0; TERMS];
        for (at, value) in &cells {
            sums[at % TERMS] += value;
            size[*at] += value * value;
        }
        pooled.add(&sums.into_iter().enumerate().collect::<Vec<_>>(), row.weight);
    }
    let (best, common) = (own.solve(), pooled.solve());
    let error = |row: &Row| {
        let sum: f64 = cells(row).iter().map(|(at, value)| best[*at] * value).sum();
        (sum - row.weight).powi(2)
    };
    let error = (rows.iter().map(error).sum::<f64>() / rows.len() as f64).sqrt();
    for (at, size) in size.iter().enumerate() {
        let pull = error / SPREAD * size.sqrt();
        own.add(&[(at, pull)], pull * common[at % TERMS]);
    }
    own.solve()
}

fn rows(table: &Table, known: &Known, without: &Without<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut seen: BTreeSet<(&str, Option<&str>)> = BTreeSet::new();
    let wholes = known
        .runs
        .keys()
        .filter(|whole| !without.wholes.contains(whole.as_str()));
    for whole in wholes {
        let content = &table.contents[whole];
        let is_out = |part: &str| !table.groups(part).is_disjoint(&without.groups);
        if let Some(&time) = known.times.get(whole).filter(|_| !is_out(whole)) {
            let mut work = Work::new();
            add(&mut work, &content.groups, 1.0);
            rows.push(Row {
                work,
                time,
                weight: WHOLE_WEIGHT,
            });
        }
        for step in &content.composition.steps {
            let key = (step.segment.as_str(), step.shared.as_deref());
            let Some(segment) = table.contents.get(&step.segment) else {
                continue;
            };
            let Some(&whole) = known
                .times
                .get(&step.segment)
                .filter(|_| !is_out(&step.segment) && seen.insert(key))
            else {
                continue;
            };
            let mut work = Work::new();
            add(&mut work, &segment.groups, 1.0);
            let mut time = whole;
            if let Some(shared) = &step.shared {
                let (Some(content), Some(alone)) = (table.contents.get(shared), known.times.get(shared))
                else {
                    continue;
                };
                add(&mut work, &content.groups, -1.0);
                time -= alone;
            }
            work.retain(|_, terms| terms[0] > 0.5);
            if time > REST * whole && !work.is_empty() {
                rows.push(Row {
                    work,
                    time,
                    weight: 1.0,
                });
            }
        }
    }
    rows
}

fn launches(table: &Table, known: &Known, without: &Without<'_>) -> Vec<Launch> {
    let is_in =
        |part: &str| !without.wholes.contains(part) && table.groups(part).is_disjoint(&without.groups);
    let parts = known.latencies.iter().filter(|(part, _)| is_in(part));
    let launches = parts.filter_map(|(part, latency)| {
        let time = *known.times.get(part)?;
        Some(Launch {
            time,
            border: table.contents.get(part)?.border as f64,
            beside: (latency - time).max(0.0),
        })
    });
    launches.collect()
}

/// What wholes take of the sums of their segments, and of a byte at a border that they have not: the least squares of
/// relative errors of `whole = scale · sum - border · bytes`.
fn composed(table: &Table, known: &Known, without: &Without<'_>) -> (f64, f64) {
    let mut square = [0.0; 3];
    let mut right = [0.0; 2];
    for whole in known
        .runs
        .keys()
        .filter(|whole| !without.wholes.contains(whole.as_str()))
    {
        let composition = &table.contents[whole].composition;
        let (Some(sum), Some(time)) = (sum_of_steps(known, composition), known.times.get(whole)) else {
            continue;
        };
        let row = [sum / time, -(composition.border as f64) / time];
        square[0] += row[0] * row[0];
        square[1] += row[0] * row[1];
        square[2] += row[1] * row[1];
        right[0] += row[0];
        right[1] += row[1];
    }
    if square[0] <= 0.0 {
        return (1.0, 0.0);
    }
    let alone = (right[0] / square[0]).clamp(1.0 / SCALE, SCALE);
    let determinant = square[0] * square[2] - square[1] * square[1];
    if determinant <= 1e-9 * square[0] * square[2] {
        return (alone, 0.0);
    }
    let scale = ((right[0] * square[2] - right[1] * square[1]) / determinant).clamp(1.0 / SCALE, SCALE);
    let border = (right[1] - square[1] * scale) / square[2];
    if border > 0.0 {
        (scale, border)
    } else {
        (alone, 0.0)
    }
}
