//! Sensors of the CPU, as Linux gives them: temperature, clock, package energy, memory in use.
//!
//! Invariant: a sensor that is not there, or says nonsense, is absent from the answer.

use std::fs;
use std::path::{Path, PathBuf};

use polychip_sdk::Telemetry;

/// Zones of `/sys/class/thermal` that are the CPU's, best first.
const CPU_ZONES: &[&str] = &[
    "x86_pkg_temp",
    "cpu-thermal",
    "cpu_thermal",
    "soc-thermal",
    "cpu",
    "acpitz",
];

/// Where the sensors are.
#[derive(Debug, Default)]
pub(crate) struct Sensors {
    temperature: Option<PathBuf>,
    frequencies: Vec<PathBuf>,
    energy: Option<PathBuf>,
}

impl Sensors {
    /// Looks for the sensors once.
    pub(crate) fn find() -> Self {
        Self::under(Path::new("/sys"))
    }

    fn under(sys: &Path) -> Self {
        let mut zones: Vec<(usize, PathBuf)> = Vec::new();
        for entry in fs::read_dir(sys.join("class/thermal"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let kind = fs::read_to_string(entry.path().join("type")).unwrap_or_default();
            let kind = kind.trim();
            if let Some(rank) = CPU_ZONES.iter().position(|zone| kind.starts_with(zone)) {
                zones.push((rank, entry.path().join("temp")));
            }
        }
        zones.sort();
        let mut frequencies = Vec::new();
        for cpu in 0..256 {
            let path = sys.join(format!("devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"));
            if !path.exists() {
                break;
            }
            frequencies.push(path);
        }
        let energy = sys.join("class/powercap/intel-rapl:0/energy_uj");
        Self {
            temperature: zones.into_iter().next().map(|(_, path)| path),
            frequencies,
            energy: fs::read_to_string(&energy).is_ok().then_some(energy),
        }
    }

    /// Reads them.
    pub(crate) fn read(&self, time_ns: u64) -> Telemetry {
        let number = |path: &PathBuf| fs::read_to_string(path).ok()?.trim().parse::<i64>().ok();
        Telemetry {
            time_ns,
            temperature_mc: self
                .temperature
                .as_ref()
                .and_then(number)
                .filter(|mc| (-60_000..200_000).contains(mc)),
            frequency_khz: self
                .frequencies
                .iter()
                .filter_map(number)
                .max()
                .or_else(frequency_of_cpuinfo)
                .and_then(|khz| u64::try_from(khz).ok())
                .filter(|&khz| khz > 0),
            energy_uj: self
                .energy
                .as_ref()
                .and_then(number)
                .and_then(|uj| u64::try_from(uj).ok()),
            memory_used_bytes: resident_bytes(),
            ..Telemetry::default()
        }
    }
}

/// The highest clock in `/proc/cpuinfo`, in kilohertz.
fn frequency_of_cpuinfo() -> Option<i64> {
    fs::read_to_string("/proc/cpuinfo")
        .ok()?
        .lines()
        .filter_map(|line| {
            line.strip_prefix("cpu MHz")?
                .split(':')
                .nth(1)?
                .trim()
                .parse::<f64>()
                .ok()
        })
        .map(|mhz| (mhz * 1000.0) as i64)
        .max()
}

/// Resident memory of this process.
fn resident_bytes() -> Option<u64> {
    let pages: u64 = fs::read_to_string("/proc/self/statm")
        .ok()?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()?;
    pages.checked_mul(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_sensors_are_absent() {
        let empty = Sensors::under(Path::new("/nowhere")).read(7);
        assert_eq!(
            (empty.time_ns, empty.temperature_mc, empty.energy_uj),
            (7, None, None)
        );
    }

    #[test]
    fn best_thermal_zone_is_read_and_implausible_values_dropped() {
        let sys = tempfile::tempdir().unwrap();
        let zone = |index: usize, kind: &str, temp: &str| {
            let dir = sys.path().join(format!("class/thermal/thermal_zone{index}"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("type"), kind).unwrap();
            fs::write(dir.join("temp"), temp).unwrap();
        };
        zone(0, "acpitz\n", "20000\n");
        zone(1, "x86_pkg_temp\n", "61500\n");
        assert_eq!(Sensors::under(sys.path()).read(0).temperature_mc, Some(61_500));
        zone(1, "x86_pkg_temp\n", "-274000\n");
        assert_eq!(Sensors::under(sys.path()).read(0).temperature_mc, None);
    }
}
