//! The power of each device: a model for energies that are neither stated nor measured.
//!
//! Order of trust: measurements of the whole model (`resolve`), measurements of other parts on the
//! device (`polychip_profile::DrawnPower`), the plugin's statement, the published power of the
//! nearest known chip ([`BOARDS`], [`CHIPS`]), a device of its class ([`class`]). Each has an
//! interval, which is wider for weaker sources.
//!
//! Invariants:
//! 1. Every cost of a device has an energy, with an interval and a provenance; every target has a
//!    power.
//! 2. A device that states energies keeps them; a CPU's apply to the policy's number of threads.
//! 3. Powers are the active power above idle, like `Target::idle`.
//!
//! Not here: launches and transfers (`moving`), which layer of times counts (`resolve`).

use polychip_host::{Device, DeviceKind};
use polychip_partitioner::{
    Cost, Energy, EnergyProvenance, EnergyRange, Milliwatts, Power, Provenance, Target, Time,
};
use polychip_profile::DrawnPower;

use crate::policy::Settings;

/// A power in milliwatts: at rest, and beyond that what is expected, the least and the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    idle: u64,
    active: u64,
    low: u64,
    high: u64,
}

/// One busy core of a server, desktop or laptop. TDP over cores, by the makers' data sheets: AMD EPYC 9654 360 W / 96,
/// EPYC 7763 280 W / 64, Intel Xeon Platinum 8480+ 350 W / 56, Core i7-1165G7 28 W / 4, AMD Ryzen 9 7950X 170 W / 16;
/// one core that is busy alone turbos to some 20 W. The middle is what the CPU plugin states.
const X86_CORE: Row = row(0, 12_000, 3_500, 20_000);
/// A big core of a phone or board: `cpu.core_power` of the fastest cluster at its highest clock in the
/// `power_profile.xml` of Android phones, at 3.85 V: 254 mA (Google Tensor, 3.1 GHz) to 770 mA (MediaTek Dimensity,
/// 3.6 GHz). The middle is what the CPU plugin states.
const BIG_CORE: Row = row(0, 1_500, 600, 3_000);
/// A little core, by the slowest cluster of the same files: 47 mA to 152 mA.
const LITTLE_CORE: Row = row(0, 400, 100, 800);

/// Limits of boards in watts (TDP or TGP of the makers' data sheets; what NVML calls the default power limit), by words
/// that their names hold, the more specific first. What a board draws of its limit was measured on an H200 of 700 W
/// (`docs/benchmarks/energy.md`): 79 W at rest, 54 W more for small networks, 353 W more for products of matrices in
/// f32, 460 W more under a load that never pauses.
const BOARDS: &[(&[&str], u64)] = &[
    (&["b200"], 1_000),
    (&["h200", "nvl"], 600),
    (&["h200"], 700),
    (&["h100", "pcie"], 350),
    (&["h100", "nvl"], 400),
    (&["h100"], 700),
    (&["a100", "pcie", "80gb"], 300),
    (&["a100", "pcie"], 250),
    (&["a100"], 400),
    (&["v100", "pcie"], 250),
    (&["v100"], 300),
    (&["l40s"], 350),
    (&["l40"], 300),
    (&["nvidia l4"], 72),
    (&["tesla t4"], 70),
    (&["nvidia a40"], 300),
    (&["nvidia a30"], 165),
    (&["nvidia a10"], 150),
    (&["rtx 5090"], 575),
    (&["rtx 4090"], 450),
    (&["rtx 4080"], 320),
    (&["rtx 4070"], 200),
    (&["rtx 4060"], 115),
    (&["rtx 3090"], 350),
    (&["rtx 3080"], 320),
    (&["rtx 3070"], 220),
    (&["rtx 3060"], 170),
    (&["rtx 2080"], 215),
    (&["mi300x"], 750),
    (&["rx 7900 xtx"], 355),
    (&["arc", "a770"], 225),
];

