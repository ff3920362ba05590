//! Admission results, for people (`Display`) and programs (JSON).
//!
//! Invariant: every time is in nanoseconds, and devices and sessions are identified by name.

use std::fmt;

use polychip_device_queue::{
    self as device_queue, Class, Fit, Instant, Milliseconds, Miss, Missing, Reason, TaskSet,
};
use polychip_host::Priority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::admission::timed::TimedPart;

/// Arrivals that are printed of a pattern that misses.
const SHOWN: usize = 12;

/// The priority of a session's runs, which is their class in the device queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Priority")]
pub enum Urgency {
    /// A frame that a user waits for.
    Urgent,
    /// The default.
    #[default]
    Normal,
    /// Work that no user waits for.
    Batch,
}

/// A proof that no deadline is missed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CertificateReport {
    /// The devices of the sessions.
    pub devices: Vec<DeviceProof>,
    /// The sessions, in order of admission.
    pub sessions: Vec<SessionProof>,
}

/// The proof for one device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeviceProof {
    /// Its name.
    pub device: String,
    /// Share of the device used by sessions with deadlines at their highest rates.
    pub utilisation: f64,
    /// Bytes that the plans of all sessions hold there, including standby plans.
    pub memory_bytes: u64,
    /// Memory limit in bytes; none if the device states none.
    pub memory_limit_bytes: Option<u64>,
    /// Limit on a part of a session without a deadline, in nanoseconds; none if unlimited.
    pub longest_part_ns: Option<u64>,
    /// The deadline with the least slack, by priority.
    pub tightest: Vec<InstantReport>,
}

/// The figures of an admitted session.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SessionProof {
    /// Its name.
    pub session: String,
    /// Its priority.
    pub priority: Urgency,
    /// Shortest time between runs, in nanoseconds; none if it is endless.
    pub period_ns: Option<u64>,
    /// Deadline from submit to the end of a run, in nanoseconds; none without a period.
    pub deadline_ns: Option<u64>,
    /// The chosen plan.
    pub plan: String,
    /// Longest predicted part time to which the plan was split, in nanoseconds; none if it is not
    /// split.
    pub cut_ns: Option<u64>,
    /// Whether the unsplit plan is kept ready, for when the sessions that required the split are
    /// dropped.
    pub uncut_ready: bool,
    /// The parts.
    pub parts: Vec<PartProof>,
}

/// The figures of a part.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PartProof {
    /// Its device, time and provenance.
    #[serde(flatten)]
    pub timed: TimedPart,
    /// Deadline from submit in the device's queue, in nanoseconds; none without a deadline.
    pub due_ns: Option<u64>,
    /// Length up to which the part causes no missed deadline, in nanoseconds; none if unlimited.
    pub longest_ns: Option<u64>,
}

/// A deadline and the demand before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InstantReport {
    /// The device.
    pub device: String,
    /// The priority of the runs with this deadline.
    pub priority: Urgency,
    /// Supply: time from when the device became busy to the deadline, in nanoseconds.
    pub supply_ns: u64,
    /// Demand: upper bound of the work by then, in nanoseconds; the sum of the figures below.
    pub demand_ns: u64,
    /// Work due at this priority, in nanoseconds.
    pub due_ns: u64,
    /// More urgent work, in nanoseconds.
    pub more_urgent_ns: u64,
    /// Non-preemptible parts that the device had already begun, in nanoseconds.
    pub blocking_ns: u64,
    /// Work guaranteed to lower priorities by their shares, in nanoseconds.
    pub out_of_turn_ns: u64,
}

/// The reasons for a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusalReport {
    /// Device, instant, demand and supply as text.
    pub reason: String,
    /// The deadline at which demand may exceed supply, if that is the reason.
    pub instant: Option<InstantReport>,
    /// Single changes that would make the set admissible, as text.
    pub would_fit: Vec<String>,
    /// What the refusal proves.
    pub proof: Proof,
    /// If `proof` is `misses`: arrivals under which a run is late, in order of time from 0.
    pub arrivals: Vec<ArrivalReport>,
    /// If `proof` is `misses`: the late run.
    pub miss: Option<MissReport>,
}

/// What a refusal proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// Some arrivals miss a deadline.
    Misses,
    /// Nothing: the test is only sufficient, and the set may be schedulable.
    SufficientOnly,
    /// Memory is insufficient, regardless of arrivals.
    Memory,
}

/// The arrival of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArrivalReport {
    /// Time in nanoseconds.
    pub time_ns: u64,
    /// Its model.
    pub model: String,
}

