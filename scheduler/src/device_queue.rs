//! Device queues: the order of all sessions' parts on each open device.
//!
//! A part whose inputs are ready requests a queue grant, and goes to its device once it has one.
//! [`polychip_device_queue::Queue`] defines the order; this module waits and wakes.
//!
//! Invariants:
//! 1. A device used by one session has no queue here: it gets parts at once. Exceptions: runs of
//!    that session in flight through devices that wait for each other here, because their order
//!    decides whether these are busy; and parts of an admitted session, which always need grants.
//! 2. No queue lock is held while a device is called, which debug builds check (`lock_order`). Once the maximum number of waiting parts was
//!    reached, nothing is allocated.
//! 3. A grant ends when its part has ended, failed or was abandoned, whichever thread sees that
//!    first; then others continue.
//! 4. On virtual time, which only waiting threads advance, an unused grant lapses.
//! 5. The plugin states a device's number of concurrent parts, and whether a part gives way to a
//!    more urgent one; by default a device has one part at a time, to its end.
//! 6. A part that waits only for another one on the same device is queued before that device gets
//!    its next part: no other work gets between parts of a more urgent run. Admission relies on
//!    that.
//!
//! Not here: when a part is ready (`session/run_state`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polychip_device_queue::{Class, Entry, Queue, Settings, Ticket};
use polychip_host::{CheckedMutex, Clock, Device, DeviceInfo, Fence, Signal};
use smallvec::SmallVec;

use crate::lock_order::{GRANT, MEMBERS, QUEUE};
use crate::session::notifier::Waker;

/// The queues of a runtime's devices.
#[derive(Debug)]
pub(crate) struct DeviceQueues(Vec<(String, Arc<DeviceQueue>)>);

/// The queue of one device over the ready parts of all sessions.
pub(crate) struct DeviceQueue {
    clock: Clock,
    /// Sessions that use the device.
    members: CheckedMutex<Vec<Using>, MEMBERS>,
    is_shared: AtomicBool,
    state: CheckedMutex<State, QUEUE>,
}

struct State {
    queue: Queue<Arc<Waiter>>,
    /// Grants that are not over.
    active: Vec<ActiveGrant>,
    /// When a grant was last over, by the machine's clock and the runtime's.
    ended: Option<(Instant, u64)>,
}

/// A grant that is not over.
struct ActiveGrant {
    ticket: Ticket,
    owner: Arc<Waiter>,
    /// When its part was given to the device, by the machine's clock and the runtime's.
    issued: Option<(Instant, u64)>,
    /// On virtual time, where every waiting thread polls the parts on the device.
    fence: Option<Arc<Fence>>,
    /// The part of the same run that requests a grant when this one ends.
    then: Option<(Arc<Waiter>, GrantRequest)>,
}

/// The state that a device queue shares with a part of a run.
struct Waiter {
    waker: Waker,
    grant: CheckedMutex<GrantState, GRANT>,
}

#[derive(Debug, Clone, Copy, Default)]
struct GrantState {
    ticket: Option<Ticket>,
    is_given: bool,
    /// Until then, an end notification belongs to an earlier run.
    is_issued: bool,
}

/// A session's use of a device by its plans.
struct Using {
    session: usize,
    plans: usize,
    /// Plans whose parts always need grants.
    needs_grants: usize,
}

/// A session's use of a device by one of its plans.
pub(crate) struct Member {
    device_queue: Arc<DeviceQueue>,
    session: usize,
    needs_grants: bool,
}

/// A part's request for a grant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GrantRequest {
    pub(crate) class: Class,
    pub(crate) deadline_ns: Option<u64>,
    pub(crate) since_ns: u64,
    pub(crate) expected_ns: u64,
    pub(crate) width: usize,
}

/// The queue grants of one part of a run state, one after the other.
pub(crate) struct QueueGrant {
    device_queue: Arc<DeviceQueue>,
    waiter: Arc<Waiter>,
    signal: Arc<Signal>,
}

/// Fences of ended grants: declared before the queue is locked, so that they are dropped after.
type Fences = SmallVec<[Arc<Fence>; 16]>;

impl DeviceQueues {
    /// Of these devices.
    pub(crate) fn new(devices: &[Device], clock: &Clock) -> DeviceQueues {
        let named = |device: &Device| {
            (
                device.name().to_owned(),
                Arc::new(DeviceQueue::new(device, clock)),
            )
        };
        DeviceQueues(devices.iter().map(named).collect())
    }

