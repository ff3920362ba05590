//! Each device's sensors: its plugin's telemetry, and Linux's sensors for chips of its kind.
//!
//! Invariants:
//! 1. A figure names its sensor, or the reason for a missing value.
//! 2. Linux's sensors for a kind of chip are assigned to a device only if it is the one real device
//!    of that kind.
//! 3. An emulated device has only its plugin's telemetry.
//! 4. Without a power sensor, an energy counter gives the mean power over at least a second.

use std::time::Duration;

use polychip_host::{Clock, Device, DeviceKind, Telemetry, ThermalService};
use polychip_partitioner::MilliCelsius;
use polychip_profile::Conditions;
use schemars::JsonSchema;
use serde::Serialize;

use super::files::{ClockSetting, Sensors};
use super::rules::Subject;
use super::sensor::{Quantity, Reading, Sensor};

/// A sensor figure, or the reason for a missing one. The field that holds it names the unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Figure {
    /// The figure; none without a sensor.
    pub value: Option<i64>,
    /// The sensor, or the reason if there is no figure.
    pub from: String,
}

impl Figure {
    fn known(value: i64, from: impl Into<String>) -> Figure {
        Figure {
            value: Some(value),
            from: from.into(),
        }
    }

    fn unknown(reason: impl Into<String>) -> Figure {
        Figure {
            value: None,
            from: reason.into(),
        }
    }
}

/// The state of a device at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeviceState {
    /// Device, `plugin:index`.
    pub device: String,
    /// Whether the figures are an emulated device's.
    pub emulated: bool,
    /// Whether it is lost or hung, and not reset since.
    pub lost: bool,
    /// Highest temperature in thousandths of a degree Celsius.
    pub temperature_mc: Figure,
    /// Power in milliwatts.
    pub power_mw: Figure,
    /// Energy since a fixed moment in microjoules.
    pub energy_uj: Figure,
    /// Highest clock in kilohertz.
    pub frequency_khz: Figure,
    /// Highest currently allowed clock in kilohertz: heat and power limits lower it, idling does
    /// not.
    pub allowed_khz: Figure,
    /// Share of time spent computing, in thousandths.
    pub load_permille: Figure,
    /// Share of time spent on other programs, in thousandths; for a CPU, of all of its cores.
    pub others_permille: Figure,
    /// Bits of the reasons for throttling: 1 heat, 2 power.
    pub throttle: Figure,
}

/// The battery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Battery {
    /// Charge in thousandths.
    pub capacity_permille: Figure,
    /// Power in milliwatts, positive in either direction.
    pub power_mw: Figure,
    /// Whether it is charging; none if unknown.
    pub charging: Option<bool>,
}

/// The system's own thermal status: Android has one, other systems leave it to the sensors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Heat {
    /// Severity of throttling, from 0 (none) to 6 (shutdown).
    pub status: Figure,
    /// Forecast of the thermal headroom ten seconds ahead, in thousandths: 1,000 is severe
    /// throttling.
    pub headroom_permille: Figure,
}

/// How far ahead the system's headroom is asked for: as long as a change of plan takes to show in a temperature.
const AHEAD_S: u32 = 10;

impl Heat {
    fn of_this_system() -> Heat {
        let service = match ThermalService::of_this_system() {
            Ok(service) => service,
            Err(reason) => {
                return Heat {
                    status: Figure::unknown(&*reason),
                    headroom_permille: Figure::unknown(reason),
                };
            }
        };
        let said = |value: Option<i64>| match value {
            Some(value) => Figure::known(value, "Android's thermal service"),
            None => Figure::unknown("Android's thermal service does not say"),
        };
        // `as` saturates
        let permille = |headroom: f32| (f64::from(headroom) * 1e3).round() as i64;
        Heat {
            status: said(service.status().map(i64::from)),
            headroom_permille: said(service.headroom(AHEAD_S).map(permille)),
        }
    }
}