/// A late run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MissReport {
    /// Its model.
    pub model: String,
    /// Arrival in nanoseconds.
    pub arrived_ns: u64,
    /// Deadline in nanoseconds.
    pub due_ns: u64,
    /// End in nanoseconds.
    pub ended_ns: u64,
    /// The devices' work from its arrival to its end.
    pub log: Vec<RanReport>,
}

/// A completed part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RanReport {
    /// Its device.
    pub device: String,
    /// Its model.
    pub model: String,
    /// Number of the part.
    pub part: usize,
    /// Start in nanoseconds.
    pub start_ns: u64,
    /// End in nanoseconds.
    pub end_ns: u64,
}

impl Urgency {
    /// The class in the device queues.
    #[must_use]
    pub fn class(self) -> Class {
        match self {
            Urgency::Urgent => Class::Urgent,
            Urgency::Normal => Class::Normal,
            Urgency::Batch => Class::Background,
        }
    }

    /// The word in files and reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Urgency::Urgent => "urgent",
            Urgency::Normal => "normal",
            Urgency::Batch => "batch",
        }
    }
}

impl From<Class> for Urgency {
    fn from(class: Class) -> Self {
        match class {
            Class::Urgent => Urgency::Urgent,
            Class::Normal => Urgency::Normal,
            Class::Background => Urgency::Batch,
        }
    }
}

impl From<Priority> for Urgency {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::Urgent => Urgency::Urgent,
            Priority::Normal => Urgency::Normal,
            Priority::Batch => Urgency::Batch,
        }
    }
}

impl From<Urgency> for Priority {
    fn from(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Urgent => Priority::Urgent,
            Urgency::Normal => Priority::Normal,
            Urgency::Batch => Priority::Batch,
        }
    }
}

impl InstantReport {
    /// The instant with the set's names.
    #[must_use]
    pub fn of(set: &TaskSet, instant: &Instant) -> Self {
        Self {
            device: set.devices[instant.device].name.clone(),
            priority: instant.class.into(),
            supply_ns: instant.supply_ns,
            demand_ns: instant.demand_ns(),
            due_ns: instant.own_ns,
            more_urgent_ns: instant.higher_ns,
            blocking_ns: instant.blocking_ns,
            out_of_turn_ns: instant.lower_ns,
        }
    }
}

impl RefusalReport {
    /// The refusal of a set, including a search for arrivals that miss.
    ///
    /// # Errors
    /// The set is invalid ([`TaskSet::check`]).
    pub fn of(set: &TaskSet, reason: &Reason) -> Result<Self, device_queue::Error> {
        let fits = device_queue::what_would_fit(set, reason)?;
        let (proof, arrivals, miss) = match device_queue::missing(set, reason) {
            Missing::Shown { arrivals, miss, .. } => {
                (Proof::Misses, arrivals, Some(MissReport::of(set, &miss)))
            }
            Missing::SufficientOnly => (Proof::SufficientOnly, Vec::new(), None),
            Missing::NotOfTime => (Proof::Memory, Vec::new(), None),
        };
        let arrivals = arrivals.iter().map(|arrival| ArrivalReport {
            time_ns: arrival.time_ns,
            model: set.tasks[arrival.task].name.clone(),
        });
        Ok(Self {
            reason: reason.said(set).to_string(),
            instant: match reason {
                Reason::Demand { instant, .. } => Some(InstantReport::of(set, instant)),
                _ => None,
            },
            would_fit: fits.iter().map(|fit| words(set, fit)).collect(),
            proof,
            arrivals: arrivals.collect(),
            miss,
        })
    }
}

/// A change as text.
fn words(set: &TaskSet, fit: &Fit) -> String {
    let name = |task: usize| &set.tasks[task].name;
    match *fit {
        Fit::Period { task, period_ns } => {
            format!("{} at most every {}", name(task), Milliseconds(period_ns))
        }
        Fit::Deadline { task, deadline_ns } => {
            format!("{} due after {}", name(task), Milliseconds(deadline_ns))
        }
        Fit::Time { task, permille } => {
            format!("{} in {:.1} % of its time", name(task), permille as f64 / 10.0)
        }
        Fit::Cuts {
            device,
            task,
            longest_ns,
        } => format!(
            "parts of {} on {} no longer than {}, launches counted",
            name(task),
            set.devices[device].name,
            Milliseconds(longest_ns)
        ),
        Fit::Without { task } => format!("without {}", name(task)),
    }
}

