//! Repeated runs: items that need not be measured again, and how long the others will take.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use polychip_farm::Equipped;
use polychip_farm_record::{Effort, Equipment, Job, Outcome, Wanted};
use polychip_farm_results::{Earlier, Run};

use super::compare::run_folders;
use crate::exit::{bad_input, warn};

/// What is sent to each board.
pub(super) fn equipment(boards: &[Equipped]) -> BTreeMap<String, Equipment> {
    let each = boards.iter().map(|board| {
        let plugins = board.plugins.iter();
        let environment = board.member.environment.iter();
        let mut environment: Vec<String> = environment.map(|(name, _)| name.clone()).collect();
        environment.sort();
        let equipment = Equipment {
            runner: board.runner.blake3.clone(),
            conform: board.conform.as_ref().map(|blob| blob.blake3.clone()),
            plugins: plugins
                .map(|blob| (blob.name.clone(), blob.blake3.clone()))
                .collect(),
            environment,
        };
        (board.member.place.name.clone(), equipment)
    });
    each.collect()
}

/// Reads earlier runs: run folders, or folders of them, at any depth: a night with `--reference` has a folder for each
/// pair of each side. Before the first night there are none; a run that cannot be read is left out, with a warning.
pub(super) fn earlier(folders: &[PathBuf]) -> anyhow::Result<Earlier> {
    let mut runs = Vec::new();
    for folder in folders {
        for folder in nested_run_folders(folder, MOST_DEPTH)? {
            let run = match Run::read(&folder) {
                Ok(run) => run,
                Err(error) => {
                    warn(format!("{error}; it is not used for --unchanged-since"));
                    continue;
                }
            };
            let path = run.folder.join("effort.json");
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let effort = if text.is_empty() {
                Effort::default()
            } else {
                match serde_json::from_str(&text) {
                    Ok(effort) => effort,
                    Err(error) => {
                        let path = path.display();
                        warn(format!(
                            "{path}: {error}; its run is not used for --unchanged-since"
                        ));
                        continue;
                    }
                }
            };
            runs.push((run, effort));
        }
    }
    Ok(Earlier::new(runs))
}

/// Deepest run folders: NIGHTS/NIGHT/new/1.
const MOST_DEPTH: u32 = 3;