    pub(crate) fn of(&self, device: &Device) -> Arc<DeviceQueue> {
        let found = self.0.iter().find(|(name, _)| name == device.name());
        let (_, device_queue) = found.expect("invariant: every device of a plan is one of the runtime's");
        Arc::clone(device_queue)
    }
}

impl std::fmt::Debug for DeviceQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceQueue").finish_non_exhaustive()
    }
}

impl DeviceQueue {
    fn new(device: &Device, clock: &Clock) -> DeviceQueue {
        let settings = settings(device.info());
        DeviceQueue {
            clock: clock.clone(),
            members: CheckedMutex::default(),
            is_shared: AtomicBool::new(false),
            state: CheckedMutex::new(State {
                // on a preemptive device each class has its own depth
                active: Vec::with_capacity(settings.in_flight * Class::COUNT),
                ended: None,
                queue: Queue::new(settings),
            }),
        }
    }

    /// Registers a plan of a session as a user of the device until the member is dropped. With
    /// `needs_grants` its parts need grants even if no other session uses the device: several runs go
    /// through the plan at once over devices that do not wait for each other, or the session is
    /// admitted.
    pub(crate) fn join(self: &Arc<Self>, session: usize, needs_grants: bool) -> Member {
        let mut members = self.members.lock();
        let at = members.iter().position(|using| using.session == session);
        let at = at.unwrap_or_else(|| {
            members.push(Using {
                session,
                plans: 0,
                needs_grants: 0,
            });
            members.len() - 1
        });
        members[at].plans += 1;
        members[at].needs_grants += usize::from(needs_grants);
        self.count(&members);
        Member {
            device_queue: Arc::clone(self),
            session,
            needs_grants,
        }
    }

    fn count(&self, members: &[Using]) {
        let needs_grants = members.iter().any(|using| using.needs_grants > 0);
        self.is_shared
            .store(members.len() > 1 || needs_grants, Ordering::Release);
    }

    /// Whether parts that are ready must wait for a grant.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Acquire)
    }

    fn end(&self, ticket: Ticket) {
        let mut fences = Fences::new();
        let mut state = self.state.lock();
        fences.extend(state.end(ticket, self.clock.now_ns()));
    }

    /// On virtual time: moves the clock by at most `step`, to the next end of a part on the device, and
    /// ends the grants of parts that have ended. False if the device has no part.
    pub(crate) fn look(&self, step: Duration) -> bool {
        let fence = {
            let state = self.state.lock();
            let fence = |given: &ActiveGrant| given.fence.clone();
            match state.queue.settings().preemption_ns {
                // the one before may have given way
                Some(_) => state.active.iter().rev().find_map(fence),
                None => state.active.iter().find_map(fence),
            }
        };
        let Some(fence) = fence else {
            return false;
        };
        // the waiter of the fence reports its outcome
        let _ = fence.poll(step);
        drop(fence);
        // a poll calls the plugin, so the queue is not locked meanwhile
        let mut looked_at: SmallVec<[(Ticket, Arc<Fence>); 16]> = {
            let state = self.state.lock();
            let given = |given: &ActiveGrant| Some((given.ticket, given.fence.clone()?));
            state.active.iter().filter_map(given).collect()
        };
        looked_at.retain(|(_, fence)| fence.poll(Duration::ZERO).is_some());
        let mut fences = Fences::new();
        let mut state = self.state.lock();
        let now_ns = self.clock.now_ns();
        for (ticket, _) in &looked_at {
            // another thread may have seen its end first
            if state.active.iter().any(|given| given.ticket == *ticket) {
                fences.extend(state.end(*ticket, now_ns));
            }
        }
        true
    }

    /// On virtual time: withdraws unused grants of other parts, which must request again.
    pub(crate) fn lapse(&self, own: &QueueGrant) {
        let mut state = self.state.lock();
        let now_ns = self.clock.now_ns();
        let unused = |given: &&ActiveGrant| given.fence.is_none() && !Arc::ptr_eq(&given.owner, &own.waiter);
        while let Some(given) = state.active.iter().find(unused) {
            let ticket = given.ticket;
            *given.owner.grant.lock() = GrantState::default();
            // it has no fence
            drop(state.end(ticket, now_ns));
        }
    }

    /// Whether a part has been on the device for longer than `patience`; on a preemptive device,
    /// without another part ending.
    pub(crate) fn is_stuck(&self, patience: Duration) -> bool {
        let now_ns = self.clock.now_ns();
        let state = self.state.lock();
        let gives_way = state.queue.settings().preemption_ns.is_some();
        let ended = state.ended.filter(|_| gives_way);
        let mut issued = state.active.iter().filter_map(|given| given.issued);
        issued.any(|(real, since_ns)| {
            let (real, since_ns) = ended.map_or((real, since_ns), |(ended, ended_ns)| {
                (real.max(ended), since_ns.max(ended_ns))
            });
            let since = Duration::from_nanos(now_ns.saturating_sub(since_ns));
            // on virtual time a busy machine makes nothing hang
            let since = if self.clock.is_virtual() {
                since
            } else {
                real.elapsed()
            };
            since >= patience
        })
    }

    /// Ends the grants of all parts on a lost device, so that other parts do not wait for them.
    pub(crate) fn forget_active(&self) {
        let mut fences = Fences::new();
        let mut state = self.state.lock();
        let now_ns = self.clock.now_ns();
        while let Some(given) = state.active.iter().find(|given| given.issued.is_some()) {
            let ticket = given.ticket;
            fences.extend(state.end(ticket, now_ns));
        }
    }
}

