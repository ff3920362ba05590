//! Sensors of a device.
//!
//! NVIDIA's devices are read through NVML, others through Linux's files of their PCI device, those of phones
//! through the files of their driver; each is found by the GPU's own PCI address, so that none reads another's.
//!
//! Invariants:
//! 1. A sensor that is not there, or says nonsense, is absent from the answer.
//! 2. A read takes some microseconds: what the driver takes milliseconds for is read ten times a second, as often
//!    as it changes.
//!
//! Not here: times of runs (`driver::timestamps`), rates (`probe`).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use polychip_sdk::{Telemetry, Throttle};

use crate::driver::adapter::GpuAdapter;

/// Vendor of PCI devices whose sensors NVML reads.
const NVIDIA: u32 = 0x10de;
/// How often NVIDIA's energy counter changes.
const ENERGY_EVERY: Duration = Duration::from_millis(100);

/// NVML is opened once per process and stays.
static NVML: OnceLock<Option<Nvml>> = OnceLock::new();

/// Sensors of one device.
pub(crate) enum Sensors {
    /// Through NVML.
    Nvidia {
        device: nvml_wrapper::Device<'static>,
        /// When energy was read last, and what it was, in microjoules.
        energy: Mutex<Option<(Instant, Option<u64>)>>,
    },
    /// Through files.
    Files(Files),
    /// There are none.
    None,
}

impl Sensors {
    /// Looks for the sensors of a GPU once.
    pub(crate) fn find(found: &GpuAdapter) -> Sensors {
        if found.software() {
            return Sensors::None;
        }
        let pci = found.info.device_pci_bus_id.as_str();
        if found.info.vendor == NVIDIA && !pci.is_empty() {
            let nvml = NVML.get_or_init(|| Nvml::init().ok());
            let device = nvml.as_ref().and_then(|nvml| nvml.device_by_pci_bus_id(pci).ok());
            if let Some(device) = device {
                return Sensors::Nvidia {
                    device,
                    energy: Mutex::new(None),
                };
            }
        }
        let files = Files::under(Path::new("/sys"), pci);
        if files == Files::default() {
            Sensors::None
        } else {
            Sensors::Files(files)
        }
    }

    /// Reads them; what is not there is absent.
    pub(crate) fn read(&self, now_ns: u64) -> Telemetry {
        match self {
            Sensors::Nvidia { device, energy } => nvidia(device, energy, now_ns),
            Sensors::Files(files) => files.read(now_ns),
            Sensors::None => Telemetry {
                time_ns: now_ns,
                ..Telemetry::default()
            },
        }
    }
}

fn nvidia(
    device: &nvml_wrapper::Device<'static>,
    energy: &Mutex<Option<(Instant, Option<u64>)>>,
    now_ns: u64,
) -> Telemetry {
    let mut energy = energy.lock().unwrap_or_else(PoisonError::into_inner);
    let energy_uj = match *energy {
        Some((at, value)) if at.elapsed() < ENERGY_EVERY => value,
        _ => {
            let read = device.total_energy_consumption().ok();
            let value = read.and_then(|millijoules| millijoules.checked_mul(1000));
            *energy = Some((Instant::now(), value));
            value
        }
    };
    drop(energy);
    let throttle = device.current_throttle_reasons().ok().map(|reasons| Throttle {
        heat: reasons.intersects(ThrottleReasons::SW_THERMAL_SLOWDOWN | ThrottleReasons::HW_THERMAL_SLOWDOWN),
        power: reasons.intersects(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN),
    });
    let temperature = device.temperature(TemperatureSensor::Gpu).ok();
    let load = device.utilization_rates().ok();
    Telemetry {
        time_ns: now_ns,
        temperature_mc: temperature.map(|degrees| i64::from(degrees) * 1000),
        power_mw: device.power_usage().ok().map(u64::from),
        energy_uj,
        frequency_khz: device
            .clock_info(Clock::SM)
            .ok()
            .map(|megahertz| u64::from(megahertz) * 1000),
        memory_used_bytes: device.memory_info().ok().map(|memory| memory.used),
        load_permille: load.map(|load| load.gpu.min(100) * 10),
        throttle,
    }
}

/// A file with a number, and what its unit is divided by to be ours.
type Reading = Option<(PathBuf, u64)>;

/// Sensors in files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    /// In thousandths of a degree.
    temperature: Reading,
    /// In milliwatts.
    power: Reading,
    /// In microjoules.
    energy: Reading,
    /// In kilohertz.
    frequency: Reading,
    /// A frequency in megahertz.
    frequency_mhz: Option<PathBuf>,
    /// In bytes.
    memory: Reading,
    /// In hundredths.
    load: Option<PathBuf>,
}

