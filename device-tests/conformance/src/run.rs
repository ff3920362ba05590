//! Runs the suite: starts and monitors child processes, and replaces them after a crash or hang.
//!
//! Invariants:
//! 1. Each selected case has exactly one result.
//! 2. A case that was running when its child died fails, with the cause of death and the child's last lines.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use polychip_parts::expectations::Expectations;

use crate::case::Case;
use crate::child::{Found, Order, Word};
use crate::groups::{self, Selection};
use crate::plugin::Configuration;
use crate::report::{DeviceReport, Outcome, Report, Row};
use crate::verdict::Verdict;

/// The hidden argument that makes the program a child.
pub const CHILD: &str = "--child-of-conformance";
/// Lines of a child's standard error that are kept.
const LINES: usize = 20;

/// What to run, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `polychip-conform` itself, which is started for each child.
    pub program: PathBuf,
    /// Plugin library.
    pub plugin: PathBuf,
    /// Whether the plugin runs in a process of its own, behind the proxy, which is judged with it.
    pub isolated: bool,
    /// What the plugin is created with.
    pub configuration: Configuration,
    /// The device; none for all.
    pub device: Option<u32>,
    /// Which cases.
    pub selection: Selection,
    /// Whether the device may compute f32 in a 16-bit float type.
    pub reduced: bool,
    /// Rounds of leak cases.
    pub cycles: u32,
    /// Longest that a case may take.
    pub patience: Duration,
    /// Known failures.
    pub expectations: Arc<Expectations>,
    /// Environment of the children, beside this process's.
    pub environment: Vec<(String, String)>,
    /// Children's standard error goes to this process's.
    pub verbose: bool,
}

impl Settings {
    /// Everything of a plugin, with nothing known to fail.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, plugin: impl Into<PathBuf>) -> Settings {
        Settings {
            program: program.into(),
            plugin: plugin.into(),
            isolated: false,
            configuration: Configuration::new(),
            device: None,
            selection: Selection::default(),
            reduced: false,
            cycles: 1000,
            patience: Duration::from_secs(120),
            expectations: Arc::new(Expectations::default()),
            environment: Vec::new(),
            verbose: false,
        }
    }
}

/// Told of each result as it comes.
pub trait Watch {
    /// A case of a device has its result; so many of all are done.
    fn done(&mut self, row: &Row, done: usize, all: usize);
}

/// Watches nothing.
impl Watch for () {
    fn done(&mut self, _: &Row, _: usize, _: usize) {}
}

/// Runs the selected cases on each device.
///
/// # Errors
/// The plugin cannot be opened at all, has no such device, or children cannot be started.
pub fn run(settings: &Settings, watch: &mut dyn Watch) -> Result<Report> {
    let begun = Instant::now();
    let found = find(settings)?;
    let indices: Vec<u32> = match settings.device {
        Some(index) => vec![index],
        None => (0..found.devices.len() as u32).collect(),
    };
    ensure!(!indices.is_empty(), "the plugin {} finds no device", found.plugin);
    let cases = settings.selection.of(groups::cases());
    ensure!(!cases.is_empty(), "no case is selected; list them with `--list`");
    let all = cases.len() * indices.len();
    let mut devices = Vec::new();
    for index in indices {
        let Some(device) = found.devices.get(index as usize) else {
            bail!(
                "the plugin {} has {} devices, not a device {index}",
                found.plugin,
                found.devices.len()
            );
        };
        let mut rows = Vec::new();
        let before: usize = devices
            .iter()
            .map(|device: &DeviceReport| device.rows.len())
            .sum();
        judge(settings, index, &cases, &mut |row: Row| {
            watch.done(&row, before + rows.len() + 1, all);
            rows.push(row);
        })?;
        devices.push(DeviceReport {
            name: format!("{}:{index}", found.plugin),
            device: device.clone(),
            rows,
        });
    }
    Ok(Report {
        plugin: found.plugin,
        version: found.version,
        build_id: found.build_id,
        library: settings.plugin.display().to_string(),
        ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        devices,
    })
}

/// Asks the plugin what it is, in a child.
///
/// # Errors
/// The plugin cannot be opened, or crashes when it is.
pub fn find(settings: &Settings) -> Result<Found> {
    let mut child = Running::start(settings, None, Vec::new())?;
    match child.next(settings.patience) {
        Heard::Word(Word::Found(found)) => Ok(found),
        Heard::Word(Word::Broken(words)) => bail!("{}: {words}", settings.plugin.display()),
        Heard::Word(word) => bail!("the child printed {word:?}"),
        Heard::Hung => bail!("{}: it hangs while opening", settings.plugin.display()),
        Heard::Ended => bail!(
            "{}: it crashes while opening: {}",
            settings.plugin.display(),
            child.end()
        ),
    }
}

