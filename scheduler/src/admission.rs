//! Admission: sessions that share devices, with a proof before their first run that no deadline is
//! missed.
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
//! 1. Sessions are admitted together with all live admitted sessions: one certificate covers them
//!    all.
//! 2. An admitted session runs the certified plan, with the certified part deadlines, and each of
//!    its parts has its device to itself, even on a CPU with several execution slots.
//! 3. Memory held for an admitted session is never freed for another one.
//!
//! Not here: the test itself (package `polychip-device-queue`), the queue order (`device_queue`), the plans of a
//! governed session (`session/govern`).

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

/// Default margin on unmeasured times, in per cent.
const MARGIN_PERCENT: f64 = 50.0;
/// Largest margin, in per cent.
const MOST_MARGIN_PERCENT: f64 = 1000.0;

/// A session to admit.
#[derive(Debug, Clone)]
pub struct Wanted {
    name: String,
    model: Model,
    policy: Policy,
    margin_percent: f64,
}

/// The result of admission.
#[derive(Debug)]
pub enum Admission {
    /// Proved: no deadline is missed.
    Admitted(Admitted),
    /// Not proved.
    Refused(RefusalReport),
}

/// Admitted sessions that are not created yet. They count as admitted until this value is dropped.
#[derive(Debug)]
pub struct Admitted {
    runtime: Runtime,
    reserved: Reserved,
}

impl Wanted {
    /// A session of this model, with this name in reports. Admission uses [`Policy::priority`],
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

    /// Sets the margin added to predicted times of unmeasured parts, in per cent, from 0 to 1,000
    /// (default 50). Parts in the profile ([`Runtime::profile_models`]) get no margin.
    #[must_use]
    pub fn margin_percent(mut self, margin_percent: f64) -> Self {
        self.margin_percent = margin_percent;
        self
    }

    fn wrong(&self, words: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::BadInput, format!("session {}: {words}", self.name))
    }

    /// The arrivals of its runs.
    ///
    /// # Errors
    /// The policy does not suit admission.
    fn arrivals(&self) -> Result<Arrivals> {
        let policy = &self.policy;
        if !(0.0..=MOST_MARGIN_PERCENT).contains(&self.margin_percent) {
            let margin = self.margin_percent;
            return Err(self.wrong(format!("the margin is {margin} %; expected 0 to 1000 %")));
        }
        if !self.model.open_dims().is_empty() {
            let names = self.model.open_dims().join(", ");
            let words = format!("admission needs known sizes; set the size of {names} (Model::bind)");
            return Err(self.wrong(words));
        }
        if policy.governing().is_some() {
            return Err(self.wrong("a governor changes plans as it likes, which no certificate is about"));
        }
        let ns = |what: &str, time: Duration| match u64::try_from(time.as_nanos()) {
            Ok(ns @ 1..=LONGEST_NS) => Ok(ns),
            _ => Err(self.wrong(format!(
                "the {what} is {time:?}; expected above 0 and at most 11 days"
            ))),
        };
        match (policy.stated_period(), policy.frame_deadline()) {
            (None, None) => Ok(Arrivals::Endless),
            (None, Some(_)) => Err(self.wrong("a deadline needs a period; set it (Policy::period)")),
            (Some(period), deadline) => {
                let period_ns = ns("period", period)?;
                let deadline_ns = ns("deadline", deadline.unwrap_or(period))?;
                let overlap = deadline_ns.div_ceil(period_ns);
                if overlap > policy.runs_in_flight() as u64 {
                    let words = format!(
                        "{overlap} runs may be in flight at once, the policy allows {}; raise it (Policy::in_flight)",
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

    /// The policy of its session: the deadline is the period unless stated.
    fn own_policy(&self) -> Policy {
        match (self.policy.stated_period(), self.policy.frame_deadline()) {
            (Some(period), None) => self.policy.clone().deadline(period),
            _ => self.policy.clone(),
        }
        .replicas(false)
    }

    /// The session as a member of the set, with its uncut plan, and its policy.
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
    /// The proof, if the sessions are admitted.
    #[must_use]
    pub fn certificate(&self) -> Option<&CertificateReport> {
        match self {
            Admission::Admitted(admitted) => Some(admitted.certificate()),
            Admission::Refused(_) => None,
        }
    }

    /// The reasons, if they are refused.
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
    /// [`ErrorKind::NotAdmitted`] with the refusal as text, if they are refused.
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
    /// The proof, for these sessions and those admitted before.
    #[must_use]
    pub fn certificate(&self) -> &CertificateReport {
        &self.reserved.certificate
    }

    /// Compiles and loads the sessions, in the requested order. Each counts as admitted until its
    /// last clone is dropped.
    ///
    /// # Errors
    /// A device refused a part. Then no session is admitted.
    pub fn sessions(self) -> Result<Vec<Session>> {
        registry::make(&self.runtime.1, &self.runtime.0, self.reserved)
    }
}

impl Runtime {
    /// Tests whether sessions of these models meet their deadlines together with all admitted
    /// sessions, and returns the proof or the reasons against it. Admission chooses a plan for each
    /// session, and splits plans whose parts would delay other sessions too long. It uses the best
    /// plan of each policy if these plans fit together, and other plans if they do not.
    ///
    /// If necessary, this call also splits the plans of sessions that were admitted before. A run
    /// that such a session submitted earlier still ends on its old plan, and the certificate holds
    /// only after that. An endless or batch session whose plan is split keeps the unsplit plan
    /// ready. It returns to that plan once the sessions that required the split are dropped.
    ///
    /// `docs/several-models.md` states what is proved and under which assumptions. The proof does
    /// not cover sessions that were not admitted, nor a device that is lost, because its parts move
    /// to other devices.
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
    /// As for [`Runtime::plan`]; a model with open sizes, a governed policy, a deadline without a
    /// period, or a name that is in use; or a device refused a part of a split plan.
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

    /// The proof for all currently admitted sessions; `None` without admitted sessions.
    #[must_use]
    pub fn admitted(&self) -> Option<CertificateReport> {
        self.1.certificate(&self.0)
    }
}
