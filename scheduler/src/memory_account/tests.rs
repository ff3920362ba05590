//! The account: charges, reservations, the order of parking and of waiting, refusals.

use std::sync::atomic::AtomicBool;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// Memory that is given up when asked, unless it is in use.
#[derive(Debug)]
struct Block {
    charge: Mutex<Option<Charge>>,
    session: usize,
    used_ns: u64,
    rebuild_ns: u64,
    busy: AtomicBool,
}

impl Block {
    fn is_held(&self) -> bool {
        self.charge.lock().unwrap().is_some()
    }
}

impl Parkable for Block {
    fn session(&self) -> usize {
        self.session
    }

    fn freeable(&self) -> u64 {
        self.charge.lock().unwrap().as_ref().map_or(0, Charge::bytes)
    }

    fn rebuild_ns(&self) -> u64 {
        self.rebuild_ns
    }

    fn used_ns(&self) -> u64 {
        self.used_ns
    }

    fn is_idle(&self) -> bool {
        !self.busy.load(Ordering::Relaxed)
    }

    fn park_idle(&self, _why: &str) -> bool {
        let charge = self.charge.lock().unwrap().take();
        charge.is_some()
    }
}

fn holder(session: usize) -> Arc<Holder> {
    Arc::new(Holder {
        session,
        model: format!("m{session}"),
    })
}

fn charge(account: &Arc<MemoryAccount>, session: usize, bytes: u64, room: Room) -> Result<Charge> {
    let granted = account.charge(&holder(session), &[(Purpose::Parts, bytes)], None, room);
    granted.map(|mut granted| granted.charges.remove(0))
}

fn block(account: &Arc<MemoryAccount>, session: usize, bytes: u64, rebuild_ns: u64) -> Arc<Block> {
    let one = Arc::new(Block {
        charge: Mutex::new(Some(charge(account, session, bytes, Room::Free).unwrap())),
        session,
        used_ns: session as u64 * 10,
        rebuild_ns,
        busy: AtomicBool::new(false),
    });
    let weak: Weak<Block> = Arc::downgrade(&one);
    account.add_parkable(weak);
    one
}

#[test]
fn charges_are_released_with_their_memory() {
    let account = MemoryAccount::new(MemoryLimit::Unknown);
    let amounts = [(Purpose::Parts, 100), (Purpose::Buffers, 0)];
    let granted = account.charge(&holder(1), &amounts, None, Room::Free);
    let mut charges = granted.unwrap().charges;
    let (buffers, parts) = (charges.remove(1), charges.remove(0));
    buffers.grow(30).unwrap();
    assert_eq!((account.held(), account.held_by(1)), (130, 130));
    let report = account.report();
    assert_eq!(
        (report.parts_bytes, report.buffers_bytes, report.plans_bytes),
        (100, 30, 0)
    );
    drop(parts);
    assert_eq!(account.report().sessions[0].bytes, 30);
    drop(buffers);
    let report = account.report();
    assert_eq!((report.held_bytes, report.peak_bytes), (0, 130));
    assert_eq!((report.limit_bytes, report.limit_from.as_str()), (None, "none"));
    assert!(report.sessions.is_empty());
}

#[test]
fn charge_takes_the_place_of_a_reservation() {
    let account = MemoryAccount::new(MemoryLimit::Set(100));
    let reserved = account.reserve(&holder(1), 80, Room::Free).unwrap();
    let taken = account.charge(&holder(1), &[(Purpose::Buffers, 90)], reserved, Room::Free);
    assert_eq!(account.held(), 90);
    assert_eq!(account.report().buffers_bytes, 90);
    drop(taken);
    let reserved = account.reserve(&holder(1), 80, Room::Free).unwrap();
    let error = account.charge(&holder(1), &[(Purpose::Parts, 101)], reserved, Room::Free);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!((account.held(), account.report().peak_bytes), (0, 90));
}

