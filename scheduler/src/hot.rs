//! Devices that are hotter than the policy allows: left out of a plan, which says so, and let in again.
//!
//! Invariants:
//! 1. No device is left out, or let in again, without an event that names it, its temperature and the limit.
//! 2. A device without a temperature is not hot; one that does not say any more how hot it is has not cooled.
//!
//! Not here: when a session looks again (`session/cooled`), heat while runs go on (`governor`).

use polychip_host::Device;
use polychip_partitioner::{MilliCelsius, Target};

use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventKind};
use crate::planned::Planned;
use crate::policy::Settings;
use crate::shared::Shared;

/// A device warms by some degrees as soon as it computes again: it must have cooled so far below the limit.
const COOLED_MC: i64 = 3_000;

fn temperature_mc(device: &Device) -> Option<i64> {
    device.telemetry().ok()?.temperature_mc
}

fn words(mc: i64, limit: MilliCelsius) -> String {
    format!("{}, limit {limit}", MilliCelsius::new(mc))
}

/// Leaves out the devices that are hotter than a limit. Their places in the list of devices, and an event of each.
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
        let words = format!("no device is left: {}", all.join("; "));
        return Err(Error::new(ErrorKind::NoDevice, words));
    }
    Ok((hot, events))
}

impl Planned {
    /// The devices that were left out for their temperature.
    pub(crate) fn hot_devices(&self) -> Vec<&str> {
        let hot = self.hot.iter();
        hot.map(|index| self.devices[*index].name()).collect()
    }

    /// A new plan that may use the devices which were left out for their temperature and have cooled, with an event of
    /// each; none where none has.
    pub(crate) fn with_cooled(
        &self,
        shared: &Shared,
        settings: Settings,
        limit: MilliCelsius,
    ) -> Option<Result<Planned>> {
        let most = limit.millidegrees().saturating_sub(COOLED_MC);
        let hot = self
            .hot
            .iter()
            .map(|&index| (index, temperature_mc(&self.devices[index])));
        let cooled: Vec<(usize, i64)> = hot
            .filter_map(|(index, mc)| Some((index, mc.filter(|mc| *mc <= most)?)))
            .collect();
        if cooled.is_empty() {
            return None;
        }
        let indices: Vec<usize> = cooled.iter().map(|(index, _)| *index).collect();
        let events = cooled.iter().map(|(index, mc)| {
            let device = self.devices[*index].name();
            Event::new(EventKind::LetIn, device, 0, words(*mc, limit))
        });
        let planned = self.with_hot(shared, settings, &indices);
        Some(planned.map(|mut planned| {
            events.for_each(|event| planned.tell(event));
            planned
        }))
    }

    /// A new plan that may use these devices, whose temperature they were left out for.
    pub(crate) fn with_hot(&self, shared: &Shared, settings: Settings, let_in: &[usize]) -> Result<Planned> {
        let mut planned = self.again(shared, settings, |targets| {
            for &index in let_in.iter().filter(|index| self.hot.contains(index)) {
                targets[index].quarantined = None;
            }
        })?;
        planned.hot.retain(|index| !let_in.contains(index));
        Ok(planned)
    }
}
