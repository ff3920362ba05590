//! Admission: sessions that share devices, with a proof before their first run that no deadline is missed.
//!
//! ```
//! use std::time::Duration;
//! use polychip::admission::{Admission, Wanted};
//! use polychip::{Policy, Priority, Runtime};
//! # fn example(runtime: &Runtime, detector: &polychip::Model, embedder: &polychip::Model) -> Result<(), polychip::Error> {
//! let frame = Duration::from_millis(33);
//! let camera = Policy::latency().priority(Priority::Urgent).period(frame);
//! let search = Policy::latency().priority(Priority::Batch); // without a period: endless
//! match runtime.admit([Wanted::new("camera", detector, camera), Wanted::new("search", embedder, search)])? {
//!     Admission::Admitted(admitted) => {
//!         println!("{}", admitted.certificate()); // utilisation, tightest deadline, plans, where times come from
//!         let sessions = admitted.sessions()?; // in the same order, with these plans
//!         # let _ = sessions;
//!     }
//!     Admission::Refused(refused) => println!("{refused}"), // device, instant, demand, supply, and what would fit
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Invariants:
//! 1. Sessions are admitted together with all that were admitted before and are not dropped: one certificate is of them all.
//! 2. An admitted session runs the plan that the certificate is about, with its parts due as it says, and alone on a device
//!    while a part of it is there, a CPU with several places too.
//! 3. Nothing that holds memory for an admitted session is let go of for another one.
//!
//! Not here: the test itself (package `polychip-device-queue`), whose turn it is (`lane`), the plans of a session that a governor
//! changes (`session/govern`).

mod choose;
mod registry;
mod report;
mod timed;

use std::sync::Arc;
use std::time::Duration;

use polychip_device_queue::{Arrivals, LONGEST_NS};

use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::runtime::Runtime;
use crate::session::{Session, portfolio};
use crate::shared::Shared;
use choose::{Counted, Member};
pub(crate) use registry::Registry;
use registry::Reserved;

pub use report::{
    ArrivalReport, CertificateReport, DeviceProof, InstantReport, MissReport, PartProof, Proof, RanReport,
    RefusalReport, SessionProof, Urgency,
};
pub use timed::{TimeSource, TimedPart};

/// What is added to times that were not measured, in per cent, where nobody says.
const MARGIN_PERCENT: f64 = 50.0;
/// The most that may be added.
const MOST_MARGIN_PERCENT: f64 = 1000.0;

/// A session that is to be admitted.
#[derive(Debug, Clone)]
pub struct Wanted {
    name: String,
    model: Model,
    policy: Policy,
    margin_percent: f64,
}

/// The answer to a set of sessions.
#[derive(Debug)]
pub enum Admission {
    /// No deadline is missed.
    Admitted(Admitted),
    /// That could not be proved.
    Refused(RefusalReport),
}

/// Sessions that were admitted and are not made yet. They keep their place among all admitted ones until this is dropped.
#[derive(Debug)]
pub struct Admitted {
    runtime: Runtime,
    reserved: Reserved,
}

impl Wanted {
    /// A session of this model, called by this name in reports. Of the policy count [`Policy::priority`],
    /// [`Policy::period`] and [`Policy::deadline`].
    #[must_use]
    pub fn new(name: impl Into<String>, model: &Model, policy: Policy) -> Self {
        Self {
            name: name.into(),
            model: model.clone(),
            policy,
            margin_percent: MARGIN_PERCENT,
        }
    }

    /// What is added to the predicted times of parts that were not measured, in per cent, from 0 to 1,000 (default 50).
    /// Parts that are in the profile ([`Runtime::profile_models`]) do without.
    #[must_use]
    pub fn margin_percent(mut self, margin_percent: f64) -> Self {
        self.margin_percent = margin_percent;
        self
    }

    fn wrong(&self, words: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::BadInput, format!("session {}: {words}", self.name))
    }

    /// How runs come, where the policy makes sense for admission.
    fn arrivals(&self) -> Result<Arrivals> {
        let policy = &self.policy;
        if !(0.0..=MOST_MARGIN_PERCENT).contains(&self.margin_percent) {
            let margin = self.margin_percent;
            return Err(self.wrong(format!("the margin is {margin} %; it is from 0 to 1000 %")));
        }
        if !self.model.open_dims().is_empty() {
            let names = self.model.open_dims().join(", ");
            let words =
                format!("the time of a run is only known for known sizes; give one to {names} (Model::bind)");
            return Err(self.wrong(words));
        }
        if policy.governing().is_some() {
            return Err(self.wrong("a governor changes plans as it likes, which no certificate is about"));
        }
        let ns = |what: &str, time: Duration| match u64::try_from(time.as_nanos()) {
            Ok(ns @ 1..=LONGEST_NS) => Ok(ns),
            _ => Err(self.wrong(format!(
                "the {what} is {time:?}; it is above 0 and at most 11 days"
            ))),
        };
        match (policy.stated_period(), policy.frame_deadline()) {
            (None, None) => Ok(Arrivals::Endless),
            (None, Some(_)) => Err(self.wrong(
                "has a deadline and no period: how often its runs come must be known (Policy::period)",
            )),
            (Some(period), deadline) => {
                let period_ns = ns("period", period)?;
                let deadline_ns = ns("deadline", deadline.unwrap_or(period))?;
                let overlap = deadline_ns.div_ceil(period_ns);
                if overlap > policy.runs_in_flight() as u64 {
                    let words = format!(
                        "{overlap} runs may be in flight at once, the policy allows {} (Policy::in_flight)",
                        policy.runs_in_flight()
                    );
                    return Err(self.wrong(words));
                }
                Ok(Arrivals::Sporadic {
                    period_ns,
                    deadline_ns,
                })
            }
        }
    }

    /// The policy that its session goes by.
    fn own_policy(&self) -> Policy {
        match (self.policy.stated_period(), self.policy.frame_deadline()) {
            (Some(period), None) => self.policy.clone().deadline(period),
            _ => self.policy.clone(),
        }
        .replicas(false)
    }

    /// What is to be chosen for it.
    fn member(&self, shared: &Shared) -> Result<(Member, Policy)> {
        let arrivals = self.arrivals()?;
        let policy = self.own_policy();
        let planned = Planned::new(shared, &self.model, &policy, &|_| {})?;
        let name = portfolio::word(policy.aim()).to_owned();
        let base = Arc::new(Counted::uncut(name, planned, self.margin_percent));
        let (name, margin_percent) = (&self.name, self.margin_percent);
        Ok((
            Member::wanted(name, margin_percent, policy.clone(), arrivals, base),
            policy,
        ))
    }
}

