//! What the device's figures are worth, and the settings that change them.
//!
//! Invariant: an emulated device measures nothing: its times are those of the computer that emulates, and no
//! cost table may hold them.
//!
//! Not here: spans of runs (`polychip_sdk::Run`), the votes themselves (`session`). The library has no sensors that a
//! program may read, so there is no telemetry call.

use polychip_sdk::{Error, OperatingPoint, Result};

use crate::session::{MODES, Power, Session};

/// Whether the vendor's library for this machine is an emulator.
pub(crate) const EMULATED: bool = cfg!(any(target_arch = "x86_64", target_arch = "x86"));

/// The settings that the library offers.
pub(crate) fn operating_points(power: Option<&Power>) -> Vec<OperatingPoint> {
    let point = |name: &str| OperatingPoint {
        name: name.to_owned(),
        frequency_khz: 0,
        power_mw: 0,
    };
    match power {
        Some(_) => MODES.iter().map(|mode| point(mode.name)).collect(),
        None => Vec::new(),
    }
}

/// Puts the device to a setting.
pub(crate) fn set_operating_point(session: &Session, power: Option<&Power>, index: u32) -> Result<()> {
    let power = power.ok_or_else(|| Error::unsupported("the library has no calls to set power"))?;
    let mode = MODES
        .get(index as usize)
        .ok_or_else(|| Error::bad_argument(format!("operating point {index} of {}", MODES.len())))?;
    power.set(session, mode)
}
