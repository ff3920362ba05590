//! Sensors of the chip. A missing sensor is `None`, never 0.
//!
//! Not here: times of runs and steps, which the driver reports with each run (`exec`).

use polychip_sdk::{Error, Result, Telemetry};

use crate::shared::Shared;

/// Reads the sensors.
pub(crate) fn read(shared: &Shared) -> Result<Telemetry> {
    let time_ns = shared.host.now_ns();
    let sensors = shared.session().sensors()?;
    // the host treats this as a call that is not offered
    let sensors = sensors.ok_or_else(|| Error::unsupported("the driver has no sensors before version 1.1"))?;
    Ok(Telemetry {
        time_ns,
        temperature_mc: sensors.temperature_mc,
        power_mw: sensors.power_mw,
        energy_uj: sensors.energy_uj,
        memory_used_bytes: sensors.memory_used_bytes,
        ..Telemetry::default()
    })
}
