//! The state of the board, and whether it is fit for measurements.
//!
//! Invariant: a limit without a sensor does not apply, and the record shows the missing sensor.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use polychip::Runtime;
use polychip::telemetry::{Figure, Quantity, Reading, Rules, Sample, Sampler, Sensor, Sensors};
use polychip_farm_record::{Limits, State};

/// Over this time others' share of the processors is taken.
const WINDOW: Duration = Duration::from_millis(1100);
/// Time between two looks at a board that is not fit yet.
const AGAIN: Duration = Duration::from_secs(2);
/// Meanwhile, time between two looks whether the wait is still wanted.
const LOOK: Duration = Duration::from_millis(250);
/// What a cooling device that slows a chip down calls itself; a fan is one that does not.
const SLOWING: [&str; 8] = [
    "Processor",
    "cpufreq",
    "cpuidle",
    "devfreq",
    "intel_powerclamp",
    "thermal-cpufreq",
    "thermal-cpuidle",
    "thermal-devfreq",
];

/// Reads the board's state.
#[derive(Debug)]
pub(crate) struct Conditions {
    root: PathBuf,
    sampler: Sampler,
}

impl Conditions {
    /// Of the files under this folder.
    pub(crate) fn new(root: &Path) -> anyhow::Result<Conditions> {
        let runtime = Runtime::builder().only_given_folders().build()?;
        Ok(Conditions {
            root: root.to_owned(),
            sampler: Sampler::new(&runtime, Sensors::at(root, &Rules::default())),
        })
    }

    /// Of the files under this folder, for the devices of this runtime.
    pub(crate) fn of(runtime: &Runtime, root: &Path) -> Conditions {
        Conditions {
            root: root.to_owned(),
            sampler: Sampler::new(runtime, Sensors::at(root, &Rules::default())),
        }
    }

    /// The state now. Others' load is that since the last call, if a second has passed.
    pub(crate) fn now(&mut self) -> State {
        let sample = self.sampler.sample();
        let mut sensors = Sensors::at(&self.root, &Rules::default());
        let readings = sensors.read();
        let mut state = of(&sample, sensors.all(), &readings);
        state.throttled = throttled(&self.root, &sample);
        state
    }

    /// The state over a second from now.
    pub(crate) fn settled(&mut self) -> State {
        drop(self.sampler.sample());
        std::thread::sleep(WINDOW);
        self.now()
    }

    /// Waits until the board is fit; the state then, or the state with the reason why it never became so. While it waits,
    /// `is_over` gets the reason every quarter of a second; if it returns true, the wait ends without an answer.
    pub(crate) fn wait(
        &mut self,
        limits: &Limits,
        is_over: &mut dyn FnMut(&str) -> bool,
    ) -> Option<(State, Option<String>)> {
        let start = Instant::now();
        loop {
            let state = self.settled();
            let Some(reason) = unfit(&state, limits) else {
                return Some((state, None));
            };
            // nothing warms a board that is too cold
            let is_hopeless = limits.coldest_mc.is_some() && too_cold(&state, limits).is_some();
            let waited = start.elapsed();
            if is_hopeless || waited.as_secs() >= u64::from(limits.patience_s) {
                return Some((
                    state,
                    Some(format!("{reason}, still so after {} s", waited.as_secs())),
                ));
            }
            let again = Instant::now() + AGAIN;
            while Instant::now() < again {
                if is_over(&reason) {
                    return None;
                }
                std::thread::sleep(LOOK);
            }
        }
    }
}

fn of(sample: &Sample, sensors: &[Sensor], readings: &[Reading]) -> State {
    let mut state = State::default();
    for (sensor, reading) in sensors.iter().zip(readings) {
        let Ok(value) = reading.value else { continue };
        match sensor.quantity {
            Quantity::Temperature => {
                state.temperatures_mc.insert(sensor.name.clone(), value);
            }
            Quantity::Frequency => {
                state
                    .clocks_khz
                    .extend(u64::try_from(value).map(|khz| (sensor.name.clone(), khz)));
                state
                    .allowed_khz
                    .extend(sensor.range_khz.map(|(_, high)| (sensor.name.clone(), high)));
                state
                    .governors
                    .extend(sensor.governor.clone().map(|name| (sensor.name.clone(), name)));
            }
            _ => {}
        }
    }
    let others = sample
        .devices
        .iter()
        .find_map(|device| device.others_permille.value);
    state.load_by_others_millis = others.and_then(|value| u32::try_from(value).ok());
    if let Some(battery) = &sample.battery {
        let Figure { value, .. } = battery.capacity_permille;
        state.battery_percent = value.and_then(|permille| u8::try_from(permille / 10).ok());
        state.charging = battery.charging;
    }
    state
}

/// Whether a clock is held down; none where nothing says.
fn throttled(root: &Path, sample: &Sample) -> Option<bool> {
    let number = |path: &Path| -> Option<i64> { std::fs::read_to_string(path).ok()?.trim().parse().ok() };
    let mut said = Vec::new();
    for policy in folders(&root.join("sys/devices/system/cpu/cpufreq"), "policy") {
        let [allowed, highest] =
            ["scaling_max_freq", "cpuinfo_max_freq"].map(|name| number(&policy.join(name)));
        said.extend(allowed.zip(highest).map(|(allowed, highest)| allowed < highest));
    }
    for device in folders(&root.join("sys/class/thermal"), "cooling_device") {
        let kind = std::fs::read_to_string(device.join("type")).unwrap_or_default();
        if SLOWING.iter().any(|begin| kind.starts_with(begin)) {
            said.extend(number(&device.join("cur_state")).map(|state| state > 0));
        }
    }
    // Android's own word
    said.extend(sample.heat.status.value.map(|status| status > 0));
    let told = sample.devices.iter().filter(|device| !device.emulated);
    said.extend(
        told.filter_map(|device| device.throttle.value)
            .map(|bits| bits != 0),
    );
    (!said.is_empty()).then(|| said.contains(&true))
}

