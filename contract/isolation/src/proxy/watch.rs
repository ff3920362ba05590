//! The threads that watch a process: one serves the plugin's requests, reads its output and sees its
//! end; the other calls callbacks of runs.
//!
//! Two threads, because a callback may call the plugin, which may ask for a service before it
//! answers.
//!
//! Invariant: both threads end with the process, or soon after a verdict on a process that cannot be killed.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use polychip_sdk::{Error, ErrorKind, HostServices, LogLevel, Result};
use rustix::event::{PollFd, PollFlags, poll};

use super::entry::Entry;
use super::process::{KILL_LIMIT, Process};
use super::spawn::{self, Spawned};
use crate::clock;
use crate::fence_slots::{FenceSlots, SLOTS};
use crate::frame::{self, Broken, Channel};
use crate::message::{Control, Event, LOG_BYTES, Served, Service};

/// Starts a process for an instance, up to its greeting.
pub(super) fn start(entry: &'static Entry, host: &HostServices, generation: u64) -> Result<Arc<Process>> {
    let clock_offset_ns = clock::offset_ns(|| host.now_ns());
    let slots = FenceSlots::new()?;
    let (events, their_events) = frame::pair()?;
    let (services, their_services) = frame::pair()?;
    let (begin, begun) = mpsc::channel();
    let (give, given) = mpsc::channel::<Arc<Process>>();
    let host = host.clone();
    // the thread that starts the child lives as long as the child, so the child may die with it
    let watcher = std::thread::Builder::new()
        .name("polychip-watch".to_owned())
        .spawn(move || {
            let started = spawn::spawn(&entry.isolated).and_then(|mut spawned| {
                let greeted = spawned.greeting(&entry.isolated);
                match greeted.and_then(|hello| entry.check(&hello)) {
                    Ok(()) => Ok(spawned),
                    Err(words) => {
                        spawned.end();
                        if entry.count_death() {
                            entry.tell_quarantine(&words);
                        }
                        Err(Error::new(ErrorKind::Persistent, words))
                    }
                }
            });
            let mut spawned = match started {
                Ok(spawned) => spawned,
                Err(error) => return drop(begin.send(Err(error))),
            };
            let (pidfd, control) = match parts(&mut spawned) {
                Ok(parts) => parts,
                Err(error) => {
                    spawned.end();
                    return drop(begin.send(Err(error)));
                }
            };
            let _ = begin.send(Ok((pidfd, control)));
            match given.recv() {
                Ok(process) => watch(&process, spawned, &host, Channel::new(services).impatient()),
                Err(_) => spawned.end(),
            }
        })
        .map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("a thread: {error}")))?;
    let ended = || {
        Error::new(
            ErrorKind::Persistent,
            "the thread that starts the plugin's process ended",
        )
    };
    let (pidfd, mut control) = begun.recv().map_err(|_| ended())??;
    let setup = Control::Setup { clock_offset_ns };
    let descriptors = [slots.file(), their_events.as_fd(), their_services.as_fd()];
    // a failure shows as the death of the process
    let _ = control.send(&setup, &descriptors);
    let process = Arc::new(Process::new(
        generation,
        clock_offset_ns.is_none(),
        entry,
        pidfd,
        control,
        slots,
    )?);
    let of_events = Arc::clone(&process);
    let teller = std::thread::Builder::new()
        .name("polychip-events".to_owned())
        .spawn(move || tell(&of_events, Channel::new(events)))
        .map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("a thread: {error}")))?;
    process.own_threads([watcher, teller]);
    let _ = give.send(Arc::clone(&process));
    Ok(process)
}

/// The descriptors that the process object needs.
fn parts(spawned: &mut Spawned) -> Result<(OwnedFd, Channel)> {
    let system = |error: rustix::io::Errno| Error::new(ErrorKind::OutOfMemory, error.to_string());
    let pidfd = rustix::io::fcntl_dupfd_cloexec(&spawned.pidfd, 3).map_err(system)?;
    let (unused, _) = frame::pair()?;
    Ok((
        pidfd,
        std::mem::replace(&mut spawned.control, Channel::new(unused)),
    ))
}

