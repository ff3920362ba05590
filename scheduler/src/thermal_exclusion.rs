//! Excludes devices that are hotter than the policy allows, and records an event for each.
//!
//! Invariants:
//! 1. Every exclusion has an event with the device, its temperature and the limit.
//! 2. A device without a temperature reading is never excluded.
//!
//! Not here: plans with readmitted devices (`planned/thermal_readmission`), when a session checks
//! again (`session/thermal_readmission`), heat while runs execute (`governor`).

use polychip_host::Device;
use polychip_partitioner::{MilliCelsius, Target};

use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventKind};

pub(crate) fn temperature_mc(device: &Device) -> Option<i64> {
    device.telemetry().ok()?.temperature_mc
}

/// Formats a temperature with its limit.
pub(crate) fn words(mc: i64, limit: MilliCelsius) -> String {
    format!("{}, limit {limit}", MilliCelsius::new(mc))
}

/// Excludes devices that are hotter than a limit. Returns their indices and an event for each.
pub(crate) fn leave_out(
    devices: &[Device],
    targets: &mut [Target],
    limit: Option<MilliCelsius>,
) -> Result<(Vec<usize>, Vec<Event>)> {
    let (mut hot, mut events) = (Vec::new(), Vec::new());
    let Some(limit) = limit else {
        return Ok((hot, events));
    };
    for (index, (device, target)) in devices.iter().zip(targets).enumerate() {
        let Some(mc) = temperature_mc(device).filter(|mc| *mc > limit.millidegrees()) else {
            continue;
        };
        let words = words(mc, limit);
        events.push(Event::new(EventKind::LeftOut, device.name(), 0, words.clone()));
        target.quarantined.get_or_insert(words);
        hot.push(index);
    }
    if hot.len() == devices.len() {
        let all: Vec<String> = events.iter().map(ToString::to_string).collect();
        let words = format!("every device is too hot: {}", all.join("; "));
        return Err(Error::new(ErrorKind::NoDevice, words));
    }
    Ok((hot, events))
}
