//! The QNN plugin over the emulated library, on the machine's clock: its faults are set through a symbol of the
//! library, and are global to the process like all that the vendor's library does.

use std::ffi::{CString, c_char};
use std::path::Path;
use std::time::Duration;

use polychip::{EventKind, Policy, Runtime};
use polychip_device_tests::libraries;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::rounds::{Case, Tally};

const ROUNDS: u64 = 1000;
/// Rounds on one runtime, whose device may be gone after a while.
const EPOCH: u64 = 25;
/// ONNX's code of i32: the CPU is slow at it, so that the NPU has parts.
const I32: u64 = 6;
/// Codes of the library for what fails in a finalize, an execute, a create.
const CODES: [u32; 4] = [1002, 1003, 1100, 6031];

/// Sets the faults of the emulated library, in its own grammar.
fn set_faults(library: &Path, rules: &str) {
    let rules = CString::new(rules).unwrap();
    // SAFETY: the emulator is our own, and stays mapped because the plugin never unloads it.
    let count = unsafe {
        let library = libloading::Library::new(library).unwrap();
        let set = library
            .get::<unsafe extern "C" fn(*const c_char) -> i32>("polychip_emulator_qnn_faults")
            .unwrap();
        set(rules.as_ptr())
    };
    assert!(count >= 0, "the emulator does not take {rules:?}");
}

fn rules(rng: &mut ChaCha8Rng) -> String {
    let mut rules: Vec<String> = Vec::new();
    for _ in 0..rng.random_range(0..6) {
        let call = rng.random_range(1..EPOCH * 3 / 2);
        let code = CODES[rng.random_range(0..CODES.len())];
        rules.push(match rng.random_range(0..10) {
            0..=3 => format!("execute:{call}=ssr"),
            4 => format!("execute:{call}=hang"),
            5 => format!("execute:{call}=slow:3ms"),
            6 | 7 => format!("execute:{call}=error:{code}"),
            8 => format!("finalize:{}=error:{code}", rng.random_range(1..3)),
            _ => format!("createFromBinary:{}=error:{code}", rng.random_range(1..4)),
        });
    }
    if rng.random_ratio(1, 4) {
        // the reset after a loss fails
        rules.push("deviceCreate:2..=error:1003".to_owned());
    }
    if rng.random_ratio(1, 5) {
        let op = ["ElementWiseMultiply", "ElementWiseAbs"][rng.random_range(0..2)];
        rules.push(format!("finalize:op={op}=error:1002"));
    }
    rules.join(";")
}

#[test]
fn a_thousand_rounds_on_the_emulated_npu_lose_no_run() {
    let htp = libraries::library("polychip-emulator-qnn", "QnnHtp").unwrap();
    libraries::library("polychip-emulator-qnn-system", "QnnSystem").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let value = |index: usize| ((index % 97) as i32 - 48).to_le_bytes().to_vec();
    let case = Case::new(folder.path(), I32, 2048, 0.0, value);
    let mut rng = ChaCha8Rng::seed_from_u64(43);
    let mut tally = Tally::default();
    let mut with_npu = 0;
    for _ in 0..ROUNDS / EPOCH {
        let rules = rules(&mut rng);
        set_faults(&htp, &rules);
        let runtime = Runtime::builder()
            .link(polychip_qnn::query)
            .configure("qnn", "lib_dir", htp.parent().unwrap().display().to_string())
            .configure("qnn", "soc", "43")
            .only_given_folders()
            .build()
            .unwrap();
        assert_eq!(runtime.refusals(), []);
        let model = runtime.load(&case.file).unwrap();
        let in_flight = rng.random_range(1..4);
        let policy = Policy::latency()
            .in_flight(in_flight)
            .retry(rng.random_range(0..3))
            .hang_timeout(Duration::from_secs(1));
        let session = runtime.session(&model, policy).unwrap();
        let parts = &session.report().parts;
        with_npu += u64::from(parts.iter().any(|part| part.device == "qnn:0"));
        tally.play(&case, &session, in_flight, EPOCH, &mut rng);
        // who hangs in the library comes back
        set_faults(&htp, "");
    }
    eprintln!("{tally:?}, {with_npu} sessions with the npu");
    assert_eq!(tally.submitted, ROUNDS);
    assert_eq!(tally.right + tally.errors + tally.dropped, ROUNDS);
    assert!(
        tally.right > ROUNDS * 3 / 4 && with_npu > ROUNDS / EPOCH / 2,
        "{tally:?}"
    );
    for kind in [
        EventKind::Replanned,
        EventKind::Retried,
        EventKind::Lost,
        EventKind::Hung,
        EventKind::Reset,
        EventKind::ResetFailed,
        EventKind::Reloaded,
    ] {
        assert!(tally.of(kind) >= 2, "{kind:?} in {tally:?}");
    }
}