impl Files {
    /// The sensors of the PCI device of this address; without one, of a phone's GPU.
    fn under(sys: &Path, pci: &str) -> Files {
        if pci.is_empty() {
            return Files::of_phone(sys);
        }
        let device = sys.join("bus/pci/devices").join(pci.to_lowercase());
        let hwmon = subfolder(&device.join("hwmon"), "hwmon");
        let card = subfolder(&device.join("drm"), "card");
        let in_hwmon = |names: &[&str], unit: u64| -> Reading {
            let folder = hwmon.as_ref()?;
            names
                .iter()
                .map(|name| folder.join(name))
                .find(|path| number(path).is_some())
                .map(|path| (path, unit))
        };
        let there = |path: PathBuf| number(&path).map(|_| path);
        Files {
            temperature: in_hwmon(&["temp1_input"], 1),
            power: in_hwmon(&["power1_average", "power1_input"], 1000),
            energy: in_hwmon(&["energy1_input"], 1),
            frequency: in_hwmon(&["freq1_input"], 1000),
            frequency_mhz: card.and_then(|card| there(card.join("gt_cur_freq_mhz"))),
            memory: there(device.join("mem_info_vram_used")).map(|path| (path, 1)),
            load: there(device.join("gpu_busy_percent")),
        }
    }

    /// A GPU without a PCI address: Adreno's own folder, or the one device of the frequency governor that is a GPU.
    fn of_phone(sys: &Path) -> Files {
        let adreno = sys.join("class/kgsl/kgsl-3d0");
        let there = |path: PathBuf| number(&path).map(|_| path);
        let mut governed: Vec<PathBuf> = fs::read_dir(sys.join("class/devfreq"))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| {
                let name = entry.file_name().to_string_lossy().to_lowercase();
                ["gpu", "mali", "kgsl"].iter().any(|word| name.contains(word))
            })
            .map(|entry| entry.path())
            .collect();
        let governed = governed.pop().filter(|_| governed.is_empty());
        Files {
            temperature: there(adreno.join("temp")).map(|path| (path, 1)),
            frequency: there(adreno.join("gpuclk"))
                .or_else(|| there(governed?.join("cur_freq")))
                .map(|path| (path, 1000)),
            load: there(adreno.join("gpu_busy_percentage")),
            ..Files::default()
        }
    }

    fn read(&self, now_ns: u64) -> Telemetry {
        let value = |reading: &Reading| {
            let (path, unit) = reading.as_ref()?;
            number(path).map(|number| number / unit)
        };
        let plain = |path: &Option<PathBuf>| number(path.as_ref()?);
        // zero kelvin is no reading, nor is molten silicon
        let degrees = value(&self.temperature).filter(|&degrees| (1..200_000).contains(&degrees));
        Telemetry {
            time_ns: now_ns,
            temperature_mc: degrees.and_then(|degrees| i64::try_from(degrees).ok()),
            power_mw: value(&self.power),
            energy_uj: value(&self.energy),
            frequency_khz: value(&self.frequency)
                .or_else(|| plain(&self.frequency_mhz)?.checked_mul(1000))
                .filter(|&frequency| frequency > 0),
            memory_used_bytes: value(&self.memory),
            load_permille: plain(&self.load).map(|hundredths| hundredths.min(100) as u32 * 10),
            throttle: None,
        }
    }
}

/// The only folder within one whose name begins so.
fn subfolder(folder: &Path, begin: &str) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.strip_prefix(begin)
                .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found.into_iter().next()
}

/// The number that a file begins with.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path)
        .ok()?
        .split_whitespace()
        .next()?
        .trim_end_matches('%')
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn files_of_the_gpus_own_pci_device_are_read_in_our_units() {
        let sys = tempfile::tempdir().unwrap();
        let root = sys.path();
        let device = "bus/pci/devices/0000:0a:00.0";
        for (file, text) in [
            ("hwmon/hwmon3/temp1_input", "45000\n"),
            ("hwmon/hwmon3/power1_average", "31000000\n"),
            ("hwmon/hwmon3/freq1_input", "2100000000\n"),
            ("gpu_busy_percent", "37\n"),
            ("mem_info_vram_used", "123456\n"),
        ] {
            write(root, &format!("{device}/{file}"), text);
        }
        write(
            root,
            "bus/pci/devices/0000:0b:00.0/hwmon/hwmon4/temp1_input",
            "99000",
        );
        let read = Files::under(root, "0000:0A:00.0").read(7);
        let wanted = Telemetry {
            time_ns: 7,
            temperature_mc: Some(45_000),
            power_mw: Some(31_000),
            frequency_khz: Some(2_100_000),
            memory_used_bytes: Some(123_456),
            load_permille: Some(370),
            ..Telemetry::default()
        };
        assert_eq!(read, wanted);
        assert_eq!(Files::under(root, "0000:0c:00.0"), Files::default());
    }

    #[test]
    fn mobile_gpu_is_read_if_it_is_the_only_one() {
        let sys = tempfile::tempdir().unwrap();
        let root = sys.path();
        write(root, "class/devfreq/1c00000.gpu/cur_freq", "700000000\n");
        write(root, "class/devfreq/2000.memory/cur_freq", "1\n");
        assert_eq!(Files::under(root, "").read(0).frequency_khz, Some(700_000));
        write(root, "class/devfreq/mali1/cur_freq", "1\n");
        assert_eq!(Files::under(root, ""), Files::default());
        write(root, "class/kgsl/kgsl-3d0/gpu_busy_percentage", "12 %\n");
        write(root, "class/kgsl/kgsl-3d0/temp", "0\n");
        let read = Files::under(root, "").read(0);
        assert_eq!((read.load_permille, read.temperature_mc), (Some(120), None));
    }
}
