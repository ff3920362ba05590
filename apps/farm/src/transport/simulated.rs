//! A board that is none: it does what a board with a runner does, on virtual time, with faults from a seed.
//!
//! Invariants:
//! 1. The same seed and the same calls give the same records and faults.
//! 2. Its records say that they are emulated.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_farm_record::{
    Assignment, Board, Build, FORMAT, Failure, Item, Measured, Outcome, PlannedPart, Record, State,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::{Command, Counter, Exit, Prepared, Transport, TransportError};
use crate::blob::Blob;
use crate::clock::Clock;

/// How often something goes wrong, in thousandths of all chances: of an item for the first five, of a transfer for the
/// last two.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// The connection is cut; the runner continues and writes finished items to its journal.
    pub cut: u32,
    /// The runner is killed before it wrote its record.
    pub killed: u32,
    /// The runner is killed after it wrote its record and before it said so.
    pub killed_after: u32,
    /// The board is gone for good.
    pub gone: u32,
    /// The disk is full from now on.
    pub full: u32,
    /// A transfer ends early.
    pub partial: u32,
    /// A transfer brings other bytes.
    pub corrupt: u32,
}

/// How the measurement of an item goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// Time until the board is ready, and of repetitions.
    pub wait: Duration,
    /// Time of a run over the item's usual time.
    pub factor: f64,
    /// Share of the processors that other programs use, in thousandths.
    pub load_by_others_millis: u32,
    /// Why it is not measured.
    pub skipped: Option<String>,
}

/// What determines the times of simulated boards: builds of different speed, other programs.
pub trait World: std::fmt::Debug + Send + Sync {
    /// How a measurement goes that takes `took` and is asked for at `now`, on the board of this name, by the runner with
    /// this hash.
    fn course(&self, place: &str, item: &Item, runner: &str, now: Duration, took: Duration) -> Course;
}

/// A simulated board.
#[derive(Debug)]
pub struct Simulated {
    clock: Clock,
    faults: Faults,
    /// Slower than the fastest board of its kind, in thousandths.
    slower: u32,
    world: Option<Arc<dyn World>>,
    state: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    random: ChaCha8Rng,
    /// Length and BLAKE3 of what lies there.
    files: BTreeMap<String, (u64, String)>,
    journal: Vec<Record>,
    gone: bool,
    full: bool,
    /// Its runner begins no further item.
    stopped: bool,
    /// Lines that the driver was given.
    delivered: u64,
    /// Items measured, also those that were lost before they were written.
    measured: u64,
    bytes_put: u64,
}

/// Time of a command beside its work, and of a connection.
const WAY: Duration = Duration::from_millis(150);
/// Bytes a second.
const RATE: u64 = 10_000_000;

impl Simulated {
    /// A board whose random numbers come from this seed.
    #[must_use]
    pub fn new(seed: u64, clock: Clock, faults: Faults) -> Simulated {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        Simulated {
            clock,
            faults,
            slower: random.next_u32() % 100,
            world: None,
            state: Mutex::new(Inner {
                random,
                files: BTreeMap::new(),
                journal: Vec::new(),
                gone: false,
                full: false,
                stopped: false,
                delivered: 0,
                measured: 0,
                bytes_put: 0,
            }),
        }
    }

    /// The same in this world, in which items do not fail by themselves.
    #[must_use]
    pub fn within(mut self, world: Arc<dyn World>) -> Simulated {
        self.world = Some(world);
        self
    }

    fn state(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the driver was given, each as often as it was.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.state().delivered
    }

    /// Items that were measured, also those whose record was lost with the runner.
    #[must_use]
    pub fn measured(&self) -> u64 {
        self.state().measured
    }

    /// Bytes of all files that were put.
    #[must_use]
    pub fn bytes_put(&self) -> u64 {
        self.state().bytes_put
    }

