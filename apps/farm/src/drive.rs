//! Drives a run: one thread per board takes items, sends their files, and stores their records.
//!
//! Invariants:
//! 1. A record is in the run's folder before its item counts as done.
//! 2. A lost connection is retried; the runner's journal then reports the work done meanwhile, and nothing is
//!    measured twice.
//! 3. Every item ends with a record from its board, or with one that lists the lost boards.
//!
//! Not here: assignment of items (`dispatch`), their execution on a board (`apps/farm/runner`). Start reading at
//! [`drive`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use polychip_farm_record::{
    Assignment, Board, Build, FORMAT, Failure, Item, Job, Outcome, PluginFile, Record, State, Waiting,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::blob::Blob;
use crate::clock::Clock;
use crate::dispatch::{BoardIndex, Dispatch, ItemIndex, Next};
use crate::equipped::Equipped;
use crate::hold::{self, BoardHold};
use crate::news::News;
use crate::run_folder::{RunError, RunFolder};
use crate::survey;
use crate::transport::{Command, Counter, Exit, Prepared, TransportError};
use crate::upload::{self, Sent};

/// How a run is driven.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Items that a board gets at once, at most.
    pub batch: usize,
    /// Tries to reach a board without anything new from it, before it counts as lost.
    pub tries: u32,
    /// Wait before the second try; it doubles from try to try.
    pub pause: Duration,
    /// A runner that says nothing for so long is cut off; it speaks every few seconds.
    pub silence: Duration,
    /// Longest wait for a board that another one uses.
    pub busy: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            batch: 16,
            tries: 5,
            pause: Duration::from_secs(2),
            silence: Duration::from_secs(60),
            busy: Duration::from_secs(600),
        }
    }
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Summary {
    /// Items finished by an earlier call.
    pub known_before: u64,
    /// Measured items.
    pub measured: u64,
    /// Items that their devices do not run.
    pub refused: u64,
    /// Items that failed by themselves.
    pub failed: u64,
    /// Items that no board was fit for.
    pub skipped: u64,
    /// Items with failed or lost boards.
    pub lost: u64,
    /// Items that are left: the run was broken off.
    pub left: u64,
    /// Lost boards with the reason.
    pub lost_boards: BTreeMap<String, String>,
    /// Profile databases that could not be fetched, by board, with the reason.
    pub missing_profiles: BTreeMap<String, String>,
    /// Files sent to boards.
    pub sent: Sent,
}

/// What the threads share.
struct Shared<'a> {
    folder: &'a RunFolder,
    boards: &'a [Equipped],
    models: &'a BTreeMap<String, Blob>,
    settings: &'a Settings,
    clock: &'a Clock,
    watch: &'a (dyn Fn(&News<'_>) + Sync),
    stop: &'a AtomicBool,
    dispatch: Mutex<Dispatch>,
    summary: Mutex<Summary>,
    broken: Mutex<Option<RunError>>,
    /// Boards whose clock was reported.
    warned: Mutex<BTreeSet<BoardIndex>>,
}

/// Stop commands for the runner of a batch, at most: it may not listen yet at the first one.
const MOST_STOPS: u32 = 3;
/// Longest time of such a command.
const STOPPING: Duration = Duration::from_secs(10);
/// How often a board without work looks whether any came back.
const LOOK: Duration = Duration::from_secs(1);
/// Longest copy of a profile: a writer is waited for.
const COPY: Duration = Duration::from_secs(120);
/// Longest time between two tries to reach a board.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a runner waits at a time for another one on its board; below `Settings::silence`.
const WAIT: Duration = Duration::from_secs(30);

