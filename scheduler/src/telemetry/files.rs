//! Linux's sensor files under `/sys` and `/proc`: thermal zones, hwmon, cpufreq, devfreq,
//! batteries, RAPL.
//!
//! The root is a parameter, so that a recorded tree can be read on another machine; a program may
//! also provide one.
//!
//! Invariants:
//! 1. Finding sensors never fails: a folder that cannot be listed has none.
//! 2. A broken file affects only its own sensor, whose readings give the reason.
//! 3. Sensors are sorted by name, regardless of folder order.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::counter::Counter;
use super::rules::Rules;
use super::sensor::{Absent, Quantity, Reading, Sensor, Source, Trip};
use super::tree::{SensorFiles, Tree};

/// Trip points of a zone that are read; Linux allows 31 at most of writable ones.
const TRIPS: usize = 32;

/// The sensors under a root.
#[derive(Debug, Clone)]
pub struct Sensors {
    tree: Tree,
    sensors: Vec<Sensor>,
    /// By sensor: counters that turn, and the last times of `/proc/stat`.
    counters: Vec<Counter>,
    stat: Option<(u64, u64)>,
    others: Others,
}

/// What other programs take of the cores.
#[derive(Debug, Clone, Default)]
struct Others {
    /// Ticks of all cores in which they computed, all of them, and those of this program.
    before: Option<(u64, u64, u64)>,
    permille: Option<i64>,
}

/// Ticks over which others' share is taken: a second of one core, for a tick is a hundredth.
const OTHERS_TICKS: u64 = 100;

impl Sensors {
    /// The sensors of this machine.
    #[must_use]
    pub fn of_this_machine(rules: &Rules) -> Sensors {
        Sensors::at("/", rules)
    }

    /// The sensors in the tree under `root`, which holds `sys` and `proc` as `/` does.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>, rules: &Rules) -> Sensors {
        Sensors::of(Tree::Folder(root.into()), rules)
    }

    /// The sensors in a tree that a program provides.
    #[must_use]
    pub fn made(files: Arc<dyn SensorFiles>, rules: &Rules) -> Sensors {
        Sensors::of(Tree::Made(files), rules)
    }

    fn of(tree: Tree, rules: &Rules) -> Sensors {
        let mut finder = Finder {
            tree: &tree,
            rules,
            found: BTreeMap::new(),
        };
        finder.thermal();
        finder.hwmon();
        finder.cpufreq();
        finder.devfreq();
        finder.power_supply();
        finder.powercap();
        finder.stat();
        let sensors: Vec<Sensor> = finder.found.into_values().collect();
        Sensors {
            counters: vec![Counter::default(); sensors.len()],
            tree,
            sensors,
            stat: None,
            others: Others::default(),
        }
    }

    /// All found sensors.
    #[must_use]
    pub fn all(&self) -> &[Sensor] {
        &self.sensors
    }

    /// Reads every sensor, in the order of [`Sensors::all`].
    pub fn read(&mut self) -> Vec<Reading> {
        (0..self.sensors.len())
            .map(|index| self.read_one(index))
            .collect()
    }

    /// Switches to another tree with the same sensors: the next step of a recording.
    pub fn move_to(&mut self, root: impl Into<PathBuf>) {
        self.tree = Tree::Folder(root.into());
    }

    /// Copies the current content of the sensors' files into a tree of the same shape. Unreadable
    /// files are left out.
    ///
    /// # Errors
    /// The tree cannot be written.
    pub fn record(&self, to: &Path) -> io::Result<()> {
        for sensor in &self.sensors {
            for path in files_of(sensor) {
                copy(&self.tree, to, &path)?;
            }
        }
        copy(&self.tree, to, Path::new(OWN))
    }

    fn read_one(&mut self, index: usize) -> Reading {
        let sensor = &self.sensors[index];
        let value = match &sensor.source {
            Source::File { path, times, over } => {
                number(&self.tree, path).map(|value| value.saturating_mul(*times) / over)
            }
            Source::Magnitude { path, over } => {
                number(&self.tree, path).map(|value| value.saturating_abs() / over)
            }
            Source::Product { voltage, current } => self.product(voltage, current),
            Source::Counter { path, range } => number(&self.tree, path).and_then(|value| {
                let value = u64::try_from(value).map_err(|_| Absent::Impossible(value))?;
                let total = self.counters[index].advance(value, *range);
                Ok(i64::try_from(total).unwrap_or(i64::MAX))
            }),
            Source::Stat => return Reading { value: self.load() },
        };
        let possible = sensor.quantity.possible();
        let value = value.and_then(|value| match value {
            0 if sensor.quantity == Quantity::Temperature => Err(Absent::Zero),
            value if possible.contains(&value) => Ok(value),
            value => Err(Absent::Impossible(value)),
        });
        Reading { value }
    }

    /// A power in milliwatts.
    fn product(&self, voltage: &Path, current: &Path) -> Result<i64, Absent> {
        let (volts, amperes) = (number(&self.tree, voltage)?, number(&self.tree, current)?);
        // microvolts times microamperes are picowatts
        let picowatts = i128::from(volts) * i128::from(amperes).abs();
        i64::try_from(picowatts / 1_000_000_000).map_err(|_| Absent::Impossible(amperes))
    }

    /// Share of the cores' time that other programs take, in thousandths.
    pub(crate) fn others(&mut self) -> Result<i64, Absent> {
        let (busy, all) = stat(&self.tree)?;
        let own = own_ticks(&self.tree)?;
        let before = *self.others.before.get_or_insert((busy, all, own));
        let [busy_now, all_now, own_now] = [(busy, before.0), (all, before.1), (own, before.2)]
            .map(|(now, before)| now.saturating_sub(before));
        if all_now >= OTHERS_TICKS {
            self.others.before = Some((busy, all, own));
            let share = u128::from(busy_now.saturating_sub(own_now)) * 1000 / u128::from(all_now);
            self.others.permille = Some(i64::try_from(share.min(1000)).unwrap_or(1000));
        }
        self.others.permille.ok_or(Absent::First)
    }

    /// Share of the time since the last reading in which cores computed.
    fn load(&mut self) -> Result<i64, Absent> {
        let (busy, all) = stat(&self.tree)?;
        let before = self.stat.replace((busy, all));
        let (busy_before, all_before) = before.ok_or(Absent::First)?;
        let (busy, all) = (busy.saturating_sub(busy_before), all.saturating_sub(all_before));
        if all == 0 {
            return Err(Absent::First);
        }
        let load = u128::from(busy) * 1000 / u128::from(all);
        Ok(i64::try_from(load.min(1000)).unwrap_or(1000))
    }
}

