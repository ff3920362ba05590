//! What exists while a part is loaded: memory that the NPU's library knows by its descriptor, used in place, registered once and
//! given back, and a vote for its clocks.
//!
//! Invariants:
//! 1. The emulator registers memory as a chip's library does. This is set before the library is opened: the program's only test.
//! 2. What is used in place is counted by the emulator: bytes that a run is given by their address.
#![allow(unsafe_code)]

#[path = "qnn/device.rs"]
#[allow(dead_code, reason = "the other program uses more of it")]
mod device;
#[path = "qnn/net.rs"]
#[allow(dead_code, reason = "the other program uses more of it")]
mod net;

use std::sync::Arc;
use std::time::Duration;

use polychip_host::{Access, CompileOptions, Device, Executable, FlatGraph, Memory, Submission};

/// What the emulator reports about itself.
struct Emulator(libloading::Library);

impl Emulator {
    fn open() -> Emulator {
        let path = device::folder().join("libQnnHtp.so");
        // SAFETY: an emulator of this repository.
        Emulator(unsafe { libloading::Library::new(path) }.unwrap())
    }

    fn memories(&self) -> u64 {
        // SAFETY: the emulator's own export, of this type.
        let live = unsafe {
            self.0
                .get::<extern "C" fn(u32) -> u64>(b"polychip_emulator_qnn_live")
        };
        live.unwrap()(6)
    }

    fn addressed(&self) -> u64 {
        // SAFETY: as above.
        let bytes = unsafe {
            self.0
                .get::<extern "C" fn() -> u64>(b"polychip_emulator_qnn_addressed")
        };
        bytes.unwrap()()
    }
}

/// The highest corner that is voted for.
fn corner(emulator: &Emulator) -> u32 {
    // SAFETY: the emulator's own export, of this type.
    let corner = unsafe {
        emulator
            .0
            .get::<extern "C" fn() -> u32>(b"polychip_emulator_qnn_corner")
    };
    corner.unwrap()()
}

fn loaded(device: &Device) -> Executable {
    let graph = net::network(net::Kind::U8);
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    device.load(blob, &flat, 1).unwrap()
}

/// Runs over memory of the host's that the device imports whole, each port behind the one before; gives the last port's bytes.
fn imported(device: &Device, executable: &Executable, runs: usize) -> Vec<u8> {
    let graph = net::network(net::Kind::U8);
    let feeds = net::feeds(&graph);
    let ports = executable.ports();
    let places: Vec<u64> = ports
        .iter()
        .scan(0u64, |next, port| {
            let at = *next;
            *next = (at + port.bytes).next_multiple_of(256);
            Some(at)
        })
        .collect();
    let bytes = places.last().unwrap() + ports.last().unwrap().bytes;
    let whole = Memory::for_devices(bytes, [device.info()]).unwrap();
    let buffer = Arc::new(device.import_buffer(&whole).unwrap());
    let mut submission = Submission::new(executable, 1);
    for (number, &place) in places.iter().enumerate() {
        submission.bind(number as u32, &buffer, place).unwrap();
    }
    for (feed, &place) in feeds.iter().zip(&places) {
        let mut access = buffer.access(Access::Write, place, feed.len() as u64).unwrap();
        access.copy_from_slice(feed);
    }
    for _ in 0..runs {
        let fence = executable.execute(&mut submission, &[]).unwrap();
        fence.wait(Duration::from_secs(60)).unwrap();
    }
    let port = ports.last().unwrap();
    let read = buffer
        .access(Access::Read, *places.last().unwrap(), port.bytes)
        .unwrap();
    read.to_vec()
}

#[test]
fn memory_is_registered_once_and_used_in_place() {
    // SAFETY: the only test of this program, before any thread or library of it.
    unsafe { std::env::set_var("POLYCHIP_QNN_REGISTERS", "1") };
    let emulator = Emulator::open();
    let by_address = device::device("SM8650");
    let wanted = imported(&by_address, &loaded(&by_address), 1);
    assert!(emulator.addressed() > 0 && emulator.memories() == 0);
    assert!(
        wanted.iter().any(|&byte| byte != wanted[0]),
        "the answer says nothing"
    );

    drop(by_address);
    assert_eq!(corner(&emulator), 0, "a vote outlived what was loaded");
    let before = emulator.addressed();
    let host = device::host("SM8650", &[("memory", "registered")]);
    assert_eq!(host.refusals(), []);
    let device = host.devices()[0].clone();
    assert!(device.info().shares_host_memory);
    let executable = loaded(&device);
    assert_eq!(imported(&device, &executable, 5), wanted);
    assert_eq!(emulator.addressed(), before, "bytes were given by their address");
    assert_eq!(
        emulator.memories(),
        executable.ports().len() as u64,
        "one a port, over five runs"
    );
    // what is bound anew takes the place of memory that is gone
    assert_eq!(imported(&device, &executable, 1), wanted);
    assert_eq!(emulator.memories(), executable.ports().len() as u64);
    let point = |name: &str| {
        let points = device.operating_points().unwrap();
        points.iter().position(|point| point.name == name).unwrap() as u32
    };
    let usual = corner(&emulator);
    device.set_operating_point(point("burst")).unwrap();
    let burst = corner(&emulator);
    device.set_operating_point(point("power_saver")).unwrap();
    let saving = corner(&emulator);
    assert!(
        burst > usual && usual > saving && saving > 0,
        "{burst} {usual} {saving}"
    );
    drop(executable);
    assert_eq!((emulator.memories(), corner(&emulator)), (0, 0));
    // the mode that was chosen last holds for what is loaded next
    let executable = loaded(&device);
    assert_eq!(corner(&emulator), saving);
    drop(executable);
    let left = device::host("SM8650", &[("performance", "driver")]).devices()[0].clone();
    let executable = loaded(&left);
    assert_eq!(corner(&emulator), 0);
    drop(executable);
    let words = format!(
        "{:?}",
        device::host("SM8650", &[("performance", "warp")]).refusals()
    );
    assert!(
        words.contains("warp") && words.contains("sustained_high_performance"),
        "{words}"
    );
}
