//! What `polychip serve-sim` answers, for programs and for people.

use std::fmt;
use std::path::Path;

use polychip::admission::{InstantReport, MissReport, RefusalReport, Urgency};
use polychip_device_queue::{
    Admission, Certificate, Cuts, Instant, Milliseconds, Outcome, Scenario, cuts, deadlines_of,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::{Arguments, Arriving};
use super::set::Read;
use crate::bench::Latency;
use crate::exit::bad_input;

/// Output of `serve-sim --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServeSimOutput {
    /// File of the set.
    set: String,
    /// Whether it is proved that no deadline is missed.
    pub(super) admitted: bool,
    /// Reason for a refusal.
    refusal: Option<RefusalReport>,
    /// The devices.
    devices: Vec<SimulatedDevice>,
    /// The models, in the file's order.
    models: Vec<SimulatedModel>,
    /// Arrivals of runs and their clock.
    simulated: Simulated,
    /// The first late run; with `--real`, without the devices' activity.
    first_miss: Option<MissReport>,
}

/// A device.
#[derive(Debug, Serialize, JsonSchema)]
struct SimulatedDevice {
    /// Its name.
    device: String,
    /// Maximum load of models with deadlines; null if the set is refused.
    utilisation: Option<f64>,
    /// Bytes that the models hold there.
    memory_bytes: u64,
    /// Longest allowed part of a model without a deadline in nanoseconds; null without a limit.
    longest_part_ns: Option<u64>,
    /// By priority with deadlines: the tightest deadline; empty if the set is refused.
    tightest: Vec<InstantReport>,
    /// Maximum time in nanoseconds until a running part yields to a more urgent one; null if parts run to
    /// completion or the bound is unknown.
    preemption_ns: Option<u64>,
    /// Time that is added to each part for going over to it from another model's, in nanoseconds.
    switch_ns: u64,
    /// Share of the simulated time that it was busy; none with `--real`.
    busy: Option<f64>,
}

/// A model.
#[derive(Debug, Serialize, JsonSchema)]
struct SimulatedModel {
    /// Its name.
    model: String,
    /// How urgent it is.
    priority: Urgency,
    /// Minimum time between runs in nanoseconds; null for an endless model.
    period_ns: Option<u64>,
    /// Longest time from arrival to end of a run, in nanoseconds.
    deadline_ns: Option<u64>,
    /// Source of its part times.
    times: Vec<String>,
    /// Its parts.
    parts: Vec<SimulatedPart>,
    /// Runs that came.
    runs: u64,
    /// Runs that ended after their deadline.
    misses: u64,
    /// Runs that ended in a second.
    per_s: f64,
    /// Percentiles of the time from arrival to end, in nanoseconds; none without runs.
    latency_ns: Option<Latency>,
}

/// A part of a model.
#[derive(Debug, Serialize, JsonSchema)]
struct SimulatedPart {
    /// Its device.
    device: String,
    /// The longest time that is counted on, with its launch, in nanoseconds.
    time_ns: u64,
    /// Time from arrival to when the part is to be done, as the queue sees it, in nanoseconds; none without deadline.
    due_ns: Option<u64>,
    /// Maximum length in nanoseconds without causing a deadline miss; null without a limit.
    longest_ns: Option<u64>,
}

/// The time in which runs arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Clock {
    /// Virtual: nothing ran, and each part has its stated time.
    Virtual,
    /// This machine's: the models ran.
    Real,
}

/// How runs came.
#[derive(Debug, Serialize, JsonSchema)]
struct Simulated {
    /// The clock.
    clock: Clock,
    /// Time in which runs arrived in nanoseconds.
    time_ns: u64,
    /// How runs came.
    arrivals: Arriving,
    /// Random seed.
    seed: u64,
}

impl ServeSimOutput {
    /// Of a set that was judged, and whose runs came to this.
    pub(super) fn of(
        path: &Path,
        read: &Read,
        admission: &Admission,
        outcome: &Outcome,
        arguments: &Arguments,
        scenario: &Scenario,
    ) -> anyhow::Result<ServeSimOutput> {
        let set = &read.set;
        let cuts = cuts(set).map_err(bad_input)?;
        let due = deadlines_of(set, admission);
        let refusal = match admission {
            Admission::Admitted(_) => None,
            Admission::Refused(reason) => Some(RefusalReport::of(set, reason).map_err(bad_input)?),
        };
        let said = |instant: &Instant| InstantReport::of(set, instant);
        let devices = set.devices.iter().enumerate().map(|(index, device)| {
            let proof = admission
                .certificate()
                .map(|Certificate { devices, .. }| &devices[index]);
            SimulatedDevice {
                device: device.name.clone(),
                utilisation: proof.map(|proof| proof.utilisation_ppm as f64 / 1e6),
                memory_bytes: set.memory_on(index),
                longest_part_ns: cuts[index].longest_ns,
                tightest: proof.map_or(Vec::new(), |proof| proof.tightest.iter().map(said).collect()),
                preemption_ns: device.queue.preemption_ns.filter(|bound| *bound < u64::MAX),
                switch_ns: device.switch_ns,
                busy: outcome
                    .busy_ns
                    .get(index)
                    .map(|busy| *busy as f64 / scenario.until_ns as f64),
            }
        });
        let models = (0..set.tasks.len())
            .map(|index| SimulatedModel::of(read, index, &due[index], &cuts, outcome, scenario));
        Ok(ServeSimOutput {
            set: path.display().to_string(),
            admitted: refusal.is_none(),
            refusal,
            devices: devices.collect(),
            models: models.collect(),
            simulated: Simulated {
                clock: if arguments.real {
                    Clock::Real
                } else {
                    Clock::Virtual
                },
                time_ns: scenario.until_ns,
                arrivals: arguments.arrivals,
                seed: scenario.seed,
            },
            first_miss: outcome.first_miss.as_ref().map(|miss| MissReport::of(set, miss)),
        })
    }

