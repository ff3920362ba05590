//! What admission says, for people (`Display`) and programs (JSON).
//!
//! Invariant: every time is in nanoseconds, and devices and sessions are called by their names.

use std::fmt;

use polychip_device_queue::{
    self as lanes, Class, Fit, Instant, Milliseconds, Miss, Missing, Reason, TaskSet,
};
use polychip_host::Priority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::admission::timed::TimedPart;

/// Arrivals that are printed of a pattern that misses.
const SHOWN: usize = 12;

/// How urgent runs are; the class of their turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Priority")]
pub enum Urgency {
    /// A frame that someone waits for.
    Urgent,
    /// The usual.
    #[default]
    Normal,
    /// Work that nobody waits for.
    Batch,
}

/// The proof that no deadline is missed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CertificateReport {
    /// The devices that the sessions use.
    pub devices: Vec<DeviceProof>,
    /// The sessions, those that were admitted first in front.
    pub sessions: Vec<SessionProof>,
}

/// What is proved of a device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeviceProof {
    /// Its name.
    pub device: String,
    /// Share of it that sessions with deadlines take, each as often as it may come.
    pub utilisation: f64,
    /// Bytes that the plans of all sessions hold there, those that are only kept ready among them.
    pub memory_bytes: u64,
    /// Bytes that there are; none where the device states no limit.
    pub memory_limit_bytes: Option<u64>,
    /// The longest part of a session without deadline that is allowed there, in nanoseconds; none where any is.
    pub longest_part_ns: Option<u64>,
    /// By priority with deadlines: the deadline that leaves the least time.
    pub tightest: Vec<InstantReport>,
}

/// What an admitted session is counted with.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SessionProof {
    /// Its name.
    pub session: String,
    /// How urgent it is.
    pub priority: Urgency,
    /// Shortest time from a run to the next, in nanoseconds; none where it is endless.
    pub period_ns: Option<u64>,
    /// Longest time from submit to the end of a run, in nanoseconds; none without a period.
    pub deadline_ns: Option<u64>,
    /// Which of its plans was chosen.
    pub plan: String,
    /// What the plan was cut by, as it is predicted, in nanoseconds; none where it is not cut.
    pub cut_ns: Option<u64>,
    /// Its plan before it was cut is ready too, for when the deadlines that it was cut for are gone.
    pub uncut_ready: bool,
    /// The parts.
    pub parts: Vec<PartProof>,
}

/// What a part is counted with.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PartProof {
    /// Its device and time, and where that comes from.
    #[serde(flatten)]
    pub timed: TimedPart,
    /// Time from submit to when it is to be done, as its device's lane sees it, in nanoseconds; none without deadline.
    pub due_ns: Option<u64>,
    /// How long it might be so that nobody misses a deadline because of it, in nanoseconds; none where any length is.
    pub longest_ns: Option<u64>,
}

/// A deadline, and what may be to do by then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InstantReport {
    /// On which device.
    pub device: String,
    /// Of runs of this priority.
    pub priority: Urgency,
    /// The supply: time from when the device became busy to the deadline, in nanoseconds.
    pub supply_ns: u64,
    /// The demand: what may be to do by then, in nanoseconds; the sum of those below.
    pub demand_ns: u64,
    /// Of that, what is due of runs of this priority.
    pub due_ns: u64,
    /// Of that, what may come of more urgent ones.
    pub more_urgent_ns: u64,
    /// Of that, parts that the device was given before and does not give back.
    pub blocking_ns: u64,
    /// Of that, what less urgent ones may get out of turn, by their shares.
    pub out_of_turn_ns: u64,
}

/// Why a set is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusalReport {
    /// In words: device, instant, demand, supply.
    pub reason: String,
    /// The deadline at which demand may exceed supply, where that is the reason.
    pub instant: Option<InstantReport>,
    /// Single changes with which the set would be admitted, in words.
    pub would_fit: Vec<String>,
    /// What the refusal proves.
    pub proof: Proof,
    /// With `misses`: arrivals under which a run is late, in order of time; the first at 0.
    pub arrivals: Vec<ArrivalReport>,
    /// With `misses`: the run that is late.
    pub miss: Option<MissReport>,
}

/// What a refusal proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// There are arrivals under which a deadline is missed.
    Misses,
    /// Nothing: the test is sufficient only, and the set may be fine.
    SufficientOnly,
    /// The memory does not suffice, whenever runs come.
    Memory,
}

/// A run that comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArrivalReport {
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// Of which model.
    pub model: String,
}

/// A run that is late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MissReport {
    /// Of which model.
    pub model: String,
    /// When it came, in nanoseconds.
    pub arrived_ns: u64,
    /// When it was due, in nanoseconds.
    pub due_ns: u64,
    /// When it ended, in nanoseconds.
    pub ended_ns: u64,
    /// What devices did from its arrival to its end.
    pub log: Vec<RanReport>,
}

/// A part that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RanReport {
    /// On which device.
    pub device: String,
    /// Of which model.
    pub model: String,
    /// Number of the part.
    pub part: usize,
    /// When it began, in nanoseconds.
    pub start_ns: u64,
    /// When it ended, in nanoseconds.
    pub end_ns: u64,
}

impl Urgency {
    /// The class of the turns.
    #[must_use]
    pub fn class(self) -> Class {
        match self {
            Urgency::Urgent => Class::Urgent,
            Urgency::Normal => Class::Normal,
            Urgency::Batch => Class::Background,
        }
    }

    /// The word of files and reports.
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
    /// In the words of the set.
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
    /// All that is known of a refused set; arrivals that miss are looked for.
    ///
    /// # Errors
    /// The set means nothing ([`TaskSet::check`]).
    pub fn of(set: &TaskSet, reason: &Reason) -> Result<Self, lanes::Error> {
        let fits = lanes::what_would_fit(set, reason)?;
        let (proof, arrivals, miss) = match lanes::missing(set, reason) {
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

/// A change in words.
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
    /// In the words of the set.
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
        write!(f, "{}: deadlines take {share:.1} % at most; ", self.device)?;
        match self.longest_part_ns {
            Some(longest) => write!(f, "longest part allowed {}", Milliseconds(longest))?,
            None => write!(f, "parts may be as long as they like")?,
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
            f.write_str(", the uncut one is ready too")?;
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
                    "  sufficient only: no arrivals were found that miss; the set may be fine"
                )
            }
            Proof::Misses => {
                let arrivals = self
                    .arrivals
                    .iter()
                    .take(SHOWN)
                    .map(|arrival| format!("{} at {} ms", arrival.model, arrival.time_ns as f64 / 1e6));
                let arrivals: Vec<String> = arrivals.collect();
                let more = match self.arrivals.len() > SHOWN {
                    true => format!(", and {} more", self.arrivals.len() - SHOWN),
                    false => String::new(),
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
            "{} came at {}, was due at {} and ended at {}",
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
            "{}: tightest {} after it became busy: {} to do at most ({} due",
            self.priority,
            Milliseconds(self.supply_ns),
            Milliseconds(self.demand_ns),
            Milliseconds(self.due_ns),
        )?;
        for (time, what) in [
            (self.more_urgent_ns, "more urgent"),
            (self.blocking_ns, "begun before"),
            (self.out_of_turn_ns, "of less urgent ones by their shares"),
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
