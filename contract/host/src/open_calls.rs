//! Calls of plugins that have not returned, for a program that watches for slow ones.
//!
//! Calls of a warm run are not listed: they take no lock. `execute` is listed by a mark of its device.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

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
/// The marks of open devices, with the devices' names. Listing the calls keeps no device open, because
/// closing it calls the plugin.
static MARKS: Mutex<Vec<(String, Weak<Mark>)>> = Mutex::new(Vec::new());
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
    /// Value of `call` for the loading of a library; `subject` is its path.
    pub const LOADING: &'static str = "loading";

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

/// The mark of a new device, whose `execute` calls are listed as long as the mark lives.
pub(crate) fn mark_of(device: &str) -> Arc<Mark> {
    // begun before any mark counts from it
    LazyLock::force(&START);
    let mark = Arc::new(Mark::default());
    let mut marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
    marks.retain(|(_, mark)| mark.strong_count() > 0);
    marks.push((device.to_owned(), Arc::downgrade(&mark)));
    mark
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
    let marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
    found.extend(marks.iter().filter_map(|(device, mark)| {
        Some(OpenCall {
            subject: device.clone(),
            call: "execute",
            part: String::new(),
            since: mark.upgrade()?.since()?,
        })
    }));
    drop(marks);
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
        let mark = mark_of("npu:7");
        assert!(!is_listed());
        mark.begin();
        assert!(is_listed());
        mark.end();
        assert!(!is_listed());
        mark.begin();
        drop(mark);
        assert!(!is_listed());
    }
}
