//! Earlier runs: which items need not be measured again.
//!
//! Invariant: an item is left out only if the same programs and settings measured it on a board that may do it.
//!
//! Not here: reading the runs of a folder (`Run`), which items a farm is asked for.

use std::collections::BTreeMap;

use polychip_farm_record::{Effort, Equipment, Outcome, Record, Unchanged, Wanted};

use crate::run::Run;

/// Earlier runs, each with the effort that it was asked for.
#[derive(Debug, Default)]
pub struct Earlier {
    runs: Vec<(Run, Effort)>,
}

impl Earlier {
    /// Of these runs, in any order.
    #[must_use]
    pub fn new(mut runs: Vec<(Run, Effort)>) -> Earlier {
        // the newest first
        runs.sort_by_key(|(run, _)| std::cmp::Reverse(run.header.started_s));
        Earlier { runs }
    }

    /// The runs, the newest first.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().map(|(run, _)| run)
    }

    /// The run that measured an item with the same programs and settings on a board that may do it; none where
    /// something changed, or it was not measured.
    #[must_use]
    pub fn measured(
        &self,
        wanted: &Wanted,
        equipment: &BTreeMap<String, Equipment>,
        effort: &Effort,
    ) -> Option<String> {
        let same = |run: &Run, place: &String| {
            let now = equipment.get(place);
            now.is_some() && run.header.equipment.get(place) == now
        };
        for (run, then) in &self.runs {
            if then != effort {
                continue;
            }
            let is_it = |record: &&Record| {
                record.item == wanted.item
                    && wanted.places.contains(&record.place.name)
                    && same(run, &record.place.name)
                    && matches!(record.outcome, Outcome::Measured(_) | Outcome::Refused { .. })
            };
            if run.records.iter().any(|record| is_it(&record)) {
                return Some(run.header.id.clone());
            }
            // it was not measured in that run either, for the same reason
            let known = run.header.unchanged.iter().find(|known| {
                known.wanted.item == wanted.item
                    && known
                        .wanted
                        .places
                        .iter()
                        .any(|place| wanted.places.contains(place) && same(run, place))
            });
            if let Some(known) = known {
                return Some(known.run.clone());
            }
        }
        None
    }

    /// Takes out what need not be measured again.
    pub fn unchanged(
        &self,
        items: &mut Vec<Wanted>,
        equipment: &BTreeMap<String, Equipment>,
        effort: &Effort,
    ) -> Vec<Unchanged> {
        let mut found = Vec::new();
        items.retain(|wanted| match self.measured(wanted, equipment, effort) {
            Some(run) => {
                let wanted = wanted.clone();
                found.push(Unchanged { wanted, run });
                false
            }
            None => true,
        });
        found
    }
}
