//! A plugin's process: connections for calls, slots for runs, and its death.
//!
//! Invariants:
//! 1. Every call ends: by its answer, by the death of the process, or by its limit, which ends the
//!    process.
//! 2. After the death each open run has ended as `DEVICE_LOST`, and its callbacks are called.
//! 3. A slot is reused only after its run has ended and its callbacks were called.
//! 4. A process forked from this one does nothing with it: it shares the sockets, but not the threads.
//!
//! Not here: starting it (`spawn`), the threads that watch it (`watch`).

use std::fmt::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polychip_abi as abi;
use polychip_sdk::{Error, ErrorKind, Result, SignalCallback};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Signal, pidfd_send_signal};

use super::entry::Entry;
use crate::call_limit::CallLimit;
use crate::fence_slots::{FenceSlots, SLOTS};
use crate::frame::{self, Broken, Channel};
use crate::isolated::Limits;
use crate::message::{Answer, Control, ExecuteRecord, Reply, Request};

/// Destroyed fences that are reported at once rather than with the next run.
const MOST_DESTROYED: usize = 64;

/// Time limit for a killed process to end. A process that exceeds it hangs in a kernel driver and
/// is left behind.
pub(super) const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Longest text of a wrong reply in a message, in bytes.
const REPLY_BYTES: usize = 200;

/// A connection for one call at a time.
pub(super) struct Connection {
    number: usize,
    channel: Channel,
    /// Kept so that a warm run allocates nothing.
    pub(super) execute: ExecuteRecord,
}

/// The run that uses a slot.
#[derive(Default)]
struct RunSlot {
    callbacks: Vec<SignalCallback>,
    /// Name of the part that runs, while it runs.
    part: Option<Arc<str>>,
}

#[derive(Default)]
struct SlotList {
    free: Vec<u32>,
    /// Given back before their runs had ended.
    abandoned: Vec<u32>,
}

type CallLabel = Option<(&'static str, Option<Arc<str>>)>;

/// A process of a plugin.
pub(crate) struct Process {
    /// Number of the process among those of its instance.
    pub(super) generation: u64,
    /// Whether the plugin's time is virtual; then runs end only when someone waits for them.
    pub(super) is_virtual: bool,
    pub(super) limits: Limits,
    entry: &'static Entry,
    /// The process that started it.
    owner: u32,
    pidfd: OwnedFd,
    control: Mutex<Option<Channel>>,
    idle: Mutex<Vec<Connection>>,
    /// The call of each connection, by its number.
    calls: Mutex<Vec<CallLabel>>,
    pub(super) slots: FenceSlots,
    runs: Vec<Mutex<RunSlot>>,
    list: Mutex<SlotList>,
    fences: AtomicU64,
    destroyed: Mutex<Vec<u64>>,
    /// Why this side ended the process.
    verdict: Mutex<Option<String>>,
    /// Readable once there is a verdict.
    judged: OwnedFd,
    /// Whether this side ends the process in place of a reset that the plugin does not offer. Such
    /// an end does not count as a death.
    is_reset: AtomicBool,
    /// Set while the instance is being destroyed, so that the end is no death.
    closing: AtomicBool,
    death: Mutex<Option<Arc<str>>>,
    /// Readable once the death is recorded.
    over: OwnedFd,
    died: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A descriptor that becomes readable when it is raised.
fn flag() -> Result<OwnedFd> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    eventfd(0, flags)
        .map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("an event descriptor: {error}")))
}

fn raise(flag: &OwnedFd) {
    // full means raised
    let _ = rustix::io::write(flag, &1u64.to_ne_bytes());
}

/// The beginning of a reply's text.
fn beginning(reply: &Reply) -> String {
    struct Cut(String);
    impl std::fmt::Write for Cut {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            let end = text.floor_char_boundary(REPLY_BYTES.saturating_sub(self.0.len()));
            self.0.push_str(&text[..end]);
            if end < text.len() {
                self.0.push_str(" ...");
                return Err(std::fmt::Error);
            }
            Ok(())
        }
    }
    let mut cut = Cut(String::new());
    // an error ends the writing of a long text
    let _ = write!(cut, "{reply:?}");
    cut.0
}

