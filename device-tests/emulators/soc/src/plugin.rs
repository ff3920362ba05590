//! A plugin whose devices are the units of an emulated phone, so that sessions can run on it.
//!
//! The devices are those of the null plugin, on the host's clock.
//!
//! - By default they compute correct outputs, and there are no other users. The setting `table`
//!   holds a table's text (default: the shipped one), `air_mc` the temperature of the air (default:
//!   25 degrees).
//! - The setting `phone` names a phone that was lent ([`lend`]). In its scenario there are only
//!   times, heat and energies; nothing is computed.
//!
//! Invariant: one chip determines the costs of runs on all units, so they share heat and memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_null::{DeviceScript, NullDevice, PartialWork, Point, Work};
use polychip_sdk::{Error, HostServices, Plugin, PluginInfo, Result};

use crate::emulated::Emulated;
use crate::table::{Table, Unit};

/// The plugin of an emulated SoC.
pub struct SocPlugin {
    host: HostServices,
    phone: Arc<Emulated>,
}

/// Phones that are lent, by name.
static LENT: Mutex<BTreeMap<String, Arc<Emulated>>> = Mutex::new(BTreeMap::new());

/// A phone that plugins find by its name, until this is dropped.
#[derive(Debug)]
pub struct Lent(String);

impl Lent {
    /// Value for the setting `phone`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        LENT.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.0);
    }
}

/// Lends a phone to plugins of this process.
#[must_use]
pub fn lend(phone: Arc<Emulated>) -> Lent {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    LENT.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(name.clone(), phone);
    Lent(name)
}

impl Plugin for SocPlugin {
    type Device = NullDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "soc",
        version: env!("CARGO_PKG_VERSION"),
        build_id: polychip_sdk::build_id!("soc"),
    };

    fn create(host: HostServices) -> Result<Self> {
        if let Some(name) = host.configuration("phone") {
            let lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
            let phone = lent.get(&name).cloned();
            let phone = phone.ok_or_else(|| Error::bad_argument(format!("phone {name}: none is lent so")))?;
            return Ok(SocPlugin { host, phone });
        }
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
        let phone = Arc::new(Emulated::alone(table, air / 1e3));
        Ok(SocPlugin { host, phone })
    }

    fn device_count(&self) -> Result<u32> {
        Ok(self.phone.table.units.len() as u32)
    }

    fn open(&self, index: u32) -> Result<NullDevice> {
        let units = &self.phone.table.units;
        let unit = units
            .get(index as usize)
            .ok_or_else(|| Error::bad_argument(format!("device {index} of {}", units.len())))?;
        let script = script(unit, &self.phone);
        let chip: Arc<dyn polychip_null::Chip> = self.phone.clone();
        NullDevice::on_chip(self.host.clone(), script, chip, index as usize)
    }
}

/// A unit as a script of the null plugin: the same prices.
fn script(unit: &Unit, phone: &Emulated) -> DeviceScript {
    let table = &phone.table;
    let traffic = table.memory.traffic_permille / 1e3;
    // milliwatts times picoseconds are thousandths of a picojoule
    let watts = unit.reference_mw() / 1e3;
    let mut script = DeviceScript {
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
        states_energy: unit.kind == "cpu" || phone.shown.accelerators_energy,
        ..DeviceScript::default()
    };
    let Some((network, inferences)) = &phone.network else {
        return script;
    };
    // all clocks at 50 degrees; the first point is the fastest
    let points = unit.levels.iter().enumerate().map(|(level, [mhz, _])| Point {
        name: format!("{mhz} MHz"),
        frequency_khz: mhz * 1000,
        power_mw: unit.at_level(level).1.round() as u64,
        time_permille: 1000,
        energy_permille: 1000,
    });
    if phone.points {
        script.operating_point = points.collect();
    }
    // each node is an op of its own, with the corpus's figures as its price
    let times = *inferences as f64;
    script.answers = false;
    script.launch_ns *= *inferences as u64;
    script.launch_nj *= times;
    script.without_ops.clear();
    for (node, work) in network.work.iter().enumerate() {
        let name = network.node_name(node);
        if unit.refused_ops.contains(&network.ops[node]) {
            script.without_ops.push(name);
            continue;
        }
        let took = unit.times(work, table.memory.traffic_permille);
        let nj = (took.compute_ns + took.memory_ns) * watts + took.bytes * table.memory.pj_per_byte / 1e3;
        let price = PartialWork {
            fixed_ns: Some(took.compute_ns * times),
            ps_per_mac: Some(0.0),
            ps_per_element: Some(0.0),
            ps_per_byte: Some(took.memory_ns * 1e3 * times / network.tensor_bytes(node).max(1.0)),
            fixed_nj: Some(nj * times),
            pj_per_mac: Some(0.0),
            pj_per_byte: Some(0.0),
        };
        script.op.insert(name, price);
    }
    script
}
