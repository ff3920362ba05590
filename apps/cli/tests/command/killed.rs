//! A profiler that is killed in the middle: the database opens and has every row that was committed.
//!
//! `POLYCHIP_KILLS` sets the number of kills (default 20; the published claim covers 200).

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::tool::{alone, polychip, profiling};

/// Measurements that the database keeps of a part.
const KEPT: u64 = 101;

fn profiler(profile: &Path) -> Child {
    Command::new(alone())
        .args(profiling(profile.to_str().unwrap()))
        .args(["--precision-goal", "0.01"])
        .env_remove("POLYCHIP_PLUGINS")
        .env("POLYCHIP_LOG", "polychip::profiler=info")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs of a part that a line of the log says are committed.
fn committed(line: &str) -> Option<(String, u64)> {
    let (_, words) = line.split_once("committed ")?;
    let mut words = words.split_whitespace();
    let runs = words.next()?.parse().ok()?;
    Some((words.nth(2)?.to_owned(), runs))
}

/// Kills a profiler after so many lines and so much time; what it said before, and whether it had ended by itself.
fn kill(mut child: Child, lines: usize, later: Duration) -> (Vec<(String, u64)>, bool) {
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut said = Vec::new();
    let mut line = String::new();
    while said.len() < lines {
        line.clear();
        if log.read_line(&mut line).unwrap() == 0 {
            break;
        }
        said.extend(committed(&line));
    }
    std::thread::sleep(later);
    let ended = child.try_wait().unwrap().is_some();
    // SIGKILL on Unix
    child.kill().unwrap();
    child.wait().unwrap();
    // what it wrote into the pipe before it was killed was committed, too
    for line in log.lines().map_while(Result::ok) {
        said.extend(committed(&line));
    }
    (said, ended)
}

#[test]
fn killed_profiler_loses_no_committed_row() {
    let kills: u64 = std::env::var("POLYCHIP_KILLS").map_or(20, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    // numbers that differ from kill to kill and are the same in every run of this test
    let mut numbers = ChaCha8Rng::seed_from_u64(7);
    let mut random = |below: u64| numbers.next_u64() % below;
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    let (mut killed, mut files, mut rows) = (0, 0, 0);
    while killed < kills {
        let path = folder.path().join(format!("{files}.profile"));
        // every third time, two profilers write to the file at once
        let writers = if random(3) == 0 { 2 } else { 1 };
        let children: Vec<Child> = (0..writers).map(|_| profiler(&path)).collect();
        let mut ended = false;
        for child in children {
            let (said, by_itself) = kill(child, random(9) as usize, Duration::from_micros(random(20_000)));
            rows += said.len();
            for (part, runs) in said {
                *expected.entry(part).or_default() += runs;
            }
            killed += u64::from(!by_itself);
            ended |= by_itself;
        }
        let show = ["profile", "show", path.to_str().unwrap(), "--json"];
        if path.exists() {
            let answer = polychip(&show).json("profile-show");
            let mut found: BTreeMap<&str, u64> = BTreeMap::new();
            for part in answer["parts"].as_array().unwrap() {
                if part["operating_point"] == "threads=1" {
                    found.insert(
                        part["fingerprint"].as_str().unwrap(),
                        part["samples"].as_u64().unwrap(),
                    );
                }
            }
            for (part, runs) in &expected {
                let found = found.get(part.as_str()).copied().unwrap_or(0);
                assert!(
                    found >= KEPT.min(*runs),
                    "{found} of {runs} runs of {part} after {killed} kills"
                );
            }
        } else {
            assert_eq!(expected, BTreeMap::new(), "the file is gone after {killed} kills");
        }
        if ended {
            // nothing left to measure: a new file
            files += 1;
            expected.clear();
        }
    }
    assert!(rows as u64 > kills, "{rows} rows were committed in {kills} kills");
}
