//! The sensors of an emulated phone as files, in the places and units in which Linux shows them on one.
//!
//! - thermal zones of the units (a phone has `cpuss`, `gpuss` and so on; here they have the table's
//!   names), of the board beside the package, and of the case
//! - the allowed clocks of CPUs (`cpufreq`) and other units (`devfreq`)
//! - the battery
//!
//! As on a phone, there are no files for the load of a GPU or NPU by other apps, nor for the power
//! of a unit.
//!
//! Invariant: a file holds the reading of its sensor at the end of the chip's last step.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polychip::telemetry::{Rules, SensorFiles, Sensors, Subject};

use crate::emulated::Emulated;
use crate::network::name;

/// Maps thermal zones and clocks to units, for the scheduler.
fn rules(phone: &Emulated) -> Rules {
    let units = phone.table.units.iter().enumerate();
    units.fold(Rules::default(), |rules, (index, unit)| {
        let device = || Subject::Device(name(index));
        rules
            .with(&format!("thermal/{}-therm", unit.name), device())
            .with(&format!("cpufreq/policy{index}"), device())
            .with(&format!("devfreq/{}", unit.name), device())
    })
}

/// State of the battery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Battery {
    /// Charge in hundredths.
    pub percent: u32,
    /// Charging.
    pub charging: bool,
}

/// Content of a file.
#[derive(Debug, Clone)]
enum Content {
    Text(String),
    /// Thousandths of a degree of a place.
    Temperature(usize),
    /// The clock in use, and the highest that is allowed, of a unit; so many to the megahertz.
    Clock(usize, u64),
    Allowed(usize, u64),
}

/// The tree.
#[derive(Debug)]
pub struct Tree {
    phone: Arc<Emulated>,
    files: BTreeMap<PathBuf, Content>,
}

impl Tree {
    /// The files of a phone.
    #[must_use]
    pub fn new(phone: Arc<Emulated>, battery: Battery) -> Self {
        let mut tree = Self {
            files: BTreeMap::new(),
            phone: Arc::clone(&phone),
        };
        let (table, shown) = (&phone.table, phone.shown);
        let units = table.units.len();
        for (index, unit) in table.units.iter().enumerate().filter(|_| shown.units) {
            tree.zone(index, &format!("{}-therm", unit.name), index);
            let zone = format!("sys/class/thermal/thermal_zone{index}");
            tree.text(format!("{zone}/trip_point_0_type"), "passive");
            tree.text(format!("{zone}/trip_point_0_temp"), &unit.trip_mc.to_string());
        }
        if shown.package {
            tree.zone(units, "xo-therm", units);
        }
        if shown.surface {
            tree.zone(units + 1, "skin-therm", units + 1);
        }
        for (index, unit) in table.units.iter().enumerate().filter(|_| shown.clocks) {
            let (folder, begin, governor, scale) = match unit.kind.as_str() {
                "cpu" => (
                    format!("sys/devices/system/cpu/cpufreq/policy{index}"),
                    "scaling_",
                    "schedutil",
                    1_000,
                ),
                _ => (
                    format!("sys/class/devfreq/{}", unit.name),
                    "",
                    "simple_ondemand",
                    1_000_000,
                ),
            };
            let lowest = unit.levels.last().map_or(0, |level| level[0]) * scale;
            let file = |name: &str| format!("{folder}/{begin}{name}");
            tree.add(file("cur_freq"), Content::Clock(index, scale));
            tree.add(file("max_freq"), Content::Allowed(index, scale));
            tree.text(file("min_freq"), &lowest.to_string());
            tree.text(file("governor"), governor);
        }
        let supply = "sys/class/power_supply/battery";
        tree.text(format!("{supply}/type"), "Battery");
        tree.text(format!("{supply}/capacity"), &battery.percent.to_string());
        let status = if battery.charging {
            "Charging"
        } else {
            "Discharging"
        };
        tree.text(format!("{supply}/status"), status);
        tree
    }

    fn add(&mut self, path: String, content: Content) {
        self.files.insert(path.into(), content);
    }

    fn text(&mut self, path: String, text: &str) {
        self.add(path, Content::Text(text.to_owned()));
    }

    fn zone(&mut self, number: usize, kind: &str, place: usize) {
        let zone = format!("sys/class/thermal/thermal_zone{number}");
        self.text(format!("{zone}/type"), kind);
        self.add(format!("{zone}/temp"), Content::Temperature(place));
    }

    /// The sensors, read in this program.
    #[must_use]
    pub fn sensors(self) -> Sensors {
        let rules = rules(&self.phone);
        Sensors::made(Arc::new(self), &rules)
    }

    /// The sensors of a folder that [`Tree::write`] has written.
    #[must_use]
    pub fn sensors_at(&self, root: &Path) -> Sensors {
        Sensors::at(root, &rules(&self.phone))
    }

    /// Writes all files in their current state into a folder. Sensors that cannot be read have no
    /// file.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        for path in self.files.keys() {
            let target = root.join(path);
            if let Some(folder) = target.parent() {
                std::fs::create_dir_all(folder)?;
            }
            match self.read(path) {
                Ok(bytes) if std::fs::read(&target).is_ok_and(|there| there == bytes) => {}
                Ok(bytes) => std::fs::write(target, bytes)?,
                Err(_) if target.exists() => std::fs::remove_file(target)?,
                Err(_) => {}
            }
        }
        Ok(())
    }
}

impl SensorFiles for Tree {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let content = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        let figure = match content {
            Content::Text(text) => return Ok(text.clone().into_bytes()),
            // a sensor that says nothing
            Content::Temperature(place) => {
                let said = self.phone.temperature(*place);
                return Ok(said.ok_or(io::ErrorKind::NotFound)?.to_string().into_bytes());
            }
            Content::Clock(unit, scale) => self.phone.clocks(*unit)[0] * scale,
            Content::Allowed(unit, scale) => self.phone.clocks(*unit)[1] * scale,
        };
        Ok(figure.to_string().into_bytes())
    }

    fn is_there(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    fn names(&self, folder: &Path) -> Vec<String> {
        let inside = self
            .files
            .keys()
            .filter_map(|path| path.strip_prefix(folder).ok());
        let first = inside.filter_map(|path| path.components().next());
        let mut names: Vec<String> = first
            .map(|name| name.as_os_str().to_string_lossy().into_owned())
            .collect();
        names.dedup();
        names
    }
}
