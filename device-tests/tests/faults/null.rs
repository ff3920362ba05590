//! Scripted devices and the CPU, on virtual time.

use std::time::Duration;

use polychip::{EventKind, Policy, Runtime};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::rounds::{Case, Tally};

const ROUNDS: u64 = 1000;
/// Rounds on one set of devices, some of which may be gone after a while.
const EPOCH: u64 = 20;
/// ONNX's code of f32.
const F32: u64 = 1;
/// Enough that the CPU, which is fast at it, leaves parts to other devices.
const ELEMENTS: usize = 1 << 18;

/// Two devices of some ops each; what they do not offer is the CPU's.
fn script(rng: &mut ChaCha8Rng) -> String {
    let mut text = String::new();
    for ops in ["\"Neg\", \"Abs\"", "\"Add\", \"Mul\""] {
        let mut faults = Vec::new();
        for _ in 0..rng.random_range(0..5) {
            let at = rng.random_range(0..EPOCH * 2);
            let times = [1, 1, 1, 2, 6][rng.random_range(0..5)];
            let more = match rng.random_range(0..9) {
                0 => "kind = \"lost\"",
                1 | 2 => "kind = \"lost\", class = \"persistent\"",
                3 => "kind = \"hang\"",
                4 => "kind = \"stuck\"",
                5 => "kind = \"error\", class = \"transient\"",
                6 => "kind = \"error\", class = \"persistent\"",
                7 => "kind = \"slow\", time_permille = 50000",
                _ => "kind = \"compile\", class = \"transient\"",
            };
            faults.push(format!("{{ {more}, at = {at}, times = {times} }}"));
        }
        if rng.random_ratio(1, 2) {
            // few devices are reset twice
            let at = rng.random_range(0..4) / 3;
            faults.push(format!("{{ kind = \"reset\", at = {at}, times = 3 }}"));
        }
        if rng.random_ratio(1, 4) {
            faults.push("{ kind = \"compile\", times = 3 }".to_owned());
        }
        let refuse = match rng.random_range(0..6) {
            0 => "{ node = \"neg\", code = 6001, detail = \"graph finalize failed\" }",
            1 => "{ node = \"add\", with = \"mul\", code = 6002, detail = \"not in one graph\" }",
            _ => "",
        };
        let imports = if rng.random_ratio(1, 3) {
            "imports = []\n"
        } else {
            ""
        };
        text.push_str(&format!(
            "[[device]]\nops = [{ops}]\nlaunch_ns = 100\ncost = {{ fixed_ns = 100, ps_per_mac = 0.1, ps_per_byte = 0.1 }}\n\
             {imports}fault = [{}]\nrefuse_compile = [{refuse}]\n",
            faults.join(", ")
        ));
    }
    text
}

#[test]
fn a_thousand_rounds_on_scripted_devices_lose_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let value = |index: usize| ((index % 97) as f32 - 48.0).to_le_bytes().to_vec();
    let case = Case::new(folder.path(), F32, ELEMENTS, 0.0, value);
    // scripts of their own: which devices there are does not hang on how the runs before went
    let mut scripts = ChaCha8Rng::seed_from_u64(23);
    let mut rng = ChaCha8Rng::seed_from_u64(0x79b9);
    let mut tally = Tally::default();
    let mut devices = [0u64; 3];
    for _ in 0..ROUNDS / EPOCH {
        let script = script(&mut scripts);
        let runtime = Runtime::builder()
            .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
            .configure("null", "script", script.as_str())
            .virtual_time()
            .only_given_folders()
            .build()
            .unwrap();
        let model = runtime.load(&case.file).unwrap();
        let in_flight = rng.random_range(1..4);
        let policy = Policy::latency()
            .in_flight(in_flight)
            .retry(rng.random_range(0..3))
            .hang_timeout(Duration::from_secs(10));
        // there always is one: the CPU can do everything
        let session = runtime.session(&model, policy).unwrap();
        for part in &session.report().parts {
            let index = ["cpu:0", "null:0", "null:1"]
                .iter()
                .position(|name| part.device == *name);
            devices[index.unwrap()] += 1;
        }
        tally.play(&case, &session, in_flight, EPOCH, &mut rng);
    }
    eprintln!("{tally:?}, parts at first {devices:?}");
    assert_eq!(tally.submitted, ROUNDS);
    assert_eq!(tally.right + tally.errors + tally.dropped, ROUNDS);
    // the seed does what it is there for
    assert!(tally.right > ROUNDS * 3 / 4 && tally.errors > 10, "{tally:?}");
    assert!(devices.iter().all(|parts| *parts > 20), "{devices:?}");
    for kind in [
        EventKind::Replanned,
        EventKind::Retried,
        EventKind::Lost,
        EventKind::Hung,
        EventKind::Reset,
        EventKind::ResetFailed,
        EventKind::Reloaded,
    ] {
        assert!(tally.of(kind) >= 5, "{kind:?} in {tally:?}");
    }
}