/// The run folders in a folder and the folders in it.
fn nested_run_folders(folder: &Path, depth: u32) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = run_folders(folder)?;
    if depth == 0 || !folder.is_dir() || found == [folder] {
        return Ok(found);
    }
    for entry in std::fs::read_dir(folder).map_err(bad_input)? {
        let path = entry.map_err(bad_input)?.path();
        if path.is_dir() && !found.contains(&path) {
            found.extend(nested_run_folders(&path, depth - 1)?);
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// How long an item took the last time, on any board that may do it.
fn took(earlier: &Earlier, wanted: &Wanted) -> Option<Duration> {
    let mut records = earlier.runs().flat_map(|run| run.records.iter());
    let record = records.find(|record| {
        let is_its = wanted.places.contains(&record.place.name);
        is_its && record.item == wanted.item && matches!(record.outcome, Outcome::Measured(_))
    })?;
    Some(Duration::from_millis(record.took_ms))
}

/// About how long these items take, and how many of them are not in it because nothing is known of their time.
/// Boards work at the same time; the group of boards that takes longest counts.
pub(super) fn estimate(earlier: &Earlier, items: &[Wanted], effort: &Effort) -> (Duration, usize) {
    let mut groups: BTreeMap<&[String], Duration> = BTreeMap::new();
    let mut unknown = 0;
    for wanted in items {
        let stated = match wanted.item.job {
            Job::Profile | Job::Soak => Some(Duration::from_secs(u64::from(effort.seconds))),
            Job::Bench | Job::Conformance => None,
        };
        match took(earlier, wanted).or(stated) {
            Some(time) => *groups.entry(&wanted.places).or_default() += time,
            None => unknown += 1,
        }
    }
    let longest = groups
        .into_iter()
        .map(|(places, time)| time / u32::try_from(places.len()).unwrap_or(1).max(1));
    (longest.max().unwrap_or_default(), unknown)
}

#[cfg(test)]
mod tests {
    use polychip_farm_record::{
        Board, Build, FORMAT, InventoryEntry, Item, Measured, Record, RunHeader, Settings, State,
    };

    use super::*;

    fn wanted(threads: u32) -> Wanted {
        Wanted {
            item: Item {
                job: Job::Bench,
                model: None,
                plugins: Vec::new(),
                settings: Settings {
                    threads: Some(threads),
                    ..Settings::default()
                },
            },
            places: vec!["a".into(), "b".into()],
        }
    }

    fn run(id: &str, started_s: u64, outcome: Outcome, equipment: &BTreeMap<String, Equipment>) -> Run {
        let record = Record {
            format: FORMAT,
            run: id.into(),
            item: wanted(1).item,
            place: InventoryEntry {
                name: "a".into(),
                transport: "local".into(),
                tags: Vec::new(),
            },
            board: Board::default(),
            build: Build {
                version: String::new(),
                commit: None,
                runner: String::new(),
            },
            attempt: 1,
            started_s,
            took_ms: 90_000,
            before: State::default(),
            after: State::default(),
            outcome,
        };
        Run {
            folder: PathBuf::new(),
            header: RunHeader {
                format: FORMAT,
                id: id.into(),
                started_s,
                commit: None,
                places: Vec::new(),
                items: vec![wanted(1)],
                unchanged: Vec::new(),
                equipment: equipment.clone(),
            },
            records: vec![record],
            torn: Vec::new(),
            profiles: BTreeMap::new(),
        }
    }

    #[test]
    fn only_what_was_measured_with_the_same_programs_is_unchanged() {
        let of = |runner: &str| {
            let equipment = Equipment {
                runner: runner.into(),
                ..Equipment::default()
            };
            BTreeMap::from([("a".to_owned(), equipment.clone()), ("b".to_owned(), equipment)])
        };
        let effort = Effort::default();
        let measured = || Outcome::Measured(Box::<Measured>::default());
        let earlier =
            |runs: Vec<Run>| Earlier::new(runs.into_iter().map(|run| (run, effort.clone())).collect());
        let night = earlier(vec![run("night-1", 1, measured(), &of("x"))]);
        let mut items = vec![wanted(1), wanted(2)];
        let unchanged = night.unchanged(&mut items, &of("x"), &effort);
        assert_eq!(
            (unchanged.len(), &*unchanged[0].run, items.len()),
            (1, "night-1", 1)
        );
        // the third night knows it from the second, which did not measure it
        let mut second = run("night-2", 2, measured(), &of("x"));
        second.records.clear();
        second.header.unchanged = unchanged;
        let night = earlier(vec![second]);
        assert_eq!(
            night.measured(&wanted(1), &of("x"), &effort).as_deref(),
            Some("night-1")
        );
        // another runner, other settings, a failure
        assert_eq!(night.measured(&wanted(1), &of("y"), &effort), None);
        let more = Effort {
            iters: 99,
            ..Effort::default()
        };
        assert_eq!(night.measured(&wanted(1), &of("x"), &more), None);
        let skipped = Outcome::Skipped { reason: "hot".into() };
        let night = earlier(vec![run("night-1", 1, skipped, &of("x"))]);
        assert_eq!(night.measured(&wanted(1), &of("x"), &effort), None);
    }

    #[test]
    fn first_night_has_no_runs_and_damaged_ones_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let read = |path: PathBuf| earlier(&[path]).unwrap().runs().count();
        assert_eq!(read(folder.path().join("nights")), 0);
        assert_eq!(read(folder.path().to_owned()), 0);
        let night = folder.path().join("night");
        std::fs::create_dir(&night).unwrap();
        std::fs::write(night.join("run.json"), "torn").unwrap();
        assert_eq!(read(folder.path().to_owned()), 0);
        assert_eq!(read(night), 0);
    }

    #[test]
    fn rounds_of_a_night_are_found_and_other_folders_are_not() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            "first",
            "second/base/1",
            "second/new/1",
            "second/new/2",
            "first/old",
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("run.json"), "{}").unwrap();
        }
        std::fs::create_dir_all(folder.path().join("second/notes")).unwrap();
        let found = nested_run_folders(folder.path(), MOST_DEPTH).unwrap();
        let found: Vec<&Path> = found
            .iter()
            .map(|path| path.strip_prefix(folder.path()).unwrap())
            .collect();
        let wanted = ["first", "second/base/1", "second/new/1", "second/new/2"].map(Path::new);
        assert_eq!(found, wanted);
    }

    #[test]
    fn estimate_uses_earlier_times_and_counts_unknown_ones() {
        let measured = Outcome::Measured(Box::<Measured>::default());
        let run = run("night-1", 1, measured, &BTreeMap::new());
        let earlier = Earlier::new(vec![(run, Effort::default())]);
        let mut soak = wanted(3);
        soak.item.job = Job::Soak;
        let effort = Effort {
            seconds: 30,
            ..Effort::default()
        };
        // 90 s and 30 s on two boards
        let found = estimate(&earlier, &[wanted(1), wanted(2), soak], &effort);
        assert_eq!(found, (Duration::from_secs(60), 1));
    }
}
