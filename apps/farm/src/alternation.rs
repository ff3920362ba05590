//! Groups of items for two runners that alternate on the same boards.
//!
//! Invariant: a board does at most [`MOST_ITEMS`] items of a group, so that the two measurements of an item are minutes
//! apart. Results of a pair that is more than an hour apart are not compared (`apps/farm/results`).

use std::collections::BTreeMap;

use polychip_farm_record::Wanted;

/// Most items that a board does before the other runner has its turn.
pub const MOST_ITEMS: usize = 8;

/// Divides items into groups, in their order. All rounds of a group are made before the next one.
#[must_use]
pub fn groups(items: &[Wanted]) -> Vec<Vec<Wanted>> {
    let mut groups: Vec<Vec<Wanted>> = Vec::new();
    let mut counts: BTreeMap<&[String], usize> = BTreeMap::new();
    for wanted in items {
        let count = counts.entry(&wanted.places).or_default();
        // any of these boards does an item
        let group = *count / (MOST_ITEMS * wanted.places.len().max(1));
        *count += 1;
        if groups.len() <= group {
            groups.resize_with(group + 1, Vec::new);
        }
        groups[group].push(wanted.clone());
    }
    groups
}

#[cfg(test)]
mod tests {
    use polychip_farm_record::{Item, Job, Settings};

    use super::*;

    #[test]
    fn a_board_has_few_items_of_each_group_and_none_is_left_out() {
        let wanted = |threads: u32, places: &[&str]| Wanted {
            item: Item {
                job: Job::Bench,
                model: None,
                plugins: Vec::new(),
                settings: Settings {
                    threads: Some(threads),
                    ..Settings::default()
                },
            },
            places: places.iter().map(|place| (*place).to_owned()).collect(),
        };
        let alone = (1..=20).map(|at| wanted(at, &["a"]));
        let shared = (1..=20).map(|at| wanted(at, &["b", "c"]));
        let items: Vec<Wanted> = alone.chain(shared).collect();
        let groups = groups(&items);
        let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
        assert_eq!(sizes, [8 + 16, 8 + 4, 4]);
        let mut all = groups.concat();
        all.sort_by_key(|wanted| (wanted.places.clone(), wanted.item.settings.threads));
        assert_eq!(all, items);
        assert!(super::groups(&[]).is_empty());
    }
}
