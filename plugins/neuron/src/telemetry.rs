//! Measurement status of the device's figures, and the settings that change its speed.
//!
//! Invariant: an emulated device measures nothing: its times are those of the emulating computer.
//!
//! Not here: spans of runs (`polychip_sdk::Run`). The library has no sensors that a program can read, so there is no telemetry
//! call.

use polychip_sdk::{Error, OperatingPoint, Result};

/// Boost hints of the operating points: with sustained speed the vendor's scheduler honours them, with low power they are
/// upper bounds.
const BOOSTS: [u8; 4] = [25, 50, 75, 100];

/// The settings that the library offers, where it takes boost hints.
pub(crate) fn operating_points(boosts: bool) -> Vec<OperatingPoint> {
    let point = |boost: &u8| OperatingPoint {
        name: format!("boost {boost}"),
        frequency_khz: 0,
        power_mw: 0,
    };
    if boosts {
        BOOSTS.iter().map(point).collect()
    } else {
        Vec::new()
    }
}

/// The boost hint of an operating point.
pub(crate) fn boost(points: &[OperatingPoint], index: u32) -> Result<u8> {
    match (points.get(index as usize), BOOSTS.get(index as usize)) {
        (Some(_), Some(&boost)) => Ok(boost),
        _ => Err(Error::bad_argument(format!(
            "operating point {index} of {}",
            points.len()
        ))),
    }
}
