//! The thread that waits for memory pressure, and frees memory when there is some.
//!
//! Invariants:
//! 1. It sleeps in the kernel until a source reports pressure. It reacts at most once a second.
//! 2. It ends with its runtime, also while it reacts.
//! 3. A session used within the last second keeps its plan: its next run would only load it again.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use polychip_host::Clock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::MemoryPressure;
use super::sources::{Source, Variables, all};
use crate::memory_account::MemoryAccount;

/// How long it rests after a reaction: what was freed takes a moment to show.
const REST: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
/// Sessions that were used within this time are not parked.
const IN_USE: Duration = Duration::from_secs(1);

/// A thread that watches memory pressure until this is dropped.
#[derive(Debug)]
pub(crate) struct PressureWatch {
    /// Ends the thread once it is written.
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl PressureWatch {
    /// Watches what this system reports; `None` if it reports nothing.
    pub(crate) fn start(account: &Arc<MemoryAccount>, clock: &Clock) -> Option<PressureWatch> {
        let variables = Variables::of_process();
        let sources = all(&variables, Path::new("/proc"), Path::new("/sys/fs/cgroup"));
        PressureWatch::over(sources, account, clock)
    }

    pub(super) fn over(
        sources: Vec<Source>,
        account: &Arc<MemoryAccount>,
        clock: &Clock,
    ) -> Option<PressureWatch> {
        if sources.is_empty() {
            tracing::debug!("memory pressure is not reported on this system");
            return None;
        }
        let names: Vec<&str> = sources.iter().map(|source| &*source.name).collect();
        tracing::debug!("memory pressure is watched: {}", names.join(", "));
        let started = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(std::io::Error::from)
            .and_then(|stop| {
                let stop = Arc::new(stop);
                let (ends, account, clock) = (Arc::clone(&stop), Arc::downgrade(account), clock.clone());
                let thread = std::thread::Builder::new()
                    .name("polychip-memory".to_owned())
                    .spawn(move || watch(sources, &ends, &account, &clock))?;
                Ok(PressureWatch {
                    stop,
                    thread: Some(thread),
                })
            });
        started
            .inspect_err(|error| tracing::warn!("memory pressure is not watched: {error}"))
            .ok()
    }
}

impl Drop for PressureWatch {
    fn drop(&mut self) {
        // the counter takes every number
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // the last session may be freed by the reaction itself
            if thread.thread().id() != std::thread::current().id() {
                // a panic has been printed
                let _ = thread.join();
            }
        }
    }
}

fn watch(mut sources: Vec<Source>, stop: &OwnedFd, account: &Weak<MemoryAccount>, clock: &Clock) {
    while !sources.is_empty() {
        let mut polled = vec![PollFd::new(stop, PollFlags::IN)];
        polled.extend(
            sources
                .iter()
                .map(|source| PollFd::from_borrowed_fd(source.descriptor(), source.flags())),
        );
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return tracing::warn!("memory pressure is no longer watched: {error}"),
        }
        let found: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        drop(polled);
        if !found[0].is_empty() {
            return;
        }
        let mut worst: Option<(MemoryPressure, String)> = None;
        let mut of_sources = found[1..].iter();
        sources.retain_mut(|source| {
            let found = of_sources.next().copied().unwrap_or(PollFlags::empty());
            if found.is_empty() {
                return true;
            }
            match source.take(found) {
                Ok(None) => true,
                Ok(Some(level)) => {
                    if worst
                        .as_ref()
                        .is_none_or(|(worst, _)| *worst == MemoryPressure::Moderate)
                    {
                        worst = Some((level, source.name.clone()));
                    }
                    true
                }
                Err(error) => {
                    tracing::debug!("memory pressure: {}: {error}", source.name);
                    false
                }
            }
        });
        let Some((level, from)) = worst else { continue };
        let Some(account) = account.upgrade() else {
            return;
        };
        react(&account, level, &from, clock);
        drop(account);
        let mut rest = [PollFd::new(stop, PollFlags::IN)];
        if poll(&mut rest, Some(&REST)).is_ok_and(|ready| ready > 0) {
            return;
        }
    }
}

fn react(account: &MemoryAccount, level: MemoryPressure, from: &str, clock: &Clock) {
    let before = account.held();
    let in_use = u64::try_from(IN_USE.as_nanos()).unwrap_or(u64::MAX);
    let unused_since = clock.now_ns().saturating_sub(in_use);
    let why = format!("the system is short of memory ({from})");
    account.trim(level == MemoryPressure::Critical, &why, unused_since);
    let freed = before.saturating_sub(account.held());
    tracing::info!("{level:?} memory pressure ({from}): {freed} bytes of sessions were freed");
}

#[cfg(test)]
mod tests;