    /// Late runs.
    pub(super) fn misses(&self) -> u64 {
        self.models.iter().map(|model| model.misses).sum()
    }
}

impl SimulatedModel {
    fn of(
        read: &Read,
        index: usize,
        due: &[u64],
        cuts: &[Cuts],
        outcome: &Outcome,
        scenario: &Scenario,
    ) -> Self {
        let (task, told) = (&read.set.tasks[index], &read.models[index]);
        let outcome = &outcome.tasks[index];
        let (period_ns, deadline_ns) = task.sporadic().unzip();
        let mut subtask = 0;
        let mut parts = Vec::with_capacity(task.parts.len());
        for (place, part) in task.parts.iter().enumerate() {
            if place > 0 && task.parts[place - 1].device != part.device {
                subtask += 1;
            }
            let limits = &cuts[part.device].tasks;
            let limit = limits.iter().find(|(task, _)| *task == index);
            parts.push(SimulatedPart {
                device: read.set.devices[part.device].name.clone(),
                time_ns: part.time_ns,
                due_ns: deadline_ns.map(|_| due[subtask]),
                longest_ns: limit.and_then(|(_, longest)| *longest),
            });
        }
        SimulatedModel {
            model: task.name.clone(),
            priority: told.priority,
            period_ns,
            deadline_ns,
            times: told.times.clone(),
            parts,
            runs: outcome.arrived,
            misses: outcome.late,
            per_s: outcome.ended as f64 * 1e9 / scenario.until_ns as f64,
            latency_ns: (!outcome.times_ns.is_empty()).then(|| Latency::of(outcome.times_ns.clone())),
        }
    }

    /// Note on a deadline beyond the period.
    fn note(&self) -> Option<String> {
        let (period, deadline) = (self.period_ns?, self.deadline_ns?);
        (deadline > period).then(|| {
            format!(
                "{}: due after {}, later than its period of {}: runs overlap, and execute in order of arrival",
                self.model,
                Milliseconds(deadline),
                Milliseconds(period)
            )
        })
    }
}

impl fmt::Display for ServeSimOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.refusal {
            None => writeln!(
                f,
                "admitted: every deadline is met as long as no part takes longer than stated"
            )?,
            Some(refusal) => write!(f, "{refusal}")?,
        }
        for device in &self.devices {
            write!(f, "{device}")?;
        }
        for note in self.models.iter().filter_map(SimulatedModel::note) {
            writeln!(f, "{note}")?;
        }
        let Simulated {
            clock,
            time_ns,
            arrivals,
            seed,
        } = &self.simulated;
        let how = match arrivals {
            Arriving::Periodic => "periodic".to_owned(),
            Arriving::Sporadic => format!("sporadic, seed {seed}"),
        };
        let seconds = *time_ns as f64 / 1e9;
        match clock {
            Clock::Virtual => writeln!(f, "\nsimulated {seconds} s of virtual time, {how}")?,
            Clock::Real => writeln!(f, "\nran {seconds} s on this machine, {how}")?,
        }
        let width = self.models.iter().map(|model| model.model.chars().count());
        let width = width.max().unwrap_or(0).max("model".len());
        writeln!(
            f,
            "{:<width$}  priority {:>10} {:>11} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8}",
            "model", "period ms", "deadline ms", "runs", "missed", "p50 ms", "p99 ms", "worst ms", "per s"
        )?;
        for model in &self.models {
            let ms =
                |time: Option<u64>| time.map_or("-".to_owned(), |time| format!("{:.1}", time as f64 / 1e6));
            let latency = model.latency_ns.as_ref();
            let missed = match model.deadline_ns {
                Some(_) => model.misses.to_string(),
                None => "-".to_owned(),
            };
            writeln!(
                f,
                "{:<width$}  {:<8} {:>10} {:>11} {:>7} {missed:>7} {:>8} {:>8} {:>8} {:>8.2}",
                model.model,
                model.priority.word(),
                ms(model.period_ns),
                ms(model.deadline_ns),
                model.runs,
                ms(latency.map(|latency| latency.p50)),
                ms(latency.map(|latency| latency.p99)),
                ms(latency.map(|latency| latency.max)),
                model.per_s
            )?;
        }
        if let Some(miss) = &self.first_miss {
            writeln!(f, "first miss: {miss}")?;
        }
        for model in &self.models {
            for words in &model.times {
                writeln!(f, "times of {}: {words}", model.model)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for SimulatedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if let Some(utilisation) = self.utilisation {
            words.push(format!("deadline load at most {:.1} %", utilisation * 100.0));
        }
        words.push(match self.longest_part_ns {
            Some(0) => "every part length causes a miss".to_owned(),
            Some(longest) => format!("longest part allowed {}", Milliseconds(longest)),
            None => "no limit on the part length".to_owned(),
        });
        if let Some(bound) = self.preemption_ns {
            words.push(format!("parts yield within {}", Milliseconds(bound)));
        }
        if self.switch_ns > 0 {
            words.push(format!("{} to switch models", Milliseconds(self.switch_ns)));
        }
        if self.memory_bytes > 0 {
            words.push(format!("{:.1} MiB held", self.memory_bytes as f64 / 1_048_576.0));
        }
        if let Some(busy) = self.busy {
            words.push(format!("simulated busy {:.1} %", busy * 100.0));
        }
        writeln!(f, "{}: {}", self.device, words.join("; "))?;
        for instant in &self.tightest {
            writeln!(f, "  {instant}")?;
        }
        Ok(())
    }
}
