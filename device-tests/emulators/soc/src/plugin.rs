//! The same chip behind real devices: a plugin whose devices are the units of a table, so that a session runs on it.
//!
//! Devices are those of the null plugin: right answers, virtual time. Their runs are priced by one [`Chip`], so they
//! share heat and memory. Configuration `table` holds a table's text (left out: the shipped one), `air_mc` the air's
//! temperature (left out: 25 degrees).
//!
//! Invariant: a run's clock is that of the moment when it is asked for; heat follows when the time has passed.

use std::sync::{Arc, Mutex, PoisonError};

use polychip_null::{DeviceScript, NullDevice, RunWork, Spent, Work};
use polychip_sdk::{Error, HostServices, Plugin, PluginInfo, Result, Telemetry, Throttle};

use crate::chip::{Chip, Load};
use crate::table::{MOST_UNITS, Table, Unit};

/// The plugin of an emulated SoC.
pub struct SocPlugin {
    host: HostServices,
    table: Table,
    shared: Arc<Shared>,
}

impl Plugin for SocPlugin {
    type Device = NullDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "soc",
        version: env!("CARGO_PKG_VERSION"),
        build_id: polychip_sdk::build_id!("soc"),
    };

    fn create(host: HostServices) -> Result<Self> {
        let table = match host.configuration("table") {
            Some(text) => Table::parse(&text).map_err(|error| Error::bad_argument(format!("{error:#}")))?,
            None => Table::phone(),
        };
        let air = match host.configuration("air_mc") {
            Some(text) => text
                .parse::<f64>()
                .map_err(|error| Error::bad_argument(format!("air_mc {text}: {error}")))?,
            None => 25_000.0,
        };
        let shared = Arc::new(Shared(Mutex::new(State::new(&table, air / 1e3))));
        Ok(SocPlugin { host, table, shared })
    }

    fn device_count(&self) -> Result<u32> {
        Ok(self.table.units.len() as u32)
    }

    fn open(&self, index: u32) -> Result<NullDevice> {
        let unit =
            self.table.units.get(index as usize).ok_or_else(|| {
                Error::bad_argument(format!("device {index} of {}", self.table.units.len()))
            })?;
        let script = script(unit, &self.table);
        let chip: Arc<dyn polychip_null::Chip> = self.shared.clone();
        NullDevice::on_chip(self.host.clone(), script, chip, index as usize)
    }
}

/// A unit as a script of the null plugin: the same prices.
fn script(unit: &Unit, table: &Table) -> DeviceScript {
    let traffic = table.memory.traffic_permille / 1e3;
    // milliwatts times picoseconds are thousandths of a picojoule
    let watts = unit.reference_mw() / 1e3;
    DeviceScript {
        name: unit.name.clone(),
        kind: unit.kind.clone(),
        without_ops: unit.refused_ops.clone(),
        launch_ns: unit.launch_ns,
        launch_nj: unit.launch_ns as f64 * watts,
        cost: Work {
            fixed_ns: unit.node_ns,
            ps_per_mac: unit.ps_per_mac,
            ps_per_element: unit.other_ps_per_mac,
            ps_per_byte: unit.ps_per_byte * traffic,
            fixed_nj: unit.node_ns * watts,
            pj_per_mac: unit.ps_per_mac * watts,
            pj_per_byte: (unit.ps_per_byte * watts + table.memory.pj_per_byte) * traffic,
        },
        ..DeviceScript::default()
    }
}

struct Shared(Mutex<State>);

struct State {
    chip: Chip,
    /// The chip's time.
    now_ns: u64,
    air: f64,
    /// Runs that are not over: unit, start, end, bytes a second.
    runs: Vec<(usize, u64, u64, f64)>,
    units: Vec<UnitState>,
    traffic: f64,
    joule_per_byte: f64,
}

#[derive(Clone)]
struct UnitState {
    free_ns: u64,
    microjoules: f64,
    top_khz: u64,
}

impl State {
    fn new(table: &Table, air: f64) -> Self {
        let unit = |unit: &Unit| UnitState {
            free_ns: 0,
            microjoules: 0.0,
            top_khz: unit.levels[0][0] * 1000,
        };
        Self {
            chip: Chip::new(table, air),
            now_ns: 0,
            air,
            runs: Vec::new(),
            units: table.units.iter().map(unit).collect(),
            traffic: table.memory.traffic_permille / 1e3,
            joule_per_byte: table.memory.pj_per_byte * 1e-12,
        }
    }

    /// Lets the chip's time pass, from one start or end of a run to the next.
    fn pass(&mut self, until_ns: u64) {
        while self.now_ns < until_ns {
            let now = self.now_ns;
            let edges = self.runs.iter().flat_map(|&(_, start, end, _)| [start, end]);
            let next = edges.filter(|&edge| edge > now).fold(until_ns, u64::min);
            // levels change while a long run goes on
            let next = next.min(now + 50_000_000);
            let mut load = Load {
                air: self.air,
                ..Load::default()
            };
            for &(unit, start, end, bytes_per_s) in &self.runs {
                if start <= now && now < end {
                    load.busy[unit] = 1.0;
                    load.bytes_per_s += bytes_per_s;
                }
            }
            self.chip.pass(next - now, &load);
            self.now_ns = next;
        }
        let now = self.now_ns;
        self.runs.retain(|&(_, _, end, _)| end > now);
    }
}

impl polychip_null::Chip for Shared {
    fn spend(&self, unit: usize, work: RunWork, now_ns: u64, ready_ns: u64) -> Spent {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.pass(now_ns);
        let start_ns = ready_ns.max(state.units[unit].free_ns);
        let ns = work.launch_ns + work.compute_ns / state.chip.speed(unit) + work.memory_ns;
        let end_ns = start_ns + ns.round() as u64;
        let bytes = work.bytes * state.traffic;
        let microjoules = state.chip.busy_watts(unit) * ns / 1e3 + bytes * state.joule_per_byte * 1e6;
        state.units[unit].free_ns = end_ns;
        state.units[unit].microjoules += microjoules;
        if end_ns > start_ns {
            state.runs.push((unit, start_ns, end_ns, bytes / (ns / 1e9)));
        }
        Spent {
            start_ns,
            end_ns,
            energy_uj: microjoules.round() as u64,
        }
    }

    fn telemetry(&self, unit: usize, now_ns: u64) -> Telemetry {
        debug_assert!(unit < MOST_UNITS);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.pass(now_ns);
        let about = &state.units[unit];
        let speed = state.chip.speed(unit);
        Telemetry {
            time_ns: now_ns,
            temperature_mc: Some((state.chip.degrees(unit) * 1e3).round() as i64),
            power_mw: Some((state.chip.watts(unit) * 1e3).round() as u64),
            energy_uj: Some(about.microjoules.round() as u64),
            frequency_khz: Some((about.top_khz as f64 * speed).round() as u64),
            memory_used_bytes: None,
            load_permille: None,
            throttle: Some(Throttle {
                heat: state.chip.level(unit) > 0,
                power: false,
            }),
        }
    }
}