/// Looks for sensors. They are kept by name and quantity; what is called alike is numbered.
struct Finder<'a> {
    tree: &'a Tree,
    rules: &'a Rules,
    found: BTreeMap<(String, Quantity), Sensor>,
}

impl Finder<'_> {
    fn add(&mut self, name: String, quantity: Quantity, source: Source) -> &mut Sensor {
        let mut key = (name.clone(), quantity);
        for copy in 2.. {
            if !self.found.contains_key(&key) {
                break;
            }
            key.0 = format!("{name}#{copy}");
        }
        let subject = self.rules.subject(&key.0);
        let sensor = Sensor {
            name: key.0.clone(),
            quantity,
            subject,
            trips: Vec::new(),
            range_khz: None,
            governor: None,
            source,
        };
        self.found.entry(key).or_insert(sensor)
    }

    /// Folders of a folder, by name, as paths from the root.
    fn folders(&self, folder: &str, begin: &str) -> Vec<PathBuf> {
        let mut found: Vec<(usize, String)> = (self.tree.names(Path::new(folder)))
            .into_iter()
            .filter(|name| name.starts_with(begin))
            .map(|name| (name.len(), name))
            .collect();
        // 2 before 10
        found.sort();
        found
            .into_iter()
            .map(|(_, name)| Path::new(folder).join(name))
            .collect()
    }

    fn text(&self, path: &Path) -> Option<String> {
        text(self.tree, path).ok()
    }

    fn number(&self, path: &Path) -> Option<i64> {
        number(self.tree, path).ok()
    }

    /// Whether there is such a file, readable or not: a sensor that may not be read is shown with that reason.
    fn is_there(&self, path: &Path) -> bool {
        self.tree.is_there(path)
    }

    fn thermal(&mut self) {
        for zone in self.folders("sys/class/thermal", "thermal_zone") {
            let path = zone.join("temp");
            let Some(kind) = self.text(&zone.join("type")) else {
                continue;
            };
            if !self.is_there(&path) {
                continue;
            }
            let trips = (0..TRIPS)
                .map_while(|trip| {
                    let kind = self.text(&zone.join(format!("trip_point_{trip}_type")))?;
                    Some((trip, kind))
                })
                .filter_map(|(trip, kind)| {
                    let temperature_mc = self.number(&zone.join(format!("trip_point_{trip}_temp")))?;
                    // a trip that is not set is 0 or below absolute zero
                    (temperature_mc > 0).then_some(Trip { kind, temperature_mc })
                })
                .collect();
            let name = format!("thermal/{kind}");
            self.add(name, Quantity::Temperature, file(path, 1, 1)).trips = trips;
        }
    }

    fn hwmon(&mut self) {
        for chip in self.folders("sys/class/hwmon", "hwmon") {
            let Some(name) = self.text(&chip.join("name")) else {
                continue;
            };
            let mut files = self.tree.names(&chip);
            files.sort();
            for input in files {
                let Some((channel, kind)) = input.rsplit_once('_') else {
                    continue;
                };
                let stem = channel.trim_end_matches(|c: char| c.is_ascii_digit());
                // units by Linux's Documentation/hwmon/sysfs-interface
                let (quantity, over) = match (stem, kind) {
                    ("temp", "input") => (Quantity::Temperature, 1),
                    ("power", "input") => (Quantity::Power, 1000),
                    ("power", "average") if !self.is_there(&chip.join(format!("{channel}_input"))) => {
                        (Quantity::Power, 1000)
                    }
                    ("energy", "input") => (Quantity::Energy, 1),
                    ("in", "input") => (Quantity::Voltage, 1),
                    ("curr", "input") => (Quantity::Current, 1),
                    ("freq", "input") => (Quantity::Frequency, 1000),
                    _ => continue,
                };
                let label = self.text(&chip.join(format!("{channel}_label")));
                let sensor = format!("hwmon/{name}/{}", label.as_deref().unwrap_or(channel));
                let path = chip.join(&input);
                let source = match quantity {
                    Quantity::Energy => Source::Counter { path, range: None },
                    Quantity::Current => Source::Magnitude { path, over },
                    _ => file(path, 1, over),
                };
                self.add(sensor, quantity, source);
            }
        }
    }

    fn cpufreq(&mut self) {
        for policy in self.folders("sys/devices/system/cpu/cpufreq", "policy") {
            let path = policy.join("scaling_cur_freq");
            if !self.is_there(&path) {
                continue;
            }
            let (low, high) = (policy.join("scaling_min_freq"), policy.join("scaling_max_freq"));
            let (low, high) = (self.number(&low), self.number(&high));
            let governor = self.text(&policy.join("scaling_governor"));
            let name = policy
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let sensor = self.add(format!("cpufreq/{name}"), Quantity::Frequency, file(path, 1, 1));
            sensor.range_khz = range(low, high, 1);
            sensor.governor = governor;
        }
    }

    fn devfreq(&mut self) {
        for device in self.folders("sys/class/devfreq", "") {
            let path = device.join("cur_freq");
            if !self.is_there(&path) {
                continue;
            }
            let (low, high) = (
                self.number(&device.join("min_freq")),
                self.number(&device.join("max_freq")),
            );
            let governor = self.text(&device.join("governor"));
            let name = device
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let sensor = self.add(
                format!("devfreq/{name}"),
                Quantity::Frequency,
                file(path, 1, 1000),
            );
            sensor.range_khz = range(low, high, 1000);
            sensor.governor = governor;
        }
    }

    /// Units by Linux's Documentation/power/power_supply_class: microvolts, microamperes, microwatts, hundredths,
    /// tenths of a degree.
    fn power_supply(&mut self) {
        for supply in self.folders("sys/class/power_supply", "") {
            if self.text(&supply.join("type")).as_deref() != Some("Battery") {
                continue;
            }
            let name = supply
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let name = format!("power_supply/{name}");
            let (voltage, current) = (supply.join("voltage_now"), supply.join("current_now"));
            let (power, capacity, temp) = (
                supply.join("power_now"),
                supply.join("capacity"),
                supply.join("temp"),
            );
            if self.is_there(&capacity) {
                self.add(name.clone(), Quantity::Capacity, file(capacity, 10, 1));
            }
            if self.is_there(&temp) {
                self.add(name.clone(), Quantity::Temperature, file(temp, 100, 1));
            }
            if self.is_there(&power) {
                self.add(
                    name.clone(),
                    Quantity::Power,
                    Source::Magnitude {
                        path: power,
                        over: 1000,
                    },
                );
            } else if self.is_there(&voltage) && self.is_there(&current) {
                let (voltage, current) = (voltage.clone(), current.clone());
                self.add(
                    name.clone(),
                    Quantity::Power,
                    Source::Product { voltage, current },
                );
            }
            if self.is_there(&voltage) {
                self.add(name.clone(), Quantity::Voltage, file(voltage, 1, 1000));
            }
            if self.is_there(&current) {
                let source = Source::Magnitude {
                    path: current,
                    over: 1000,
                };
                self.add(name.clone(), Quantity::Current, source);
            }
        }
    }

    fn powercap(&mut self) {
        for zone in self.folders("sys/class/powercap", "") {
            let path = zone.join("energy_uj");
            let Some(name) = self.text(&zone.join("name")) else {
                continue;
            };
            if !self.is_there(&path) {
                continue;
            }
            let folder = zone
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if folder.starts_with("intel-rapl-mmio") {
                // the same counters by another way
                continue;
            }
            let range = self.number(&zone.join("max_energy_range_uj"));
            let range = range
                .and_then(|range| u64::try_from(range).ok())
                .filter(|&range| range > 0);
            self.add(
                format!("powercap/{name}"),
                Quantity::Energy,
                Source::Counter { path, range },
            );
        }
    }

    fn stat(&mut self) {
        if self.is_there(Path::new("proc/stat")) {
            self.add("stat/cpu".to_owned(), Quantity::Load, Source::Stat);
        }
    }
}

