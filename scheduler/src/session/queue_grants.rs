//! Queue grants of a run's parts on their devices, and when the run is dropped instead.
//!
//! Not here: the queue order (`device_queue`), when a part is ready (`run_state`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use polychip_device_queue::Class;
use polychip_host::{Clock, Priority};

use crate::device_queue::{DeviceQueue, GrantRequest, QueueGrant};
use crate::error::{Error, ErrorKind};
use crate::late_policy::Late;
use crate::session::notifier::Notifier;
use crate::session::wiring::{PartWiring, Wiring};

/// The class and deadline of a run, and the policy for a missed deadline.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terms {
    pub(crate) class: Class,
    /// On the runtime's clock.
    pub(crate) due_ns: Option<u64>,
    /// When it was submitted, on the same clock.
    pub(crate) since_ns: u64,
    pub(crate) late: Late,
    /// Its number among the runs of its session, and the number of the latest.
    pub(crate) number: u64,
    pub(crate) latest: Arc<AtomicU64>,
}

impl Terms {
    /// The terms of a run that gives way to all others, without a waiter.
    pub(crate) fn in_background(since_ns: u64) -> Terms {
        Terms {
            class: Class::Background,
            since_ns,
            ..Terms::default()
        }
    }

    /// The grant request of a part of the run.
    fn asked(&self, part: &PartWiring) -> GrantRequest {
        let deadline_ns = match part.within_ns.load(Ordering::Relaxed) {
            u64::MAX => self.due_ns,
            within_ns => Some(self.since_ns.saturating_add(within_ns)),
        };
        GrantRequest {
            class: self.class,
            deadline_ns,
            since_ns: self.since_ns,
            expected_ns: part.expected_ns,
            width: part.width,
        }
    }

    /// The error of a run that is dropped now; `is_begun` where a part was with its device.
    fn dropped(&self, clock: &Clock, is_begun: bool) -> Option<Error> {
        let words = match self.late {
            Late::Finish => return None,
            Late::Drop => {
                let over_ns = clock.now_ns().checked_sub(self.due_ns?)?;
                let over_ms = over_ns as f64 / 1e6;
                format!("the run was dropped: its deadline passed {over_ms:.3} ms ago (Late::Drop)")
            }
            Late::Latest => {
                let is_latest = self.number >= self.latest.load(Ordering::Acquire);
                if is_latest || is_begun {
                    return None;
                }
                "the run was dropped: a newer run was submitted before it began (Late::Latest)".to_owned()
            }
        };
        Some(Error::new(ErrorKind::Dropped, words))
    }
}

/// The class of a priority.
pub(crate) fn class(priority: Priority) -> Class {
    match priority {
        Priority::Urgent => Class::Urgent,
        Priority::Normal => Class::Normal,
        Priority::Batch => Class::Background,
    }
}

/// The queue grants of all parts of one run.
pub(crate) struct QueueGrants {
    grants: Vec<QueueGrant>,
    pub(crate) terms: Terms,
    /// By part, when it first requested its grant.
    asked_ns: Vec<Option<u64>>,
    /// By part, how long it waited for its grant.
    waited_ns: Vec<u64>,
}

impl QueueGrants {
    pub(crate) fn new(wiring: &Wiring, notifier: &Notifier) -> QueueGrants {
        let grant = |part: &PartWiring| QueueGrant::new(&part.device_queue, notifier.waker());
        let parts = wiring.parts.len();
        QueueGrants {
            grants: wiring.parts.iter().map(grant).collect(),
            terms: Terms::default(),
            asked_ns: vec![None; parts],
            waited_ns: vec![0; parts],
        }
    }

    /// For the next run.
    pub(crate) fn reset(&mut self) {
        self.grants.iter().for_each(QueueGrant::over);
        self.asked_ns.fill(None);
        self.waited_ns.fill(0);
    }

    /// Whether a part that is ready has its grant. `all_ended` if all parts that it waits for have
    /// ended.
    pub(crate) fn has(&mut self, part: &PartWiring, index: usize, all_ended: bool, clock: &Clock) -> bool {
        let grant = &self.grants[index];
        if !part.device_queue.is_shared() && !grant.is_asked() {
            return true;
        }
        // a part that waits on its device would block the device for others
        if !all_ended {
            return false;
        }
        let is_given = grant.ask(&self.terms.asked(part));
        let now_ns = clock.now_ns();
        let since_ns = *self.asked_ns[index].get_or_insert(now_ns);
        self.waited_ns[index] = now_ns.saturating_sub(since_ns);
        is_given
    }

    /// Sets the part of the run that requests a grant when this part, which is on its device, ends.
    pub(crate) fn then(&self, wiring: &Wiring, index: usize, next: Option<usize>) {
        let next = next.map(|next| (&self.grants[next], self.terms.asked(&wiring.parts[next])));
        self.grants[index].then(next);
    }

    pub(crate) fn of(&self, index: usize) -> &QueueGrant {
        &self.grants[index]
    }

    /// A part that waits for its grant.
    pub(crate) fn waiting(&self) -> Option<usize> {
        self.grants.iter().position(QueueGrant::is_waiting)
    }

    /// On virtual time: polls the queues in which parts wait, without moving the clock.
    pub(crate) fn look(&self) {
        let waiting = self.grants.iter().filter(|grant| grant.is_waiting());
        for grant in waiting {
            grant.device_queue().look(Duration::ZERO);
        }
    }

    /// The first waiting part's grant and device queue.
    pub(crate) fn device_queue(&self) -> Option<(&QueueGrant, &Arc<DeviceQueue>)> {
        let grant = self.grants.iter().find(|grant| grant.is_waiting())?;
        Some((grant, grant.device_queue()))
    }

    /// How long a part waited for its grant, in nanoseconds.
    pub(crate) fn waited_ns(&self, index: usize) -> u64 {
        self.waited_ns[index]
    }

    /// The error of a run that is dropped now.
    pub(crate) fn dropped(&self, clock: &Clock, is_begun: bool) -> Option<Error> {
        self.terms.dropped(clock, is_begun)
    }

    /// How long until the run may be dropped.
    pub(crate) fn until_dropped(&self, clock: &Clock) -> Option<Duration> {
        let due_ns = self.terms.due_ns.filter(|_| self.terms.late == Late::Drop)?;
        Some(Duration::from_nanos(due_ns.saturating_sub(clock.now_ns())))
    }
}