/// Chips by words that the device's name, its maker or its system on chip hold, each with its source.
const CHIPS: &[(&[&str], Row)] = &[
    // Huawei's data sheets: Ascend 310 8 W, Atlas 300I Pro (310P) 72 W for the card
    (&["ascend", "310p"], row(20_000, 35_000, 8_000, 52_000)),
    (&["ascend", "310"], row(2_000, 5_000, 1_500, 8_000)),
    // Google's data sheet of the Edge TPU: 2 W at 4 TOPS
    (&["edge tpu"], row(500, 2_000, 500, 4_000)),
    // Hailo's data sheets: typically 2.5 W (Hailo-8, Hailo-10H)
    (&["hailo"], row(500, 2_500, 800, 5_000)),
    // powermetrics of an M1: some 10 W of GPU under load (AnandTech, "The 2020 Mac Mini Unleashed", 2020)
    (&["apple m1", "gpu"], row(100, 8_000, 2_000, 15_000)),
    // the whole chip is sold at 15 to 28 W, which its graphics share with its cores (Intel's data sheets)
    (&["iris"], row(500, 12_000, 4_000, 28_000)),
    (&["uhd graphics"], row(500, 10_000, 3_000, 25_000)),
    // a phone holds 3 to 5 W for long, of which its GPU takes most while it computes alone (sustained power of phones,
    // `max_power` in `docs/governor.md`)
    (&["adreno"], row(50, 3_000, 1_000, 8_000)),
    (&["mali"], row(50, 2_500, 800, 7_000)),
];

/// What the vendor's statement of a CPU may be wrong by, in thousandths: as the cores of [`X86_CORE`] differ.
const STATED_CORE: [u64; 2] = [300, 1_700];
/// What other statements may be wrong by, in thousandths.
const STATED: [u64; 2] = [700, 1_300];
/// What a power that was fitted on few runs may be wrong by beyond what these show, in thousandths.
const FITTED: [u64; 2] = [800, 1_200];

const fn row(idle: u64, active: u64, low: u64, high: u64) -> Row {
    Row {
        idle,
        active,
        low,
        high,
    }
}

impl Row {
    fn times(self, count: u64) -> Row {
        let times = |value: u64| value.saturating_mul(count);
        row(
            times(self.idle),
            times(self.active),
            times(self.low),
            times(self.high),
        )
    }

    fn plus(self, other: Row) -> Row {
        row(
            self.idle + other.idle,
            self.active + other.active,
            self.low + other.low,
            self.high + other.high,
        )
    }

    fn power(self, provenance: EnergyProvenance) -> Power {
        Power {
            idle: Milliwatts::new(self.idle),
            active: Milliwatts::new(self.active),
            low: Milliwatts::new(self.low),
            high: Milliwatts::new(self.high),
            provenance,
        }
    }
}

/// The power of a core that is awake.
pub(super) const CORE: Milliwatts = Milliwatts::new(core().active);

const fn core() -> Row {
    if cfg!(target_arch = "x86_64") {
        X86_CORE
    } else {
        BIG_CORE
    }
}

/// What of a device the table is asked by.
#[derive(Debug, Clone, Default)]
struct Asked<'a> {
    /// Its plugin, name, maker and system on chip, in lower case.
    words: String,
    kind: Option<DeviceKind>,
    /// `key=value`, as its plugin says.
    settings: &'a str,
    emulated: bool,
    /// It has memory of its own behind a bus.
    has_bus: bool,
    /// Threads that it is to use; 0: its own.
    threads: u32,
}

impl<'a> Asked<'a> {
    fn of(device: &'a Device, settings: Settings) -> Asked<'a> {
        let info = device.info();
        let words = [&device.plugin().name, &info.name, &info.vendor, &info.soc];
        Asked {
            words: words.map(|word| word.to_lowercase()).join(" "),
            kind: Some(info.kind),
            settings: &info.settings,
            emulated: info.emulated,
            has_bus: info.link_bytes_per_s.is_some(),
            threads: settings.threads,
        }
    }

    fn setting(&self, key: &str) -> Option<&'a str> {
        let mut words = self.settings.split_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// Threads that the plugin takes by itself, where it says.
    fn own_threads(&self) -> Option<u64> {
        let stated = self.setting("threads")?.parse().ok()?;
        Some(stated).filter(|&threads| threads > 0)
    }

    /// Cores that are busy while it computes.
    fn threads(&self) -> u64 {
        match self.threads {
            0 => self.own_threads().unwrap_or_else(all_cores),
            asked => u64::from(asked),
        }
    }

    /// Number of cores of the fastest class, if the plugin reports core speeds (`4x3000000+4x1800000`).
    fn fast_cores(&self) -> Option<u64> {
        let (first, rest) = self.setting("cores")?.split_once('+')?;
        rest.contains('x')
            .then(|| first.split_once('x')?.0.parse().ok())?
    }
}

fn all_cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
}

