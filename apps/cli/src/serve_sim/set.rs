//! The file of a set: models that share devices, in TOML.
//!
//! Invariants: a key that is not known, a period of zero and a device that nobody has are errors that name the model;
//! a part's time is stated in the file or comes from a plan, and says which.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use polychip::admission::Urgency;
use polychip::{Model, Planned, Policy, Runtime};
use polychip_device_queue::{Arrivals, Class, Device, Part, Settings, Task, TaskSet};
use serde::Deserialize;

use crate::exit::bad_input;
use crate::setup::{self, RuntimeArguments};

/// What is added to times that were not measured, in per cent, where the file says nothing.
const MARGIN_PERCENT: f64 = 50.0;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    device: Vec<DeviceRow>,
    model: Vec<ModelRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceRow {
    name: String,
    memory_mib: Option<f64>,
    in_flight: Option<usize>,
    #[serde(default)]
    share_percent: Shares,
    /// Where a part that the device has begun gives way to a more urgent one: the longest until it has.
    preemption_ms: Option<f64>,
    /// From a part of one model to one of another.
    switch_ms: Option<f64>,
}

/// What is guaranteed to less urgent models of a device's time; what a queue guarantees, where left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shares {
    normal: Option<f64>,
    batch: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelRow {
    name: Option<String>,
    /// Where it is planned instead of stated; beside the file.
    path: Option<PathBuf>,
    #[serde(default)]
    devices: Vec<String>,
    threads: Option<u32>,
    margin_percent: Option<f64>,
    /// Endless where left out.
    period_ms: Option<f64>,
    /// The period where left out.
    deadline_ms: Option<f64>,
    #[serde(default)]
    priority: Urgency,
    #[serde(default)]
    parts: Vec<PartRow>,
    #[serde(default)]
    launch_ms: f64,
    max_part_ms: Option<f64>,
    #[serde(default)]
    memory_mib: BTreeMap<String, f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartRow {
    device: String,
    time_ms: f64,
}

/// A set, and what is said of its models beside.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) set: TaskSet,
    /// By model.
    pub(super) models: Vec<Told>,
    /// Where a model was planned: what it was planned for.
    pub(super) runtime: Option<Runtime>,
}

/// What is said of a model.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) priority: Urgency,
    /// Where the times of its parts come from, in words.
    pub(super) times: Vec<String>,
    /// The plan of a model with a path, and what it was planned by.
    pub(super) planned: Option<(Planned, Policy)>,
}

/// Reads a set; stated parts are cut so that none is longer than `max_part_ms`, whatever the file says.
pub(super) fn read(
    path: &Path,
    runtime: &RuntimeArguments,
    max_part_ms: Option<f64>,
) -> anyhow::Result<Read> {
    let text = crate::file::read_text(path)?;
    let mut planner = Planner {
        arguments: runtime,
        folder: path.parent().unwrap_or(Path::new(".")),
        runtime: None,
    };
    let made = made(&text, max_part_ms, &mut planner);
    made.map_err(|error| error.context(path.display().to_string()))
}

/// Plans models that the file only names, all by one runtime.
struct Planner<'a> {
    arguments: &'a RuntimeArguments,
    /// Of the file.
    folder: &'a Path,
    /// Made for the first of them.
    runtime: Option<Runtime>,
}

/// The set of this text.
fn made(text: &str, max_part_ms: Option<f64>, planner: &mut Planner<'_>) -> anyhow::Result<Read> {
    let file: File = toml::from_str(text).map_err(|error| bad_input(error.to_string().trim_end()))?;
    let mut devices = Vec::new();
    for row in &file.device {
        if devices.iter().any(|device: &Device| device.name == row.name) {
            return Err(bad_input(format!("device {}: listed twice", row.name)));
        }
        devices.push(Device {
            memory_bytes: row.memory_mib.map(|mib| bytes(&row.name, mib)).transpose()?,
            queue: row.queue()?,
            switch_ns: row.time("switch_ms", row.switch_ms)?.unwrap_or(0),
            ..Device::new(&row.name)
        });
    }
    let mut set = TaskSet::new(devices, Vec::new());
    let mut models = Vec::new();
    for (index, row) in file.model.iter().enumerate() {
        let (task, told) = row.task(
            index,
            &mut set.devices,
            !file.device.is_empty(),
            max_part_ms,
            planner,
        )?;
        if set.tasks.iter().any(|other| other.name == task.name) {
            return Err(bad_input(format!("model {}: the name is used twice", task.name)));
        }
        set.tasks.push(task);
        models.push(told);
    }
    // what the file does not say of a device that is there, its plugin does
    let runtime = planner.runtime.take();
    for found in runtime.iter().flat_map(|runtime| runtime.devices()) {
        let row = file.device.iter().find(|row| row.name == found.name());
        let Some(device) = set.devices.iter_mut().find(|device| device.name == found.name()) else {
            continue;
        };
        let info = found.info();
        if row.is_none_or(|row| row.preemption_ms.is_none()) && info.preemption.is_possible() {
            device.queue.preemption_ns = Some(info.preemption_bound_ns.unwrap_or(u64::MAX));
        }
        if row.is_none_or(|row| row.switch_ms.is_none()) {
            device.switch_ns = info.switch_ns.unwrap_or(0);
        }
    }
    set.check().map_err(bad_input)?;
    Ok(Read { set, models, runtime })
}

