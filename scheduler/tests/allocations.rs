//! The warm path allocates nothing: every allocation of the process is counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use polychip::{Policy, Runtime};

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

#[test]
fn a_warm_run_allocates_nothing() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/shapes/shapes.onnx");
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    let model = runtime.load(model).unwrap();
    // sensors are read by a thread of their own, here once in an hour
    let governed = Policy::latency().threads(2).sampling(Duration::from_secs(3600));
    let policies = [
        Policy::latency().threads(1),
        Policy::latency().threads(2),
        governed,
    ];
    for policy in policies {
        let session = runtime.session(&model, policy.clone()).unwrap();
        let mut image = session.input("image").unwrap();
        let pixels = vec![0.5f32; 3 * 96 * 96];
        let mut run = || {
            image.write(&pixels).unwrap();
            let outputs = session
                .submit(&[&image])
                .unwrap()
                .wait(Duration::from_secs(60))
                .unwrap();
            outputs.at(0).unwrap().values::<f32>().unwrap()[0]
        };
        // every slot and every ring has been used once
        for _ in 0..120 {
            run();
        }
        // on a busy machine threads that were started may not have begun: what they allocate first is not a run's
        std::thread::sleep(Duration::from_millis(300));
        for _ in 0..20 {
            run();
        }
        let before = COUNT.load(Ordering::Relaxed);
        let mut sum = 0.0;
        for _ in 0..50 {
            sum += run();
        }
        let allocations = COUNT.load(Ordering::Relaxed) - before;
        assert!(sum.is_finite());
        assert_eq!(
            allocations, 0,
            "50 warm runs with {policy:?} made {allocations} allocations"
        );
    }
}
