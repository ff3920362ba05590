//! Every CI check in one command, each run by the program that a developer would call; another command runs the quick
//! ones.
//!
//! Invariants:
//! 1. A check or test that cannot run here is listed as skipped with the reason; if `POLYCHIP_EXPECT` lists its need,
//!    it fails.
//! 2. All checks run even if one fails; the exit status reports any failure.
//! 3. The output of each check is in `target/ci`, and the final lines summarize failures.
//! 4. The workspace is built once as a whole ([`programs`]): package by package, dependencies would be rebuilt with
//!    different features.
//! 5. With a time limit, checks that would begin later are listed as skipped; the essential ones, which come first, always
//!    run.
//! 6. Consecutive checks that keep one processor busy for minutes run concurrently; each one's output is shown as a
//!    whole when it ends.
//!
//! Start reading at `checks`.

mod checks;
pub(crate) mod cost;
mod log;
mod programs;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use checks::{Check, Step};
use cost::{Cost, Meter};
use log::{Log, Shown};
use programs::Programs;

use crate::root::root;
use crate::tally::Tally;

/// Names of what is here, separated by commas: a check or a test that does not find it fails.
const EXPECT: &str = "POLYCHIP_EXPECT";

/// Valid names in `POLYCHIP_EXPECT`: those of tests (`device-tests/test-requirements`), and those of checks.
const NEEDS: [&str; 39] = [
    "vulkan",
    "software-vulkan",
    "gpu-feature",
    "opencl",
    "openvino",
    "litert",
    "ocr",
    "coremltools",
    "qnn-library",
    "qnn-sdk",
    "models",
    "python",
    "c++",
    "clang",
    "cmake",
    "pkg-config",
    "sanitizers",
    "dma-buf",
    "rknn-toolkit",
    "ascend-headers",
    "crate-registry",
    "sshd",
    "tmpfs",
    "namespaces",
    "gguf",
    "smollm2",
    "openai",
    "browser",
    "cbindgen",
    "bindgen",
    "cargo-deny",
    "cargo-nextest",
    "mdbook",
    "advisories",
    "aarch64",
    "mesa25",
    "miri",
    "cargo-fuzz",
    "git",
];

/// So many checks are named as the dearest.
const DEAREST: usize = 10;
/// The most that all checks should take on two processors.
const BAR: Duration = Duration::from_secs(35 * 60);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only the checks whose name contains this text; repeatable
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Fuzzing time per target in seconds
    #[arg(long, default_value_t = 20)]
    fuzz_seconds: u32,
    /// Skip checks but the essential ones (format to documentation tests) that would begin later than this after the
    /// start, and list them
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<u64>,
}

#[derive(clap::Args)]
pub(crate) struct QuickOptions {
    /// Run only the checks whose name contains this text; repeatable
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
}

/// What a check came to.
enum Outcome {
    Passed,
    /// With what it printed, where it came to print.
    Failed(Option<Log>, String),
    Skipped(String),
}

/// A check that is over.
struct Done {
    name: &'static str,
    outcome: Outcome,
    tally: Tally,
    cost: Cost,
}

/// Runs every check, prints a summary and says whether none failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    all(
        checks::all(options.fuzz_seconds),
        &options.only,
        options.minutes.map(minutes),
    )
}

/// Runs the quick checks, which need no Python and no network but the registry's.
pub(crate) fn run_quick(options: &QuickOptions) -> Result<bool> {
    all(checks::quick(), &options.only, None)
}

fn all(checks: Vec<Check>, only: &[String], limit: Option<Duration>) -> Result<bool> {
    let expected = expected(&std::env::var(EXPECT).unwrap_or_default())?;
    let programs = Mutex::new(Programs::default());
    let mut results = Vec::new();
    let meter = Meter::start();
    let names: Vec<&str> = checks.iter().map(|check| check.name).collect();
    let unknown = |text: &&String| !names.iter().any(|name| name.contains(text.as_str()));
    if let Some(text) = only.iter().find(unknown) {
        bail!("no check is named {text:?}; the checks are: {}", names.join(", "));
    }
    let chosen = checks
        .into_iter()
        .filter(|check| only.is_empty() || only.iter().any(|text| check.name.contains(text)));
    let mut chosen = chosen.peekable();
    while let Some(first) = chosen.next() {
        let mut row = vec![first];
        if row[0].beside {
            row.extend(std::iter::from_fn(|| chosen.next_if(|check| check.beside)));
        }
        results.extend(in_row(row, (meter, limit), &expected, &programs));
    }
    summary(&results, meter.read())
}