/// A device of which only the class is known.
fn class(asked: &Asked<'_>) -> Row {
    match asked.kind {
        Some(DeviceKind::Cpu) => cores(asked),
        // a GPU in software is the cores that it runs on
        Some(DeviceKind::Gpu) if asked.emulated => core().times(all_cores()),
        // boards of 70 to 450 W, as the boards above draw of their limits
        Some(DeviceKind::Gpu) if asked.has_bus => row(15_000, 60_000, 10_000, 400_000),
        Some(DeviceKind::Gpu) if cfg!(target_arch = "x86_64") => row(500, 12_000, 3_000, 30_000),
        Some(DeviceKind::Gpu) => row(50, 3_000, 800, 8_000),
        // between the Edge TPU's and Hailo's 2 W and the share that a laptop's NPU has of 15 to 28 W
        Some(DeviceKind::Npu) => row(50, 2_000, 300, 10_000),
        Some(DeviceKind::Dsp) => row(20, 1_000, 200, 4_000),
        _ => row(0, 10_000, 1_000, 100_000),
    }
}

/// The cores that a CPU uses, the fastest first.
fn cores(asked: &Asked<'_>) -> Row {
    let threads = asked.threads();
    match asked.fast_cores() {
        Some(fast) if core() == BIG_CORE && fast < threads => {
            BIG_CORE.times(fast).plus(LITTLE_CORE.times(threads - fast))
        }
        _ => core().times(threads),
    }
}

/// The chip's own power, where it is one that is known.
fn family(asked: &Asked<'_>) -> Option<Row> {
    let has = |words: &[&str]| words.iter().all(|word| asked.words.contains(word));
    if asked.kind == Some(DeviceKind::Cpu) || (asked.kind == Some(DeviceKind::Gpu) && asked.emulated) {
        return None;
    }
    if let Some((_, watts)) = BOARDS.iter().find(|(words, _)| has(words)) {
        let limit = watts * 1_000;
        return Some(row(limit / 10, limit * 3 / 10, limit * 7 / 100, limit * 9 / 10));
    }
    CHIPS.iter().find(|(words, _)| has(words)).map(|(_, row)| *row)
}

fn model(asked: &Asked<'_>) -> Power {
    match family(asked) {
        Some(row) => row.power(EnergyProvenance::Family),
        None => class(asked).power(EnergyProvenance::Default),
    }
}

/// Completes a device's costs: gives each cost an energy with its interval, and the target its power.
pub(super) fn complete(
    device: &Device,
    settings: Settings,
    drawn: Option<DrawnPower>,
    target: &mut Target,
    costs: &mut [Option<Cost>],
) {
    let asked = Asked::of(device, settings);
    complete_as(&asked, drawn, target, costs);
}

fn complete_as(
    asked: &Asked<'_>,
    drawn: Option<DrawnPower>,
    target: &mut Target,
    costs: &mut [Option<Cost>],
) {
    let modelled = model(asked);
    // an emulated device reports the energy of its runs
    if let Some(drawn) = drawn.filter(|_| !asked.emulated) {
        let power = Power {
            idle: modelled.idle,
            ..fitted(drawn)
        };
        target.power = Some(power);
        costs
            .iter_mut()
            .flatten()
            .for_each(|cost| *cost = drawing(*cost, power));
        return;
    }
    if asked.kind == Some(DeviceKind::Cpu) && !asked.emulated {
        scale_to_threads(asked, target, costs);
    }
    let permille = match (asked.emulated, asked.kind) {
        (true, _) => [1_000, 1_000],
        (false, Some(DeviceKind::Cpu)) => STATED_CORE,
        (false, _) => STATED,
    };
    for cost in costs.iter_mut().flatten() {
        if let Some(energy) = cost.energy {
            let range = EnergyRange {
                low: scaled(energy, permille[0], 1_000),
                expected: energy,
                high: scaled(energy, permille[1], 1_000),
                provenance: EnergyProvenance::Vendor,
            };
            *cost = cost.with_energy_within(energy, range);
        }
    }
    let stated = target.power.map(|power| power.active).or_else(|| mean(costs));
    let power = match stated {
        Some(active) => {
            let times = |permille: u64| Milliwatts::new(active.milliwatts().saturating_mul(permille) / 1_000);
            Power {
                idle: modelled.idle,
                active,
                low: times(permille[0]),
                high: times(permille[1]),
                provenance: EnergyProvenance::Vendor,
            }
        }
        None => modelled,
    };
    target.power = Some(power);
    for cost in costs.iter_mut().flatten().filter(|cost| cost.energy.is_none()) {
        *cost = drawing(*cost, power);
    }
}

/// The cost with the energy that a power makes of its time.
pub(super) fn drawing(cost: Cost, power: Power) -> Cost {
    match power.over(cost.time) {
        Some((energy, range)) => cost.with_energy_within(energy, range),
        None => cost,
    }
}

