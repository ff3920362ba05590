//! Links a model whose file changed to its former self, by name.
//!
//! Items are compared by the contents of their models, so a changed file would be one item gone and another one new.

use std::collections::BTreeMap;

use polychip_farm_record::{Item, Model, Record};

use super::group::Group;
use crate::kind::Kind;

/// What two items share that differ only in the contents of their model.
fn name(item: &Item) -> Option<Item> {
    let model = item.model.as_ref()?;
    Some(Item {
        model: Some(Model {
            name: model.name.clone(),
            blake3: String::new(),
            bytes: 0,
        }),
        ..item.clone()
    })
}

/// Joins the group of an item that only BASE has with that of the same name that only NEW has, if there is one of each.
pub(super) fn link<'a>(groups: &mut BTreeMap<(&'a Item, Kind), Group<'a>>) {
    let mut named: BTreeMap<(Item, Kind), Vec<(&'a Item, bool)>> = BTreeMap::new();
    for ((item, kind), group) in groups.iter() {
        let Some(name) = name(item) else { continue };
        named
            .entry((name, kind.clone()))
            .or_default()
            .push((item, group.new.is_empty()));
    }
    for ((_, kind), items) in named {
        // with more contents of a name on a side, which one became which is not known
        let (before, after) = match items[..] {
            [(before, true), (after, false)] | [(after, false), (before, true)] => (before, after),
            _ => continue,
        };
        let is_new = groups
            .get(&(after, kind.clone()))
            .is_some_and(|group| group.base.is_empty());
        if !is_new {
            continue;
        }
        if let Some(new) = groups.remove(&(after, kind.clone()))
            && let Some(group) = groups.get_mut(&(before, kind))
        {
            group.new = new.new;
            group.model_changed = true;
        }
    }
}

/// The text about a changed model.
pub(super) fn words(base: &[&Record], new: &[&Record]) -> String {
    let digits = |records: &[&Record]| {
        let model = records.first().and_then(|record| record.item.model.as_ref());
        model.map_or_else(String::new, |model| model.blake3.chars().take(12).collect())
    };
    format!(
        "the model's file changed from {} to {}",
        digits(base),
        digits(new)
    )
}