impl DeviceRow {
    /// A time from 0, in nanoseconds.
    fn time(&self, what: &str, ms: Option<f64>) -> anyhow::Result<Option<u64>> {
        let Some(ms) = ms else { return Ok(None) };
        match nanoseconds(ms) {
            Some(time) => Ok(Some(time)),
            None if ms == 0.0 => Ok(Some(0)),
            None => Err(bad_input(format!(
                "device {}: {what} is {ms}; expected milliseconds of 0 or more",
                self.name
            ))),
        }
    }

    /// How its queue goes on.
    fn queue(&self) -> anyhow::Result<Settings> {
        let usual = Settings::default();
        let share = |class: Class, percent: Option<f64>| match percent {
            None => Ok(usual.share_permille[class.index()]),
            Some(percent @ 0.0..=100.0) => Ok((percent * 10.0).round() as u16),
            Some(percent) => Err(bad_input(format!(
                "device {}: share_percent is {percent}; expected 0 to 100",
                self.name
            ))),
        };
        Ok(Settings {
            in_flight: self.in_flight.unwrap_or(usual.in_flight),
            share_permille: [
                0,
                share(Class::Normal, self.share_percent.normal)?,
                share(Class::Background, self.share_percent.batch)?,
            ],
            preemption_ns: self.time("preemption_ms", self.preemption_ms)?,
            ..usual
        })
    }
}

