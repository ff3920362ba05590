//! The watch over pipes in place of the kernel's files, and over this machine's own files.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

use super::*;
use crate::memory_account::{Charge, Holder, Parkable, Purpose, Room};
use crate::memory_limit::MemoryLimit;

const PATIENCE: Duration = Duration::from_secs(60);

/// A session that reports why it was parked.
#[derive(Debug)]
struct Idle {
    charge: Mutex<Option<Charge>>,
    used_ns: AtomicU64,
    parked: Sender<String>,
}

impl Parkable for Idle {
    fn session(&self) -> usize {
        1
    }

    fn freeable(&self) -> u64 {
        self.charge.lock().unwrap().as_ref().map_or(0, Charge::bytes)
    }

    fn rebuild_ns(&self) -> u64 {
        1
    }

    fn used_ns(&self) -> u64 {
        self.used_ns.load(Ordering::Relaxed)
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn park_idle(&self, why: &str) -> bool {
        self.charge.lock().unwrap().take();
        self.parked.send(why.to_owned()).is_ok()
    }
}

fn idle(account: &Arc<MemoryAccount>, parked: Sender<String>) -> Arc<Idle> {
    let holder = Arc::new(Holder {
        session: 1,
        model: "m".to_owned(),
    });
    let granted = account.charge(&holder, &[(Purpose::Parts, 100)], None, Room::Free);
    let one = Arc::new(Idle {
        charge: Mutex::new(granted.unwrap().charges.pop()),
        used_ns: AtomicU64::new(0),
        parked,
    });
    let weak: Weak<Idle> = Arc::downgrade(&one);
    account.add_parkable(weak);
    one
}

#[test]
fn pressure_parks_sessions_that_are_not_in_use() {
    let account = MemoryAccount::new(MemoryLimit::Unknown);
    let clock = Clock::virtual_time();
    clock.sleep_until_ns(10_000_000_000);
    let (sender, parked) = channel();
    let resting = idle(&account, sender.clone());
    let (silent, heard) = channel();
    let used = idle(&account, silent);
    used.used_ns.store(9_500_000_000, Ordering::Relaxed);
    let (pipe, mut writer) = std::io::pipe().unwrap();
    let source = Source::of_pipe("a pipe", pipe);
    let watch = PressureWatch::over(vec![source], &account, &clock).unwrap();
    writer.write_all(b"x").unwrap();
    let why = parked.recv_timeout(PATIENCE).unwrap();
    assert_eq!(why, "the system is short of memory (a pipe)");
    assert_eq!(resting.freeable(), 0);
    // ends the thread, also within its rest
    drop(watch);
    assert_eq!(used.freeable(), 100, "it was used half a second ago");
    drop(used);
    assert!(heard.recv().is_err(), "it was not asked");
}

#[test]
fn watch_ends_with_its_runtime_and_with_its_last_source() {
    let account = MemoryAccount::new(MemoryLimit::Unknown);
    let clock = Clock::real();
    assert!(PressureWatch::over(Vec::new(), &account, &clock).is_none());
    let (pipe, writer) = std::io::pipe().unwrap();
    let mut watch = PressureWatch::over(vec![Source::of_pipe("a pipe", pipe)], &account, &clock).unwrap();
    drop(writer);
    watch.thread.take().unwrap().join().unwrap();
    // whatever this machine has
    drop(PressureWatch::start(&account, &clock));
}
