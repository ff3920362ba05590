//! Deaths of the plugin's process while a session runs: every kind in turn, in one app.
//!
//! Signals end the process from outside. The other kinds need the library `fatal`
//! (`contract/isolation/examples/fatal.rs`), which `--faults` names: it is preloaded into the plugin's process and
//! dies there in the way of its order.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use polychip::Isolate;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::world::{Ready, Result, World};

/// Largest difference from the CPU's output, relative to its largest value: devices may compute in 16 bits.
const TOLERANCE: f32 = 0.02;
/// A process gets its order to die so long after the runs began at the latest.
const LATEST: Duration = Duration::from_millis(20);
/// A process that had its order to die and lives so much longer survived.
const SURVIVES: Duration = Duration::from_secs(60);
/// How often a signal is sent that the process may handle.
const MOST_SIGNALS: usize = 100;
/// Variable with the file that tells the library how to die.
const ORDERS: &str = "POLYCHIP_FATAL";
/// Deaths between two lines on the progress.
const TOLD_EVERY: usize = 100;

/// A way to die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// A signal from outside.
    Signal(&'static str),
    /// A fault of the preloaded library.
    Fault(&'static str),
}

const SIGNALS: [(&str, Signal); 5] = [
    ("SIGSEGV", Signal::SEGV),
    ("SIGABRT", Signal::ABORT),
    ("SIGBUS", Signal::BUS),
    ("SIGILL", Signal::ILL),
    ("SIGKILL", Signal::KILL),
];

/// Words of the library, and what they mean.
const FAULTS: [(&str, &str); 9] = [
    ("segv", "write to no memory"),
    ("abort", "abort in a vendor's thread"),
    ("exit", "exit(0)"),
    ("loop", "endless loop"),
    ("heap", "smashed heap"),
    ("records", "forged records"),
    ("close", "closed sockets"),
    ("memfd", "truncated memory files"),
    ("memory", "out of memory"),
];

impl Way {
    /// The ways that are possible, of those that were asked for.
    fn chosen(world: &World) -> Result<Vec<Way>> {
        let signals = SIGNALS.map(|(name, _)| Way::Signal(name));
        let faults = FAULTS.map(|(word, _)| Way::Fault(word));
        let possible = signals
            .into_iter()
            .chain(faults.into_iter().filter(|_| world.faults.is_some()));
        let possible: Vec<Way> = possible.collect();
        if world.kinds.is_empty() {
            return Ok(possible);
        }
        let of_name = |name: &String| {
            let found = possible.iter().find(|way| way.word() == name);
            found.copied().ok_or_else(|| {
                let words: Vec<&str> = possible.iter().map(|way| way.word()).collect();
                format!("--kinds {name}: expected some of {}", words.join(",")).into()
            })
        };
        world.kinds.iter().map(of_name).collect()
    }

    fn word(self) -> &'static str {
        match self {
            Way::Signal(word) | Way::Fault(word) => word,
        }
    }

    fn title(self) -> &'static str {
        let fault = FAULTS.iter().find(|(word, _)| *word == self.word());
        fault.map_or(self.word(), |(_, title)| title)
    }

    /// Has a process die.
    fn die(self, pid: Pid) -> Result<()> {
        let signal = match self {
            Way::Signal(name) => SIGNALS
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, signal)| *signal),
            Way::Fault(word) => {
                fs::write(std::env::var_os(ORDERS).ok_or("no file for orders")?, word)?;
                Some(Signal::URG)
            }
        };
        let signal = signal.ok_or("a signal")?;
        for _ in 0..MOST_SIGNALS {
            // it has ended, and was reaped
            if kill_process(pid, signal).is_err() || signal == Signal::URG {
                break;
            }
            // handlers of Rust's library and of vendors let the first signal go by, because a fault would come again
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// Starts the app, with the library of faults where one is given.
pub(crate) fn run(world: &World) -> Result<()> {
    Way::chosen(world)?;
    let folder = tempfile::tempdir()?;
    let mut app = Command::new(std::env::current_exe()?);
    app.arg("app").args(std::env::args().skip(2));
    app.env(ORDERS, folder.path().join("orders"));
    if let Some(faults) = &world.faults {
        app.env("LD_PRELOAD", faults.canonicalize()?);
    }
    let status = app.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the app ended: {status}").into())
    }
}

/// What a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    /// Mappings of memory files.
    mappings: usize,
    children: usize,
}