impl Process {
    pub(super) fn new(
        generation: u64,
        is_virtual: bool,
        entry: &'static Entry,
        pidfd: OwnedFd,
        control: Channel,
        slots: FenceSlots,
    ) -> Result<Process> {
        Ok(Process {
            generation,
            is_virtual,
            limits: entry.isolated.limits,
            entry,
            owner: std::process::id(),
            pidfd,
            control: Mutex::new(Some(control)),
            idle: Mutex::default(),
            calls: Mutex::default(),
            slots,
            runs: (0..SLOTS).map(|_| Mutex::default()).collect(),
            list: Mutex::new(SlotList {
                free: (0..SLOTS).rev().collect(),
                abandoned: Vec::new(),
            }),
            fences: AtomicU64::new(1),
            destroyed: Mutex::default(),
            verdict: Mutex::default(),
            judged: flag()?,
            is_reset: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            death: Mutex::default(),
            over: flag()?,
            died: Condvar::new(),
            threads: Mutex::default(),
        })
    }

    pub(super) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    pub(super) fn own_threads(&self, threads: [JoinHandle<()>; 2]) {
        lock(&self.threads).extend(threads);
    }

    // --- death -----------------------------------------------------------------------------------

    /// How the process died, once it has.
    pub(super) fn death(&self) -> Option<Arc<str>> {
        lock(&self.death).clone()
    }

    /// Whether the process is lost: it is dead, it is being killed, or it belongs to the process
    /// from which this one was forked.
    pub(super) fn is_lost(&self) -> bool {
        self.is_foreign() || lock(&self.death).is_some() || lock(&self.verdict).is_some()
    }

    /// Whether this process was forked from the one that started it.
    fn is_foreign(&self) -> bool {
        self.owner != std::process::id()
    }

