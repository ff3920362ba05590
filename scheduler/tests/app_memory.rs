//! Memory of the app at any address: it is used in place where the device can, copied and counted where it cannot.

#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../cli/tests/command/model.rs"]
mod model;
#[path = "scripted/session.rs"]
#[allow(dead_code, reason = "not every test crate uses all of it")]
mod scripted;

use std::time::Duration;

use polychip::{Access, Memory, Policy};
use scripted::{PATIENCE, runtime};

/// Four floats of the app, so many bytes behind the beginning of a page.
fn at(offset: u64) -> Memory {
    let file = rustix::fs::memfd_create("app", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, 8192).unwrap();
    Memory::of_file(file, offset, 16).unwrap()
}

fn write(memory: &Memory, value: f32) {
    memory
        .access(Access::Write)
        .unwrap()
        .copy_from_slice(&model::floats(&[value; 4]));
}

#[test]
fn arrays_at_any_address_run_and_copies_are_counted() {
    for alignment in [1, 64, 4096] {
        let script = format!(
            "[[device]]
            imports = [\"host\"]
            import_alignment = {alignment}"
        );
        let (runtime, model) = runtime(&script);
        let session = runtime
            .session(&model, Policy::latency().devices(["null"]))
            .unwrap();
        for offset in 0..=130u64 {
            let (x, b) = (at(offset), at(130 - offset));
            let input = session.input_from("x", &[4], &x).unwrap();
            let output = session.output_in_memory("b", &[4], &b).unwrap();
            let before = session.report();
            for run in 1..=2 {
                // the app writes where it likes, and each run sees it
                let value = (offset + 1000 * run) as f32;
                write(&x, value);
                session
                    .submit_into(&[&input], &[&output])
                    .unwrap()
                    .wait(PATIENCE)
                    .unwrap();
                assert_eq!(b.access(Access::Read).unwrap()[..], model::floats(&[value; 4]));
            }
            let report = session.report();
            // an element is read at its own alignment by any device
            let staged = |offset: u64| u64::from(!offset.is_multiple_of(alignment.max(4)));
            let copies = 2 * (staged(offset) + staged(130 - offset));
            assert_eq!(
                (
                    report.copies - before.copies,
                    report.copied_bytes - before.copied_bytes
                ),
                (copies, 16 * copies),
                "{alignment}: {offset}"
            );
        }
    }
}

#[test]
fn memory_goes_along_when_another_plan_takes_over() {
    // the second device is truly faster, and takes pages only
    let device = |name: &str, ns: u64, actual: u32, alignment: u32| {
        format!(
            "[[device]]
            name = {name:?}
            imports = [\"host\"]
            import_alignment = {alignment}
            cost = {{ fixed_ns = {ns}, ps_per_byte = 0.0 }}
            actual = [{{ time_permille = {actual} }}]
            "
        )
    };
    let script = device("any", 50_000, 2000, 1) + &device("pages", 60_000, 500, 4096);
    let (runtime, model) = runtime(&script);
    let session = runtime
        .session(&model, Policy::latency().devices(["null"]))
        .unwrap();
    let (x, b) = (at(4), at(8));
    let input = session.input_from("x", &[4], &x).unwrap();
    let output = session.output_in_memory("b", &[4], &b).unwrap();
    for run in 0..200 {
        write(&x, run as f32);
        session
            .submit_into(&[&input], &[&output])
            .unwrap()
            .wait(Duration::from_secs(10))
            .unwrap();
        assert_eq!(
            b.access(Access::Read).unwrap()[..],
            model::floats(&[run as f32; 4])
        );
    }
    let report = session.report();
    assert_eq!(report.parts[0].device, "null:1", "{report}");
    assert_eq!(report.runs, 200);
    assert!(report.copied_bytes > 0, "{report}");
}