/// All sensor readings at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sample {
    /// Time on the runtime's clock in nanoseconds.
    pub time_ns: u64,
    /// The devices in the runtime's order.
    pub devices: Vec<DeviceState>,
    /// The battery, if there is one.
    pub battery: Option<Battery>,
    /// The system's thermal status.
    pub heat: Heat,
    /// Temperature of the surface that a hand touches, by the hottest sensor, in thousandths of a
    /// degree Celsius.
    pub surface_mc: Figure,
    /// Temperature of the chip package or the board near it, by the hottest sensor, in thousandths
    /// of a degree Celsius.
    pub package_mc: Figure,
}

/// Reads the sensors of a runtime's devices.
#[derive(Debug)]
pub struct Sampler {
    devices: Vec<Device>,
    clock: Clock,
    sensors: Sensors,
    means: Vec<Mean>,
}

/// Power from a counter of energy, over at least [`MEAN_NS`].
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    /// Time and counter at the start of the present second.
    start: Option<(u64, i64)>,
    /// Of the last whole second.
    power_mw: Option<i64>,
}

/// A device that computes so much of the time shows the clock at which it computes.
const BUSY_PERMILLE: i64 = 500;
/// Counters change a few times a second: over a second their steps are a tenth of what is read.
const MEAN_NS: u64 = 1_000_000_000;

impl Mean {
    fn advance(&mut self, now_ns: u64, energy_uj: i64) -> Option<i64> {
        match self.start {
            // a counter that fell was started anew
            Some((since, before)) if energy_uj >= before => {
                let passed = now_ns.saturating_sub(since);
                if passed >= MEAN_NS {
                    // microjoules over nanoseconds are 1e6 milliwatts
                    let power = i128::from(energy_uj - before) * 1_000_000 / i128::from(passed);
                    self.power_mw = i64::try_from(power).ok();
                    self.start = Some((now_ns, energy_uj));
                }
            }
            _ => {
                *self = Mean {
                    start: Some((now_ns, energy_uj)),
                    power_mw: None,
                };
            }
        }
        self.power_mw
    }
}

impl Sampler {
    pub(crate) fn of(devices: Vec<Device>, clock: Clock, sensors: Sensors) -> Sampler {
        Sampler {
            means: vec![Mean::default(); devices.len()],
            devices,
            clock,
            sensors,
        }
    }

    /// Linux's sensors, to list them.
    #[must_use]
    pub fn sensors(&self) -> &Sensors {
        &self.sensors
    }