fn file(path: PathBuf, times: i64, over: i64) -> Source {
    Source::File { path, times, over }
}

fn range(low: Option<i64>, high: Option<i64>, over: u64) -> Option<(u64, u64)> {
    let (low, high) = (u64::try_from(low?).ok()?, u64::try_from(high?).ok()?);
    (low <= high && high > 0).then_some((low / over, high / over))
}

/// The trimmed text of a file.
fn text(tree: &Tree, path: &Path) -> Result<String, Absent> {
    let bytes = tree.read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Absent::Vanished,
        io::ErrorKind::PermissionDenied => Absent::Denied,
        _ => Absent::Failed(error.to_string()),
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    if text.is_empty() {
        return Err(Absent::Empty);
    }
    Ok(text.to_owned())
}

fn number(tree: &Tree, path: &Path) -> Result<i64, Absent> {
    text(tree, path)?.parse().map_err(|_| Absent::NoNumber)
}

/// Time that all cores were busy, and all of their time, in ticks: `user nice system idle iowait irq softirq steal`.
/// Guests' time stands within `user`.
fn stat(tree: &Tree) -> Result<(u64, u64), Absent> {
    let text = text(tree, Path::new("proc/stat"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))
        .ok_or(Absent::NoNumber)?;
    let ticks: Result<Vec<u64>, _> = line.split_whitespace().take(8).map(str::parse).collect();
    let ticks = ticks.map_err(|_| Absent::NoNumber)?;
    let [_, _, _, idle, rest @ ..] = &ticks[..] else {
        return Err(Absent::NoNumber);
    };
    let idle = idle + rest.first().copied().unwrap_or(0);
    let all: u64 = ticks.iter().sum();
    Ok((all - idle.min(all), all))
}