/// The cost with another time. Its energy was stated for the old one: the power is what stays.
pub(super) fn taking(cost: Cost, picoseconds: u64, provenance: Provenance) -> Cost {
    let before = cost.time.picoseconds().max(1);
    let part = |energy: Energy| scaled(energy, picoseconds, before);
    Cost {
        time: Time::from_picoseconds(picoseconds),
        energy: cost.energy.map(part),
        energy_range: cost.energy_range.map(|range| EnergyRange {
            low: part(range.low),
            expected: part(range.expected),
            high: part(range.high),
            ..range
        }),
        provenance,
        ..cost
    }
}

/// What a CPU's plugin states is for its own threads; fewer cores draw less.
fn scale_to_threads(asked: &Asked<'_>, target: &mut Target, costs: &mut [Option<Cost>]) {
    let Some(own) = asked.own_threads().filter(|_| asked.threads > 0) else {
        return;
    };
    let wanted = u64::from(asked.threads);
    for cost in costs.iter_mut().flatten() {
        cost.energy = cost.energy.map(|energy| scaled(energy, wanted, own));
    }
    target.power = target.power.map(|power| {
        let stated = power.active.milliwatts();
        Power::from(Milliwatts::new(stated.saturating_mul(wanted) / own))
    });
}

fn scaled(energy: Energy, by: u64, of: u64) -> Energy {
    let nanojoules = u128::from(energy.nanojoules()) * u128::from(by) / u128::from(of.max(1));
    Energy::from_nanojoules(u64::try_from(nanojoules).unwrap_or(u64::MAX))
}

/// The mean power of costs that have an energy.
fn mean(costs: &[Option<Cost>]) -> Option<Milliwatts> {
    let known = costs
        .iter()
        .flatten()
        .filter_map(|cost| Some((cost.energy?, cost.time)));
    let (energy, time) = known.fold((0u128, 0u128), |(energy, time), (more, taken)| {
        (
            energy + u128::from(more.nanojoules()),
            time + u128::from(taken.picoseconds()),
        )
    });
    // a nanojoule in a picosecond is a kilowatt
    let milliwatts = (energy * 1_000_000).checked_div(time)?;
    u64::try_from(milliwatts).ok().map(Milliwatts::new)
}

