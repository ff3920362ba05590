//! Measurement status of the device's figures, and the settings that change them.
//!
//! Invariant: an emulated device measures nothing: its times are those of the emulating computer, and no
//! cost table may hold them.
//!
//! Not here: spans of runs (`polychip_sdk::Run`), the votes themselves (`session`). The library has no sensors that a
//! program may read, so there is no telemetry call.

use polychip_sdk::{Error, HostServices, OperatingPoint, Result};

use crate::session::{MODES, Mode, Votes};

/// What is voted for where nobody chose: the clocks that latency is measured at, without the last corner's heat.
const USUAL: &str = "high_performance";

/// The mode of the configuration; `None` if the library decides.
pub(crate) fn chosen(host: &HostServices) -> Result<Option<&'static Mode>> {
    let wanted = host.configuration("performance");
    let wanted = wanted.as_deref().unwrap_or(USUAL);
    if wanted == "driver" {
        return Ok(None);
    }
    let found = MODES.iter().find(|mode| mode.name == wanted);
    found.map(Some).ok_or_else(|| {
        let names: Vec<&str> = MODES.iter().map(|mode| mode.name).collect();
        Error::bad_argument(format!(
            "performance {wanted:?} is none of driver, {}",
            names.join(", ")
        ))
    })
}

/// The settings that the library offers.
pub(crate) fn operating_points(votes: Option<&Votes>) -> Vec<OperatingPoint> {
    let point = |name: &str| OperatingPoint {
        name: name.to_owned(),
        frequency_khz: 0,
        power_mw: 0,
    };
    match votes {
        Some(_) => MODES.iter().map(|mode| point(mode.name)).collect(),
        None => Vec::new(),
    }
}

/// Sets the device to a setting.
pub(crate) fn set_operating_point(votes: Option<&Votes>, index: u32) -> Result<()> {
    let votes = votes.ok_or_else(|| Error::unsupported("the library has no calls to set power"))?;
    let mode = MODES
        .get(index as usize)
        .ok_or_else(|| Error::bad_argument(format!("operating point {index} of {}", MODES.len())))?;
    votes.choose(mode)
}