/// What this program computed, in a file like those of the sensors.
const OWN: &str = "proc/self/stat";

/// Ticks in which this program computed.
fn own_ticks(tree: &Tree) -> Result<u64, Absent> {
    let text = text(tree, Path::new(OWN))?;
    // "123 (a name) R 1 …": the name may hold anything; the times are the 14th and 15th field
    let (_, rest) = text.rsplit_once(')').ok_or(Absent::NoNumber)?;
    let mut times = rest.split_whitespace().skip(11).map(str::parse::<u64>);
    match (times.next(), times.next()) {
        (Some(Ok(user)), Some(Ok(system))) => Ok(user.saturating_add(system)),
        _ => Err(Absent::NoNumber),
    }
}

/// Files that a sensor is found and read by.
fn files_of(sensor: &Sensor) -> Vec<PathBuf> {
    let path = match &sensor.source {
        Source::File { path, .. } | Source::Magnitude { path, .. } | Source::Counter { path, .. } => {
            path.clone()
        }
        Source::Product { voltage, current } => return vec![voltage.clone(), current.clone()],
        Source::Stat => return vec![PathBuf::from("proc/stat")],
    };
    let beside = |name: &str| path.with_file_name(name);
    let mut files = vec![beside("type"), beside("name")];
    for name in [
        "scaling_min_freq",
        "scaling_max_freq",
        "scaling_governor",
        "min_freq",
        "max_freq",
        "governor",
        "max_energy_range_uj",
        "status",
    ] {
        files.push(beside(name));
    }
    for trip in 0..if sensor.trips.is_empty() { 0 } else { TRIPS } {
        files.push(beside(&format!("trip_point_{trip}_type")));
        files.push(beside(&format!("trip_point_{trip}_temp")));
    }
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if let Some((channel, _)) = name.rsplit_once('_') {
        files.push(beside(&format!("{channel}_label")));
    }
    files.push(path);
    files
}