impl State {
    /// Ends a grant. The caller drops its fence once the queue is unlocked, because that calls the
    /// plugin.
    #[must_use]
    fn end(&mut self, ticket: Ticket, now_ns: u64) -> Option<Arc<Fence>> {
        self.queue.ended(ticket, now_ns);
        let mut fence = None;
        // in the order in which they were given: the last one runs where parts give way
        if let Some(at) = self.active.iter().position(|given| given.ticket == ticket) {
            let ended = self.active.remove(at);
            fence = ended.fence;
            if let Some((waiter, asked)) = ended.then {
                self.ask(&waiter, &asked, now_ns);
            }
        }
        if self.queue.settings().preemption_ns.is_some() {
            self.ended = Some((Instant::now(), now_ns));
        }
        self.go_on(now_ns);
        fence
    }

    /// Queues a part that is not queued yet.
    fn ask(&mut self, waiter: &Arc<Waiter>, asked: &GrantRequest, now_ns: u64) {
        let mut cell = waiter.grant.lock();
        if cell.ticket.is_none() {
            let entry = Entry {
                class: asked.class,
                deadline_ns: asked.deadline_ns,
                since_ns: asked.since_ns,
                expected_ns: asked.expected_ns,
                owner: Arc::clone(waiter),
            };
            cell.ticket = Some(self.queue.push_wide(entry, asked.width, now_ns));
        }
    }

    /// Grants all requests that the device has room for.
    fn go_on(&mut self, now_ns: u64) {
        while let Some((ticket, owner)) = self.queue.next(now_ns) {
            {
                let mut cell = owner.grant.lock();
                if cell.ticket != Some(ticket) {
                    // the request was dropped, so nothing else ends this grant
                    self.queue.ended(ticket, now_ns);
                    continue;
                }
                cell.is_given = true;
            }
            owner.waker.notify();
            self.active.push(ActiveGrant {
                ticket,
                owner,
                issued: None,
                fence: None,
                then: None,
            });
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut members = self.device_queue.members.lock();
        if let Some(at) = members.iter().position(|using| using.session == self.session) {
            members[at].plans -= 1;
            members[at].needs_grants -= usize::from(self.needs_grants);
            if members[at].plans == 0 {
                members.swap_remove(at);
            }
        }
        self.device_queue.count(&members);
    }
}

impl QueueGrant {
    /// For a part on this device; `waker` wakes the thread that waits for its run.
    pub(crate) fn new(device_queue: &Arc<DeviceQueue>, waker: Waker) -> QueueGrant {
        let waiter = Arc::new(Waiter {
            waker,
            grant: CheckedMutex::default(),
        });
        let (own, its_queue) = (Arc::clone(&waiter), Arc::clone(device_queue));
        let signal = Signal::new(move |_| {
            let ended = {
                let mut cell = own.grant.lock();
                if cell.is_issued {
                    std::mem::take(&mut *cell).ticket
                } else {
                    None
                }
            };
            if let Some(ticket) = ended {
                its_queue.end(ticket);
            }
            own.waker.notify();
        });
        QueueGrant {
            device_queue: Arc::clone(device_queue),
            waiter,
            signal,
        }
    }