impl MissReport {
    /// The miss with the set's names.
    #[must_use]
    pub fn of(set: &TaskSet, miss: &Miss) -> Self {
        let log = miss.log.iter().map(|ran| RanReport {
            device: set.devices[ran.device].name.clone(),
            model: set.tasks[ran.task].name.clone(),
            part: ran.part,
            start_ns: ran.start_ns,
            end_ns: ran.end_ns,
        });
        Self {
            model: set.tasks[miss.task].name.clone(),
            arrived_ns: miss.arrived_ns,
            due_ns: miss.due_ns,
            ended_ns: miss.ended_ns,
            log: log.collect(),
        }
    }
}

impl fmt::Display for Urgency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl fmt::Display for CertificateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "admitted: no deadline is missed while no part takes longer than stated"
        )?;
        self.devices.iter().try_for_each(|device| write!(f, "{device}"))?;
        self.sessions
            .iter()
            .try_for_each(|session| write!(f, "{session}"))
    }
}

impl fmt::Display for DeviceProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.utilisation * 100.0;
        write!(
            f,
            "{}: utilisation by deadlines at most {share:.1} %; ",
            self.device
        )?;
        match self.longest_part_ns {
            Some(longest) => write!(f, "longest part allowed {}", Milliseconds(longest))?,
            None => write!(f, "no limit on part length")?,
        }
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
        match (self.memory_bytes, self.memory_limit_bytes) {
            (0, None) => {}
            (held, None) => write!(f, "; {:.1} MiB held", mib(held))?,
            (held, Some(limit)) => write!(f, "; {:.1} of {:.1} MiB held", mib(held), mib(limit))?,
        }
        writeln!(f)?;
        let mut tightest = self.tightest.iter();
        tightest.try_for_each(|instant| writeln!(f, "  {instant}"))
    }
}

impl fmt::Display for SessionProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: ", self.session, self.priority)?;
        match (self.period_ns, self.deadline_ns) {
            (Some(period), Some(deadline)) => write!(
                f,
                "at most every {}, due after {}",
                Milliseconds(period),
                Milliseconds(deadline)
            )?,
            _ => f.write_str("endless")?,
        }
        write!(f, "; plan {:?}", self.plan)?;
        if let Some(cut) = self.cut_ns {
            write!(f, ", cut to parts of {}", Milliseconds(cut))?;
        }
        if self.uncut_ready {
            f.write_str(", uncut plan kept ready")?;
        }
        writeln!(f)?;
        for (index, part) in self.parts.iter().enumerate() {
            let time = Milliseconds(part.timed.time_ns);
            writeln!(f, "  part {index} takes {time} {}", part.timed)?;
        }
        Ok(())
    }
}

impl fmt::Display for RefusalReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "refused: {}", self.reason)?;
        for fit in &self.would_fit {
            writeln!(f, "  would fit: {fit}")?;
        }
        match self.proof {
            Proof::Memory => Ok(()),
            Proof::SufficientOnly => {
                writeln!(
                    f,
                    "  sufficient test only: no late arrival pattern found; the set may be schedulable"
                )
            }
            Proof::Misses => {
                let arrivals = self
                    .arrivals
                    .iter()
                    .take(SHOWN)
                    .map(|arrival| format!("{} at {} ms", arrival.model, arrival.time_ns as f64 / 1e6));
                let arrivals: Vec<String> = arrivals.collect();
                let more = if self.arrivals.len() > SHOWN {
                    format!(", and {} more", self.arrivals.len() - SHOWN)
                } else {
                    String::new()
                };
                writeln!(f, "  misses with arrivals: {}{more}", arrivals.join(", "))?;
                match &self.miss {
                    Some(miss) => writeln!(f, "  {miss}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl fmt::Display for MissReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} arrived at {}, was due at {} and ended at {}",
            self.model,
            Milliseconds(self.arrived_ns),
            Milliseconds(self.due_ns),
            Milliseconds(self.ended_ns)
        )
    }
}

impl fmt::Display for InstantReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: tightest deadline {} after the device became busy: demand at most {} ({} due",
            self.priority,
            Milliseconds(self.supply_ns),
            Milliseconds(self.demand_ns),
            Milliseconds(self.due_ns),
        )?;
        for (time, what) in [
            (self.more_urgent_ns, "more urgent"),
            (self.blocking_ns, "already begun"),
            (self.out_of_turn_ns, "guaranteed to less urgent work"),
        ] {
            if time > 0 {
                write!(f, ", {} {what}", Milliseconds(time))?;
            }
        }
        write!(
            f,
            "), {} left",
            Milliseconds(self.supply_ns.saturating_sub(self.demand_ns))
        )
    }
}
