//! The state of the machine while something is measured: what a time depends on beside the settings of a session.
//!
//! Invariants:
//! 1. What the system does not say is absent; nothing is made up.
//! 2. The text is a function of the values, sorted by name, so that equal conditions are equal texts.
//!
//! Not here: sensors that are watched while runs go on (`telemetry`).

use std::fmt;
use std::fs;
use std::path::Path;

use crate::unit::MilliCelsius;

/// Width of a temperature band in millidegrees: within ten degrees, the leakage and the clocks of a chip change by
/// less than runs differ.
const BAND_MC: i64 = 10_000;
/// Clocks are stated in steps of 100 MHz: cpufreq's own readings jitter by less.
const CLOCK_KHZ: u64 = 100_000;

/// What is known of the machine.
///
/// ```
/// use polychip::Conditions;
/// let conditions = Conditions { governor: Some("performance".into()), khz: Some(2_412_345), ..Conditions::default() };
/// assert_eq!(conditions.to_string(), "governor=performance mhz=2400");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The governor of the processor's clocks.
    pub governor: Option<String>,
    /// Clock of the first core in kilohertz.
    pub khz: Option<u64>,
    /// Temperature of the hottest zone.
    pub temperature: Option<MilliCelsius>,
    /// Power mode of the machine (`low-power`, `balanced`, `performance`).
    pub power_mode: Option<String>,
    /// Threads that could have run when this was read, this one not counted.
    pub contention: Option<u32>,
}

impl Conditions {
    /// What this machine says now; empty where there is no `/sys`.
    #[must_use]
    pub fn now() -> Conditions {
        Conditions::read(Path::new("/"))
    }

    /// What the files below `root` say, as Linux lays them out.
    #[must_use]
    pub fn read(root: &Path) -> Conditions {
        let text = |path: &str| {
            let text = fs::read_to_string(root.join(path)).ok()?;
            let text = text.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let cpufreq = "sys/devices/system/cpu/cpu0/cpufreq";
        // "0.42 0.36 0.30 2/345 6789": two of 345 threads could run, one of them reads this
        let contention = text("proc/loadavg").and_then(|line| {
            let running = line.split_whitespace().nth(3)?.split('/').next()?;
            running
                .parse::<u32>()
                .ok()
                .map(|running| running.saturating_sub(1))
        });
        Conditions {
            governor: text(&format!("{cpufreq}/scaling_governor")),
            khz: text(&format!("{cpufreq}/scaling_cur_freq")).and_then(|khz| khz.parse().ok()),
            temperature: hottest(&root.join("sys/class/thermal")),
            power_mode: text("sys/firmware/acpi/platform_profile"),
            contention,
        }
    }
}

/// The hottest thermal zone.
fn hottest(folder: &Path) -> Option<MilliCelsius> {
    let zones = fs::read_dir(folder).ok()?.flatten();
    let zones = zones.filter(|zone| zone.file_name().to_string_lossy().starts_with("thermal_zone"));
    let read = |zone: fs::DirEntry| {
        let text = fs::read_to_string(zone.path().join("temp")).ok()?;
        text.trim().parse::<i64>().ok()
    };
    zones.filter_map(read).max().map(MilliCelsius::new)
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = Vec::new();
        if let Some(others) = self.contention {
            named.push(format!("contention={others}"));
        }
        if let Some(governor) = &self.governor {
            named.push(format!("governor={governor}"));
        }
        if let Some(khz) = self.khz {
            named.push(format!(
                "mhz={}",
                (khz + CLOCK_KHZ / 2) / CLOCK_KHZ * CLOCK_KHZ / 1_000
            ));
        }
        if let Some(mode) = &self.power_mode {
            named.push(format!("power={mode}"));
        }
        if let Some(temperature) = self.temperature {
            let low = temperature.millidegrees().div_euclid(BAND_MC) * BAND_MC / 1_000;
            named.push(format!("celsius={low}..{}", low + BAND_MC / 1_000));
        }
        named.sort();
        f.write_str(&named.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_files_say_is_read_and_what_they_do_not_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Conditions::read(folder.path()), Conditions::default());
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "schedutil\n",
        );
        write(
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
            "1749999\n",
        );
        write("sys/class/thermal/thermal_zone0/temp", "39999\n");
        write("sys/class/thermal/thermal_zone1/temp", "51000\n");
        write("sys/class/thermal/thermal_zone2/temp", "broken\n");
        write("proc/loadavg", "0.42 0.36 0.30 3/345 6789\n");
        let found = Conditions::read(folder.path());
        assert_eq!(
            found.to_string(),
            "celsius=50..60 contention=2 governor=schedutil mhz=1700"
        );
    }

    #[test]
    fn bands_reach_below_zero() {
        let at = |mc| Conditions {
            temperature: Some(MilliCelsius::new(mc)),
            ..Conditions::default()
        };
        assert_eq!(at(-1).to_string(), "celsius=-10..0");
        assert_eq!(at(0).to_string(), "celsius=0..10");
    }
}
