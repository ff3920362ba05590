//! Which processor this is, and the clock that its maker states: what tells its figures from another one's.
//!
//! Invariant: nothing here moves while a machine is up. A clock that follows the load is no property of a processor.
//!
//! Not here: sensors (`telemetry`), which processors runs use (`cores`).

use std::fs;
use std::path::Path;

/// Clocks are taken in steps of 50 MHz: makers state no finer ones, so that no clock lies between two steps, and a counter's
/// calibration differs by less.
const STEP_KHZ: u64 = 50_000;
/// The clock of a core of which the system says none: that of a server's core at work, and of a phone's big one.
const USUAL_KHZ: u64 = 2_500_000;

/// A processor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Processor {
    /// Maker, as it calls itself.
    pub(crate) vendor: String,
    /// Name for people.
    pub(crate) name: String,
    /// x86: the maker's number of the design.
    pub(crate) family: u32,
    /// What tells models and revisions apart, and of Arm each kind of core with its count.
    pub(crate) revision: String,
    /// Clock that the maker states, in kilohertz, of the fastest core.
    pub(crate) nominal_khz: u64,
}

impl Processor {
    /// The one that this runs on.
    pub(crate) fn find() -> Processor {
        Processor::of(
            &fs::read_to_string("/proc/cpuinfo").unwrap_or_default(),
            Path::new("/sys"),
        )
    }

    fn of(cpuinfo: &str, sys: &Path) -> Processor {
        let all = |key: &'static str| {
            cpuinfo.lines().filter_map(move |line| {
                let (name, value) = line.split_once(':')?;
                (name.trim() == key).then(|| value.trim())
            })
        };
        let field = |key| all(key).next().unwrap_or_default();
        let kinds = |keys: [&'static str; 4]| {
            let mut parts = [all(keys[0]), all(keys[1]), all(keys[2]), all(keys[3])];
            let mut kinds: Vec<(String, u32)> = Vec::new();
            loop {
                let mut words = Vec::new();
                for part in &mut parts {
                    let Some(word) = part.next() else { return kinds };
                    words.push(word);
                }
                let kind = words.join("-");
                match kinds.last_mut().filter(|(last, _)| *last == kind) {
                    Some((_, count)) => *count += 1,
                    None => kinds.push((kind, 1)),
                }
            }
        };
        let x86 = ["cpu family", "model", "stepping"];
        let arm = ["CPU implementer", "CPU part", "CPU variant", "CPU revision"];
        let revision = if field(x86[0]).is_empty() {
            let kinds = kinds(arm).into_iter();
            kinds
                .map(|(kind, count)| format!("{count}*{kind}"))
                .collect::<Vec<_>>()
                .join("+")
        } else {
            x86.map(field).join("-")
        };
        let named = [field("model name"), field("Hardware"), std::env::consts::ARCH];
        Processor {
            vendor: field("vendor_id").to_owned(),
            name: named
                .into_iter()
                .find(|name| !name.is_empty())
                .unwrap_or_default()
                .to_owned(),
            family: field(x86[0]).parse().unwrap_or(0),
            revision,
            nominal_khz: nominal_khz(field("bogomips"), sys),
        }
    }
}

/// The stated clock. The counter of an x86 ticks at the base clock, of which BogoMIPS are the double; elsewhere the
/// system states the highest clock, which chips without a base clock hold for as long as they stay cool.
fn nominal_khz(bogomips: &str, sys: &Path) -> u64 {
    let of_counter = || {
        let mips: f64 = bogomips.parse().ok()?;
        cfg!(target_arch = "x86_64").then_some((mips * 500.0) as u64)
    };
    let of_cores = || {
        let cores = (0..256).map_while(|cpu| {
            let file = sys.join(format!("devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"));
            fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
        });
        cores.max()
    };
    let khz = of_counter().or_else(of_cores).unwrap_or(USUAL_KHZ);
    ((khz + STEP_KHZ / 2) / STEP_KHZ * STEP_KHZ).max(STEP_KHZ)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPYC: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
        model name\t: AMD EPYC\nstepping\t: 1\ncpu MHz\t\t: 3704.114\nbogomips\t: 5192.27\n";
    const PHONE: &str = "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: 0xd05\n\
        CPU revision\t: 0\n\nprocessor\t: 1\nCPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: 0xd05\n\
        CPU revision\t: 0\n\nprocessor\t: 2\nCPU implementer\t: 0x41\nCPU variant\t: 0x4\nCPU part\t: 0xd0d\n\
        CPU revision\t: 1\n";

    #[test]
    fn load_dependent_clock_is_not_read() {
        let sys = Path::new("/nowhere");
        let found = Processor::of(EPYC, sys);
        assert_eq!(found, Processor::of(&EPYC.replace("3704.114", "1200.000"), sys));
        assert_eq!((found.family, found.revision.as_str()), (25, "25-17-1"));
        assert_eq!(
            (found.vendor.as_str(), found.name.as_str()),
            ("AuthenticAMD", "AMD EPYC")
        );
        if cfg!(target_arch = "x86_64") {
            assert_eq!(found.nominal_khz, 2_600_000);
            assert_eq!(
                found,
                Processor::of(&EPYC.replace("5192.27", "5201.10"), sys),
                "a counter is calibrated anew at each start of the machine"
            );
            // 2.25 GHz, as of an EPYC 7742
            for mips in ["4499.90", "4500.10"] {
                let found = Processor::of(&EPYC.replace("5192.27", mips), sys);
                assert_eq!(found.nominal_khz, 2_250_000, "{mips}");
            }
        }
    }

    #[test]
    fn processor_identity_depends_on_each_property() {
        let sys = Path::new("/nowhere");
        let one = Processor::of(EPYC, sys);
        for (from, to) in [
            ("AuthenticAMD", "GenuineIntel"),
            ("family\t: 25", "family\t: 26"),
            ("model\t\t: 17", "model\t\t: 18"),
            ("AMD EPYC", "AMD EPYC 9V74"),
            ("stepping\t: 1", "stepping\t: 2"),
        ] {
            assert_ne!(one, Processor::of(&EPYC.replace(from, to), sys), "{from}");
        }
        let phone = Processor::of(PHONE, sys);
        assert_eq!(phone.revision, "2*0x41-0xd05-0x1-0+1*0x41-0xd0d-0x4-1");
    }

    #[test]
    fn fastest_core_gives_the_clock_without_a_counter() {
        let sys = tempfile::tempdir().unwrap();
        for (cpu, khz) in [(0, 1_803_000), (1, 2_841_600)] {
            let folder = sys.path().join(format!("devices/system/cpu/cpu{cpu}/cpufreq"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpuinfo_max_freq"), format!("{khz}\n")).unwrap();
        }
        assert_eq!(Processor::of("", sys.path()).nominal_khz, 2_850_000);
        assert_eq!(Processor::of("", Path::new("/nowhere")).nominal_khz, USUAL_KHZ);
    }
}
