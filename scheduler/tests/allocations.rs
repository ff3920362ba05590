//! The warm path allocates nothing: every allocation of the process is counted, but those of the harness.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use polychip::{Learn, Policy, Runtime};

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;

/// The system's allocator, counting.
struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Counts an allocation, except on the first thread: that is the test harness's, which allocates
/// when it reports a test that takes longer than a minute.
fn count() {
    #[cfg(target_os = "linux")]
    if rustix::thread::gettid() == rustix::process::getpid() {
        return;
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the pointer came from the system's allocator.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// one test: what other threads allocate would be counted too
#[test]
fn a_warm_run_allocates_nothing() {
    assert_eq!(stream(), 0, "50 warm runs of a stream with a state");
    assert_eq!(
        several_sessions(),
        0,
        "50 warm runs of each of four interleaved sessions"
    );
    assert_eq!(long_runs(), 0, "4 long runs of each of two interleaved sessions");
    let (frozen, settled) = (scripted(Learn::No), scripted(Learn::default()));
    assert!(
        settled <= frozen,
        "50 warm runs of a session that has settled make {settled} allocations, of a frozen one {frozen}"
    );
    let [one, two] = [false, true].map(replicated);
    assert_eq!(two, one, "100 warm runs on two copies, beside one copy");
    #[cfg(target_os = "linux")]
    assert_eq!(staged(), 0, "50 warm runs whose input no device imports");
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shapes/shapes.onnx");
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    let model = runtime.load(model).unwrap();
    // sensors are read by a thread of their own, here once in an hour
    let governed = Policy::latency().threads(2).sampling(Duration::from_secs(3600));
    let policies = [
        Policy::latency().threads(1),
        Policy::latency().threads(2).deadline(Duration::from_secs(3600)),
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
    let late = Policy::latency().threads(1).deadline(Duration::from_nanos(1));
    let session = runtime.session(&model, late).unwrap();
    let mut image = session.input("image").unwrap();
    image.write(&vec![0.5f32; 3 * 96 * 96]).unwrap();
    // short enough that a slow processor ends it within the second
    let two = || {
        let before = COUNT.load(Ordering::Relaxed);
        for _ in 0..2 {
            let run = session.submit(&[&image]).unwrap();
            assert!(run.wait(Duration::from_secs(60)).unwrap().late_by().is_some());
        }
        COUNT.load(Ordering::Relaxed) - before
    };
    for _ in 0..60 {
        two();
    }
    // once a second the device of a late run is asked whether it is hot, by files
    assert!((0..100).any(|_| two() == 0), "late runs allocate each time");
}

/// Allocations of 50 warm runs on two scripted devices, which allocate themselves, on the machine's clock.
fn scripted(learn: Learn) -> u64 {
    let script = "[[device]]
        cost = { fixed_ns = 400000, ps_per_mac = 0.0, ps_per_byte = 0.0 }
        [[device]]
        cost = { fixed_ns = 600000, ps_per_mac = 0.0, ps_per_byte = 0.0 }";
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", script)
        .only_given_folders()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let made = model::Model {
        nodes: vec![model::node("Neg", "neg", &["x"], &["y"])],
        inputs: vec![model::port("x", model::F32, &["4"])],
        outputs: vec![model::port("y", model::F32, &["4"])],
        ..model::Model::default()
    };
    let model = runtime.load(made.write(folder.path(), "m.onnx")).unwrap();
    let policy = Policy::latency().devices(["null"]).learn(learn);
    let session = runtime.session(&model, policy).unwrap();
    let mut input = session.input("x").unwrap();
    let mut run = || {
        input.write(&[1.0f32; 4]).unwrap();
        let outputs = session.submit(&[&input]).unwrap();
        drop(outputs.wait(Duration::from_secs(60)).unwrap());
    };
    let is_settled = || {
        let learning = session.report().learning;
        learning.is_none_or(|learning| learning.settled && !learning.trials.is_empty())
    };
    let until = Instant::now() + Duration::from_secs(60);
    while !is_settled() {
        assert!(Instant::now() < until, "{}", session.report());
        run();
    }
    (0..120).for_each(|_| run());
    // beside other programs a run may be slow enough to reopen trials: the least of some tries is the session's own
    let tries = (0..5).map(|_| {
        let before = COUNT.load(Ordering::Relaxed);
        (0..50).for_each(|_| run());
        COUNT.load(Ordering::Relaxed) - before
    });
    tries.min().unwrap_or(u64::MAX)
}

/// Runs of a session with two copies of the model on scripted devices, or one; the plugin itself allocates for each run.
fn replicated(replicas: bool) -> u64 {
    use model::{F32, node, port};
    let model = model::Model {
        nodes: vec![node("Neg", "neg", &["x"], &["y"])],
        inputs: vec![port("x", F32, &["64"])],
        outputs: vec![port("y", F32, &["64"])],
        ..model::Model::default()
    };
    let device = "[[device]]\ncost = { fixed_ns = 1000000, ps_per_byte = 0.0, ps_per_mac = 0.0 }\n";
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", device.repeat(2))
        .only_given_folders()
        .virtual_time()
        .build()
        .unwrap();
    let model = runtime.load_bytes("neg.onnx", model.bytes()).unwrap();
    let policy = Policy::throughput().devices(["null"]).replicas(replicas);
    let session = runtime.session(&model, policy).unwrap();
    let mut x = session.input("x").unwrap();
    x.write(&[0.5f32; 64]).unwrap();
    let run = || {
        let both = [(), ()].map(|()| session.submit(&[&x]).unwrap());
        for run in both {
            let outputs = run.wait(Duration::from_secs(60)).unwrap();
            assert_eq!(outputs.at(0).unwrap().values::<f32>().unwrap()[0], -0.5);
        }
    };
    (0..120).for_each(|_| run());
    let before = COUNT.load(Ordering::Relaxed);
    (0..50).for_each(|_| run());
    let allocations = COUNT.load(Ordering::Relaxed) - before;
    let shares = session.report().replicas;
    assert_eq!(shares.len(), if replicas { 2 } else { 0 });
    assert!(shares.iter().all(|copy| copy.runs > 60), "{shares:?}");
    allocations
}

/// Allocations of runs that read an input at an odd address of the app's, and copy it.
#[cfg(target_os = "linux")]
fn staged() -> u64 {
    const BYTES: u64 = 3 * 96 * 96 * 4;
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shapes/shapes.onnx");
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    let model = runtime.load(model).unwrap();
    let session = runtime.session(&model, Policy::latency().threads(1)).unwrap();
    let file = rustix::fs::memfd_create("app", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, BYTES + 1).unwrap();
    let memory = polychip::Memory::of_file(file, 1, BYTES).unwrap();
    let image = session.input_from("image", &[1, 3, 96, 96], &memory).unwrap();
    let runs = |count: u64| {
        for _ in 0..count {
            let run = session.submit(&[&image]).unwrap();
            drop(run.wait(Duration::from_secs(60)).unwrap());
        }
    };
    runs(120);
    std::thread::sleep(Duration::from_millis(300));
    runs(20);
    let before = COUNT.load(Ordering::Relaxed);
    runs(50);
    let made = COUNT.load(Ordering::Relaxed) - before;
    assert_eq!(session.report().copied_bytes, 190 * BYTES);
    made
}

/// Four sessions of all classes on one place of the CPU: all runs but one wait for their turns.
fn several_sessions() -> u64 {
    use polychip::Priority::{Batch, Normal, Urgent};
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shapes/shapes.onnx");
    let runtime = one_place();
    let model = runtime.load(model).unwrap();
    let values = vec![0.5; 3 * 96 * 96];
    in_turns(
        &runtime,
        &model,
        "image",
        &values,
        [Batch, Normal, Urgent, Normal],
        (140, 50),
    )
}

/// Runs that last longer than one uninterrupted wait (50 ms), of as few elements as that needs on
/// this machine: an emulated processor takes seconds for what a core of 2026 does between two such
/// waits.
fn long_runs() -> u64 {
    let runtime = one_place();
    let load = |elements| runtime.load_bytes("long.onnx", chain(elements)).unwrap();
    let is_long = |elements: &usize| {
        let session = runtime
            .session(&load(*elements), Policy::latency().threads(1))
            .unwrap();
        let mut input = session.input("x0").unwrap();
        input.write(&vec![0.5f32; *elements]).unwrap();
        let start = Instant::now();
        let run = session.submit(&[&input]).unwrap();
        drop(run.wait(Duration::from_secs(60)).unwrap());
        start.elapsed() >= Duration::from_millis(150)
    };
    let elements = [65_536, 524_288].into_iter().find(is_long).unwrap_or(2_097_152);
    let priorities = [polychip::Priority::Normal; 2];
    let values = vec![0.5; elements];
    in_turns(&runtime, &load(elements), "x0", &values, priorities, (4, 4))
}

/// A hundred nodes after each other, with so many elements.
fn chain(elements: usize) -> Vec<u8> {
    use model::{F32, node, port};
    let names: Vec<String> = (0..=100).map(|index| format!("x{index}")).collect();
    let nodes = names.windows(2).map(|pair| {
        let op = if pair[0].ends_with('0') { "Neg" } else { "Erf" };
        node(op, &pair[1], &[&pair[0]], &[&pair[1]])
    });
    let size = elements.to_string();
    let model = model::Model {
        nodes: nodes.collect(),
        inputs: vec![port("x0", F32, &[&size])],
        outputs: vec![port("x100", F32, &[&size])],
        ..model::Model::default()
    };
    model.bytes()
}

fn one_place() -> Runtime {
    let builder = Runtime::builder().only_given_folders();
    builder.configure("cpu", "threads", "1").build().unwrap()
}

/// Allocations of rounds in which each session has one run, after rounds that are not counted.
fn in_turns<const N: usize>(
    runtime: &Runtime,
    model: &polychip::Model,
    input: &str,
    values: &[f32],
    priorities: [polychip::Priority; N],
    (uncounted, counted): (usize, usize),
) -> u64 {
    let policy = Policy::latency().threads(1).deadline(Duration::from_secs(3600));
    let sessions = priorities.map(|priority| {
        let policy = policy.clone().priority(priority);
        runtime.session(model, policy).unwrap()
    });
    let inputs = sessions.each_ref().map(|session| {
        let mut input = session.input(input).unwrap();
        input.write(values).unwrap();
        input
    });
    let round = || {
        let runs: [_; N] = std::array::from_fn(|index| sessions[index].submit(&[&inputs[index]]).unwrap());
        for run in runs {
            drop(run.wait(Duration::from_secs(60)).unwrap());
        }
    };
    (0..uncounted - uncounted / 4).for_each(|_| round());
    std::thread::sleep(Duration::from_millis(300));
    (0..uncounted / 4).for_each(|_| round());
    // beside other programs a run may wait in a way that none has before, and a queue grows: the least of some tries is
    // what each round makes
    let tries = (0..3).map(|_| {
        let before = COUNT.load(Ordering::Relaxed);
        (0..counted).for_each(|_| round());
        COUNT.load(Ordering::Relaxed) - before
    });
    tries.min().unwrap_or(u64::MAX)
}

/// A stream of chunks through a model with a state and an open size.
fn stream() -> u64 {
    use model::{F32, node, port};
    let model = model::Model {
        nodes: vec![
            node("Add", "add", &["x", "before"], &["after"]),
            node("Neg", "neg", &["after"], &["y"]),
        ],
        inputs: vec![port("x", F32, &["n", "64"]), port("before", F32, &["n", "64"])],
        outputs: vec![port("y", F32, &["n", "64"]), port("after", F32, &["n", "64"])],
        ..model::Model::default()
    };
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    let model = runtime.load_bytes("stream.onnx", model.bytes()).unwrap();
    let session = runtime.session(&model, Policy::latency().threads(1)).unwrap();
    session.bind_state("before", "after").unwrap();
    let mut x = session.input("x").unwrap();
    let mut run = || {
        x.resize(&[2, 64]).unwrap();
        x.write(&[0.5f32; 128]).unwrap();
        let outputs = session
            .submit(&[&x])
            .unwrap()
            .wait(Duration::from_secs(60))
            .unwrap();
        outputs.at(0).unwrap().values::<f32>().unwrap()[0]
    };
    for _ in 0..120 {
        run();
    }
    std::thread::sleep(Duration::from_millis(300));
    run();
    let before = COUNT.load(Ordering::Relaxed);
    let first = run();
    for _ in 0..49 {
        run();
    }
    let allocations = COUNT.load(Ordering::Relaxed) - before;
    assert_eq!(first, -0.5 * 122.0, "the state is kept");
    assert_eq!(session.report().copies, 0);
    allocations
}