    pub(crate) fn device_queue(&self) -> &Arc<DeviceQueue> {
        &self.device_queue
    }

    /// Requests the grant unless that was done. Whether the part has it.
    pub(crate) fn ask(&self, asked: &GrantRequest) -> bool {
        let cell = *self.waiter.grant.lock();
        if cell.ticket.is_some() {
            return cell.is_given;
        }
        let now_ns = self.device_queue.clock.now_ns();
        let mut state = self.device_queue.state.lock();
        state.ask(&self.waiter, asked, now_ns);
        state.go_on(now_ns);
        drop(state);
        self.waiter.grant.lock().is_given
    }

    /// Whether it was requested and is not over.
    pub(crate) fn is_asked(&self) -> bool {
        self.waiter.grant.lock().ticket.is_some()
    }

    /// Whether it was requested and not granted yet.
    pub(crate) fn is_waiting(&self) -> bool {
        let cell = self.waiter.grant.lock();
        cell.ticket.is_some() && !cell.is_given
    }

    /// Marks the part as issued; `fence` notifies its end, or is polled on virtual time. False if the
    /// fence has no notification.
    pub(crate) fn begun(&self, fence: &PartFence) -> bool {
        let ticket = {
            let mut cell = self.waiter.grant.lock();
            cell.is_issued = true;
            cell.ticket
        };
        let Some(ticket) = ticket else {
            return true;
        };
        {
            let mut state = self.device_queue.state.lock();
            let now_ns = self.device_queue.clock.now_ns();
            if let Some(given) = state.active.iter_mut().find(|given| given.ticket == ticket) {
                given.issued = Some((Instant::now(), now_ns));
                given.fence = fence.to_share();
            }
        }
        // the waiter of the fence reports its error
        self.device_queue.clock.is_virtual() || fence.on_signal(&self.signal).unwrap_or(false)
    }

    /// While the part is on its device: sets the part of its run that requests a grant when it ends.
    pub(crate) fn then(&self, next: Option<(&QueueGrant, GrantRequest)>) {
        let Some(ticket) = self.waiter.grant.lock().ticket else {
            return;
        };
        let mut state = self.device_queue.state.lock();
        if let Some(given) = state.active.iter_mut().find(|given| given.ticket == ticket) {
            given.then = next.map(|(grant, asked)| (Arc::clone(&grant.waiter), asked));
        }
    }

    /// Ends the grant, or withdraws the request.
    pub(crate) fn over(&self) {
        let cell = std::mem::take(&mut *self.waiter.grant.lock());
        let Some(ticket) = cell.ticket else {
            return;
        };
        let now_ns = self.device_queue.clock.now_ns();
        let mut fences = Fences::new();
        let mut state = self.device_queue.state.lock();
        state.queue.withdraw(ticket, now_ns);
        fences.extend(state.end(ticket, now_ns));
    }
}

impl Drop for QueueGrant {
    fn drop(&mut self) {
        self.over();
    }
}

/// The end of a part; on virtual time its device queue polls it too.
pub(crate) enum PartFence {
    Own(Fence),
    Shared(Arc<Fence>),
}

impl PartFence {
    /// Shared if the device queue must poll it.
    pub(crate) fn new(fence: Fence, is_shared: bool) -> PartFence {
        if is_shared {
            PartFence::Shared(Arc::new(fence))
        } else {
            PartFence::Own(fence)
        }
    }

    fn to_share(&self) -> Option<Arc<Fence>> {
        match self {
            PartFence::Own(_) => None,
            PartFence::Shared(fence) => Some(Arc::clone(fence)),
        }
    }
}

impl std::ops::Deref for PartFence {
    type Target = Fence;

    fn deref(&self) -> &Fence {
        match self {
            PartFence::Own(fence) => fence,
            PartFence::Shared(fence) => fence,
        }
    }
}

/// Upper limit of a device's queue depth.
const MAX_QUEUE_DEPTH: u32 = 1024;

/// The settings of a device queue, from the device's plugin.
fn settings(info: &DeviceInfo) -> Settings {
    let depth = info
        .queue_depth
        .map_or(1, |depth| depth.get().min(MAX_QUEUE_DEPTH));
    let bound_ns = info.preemption_bound_ns.unwrap_or(u64::MAX);
    Settings {
        in_flight: depth as usize,
        preemption_ns: info.preemption.is_possible().then_some(bound_ns),
        ..Settings::default()
    }
}