    /// Whether the board is gone for good, or its disk is full.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let state = self.state();
        state.gone || state.full
    }

    /// Records of the board's own journal.
    #[must_use]
    pub fn journal(&self) -> Vec<Record> {
        self.state().journal.clone()
    }

    fn reach(&self) -> Result<(), TransportError> {
        self.clock.sleep(WAY);
        if self.state().gone {
            Err(TransportError::Unreachable {
                words: "the simulated board is gone".to_owned(),
            })
        } else {
            Ok(())
        }
    }

    /// The runner's `serve`.
    fn serve(&self, program: &str, stdin: &[u8], line: &mut dyn FnMut(&str)) -> Result<Exit, TransportError> {
        self.state().stopped = false;
        let text = String::from_utf8_lossy(stdin);
        let assignments = text.lines().map(serde_json::from_str::<Assignment>);
        for assignment in assignments {
            let assignment = match assignment {
                Ok(assignment) => assignment,
                Err(error) => return Ok(exit(6, &error.to_string())),
            };
            if let Some(known) = self.known(&assignment) {
                self.say(&known, line);
                continue;
            }
            if self.state().stopped {
                break;
            }
            let lengths = assignment
                .model
                .iter()
                .map(|path| self.state().files.contains_key(path));
            if lengths.clone().any(|is_there| !is_there) {
                return Ok(exit(6, "the model is not there"));
            }
            let (record, took) = self.record(program, &assignment);
            self.clock.sleep(took);
            let fault = self.state().random.next_u32() % 1000;
            let faults = &self.faults;
            let mut from = 0;
            let mut hit = |share: u32| {
                from += share;
                fault < from
            };
            self.state().measured += 1;
            if hit(faults.gone) {
                self.state().gone = true;
                return Err(cut());
            }
            if hit(faults.full) {
                // said, and not written
                self.state().full = true;
                self.say(&record, line);
                return Ok(exit(5, "the journal cannot be written: No space left on device"));
            }
            if hit(faults.killed) {
                return Ok(exit(137, "Killed"));
            }
            self.state().journal.push(record.clone());
            if hit(faults.killed_after) {
                return Ok(exit(137, "Killed"));
            }
            if hit(faults.cut) {
                return Err(cut());
            }
            self.say(&record, line);
        }
        Ok(exit(0, ""))
    }

    fn say(&self, record: &Record, line: &mut dyn FnMut(&str)) {
        self.state().delivered += 1;
        line(record.to_line().trim_end());
    }

    fn known(&self, assignment: &Assignment) -> Option<Record> {
        let is_same = |record: &&Record| {
            record.run == assignment.run
                && record.item == assignment.item
                && (record.outcome.is_final() || record.attempt >= assignment.attempt)
        };
        self.state().journal.iter().rev().find(is_same).cloned()
    }

    /// What a measurement would be, and the virtual time that it takes.
    fn record(&self, program: &str, assignment: &Assignment) -> (Record, Duration) {
        // files lie on a board under their hash
        let runner = program.rsplit('/').next().unwrap_or_default();
        let name = assignment.item.to_string();
        let hash = blake3::hash(name.as_bytes());
        let word = u64::from(u32::from_le_bytes(
            [0, 1, 2, 3].map(|at: usize| hash.as_bytes()[at]),
        ));
        // 1 to 50 ms a run
        let median = (1_000_000 + word % 49_000_000) * u64::from(1000 + self.slower) / 1000;
        let now = self.clock.elapsed().unwrap_or_default();
        let mut state = self.state();
        let samples_ns: Vec<u64> = (0..assignment.effort.iters.min(20))
            .map(|_| median + u64::from(state.random.next_u32()) % (median / 50 + 1))
            .collect();
        let took = Duration::from_secs(20 + u64::from(state.random.next_u32() % 80));
        let course = self.world.as_ref().map(|world| {
            let place = &assignment.place.name;
            world.course(place, &assignment.item, runner, now, took)
        });
        let factor = course.as_ref().map_or(1.0, |course| course.factor);
        let scaled = |ns: u64| (ns as f64 * factor) as u64;
        let samples_ns: Vec<u64> = samples_ns.into_iter().map(scaled).collect();
        let median = scaled(median);
        let skipped = course.as_ref().and_then(|course| course.skipped.clone());
        // of a thousand items, two fail by themselves
        let outcome = match state.random.next_u32() % 1000 {
            _ if skipped.is_some() => Outcome::Skipped {
                reason: skipped.unwrap_or_default(),
            },
            0 | 1 if course.is_none() => Outcome::Failed(Failure {
                reason: "the simulated device refused its answer".to_owned(),
                board: false,
                exit_code: None,
            }),
            _ => Outcome::Measured(Box::new(Measured {
                samples_ns,
                plan: vec![PlannedPart {
                    id: "p0".to_owned(),
                    device: "sim:0".to_owned(),
                    nodes: 100,
                    ns: median,
                    provenance: "measured".to_owned(),
                }],
                predicted_ns: Some(median),
                emulated: true,
                ..Measured::default()
            })),
        };
        let waited = course.as_ref().map(|course| course.wait).unwrap_or_default();
        let load = State {
            load_by_others_millis: course.as_ref().map(|course| course.load_by_others_millis),
            ..State::default()
        };
        let record = Record {
            format: FORMAT,
            run: assignment.run.clone(),
            item: assignment.item.clone(),
            place: assignment.place.clone(),
            board: Board {
                soc: Some("simulated".to_owned()),
                os: "none".to_owned(),
                arch: "none".to_owned(),
                cores: 4,
                memory_bytes: 4 << 30,
                emulated: true,
                ..Board::default()
            },
            build: Build {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                commit: None,
                runner: runner.to_owned(),
            },
            attempt: assignment.attempt,
            started_s: (now + waited).as_secs(),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            before: load.clone(),
            after: load,
            outcome,
        };
        (record, waited + took)
    }
}

