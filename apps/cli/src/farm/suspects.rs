//! Items that `polychip farm compare --suspects` wrote, to be measured once more.
//!
//! Invariant: each item is for one board: boards that share items elsewhere each measure it here.

use std::path::Path;

use polychip_farm_record::{InventoryEntry, Wanted};

use crate::exit::{bad_input, usage};

/// The items of a file that `farm compare --suspects` wrote.
pub(super) fn suspects(path: &Path, places: &[InventoryEntry]) -> anyhow::Result<Vec<Wanted>> {
    let wrong = |why: String| bad_input(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let items: Vec<Wanted> = serde_json::from_str(&text).map_err(|error| {
        wrong(format!(
            "not a list of items written by `farm compare --suspects`: {error}"
        ))
    })?;
    if items.is_empty() {
        return Err(usage(format!(
            "{} lists no items: nothing is suspicious",
            path.display()
        )));
    }
    for wanted in &items {
        let known = |name: &&String| !places.iter().any(|place| place.name == **name);
        if let Some(name) = wanted.places.iter().find(known) {
            let boards: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
            return Err(usage(format!(
                "{} names board {name}, which is not among the selected boards: {}",
                path.display(),
                boards.join(", ")
            )));
        }
        if wanted.places.is_empty() {
            return Err(wrong(format!("{} names no board", wanted.item)));
        }
    }
    // interchangeable boards each do it, so that the turns of two builds meet on a board
    let on_each = items.into_iter().flat_map(|Wanted { item, places }| {
        let each = places.into_iter().map(move |place| (item.clone(), place));
        each.map(|(item, place)| Wanted {
            item,
            places: vec![place],
        })
    });
    Ok(on_each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspects_must_belong_to_existing_boards() {
        let place = |name: &str| InventoryEntry {
            name: name.into(),
            transport: "local".into(),
            tags: Vec::new(),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("suspects.json");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            suspects(&path, &[place("a"), place("b")]).map_err(|error| error.to_string())
        };
        let of =
            |name: &str| format!(r#"[{{"item":{{"job":"bench","settings":{{}}}},"places":["{name}"]}}]"#);
        assert_eq!(read(&of("b")).unwrap()[0].places, ["b"]);
        let grouped = read(&of("b").replace(r#""b""#, r#""a","b""#)).unwrap();
        assert_eq!((grouped.len(), &*grouped[1].places), (2, &["b".to_owned()][..]));
        for (text, words) in [
            (of("c"), "board c, which is not among the selected boards: a, b"),
            ("[]".to_owned(), "lists no items"),
            ("{}".to_owned(), "not a list of items"),
            (of("b").replace("\"b\"", ""), "names no board"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