/// Runs checks, as many at a time as there are processors where they are several, and gives them in this order.
fn in_row(
    row: Vec<Check>,
    (whole, limit): (Meter, Option<Duration>),
    expected: &[String],
    programs: &Mutex<Programs>,
) -> Vec<Done> {
    let (shown, most) = match row.len() {
        1 => (Shown::AsItComes, 1),
        _ => (
            Shown::AtTheEnd,
            std::thread::available_parallelism().map_or(1, usize::from),
        ),
    };
    let waiting = Mutex::new(row.into_iter().enumerate());
    let work = || {
        let mut done = Vec::new();
        loop {
            // the guard ends with the statement
            let next = lock(&waiting).next();
            let Some((index, check)) = next else {
                return done;
            };
            let beside = match shown {
                Shown::AsItComes => "",
                Shown::AtTheEnd => ", concurrently: its output follows when it ends",
            };
            eprintln!("\n== {}{}{beside}", check.name, room());
            let (name, meter) = (check.name, Meter::start());
            let limit = limit.filter(|_| !check.is_essential);
            if let Some(why) = limit.and_then(|limit| too_late(whole.read().wall(), limit)) {
                eprintln!("skipped: {why}");
                let late = Done {
                    name,
                    outcome: Outcome::Skipped(why),
                    tally: Tally::default(),
                    cost: meter.read().on_the_clock(),
                };
                done.push((index, late));
                continue;
            }
            let ended = one(check, shown, expected, programs);
            // the other checks continue, and the summary reports all
            let ended = ended.unwrap_or_else(|error| Done {
                name,
                outcome: Outcome::Failed(None, format!("{error:#}")),
                tally: Tally::default(),
                cost: meter.read().on_the_clock(),
            });
            done.push((index, ended));
        }
    };
    let mut done: Vec<(usize, Done)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..most).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().flat_map(|thread| {
            thread
                .join()
                .expect("invariant: errors are outcomes, and nothing panics")
        });
        joined.collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, done)| done).collect()
}

