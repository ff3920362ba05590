//! The table of sensor names and their devices, which an app may extend.
//!
//! Invariant: the first matching rule decides, and an app's rules come first.

use std::fmt;
use std::str::FromStr;

use polychip_host::DeviceKind;
use wildmatch::WildMatch;

/// The subject of a sensor's measurement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Subject {
    /// The CPU, all of its cores.
    Cpu,
    /// The GPU.
    Gpu,
    /// The NPU.
    Npu,
    /// External memory.
    Memory,
    /// The battery.
    Battery,
    /// The case surface, which a hand touches.
    Skin,
    /// The whole machine.
    System,
    /// One device, `plugin:index`.
    Device(String),
    /// Something else, or part of what another sensor measures.
    Other,
}

impl Subject {
    /// Whether the subject is the class of all devices of this kind.
    #[must_use]
    pub fn is_kind(&self, kind: DeviceKind) -> bool {
        matches!(
            (self, kind),
            (Subject::Cpu, DeviceKind::Cpu)
                | (Subject::Gpu, DeviceKind::Gpu)
                | (Subject::Npu, DeviceKind::Npu)
        )
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Cpu => "cpu",
            Subject::Gpu => "gpu",
            Subject::Npu => "npu",
            Subject::Memory => "memory",
            Subject::Battery => "battery",
            Subject::Skin => "skin",
            Subject::System => "system",
            Subject::Device(name) => name,
            Subject::Other => "other",
        })
    }
}

impl FromStr for Subject {
    type Err = String;

    /// Reads what `Display` writes; a name with a colon is a device's.
    fn from_str(text: &str) -> Result<Subject, String> {
        Ok(match text {
            "cpu" => Subject::Cpu,
            "gpu" => Subject::Gpu,
            "npu" => Subject::Npu,
            "memory" => Subject::Memory,
            "battery" => Subject::Battery,
            "skin" => Subject::Skin,
            "system" => Subject::System,
            "other" => Subject::Other,
            name if name.contains(':') => Subject::Device(name.to_owned()),
            _ => {
                return Err(format!(
                    "{text:?} is not one of cpu, gpu, npu, memory, battery, skin, system, other or a device (plugin:index)"
                ));
            }
        })
    }
}

/// The table. Names are those of the kernel's drivers: Intel and AMD (`x86_pkg_temp`, `coretemp`, `k10temp`), Qualcomm
/// (`cpuss-0`, `gpuss-0`, `nspss-0`, `kgsl`), MediaTek (`apu`), Samsung and Google (`BIG`, `G3D`, `TPU`), Rockchip
/// (`bigcore0-thermal`, `npu-thermal`, `fdab0000.npu`), Arm (`mali`), Imagination (`pvr`).
const TABLE: &[(&str, Subject)] = &[
    ("powercap/package-*", Subject::Cpu),
    ("powercap/dram*", Subject::Memory),
    ("powercap/psys*", Subject::System),
    // cores and graphics of a package, which the package's own counter holds
    ("powercap/*", Subject::Other),
    ("power_supply/*", Subject::Battery),
    ("cpufreq/*", Subject::Cpu),
    ("stat/*", Subject::Cpu),
    ("thermal/*batt*", Subject::Battery),
    ("hwmon/bat*", Subject::Battery),
    ("thermal/*skin*", Subject::Skin),
    ("thermal/*quiet*", Subject::Skin),
    ("thermal/*shell*", Subject::Skin),
    ("thermal/*board*", Subject::System),
    ("thermal/xo*therm*", Subject::System),
    ("thermal/*gpu*", Subject::Gpu),
    ("thermal/*g3d*", Subject::Gpu),
    ("thermal/*mali*", Subject::Gpu),
    ("thermal/*npu*", Subject::Npu),
    ("thermal/*nsp*", Subject::Npu),
    ("thermal/*cdsp*", Subject::Npu),
    ("thermal/*tpu*", Subject::Npu),
    ("thermal/*apu*", Subject::Npu),
    ("thermal/x86_pkg_temp*", Subject::Cpu),
    ("thermal/*cpu*", Subject::Cpu),
    ("thermal/*core*", Subject::Cpu),
    ("thermal/big*", Subject::Cpu),
    ("thermal/mid*", Subject::Cpu),
    ("thermal/little*", Subject::Cpu),
    ("thermal/soc*", Subject::Cpu),
    ("thermal/*ddr*", Subject::Memory),
    ("hwmon/coretemp*", Subject::Cpu),
    ("hwmon/k10temp*", Subject::Cpu),
    ("hwmon/zenpower*", Subject::Cpu),
    ("hwmon/cpu*", Subject::Cpu),
    ("hwmon/amdgpu*", Subject::Gpu),
    ("hwmon/nouveau*", Subject::Gpu),
    ("hwmon/i915*", Subject::Gpu),
    ("hwmon/xe*", Subject::Gpu),
    ("hwmon/gpu*", Subject::Gpu),
    ("hwmon/npu*", Subject::Npu),
    ("devfreq/*gpu*", Subject::Gpu),
    ("devfreq/*mali*", Subject::Gpu),
    ("devfreq/*kgsl*", Subject::Gpu),
    ("devfreq/*g3d*", Subject::Gpu),
    ("devfreq/*pvr*", Subject::Gpu),
    ("devfreq/*npu*", Subject::Npu),
    ("devfreq/*apu*", Subject::Npu),
    ("devfreq/*tpu*", Subject::Npu),
    ("devfreq/*nsp*", Subject::Npu),
    ("devfreq/*dmc*", Subject::Memory),
    ("devfreq/*ddr*", Subject::Memory),
    ("devfreq/*memory*", Subject::Memory),
];

