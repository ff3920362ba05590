//! A line on standard error for a call of a plugin that takes long, and the end of the command where
//! the call cannot be ended otherwise.
//!
//! Invariant: a call of a plugin in a process of its own is ended by the library, which the command
//! survives. Only a call in this process ends the command.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip::OpenCall;

use crate::exit::{Code, failure, report, warn};

/// How often the calls are looked at.
const TICK: Duration = Duration::from_millis(250);
/// When a call is reported, from the first time on.
const TOLD: [Duration; 4] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
    Duration::from_secs(300),
];
/// How much longer than its limit a call may take: the library ends calls of other processes.
const GRACE: Duration = Duration::from_secs(15);

/// How long the end of the command may take.
const EXIT: Duration = Duration::from_secs(5);

/// Longest times of calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Of `execute`.
    pub(crate) execute: Duration,
    /// Of the others.
    pub(crate) other: Duration,
}

impl Limits {
    /// The limit of a call, and the option that sets it.
    fn of(&self, call: &OpenCall) -> (Duration, &'static str) {
        match call.call {
            "execute" => (self.execute, "--hang-timeout"),
            _ => (self.other, "--compile-timeout"),
        }
    }
}

/// The limits of the calls of this process, once they are known.
static LIMITS: Mutex<Option<Limits>> = Mutex::new(None);

fn limits() -> MutexGuard<'static, Option<Limits>> {
    LIMITS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches the calls of this process from now on.
pub(crate) fn watch(new: Limits) {
    if limits().replace(new).is_some() {
        return;
    }
    // a command without the thread only says less
    let _ = std::thread::Builder::new()
        .name("polychip-slow-calls".to_owned())
        .spawn(look);
}

/// Lets `execute` take so long at least: a plugin may compute in it.
pub(crate) fn allow_execute(least: Duration) {
    if let Some(limits) = &mut *limits() {
        limits.execute = limits.execute.max(least);
    }
}

fn look() {
    let mut before = Duration::ZERO;
    loop {
        std::thread::sleep(TICK);
        let calls = polychip::open_calls();
        // the CPU plugin computes, however long that takes
        let is_watched = |call: &&OpenCall| call.subject != "cpu" && !call.subject.starts_with("cpu:");
        let Some(call) = calls.iter().find(is_watched) else {
            before = Duration::ZERO;
            continue;
        };
        let Some(limits) = *limits() else { continue };
        let (limit, option) = limits.of(call);
        if call.since > limit.saturating_add(GRACE) {
            end(call, limit, option);
        }
        // another call than the last one
        if call.since < before {
            before = Duration::ZERO;
        }
        if TOLD.iter().any(|at| before < *at && *at <= call.since) {
            warn(format!(
                "{} has not returned for {} s; it may take {} s ({option})",
                name(call),
                call.since.as_secs(),
                limit.as_secs_f64()
            ));
        }
        before = call.since;
    }
}

/// `compile of "p0" by npu:0`.
fn name(call: &OpenCall) -> String {
    if call.call == OpenCall::LOADING {
        return format!("loading {}", call.subject);
    }
    let part = match &*call.part {
        "" => String::new(),
        part => format!(" of {part:?}"),
    };
    format!("{}{part} by {}", call.call, call.subject)
}

/// Ends the command: the thread that made the call cannot be stopped.
#[allow(clippy::exit, reason = "the main thread is in the call that does not return")]
fn end(call: &OpenCall, limit: Duration, option: &str) -> ! {
    let words = format!(
        "{} did not return within {} s ({option}); the plugin runs in this process, which cannot end the call; with \
         `--isolate all`, only the device would be lost",
        name(call),
        limit.as_secs_f64()
    );
    let code = report(&failure(Code::DeviceFailed, words));
    // what the system calls at the end may wait for the same lock as the call
    let _ = std::thread::Builder::new().spawn(|| {
        std::thread::sleep(EXIT);
        std::process::abort()
    });
    std::process::exit(i32::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_has_the_limit_of_its_kind() {
        let limits = Limits {
            execute: Duration::from_secs(1),
            other: Duration::from_secs(2),
        };
        let call = |call, part: &str| OpenCall {
            subject: "npu:0".into(),
            call,
            part: part.into(),
            since: Duration::ZERO,
        };
        let execute = call("execute", "");
        assert_eq!(limits.of(&execute), (Duration::from_secs(1), "--hang-timeout"));
        assert_eq!(name(&execute), "execute by npu:0");
        assert_eq!(name(&call(OpenCall::LOADING, "")), "loading npu:0");
        let compile = call("compile", "p0");
        assert_eq!(limits.of(&compile), (Duration::from_secs(2), "--compile-timeout"));
        assert_eq!(name(&compile), "compile of \"p0\" by npu:0");
    }
}
