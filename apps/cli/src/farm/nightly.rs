//! Repeated runs: items that need not be measured again, and how long the others will take.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use polychip_farm::Equipped;
use polychip_farm_record::{Effort, Equipment, Job, Outcome, Record, Unchanged, Wanted};
use polychip_farm_results::Run;

use super::compare::run_folders;
use crate::exit::warn;

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

/// Earlier runs.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    runs: Vec<(Run, Effort)>,
}

impl Earlier {
    /// Reads run folders, or folders of them. Before the first night there are none; a run that cannot be read is left
    /// out, with a warning.
    pub(super) fn read(folders: &[PathBuf]) -> anyhow::Result<Earlier> {
        let mut runs = Vec::new();
        for folder in folders {
            for folder in run_folders(folder)? {
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
        // the newest first
        runs.sort_by_key(|(run, _)| std::cmp::Reverse(run.header.started_s));
        Ok(Earlier { runs })
    }

    /// The run that measured an item with the same programs and settings on a board that may do it; none where
    /// something changed, or it was not measured.
    pub(super) fn measured(
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

    /// How long an item took the last time, on any board that may do it.
    fn took(&self, wanted: &Wanted) -> Option<Duration> {
        let mut records = self.runs.iter().flat_map(|(run, _)| run.records.iter());
        let record = records.find(|record| {
            let is_its = wanted.places.contains(&record.place.name);
            is_its && record.item == wanted.item && matches!(record.outcome, Outcome::Measured(_))
        })?;
        Some(Duration::from_millis(record.took_ms))
    }

    /// Takes out what need not be measured again.
    pub(super) fn unchanged(
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

    /// About how long these items take, and how many of them are not in it because nothing is known of their time.
    /// Boards work at the same time; the group of boards that takes longest counts.
    pub(super) fn estimate(&self, items: &[Wanted], effort: &Effort) -> (Duration, usize) {
        let mut groups: BTreeMap<&[String], Duration> = BTreeMap::new();
        let mut unknown = 0;
        for wanted in items {
            let stated = match wanted.item.job {
                Job::Profile | Job::Soak => Some(Duration::from_secs(u64::from(effort.seconds))),
                Job::Bench | Job::Conformance => None,
            };
            match self.took(wanted).or(stated) {
                Some(time) => *groups.entry(&wanted.places).or_default() += time,
                None => unknown += 1,
            }
        }
        let longest = groups
            .into_iter()
            .map(|(places, time)| time / u32::try_from(places.len()).unwrap_or(1).max(1));
        (longest.max().unwrap_or_default(), unknown)
    }
}

#[cfg(test)]
mod tests {
    use polychip_farm_record::{
        Board, Build, FORMAT, InventoryEntry, Item, Measured, RunHeader, Settings, State,
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
        let earlier = |runs: Vec<Run>| Earlier {
            runs: runs.into_iter().map(|run| (run, effort.clone())).collect(),
        };
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
        let read = |path: PathBuf| Earlier::read(&[path]).unwrap().runs.len();
        assert_eq!(read(folder.path().join("nights")), 0);
        assert_eq!(read(folder.path().to_owned()), 0);
        let night = folder.path().join("night");
        std::fs::create_dir(&night).unwrap();
        std::fs::write(night.join("run.json"), "torn").unwrap();
        assert_eq!(read(folder.path().to_owned()), 0);
        assert_eq!(read(night), 0);
    }

    #[test]
    fn estimate_uses_earlier_times_and_counts_unknown_ones() {
        let measured = Outcome::Measured(Box::<Measured>::default());
        let run = run("night-1", 1, measured, &BTreeMap::new());
        let earlier = Earlier {
            runs: vec![(run, Effort::default())],
        };
        let mut soak = wanted(3);
        soak.item.job = Job::Soak;
        let effort = Effort {
            seconds: 30,
            ..Effort::default()
        };
        // 90 s and 30 s on two boards
        let found = earlier.estimate(&[wanted(1), wanted(2), soak], &effort);
        assert_eq!(found, (Duration::from_secs(60), 1));
    }
}