fn copy(tree: &Tree, to: &Path, path: &Path) -> io::Result<()> {
    let Ok(bytes) = tree.read(path) else {
        return Ok(());
    };
    let target = to.join(path);
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(target, bytes)
}

/// What sets a clock, as the files beside it say now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClockSetting {
    pub(crate) governor: Option<String>,
    /// Highest clock that is allowed, in kilohertz.
    pub(crate) highest_khz: Option<u64>,
}

impl Sensors {
    /// What sets a clock now; [`Sensor`] holds what it was when the sensor was found.
    pub(crate) fn clock_setting(&self, sensor: &Sensor) -> ClockSetting {
        let Source::File { path, over, .. } = &sensor.source else {
            return ClockSetting {
                governor: None,
                highest_khz: None,
            };
        };
        let beside = |name: &str| path.with_file_name(name);
        let first = |names: [&str; 2]| {
            names
                .into_iter()
                .find_map(|name| text(&self.tree, &beside(name)).ok())
        };
        let highest = first(["scaling_max_freq", "max_freq"]).and_then(|text| text.parse::<u64>().ok());
        let over = u64::try_from(*over).unwrap_or(1).max(1);
        ClockSetting {
            governor: first(["scaling_governor", "governor"]),
            highest_khz: highest.map(|highest| highest / over).filter(|&khz| khz > 0),
        }
    }

    /// Power mode of the machine, where its firmware has any.
    pub(crate) fn power_mode(&self) -> Option<String> {
        text(&self.tree, Path::new("sys/firmware/acpi/platform_profile")).ok()
    }

    /// Threads that could run now, without this program's own.
    pub(crate) fn contention(&self) -> Option<u32> {
        // "0.42 0.36 0.30 2/345 6789": two of 345 threads could run
        let line = text(&self.tree, Path::new("proc/loadavg")).ok()?;
        let running: u32 = line.split_whitespace().nth(3)?.split('/').next()?.parse().ok()?;
        let mut own = 0;
        let tasks = Path::new("proc/self/task");
        for thread in self.tree.names(tasks) {
            // "123 (a name) R 1 …": the name may hold anything
            let state = self.tree.read(&tasks.join(thread).join("stat"));
            let state = String::from_utf8_lossy(&state.unwrap_or_default()).into_owned();
            let state = state.rsplit_once(')').map(|(_, rest)| rest.trim_start());
            own += u32::from(state.is_some_and(|state| state.starts_with('R')));
        }
        // the thread that reads this runs
        Some(running.saturating_sub(own.max(1)))
    }

    /// Whether a battery is charging, if one reports it.
    #[must_use]
    pub fn is_charging(&self) -> Option<bool> {
        let battery = self
            .sensors
            .iter()
            .find(|sensor| sensor.quantity == Quantity::Capacity)?;
        let Source::File { path, .. } = &battery.source else {
            return None;
        };
        match text(&self.tree, &path.with_file_name("status")).ok()?.as_str() {
            "Charging" | "Full" | "Not charging" => Some(true),
            "Discharging" => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