#[test]
fn least_recently_used_and_cheap_sessions_are_parked_first() {
    let account = MemoryAccount::new(MemoryLimit::Set(300));
    let old = block(&account, 1, 100, 1000);
    let young = block(&account, 2, 100, 1000);
    let dear = block(&account, 3, 100, 1_000_000);
    let first = charge(&account, 4, 100, Room::Parked).unwrap();
    assert_eq!(
        (old.is_held(), young.is_held(), dear.is_held()),
        (false, true, true),
        "the oldest of two that cost the same"
    );
    let _second = charge(&account, 4, 100, Room::Parked).unwrap();
    assert_eq!(
        (young.is_held(), dear.is_held()),
        (false, true),
        "the younger one, because it is cheap"
    );
    drop(first);
    assert_eq!(account.report().peak_bytes, 300);
}

#[test]
fn refusal_names_limit_holders_and_remedy() {
    let account = MemoryAccount::new(MemoryLimit::Set(3 << 20));
    let busy = block(&account, 1, 2 << 20, 1);
    busy.busy.store(true, Ordering::Relaxed);
    let error = charge(&account, 2, 2 << 20, Room::Parked).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let words = error.to_string();
    for part in [
        "m2 needs 2.0 MiB more",
        "is 3.0 MiB (memory-limit)",
        "2.0 MiB are held",
        "(m1 2.0 MiB)",
        "raise the limit",
    ] {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(account.held(), 2 << 20, "what was refused is not counted");
    busy.busy.store(false, Ordering::Relaxed);
    let _charge = charge(&account, 2, 2 << 20, Room::Parked).unwrap();
    assert_eq!(account.held(), 2 << 20, "the idle one was parked");
}

#[test]
fn load_without_a_chance_parks_nothing_and_does_not_wait_for_long() {
    let account = MemoryAccount::new(MemoryLimit::Set(100));
    let idle = block(&account, 1, 60, 1);
    assert!(charge(&account, 2, 101, Room::Awaited(Duration::MAX)).is_err());
    assert!(charge(&account, 2, 41, Room::Free).is_err());
    assert!(idle.is_held());
    let _rest = charge(&account, 2, 40, Room::Free).unwrap();
    // nothing is left that another session could give up
    idle.park_idle("a test");
    assert!(charge(&account, 3, 80, Room::Awaited(Duration::MAX)).is_err());
}

#[test]
fn loads_wait_for_sessions_in_use_in_order_of_arrival() {
    let account = MemoryAccount::new(MemoryLimit::Set(100));
    let busy = block(&account, 1, 90, 1);
    busy.busy.store(true, Ordering::Relaxed);
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for session in 2..5 {
            let (account, order) = (&account, &order);
            scope.spawn(move || {
                let amounts = [(Purpose::Parts, 60)];
                let granted = account.charge(&holder(session), &amounts, None, Room::Awaited(PATIENCE));
                order.lock().unwrap().push(session);
                drop(granted.unwrap());
            });
            while account.lock().queue.len() + order.lock().unwrap().len() < session - 1 {
                std::thread::yield_now();
            }
        }
        assert!(account.is_short() && account.lacks_room());
        // a small load does not overtake those that wait
        assert!(charge(&account, 5, 5, Room::Free).is_err());
        busy.busy.store(false, Ordering::Relaxed);
        account.notify();
    });
    assert_eq!(order.into_inner().unwrap(), [2, 3, 4]);
    assert!(!account.is_short() && !busy.is_held());
    assert_eq!(account.held(), 0);
}

#[test]
fn load_with_a_reservation_does_not_wait_behind_one_that_waits_for_it() {
    let account = MemoryAccount::new(MemoryLimit::Set(100));
    let reserved = account.reserve(&holder(1), 80, Room::Free).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let amounts = [(Purpose::Parts, 60)];
            account.charge(&holder(2), &amounts, None, Room::Awaited(PATIENCE))
        });
        while !account.is_short() {
            std::thread::yield_now();
        }
        let amounts = [(Purpose::Parts, 90)];
        let granted = account.charge(&holder(1), &amounts, reserved, Room::Awaited(PATIENCE));
        assert_eq!(account.held(), 90);
        drop(granted.unwrap());
        waits.join().unwrap().unwrap();
    });
}
