//! Calls of plugins that have not returned, for a program that watches for slow ones.
//!
//! Calls of a warm run are not listed: they take no lock. `execute` is listed by a mark of its device.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::open_device::Open;

/// A call of a plugin that has not returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The device (`npu:0`) or plugin that was called.
    pub subject: String,
    /// The call.
    pub call: &'static str,
    /// The part or model concerned; empty if there is none.
    pub part: String,
    /// How long the call has taken so far.
    pub since: Duration,
}

/// The open calls, by number.
static CALLS: Mutex<Vec<(u64, Instant, OpenCall)>> = Mutex::new(Vec::new());
/// The devices, for their marks.
static DEVICES: Mutex<Vec<Weak<Open>>> = Mutex::new(Vec::new());
/// Numbers of calls.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// What marks count from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

fn calls() -> MutexGuard<'static, Vec<(u64, Instant, OpenCall)>> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the listing of a call on drop.
pub(crate) struct Listed(u64);

impl OpenCall {
    /// Lists a call until the value is dropped.
    pub(crate) fn begin(subject: &str, call: &'static str, part: &str) -> Listed {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let open = OpenCall {
            subject: subject.to_owned(),
            call,
            part: part.to_owned(),
            since: Duration::ZERO,
        };
        calls().push((number, Instant::now(), open));
        Listed(number)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        calls().retain(|(number, _, _)| *number != self.0);
    }
}

/// Whether and since when a thread is in a device's `execute`. With several threads, the last one
/// counts.
#[derive(Debug, Default)]
pub(crate) struct Mark(AtomicU64);

impl Mark {
    /// Marks the call as begun.
    pub(crate) fn begin(&self) {
        let now = u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.store(now.max(1), Ordering::Relaxed);
    }

    /// Marks the call as ended.
    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn since(&self) -> Option<Duration> {
        let begun = self.0.load(Ordering::Relaxed);
        (begun != 0).then(|| START.elapsed().saturating_sub(Duration::from_nanos(begun)))
    }
}

/// Lists the `execute` calls of a device as long as it is open.
pub(crate) fn watch(device: Weak<Open>) {
    // begun before any mark counts from it
    LazyLock::force(&START);
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    devices.retain(|device| device.strong_count() > 0);
    devices.push(device);
}

/// The calls of plugins in this process that have not returned, the oldest first.
#[must_use]
pub fn open_calls() -> Vec<OpenCall> {
    let mut found: Vec<OpenCall> = calls()
        .iter()
        .map(|(_, begun, open)| OpenCall {
            since: begun.elapsed(),
            ..open.clone()
        })
        .collect();
    let devices: Vec<_> = {
        let devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        devices.iter().filter_map(Weak::upgrade).collect()
    };
    found.extend(devices.iter().filter_map(|device| {
        Some(OpenCall {
            subject: device.name.clone(),
            call: "execute",
            part: String::new(),
            since: device.executing.since()?,
        })
    }));
    found.sort_by_key(|call| std::cmp::Reverse(call.since));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_is_listed_until_it_returns() {
        let is_listed = || open_calls().iter().any(|call| call.subject == "npu:7");
        let listed = OpenCall::begin("npu:7", "compile", "part 3");
        assert!(is_listed());
        drop(listed);
        assert!(!is_listed());
        let mark = Mark::default();
        assert_eq!(mark.since(), None);
        mark.begin();
        assert!(mark.since().is_some());
        mark.end();
        assert_eq!(mark.since(), None);
    }
}