impl Held {
    fn now() -> Result<Held> {
        let maps = fs::read_to_string("/proc/self/maps")?;
        Ok(Held {
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            mappings: maps.lines().filter(|line| line.contains("memfd:")).count(),
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

/// The deaths of a kind.
#[derive(Debug, Default)]
struct Tally {
    /// Milliseconds from the order to die to the end of the first run that began after the death.
    recoveries: Vec<f64>,
    answered: usize,
}

/// The app: a session that runs until there were as many deaths as requested.
#[allow(clippy::print_stdout, reason = "the figures are what the command is for")]
pub(crate) fn app(world: &World) -> Result<()> {
    let ways = Way::chosen(world)?;
    let reference = world.reference()?.output()?;
    let mut random = ChaCha8Rng::seed_from_u64(world.seed);
    let begun = Instant::now();
    let before = Held::now()?;
    let folder = tempfile::tempdir()?;
    link_library(world, folder.path())?;
    let ready = world.session(folder.path(), Isolate::All)?;
    ready.run()?;
    let mut tallies: BTreeMap<Way, Tally> = BTreeMap::new();
    // what is kept for reuse after the first restart
    let mut warm: Option<Held> = None;
    for death in 0..world.deaths {
        let way = ways[death % ways.len()];
        let delay = LATEST.mul_f64(random.random());
        let tally = tallies.entry(way).or_default();
        die(&ready, &reference, (way, delay), tally)
            .map_err(|error| format!("death {death} ({}): {error}", way.title()))?;
        if death + 1 == ways.len() {
            warm = Some(Held::now()?);
        }
        if (death + 1) % TOLD_EVERY == 0 {
            eprintln!("{} of {} deaths", death + 1, world.deaths);
        }
    }
    let running = Held::now()?;
    drop(ready);
    let after = settled()?;
    println!("kind                         deaths  runs answered  recovery p50 ms  p99 ms  longest ms");
    for (way, tally) in &mut tallies {
        tally.recoveries.sort_by(f64::total_cmp);
        let at = |share: f64| tally.recoveries[((tally.recoveries.len() - 1) as f64 * share) as usize];
        println!(
            "{:28} {:6} {:14} {:16.1} {:7.1} {:11.1}",
            way.title(),
            tally.recoveries.len(),
            tally.answered,
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
    let answered: usize = tallies.values().map(|tally| tally.answered).sum();
    println!(
        "{} deaths in {:.0} s: {answered} of {answered} runs answered as the CPU does, no output lost",
        world.deaths,
        begun.elapsed().as_secs_f64()
    );
    let line = |what: &str, held: Held| {
        println!(
            "{what:32} {:4} descriptors, {:4} mappings of memory files, {:2} children",
            held.descriptors, held.mappings, held.children
        );
    };
    line("before the session", before);
    if let Some(warm) = warm {
        line("after a death of each kind", warm);
    }
    line("after the last death", running);
    line("without the session", after);
    let is_more = |one: Held, other: Held| {
        one.descriptors > other.descriptors || one.mappings > other.mappings || one.children > other.children
    };
    if after.children > 0 || warm.is_some_and(|warm| is_more(running, warm)) {
        return Err("something is left over".into());
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

/// Links the library of the device's plugin alone.
fn link_library(world: &World, to: &Path) -> Result<()> {
    let plugin = world.device.split(':').next().unwrap_or_default();
    let name = format!("libpolychip_plugin_{plugin}.so");
    let path: PathBuf = world.plugins.join(&name);
    let path = path
        .canonicalize()
        .map_err(|error| format!("{}: {error}", path.display()))?;
    std::os::unix::fs::symlink(path, to.join(name))?;
    Ok(())
}

/// Has the plugin's process die while runs follow each other.
fn die(ready: &Ready, reference: &[f32], (way, delay): (Way, Duration), tally: &mut Tally) -> Result<()> {
    let process = *children()?.first().ok_or("the plugin has no process")?;
    let pid = Pid::from_raw(process).ok_or("a process")?;
    let killer = thread::spawn(move || {
        thread::sleep(delay);
        let at = Instant::now();
        way.die(pid).map(|()| at).map_err(|error| error.to_string())
    });
    let begun = Instant::now();
    loop {
        let is_dead = killer.is_finished() && !children()?.contains(&process);
        compare(&ready.output()?, reference)?;
        tally.answered += 1;
        if is_dead {
            break;
        }
        if begun.elapsed() > SURVIVES {
            return Err("the process survived".into());
        }
    }
    let at = killer.join().map_err(|_| "the thread that kills panicked")??;
    tally.recoveries.push(at.elapsed().as_secs_f64() * 1e3);
    Ok(())
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