/// Why a check does not begin so long after the first one.
fn too_late(elapsed: Duration, limit: Duration) -> Option<String> {
    (elapsed > limit).then(|| {
        format!(
            "no time left: it would begin after {} minutes, the limit is {} (--minutes)",
            elapsed.as_secs() / 60,
            limit.as_secs() / 60
        )
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The disk space left, as text: a build that fills the disk ends in errors with other apparent causes.
fn room() -> String {
    let Ok(disk) = rustix::fs::statvfs(root()) else {
        return String::new();
    };
    let bytes = disk.f_bavail * disk.f_frsize;
    format!(" ({:.1} GB of disk left)", bytes as f64 / 1e9)
}

/// Whether `POLYCHIP_EXPECT` has this name.
pub(crate) fn is_expected(need: &str) -> Result<bool> {
    let names = expected(&std::env::var(EXPECT).unwrap_or_default())?;
    Ok(names.iter().any(|name| name == need))
}

/// The names in `POLYCHIP_EXPECT`.
fn expected(said: &str) -> Result<Vec<String>> {
    let names: Vec<String> = said
        .split(',')
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    for name in &names {
        ensure!(
            NEEDS.contains(&name.as_str()),
            "{EXPECT} contains {name:?}; allowed names are {}",
            NEEDS.join(", ")
        );
    }
    Ok(names)
}

fn one(check: Check, shown: Shown, expected: &[String], programs: &Mutex<Programs>) -> Result<Done> {
    let meter = Meter::start();
    let done = |outcome, tally| Done {
        name: check.name,
        outcome,
        tally,
        cost: match shown {
            Shown::AsItComes => meter.read(),
            // children are counted together, whichever check started them
            Shown::AtTheEnd => meter.read().on_the_clock(),
        },
    };
    if let Some((need, why)) = check.skip {
        eprintln!("skipped, needs {need}: {why}");
        if expected.iter().any(|name| name == need) {
            let words = format!("{EXPECT} lists {need}, but it is missing: {why}");
            return Ok(done(Outcome::Failed(None, words), Tally::default()));
        }
        return Ok(done(
            Outcome::Skipped(format!("needs {need}: {why}")),
            Tally::default(),
        ));
    }
    let mut log = Log::new(check.name, shown)?;
    let passed = steps(check.steps, (check.at_once, check.goes_on), &mut log, programs);
    log.end(check.name)?;
    let passed = passed?;
    let tally = Tally::of(&log.text()?);
    let outcome = if !passed {
        let (last, telling) = log.failure()?;
        let words = format!("{telling}\n\n== its last lines\n{last}");
        Outcome::Failed(Some(log), words)
    } else if tally.is_all_skipped() {
        Outcome::Skipped(tally.to_string())
    } else {
        Outcome::Passed
    };
    Ok(done(outcome, tally))
}

/// Runs steps, at once or one behind the other; false where one failed.
fn steps(
    steps: Vec<Step>,
    (at_once, goes_on): (bool, bool),
    log: &mut Log,
    programs: &Mutex<Programs>,
) -> Result<bool> {
    if at_once {
        return together(steps, log, programs);
    }
    let mut passed = true;
    for step in steps {
        passed &= take(step, log, programs)?;
        // tests that follow say more of what failed; a build that failed says all
        if !passed && !goes_on {
            break;
        }
    }
    Ok(passed)
}

/// Runs suites beside each other; false where one failed.
fn together(suites: Vec<Step>, log: &mut Log, programs: &Mutex<Programs>) -> Result<bool> {
    let mut commands = Vec::new();
    for step in suites {
        ensure!(matches!(step, Step::Suite { .. }), "only suites run at once");
        match suite(step, log, programs)? {
            Some(command) => commands.push(with_vendors(command)),
            None => return Ok(false),
        }
    }
    log.run_together(commands)
}

/// The command of a suite, once all is built; `None` where that failed, or for another step.
fn suite(step: Step, log: &mut Log, programs: &Mutex<Programs>) -> Result<Option<Command>> {
    let Step::Suite {
        package,
        test,
        arguments,
        environment,
    } = step
    else {
        return Ok(None);
    };
    let mut programs = lock(programs);
    if !programs.build(log)? {
        return Ok(None);
    }
    let command = programs.command(package, test, log)?;
    Ok(command.map(|mut command| {
        command.args(arguments).envs(environment);
        command
    }))
}

/// Runs a step; false where it failed.
fn take(step: Step, log: &mut Log, programs: &Mutex<Programs>) -> Result<bool> {
    let command = match step {
        Step::Run(command) => command,
        Step::Together(commands) => return log.run_together(commands),
        Step::Build => return lock(programs).build(log),
        Step::Tests => {
            if !lock(programs).build(log)? {
                return Ok(false);
            }
            programs::plain_tests()?
        }
        Step::QuickSuites => {
            let mut programs = lock(programs);
            if !programs.build(log)? {
                return Ok(false);
            }
            let mut passed = true;
            for suite in programs::quick_suites()? {
                let command = programs.command(&suite.package, &suite.test, log)?;
                passed &= match command {
                    Some(command) => log.run(with_vendors(command))?.success(),
                    None => false,
                };
            }
            return Ok(passed);
        }
        step @ Step::Suite { .. } => match suite(step, log, programs)? {
            Some(command) => command,
            None => return Ok(false),
        },
    };
    Ok(log.run(with_vendors(command))?.success())
}

/// The command, in the repository; where OpenVINO was fetched (`cargo xtask vendor openvino`), its suites run. A setting of one's own counts
/// more.
fn with_vendors(mut command: Command) -> Command {
    if let Some(folder) = crate::vendor::openvino()
        && std::env::var_os("OPENVINO_LIB_DIR").is_none()
    {
        command.env("OPENVINO_LIB_DIR", folder);
    }
    if command.get_current_dir().is_none() {
        command.current_dir(root());
    }
    command
}

fn summary(results: &[Done], whole: Cost) -> Result<bool> {
    eprintln!("\n== summary");
    for done in results {
        let (name, cost) = (done.name, done.cost);
        let tests = if done.tally.is_empty() {
            String::new()
        } else {
            format!(": {}", done.tally)
        };
        match &done.outcome {
            Outcome::Passed => eprintln!("passed   {name} ({cost}){tests}"),
            Outcome::Failed(..) => eprintln!("FAILED   {name} ({cost}){tests}"),
            Outcome::Skipped(why) => eprintln!("skipped  {name}: {why}"),
        }
    }
    let mut dearest: Vec<&Done> = results.iter().collect();
    dearest.sort_by_key(|done| std::cmp::Reverse(done.cost.weight()));
    eprintln!("\n== the slowest of {} checks ({whole})", results.len());
    for done in dearest.iter().take(DEAREST) {
        eprintln!("{}  {}", done.cost.aligned(), done.name);
    }
    if let Some(words) = above_bar(whole.wall()) {
        eprintln!("{words}");
    }
    // first what tells of the failure: who reads only the end of a long log should meet it
    let mut failed = false;
    for done in results {
        let Outcome::Failed(log, words) = &done.outcome else {
            continue;
        };
        failed = true;
        let file = log.as_ref().map_or_else(String::new, |log| {
            format!(" (full output: {})", log.path().display())
        });
        eprintln!("\n== what failed in {}{file}\n{words}", done.name);
    }
    Ok(!failed)
}

/// The message where the checks exceed their time budget.
fn above_bar(wall: Duration) -> Option<String> {
    (wall > BAR).then(|| {
        let minutes = |time: Duration| time.as_secs_f64() / 60.0;
        format!(
            "above budget: all checks took {:.1} minutes; the limit is {:.0}",
            minutes(wall),
            minutes(BAR)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_over_their_limit_are_reported() {
        assert_eq!(above_bar(BAR), None);
        let words = above_bar(BAR + Duration::from_secs(90)).unwrap();
        assert!(words.contains("36.5 minutes; the limit is 35"), "{words}");
    }

    #[test]
    fn checks_after_the_limit_are_skipped_with_the_reason() {
        let limit = Duration::from_secs(65 * 60);
        assert_eq!(too_late(limit, limit), None);
        let words = too_late(limit + Duration::from_secs(61), limit).unwrap();
        assert!(words.contains("after 66 minutes, the limit is 65"), "{words}");
        let check = Check {
            name: "a test of a check that comes late",
            skip: None,
            steps: vec![Step::Run(Command::new("/no/such/program"))],
            goes_on: false,
            at_once: false,
            beside: false,
            is_essential: false,
        };
        let done = in_row(
            vec![check],
            (Meter::start(), Some(Duration::ZERO)),
            &[],
            &Mutex::new(Programs::default()),
        );
        assert!(matches!(&done[0].outcome, Outcome::Skipped(why) if why.contains("no time left")));
    }

    #[test]
    fn concurrent_checks_all_run_and_report_in_order() {
        let check = |name, program: &str| Check {
            name,
            skip: None,
            steps: vec![Step::Run(Command::new(program))],
            goes_on: false,
            at_once: false,
            beside: true,
            is_essential: false,
        };
        let row = vec![
            check("a test of a check that cannot start", "/no/such/program"),
            check("a test of a check that fails", "false"),
            check("a test of a check that passes", "true"),
        ];
        let names: Vec<&str> = row.iter().map(|check| check.name).collect();
        let done = in_row(row, (Meter::start(), None), &[], &Mutex::new(Programs::default()));
        assert!(done.iter().map(|done| done.name).eq(names.iter().copied()));
        let failed = |done: &Done| matches!(done.outcome, Outcome::Failed(..));
        assert_eq!(done.iter().map(failed).collect::<Vec<_>>(), [true, true, false]);
        for name in names {
            std::fs::remove_file(Log::new(name, Shown::AtTheEnd).unwrap().path()).unwrap();
        }
    }

    #[test]
    fn only_known_needs_can_be_expected() {
        let text = std::fs::read_to_string(root().join("device-tests/test-requirements/src/lib.rs")).unwrap();
        let names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Need::")?.split_once("=> \""))
            .filter_map(|(_, name)| name.strip_suffix("\","))
            .collect();
        assert!(names.len() > 8, "{names:?}");
        assert_eq!(expected(&names.join(", ")).unwrap(), names);
        assert!(expected("vulcan").unwrap_err().to_string().contains("vulcan"));
    }
}