impl ModelRow {
    /// The task, whose devices are added where the file lists none.
    fn task(
        &self,
        index: usize,
        devices: &mut Vec<Device>,
        is_listed: bool,
        max_part_ms: Option<f64>,
        planner: &mut Planner<'_>,
    ) -> anyhow::Result<(Task, Told)> {
        let stem = self.path.as_deref().and_then(Path::file_stem);
        let name = match (&self.name, stem) {
            (Some(name), _) => name.clone(),
            (None, Some(stem)) => stem.to_string_lossy().into_owned(),
            (None, None) => return Err(bad_input(format!("model {index}: has neither name nor path"))),
        };
        let bad = |words: String| bad_input(format!("model {name}: {words}"));
        let mut device_of = |device: &str| {
            let place = devices.iter().position(|one| one.name == device);
            match place {
                Some(place) => Ok(place),
                None if is_listed => {
                    let names: Vec<&str> = devices.iter().map(|one| one.name.as_str()).collect();
                    Err(bad(format!(
                        "no device {device}; the listed devices are {}",
                        names.join(", ")
                    )))
                }
                None => {
                    devices.push(Device::new(device));
                    Ok(devices.len() - 1)
                }
            }
        };
        let mut times = Vec::new();
        let mut parts = Vec::new();
        let mut memory_bytes = Vec::new();
        let mut kept = None;
        match (&self.path, self.parts.is_empty()) {
            (None, true) => return Err(bad("has neither parts nor path".to_owned())),
            (Some(_), false) => return Err(bad("has both parts and a path; give one".to_owned())),
            (None, false) => {
                if !self.devices.is_empty() || self.threads.is_some() || self.margin_percent.is_some() {
                    return Err(bad(
                        "devices, threads and margin_percent apply only to a model with a path; stated parts name their devices".to_owned(),
                    ));
                }
                let longest = max_part_ms.or(self.max_part_ms);
                for row in &self.parts {
                    let device = device_of(&row.device)?;
                    for time in cut(row.time_ms, longest) {
                        let time_ns = nanoseconds(time + self.launch_ms).ok_or_else(|| {
                            bad(format!("invalid part time of {} ms", time + self.launch_ms))
                        })?;
                        parts.push(Part { device, time_ns });
                    }
                }
                times.push("stated in the file".to_owned());
            }
            (Some(_), true) => {
                if self.max_part_ms.is_some() || self.launch_ms != 0.0 {
                    return Err(bad(
                        "launch_ms and max_part_ms apply only to stated parts, not to those of a plan"
                            .to_owned(),
                    ));
                }
                let (planned, policy) = planner.plan(self)?;
                let margin = self.margin_percent.unwrap_or(MARGIN_PERCENT);
                if !(0.0..=1_000.0).contains(&margin) {
                    return Err(bad(format!("margin_percent is {margin}; expected 0 to 1000")));
                }
                for (index, timed) in planned.timed_parts(margin).iter().enumerate() {
                    let device = device_of(&timed.device)?;
                    parts.push(Part {
                        device,
                        time_ns: timed.time_ns,
                    });
                    times.push(format!("part {index} {timed}"));
                }
                for (device, bytes) in planned.plan().devices.iter().zip(&planned.plan().memory_bytes) {
                    if *bytes > 0 {
                        memory_bytes.push((device_of(device)?, *bytes));
                    }
                }
                kept = Some((planned, policy));
            }
        }
        for (device, mib) in &self.memory_mib {
            memory_bytes.push((device_of(device)?, bytes(&name, *mib)?));
        }
        let time = |what: &str, ms: f64| {
            nanoseconds(ms).ok_or_else(|| bad(format!("{what} is {ms}; expected milliseconds above 0")))
        };
        let arrivals = match (self.period_ms, self.deadline_ms) {
            (None, None) => Arrivals::Endless,
            (None, Some(_)) => {
                return Err(bad(
                    "has a deadline_ms but no period_ms: the period is required".to_owned()
                ));
            }
            (Some(period), deadline) => Arrivals::Sporadic {
                period_ns: time("period_ms", period)?,
                deadline_ns: time("deadline_ms", deadline.unwrap_or(period))?,
            },
        };
        let task = Task {
            name,
            class: self.priority.class(),
            arrivals,
            parts,
            memory_bytes,
        };
        let told = Told {
            priority: self.priority,
            times,
            planned: kept,
        };
        Ok((task, told))
    }
}

impl Planner<'_> {
    /// Plans a model on the devices that its row names.
    fn plan(&mut self, row: &ModelRow) -> anyhow::Result<(Planned, Policy)> {
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => self.arguments.runtime(None)?,
        };
        let runtime = self.runtime.insert(runtime);
        let path = row
            .path
            .as_ref()
            .expect("invariant: only models with a path are planned");
        let model: Model = runtime.load(self.folder.join(path))?;
        let mut policy = Policy::latency().in_flight(1);
        if !row.devices.is_empty() {
            policy = policy.devices(&row.devices);
        }
        if let Some(threads) = row.threads {
            policy = policy.threads(threads);
        }
        Ok((setup::planned(runtime, &model, &policy)?, policy))
    }
}

/// A time cut into as few equal pieces as are no longer than so.
fn cut(time_ms: f64, longest_ms: Option<f64>) -> Vec<f64> {
    let pieces = match longest_ms {
        // a hair more than a whole number of pieces is a rounding error of the file's decimals
        Some(longest) if longest > 0.0 && time_ms > longest => (time_ms / longest - 1e-9).ceil().min(1e6),
        _ => 1.0,
    };
    vec![time_ms / pieces; pieces as usize]
}

/// Milliseconds in nanoseconds, where they are a time above 0.
fn nanoseconds(ms: f64) -> Option<u64> {
    let ns = (ms * 1e6).round();
    (ns >= 1.0 && ns <= polychip_device_queue::LONGEST_NS as f64).then_some(ns as u64)
}

fn bytes(name: &str, mib: f64) -> anyhow::Result<u64> {
    match mib {
        0.0..=1e9 => Ok((mib * 1_048_576.0).round() as u64),
        _ => Err(bad_input(format!(
            "{name}: memory_mib is {mib}; expected 0 to 1e9"
        ))),
    }
}