fn judge(settings: &Settings, device: u32, cases: &[Case], give: &mut dyn FnMut(Row)) -> Result<()> {
    let mut waiting: VecDeque<Case> = cases.iter().cloned().collect();
    while let Some(first) = waiting.front() {
        // neighbours that may share a process do
        let count = if first.alone {
            1
        } else {
            waiting.iter().take_while(|case| !case.alone).count()
        };
        let batch: Vec<Case> = waiting.drain(..count).collect();
        let rest = share(settings, device, &batch, give)?;
        for case in rest.into_iter().rev() {
            waiting.push_front(case);
        }
    }
    Ok(())
}

/// Runs cases in one child and gives back those that it did not come to.
fn share(settings: &Settings, device: u32, batch: &[Case], give: &mut dyn FnMut(Row)) -> Result<Vec<Case>> {
    let names = batch.iter().map(|case| case.name.clone()).collect();
    let mut child = Running::start(settings, Some(device), names)?;
    let mut done = 0;
    let row = |case: &Case, verdict: Verdict, ms: u64| Row {
        judged: Outcome::of(&verdict, settings.expectations.reason(&case.name)),
        case: case.name.clone(),
        group: case.tags[0].to_owned(),
        graph: matches!(verdict, Verdict::Failed(_))
            .then(|| crate::ops::asked(&case.name))
            .flatten(),
        verdict,
        known: settings.expectations.reason(&case.name).map(str::to_owned),
        ms,
    };
    while done < batch.len() {
        let case = &batch[done];
        match child.next(settings.patience) {
            Heard::Word(Word::Begin(_)) => {}
            Heard::Word(Word::End { verdict, ms, .. }) => {
                give(row(case, verdict, ms));
                done += 1;
            }
            Heard::Word(Word::Broken(words)) => {
                let words = format!("the device does not open: {words}");
                give(row(case, Verdict::Failed(words), 0));
                done += 1;
                break;
            }
            Heard::Word(Word::Found(_)) => bail!("the child answered the wrong request"),
            Heard::Hung => {
                let ms = u64::try_from(settings.patience.as_millis()).unwrap_or(u64::MAX);
                let words = format!("it hangs: no answer in {} s", settings.patience.as_secs());
                child.kill();
                give(row(case, Verdict::Failed(words), ms));
                done += 1;
                break;
            }
            Heard::Ended => {
                let words = format!("it crashes: {}", child.end());
                give(row(case, Verdict::Failed(words), 0));
                done += 1;
                break;
            }
        }
    }
    if done == batch.len() {
        child.end();
    }
    Ok(batch[done..].to_vec())
}

enum Heard {
    Word(Word),
    Hung,
    Ended,
}

/// A child that runs.
struct Running {
    child: Child,
    words: Receiver<Word>,
    lines: Arc<Mutex<VecDeque<String>>>,
    listener: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start(settings: &Settings, device: Option<u32>, cases: Vec<String>) -> Result<Running> {
        let order = Order {
            plugin: settings.plugin.clone(),
            isolated: settings.isolated,
            configuration: settings.configuration.clone(),
            device,
            reduced: settings.reduced,
            cycles: settings.cycles,
            cases,
        };
        let mut child = command(&settings.program)
            .envs(settings.environment.iter().cloned())
            .spawn()
            .with_context(|| format!("{} does not start", settings.program.display()))?;
        let mut stdin = child.stdin.take().context("the child has no input")?;
        let order = serde_json::to_vec(&order)?;
        // a child that died before it read is heard as ended
        let _ = stdin.write_all(&order);
        drop(stdin);
        let stdout = child.stdout.take().context("the child has no output")?;
        let (send, words) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Ok(word) = serde_json::from_str(&line) else {
                    break;
                };
                if send.send(word).is_err() {
                    break;
                }
            }
        });
        let stderr = child.stderr.take().context("the child has no error output")?;
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let keep = Arc::clone(&lines);
        let verbose = settings.verbose;
        let listener = std::thread::spawn(move || listen(stderr, &keep, verbose));
        Ok(Running {
            child,
            words,
            lines,
            listener: Some(listener),
        })
    }

    fn next(&self, patience: Duration) -> Heard {
        match self.words.recv_timeout(patience) {
            Ok(word) => Heard::Word(word),
            Err(RecvTimeoutError::Timeout) => Heard::Hung,
            Err(RecvTimeoutError::Disconnected) => Heard::Ended,
        }
    }

    fn kill(&mut self) {
        // a child that is gone already needs no killing
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for the child and describes how it ended.
    fn end(&mut self) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status.to_string(),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                _ => {
                    self.kill();
                    break "it did not exit".to_owned();
                }
            }
        };
        if let Some(listener) = self.listener.take() {
            // a listener that panicked has heard nothing more
            let _ = listener.join();
        }
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let last: Vec<&str> = lines.iter().rev().take(4).rev().map(String::as_str).collect();
        if last.is_empty() {
            status
        } else {
            format!("{status}; it printed: {}", last.join(" / "))
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .arg(CHILD)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn listen(stderr: impl Read, keep: &Mutex<VecDeque<String>>, verbose: bool) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    // vendors print what is no UTF-8 too
    while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if verbose {
            eprintln!("{text}");
        }
        let mut lines = keep.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(text.chars().take(400).collect());
        line.clear();
    }
}
