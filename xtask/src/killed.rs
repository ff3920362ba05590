//! `cargo xtask killed`: the measurements that survive when apps are killed without warning.
//!
//! Invariants:
//! 1. An app is `polychip bench` with a profile file, killed by SIGKILL without a chance to write.
//! 2. It must keep at most the profile's capacity ([`NEWEST`]), with measurements up to 30 s before its end.
//!
//! Not here: the time of the next start (`plans --starts`).

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::root::root;

/// Seconds between two writes of a profile.
const EVERY_S: u64 = 30;
/// What the file system and a busy machine may add to that.
const SLACK_S: u64 = 3;
/// Measurements of a part that a profile keeps of one cadence.
const NEWEST: u64 = 101;

/// How often each app runs its model: so that many at once leave the processor time, and runs follow each other evenly.
const PERIOD: &str = "100ms";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Model that the apps run
    #[arg(default_value = "examples/shapes/shapes.onnx")]
    model: PathBuf,
    /// Number of apps to kill
    #[arg(long, default_value_t = 100)]
    times: usize,
    /// Number of concurrent apps
    #[arg(long, default_value_t = 50)]
    at_once: usize,
    /// Plugin folder
    #[arg(long, default_value = "target/release")]
    plugins: PathBuf,
}

/// An app that runs, and when it is killed.
struct App {
    child: Child,
    profile: PathBuf,
    ends: Instant,
}

impl Drop for App {
    fn drop(&mut self) {
        // one that was killed before has no more to end
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills apps and says what is left of each.
#[allow(clippy::print_stdout, reason = "the figures are what the command is for")]
pub(crate) fn run(options: &Options) -> Result<()> {
    let polychip = root().join("target/release/polychip");
    ensure!(
        polychip.is_file(),
        "{} is missing: cargo build --release --package polychip-cli",
        polychip.display()
    );
    let folder = root().join("target/killed");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let (mut kept, mut lost) = (0, Vec::new());
    let numbers: Vec<usize> = (0..options.times).collect();
    for batch in numbers.chunks(options.at_once.max(1)) {
        let apps: Result<Vec<App>> = batch
            .iter()
            .map(|&number| start(&polychip, options, &folder, number))
            .collect();
        let mut apps = apps?;
        apps.sort_by_key(|app| app.ends);
        let mut killed = Vec::with_capacity(apps.len());
        for mut app in apps {
            std::thread::sleep(app.ends.saturating_duration_since(Instant::now()));
            let ran = app.child.try_wait()?;
            ensure!(
                ran.is_none(),
                "{}: the app exited by itself",
                app.profile.display()
            );
            app.child.kill()?;
            app.child.wait()?;
            let killed_us = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64;
            killed.push((app.profile.clone(), killed_us));
        }
        for (profile, killed_us) in killed {
            match left(&polychip, &profile, killed_us) {
                Ok(()) => kept += 1,
                Err(error) => lost.push(format!("{}: {error:#}", profile.display())),
            }
        }
        println!(
            "{kept} of {} kept their measurements from 30 s before",
            kept + lost.len()
        );
    }
    for words in &lost {
        println!("{words}");
    }
    ensure!(
        lost.is_empty(),
        "{} of {} apps lost figures",
        lost.len(),
        options.times
    );
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Starts an app that ends between the second and the third time at which its profile is written, each at another moment: many
/// starts at once take seconds, and what an app has not measured yet it cannot keep.
fn start(polychip: &Path, options: &Options, folder: &Path, number: usize) -> Result<App> {
    let profile = folder.join(format!("{number}.profile"));
    let child = Command::new(polychip)
        .arg("bench")
        .arg(root().join(&options.model))
        .args(["--duration", "300", "--threads", "1", "--learn", "watch"])
        .args(["--period", PERIOD, "--profile"])
        .arg(&profile)
        .arg("--plugins")
        .arg(root().join(&options.plugins))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // multiples of the golden ratio are spread evenly, whatever their number
    let part = (number as f64 * 0.618_033_988_749_895).fract();
    let after = (2 * EVERY_S + SLACK_S) as f64 + part * EVERY_S as f64;
    Ok(App {
        child,
        profile,
        ends: Instant::now() + Duration::from_secs_f64(after),
    })
}

/// An error that says what is missing in the profile of an app that was killed.
fn left(polychip: &Path, profile: &Path, killed_us: u64) -> Result<()> {
    let file = profile.with_extension("json");
    let exported = Command::new(polychip)
        .args(["profile", "export"])
        .arg(&file)
        .arg("--profile")
        .arg(profile)
        .output()?;
    ensure!(
        exported.status.success(),
        "the profile cannot be read: {}",
        String::from_utf8_lossy(&exported.stderr)
    );
    let exported: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    // what a busy machine makes of the cadence is no loss: all batches of the part count
    let part = exported["parts"].get(0).context("nothing was kept")?;
    let batches = part["batches"].as_array().context("no batches")?;
    let newest = batches
        .iter()
        .filter_map(|batch| batch["recorded_us"].as_u64())
        .max();
    let age_s = killed_us.saturating_sub(newest.context("no batch")?) / 1_000_000;
    ensure!(age_s <= EVERY_S + SLACK_S, "the newest figures are {age_s} s old");
    let counts = batches.iter().filter_map(|batch| batch["times_ns"].as_array());
    let kept = counts.map(|times| times.len() as u64).sum::<u64>();
    ensure!(
        kept * 100 >= NEWEST * 95,
        "{kept} of {NEWEST} measurements were kept"
    );
    Ok(())
}
