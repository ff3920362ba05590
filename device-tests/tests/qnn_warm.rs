//! A warm run on the NPU allocates nothing in host and plugin; what the library does by itself is its own.
//!
//! Invariant: the emulator is a library with an allocator of its own, which is not counted.
#![allow(unsafe_code)]

#[path = "qnn/device.rs"]
#[allow(dead_code, reason = "the other program uses more of it")]
mod device;
#[path = "qnn/net.rs"]
#[allow(dead_code, reason = "the other program uses more of it")]
mod net;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use polychip_host::{CompileOptions, FlatGraph, Memory, Submission};

struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(data, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_warm_run_allocates_nothing() {
    let (device, graph) = (device::device("SM8550"), net::network(net::Kind::U8));
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let executable = device.load(blob, &flat, 1).unwrap();
    let mut submission = Submission::new(&executable, 1);
    let mut buffers = Vec::new();
    for (number, port) in executable.ports().iter().enumerate() {
        let buffer = Arc::new(device.import_buffer(&Memory::new(port.bytes).unwrap()).unwrap());
        submission.bind(number as u32, &buffer, 0).unwrap();
        buffers.push(buffer);
    }
    let mut run = || {
        let fence = executable.execute(&mut submission, &[]).unwrap();
        fence.wait(Duration::from_secs(60)).unwrap();
    };
    for _ in 0..20 {
        run();
    }
    COUNTS.store(true, Ordering::Relaxed);
    for _ in 0..50 {
        run();
    }
    COUNTS.store(false, Ordering::Relaxed);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0);
}