/// Does what the folder's header asks for and is not recorded yet. `models` and files of inputs are by BLAKE3. `stop`
/// breaks the run off: a board finishes the item that it measures, and begins no other.
///
/// # Errors
/// The folder cannot be written. What boards hold in their journals is heard by the next call.
pub fn drive(
    folder: &RunFolder,
    boards: &[Equipped],
    models: &BTreeMap<String, Blob>,
    settings: &Settings,
    clock: &Clock,
    stop: &AtomicBool,
    watch: &(dyn Fn(&News<'_>) + Sync),
) -> Result<Summary, RunError> {
    let recalled = recall(folder, boards, clock, watch)?;
    let standing = folder.standing(&recalled);
    let index = |name: &String| boards.iter().position(|board| board.member.place.name == *name);
    let mut summary = Summary::default();
    // a finished item gets no boards, which takes it out at once
    let items = folder
        .header()
        .items
        .iter()
        .zip(&standing)
        .map(|(wanted, (tries, done))| {
            let places: Vec<BoardIndex> = if *done {
                Vec::new()
            } else {
                wanted.places.iter().filter_map(index).map(BoardIndex).collect()
            };
            (tries + 1, places)
        });
    let mut dispatch = Dispatch::new(boards.len(), items);
    let orphans = dispatch.without_board();
    summary.known_before = standing.iter().filter(|(_, done)| *done).count() as u64;
    let shared = Shared {
        folder,
        boards,
        models,
        settings,
        clock,
        watch,
        stop,
        dispatch: Mutex::new(dispatch),
        summary: Mutex::new(summary),
        broken: Mutex::new(None),
        warned: Mutex::default(),
    };
    for item in orphans {
        if !standing[item.0].1 {
            shared.give_up(item, "none of its boards takes part in the run");
        }
    }
    std::thread::scope(|scope| {
        for board in (0..boards.len()).map(BoardIndex) {
            let presence = clock.enter();
            let shared = &shared;
            let tend = move || {
                let _presence = presence;
                shared.tend(board);
            };
            let thread = std::thread::Builder::new().stack_size(STACK);
            if let Err(error) = thread.spawn_scoped(scope, tend) {
                shared.lose(board, &format!("cannot start a thread: {error}"));
            }
        }
    });
    if let Some(error) = lock(&shared.broken).take() {
        return Err(error);
    }
    let mut summary = shared
        .summary
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    summary.left = lock(&shared.dispatch).open() as u64;
    Ok(summary)
}

/// What boards wrote down of a run that was broken off, and the folder lacks; it is in the folder now.
fn recall(
    folder: &RunFolder,
    boards: &[Equipped],
    clock: &Clock,
    watch: &(dyn Fn(&News<'_>) + Sync),
) -> Result<Vec<Record>, RunError> {
    if !folder.is_resumed() {
        return Ok(Vec::new());
    }
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for board in boards {
            let presence = clock.enter();
            let found = &found;
            let ask = move || {
                let _presence = presence;
                match journal(folder, board) {
                    Ok(records) => lock(found).extend(records),
                    Err(error) => watch(&News::Trouble {
                        place: &board.member.place.name,
                        words: &format!("its journal cannot be read: {error}"),
                    }),
                }
            };
            // without a thread, what the board holds is heard when it is given the item again
            drop(
                std::thread::Builder::new()
                    .stack_size(STACK)
                    .spawn_scoped(scope, ask),
            );
        }
    });
    let mut recalled = Vec::new();
    for record in found.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let is_of_run = record.run == folder.header().id;
        if is_of_run && !folder.recorded().contains(&record) && !recalled.contains(&record) {
            folder.append(&record)?;
            let next = if record.outcome.is_final() {
                Next::Done
            } else {
                Next::Elsewhere
            };
            watch(&News::Recorded {
                record: &record,
                next,
            });
            recalled.push(record);
        }
    }
    Ok(recalled)
}

/// The records of a board's journal; none where it has no runner yet.
fn journal(folder: &RunFolder, board: &Equipped) -> Result<Vec<Record>, TransportError> {
    let member = &board.member;
    let prepared = member.transport.prepare(&member.folder)?;
    let runner = upload::place(&prepared.folder, &board.runner);
    if !member.transport.has(&board.runner, &runner)? {
        let lengths = member.transport.lengths(std::slice::from_ref(&runner))?;
        if lengths.iter().all(Option::is_none) {
            return Ok(Vec::new());
        }
        // the board cannot verify it, for lack of a program for SHA-256, or it is damaged
        upload::supply(
            &*member.transport,
            &prepared.folder,
            &board.runner,
            &[],
            &mut |_, _| {},
        )?;
    }
    let mut command = Command::new([
        &*runner,
        "journal",
        "--folder",
        &prepared.folder,
        &folder.header().id,
    ]);
    command.time_limit = Some(Duration::from_secs(60));
    let mut records = Vec::new();
    let exit = member.transport.execute(&command, &mut |line| {
        // what is no record is the item's matter, when it is given out again
        records.extend(serde_json::from_str::<Record>(line));
    })?;
    match exit.code {
        0 => Ok(records),
        code => Err(TransportError::Failed {
            what: "reading the journal".to_owned(),
            code,
            words: exit.stderr,
        }),
    }
}

/// Stack of a board's thread: there may be hundreds, and what one does here needs little.
const STACK: usize = 512 << 10;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a batch ended early.
enum Trouble {
    /// Another try may go well.
    Passing(String),
    /// A runner that was not stopped when the connection was lost still works there: it will end, and its journal has what it did.
    Busy(String),
    /// The board is of no more use.
    Lasting(String),
    /// The run's folder cannot be written.
    Broken,
}

impl From<TransportError> for Trouble {
    fn from(error: TransportError) -> Trouble {
        if error.may_pass() {
            Trouble::Passing(error.to_string())
        } else {
            Trouble::Lasting(error.to_string())
        }
    }
}

impl Shared<'_> {
    fn name(&self, board: BoardIndex) -> &str {
        &self.boards[board.0].member.place.name
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || lock(&self.broken).is_some()
    }

    /// All that one board does.
    fn tend(&self, board: BoardIndex) {
        let lacks_profile = self.lacks_profile(board);
        if !lacks_profile && !lock(&self.dispatch).may_come(board) {
            return;
        }
        let held = match self.hold(board) {
            Ok(Some(held)) => held,
            Ok(None) => {
                if lacks_profile {
                    let words = "the board was in use".to_owned();
                    lock(&self.summary)
                        .missing_profiles
                        .insert(self.name(board).to_owned(), words);
                }
                return;
            }
            Err(words) => return self.lose(board, &words),
        };
        if lacks_profile {
            self.fetch_profile(board);
        }
        while lock(&self.dispatch).may_come(board) && !self.is_over() {
            let items = lock(&self.dispatch).take(board, self.settings.batch);
            if items.is_empty() {
                self.clock.sleep(LOOK);
                continue;
            }
            let has_profiles = items.iter().any(|item| self.item(*item).job == Job::Profile);
            let done = self.batch(board, &items);
            // what a later fault could take away is fetched now; runs that are only timed write rows, too
            if has_profiles || self.folder.profile_of(self.name(board)).exists() {
                self.fetch_profile(board);
            }
            if let Err(words) = done {
                self.lose(board, &words);
                break;
            }
        }
        drop(held);
    }

    /// Whether the run of before ended between a board's last profile and its coming here.
    fn lacks_profile(&self, board: BoardIndex) -> bool {
        let name = self.name(board);
        let is_one = |record: &Record| {
            let measured = matches!(record.outcome, Outcome::Measured(_));
            measured && record.item.job == Job::Profile && record.place.name == name
        };
        self.folder.recorded().iter().any(is_one) && !self.folder.profile_of(name).exists()
    }

    /// Waits until the board is ours; none where it is no longer needed.
    fn hold(&self, board: BoardIndex) -> Result<Option<BoardHold>, String> {
        let mut waited = Duration::ZERO;
        loop {
            match hold::take(&self.boards[board.0].member.hold) {
                Ok(held) => return Ok(Some(held)),
                Err(_) if self.is_over() || !lock(&self.dispatch).may_come(board) => return Ok(None),
                Err(hold::error::HoldError::InUse { words }) if waited < self.settings.busy => {
                    if waited.is_zero() {
                        self.trouble(board, &format!("{words}; waiting"));
                    }
                    waited += self.settings.pause;
                    self.clock.sleep(self.settings.pause);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn item(&self, item: ItemIndex) -> &Item {
        &self.folder.header().items[item.0].item
    }

    /// Does a batch, however often the connection is lost; an error where the board is given up.
    fn batch(&self, board: BoardIndex, items: &[ItemIndex]) -> Result<(), String> {
        let mut left: Vec<ItemIndex> = items.to_vec();
        let (mut failures, mut busy) = (0, 0);
        let mut waited = Duration::ZERO;
        let reconnect = self.boards[board.0].member.reconnect;
        loop {
            let before = left.len();
            let done = self.once(board, &mut left);
            if self.is_over() {
                return Ok(());
            }
            let words = match done {
                Ok(()) if left.is_empty() => return Ok(()),
                Ok(()) => "the runner ended without a record of its last items".to_owned(),
                Err(Trouble::Passing(words)) => words,
                // each time it was waited for: as long as all of the batch may take, it is no failure
                Err(Trouble::Busy(words)) if busy < self.times_busy(items.len()) => {
                    busy += 1;
                    self.trouble(board, &words);
                    continue;
                }
                Err(Trouble::Busy(words)) => words,
                Err(Trouble::Lasting(words)) => return Err(words),
                Err(Trouble::Broken) => return Ok(()),
            };
            if left.len() < before {
                (failures, waited) = (0, Duration::ZERO);
            }
            failures += 1;
            let is_over = match reconnect {
                Some(longest) => waited >= longest,
                None => failures >= self.settings.tries,
            };
            if is_over {
                return Err(format!(
                    "{words} ({failures} times without progress, in {} s)",
                    waited.as_secs()
                ));
            }
            self.trouble(board, &words);
            let pause = self.settings.pause * 2u32.saturating_pow(failures - 1);
            // a board that restarts comes back within minutes
            let pause = reconnect.map_or(pause, |longest| {
                pause.min(LONGEST_PAUSE).min(longest.saturating_sub(waited))
            });
            waited += pause;
            self.pause(pause);
        }
    }

    /// Sleeps; on the machine's time, not longer than the run lasts.
    fn pause(&self, time: Duration) {
        if self.clock.elapsed().is_some() {
            return self.clock.sleep(time);
        }
        let mut left = time;
        while !left.is_zero() && !self.is_over() {
            let part = left.min(LOOK);
            self.clock.sleep(part);
            left -= part;
        }
    }

    /// Has the board's runner end before its next item, where it knows the command; if not, it ends after its batch.
    fn stop_runner(&self, board: BoardIndex, folder: &str) {
        let Equipped { member, runner, .. } = &self.boards[board.0];
        let program = upload::place(folder, runner);
        let mut command = Command::new([&*program, "stop", "--folder", folder, &self.folder.header().id]);
        command.time_limit = Some(STOPPING);
        // what cannot be stopped ends by itself, and its journal has what it did
        drop(member.transport.execute(&command, &mut |_| {}));
    }

    /// How often the runner of before is waited for, at least, while it may do so many items.
    fn times_busy(&self, items: usize) -> u64 {
        let longest = u64::from(self.folder.effort().time_limit_s).saturating_mul(items as u64);
        1 + longest / WAIT.as_secs()
    }

    /// Sends what the board lacks, and has the items done; takes those out that are recorded.
    fn once(&self, board: BoardIndex, left: &mut Vec<ItemIndex>) -> Result<(), Trouble> {
        let equipped = &self.boards[board.0];
        let member = &equipped.member;
        let transport = &*member.transport;
        let Prepared {
            folder,
            system,
            clock_s,
        } = transport.prepare(&member.folder)?;
        if let Some(words) = equipped.runner.is_foreign_to(&system) {
            return Err(Trouble::Lasting(words));
        }
        let mut blobs: Vec<&Blob> = equipped.plugins.iter().collect();
        blobs.extend(&equipped.conform);
        for item in left.iter() {
            let item = self.item(*item);
            let model = item.model.iter().map(|model| &model.blake3);
            let inputs = item.settings.inputs.iter().map(|file| &file.blake3);
            blobs.extend(model.chain(inputs).filter_map(|blake3| self.models.get(blake3)));
        }
        if let Some(ahead) = clock_s.and_then(survey::clock_ahead_s) {
            self.warn_of_clock(board, ahead);
        }
        let mut sending = |blob: &Blob, sent: &Counter| {
            (self.watch)(&News::Sending {
                place: self.name(board),
                blob,
                sent,
            });
        };
        let sent = upload::supply(transport, &folder, &equipped.runner, &blobs, &mut sending);
        (self.watch)(&News::Sent {
            place: self.name(board),
        });
        lock(&self.summary).sent.add(sent?);
        let mut command = Command::new([
            &*upload::place(&folder, &equipped.runner),
            "serve",
            "--folder",
            &folder,
            "--wait",
            &WAIT.as_secs().to_string(),
        ]);
        command.environment = member.environment.clone();
        command.silence_limit = Some(self.settings.silence);
        command.stdin = self.list(board, &folder, left);
        let mut broken = None;
        let mut foreign = None;
        let mut stops = 0;
        let exit = transport.execute(&command, &mut |line| {
            if stops < MOST_STOPS && self.stop.load(Ordering::Relaxed) {
                stops += 1;
                self.stop_runner(board, &folder);
            }
            // an empty line is a sign of life from the runner
            if line.is_empty() || broken.is_some() {
                return;
            }
            match serde_json::from_str::<Record>(line) {
                Ok(record) => match self.recorded(board, left, &record) {
                    Ok(()) => {}
                    Err(error) => broken = Some(error),
                },
                Err(error) => match serde_json::from_str::<Waiting>(line) {
                    Ok(Waiting { item, waiting }) => (self.watch)(&News::Waiting {
                        place: self.name(board),
                        item: &item,
                        words: &waiting,
                        longest: Duration::from_secs(u64::from(member.limits.patience_s)),
                    }),
                    Err(_) => foreign = Some(format!("the runner printed {line:?}: {error}")),
                },
            }
        });
        if let Some(error) = broken {
            lock(&self.broken).get_or_insert(error);
            return Err(Trouble::Broken);
        }
        let Exit { code, stderr } = exit?;
        let words = stderr.lines().last().unwrap_or("it printed nothing").to_owned();
        match code {
            0 => foreign.map_or(Ok(()), |words| Err(Trouble::Passing(words))),
            3 => Err(Trouble::Busy(words)),
            // the disk is full: no more is measured that could not be kept
            5 => Err(Trouble::Lasting(words)),
            code => Err(Trouble::Passing(format!(
                "the runner ended with exit code {code}: {words}"
            ))),
        }
    }

    /// What the runner reads.
    fn list(&self, board: BoardIndex, folder: &str, items: &[ItemIndex]) -> Vec<u8> {
        let equipped = &self.boards[board.0];
        let member = &equipped.member;
        let on_board = |blob: &Blob| upload::place(folder, blob);
        let plugins: Vec<PluginFile> = equipped
            .plugins
            .iter()
            .map(|blob| PluginFile {
                name: blob.name.clone(),
                path: on_board(blob),
            })
            .collect();
        let inputs = |item: &Item| {
            let files = item.settings.inputs.iter();
            let files = files.filter_map(|file| {
                let blob = self.models.get(&file.blake3)?;
                Some((file.input.clone(), on_board(blob)))
            });
            files.collect()
        };
        let mut list = Vec::new();
        for index in items {
            let item = self.item(*index);
            let model = item
                .model
                .as_ref()
                .and_then(|model| self.models.get(&model.blake3));
            let assignment = Assignment {
                format: FORMAT,
                run: self.folder.header().id.clone(),
                place: member.place.clone(),
                item: item.clone(),
                attempt: lock(&self.dispatch).attempt(*index),
                model: model.map(on_board),
                inputs: inputs(item),
                plugins: plugins.clone(),
                conform: equipped.conform.as_ref().map(on_board),
                effort: self.folder.effort().clone(),
                limits: member.limits.clone(),
                emulated: member.emulated,
                reports_waiting: true,
            };
            // an assignment is always JSON: no map of it has keys that are not text
            list.extend(serde_json::to_vec(&assignment).unwrap_or_default());
            list.push(b'\n');
        }
        list
    }

    /// Keeps a record, and then counts its item.
    fn recorded(
        &self,
        board: BoardIndex,
        left: &mut Vec<ItemIndex>,
        record: &Record,
    ) -> Result<(), RunError> {
        // what is not of this batch was heard before
        let Some(at) = left.iter().position(|item| *self.item(*item) == record.item) else {
            return Ok(());
        };
        self.folder.append(record)?;
        let item = left.remove(at);
        let Some(next) = lock(&self.dispatch).reported(board, item, &record.outcome) else {
            return Ok(());
        };
        if next != Next::Elsewhere {
            let mut summary = lock(&self.summary);
            match &record.outcome {
                Outcome::Measured(_) => summary.measured += 1,
                Outcome::Refused { .. } => summary.refused += 1,
                Outcome::Failed(failure) if failure.board => summary.lost += 1,
                Outcome::Failed(_) => summary.failed += 1,
                Outcome::Skipped { .. } => summary.skipped += 1,
            }
        }
        (self.watch)(&News::Recorded { record, next });
        Ok(())
    }

    /// Once per board: its records tell when they were made by its clock.
    fn warn_of_clock(&self, board: BoardIndex, ahead_s: i64) {
        if lock(&self.warned).insert(board) {
            let side = if ahead_s > 0 { "ahead of" } else { "behind" };
            let words = format!(
                "its clock is {} s {side} this host's: records of this board and of others cannot be ordered in time",
                ahead_s.abs()
            );
            self.trouble(board, &words);
        }
    }

    fn trouble(&self, board: BoardIndex, words: &str) {
        (self.watch)(&News::Trouble {
            place: self.name(board),
            words,
        });
    }

    /// A board is lost: its items go to interchangeable boards, or are recorded as lost with it.
    fn lose(&self, board: BoardIndex, words: &str) {
        let given_up = lock(&self.dispatch).lost(board);
        let name = self.name(board).to_owned();
        lock(&self.summary)
            .lost_boards
            .insert(name.clone(), words.to_owned());
        (self.watch)(&News::Lost {
            place: &name,
            words,
            given_up: given_up.len(),
        });
        for item in given_up {
            self.give_up(
                item,
                &format!("board {name} is unavailable ({words}), and no other board can run the item"),
            );
        }
    }

    /// Records that an item ended without a board that may do it.
    fn give_up(&self, item: ItemIndex, reason: &str) {
        let wanted = &self.folder.header().items[item.0];
        let places = &self.folder.header().places;
        // under the first board that might have done it
        let place = wanted
            .places
            .first()
            .and_then(|name| places.iter().find(|place| place.name == *name));
        lock(&self.summary).lost += 1;
        let Some(place) = place else { return };
        let index = self
            .boards
            .iter()
            .find(|board| board.member.place.name == place.name);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let record = Record {
            format: FORMAT,
            run: self.folder.header().id.clone(),
            item: wanted.item.clone(),
            place: place.clone(),
            board: Board::default(),
            build: Build {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                commit: None,
                runner: index.map_or_else(String::new, |board| board.runner.blake3.clone()),
            },
            attempt: lock(&self.dispatch).attempt(item),
            started_s: now.map_or(0, |since| since.as_secs()),
            took_ms: 0,
            before: State::default(),
            after: State::default(),
            outcome: Outcome::Failed(Failure {
                reason: reason.to_owned(),
                board: true,
                exit_code: None,
            }),
        };
        if let Err(error) = self.folder.append(&record) {
            lock(&self.broken).get_or_insert(error);
        }
        (self.watch)(&News::Recorded {
            record: &record,
            next: Next::GivenUp,
        });
    }

    /// Brings the place's profile database here.
    fn fetch_profile(&self, board: BoardIndex) {
        let name = self.name(board);
        let got = self.profile_copy(board);
        let mut summary = lock(&self.summary);
        match got {
            Ok(()) => drop(summary.missing_profiles.remove(name)),
            Err(error) => drop(
                summary
                    .missing_profiles
                    .insert(name.to_owned(), error.to_string()),
            ),
        }
    }

    /// Has the runner copy the profile with all that is written, also by a runner that still works, and gets the copy.
    fn profile_copy(&self, board: BoardIndex) -> Result<(), TransportError> {
        let Equipped { member, runner, .. } = &self.boards[board.0];
        let (transport, run) = (&*member.transport, &self.folder.header().id);
        let prepared = transport.prepare(&member.folder)?;
        // cleaning the board may have deleted it
        upload::supply(transport, &prepared.folder, runner, &[], &mut |_, _| {})?;
        let program = upload::place(&prepared.folder, runner);
        let mut command = Command::new([&*program, "profile", "--folder", &prepared.folder, run]);
        command.time_limit = Some(COPY);
        let mut copy = None;
        let exit = transport.execute(&command, &mut |line| copy = Some(line.to_owned()))?;
        match (exit.code, copy.as_deref()) {
            // every item of the batch was refused or skipped: there is none
            (0, Some("none")) => Ok(()),
            (0, Some(copy)) => {
                let from = format!("{}/runs/{run}/{copy}", prepared.folder);
                let to = self.folder.profile_of(self.name(board));
                transport.get(&from, &to).map(drop)
            }
            (code, _) => Err(TransportError::Failed {
                what: "copying the profile".to_owned(),
                code,
                words: exit.stderr,
            }),
        }
    }
}