fn folders(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(begin))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Why nothing may be measured now.
pub(crate) fn unfit(state: &State, limits: &Limits) -> Option<String> {
    if let Some(reason) = too_cold(state, limits).or_else(|| too_hot(state, limits)) {
        return Some(reason);
    }
    if state.throttled == Some(true) && !limits.throttled {
        return Some("the board is throttled: a clock is held below the hardware maximum".to_owned());
    }
    contended(state, limits)
}

/// Others used more of the processors than is allowed.
pub(crate) fn contended(state: &State, limits: &Limits) -> Option<String> {
    let load = state.load_by_others_millis?;
    (load > limits.load_by_others_millis).then(|| {
        format!(
            "other programs use {}.{} % of the processors; the limit is {}.{} %",
            load / 10,
            load % 10,
            limits.load_by_others_millis / 10,
            limits.load_by_others_millis % 10
        )
    })
}

fn too_hot(state: &State, limits: &Limits) -> Option<String> {
    let limit = limits.hottest_mc?;
    let (name, mc) = state.temperatures_mc.iter().max_by_key(|(_, mc)| **mc)?;
    (*mc > limit).then(|| {
        format!(
            "{name} is at {} °C; the start limit is {} °C",
            celsius(*mc),
            celsius(limit)
        )
    })
}

fn too_cold(state: &State, limits: &Limits) -> Option<String> {
    let limit = limits.coldest_mc?;
    let (name, mc) = state.temperatures_mc.iter().max_by_key(|(_, mc)| **mc)?;
    (*mc < limit).then(|| {
        format!(
            "{name} is at {} °C; the minimum start temperature is {} °C",
            celsius(*mc),
            celsius(limit)
        )
    })
}

fn celsius(mc: i64) -> f64 {
    mc as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A board with a sensor, a clock and a cooling device.
    fn planted(temperature: &str, allowed: &str, cooling: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("sys/class/thermal/thermal_zone0/type", "cpu-thermal"),
            ("sys/class/thermal/thermal_zone0/temp", temperature),
            ("sys/class/thermal/cooling_device0/type", "thermal-cpufreq-0"),
            ("sys/class/thermal/cooling_device0/cur_state", cooling),
            ("sys/class/thermal/cooling_device1/type", "pwm-fan"),
            ("sys/class/thermal/cooling_device1/cur_state", "3"),
            (
                "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq",
                "900000",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq",
                "400000",
            ),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", allowed),
            (
                "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
                "schedutil",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq",
                "1800000",
            ),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn state(root: &Path) -> State {
        Conditions::new(root).unwrap().now()
    }

    #[test]
    fn cool_unthrottled_board_is_fit() {
        let root = planted("41000", "1800000", "0");
        let state = state(root.path());
        assert_eq!(
            state.temperatures_mc.values().copied().collect::<Vec<_>>(),
            [41_000]
        );
        assert_eq!(state.clocks_khz.values().copied().collect::<Vec<_>>(), [900_000]);
        assert_eq!(
            state.allowed_khz.values().copied().collect::<Vec<_>>(),
            [1_800_000]
        );
        assert_eq!(state.governors.values().collect::<Vec<_>>(), ["schedutil"]);
        assert_eq!(state.throttled, Some(false), "a fan slows nothing down");
        assert_eq!(unfit(&state, &Limits::default()), None);
    }

    #[test]
    fn hot_cold_throttled_or_busy_board_is_unfit_unless_allowed() {
        let hottest = Limits {
            hottest_mc: Some(40_000),
            ..Limits::default()
        };
        let root = planted("41000", "1800000", "0");
        let reason = unfit(&state(root.path()), &hottest).unwrap();
        assert!(
            reason.contains("41 °C") && reason.contains("cpu-thermal"),
            "{reason}"
        );
        let coldest = Limits {
            coldest_mc: Some(50_000),
            ..Limits::default()
        };
        assert!(
            unfit(&state(root.path()), &coldest)
                .unwrap()
                .contains("minimum start temperature is 50 °C")
        );
        for root in [planted("41000", "1200000", "0"), planted("41000", "1800000", "2")] {
            let state = state(root.path());
            assert_eq!(state.throttled, Some(true));
            assert!(unfit(&state, &Limits::default()).unwrap().contains("throttled"));
            let told = Limits {
                throttled: true,
                ..Limits::default()
            };
            assert_eq!(unfit(&state, &told), None);
        }
        let busy = State {
            load_by_others_millis: Some(345),
            ..State::default()
        };
        let reason = unfit(&busy, &Limits::default()).unwrap();
        assert!(reason.contains("34.5 %") && reason.contains("10.0 %"), "{reason}");
    }

    #[test]
    fn waiting_for_a_hot_board_ends_with_the_reason() {
        let root = planted("91000", "1800000", "0");
        let limits = Limits {
            hottest_mc: Some(60_000),
            patience_s: 0,
            ..Limits::default()
        };
        let (state, reason) = Conditions::new(root.path())
            .unwrap()
            .wait(&limits, &mut |_| false)
            .unwrap();
        assert!(reason.unwrap().contains("the start limit is 60 °C"));
        assert_eq!(state.temperatures_mc.len(), 1);
    }

    #[test]
    fn a_board_without_sensors_has_no_figures_and_may_be_measured() {
        let root = tempfile::tempdir().unwrap();
        let state = state(root.path());
        assert_eq!((state.throttled, state.temperatures_mc.len()), (None, 0));
        assert_eq!(unfit(&state, &Limits::default()), None);
    }
}