/// Serves the process until its end.
fn watch(process: &Process, mut spawned: Spawned, host: &HostServices, mut services: Channel) {
    let mut serving = true;
    // when the verdict on the process was seen
    let mut judged: Option<Instant> = None;
    let died = loop {
        let left = judged.map(|since| KILL_LIMIT.saturating_sub(since.elapsed()));
        if left == Some(Duration::ZERO) {
            break false;
        }
        let mut polled = vec![PollFd::from_borrowed_fd(process.pidfd(), PollFlags::IN)];
        let judged_at = polled.len();
        if judged.is_none() {
            polled.push(PollFd::from_borrowed_fd(process.judged(), PollFlags::IN));
        }
        let output_at = polled.len();
        if spawned.output.open {
            polled.push(PollFd::new(&spawned.output.pipe, PollFlags::IN));
        }
        let services_at = polled.len();
        if serving {
            polled.push(PollFd::from_borrowed_fd(services.socket(), PollFlags::IN));
        }
        match poll(&mut polled, left.map(frame::timespec).as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => {
                process.end(format!("poll: {error}"));
                judged.get_or_insert_with(Instant::now);
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
        }
        let is_ready = |at: usize| polled.get(at).is_some_and(|polled| !polled.revents().is_empty());
        let dead = is_ready(0);
        let printed = spawned.output.open && is_ready(output_at);
        let asked = serving && is_ready(services_at);
        let told = judged.is_none() && is_ready(judged_at);
        if told {
            judged = Some(Instant::now());
        }
        if printed {
            spawned.output.read();
        }
        if asked && !dead {
            serving = serve(process, host, &mut services);
        }
        if dead {
            break true;
        }
    };
    let Spawned {
        mut child,
        mut output,
        ..
    } = spawned;
    output.read();
    let last = output.last();
    let words = if died {
        let status = child.wait();
        match process.verdict() {
            Some(verdict) => format!("{verdict}{last}"),
            None => format!(
                "the plugin's process {}{}{last}",
                spawn::death_of(status),
                process.doing()
            ),
        }
    } else {
        spawn::reap_later(child);
        let verdict = process.verdict().unwrap_or_default();
        format!("{verdict}; it could not be killed within {KILL_LIMIT:?}{last}")
    };
    if !process.is_closing() {
        tracing::warn!(target: "polychip::plugin", "{words}");
    }
    process.declare_dead(&words);
}

/// Serves one request; false if there will be no more.
fn serve(process: &Process, host: &HostServices, services: &mut Channel) -> bool {
    let request = match services.receive::<Service>(0, None, None) {
        Ok((request, _)) => request,
        Err(Broken::Closed | Broken::TimedOut) => return false,
        Err(Broken::NoDescriptors) => {
            process.end(
                "the plugin's process was ended because this process has no free descriptors for its request",
            );
            return false;
        }
        Err(Broken::Malformed(words)) => {
            process.end(format!(
                "the plugin's process was ended because it broke the protocol: a request for a service: {words}"
            ));
            return false;
        }
    };
    let answer = match request {
        Service::Log { level, text } => {
            let level = match level {
                polychip_abi::POLYCHIP_LOG_ERROR => LogLevel::Error,
                polychip_abi::POLYCHIP_LOG_WARN => LogLevel::Warn,
                polychip_abi::POLYCHIP_LOG_INFO => LogLevel::Info,
                polychip_abi::POLYCHIP_LOG_DEBUG => LogLevel::Debug,
                _ => LogLevel::Trace,
            };
            host.log(level, &text[..text.floor_char_boundary(LOG_BYTES)]);
            return true;
        }
        Service::Now => Served::Time(host.now_ns()),
        Service::SleepUntil { until_ns } => {
            // on real time the child sleeps itself: nothing may hold up this thread
            if process.is_virtual {
                host.sleep_until_ns(until_ns);
            }
            Served::Done
        }
        Service::StoreRead { key } => match host.store_read(&key) {
            Ok(value) => Served::Value(value),
            Err(error) => Served::Failed(error.kind().status()),
        },
        Service::StoreWrite { key, value } => match host.store_write(&key, &value) {
            Ok(()) => Served::Done,
            Err(error) => Served::Failed(error.kind().status()),
        },
        Service::Configuration { key } => Served::Value(host.configuration(&key).map(String::into_bytes)),
    };
    services.send(&answer, &[]).is_ok()
}

/// Calls callbacks of runs until the process ends, and then all that are left.
fn tell(process: &Process, mut events: Channel) {
    loop {
        match events.receive::<Event>(0, Some(process.over()), None) {
            Ok((Event::Ended { slot }, _)) if slot < SLOTS => {
                if let Some(status) = process.slots.ended(slot) {
                    process.deliver(slot, status);
                }
            }
            Ok((event, _)) => process.end(format!(
                "the plugin's process was ended because it broke the protocol: {event:?}"
            )),
            Err(Broken::Malformed(words)) => {
                process.end(format!(
                    "the plugin's process was ended because it broke the protocol: an event: {words}"
                ));
                break;
            }
            Err(Broken::NoDescriptors) => {
                process.end("the plugin's process was ended because it broke the protocol: an event with a descriptor");
                break;
            }
            Err(Broken::Closed | Broken::TimedOut) => break,
        }
    }
    while process.wait_for_death(Duration::from_secs(60)).is_none() {}
    process.deliver_all();
}
