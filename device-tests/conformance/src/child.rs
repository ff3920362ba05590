//! The process that loads the plugin: opens a device, runs the requested cases, and reports each result.
//!
//! Invariants:
//! 1. Reports go to the original standard output, one JSON object per line; plugin output goes to standard error.
//! 2. A case is announced before it runs, so that the reader knows which one crashed.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::bench::Bench;
use crate::groups;
use crate::plugin::{Configuration, Library};
use crate::verdict::Verdict;

/// What a child process must do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// Plugin library.
    pub plugin: std::path::PathBuf,
    /// Whether it runs in a process of its own, behind a proxy.
    pub isolated: bool,
    /// What it is created with.
    pub configuration: Configuration,
    /// The device; none to say only what there is.
    pub device: Option<u32>,
    /// Whether the device may compute f32 in a 16-bit float type.
    pub reduced: bool,
    /// Rounds of leak cases.
    pub cycles: u32,
    /// Cases to run, by name, in this order.
    pub cases: Vec<String>,
}

/// What a child says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// What plugin and devices are.
    Found(Found),
    /// A case begins.
    Begin(String),
    /// A case ended.
    End {
        /// Its name.
        case: String,
        /// What came of it.
        verdict: Verdict,
        /// How long it took, in milliseconds.
        ms: u64,
    },
    /// The plugin or the device could not be opened.
    Broken(String),
}

/// What plugin and devices are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Name of the plugin.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// Its build id.
    pub build_id: String,
    /// Its devices.
    pub devices: Vec<FoundDevice>,
}

/// What a device is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundDevice {
    /// Name for people.
    pub name: String,
    /// Maker.
    pub vendor: String,
    /// System on chip.
    pub soc: String,
    /// Version of the driver.
    pub driver: String,
    /// The figures are not a real chip's.
    pub emulated: bool,
}

/// Carries out the order.
///
/// # Errors
/// The result cannot be written.
pub fn run(order: &Order, out: &mut dyn Write) -> Result<()> {
    let mut say = |word: &Word| -> Result<()> {
        serde_json::to_writer(&mut *out, word)?;
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    };
    let Some(index) = order.device else {
        return match found(order) {
            Ok(found) => say(&Word::Found(found)),
            Err(error) => say(&Word::Broken(format!("{error:#}"))),
        };
    };
    let bench = match open(order, index) {
        Ok(bench) => bench,
        Err(error) => return say(&Word::Broken(format!("{error:#}"))),
    };
    let all = groups::cases();
    for name in &order.cases {
        let Some(case) = all.iter().find(|case| case.name == *name) else {
            continue;
        };
        say(&Word::Begin(name.clone()))?;
        let begun = Instant::now();
        let verdict = match catch_unwind(AssertUnwindSafe(|| (case.run)(&bench))) {
            Ok(Ok(())) => Verdict::Passed,
            Ok(Err(stop)) => stop.into(),
            Err(panic) => Verdict::Failed(format!("the case panicked: {}", panic_words(&*panic))),
        };
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        say(&Word::End {
            case: name.clone(),
            verdict,
            ms,
        })?;
    }
    Ok(())
}

fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned()))
        .unwrap_or_default()
}

fn open(order: &Order, index: u32) -> Result<Bench> {
    let library = Library::open(&order.plugin, order.isolated)?;
    let words = |failure: crate::plugin::Failure| anyhow::anyhow!("{failure}");
    let instance = library.create(&order.configuration).map_err(words)?;
    let device = instance.open(index).map_err(words)?;
    Ok(Bench {
        library: Arc::clone(&library),
        device,
        configuration: order.configuration.clone(),
        reduced: order.reduced,
        cycles: order.cycles,
    })
}

fn found(order: &Order) -> Result<Found> {
    let library = Library::open(&order.plugin, order.isolated)?;
    let words = |failure: crate::plugin::Failure| anyhow::anyhow!("{failure}");
    let info = library.info().map_err(words)?;
    let instance = library.create(&order.configuration).map_err(words)?;
    let count = instance.device_count().map_err(words)?;
    let devices = (0..count.min(64))
        .map(|index| {
            let info = instance
                .open(index)
                .and_then(|device| device.info())
                .map_err(words)?;
            Ok(FoundDevice {
                emulated: info.flags & polychip_abi::POLYCHIP_DEVICE_EMULATED != 0,
                name: info.name,
                vendor: info.vendor,
                soc: info.soc,
                driver: info.driver,
            })
        })
        .collect::<Result<_>>()?;
    Ok(Found {
        plugin: info.name,
        version: info.version,
        build_id: info.build_id,
        devices,
    })
}