fn exit(code: i32, stderr: &str) -> Exit {
    Exit {
        code,
        stderr: stderr.to_owned(),
    }
}

fn cut() -> TransportError {
    TransportError::Disconnected {
        words: "the simulated connection was lost".to_owned(),
    }
}

impl Transport for Simulated {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn execute(&self, command: &Command, line: &mut dyn FnMut(&str)) -> Result<Exit, TransportError> {
        self.reach()?;
        let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
        match words[..] {
            [_, "keep", from, to, blake3] => {
                let mut state = self.state();
                match state.files.remove(from) {
                    None => Ok(exit(6, "no such file")),
                    Some((_, found)) if found != blake3 => Ok(exit(4, "other bytes arrived")),
                    Some(file) => {
                        state.files.insert(to.to_owned(), file);
                        Ok(exit(0, ""))
                    }
                }
            }
            [_, "hash", ref paths @ ..] => {
                for path in paths {
                    let found = self.state().files.get(*path).cloned();
                    match found {
                        Some((bytes, hash)) => line(&format!("{hash} {bytes} {path}")),
                        None => line(&format!("none 0 {path}")),
                    }
                }
                Ok(exit(0, ""))
            }
            [_, "journal", ..] => {
                for record in self.journal() {
                    self.say(&record, line);
                }
                Ok(exit(0, ""))
            }
            [_, "stop", ..] => {
                self.state().stopped = true;
                Ok(exit(0, ""))
            }
            [_, "profile", ..] => {
                line("none");
                Ok(exit(0, ""))
            }
            [program, "serve", ..] => self.serve(program, &command.stdin, line),
            _ => Ok(exit(2, "a simulated board knows no such command")),
        }
    }

    fn put(&self, blob: &Blob, to: &str, sent: &Counter) -> Result<(), TransportError> {
        self.reach()?;
        self.clock.sleep(Duration::from_secs(blob.bytes / RATE));
        let mut state = self.state();
        if state.full {
            return Err(TransportError::NoSpace {
                words: "No space left on device".to_owned(),
            });
        }
        let fault = state.random.next_u32() % 1000;
        if fault < self.faults.partial {
            return Err(TransportError::Partial {
                path: to.to_owned(),
                sent: blob.bytes,
                arrived: blob.bytes / 2,
            });
        }
        let is_corrupt = fault < self.faults.partial + self.faults.corrupt;
        let hash = if is_corrupt {
            "0".repeat(64)
        } else {
            blob.blake3.clone()
        };
        state.bytes_put += blob.bytes;
        sent.fetch_add(blob.bytes, Ordering::Relaxed);
        state.files.insert(to.to_owned(), (blob.bytes, hash));
        Ok(())
    }

    fn get(&self, from: &str, _: &Path) -> Result<u64, TransportError> {
        self.reach()?;
        Err(TransportError::Failed {
            what: format!("getting {from}"),
            code: 1,
            words: "a simulated board has no such file".to_owned(),
        })
    }

    fn lengths(&self, paths: &[String]) -> Result<Vec<Option<u64>>, TransportError> {
        self.reach()?;
        let state = self.state();
        Ok(paths.iter().map(|path| Some(state.files.get(path)?.0)).collect())
    }

    fn probe(&self) -> Result<String, TransportError> {
        self.reach()?;
        Ok("simulated none".to_owned())
    }

    fn prepare(&self, folder: &str) -> Result<Prepared, TransportError> {
        self.reach()?;
        Ok(Prepared {
            folder: folder.to_owned(),
            system: "simulated none".to_owned(),
            clock_s: None,
        })
    }

    fn has(&self, blob: &Blob, at: &str) -> Result<bool, TransportError> {
        self.reach()?;
        let state = self.state();
        Ok(state.files.get(at).is_some_and(|(_, hash)| *hash == blob.blake3))
    }
}
