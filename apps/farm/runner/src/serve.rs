//! Items from standard input, records to standard output.
//!
//! Invariants:
//! 1. A record is in the journal before it is printed; a lost reader stops nothing.
//! 2. An item whose process ends without an outcome, or not at all, fails with the system's reason.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use polychip::Profile;
use polychip_farm_record::{
    Assignment, Board, Build, FORMAT, Failure, Job, Limits, Outcome, Record, State, Waiting,
};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::conditions::{Conditions, contended};
use crate::item::PROFILE;
use crate::journal::{self, Journal};
use crate::measuring::ItemResult;
use crate::output;
use crate::{NO_JOURNAL, board, failure, store};

/// The runner's words of command.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The runner's own folder on this board
    #[arg(long)]
    folder: PathBuf,
    /// Folder with sensor files
    #[arg(long, default_value = "/")]
    sensors: PathBuf,
    /// Seconds to wait for another runner
    #[arg(long, default_value_t = 60)]
    wait: u64,
}

/// Times that a benchmark is measured where others used the board meanwhile.
const TRIES: u32 = 3;
/// Looks at a board that is waited for, until the next sign of life: a host that was interrupted answers it.
const LOOKS_ALIVE: u64 = 4;
/// Time between two looks at an item's process.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("standard input")?;
    let assignments = read(&text)?;
    let Some(first) = assignments.first() else {
        return Ok(());
    };
    let folder = arguments.folder.join("runs").join(&first.run);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    // also while another runner is waited for
    drop(
        std::thread::Builder::new()
            .name("alive".into())
            .spawn(output::say_alive),
    );
    let mut journal = Journal::open(&folder.join(journal::NAME), Duration::from_secs(arguments.wait))?;
    let program = std::env::current_exe().context("this program's path")?;
    let runner = Runner {
        build: Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("POLYCHIP_COMMIT").map(str::to_owned),
            runner: store::digest(&program).context("this program's file")?.0,
        },
        board: board::of(&arguments.sensors),
        sensors: arguments.sensors.clone(),
        program,
        folder,
    };
    // that of an earlier runner, which has ended
    let _ = std::fs::remove_file(runner.folder.join(STOP));
    let mut conditions = Conditions::new(&arguments.sensors)?;
    let mut verified = store::Verified::default();
    for assignment in &assignments {
        if let Some(record) = journal.find(assignment) {
            output::print_line(record.to_line().trim_end());
            continue;
        }
        if runner.is_stopped() {
            break;
        }
        // before each item: a batch takes hours
        let plugins = assignment.plugins.iter().map(|plugin| &plugin.path);
        let files = assignment.model.iter().chain(&assignment.conform);
        for path in files.chain(assignment.inputs.values()).chain(plugins) {
            verified.check(Path::new(path))?;
        }
        let Some(record) = runner.record(assignment, &mut conditions) else {
            break;
        };
        let line = record.to_line();
        let kept = journal.append(record);
        output::print_line(line.trim_end());
        kept.map_err(|error| failure(NO_JOURNAL, format!("the journal cannot be written: {error}")))?;
    }
    Ok(())
}

/// Name of the file that ends a run's runner before its next item, in the folder of the run.
const STOP: &str = "stop";

/// Has the runner that works on this run, if there is one, end before its next item.
pub(crate) fn stop(folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(STOP);
    std::fs::write(&path, "").with_context(|| path.display().to_string())
}

/// Name of the copy of a run's profile, in the folder of the run.
const COPY: &str = "profile.copy";

/// Copies the profile of a run's folder for the host, with all rows that were written so far: a runner that still works
/// there, and one that was killed, leave some in a log beside the file. Prints the copy's name, or `none`.
pub(crate) fn copy_profile(folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(PROFILE);
    if !path.exists() {
        output::print_line("none");
        return Ok(());
    }
    let copy = folder.join(COPY);
    match std::fs::remove_file(&copy) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| copy.display().to_string());
        }
        _ => {}
    }
    Profile::open(&path)?.copy_to(&copy)?;
    output::print_line(COPY);
    Ok(())
}

/// The items of a list; a last line without its end was cut off on the way, and is left out.
fn read(text: &str) -> anyhow::Result<Vec<Assignment>> {
    let mut assignments: Vec<Assignment> = Vec::new();
    let whole = text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'));
    for (index, line) in whole.enumerate().filter(|(_, line)| !line.is_empty()) {
        let at = index + 1;
        let assignment: Assignment =
            serde_json::from_str(line).with_context(|| format!("line {at} is not a farm item"))?;
        anyhow::ensure!(
            assignment.format <= FORMAT,
            "line {at} is an item of format {}; this runner reads formats up to {FORMAT}",
            assignment.format
        );
        if let Some(first) = assignments.first() {
            anyhow::ensure!(
                first.run == assignment.run,
                "line {at} belongs to run {:?}, the first one to {:?}",
                assignment.run,
                first.run
            );
        }
        assignments.push(assignment);
    }
    if let Some(first) = assignments.first() {
        let is_name = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
        anyhow::ensure!(is_name(&first.run), "{:?} is not a valid run name", first.run);
    }
    Ok(assignments)
}

/// What all records of this call share.
struct Runner {
    build: Build,
    board: Board,
    sensors: PathBuf,
    program: PathBuf,
    folder: PathBuf,
}

impl Runner {
    /// Whether the host wants no further item of this run.
    fn is_stopped(&self) -> bool {
        self.folder.join(STOP).exists()
    }