impl Admission {
    /// The proof, where the sessions are admitted.
    #[must_use]
    pub fn certificate(&self) -> Option<&CertificateReport> {
        match self {
            Admission::Admitted(admitted) => Some(admitted.certificate()),
            Admission::Refused(_) => None,
        }
    }

    /// What stands against them, where they are refused.
    #[must_use]
    pub fn refusal(&self) -> Option<&RefusalReport> {
        match self {
            Admission::Admitted(_) => None,
            Admission::Refused(refusal) => Some(refusal),
        }
    }

    /// The admitted sessions.
    ///
    /// # Errors
    /// They are refused ([`ErrorKind::NotAdmitted`], with the refusal in words).
    pub fn admitted(self) -> Result<Admitted> {
        match self {
            Admission::Admitted(admitted) => Ok(admitted),
            Admission::Refused(refusal) => {
                Err(Error::new(ErrorKind::NotAdmitted, refusal.to_string().trim_end()))
            }
        }
    }
}

impl std::fmt::Display for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Admission::Admitted(admitted) => admitted.certificate().fmt(f),
            Admission::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl Admitted {
    /// The proof, of these sessions and those that were admitted before.
    #[must_use]
    pub fn certificate(&self) -> &CertificateReport {
        &self.reserved.certificate
    }

    /// Compiles and loads the sessions, in the order in which they were asked for. Each has its place among the admitted
    /// ones until its last clone is dropped.
    ///
    /// # Errors
    /// A device refused a part. Then none of them is admitted any more.
    pub fn sessions(self) -> Result<Vec<Session>> {
        registry::make(&self.runtime.1, &self.runtime.0, self.reserved)
    }
}

impl Runtime {
    /// Whether sessions of these models meet their deadlines beside each other and all that were admitted before: with
    /// the proof, or with what stands against it. A plan is chosen for each, and cut where its parts would hold others up
    /// for too long: what each policy likes best where all of these fit together, else what does.
    ///
    /// Sessions that were admitted before are cut, where they must be, before this returns; a run of theirs that was
    /// submitted by then still ends on its old plan, until when the certificate does not hold. An endless or batch session
    /// that is cut keeps its uncut plan ready, and has it back once the sessions are dropped that it was cut for.
    ///
    /// What is proved, and as long as what holds, says `docs/several-models.md`. Sessions that were not admitted are not
    /// counted; nor is a device that is lost, whose parts go elsewhere.
    ///
    /// ```
    /// use std::time::Duration;
    /// use polychip::admission::Wanted;
    /// use polychip::{Policy, Priority, Runtime};
    ///
    /// # fn example(runtime: &Runtime, detector: &polychip::Model, embedder: &polychip::Model) -> Result<(), polychip::Error> {
    /// let camera = Policy::latency().priority(Priority::Urgent).period(Duration::from_millis(33));
    /// let search = Policy::latency().priority(Priority::Batch);
    /// let wanted = [Wanted::new("camera", detector, camera), Wanted::new("search", embedder, search)];
    /// let sessions = runtime.admit(wanted)?.admitted()?.sessions()?;
    /// # let _ = sessions;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Runtime::plan`]; a model with open sizes, a governed policy, a deadline without a period, a name that is taken;
    /// a device refused a part that an admitted session would have been cut to.
    pub fn admit(&self, wanted: impl IntoIterator<Item = Wanted>) -> Result<Admission> {
        let wanted = wanted.into_iter().map(|wanted| wanted.member(&self.0));
        let wanted = wanted.collect::<Result<Vec<_>>>()?;
        Ok(match registry::admit(&self.1, &self.0, wanted)? {
            Ok(reserved) => Admission::Admitted(Admitted {
                runtime: self.clone(),
                reserved,
            }),
            Err(refusal) => Admission::Refused(refusal),
        })
    }

    /// The proof of all sessions that are admitted now, as they run; none where there are none.
    #[must_use]
    pub fn admitted(&self) -> Option<CertificateReport> {
        self.1.certificate(&self.0)
    }
}