    /// Readable once the death is recorded.
    pub(super) fn over(&self) -> BorrowedFd<'_> {
        self.over.as_fd()
    }

    /// Readable once there is a verdict.
    pub(super) fn judged(&self) -> BorrowedFd<'_> {
        self.judged.as_fd()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn verdict(&self) -> Option<String> {
        lock(&self.verdict).clone()
    }

    /// Ends the process for a reason, unless it has one already.
    pub(super) fn end(&self, reason: impl Into<String>) {
        if self.is_foreign() {
            return;
        }
        lock(&self.verdict).get_or_insert_with(|| reason.into());
        raise(&self.judged);
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Ends the process in place of a reset that the plugin does not offer.
    pub(super) fn end_for_reset(&self) {
        self.is_reset.store(true, Ordering::Release);
        self.end("the plugin's process was ended to reset a device");
    }

    /// Calls and runs that are open, as text.
    pub(super) fn doing(&self) -> String {
        let of_part = |part: &Option<Arc<str>>| {
            part.as_ref()
                .filter(|part| !part.is_empty())
                .map_or_else(String::new, |part| format!(" of part {part:?}"))
        };
        let mut words: Vec<String> = lock(&self.calls)
            .iter()
            .flatten()
            .map(|(call, part)| format!("{call}{}", of_part(part)))
            .collect();
        for (slot, run) in (0..).zip(&self.runs) {
            let run = lock(run);
            if run.part.is_some() && self.slots.ended(slot).is_none() {
                words.push(format!("a run{}", of_part(&run.part)));
            }
        }
        words.sort();
        words.dedup();
        words.truncate(4);
        if words.is_empty() {
            return String::new();
        }
        format!(" in {}", words.join(", "))
    }

    /// Records the death, once: every open run ends, and everyone who waits is woken.
    pub(super) fn declare_dead(&self, words: &str) {
        let is_death = !self.is_closing() && !self.is_reset.load(Ordering::Acquire);
        let is_last = is_death && self.entry.count_death();
        for slot in 0..SLOTS {
            self.slots.end(slot, abi::POLYCHIP_STATUS_DEVICE_LOST, None);
        }
        lock(&self.idle).clear();
        *lock(&self.control) = None;
        *lock(&self.death) = Some(words.into());
        self.died.notify_all();
        raise(&self.over);
        if is_last {
            self.entry.tell_quarantine(words);
        }
    }

    /// Waits for the death, at most `limit`.
    pub(super) fn wait_for_death(&self, limit: Duration) -> Option<Arc<str>> {
        let begun = Instant::now();
        let mut death = lock(&self.death);
        while death.is_none() {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return None;
            }
            let waited = self.died.wait_timeout(death, left);
            death = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        death.clone()
    }

    /// The error of a call or run that the death ended.
    pub(super) fn lost(&self) -> Error {
        if self.is_foreign() {
            let words = "the plugin's process belongs to the process from which this one was forked";
            return Error::new(ErrorKind::DeviceLost, words);
        }
        let words = self.wait_for_death(KILL_LIMIT + Duration::from_secs(2));
        let words = words.map_or_else(
            || "the plugin's process ended".to_owned(),
            |words| words.to_string(),
        );
        Error::new(ErrorKind::DeviceLost, words)
    }

    /// Ends the process because it sent a wrong message, and returns the error for the caller.
    pub(super) fn lied(&self, words: impl std::fmt::Display) -> Error {
        self.end(format!(
            "the plugin's process was ended because it broke the protocol: {words}"
        ));
        self.lost()
    }

    /// Ends the process because of a reply of another kind than was asked for.
    pub(super) fn wrong(&self, name: &str, reply: &Reply) -> Error {
        self.lied(format!("{name}: {}", beginning(reply)))
    }

    /// Closes the process in order: the plugin's instance is destroyed first.
    pub(super) fn close(&self) {
        if self.is_foreign() {
            return;
        }
        self.closing.store(true, Ordering::Release);
        if self.death().is_none() {
            if !self.is_lost() {
                let _ = self.call("destroy", None, &Request::Destroy, &[]);
            }
            lock(&self.idle).clear();
            *lock(&self.control) = None;
            if self.wait_for_death(self.limits.call).is_none() {
                self.end("the plugin's process did not end");
            }
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // a callback may drop the last handle of the instance
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }

    // --- calls -----------------------------------------------------------------------------------

    /// An idle connection, or a new one.
    pub(super) fn connection(&self) -> Result<Connection> {
        if self.is_foreign() {
            return Err(self.lost());
        }
        if let Some(connection) = lock(&self.idle).pop() {
            return Ok(connection);
        }
        let (ours, theirs) = frame::pair()?;
        let sent = match lock(&self.control).as_mut() {
            Some(control) => control.send(&Control::Connect, &[theirs.as_fd()]),
            None => return Err(self.lost()),
        };
        if sent.is_err() {
            return Err(self.lost());
        }
        let mut calls = lock(&self.calls);
        calls.push(None);
        Ok(Connection {
            number: calls.len() - 1,
            channel: Channel::new(ours).spinning(),
            execute: ExecuteRecord::default(),
        })
    }

    /// Sends a request and waits for its answer.
    pub(super) fn exchange(
        &self,
        connection: &mut Connection,
        name: &'static str,
        part: Option<&Arc<str>>,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(Reply, Vec<OwnedFd>)> {
        let long = matches!(
            request,
            Request::Create
                | Request::DeviceOpen { .. }
                | Request::QuerySupport { .. }
                | Request::Compile { .. }
                | Request::Load { .. }
                | Request::BlobBytes { .. }
        );
        let limit = if long {
            self.limits.long_call
        } else {
            CallLimit::current().unwrap_or(self.limits.call)
        };
        lock(&self.calls)[connection.number] = Some((name, part.cloned()));
        let received = match connection.channel.send(request, descriptors) {
            Ok(()) => connection
                .channel
                .receive::<Answer>(1, Some(self.over.as_fd()), Some(limit)),
            Err(error) if error.kind() == ErrorKind::DeviceLost => Err(Broken::Closed),
            Err(error) => {
                lock(&self.calls)[connection.number] = None;
                return Err(error);
            }
        };
        let answer = match received {
            Ok((Ok(reply), descriptors)) => Ok((reply, descriptors)),
            Ok((Err(failure), _)) if !failure.is_of_contract() => Err(self.lied(format!(
                "{name}: {}",
                match &*failure.message {
                    "" => format!("status {}, which the contract does not have", failure.status),
                    words => words.to_owned(),
                }
            ))),
            Ok((Err(failure), _)) => match failure.error() {
                Some(error) => Err(error),
                None => Err(self.lied(format!("{name} failed with a status of success"))),
            },
            // the connection alone was closed: nothing more can be said about its call
            Err(Broken::Closed) => {
                if self.wait_for_death(Duration::from_secs(1)).is_none() {
                    self.end(format!("the plugin's process closed its connection in {name}"));
                }
                Err(self.lost())
            }
            Err(Broken::TimedOut) => {
                let of = part.map_or_else(String::new, |part| format!(" of part {part:?}"));
                self.end(format!(
                    "the plugin's process was ended because {name}{of} did not return within {limit:?}"
                ));
                Err(self.lost())
            }
            Err(Broken::Malformed(words)) => Err(self.lied(format!("{name}: {words}"))),
            Err(Broken::NoDescriptors) => Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("the answer of {name} came with a descriptor, and this process has none free"),
            )),
        };
        lock(&self.calls)[connection.number] = None;
        answer
    }

    /// Gives a connection back.
    pub(super) fn put_back(&self, connection: Connection) {
        if self.death().is_none() {
            lock(&self.idle).push(connection);
        }
    }

    /// A call on an idle connection.
    pub(super) fn call(
        &self,
        name: &'static str,
        part: Option<&Arc<str>>,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(Reply, Vec<OwnedFd>)> {
        let mut connection = self.connection()?;
        let answer = self.exchange(&mut connection, name, part, request, descriptors);
        self.put_back(connection);
        answer
    }

    // --- runs ------------------------------------------------------------------------------------

    /// A number for a fence, unique in the process.
    pub(super) fn next_fence(&self) -> u64 {
        self.fences.fetch_add(1, Ordering::Relaxed)
    }

    /// A slot for a run of `part`.
    pub(super) fn take_slot(&self, part: &Arc<str>) -> Result<u32> {
        let mut list = lock(&self.list);
        if list.free.is_empty() {
            let abandoned = std::mem::take(&mut list.abandoned);
            for slot in abandoned {
                if self.is_over(slot) {
                    list.free.push(slot);
                } else {
                    list.abandoned.push(slot);
                }
            }
        }
        let slot = list.free.pop().ok_or_else(|| {
            Error::new(
                ErrorKind::Transient,
                format!("{SLOTS} runs are in flight, which is the limit"),
            )
        })?;
        drop(list);
        self.slots.start(slot);
        lock(&self.runs[slot as usize]).part = Some(Arc::clone(part));
        Ok(slot)
    }

    fn is_over(&self, slot: u32) -> bool {
        self.slots.ended(slot).is_some() && lock(&self.runs[slot as usize]).callbacks.is_empty()
    }

    /// Gives back the slot of a run that did not start.
    pub(super) fn cancel_slot(&self, slot: u32) {
        lock(&self.runs[slot as usize]).part = None;
        lock(&self.list).free.push(slot);
    }

    /// Gives back the slot of a fence that the host no longer holds.
    pub(super) fn release(&self, slot: u32, fence: u64) {
        let over = self.is_over(slot);
        if over {
            lock(&self.runs[slot as usize]).part = None;
        }
        let mut list = lock(&self.list);
        if over {
            list.free.push(slot);
        } else {
            list.abandoned.push(slot);
        }
        drop(list);
        let mut destroyed = lock(&self.destroyed);
        destroyed.push(fence);
        if destroyed.len() > MOST_DESTROYED {
            drop(destroyed);
            self.flush_destroyed();
        }
    }

    /// Moves the numbers of destroyed fences to `to`, which is empty.
    pub(super) fn take_destroyed(&self, to: &mut Vec<u64>) {
        to.append(&mut lock(&self.destroyed));
    }

    /// Tells the process which fences the host no longer holds.
    pub(super) fn flush_destroyed(&self) {
        let fences = std::mem::take(&mut *lock(&self.destroyed));
        if !fences.is_empty() && self.death().is_none() {
            let _ = self.call("fence_destroy", None, &Request::FencesDestroy { fences }, &[]);
        }
    }

    /// Registers a callback for the end of the slot's run, or calls it if the run has ended.
    pub(super) fn on_end(&self, slot: u32, callback: SignalCallback) {
        lock(&self.runs[slot as usize]).callbacks.push(callback);
        if let Some(status) = self.slots.tell(slot) {
            self.deliver(slot, status);
        }
    }

    /// Calls the callbacks of a run that was seen to end with `status`.
    pub(super) fn deliver(&self, slot: u32, status: u32) {
        let result = match ErrorKind::from_status(status) {
            None => Ok(()),
            Some(kind) => Err(Error::new(kind, "")),
        };
        loop {
            // the lock is not held during the call
            let callback = lock(&self.runs[slot as usize]).callbacks.pop();
            match callback {
                Some(callback) => callback.call(&result),
                None => return,
            }
        }
    }

    /// Calls the callbacks of all runs, after the death.
    pub(super) fn deliver_all(&self) {
        for slot in 0..SLOTS {
            let status = self.slots.ended(slot);
            self.deliver(slot, status.unwrap_or(abi::POLYCHIP_STATUS_DEVICE_LOST));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_reply_is_quoted_up_to_a_limit() {
        assert_eq!(beginning(&Reply::Count(7)), "Count(7)");
        let long = Reply::Support(vec![(0, "ä".repeat(1000)); 1000]);
        let text = beginning(&long);
        assert!(
            text.starts_with("Support([(0, \"ä") && text.ends_with(" ..."),
            "{text}"
        );
        assert!(text.len() <= REPLY_BYTES + 4, "{}", text.len());
    }
}
