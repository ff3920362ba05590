//! Plans that stay: the same bytes from any process on any machine's mood, and locks that hold whatever is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::place::Place;
use crate::tool::{data_folder, polychip, shapes};

/// A device about as fast as a CPU, so that the CPU's rates decide where a node goes.
const NEAR: &str = r#"
[[device]]
name = "near"
cost = { fixed_ns = 2000, ps_per_mac = 30, ps_per_byte = 60 }
"#;

/// The shipped model, which may run on a second device.
fn place() -> Place {
    Place::new(|folder| {
        let model = folder.join("shapes.onnx");
        std::fs::copy(shapes(), &model).unwrap();
        model.display().to_string()
    })
}

fn partition(place: &Place, more: &[&str]) -> String {
    place.with(NEAR, "partition", more).ok()
}

/// A profile that holds measured rates of the CPU, each so many thousandths of those that were measured.
fn rates(place: &Place, permille: u64) -> String {
    let (profile, json) = (
        place.path(&format!("{permille}.profile")),
        place.path("rates.json"),
    );
    let measured = place.path("measured.profile");
    polychip(&["devices", "--set", "cpu.rates=measure", "--profile", &measured]).ok();
    polychip(&["profile", "export", &json, "--profile", &measured]).ok();
    let mut file: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let values = file["plugin_values"].as_array_mut().unwrap();
    values.retain(|value| value["plugin"] == "cpu" && value["key"].as_str().unwrap().starts_with("rates "));
    assert_eq!(values.len(), 1, "rates are kept once");
    let hex = values[0]["value"].as_str().unwrap();
    let sealed: Vec<u8> = hex
        .as_bytes()
        .chunks(2)
        .map(|byte| u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 16).unwrap())
        .collect();
    let (magic, value) = (&sealed[..4], &sealed[4 + blake3::OUT_LEN..]);
    let words = value
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let changed: Vec<u8> = words
        .enumerate()
        // the first word is the time
        .flat_map(|(at, word)| if at == 0 { word } else { word * permille / 1000 }.to_le_bytes())
        .collect();
    let seal = seal(values[0]["key"].as_str().unwrap(), &changed);
    let changed = [magic, seal.as_bytes(), &changed].concat();
    values[0]["value"] = changed
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .into();
    std::fs::write(&json, file.to_string()).unwrap();
    polychip(&["profile", "import", &json, "--profile", &profile]).ok();
    profile
}

/// The seal of a value of the CPU plugin: without it, the value would not reach the plugin.
fn seal(key: &str, value: &[u8]) -> blake3::Hash {
    let user = polychip_host::UserKey::read(&data_folder().join("polychip")).unwrap();
    let mut hasher = blake3::Hasher::new_keyed(user.expect("a value was sealed").bytes());
    for part in [b"value", b"cpu".as_slice(), key.as_bytes(), value] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize()
}

/// Keeps every processor busy while it lives.
struct Load {
    ended: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn new() -> Load {
        let ended = Arc::new(AtomicBool::new(false));
        let count = 2 * std::thread::available_parallelism().map_or(2, usize::from);
        let spin = |ended: Arc<AtomicBool>| {
            std::thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..count).map(|_| spin(Arc::clone(&ended))).collect();
        Load { ended, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

#[test]
fn without_a_profile_a_loaded_and_an_idle_machine_make_one_plan() {
    let place = place();
    let first = partition(&place, &["--json"]);
    let mut load = None;
    for turn in 0..20 {
        if turn == 10 {
            load = Some(Load::new());
        }
        assert_eq!(partition(&place, &["--json"]), first, "process {turn}");
    }
    drop(load);
}

#[test]
fn lock_is_independent_of_measurements() {
    let place = place();
    let plan = |profile: &str| {
        let file = place.path("plan.json");
        partition(&place, &["--profile", profile, "-o", &file]);
        std::fs::read_to_string(file).unwrap()
    };
    let (slow, fast) = (rates(&place, 20), rates(&place, 5_000));
    assert_ne!(plan(&slow), plan(&fast), "measured rates are used");
    for lock in [None, Some(&slow), Some(&fast)] {
        match lock {
            None => partition(&place, &["--lock"]),
            Some(profile) => partition(&place, &["--lock", "--profile", profile]),
        };
        for turn in 0..7 {
            match turn % 3 {
                0 => partition(&place, &["--locked"]),
                1 => partition(&place, &["--locked", "--profile", &slow]),
                _ => partition(&place, &["--locked", "--profile", &fast]),
            };
        }
    }
}

#[test]
fn bench_blames_measured_steps_where_it_has_them() {
    let suspects = |more: &[&str]| {
        let place = place();
        // the CPU seems to be a thousand times as fast as it is
        let profile = rates(&place, 1_000_000);
        let model = shapes();
        let arguments = [
            "bench",
            &model,
            "--devices",
            "cpu",
            "--iters",
            "5",
            "--profile",
            &profile,
            "--json",
        ];
        let json = polychip(&[&arguments[..], more].concat()).json("bench");
        let warning = &json["report"]["warnings"][0];
        assert_eq!(warning["kind"], "mispredicted", "{json}");
        let nodes = warning["nodes"].as_array().unwrap().clone();
        assert!(!nodes.is_empty(), "{warning}");
        nodes
    };
    for node in suspects(&["--per-op"]) {
        assert_eq!(node["evidence"], "step", "{node}");
        assert!(
            node["measured_ns"].as_u64() > node["predicted_ns"].as_u64(),
            "{node}"
        );
    }
    for node in suspects(&[]) {
        assert_eq!(
            (&node["evidence"], &node["measured_ns"]),
            (&"prediction".into(), &serde_json::Value::Null)
        );
    }
}
