//! Plans without overheated devices, and plans that may use them again.
//!
//! Invariants:
//! 1. Every exclusion and readmission has an event with the device, its temperature and the limit.
//! 2. A device that no longer reports its temperature has not cooled.
//!
//! Not here: which devices are hot (`thermal_exclusion`), when a session checks
//! (`session/thermal_readmission`).

use polychip_host::Device;
use polychip_partitioner::{DeviceIndex, MilliCelsius};

use super::Planned;
use crate::error::Result;
use crate::event::{Event, EventKind};
use crate::policy::Settings;
use crate::shared::Shared;
use crate::thermal_exclusion::{temperature_mc, words};

/// A device warms by some degrees as soon as it computes again: it must have cooled so far below the limit.
const COOLED_MC: i64 = 3_000;

impl Planned {
    /// The devices but those that are left out for their temperature.
    pub(crate) fn cool_devices(&self) -> Vec<Device> {
        let places = self.devices.iter().enumerate();
        let cool = places.filter(|(place, _)| !self.hot.contains(place));
        cool.map(|(_, device)| device.clone()).collect()
    }

    /// The devices that were left out for their temperature.
    pub(crate) fn hot_devices(&self) -> Vec<&str> {
        let hot = self.hot.iter();
        hot.map(|index| self.devices[*index].name()).collect()
    }

    /// A new plan without the devices that are hotter than a limit, with an event of each; none where the plan uses no
    /// such device, or one of these cannot be done without.
    pub(crate) fn without_heated(
        &self,
        shared: &Shared,
        settings: Settings,
        limit: MilliCelsius,
    ) -> Option<Result<Planned>> {
        let used: Vec<usize> = self.used_devices().into_iter().map(DeviceIndex::index).collect();
        let is_known = |index: &usize| self.hot.contains(index);
        let all = (0..self.devices.len()).filter(|index| !is_known(index));
        let heated: Vec<(usize, i64)> = all
            .filter_map(|index| {
                let mc = temperature_mc(&self.devices[index])?;
                (mc > limit.millidegrees()).then_some((index, mc))
            })
            .collect();
        let mut in_use = heated.iter().filter(|(index, _)| used.contains(index)).peekable();
        in_use.peek()?;
        if !in_use.all(|(index, _)| self.can_do_without(DeviceIndex::new(*index))) {
            return None;
        }
        let planned = self.again(shared, settings, |targets| {
            for &(index, mc) in &heated {
                targets[index].quarantined.get_or_insert_with(|| words(mc, limit));
            }
        });
        Some(planned.map(|mut planned| {
            for (index, mc) in heated {
                let device = self.devices[index].name();
                planned.tell(Event::new(
                    EventKind::LeftOut,
                    device,
                    self.nodes_on(DeviceIndex::new(index)),
                    words(mc, limit),
                ));
                planned.hot.push(index);
            }
            planned
        }))
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
