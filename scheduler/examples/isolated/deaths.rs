//! Deaths of the plugin's process while a session runs.
//!
//! After three deaths an app does not start a plugin again, and one library counts as one plugin. Each app here
//! therefore loads the library by several links, and this program starts as many apps as are needed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use polychip::Isolate;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::world::{Ready, Result, World};

/// Deaths of one library in an app. A third would end its use, and the nodes are pinned to it.
const OF_A_LIBRARY: usize = 2;
/// Links of the library in an app, of which 64 may run in processes of their own.
const LIBRARIES: usize = 20;
/// Largest difference from the CPU's output, relative to its largest value: devices may compute in 16 bits.
const TOLERANCE: f32 = 0.02;
/// A process whose run is done may be killed so long after its start at the latest.
const LATEST: Duration = Duration::from_millis(20);

/// Crashes, and an end from outside. Not here: a hang, for which calls wait a minute (`contract/isolation/tests`).
const SIGNALS: [Signal; 5] = [
    Signal::SEGV,
    Signal::ABORT,
    Signal::BUS,
    Signal::ILL,
    Signal::KILL,
];

/// Starts apps until there were as many deaths as requested.
#[allow(clippy::print_stdout, reason = "the figures are what the command is for")]
pub(crate) fn run(world: &World) -> Result<()> {
    let (mut times, mut lost): (Vec<f64>, usize) = (Vec::new(), 0);
    let begun = Instant::now();
    for app in 0.. {
        let left = world.deaths.saturating_sub(times.len());
        if left == 0 {
            break;
        }
        let output = Command::new(std::env::current_exe()?)
            .arg("app")
            .args(std::env::args().skip(2))
            .args(["--deaths", &left.min(OF_A_LIBRARY * LIBRARIES).to_string()])
            .args(["--seed", &app.to_string()])
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err(format!("app {app}, after {} deaths: {}", times.len(), output.status).into());
        }
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let (time, outputs) = line.split_once(' ').ok_or("expected a time and a count")?;
            times.push(time.parse()?);
            lost += outputs.parse::<usize>()?;
        }
        eprintln!("{} of {} deaths", times.len(), world.deaths);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{} deaths in {:.0} s: every run ended well, {lost} outputs in the device's memory were lost before they were read, \
         nothing is left over; a run that a death interrupts takes {:.0} ms (median), {:.0} ms (p99), {:.0} ms (longest)",
        times.len(),
        begun.elapsed().as_secs_f64(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    Ok(())
}

/// What a process holds.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    children: usize,
}

impl Held {
    fn now() -> Result<Held> {
        Ok(Held {
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            children: children()?.len(),
        })
    }
}

/// The processes that this one has started and not yet reaped.
fn children() -> Result<Vec<i32>> {
    let mut all = Vec::new();
    for thread in fs::read_dir("/proc/self/task")? {
        // a thread may end meanwhile
        let listed = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        for child in listed.split_whitespace() {
            all.push(child.parse()?);
        }
    }
    Ok(all)
}

/// One app: prints, for each death, the milliseconds from the signal to the end of the run.
#[allow(clippy::print_stdout, reason = "the figures are what the command is for")]
pub(crate) fn app(world: &World) -> Result<()> {
    let reference = world.reference()?.output()?.ok_or("the CPU is not lost")?;
    let mut random = ChaCha8Rng::seed_from_u64(world.seed);
    let (mut before, mut deaths) = (None, 0);
    while deaths < world.deaths {
        let folder = tempfile::tempdir()?;
        link_libraries(&world.plugins, folder.path())?;
        let ready = world.session(folder.path(), Isolate::All)?;
        ready.run()?;
        for _ in 0..OF_A_LIBRARY.min(world.deaths - deaths) {
            let signal = SIGNALS[random.random_range(0..SIGNALS.len())];
            let delay = LATEST.mul_f64(random.random());
            let (took, lost) = death(&ready, &reference, signal, delay)?;
            println!("{} {lost}", took.as_secs_f64() * 1e3);
            deaths += 1;
        }
        drop(ready);
        let held = settled()?;
        // what the first library leaves is the process's own
        let first = before.get_or_insert(held);
        let now = settled()?;
        if now.children > 0 || now.descriptors > first.descriptors {
            return Err(format!(
                "left over after {deaths} deaths: {now:?}, after the first library {first:?}"
            )
            .into());
        }
    }
    Ok(())
}

/// What is held once killed processes are reaped.
fn settled() -> Result<Held> {
    let begun = Instant::now();
    loop {
        let held = Held::now()?;
        if held.children == 0 || begun.elapsed() > Duration::from_secs(15) {
            return Ok(held);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Links the plugin libraries of `from`, so that this process has not seen them die.
fn link_libraries(from: &Path, to: &Path) -> Result<()> {
    for file in fs::read_dir(from)? {
        let path = file?.path().canonicalize()?;
        let name = path.file_name().ok_or("a file")?;
        if name.to_string_lossy().starts_with("libpolychip_plugin_")
            && path.extension().is_some_and(|end| end == "so")
        {
            std::os::unix::fs::symlink(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// Ends the plugin's processes by a signal while runs follow each other; gives the time from the signal to the end of
/// the run that began before it, and how many outputs were lost.
fn death(ready: &Ready, reference: &[f32], signal: Signal, delay: Duration) -> Result<(Duration, usize)> {
    let mut lost = 0;
    let killer = thread::spawn(move || {
        thread::sleep(delay);
        let at = Instant::now();
        // those that run are meant; one that is being replaced may have ended
        for child in children().unwrap_or_default() {
            if let Some(pid) = Pid::from_raw(child) {
                let _ended = kill_process(pid, signal);
            }
        }
        at
    });
    loop {
        let is_sent = killer.is_finished();
        match ready.output()? {
            Some(found) => compare(&found, reference)?,
            None => lost += 1,
        }
        if is_sent {
            break;
        }
    }
    let at = killer
        .join()
        .map_err(|_| "the thread that sends signals panicked")?;
    Ok((at.elapsed(), lost))
}

fn compare(found: &[f32], reference: &[f32]) -> Result<()> {
    let largest = reference
        .iter()
        .fold(0.0f32, |largest, value| largest.max(value.abs()));
    let mut pairs = found.iter().zip(reference);
    if found.len() != reference.len() || !pairs.all(|(a, b)| (a - b).abs() <= TOLERANCE * largest) {
        return Err("an output differs from the CPU's".into());
    }
    Ok(())
}