fn fitted(drawn: DrawnPower) -> Power {
    let times = |milliwatts: u64, permille: u64| Milliwatts::new(milliwatts.saturating_mul(permille) / 1_000);
    Power {
        idle: Milliwatts::default(),
        active: Milliwatts::new(drawn.mean_mw),
        low: times(drawn.least_mw, FITTED[0]),
        high: times(drawn.most_mw, FITTED[1]),
        provenance: EnergyProvenance::Fitted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: DeviceKind, words: &str) -> Asked<'static> {
        Asked {
            words: words.to_owned(),
            kind: Some(kind),
            ..Asked::default()
        }
    }

    fn cost(ns: u64) -> Option<Cost> {
        Some(Cost::time(Time::from_nanoseconds(ns), Provenance::Estimated))
    }

    fn completed(
        asked: &Asked<'_>,
        drawn: Option<DrawnPower>,
        mut costs: Vec<Option<Cost>>,
    ) -> (Power, Cost) {
        let mut target = Target::new("d:0", costs.len());
        complete_as(asked, drawn, &mut target, &mut costs);
        (target.power.unwrap(), costs[0].unwrap())
    }

    #[test]
    fn power_rows_contain_their_expected_value() {
        let boards = BOARDS.iter().map(|(words, _)| *words);
        let chips = CHIPS.iter().map(|(words, _)| *words);
        for words in boards.chain(chips) {
            let name = words.join(" ");
            let found = model(&asked(DeviceKind::Gpu, &name));
            assert_eq!(found.provenance, EnergyProvenance::Family, "{name}");
            assert!(found.low <= found.active && found.active <= found.high, "{name}");
            // a specific row is not hidden by a general one above it
            let first = BOARDS
                .iter()
                .find(|(row, _)| row.iter().all(|word| name.contains(word)));
            assert!(first.is_none_or(|(row, _)| *row == words), "{name}");
        }
        for kind in [
            DeviceKind::Cpu,
            DeviceKind::Gpu,
            DeviceKind::Npu,
            DeviceKind::Dsp,
            DeviceKind::Other,
        ] {
            let found = model(&asked(kind, "nothing that is known"));
            assert_eq!(found.provenance, EnergyProvenance::Default);
            assert!(
                Milliwatts::default() < found.low && found.low < found.active && found.active < found.high
            );
        }
    }

    #[test]
    fn boards_are_distinguished() {
        let high = |name: &str| model(&asked(DeviceKind::Gpu, name)).high.milliwatts();
        assert_eq!(high("gpu nvidia h100 80gb hbm3 nvidia"), 630_000);
        assert_eq!(high("gpu nvidia h100 pcie nvidia"), 315_000);
        assert_eq!(high("gpu nvidia a100-pcie-40gb nvidia"), 225_000);
        assert_eq!(high("gpu nvidia l4 nvidia"), 64_800);
        // a software GPU is the cores it runs on, whatever it is called
        let software = Asked {
            emulated: true,
            ..asked(DeviceKind::Gpu, "llvmpipe on an h100 host")
        };
        assert_eq!(model(&software).provenance, EnergyProvenance::Default);
    }

    #[test]
    fn device_without_energy_uses_its_class_power() {
        let (power, cost) = completed(&asked(DeviceKind::Npu, "npu"), None, vec![cost(1_000_000)]);
        assert_eq!(power.provenance, EnergyProvenance::Default);
        // a millisecond
        assert_eq!(cost.energy.unwrap().microjoules(), power.active.milliwatts());
        let range = cost.energy_range.unwrap();
        assert_eq!(range.high.microjoules(), power.high.milliwatts());
        assert_eq!(
            (range.provenance, cost.provenance),
            (power.provenance, Provenance::Estimated)
        );
    }

    #[test]
    fn stated_energy_is_kept_and_extended() {
        let stated = cost(1_000).map(|cost| cost.with_energy(Energy::from_microjoules(30)));
        let asked = Asked {
            emulated: true,
            ..asked(DeviceKind::Npu, "npu")
        };
        let costs = vec![stated, cost(2_000)];
        let mut target = Target::new("d:0", 2);
        let mut filled = costs.clone();
        complete_as(&asked, None, &mut target, &mut filled);
        assert_eq!(filled[0].unwrap().energy, costs[0].unwrap().energy);
        assert_eq!(filled[1].unwrap().energy.unwrap().microjoules(), 60);
        // what is on virtual time is as it says
        let range = filled[0].unwrap().energy_range.unwrap();
        assert_eq!((range.low, range.high), (range.high, range.low));
        assert_eq!(target.power.unwrap().provenance, EnergyProvenance::Vendor);
    }

    #[test]
    fn cpu_power_scales_with_threads() {
        let with = |threads: u32| Asked {
            settings: "cores=8x2400000 isa=avx2 threads=8",
            threads,
            ..asked(DeviceKind::Cpu, "cpu")
        };
        let energy = |asked: &Asked<'_>| {
            let stated = cost(1_000_000).map(|cost| cost.with_energy(Energy::from_microjoules(80)));
            completed(asked, None, vec![stated])
                .1
                .energy
                .unwrap()
                .microjoules()
        };
        assert_eq!(
            [energy(&with(0)), energy(&with(8)), energy(&with(2))],
            [80, 80, 20]
        );
        // and without a stated power
        let power = |asked: &Asked<'_>| completed(asked, None, vec![cost(1)]).0.active.milliwatts();
        assert_eq!(power(&with(0)), 8 * core().active);
        assert_eq!(power(&with(2)), 2 * core().active);
        let phone = Asked {
            settings: "cores=2x3000000+6x1800000 threads=8",
            ..with(4)
        };
        assert_eq!(phone.fast_cores(), Some(2));
    }

    #[test]
    fn measured_parts_override_stated_power() {
        let drawn = DrawnPower {
            mean_mw: 9_000,
            least_mw: 8_000,
            most_mw: 10_000,
            parts: 3,
        };
        let stated = cost(1_000_000).map(|cost| cost.with_energy(Energy::from_microjoules(80_000)));
        let real = asked(DeviceKind::Cpu, "cpu");
        let (power, found) = completed(&real, Some(drawn), vec![stated]);
        assert_eq!(power.provenance, EnergyProvenance::Fitted);
        assert_eq!(found.energy.unwrap().microjoules(), 9_000);
        assert_eq!(found.energy_range.unwrap().high.microjoules(), 12_000);
        let emulated = Asked {
            emulated: true,
            ..real
        };
        assert_eq!(
            completed(&emulated, Some(drawn), vec![stated])
                .1
                .energy
                .unwrap()
                .microjoules(),
            80_000
        );
    }
}