    /// Like [`Sampler::sensors`], to read them individually.
    pub fn sensors_mut(&mut self) -> &mut Sensors {
        &mut self.sensors
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Current time on the runtime's clock.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Waits on the runtime's clock.
    pub fn wait(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.clock.sleep_until_ns(self.clock.now_ns().saturating_add(ns));
    }

    /// Reads all sensors once. This takes as long as the slowest driver: some milliseconds for
    /// NVIDIA's energy.
    pub fn sample(&mut self) -> Sample {
        let readings = self.sensors.read();
        let others = match self.sensors.others() {
            Ok(permille) => Figure::known(permille, "stat/cpu, less this program's share"),
            Err(reason) => Figure::unknown(format!("stat/cpu: {reason}")),
        };
        let table: Vec<(&Sensor, &Reading)> = self.sensors.all().iter().zip(&readings).collect();
        let time_ns = self.clock.now_ns();
        let mut devices: Vec<DeviceState> = self
            .devices
            .iter()
            .map(|device| self.state(device, &table))
            .collect();
        for (state, device) in devices.iter_mut().zip(&self.devices) {
            let info = device.info();
            if info.kind == DeviceKind::Cpu && !info.emulated {
                state.others_permille = others.clone();
            }
        }
        let battery = self.battery(&table);
        for (state, mean) in devices.iter_mut().zip(&mut self.means) {
            // an emulated device states the power of the moment, which says nothing of runs that come and go
            if let Some(energy) = state
                .energy_uj
                .value
                .filter(|_| state.power_mw.value.is_none() || state.emulated)
            {
                let from = &state.energy_uj.from;
                state.power_mw = match mean.advance(time_ns, energy) {
                    Some(power) => Figure::known(power, format!("{from}, over a second")),
                    None => Figure::unknown(format!("{from}: needs a second of energy readings")),
                };
            }
        }
        Sample {
            time_ns,
            devices,
            battery,
            heat: Heat::of_this_system(),
            surface_mc: hottest(&table, &Subject::Skin),
            package_mc: hottest(&table, &Subject::System),
        }
    }

    /// Under which conditions a device computes at this moment.
    pub(crate) fn under_load(&mut self, device: &Device) -> Conditions {
        self.conditions(device, |state, _| state.frequency_khz.value)
    }

    /// Under which conditions a device would compute from now on. The clock of a device that does nothing now is
    /// the highest that it is allowed, where that is known.
    pub(crate) fn expected(&mut self, device: &Device) -> Conditions {
        self.conditions(device, |state, limit| {
            let busy = state
                .load_permille
                .value
                .is_some_and(|load| load >= BUSY_PERMILLE);
            let now = state.frequency_khz.value.filter(|_| busy);
            now.or_else(|| i64::try_from(limit?).ok())
        })
    }

    fn conditions(
        &mut self,
        device: &Device,
        clock: impl Fn(&DeviceState, Option<u64>) -> Option<i64>,
    ) -> Conditions {
        let readings = self.sensors.read();
        let table: Vec<(&Sensor, &Reading)> = self.sensors.all().iter().zip(&readings).collect();
        let state = self.state(device, &table);
        let clocks = table
            .iter()
            .map(|(sensor, _)| *sensor)
            .filter(|sensor| sensor.quantity == Quantity::Frequency && self.belongs(sensor, device));
        let settings: Vec<ClockSetting> = clocks.map(|sensor| self.sensors.clock_setting(sensor)).collect();
        let mut governors: Vec<String> = settings.iter().filter_map(|one| one.governor.clone()).collect();
        governors.sort();
        governors.dedup();
        let limit = settings.iter().filter_map(|one| one.highest_khz).max();
        let khz = clock(&state, limit).and_then(|khz| u64::try_from(khz).ok());
        let is_real = !device.info().emulated;
        Conditions {
            cadence: None,
            governor: (!governors.is_empty()).then(|| governors.join("+")),
            khz: khz.filter(|khz| *khz > 0),
            temperature: state.temperature_mc.value.map(MilliCelsius::new),
            power_mode: self.sensors.power_mode().filter(|_| is_real),
            contention: self.sensors.contention().filter(|_| is_real),
            unsteady: false,
        }
    }

    fn state(&self, device: &Device, table: &[(&Sensor, &Reading)]) -> DeviceState {
        let said = if device.is_quarantined() {
            Err("the device is lost".to_owned())
        } else {
            device.telemetry().map_err(|error| error.to_string())
        };
        let stated = |value: &dyn Fn(&Telemetry) -> Option<i64>| match &said {
            Ok(said) => match value(said) {
                Some(value) => Figure::known(value, format!("plugin {}", device.plugin().name)),
                None => Figure::unknown("no sensor"),
            },
            Err(words) => Figure::unknown(words.clone()),
        };
        let own = |value: &dyn Fn(&Telemetry) -> Option<i64>, quantity| match stated(value) {
            Figure { value: None, .. } if said.is_ok() => self.of_files(device, table, quantity),
            figure => figure,
        };
        let signed = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
        let info = device.info();
        let energy = if info.kind == DeviceKind::Cpu && !info.emulated {
            // it turns at a range that only Linux knows
            self.of_files(device, table, Quantity::Energy)
        } else {
            own(&|said| signed(said.energy_uj), Quantity::Energy)
        };
        DeviceState {
            device: device.name().to_owned(),
            emulated: device.info().emulated,
            lost: device.is_quarantined(),
            temperature_mc: own(&|said| said.temperature_mc, Quantity::Temperature),
            power_mw: own(&|said| signed(said.power_mw), Quantity::Power),
            energy_uj: energy,
            frequency_khz: own(&|said| signed(said.frequency_khz), Quantity::Frequency),
            allowed_khz: self.allowed(device, table),
            load_permille: own(&|said| said.load_permille.map(i64::from), Quantity::Load),
            others_permille: Figure::unknown("not told apart from this program's share"),
            throttle: stated(&|said| said.throttle.map(i64::from)),
        }
    }

    /// The highest clock that a device is allowed now.
    fn allowed(&self, device: &Device, table: &[(&Sensor, &Reading)]) -> Figure {
        let clocks = table
            .iter()
            .map(|(sensor, _)| *sensor)
            .filter(|sensor| sensor.quantity == Quantity::Frequency && self.belongs(sensor, device));
        let allowed = clocks.filter_map(|sensor| {
            let khz = self.sensors.clock_setting(sensor).highest_khz?;
            Some((i64::try_from(khz).ok()?, sensor.name.as_str()))
        });
        match allowed.max_by_key(|(khz, _)| *khz) {
            Some((khz, name)) => Figure::known(khz, name),
            None => Figure::unknown("no sensor"),
        }
    }

    /// What Linux's sensors say of a device.
    fn of_files(&self, device: &Device, table: &[(&Sensor, &Reading)], quantity: Quantity) -> Figure {
        let mine: Vec<&(&Sensor, &Reading)> = table
            .iter()
            .filter(|(sensor, _)| sensor.quantity == quantity && self.belongs(sensor, device))
            .collect();
        let known: Vec<(&str, i64)> = mine
            .iter()
            .filter_map(|(sensor, reading)| Some((sensor.name.as_str(), *reading.value.as_ref().ok()?)))
            .collect();
        let hottest = known.iter().max_by_key(|(_, value)| *value);
        match (quantity, hottest) {
            // packages, rails: a whole that has a part which cannot be read is not known
            (Quantity::Energy | Quantity::Power, Some(_)) if known.len() == mine.len() => {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                let sum = known.iter().map(|(_, value)| value).sum();
                Figure::known(sum, names.join(" + "))
            }
            (Quantity::Temperature | Quantity::Frequency | Quantity::Load, Some((name, value))) => {
                Figure::known(*value, *name)
            }
            _ => {
                let failed = mine.iter().find_map(|(sensor, reading)| {
                    let reason = reading.value.as_ref().err()?;
                    Some(format!("{}: {reason}", sensor.name))
                });
                Figure::unknown(failed.unwrap_or_else(|| "no sensor".to_owned()))
            }
        }
    }

    fn belongs(&self, sensor: &Sensor, device: &Device) -> bool {
        if let Subject::Device(name) = &sensor.subject {
            return name == device.name();
        }
        let kind = device.info().kind;
        let real = |other: &&Device| other.info().kind == kind && !other.info().emulated;
        // the cores of a CPU are one chip, even if several devices offer them
        let alone = kind == DeviceKind::Cpu || self.devices.iter().filter(real).count() == 1;
        !device.info().emulated && alone && sensor.subject.is_kind(kind)
    }

    fn battery(&self, table: &[(&Sensor, &Reading)]) -> Option<Battery> {
        let of = |quantity| {
            table
                .iter()
                .find(|(sensor, _)| sensor.quantity == quantity && sensor.name.starts_with("power_supply/"))
        };
        let figure = |quantity| match of(quantity) {
            None => Figure::unknown("no sensor"),
            Some((sensor, reading)) => match &reading.value {
                Ok(value) => Figure::known(*value, &sensor.name),
                Err(reason) => Figure::unknown(format!("{}: {reason}", sensor.name)),
            },
        };
        of(Quantity::Capacity)?;
        Some(Battery {
            capacity_permille: figure(Quantity::Capacity),
            power_mw: figure(Quantity::Power),
            charging: self.sensors.is_charging(),
        })
    }
}

/// The hottest temperature of a subject that is no device.
fn hottest(table: &[(&Sensor, &Reading)], subject: &Subject) -> Figure {
    let mine = table
        .iter()
        .filter(|(sensor, _)| sensor.quantity == Quantity::Temperature && sensor.subject == *subject);
    let known =
        mine.filter_map(|(sensor, reading)| Some((*reading.value.as_ref().ok()?, sensor.name.as_str())));
    match known.max_by_key(|(mc, _)| *mc) {
        Some((mc, name)) => Figure::known(mc, name),
        None => Figure::unknown("no sensor"),
    }
}