    /// Does an item; none if the runner is stopped while it waits for the board.
    fn record(&self, assignment: &Assignment, conditions: &mut Conditions) -> Option<Record> {
        let started_s = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let start = Instant::now();
        let (before, after, outcome) = self.outcome(assignment, conditions)?;
        let mut board = self.board.clone();
        board.emulated |= assignment.emulated;
        Some(Record {
            format: FORMAT,
            run: assignment.run.clone(),
            item: assignment.item.clone(),
            place: assignment.place.clone(),
            board,
            build: self.build.clone(),
            attempt: assignment.attempt,
            started_s,
            took_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            before,
            after,
            outcome,
        })
    }

    fn outcome(
        &self,
        assignment: &Assignment,
        conditions: &mut Conditions,
    ) -> Option<(State, State, Outcome)> {
        let limits = match assignment.item.job {
            // nothing is timed
            Job::Conformance => Limits {
                load_by_others_millis: 1000,
                throttled: true,
                ..assignment.limits.clone()
            },
            _ => assignment.limits.clone(),
        };
        let mut looks = 0_u64;
        let mut is_over = |reason: &str| {
            if assignment.reports_waiting {
                if looks == 0 {
                    let waiting = Waiting {
                        item: assignment.item.clone(),
                        waiting: reason.to_owned(),
                    };
                    output::print_line(&serde_json::to_string(&waiting).unwrap_or_default());
                } else if looks.is_multiple_of(LOOKS_ALIVE) {
                    output::print_line("");
                }
            }
            looks += 1;
            self.is_stopped()
        };
        let mut tries = 0;
        loop {
            tries += 1;
            let (before, unfit) = conditions.wait(&limits, &mut is_over)?;
            if let Some(reason) = unfit {
                return Some((before.clone(), before, Outcome::Skipped { reason }));
            }
            let (outcome, others) = self.child(assignment);
            let mut after = conditions.now();
            after.load_by_others_millis = others;
            let was_contended = match &outcome {
                Outcome::Measured(measured) if !measured.samples_ns.is_empty() => contended(&after, &limits),
                _ => None,
            };
            match was_contended {
                Some(reason) if tries == TRIES => {
                    let reason = format!("during the measurement, {tries} times: {reason}");
                    return Some((before, after, Outcome::Skipped { reason }));
                }
                Some(reason) => eprintln!("{}: measured again: {reason}", assignment.item),
                None => return Some((before, after, outcome)),
            }
        }
    }

    /// Does an item in a process of its own; its outcome, and what others used of the processors meanwhile.
    fn child(&self, assignment: &Assignment) -> (Outcome, Option<u32>) {
        let path = self.folder.join("outcome.json");
        let _ = std::fs::remove_file(&path);
        let status = match self.spawn(assignment, &path) {
            Ok(status) => status,
            Err(error) => return (failed(format!("{error:#}"), true, None), None),
        };
        match (std::fs::read(&path), status) {
            (Ok(bytes), Ended::ByItself(status)) if status.success() => {
                match serde_json::from_slice::<ItemResult>(&bytes) {
                    Ok(answer) => (answer.outcome, answer.others_millis),
                    Err(error) => (
                        failed(format!("its outcome cannot be read: {error}"), true, None),
                        None,
                    ),
                }
            }
            (_, Ended::TimedOut) => {
                let seconds = assignment.effort.time_limit_s;
                (
                    failed(format!("stopped after the limit of {seconds} s"), false, None),
                    None,
                )
            }
            (_, Ended::ByItself(status)) => {
                // a code of the item's own means that its outcome could not be written: the board's matter
                let words = format!("its process ended with {status}");
                (failed(words, status.code().is_some(), status.code()), None)
            }
        }
    }

    fn spawn(&self, assignment: &Assignment, outcome: &Path) -> anyhow::Result<Ended> {
        let mut line = serde_json::to_vec(assignment)?;
        line.push(b'\n');
        // from a file, which no end of a pipe can block
        let list = self.folder.join("item.json");
        std::fs::write(&list, line).with_context(|| list.display().to_string())?;
        let mut child = Command::new(&self.program)
            .arg("item")
            .arg("--outcome")
            .arg(outcome)
            .arg("--folder")
            .arg(&self.folder)
            .arg("--sensors")
            .arg(&self.sensors)
            .stdin(File::open(&list)?)
            // vendors' libraries print
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            // with what it starts itself, so that all of it can be ended
            .process_group(0)
            .spawn()
            .context("the item's process")?;
        let end = Instant::now() + Duration::from_secs(u64::from(assignment.effort.time_limit_s));
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Ended::ByItself(status));
            }
            if Instant::now() >= end {
                kill_process_group(Pid::from_child(&child), Signal::KILL)?;
                child.wait()?;
                return Ok(Ended::TimedOut);
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// How an item's process ended.
enum Ended {
    ByItself(ExitStatus),
    TimedOut,
}

fn failed(reason: String, board: bool, exit_code: Option<i32>) -> Outcome {
    Outcome::Failed(Failure {
        reason,
        board,
        exit_code,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(run: &str, format: u32) -> String {
        format!(
            r#"{{"format":{format},"run":"{run}","place":{{"name":"a","transport":"local"}},"item":{{"job":"bench"}},"attempt":1}}"#
        ) + "\n"
    }

    #[test]
    fn lists_of_items_are_read_line_by_line() {
        let whole = line("r", 1) + &line("r", 1);
        assert_eq!(read(&whole).unwrap().len(), 2);
        // what was cut off on the way
        assert_eq!(read(&whole[..whole.len() - 5]).unwrap().len(), 1);
        for (bad, words) in [
            (line("r", 2), "reads formats up to 1"),
            (line("r", 1) + &line("s", 1), "line 2 belongs to run \"s\""),
            (line("../r", 1), "not a valid run name"),
            ("{}\n".to_owned(), "line 1 is not a farm item"),
        ] {
            let error = read(&bad).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
