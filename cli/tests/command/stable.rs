//! Plans that stay: the same bytes from any process on any machine's mood, and locks that hold whatever is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::tool::{null_plugin, polychip, polychip_with, shapes};

/// A device about as fast as a CPU, so that the CPU's rates decide where a node goes.
const NEAR: &str = r#"
[[device]]
name = "near"
cost = { fixed_ns = 2000, ps_per_mac = 30, ps_per_byte = 60 }
"#;

/// The shipped model where locks may be written beside it, and a second device.
struct Place {
    folder: tempfile::TempDir,
    plugins: tempfile::TempDir,
    model: String,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("shapes.onnx");
        std::fs::copy(shapes(), &model).unwrap();
        std::fs::write(folder.path().join("near.toml"), NEAR).unwrap();
        Place {
            folder,
            plugins: null_plugin(),
            model: model.display().to_string(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn partition(&self, more: &[&str]) -> String {
        let (script, plugins) = (self.path("near.toml"), self.plugins.path().display().to_string());
        let mut arguments = vec!["partition", &self.model, "--plugins", &plugins];
        arguments.extend(more);
        polychip_with(&[("POLYCHIP_NULL_SCRIPT", &script)], &arguments).ok()
    }

    /// A profile that holds measured rates of the CPU, each so many thousandths of those that were measured.
    fn rates(&self, permille: u64) -> String {
        let (profile, json) = (self.path(&format!("{permille}.profile")), self.path("rates.json"));
        let measured = self.path("measured.profile");
        polychip(&["devices", "--set", "cpu.rates=measure", "--profile", &measured]).ok();
        polychip(&["profile", "export", &json, "--profile", &measured]).ok();
        let mut file: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        let values = file["plugin_values"].as_array_mut().unwrap();
        values
            .retain(|value| value["plugin"] == "cpu" && value["key"].as_str().unwrap().starts_with("rates "));
        assert_eq!(values.len(), 1, "rates are kept once");
        let hex = values[0]["value"].as_str().unwrap();
        let words = hex.as_bytes().chunks(16).map(|word| {
            let word = u64::from_str_radix(std::str::from_utf8(word).unwrap(), 16).unwrap();
            word.swap_bytes()
        });
        let changed: String = words
            .enumerate()
            // the first word is the time
            .map(|(at, word)| if at == 0 { word } else { word * permille / 1000 })
            .map(|word| format!("{:016x}", word.swap_bytes()))
            .collect();
        values[0]["value"] = changed.into();
        std::fs::write(&json, file.to_string()).unwrap();
        polychip(&["profile", "import", &json, "--profile", &profile]).ok();
        profile
    }
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
    let place = Place::new();
    let first = place.partition(&["--json"]);
    let mut load = None;
    for turn in 0..20 {
        if turn == 10 {
            load = Some(Load::new());
        }
        assert_eq!(place.partition(&["--json"]), first, "process {turn}");
    }
    drop(load);
}

#[test]
fn a_lock_holds_in_every_process_whatever_is_measured() {
    let place = Place::new();
    let plan = |profile: &str| {
        let file = place.path("plan.json");
        place.partition(&["--profile", profile, "-o", &file]);
        std::fs::read_to_string(file).unwrap()
    };
    let (slow, fast) = (place.rates(20), place.rates(5_000));
    assert_ne!(plan(&slow), plan(&fast), "measured rates are used");
    for lock in [None, Some(&slow), Some(&fast)] {
        match lock {
            None => place.partition(&["--lock"]),
            Some(profile) => place.partition(&["--lock", "--profile", profile]),
        };
        for turn in 0..7 {
            match turn % 3 {
                0 => place.partition(&["--locked"]),
                1 => place.partition(&["--locked", "--profile", &slow]),
                _ => place.partition(&["--locked", "--profile", &fast]),
            };
        }
    }
}
