//! What goes wrong below the plugin: a compiler that refuses, a subsystem that restarts, a run that hangs.
//!
//! Invariant: the faults are the process's, so these stand in one test, one after the other, in a program of its own.
#![allow(unsafe_code)]

#[path = "qnn/device.rs"]
#[allow(dead_code, reason = "the other program uses more of it")]
mod device;
#[path = "qnn/net.rs"]
#[allow(dead_code, reason = "the other program uses more of it")]
mod net;

use std::ffi::{CString, c_char};
use std::sync::Arc;
use std::time::Duration;

use polychip_host::{
    Access, Buffer, CompileOptions, Device, ErrorKind, Executable, Fence, FlatGraph, Memory, Priority,
    Submission,
};

use device::{device, folder, run};
use net::{Kind, feeds, network};

/// Replaces the faults of the emulator that this process holds.
fn faults(rules: &str) {
    let path = folder().join("libQnnHtp.so");
    // SAFETY: the library is held by the plugin already; opening it again runs nothing.
    let library = unsafe { libloading::Library::new(path) }.unwrap();
    let rules = CString::new(rules).unwrap();
    // SAFETY: the emulator's own export has this type; the text ends in zero.
    let set = unsafe {
        library
            .get::<unsafe extern "C" fn(*const c_char) -> i32>("polychip_emulator_qnn_faults")
            .unwrap()(rules.as_ptr())
    };
    assert!(set >= 0);
}

/// Starts a run without waiting for it.
fn start(
    device: &Device,
    executable: &Executable,
    feeds: &[Vec<u8>],
    priority: Priority,
    waits: &[&Fence],
) -> Fence {
    let mut submission = Submission::new(executable, waits.len());
    submission.priority = priority;
    for (number, port) in executable.ports().iter().enumerate() {
        let buffer: Arc<Buffer> = Arc::new(device.import_buffer(&Memory::new(port.bytes).unwrap()).unwrap());
        if let Some(feed) = feeds.get(number) {
            buffer
                .access(Access::Write, 0, port.bytes)
                .unwrap()
                .copy_from_slice(feed);
        }
        submission.bind(number as u32, &buffer, 0).unwrap();
    }
    executable.execute(&mut submission, waits).unwrap()
}

#[test]
fn faults_have_the_right_error_kind_and_reset_recovers() {
    let (device, graph) = (device("SM8550"), network(Kind::U8));
    let (flat, feeds) = (FlatGraph::new(&graph, &[]).unwrap(), feeds(&graph));
    let load = || {
        let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
        device.load(blob, &flat, 1).unwrap()
    };
    let executable = load();
    let expected = run(&device, &executable, &feeds).unwrap();

    // a compiler that refuses what was validated
    faults("finalize:1=1002");
    let refused = device
        .compile(&flat, &CompileOptions::default())
        .map(drop)
        .unwrap_err();
    assert_eq!(
        (refused.kind(), refused.vendor_code()),
        (ErrorKind::Unsupported, 1002)
    );
    assert!(refused.to_string().contains("graphFinalize"), "{refused}");
    assert!(device.compile(&flat, &CompileOptions::default()).is_ok());

    // a run that fails leaves the device as it was
    faults("execute:1=6031");
    assert_eq!(run(&device, &executable, &feeds), Err(ErrorKind::Persistent));
    assert_eq!(run(&device, &executable, &feeds).as_ref(), Ok(&expected));

    // the subsystem restarts
    for round in 0..3 {
        let executable = load();
        faults("execute:2=ssr");
        assert_eq!(
            run(&device, &executable, &feeds).as_ref(),
            Ok(&expected),
            "{round}"
        );
        assert_eq!(
            run(&device, &executable, &feeds),
            Err(ErrorKind::DeviceLost),
            "{round}"
        );
        assert!(device.is_quarantined());
        device.reset().unwrap();
        assert_eq!(run(&device, &load(), &feeds).as_ref(), Ok(&expected), "{round}");
    }

    // a run that hangs: whoever waits is told, the device is taken back, and the run ends somewhere behind
    let executable = load();
    faults("execute:1=hang");
    let fence = start(&device, &executable, &feeds, Priority::Normal, &[]);
    let queued = start(&device, &executable, &feeds, Priority::Normal, &[]);
    let waited = fence.wait(Duration::from_millis(100)).unwrap_err();
    assert_eq!(waited.kind(), ErrorKind::Timeout);
    queued.cancel().unwrap();
    device.reset().unwrap();
    for fence in [&fence, &queued] {
        let ended = fence.wait(Duration::from_secs(10)).unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::DeviceLost);
    }
    // another reset while the first run still hangs: one thread serves, and the device is taken back again
    device.reset().unwrap();
    let executable = load();
    let behind = start(&device, &executable, &feeds, Priority::Normal, &[]);
    behind.wait(Duration::from_secs(10)).unwrap();
    faults("");
    assert_eq!(run(&device, &load(), &feeds).as_ref(), Ok(&expected));

    // an urgent run that waits for one queued before it does not keep the queue from that one
    let executable = load();
    faults("execute:1=slow:200ms");
    let first = start(&device, &executable, &feeds, Priority::Normal, &[]);
    let second = start(&device, &executable, &feeds, Priority::Batch, &[]);
    let urgent = start(&device, &executable, &feeds, Priority::Urgent, &[&second]);
    for fence in [&urgent, &second, &first] {
        fence.wait(Duration::from_secs(30)).unwrap();
    }
    drop((first, second, urgent, behind, executable));

    // whoever leaves while a run hangs is let go
    let executable = load();
    faults("execute:1=hang");
    let fence = start(&device, &executable, &feeds, Priority::Normal, &[]);
    assert!(fence.wait(Duration::from_millis(50)).is_err());
    drop(fence);
    drop(executable);
    drop(device);
    faults("");
}
