//! A queue grant on a shared device allocates nothing, regardless of the number of waiting
//! sessions. The benchmark `queue_grants` measures its time.

#![allow(
    dead_code,
    reason = "the device queue as it is in the crate, which uses all of it"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

#[path = "../src/device_queue.rs"]
mod device_queue;
#[path = "../benches/queue_grants/live.rs"]
mod live;
#[path = "../src/lock_order.rs"]
mod lock_order;
#[path = "../src/session/notifier.rs"]
mod notifier;
mod session {
    pub(crate) use crate::notifier;
}

/// The system's allocator, counting.
struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the pointer came from the system's allocator.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// one test: what other threads allocate would be counted too
#[test]
fn queue_grant_allocates_nothing() {
    let live = live::Live::new();
    for count in [1, 2, 8, 64] {
        let sessions = live.sessions(count);
        for _ in 0..20 {
            live.round(&sessions);
        }
        let before = COUNT.load(Ordering::Relaxed);
        for _ in 0..1000 / count + 1 {
            live.round(&sessions);
        }
        let allocations = COUNT.load(Ordering::Relaxed) - before;
        assert_eq!(allocations, 0, "{count} sessions");
    }
}
