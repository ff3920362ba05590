//! An instance: its current process, and the replacement of a dead one.
//!
//! Invariants:
//! 1. A process is replaced only by a reset of a device, after a delay that grows with the deaths.
//! 2. After the permitted number of deaths the plugin is quarantined until this program ends. A process that
//!    was closed, or ended to reset a device, did not die.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_sdk::{Error, ErrorKind, HostServices, Result};

use super::entry::Entry;
use super::fence::ProxyFence;
use super::process::Process;
use super::watch;
use crate::message::{Reply, Request};

/// More devices than any machine has.
const MOST_DEVICES: u32 = 4096;

/// Fences that are kept for reuse.
const KEPT_FENCES: usize = 16;

/// An instance of the plugin.
pub(crate) struct Link {
    pub(super) entry: &'static Entry,
    host: HostServices,
    process: Mutex<Arc<Process>>,
    /// Serialises restarts.
    restarting: Mutex<()>,
    /// Fences of ended runs, for reuse: a warm run allocates nothing.
    fences: Mutex<Vec<Arc<ProxyFence>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    pub(super) fn new(entry: &'static Entry, host: HostServices) -> Result<Arc<Link>> {
        refuse_quarantined(entry)?;
        let process = started(entry, &host, 0)?;
        Ok(Arc::new(Link {
            entry,
            host,
            process: Mutex::new(process),
            restarting: Mutex::default(),
            fences: Mutex::default(),
        }))
    }

    /// The current process, dead or alive.
    pub(super) fn process(&self) -> Arc<Process> {
        Arc::clone(&lock(&self.process))
    }

    pub(super) fn device_count(&self) -> Result<u32> {
        let process = self.process();
        match process.call("device_count", None, &Request::DeviceCount, &[])?.0 {
            Reply::Count(count) if count <= MOST_DEVICES => Ok(count),
            Reply::Count(count) => Err(process.lied(format!(
                "device_count reports {count} devices; at most {MOST_DEVICES} are plausible"
            ))),
            other => Err(process.wrong("device_count", &other)),
        }
    }

    /// A living process in place of `dead`, which the caller found dead.
    pub(super) fn replaced(&self, dead: &Arc<Process>) -> Result<Arc<Process>> {
        let _one = lock(&self.restarting);
        let current = self.process();
        if !Arc::ptr_eq(&current, dead) && !current.is_lost() {
            return Ok(current);
        }
        refuse_quarantined(self.entry)?;
        let deaths = self.entry.deaths();
        let first = self.entry.isolated.limits.restart_delay;
        std::thread::sleep(first.saturating_mul(4u32.pow(deaths.saturating_sub(1).min(6))));
        tracing::info!(
            target: "polychip::plugin",
            "the process of {} is started again; it died {deaths} times so far, and {} deaths are the limit",
            self.entry.isolated.library.display(),
            self.entry.isolated.limits.deaths
        );
        let process = started(self.entry, &self.host, current.generation + 1)?;
        *lock(&self.process) = Arc::clone(&process);
        // the threads of the dead one end by themselves
        current.close();
        Ok(process)
    }

    /// A fence for the run of a slot, reused where one is free.
    pub(super) fn fence(&self, process: &Arc<Process>, fence: u64, slot: u32) -> Arc<ProxyFence> {
        let mut fences = lock(&self.fences);
        for kept in fences.iter_mut() {
            if let Some(free) = Arc::get_mut(kept) {
                free.restart(process, fence, slot);
                return Arc::clone(kept);
            }
        }
        let made = Arc::new(ProxyFence::new(process, fence, slot));
        if fences.len() < KEPT_FENCES {
            fences.push(Arc::clone(&made));
        }
        made
    }

    /// Drops the fences that wait for reuse, and tells the process.
    pub(super) fn forget_fences(&self) {
        let dropped: Vec<_> = {
            let mut fences = lock(&self.fences);
            let (dropped, kept) = fences.drain(..).partition(|fence| Arc::strong_count(fence) == 1);
            *fences = kept;
            dropped
        };
        drop(dropped);
        self.process().flush_destroyed();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        lock(&self.fences).clear();
        self.process().close();
    }
}

fn started(entry: &'static Entry, host: &HostServices, generation: u64) -> Result<Arc<Process>> {
    let process = watch::start(entry, host, generation)?;
    let created = process.call("create", None, &Request::Create, &[]);
    if let Err(error) = created {
        process.close();
        return Err(error);
    }
    Ok(process)
}

fn refuse_quarantined(entry: &Entry) -> Result<()> {
    let (deaths, most) = (entry.deaths(), entry.isolated.limits.deaths);
    if deaths < most {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Persistent,
        format!(
            "the plugin is quarantined until this program ends: its process died {deaths} times, and {most} deaths \
             are the limit"
        ),
    ))
}