/// Rules that assign sensors to devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    own: Vec<(String, Subject)>,
}

impl Rules {
    /// Adds a rule before all existing ones. In a pattern `*` matches any text and `?` one
    /// character; case is ignored.
    ///
    /// ```
    /// use polychip::telemetry::{Rules, Subject};
    /// let rules = Rules::default().with("thermal/tsens_7", Subject::Device("qnn:0".into()));
    /// assert_eq!(rules.subject("thermal/tsens_7"), Subject::Device("qnn:0".into()));
    /// assert_eq!(rules.subject("thermal/gpuss-0"), Subject::Gpu);
    /// ```
    #[must_use]
    pub fn with(mut self, pattern: &str, subject: Subject) -> Rules {
        self.own.insert(0, (pattern.to_lowercase(), subject));
        self
    }

    /// The subject of a sensor with this name.
    #[must_use]
    pub fn subject(&self, name: &str) -> Subject {
        let name = name.to_lowercase();
        let own = self
            .own
            .iter()
            .map(|(pattern, subject)| (pattern.as_str(), subject));
        let table = TABLE.iter().map(|(pattern, subject)| (*pattern, subject));
        let found = own
            .chain(table)
            .find(|(pattern, _)| WildMatch::new(pattern).matches(&name));
        found.map_or(Subject::Other, |(_, subject)| subject.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_names_map_to_their_chip() {
        for (name, subject) in [
            ("thermal/x86_pkg_temp", Subject::Cpu),
            ("thermal/cpuss-0-usr", Subject::Cpu),
            ("thermal/gpuss-0-usr", Subject::Gpu),
            ("thermal/nspss-1-usr", Subject::Npu),
            ("thermal/bigcore0-thermal", Subject::Cpu),
            ("thermal/npu-thermal", Subject::Npu),
            ("thermal/BIG", Subject::Cpu),
            ("thermal/G3D", Subject::Gpu),
            ("thermal/TPU", Subject::Npu),
            ("thermal/battery", Subject::Battery),
            ("thermal/skin-therm", Subject::Skin),
            ("thermal/xo-therm", Subject::System),
            ("thermal/acpitz", Subject::Other),
            ("hwmon/coretemp/Package id 0", Subject::Cpu),
            ("hwmon/amdgpu/edge", Subject::Gpu),
            ("hwmon/nvme/Composite", Subject::Other),
            ("devfreq/3d00000.qcom,kgsl-3d0", Subject::Gpu),
            ("devfreq/fdab0000.npu", Subject::Npu),
            ("devfreq/dmc", Subject::Memory),
            ("powercap/package-1", Subject::Cpu),
            ("powercap/core", Subject::Other),
            ("powercap/dram", Subject::Memory),
        ] {
            assert_eq!(Rules::default().subject(name), subject, "{name}");
        }
    }

    #[test]
    fn app_rules_come_first_and_subjects_parse() {
        let rules = Rules::default()
            .with("thermal/*", Subject::System)
            .with("Thermal/cpu?", Subject::Device("a:1".into()));
        assert_eq!(rules.subject("thermal/cpu3"), Subject::Device("a:1".into()));
        assert_eq!(rules.subject("thermal/gpu"), Subject::System);
        for word in [
            "cpu", "gpu", "npu", "memory", "battery", "skin", "system", "other", "qnn:0",
        ] {
            assert_eq!(word.parse::<Subject>().unwrap().to_string(), word);
        }
        assert!("cpus".parse::<Subject>().is_err());
    }
}
