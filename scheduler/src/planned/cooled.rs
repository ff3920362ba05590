//! Plans that may use again what was left out for its temperature.
//!
//! Invariants:
//! 1. No device is let in again without an event that names it, its temperature and the limit.
//! 2. A device that does not say any more how hot it is has not cooled.
//!
//! Not here: which devices are hot (`hot`), when a session looks (`session/cooled`).

use polychip_partitioner::MilliCelsius;

use super::Planned;
use crate::error::Result;
use crate::event::{Event, EventKind};
use crate::hot::{temperature_mc, words};
use crate::policy::Settings;
use crate::shared::Shared;

/// A device warms by some degrees as soon as it computes again: it must have cooled so far below the limit.
const COOLED_MC: i64 = 3_000;

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
