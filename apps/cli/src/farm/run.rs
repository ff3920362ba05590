//! `polychip farm run`: measures models on all boards.
//!
//! Invariants:
//! 1. Boards with the same tags are interchangeable: one of them does each item, once. Different boards each do every item.
//! 2. The run folder holds all records, however the command ends; `--resume` continues from them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use polychip_farm::inventory::{Member, interchangeable_boards, is_name};
use polychip_farm::{
    Blob, Clock, Equipped, News, Next, RunError, RunFolder, Settings, Summary, alternation, drive,
};
use polychip_farm_record::{
    Effort, FORMAT, InventoryEntry, Item, Job, Outcome, Record, RunHeader, Settings as ItemSettings, Wanted,
    printable,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::desk::DeskArguments;
use super::dry_run::DryRun;
use super::models::Models;
use super::nightly::{earlier, equipment};
use super::programs::{ProgramArguments, blob};
use super::suspects::suspects;
use super::transfers::Transfers;
use crate::exit::{Code, bad_input, failure, usage};
use crate::output::Output;
use crate::progress::Progress;
use crate::setup::{Aim, Precision, shape};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// ONNX models; with --resume, the models of the remaining items
    models: Vec<PathBuf>,
    /// More models, listed in a TOML file with the shapes, inputs and boards of each (docs/farm.md)
    #[arg(long = "models", value_name = "FILE")]
    list: Option<PathBuf>,
    /// Jobs to do for each model; default: profile and bench, with --reference only bench
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    jobs: Vec<Wish>,
    /// Plugin sets whose devices share a model, each a separate item (`cpu,cpu+gpu`); default: all plugins of a board
    /// together
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = plugin_set)]
    on: Vec<PluginSet>,
    /// Run only the items in this file, written by `farm compare --suspects`, each on the boards that measured it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jobs", "on", "threads", "policy", "precision", "shapes"])]
    suspects: Option<PathBuf>,
    /// Folder for the records; must not hold a run yet
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Resume the run in this folder, without repeating recorded items
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "suspects", "jobs", "on", "id", "commit", "threads", "policy", "precision", "shapes", "warmup", "iters", "seconds", "time_limit"])]
    resume: Option<PathBuf>,
    /// Show the items, the files to send and an estimate of the time, and measure nothing
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    /// Do not repeat items that these runs measured with the same runner, plugins and settings: run folders, or folders
    /// of them; repeatable. The time estimate also uses them
    #[arg(long, value_name = "RUN", conflicts_with_all = ["resume", "suspects", "reference"])]
    unchanged_since: Vec<PathBuf>,
    /// Alternate with this runner, the reference, on the same boards in the same call: writes DIR/base/1, DIR/new/1, ...
    /// for `polychip farm compare DIR/base DIR/new`; if repeated, each board gets the one for its processor
    #[arg(long, value_name = "FILE", conflicts_with = "resume", requires = "out")]
    reference: Vec<PathBuf>,
    /// Pairs of measurements with --reference: how often each of both runners measures each item
    #[arg(long, alias = "rounds", value_name = "N", default_value_t = 12, requires = "reference", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Wait at most this long for a board that somebody else uses, and as long again before each item until its board is
    /// ready; the item is then skipped. Default: 600, and before an item the board's `patience_s`
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u32>,
    /// Name of the run, unique among compared runs; default: made from the time
    #[arg(long, value_name = "NAME", value_parser = run_name)]
    id: Option<String>,
    /// Commit under test, to record
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    desk: DeskArguments,
    #[command(flatten)]
    programs: ProgramArguments,
    #[command(flatten)]
    measuring: MeasuringArguments,
}

/// How it is measured.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Measuring")]
struct MeasuringArguments {
    /// Objective that plans minimise
    #[arg(long, value_enum, default_value_t = Aim::Latency)]
    policy: Aim,
    /// Maximum number of CPU threads; default: the plugin's choice
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Numeric precision
    #[arg(long, value_enum, default_value_t = Precision::Exact)]
    precision: Precision,
    /// Set the shape of an input, and with it the model's open dimensions
    #[arg(long = "shape", value_name = "INPUT=1x3x48x192", value_parser = shape_text)]
    shapes: Vec<String>,
    /// Warm-up runs
    #[arg(long, value_name = "N")]
    warmup: Option<u32>,
    /// Timed runs of a benchmark
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    iters: Option<u32>,
    /// Maximum seconds of a profile job, and the seconds of a soak
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,
    /// Stop an item after this many seconds and record it as failed
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=604_800))]
    time_limit: Option<u32>,
    /// Also measure on boards that are throttled or used by other programs
    #[arg(long, alias = "unfit")]
    ignore_state: bool,
}

/// A job by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Wish {
    /// Run the conformance suite on the plugins
    Conformance,
    /// Measure the models' parts into one profile database per board
    Profile,
    /// Time runs from submission to outputs
    Bench,
    /// Run for a long time, and track temperature, clock and rate
    Soak,
}

impl Wish {
    fn job(self) -> Job {
        match self {
            Wish::Conformance => Job::Conformance,
            Wish::Profile => Job::Profile,
            Wish::Bench => Job::Bench,
            Wish::Soak => Job::Soak,
        }
    }
}

/// Plugins by name, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PluginSet(Vec<String>);

fn plugin_set(text: &str) -> Result<PluginSet, String> {
    let mut names: Vec<String> = text.split('+').map(str::to_owned).collect();
    if names.iter().any(String::is_empty) {
        return Err("write cpu or cpu+gpu".to_owned());
    }
    names.sort();
    names.dedup();
    Ok(PluginSet(names))
}

fn shape_text(text: &str) -> Result<String, String> {
    shape(text).map(|_| text.to_owned())
}

fn run_name(text: &str) -> Result<String, String> {
    if is_name(text) {
        Ok(text.to_owned())
    } else {
        Err(
            "invalid name: use letters, digits, '-', '_' and '.', and start with a letter, a digit or '_'"
                .to_owned(),
        )
    }
}

/// Output of `farm run --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FarmRunOutput {
    /// Folder of the run.
    folder: String,
    /// Name of the run.
    run: String,
    /// Items of the run.
    items: u64,
    /// Items that were not measured again, because nothing has changed since an earlier run (`--unchanged-since`).
    unchanged: u64,
    /// What came of them.
    #[serde(flatten)]
    summary: Summary,
    /// Items not measured by this call, with the reason.
    not_measured: Vec<NotMeasured>,
}

/// An unmeasured item.
#[derive(Debug, Serialize, JsonSchema)]
struct NotMeasured {
    /// What was to be done.
    item: String,
    /// The reporting board.
    place: String,
    /// Why not.
    reason: String,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let mut members = arguments.desk.members()?;
    if arguments.measuring.ignore_state {
        for member in &mut members {
            member.limits.throttled = true;
            member.limits.load_by_others_millis = 1000;
        }
    }
    if let Some(wait) = arguments.wait {
        for member in &mut members {
            member.limits.patience_s = wait;
        }
    }
    let mut models = Models::read(&arguments.models, arguments.list.as_deref())?;
    let begun = arguments
        .resume
        .as_ref()
        .map(|path| RunFolder::open(path).map_err(of_folder))
        .transpose()?;
    let header = match begun {
        Some(_) => None,
        None => {
            // those of suspects are in their items
            if arguments.suspects.is_none() {
                models.shape(&arguments.measuring.shapes)?;
            }
            Some(arguments.header(&members, &models)?)
        }
    };
    // a folder is made once nothing is left that a mistake could be in
    let boards = arguments.programs.equipped(members)?;
    let stop = Arc::new(AtomicBool::new(false));
    let folder = match (begun, header) {
        (None, Some(mut header)) => {
            let effort = arguments.measuring.effort();
            let earlier = earlier(&arguments.unchanged_since)?;
            header.equipment = equipment(&boards);
            header.unchanged = earlier.unchanged(&mut header.items, &header.equipment, &effort);
            if arguments.dry_run {
                let plan = DryRun::of(&header, &boards, &models, &earlier, &effort);
                return if arguments.json {
                    out.json(&plan)
                } else {
                    out.text(&plan.to_string())
                };
            }
            if !arguments.reference.is_empty() {
                // boards are let go
                crate::stop::on_signals(&stop)?;
                return arguments.alternate(&header, &boards, &models, &stop, out);
            }
            let path = match &arguments.out {
                Some(path) => path.clone(),
                None => PathBuf::from(format!("farm-run-{}", header.id)),
            };
            RunFolder::create(&path, header, &effort).map_err(of_folder)?
        }
        (begun, _) => begun.context("no run to start or to resume")?,
    };
    check_models(&folder, &models.files)?;
    crate::stop::on_signals(&stop)?;
    let answer = driven(&folder, &boards, &models.files, &arguments.settings(), &stop)?;
    if arguments.json {
        out.json(&answer)?
    } else {
        out.text(&answer.to_string())?
    }
    answer.verdict()
}

fn of_folder(error: RunError) -> anyhow::Error {
    match error {
        RunError::Exists { .. } | RunError::Locked { .. } => usage(error),
        _ => bad_input(error),
    }
}

/// Drives the run and shows its progress.
fn driven(
    folder: &RunFolder,
    boards: &[Equipped],
    models: &BTreeMap<String, Blob>,
    settings: &Settings,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<FarmRunOutput> {
    let total = folder.header().items.len() as u64;
    let known = folder.standing(&[]).iter().filter(|(_, done)| *done).count() as u64;
    let done = Arc::new(AtomicU64::new(known));
    let not_measured = Mutex::new(Vec::new());
    let progress = Arc::new(Progress::told("reaching boards"));
    progress.at(known, total, "reaching boards".to_owned());
    let transfers = {
        let (progress, done) = (Arc::clone(&progress), Arc::clone(&done));
        Transfers::new(move |words| progress.at(done.load(Ordering::Relaxed), total, words))
    };
    let start = Instant::now();
    let watch = |news: &News<'_>| match news {
        News::Recorded { record, next } => {
            if *next != Next::Elsewhere {
                done.fetch_add(1, Ordering::Relaxed);
            }
            let now = done.load(Ordering::Relaxed);
            let left = remaining(
                start.elapsed(),
                now.saturating_sub(known),
                total.saturating_sub(now),
            );
            let words = format!("{} on {}{left}", record.item, record.place.name);
            progress.at(now, total, words);
            if *next != Next::Elsewhere
                && let Some(line) = not_measured_of(record)
                && let Ok(mut list) = not_measured.lock()
            {
                list.push(line);
            }
        }
        News::Sending { place, blob, sent } => transfers.begin(place, blob, sent),
        News::Sent { place } => transfers.end(place),
        News::Trouble { place, words } => eprintln!("board {place}: {}", printable(words)),
        News::Waiting {
            place,
            item,
            words,
            longest,
        } => {
            let seconds = longest.as_secs();
            let words = printable(words);
            eprintln!("board {place}: {item} waits until the board is ready, at most {seconds} s: {words}");
        }
        News::Lost {
            place,
            words,
            given_up,
        } => eprintln!(
            "board {place} is unavailable for the rest of the run: {}; items without another board: {given_up}",
            printable(words)
        ),
        _ => {}
    };
    let announced = crate::stop::announce(
        stop,
        "interrupted: each board finishes the item that it measures, and begins no other; a second interrupt ends the \
         command at once",
    );
    let summary = drive(folder, boards, models, settings, &Clock::real(), stop, &watch).map_err(of_folder)?;
    drop(announced);
    drop(transfers);
    drop(progress);
    let not_measured = not_measured
        .into_inner()
        .map_err(|_| anyhow::anyhow!("a board's thread panicked"))?;
    Ok(FarmRunOutput {
        folder: folder.path().display().to_string(),
        run: folder.header().id.clone(),
        items: total,
        unchanged: folder.header().unchanged.len() as u64,
        summary,
        not_measured,
    })
}

/// About how long the rest takes, from what is done so far.
fn remaining(elapsed: Duration, done: u64, left: u64) -> String {
    if done == 0 || left == 0 {
        return String::new();
    }
    let minutes = elapsed.as_secs_f64() / done as f64 * left as f64 / 60.0;
    format!(", about {:.0} min left", minutes.ceil())
}

fn not_measured_of(record: &Record) -> Option<NotMeasured> {
    let reason = match &record.outcome {
        Outcome::Measured(_) => return None,
        Outcome::Refused { reason } => format!("unsupported: {reason}"),
        Outcome::Skipped { reason } => format!("skipped: {reason}"),
        Outcome::Failed(failure) => match failure.exit_code {
            Some(code) => format!("failed with exit code {code}: {}", failure.reason),
            None => format!("failed: {}", failure.reason),
        },
    };
    Some(NotMeasured {
        item: record.item.to_string(),
        place: record.place.name.clone(),
        reason,
    })
}

/// An error where an item that is left has no model here.
fn check_models(folder: &RunFolder, models: &BTreeMap<String, Blob>) -> anyhow::Result<()> {
    let standing = folder.standing(&[]);
    for (wanted, (_, done)) in folder.header().items.iter().zip(standing) {
        if let Some(model) = wanted.item.model.as_ref().filter(|_| !done)
            && !models.contains_key(&model.blake3)
        {
            return Err(usage(format!(
                "model {} of the run is missing from the command line or has changed: its BLAKE3 hash was {}",
                model.name, model.blake3
            )));
        }
        let mut inputs = wanted.item.settings.inputs.iter().filter(|_| !done);
        if let Some(file) = inputs.find(|file| !models.contains_key(&file.blake3)) {
            return Err(usage(format!(
                "file {} for input {:?} of {} is missing from the list of models (--models) or has changed: its BLAKE3 hash \
                 was {}",
                file.name, file.input, wanted.item, file.blake3
            )));
        }
    }
    Ok(())
}

impl MeasuringArguments {
    fn effort(&self) -> Effort {
        let default = Effort::default();
        Effort {
            warmup: self.warmup.unwrap_or(default.warmup),
            iters: self.iters.unwrap_or(default.iters),
            seconds: self.seconds.unwrap_or(default.seconds),
            // what was asked for takes its time, and its preparation too
            time_limit_s: self.time_limit.unwrap_or(
                default
                    .time_limit_s
                    .max(self.seconds.unwrap_or(0).saturating_mul(2)),
            ),
        }
    }

    /// What the settings of all items share; what is the default is absent.
    fn settings(&self) -> ItemSettings {
        let policy = match self.policy {
            Aim::Latency => None,
            Aim::Energy => Some("energy"),
            Aim::Balanced => Some("balanced"),
            Aim::Makespan => Some("makespan"),
            Aim::Throughput => Some("throughput"),
        };
        ItemSettings {
            threads: self.threads,
            policy: policy.map(str::to_owned),
            precision: (self.precision == Precision::Reduced).then(|| "reduced".to_owned()),
            // each model has its own
            shapes: Vec::new(),
            inputs: Vec::new(),
        }
    }
}

impl Arguments {
    /// What the run asks for.
    fn header(&self, members: &[Member], models: &Models) -> anyhow::Result<RunHeader> {
        let places: Vec<InventoryEntry> = members.iter().map(|member| member.place.clone()).collect();
        let items = match &self.suspects {
            Some(path) => suspects(path, &places)?,
            None => self.items(&places, models)?,
        };
        let started_s = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .context("the system clock is before 1970")?
            .as_secs();
        Ok(RunHeader {
            format: FORMAT,
            id: match &self.id {
                Some(id) => id.clone(),
                None => format!("{started_s}-{}", std::process::id()),
            },
            started_s,
            commit: self.commit.clone(),
            places,
            items,
            unchanged: Vec::new(),
            equipment: BTreeMap::new(),
        })
    }

    fn jobs(&self) -> Vec<Job> {
        if !self.jobs.is_empty() {
            return self.jobs.iter().map(|wish| wish.job()).collect();
        }
        if self.reference.is_empty() {
            vec![Job::Profile, Job::Bench]
        } else {
            vec![Job::Bench]
        }
    }

    fn settings(&self) -> Settings {
        let default = Settings::default();
        Settings {
            busy: self
                .wait
                .map_or(default.busy, |wait| Duration::from_secs(u64::from(wait))),
            ..default
        }
    }

    /// Each job with each model and set of plugins, for each group of interchangeable boards that the model is for.
    fn items(&self, places: &[InventoryEntry], models: &Models) -> anyhow::Result<Vec<Wanted>> {
        let (of_models, of_plugins): (Vec<Job>, Vec<Job>) =
            self.jobs().into_iter().partition(|job| *job != Job::Conformance);
        if models.chosen.is_empty() && !of_models.is_empty() {
            return Err(usage("no model given; only --jobs conformance needs none"));
        }
        models.check_boards(places)?;
        let sets = if self.on.is_empty() {
            vec![PluginSet(Vec::new())]
        } else {
            self.on.clone()
        };
        let settings = self.measuring.settings();
        let mut items = Vec::new();
        for group in interchangeable_boards(places) {
            for set in &sets {
                let item = |job: Job| Item {
                    job,
                    model: None,
                    plugins: set.0.clone(),
                    settings: settings.clone(),
                };
                items.extend(of_plugins.iter().map(|job| Wanted {
                    item: item(*job),
                    places: group.clone(),
                }));
                for model in &models.chosen {
                    let is_for = |name: &&String| {
                        places
                            .iter()
                            .any(|place| place.name == **name && model.is_for(place))
                    };
                    let boards: Vec<String> = group.iter().filter(is_for).cloned().collect();
                    if boards.is_empty() {
                        continue;
                    }
                    items.extend(of_models.iter().map(|job| {
                        let mut item = item(*job);
                        item.model = Some(model.model.clone());
                        item.settings.shapes.clone_from(&model.shapes);
                        item.settings.inputs.clone_from(&model.inputs);
                        Wanted {
                            item,
                            places: boards.clone(),
                        }
                    }));
                }
            }
        }
        Ok(items)
    }

    /// Measures with the reference and with the boards' own runners in turn; who is first changes from pair to pair.
    fn alternate(
        &self,
        header: &RunHeader,
        boards: &[Equipped],
        models: &Models,
        stop: &Arc<AtomicBool>,
        out: &mut Output,
    ) -> anyhow::Result<()> {
        let references = self.reference.iter().map(|path| blob(path, true));
        let references: Vec<Blob> = references.collect::<anyhow::Result<_>>()?;
        let mut base = boards.to_vec();
        for board in &mut base {
            let fits = |blob: &&Blob| blob.machine == board.runner.machine;
            let Some(reference) = references.iter().find(fits) else {
                return Err(usage(format!(
                    "no --reference is built for the processor of board {}",
                    board.member.place.name
                )));
            };
            board.runner = reference.clone();
        }
        let path = self.out.as_ref().context("no --out folder")?;
        let mut last = Ok(());
        let mut made = 0;
        let groups = alternation::groups(&header.items);
        let all = self.pairs * u32::try_from(groups.len()).context("too many items")?;
        let pairs = groups
            .iter()
            .flat_map(|items| (0..self.pairs).map(move |_| items));
        for (pair, items) in (1..).zip(pairs) {
            let mut sides = [("base", &base), ("new", &boards.to_vec())];
            if pair % 2 == 0 {
                sides.reverse();
            }
            for (side, boards) in sides {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let header = RunHeader {
                    id: format!("{}-{side}-{pair}", header.id),
                    items: items.clone(),
                    equipment: equipment(boards),
                    ..header.clone()
                };
                let folder = path.join(side).join(pair.to_string());
                let folder =
                    RunFolder::create(&folder, header, &self.measuring.effort()).map_err(of_folder)?;
                check_models(&folder, &models.files)?;
                let answer = driven(&folder, boards, &models.files, &self.settings(), stop)?;
                if self.json {
                    out.json_line(&answer)?
                } else {
                    out.text(&format!("pair {pair} of {all}, {side}:\n{answer}"))?
                }
                // the other turns are made all the same
                last = answer.verdict().and(last);
                made += 1;
            }
        }
        if !self.json {
            let shown = path.display();
            out.text(&format!(
                "compare with `polychip farm compare {shown}/base {shown}/new --fail-on slower`"
            ))?;
        }
        if made < 2 * all {
            let words = format!(
                "interrupted: {made} of {} turns of the two runners were made",
                2 * all
            );
            return last.and(Err(failure(Code::DeviceFailed, words)));
        }
        last
    }
}

impl FarmRunOutput {
    /// An error with the command's exit code, where not all was measured.
    fn verdict(&self) -> anyhow::Result<()> {
        let Summary {
            failed,
            lost,
            left,
            skipped,
            ..
        } = &self.summary;
        let resume = format!("`--resume {}`", self.folder);
        match (failed + lost, *left, *skipped) {
            (0, 0, 0) => Ok(()),
            (0, 0, skipped) => Err(failure(
                Code::NoDevice,
                format!("{} skipped: no board was ready", counted(skipped, "item")),
            )),
            // what was not begun has not failed
            (0, left, _) => Err(failure(
                Code::DeviceFailed,
                format!(
                    "interrupted: {left} of {} items are not done; {resume} continues",
                    self.items
                ),
            )),
            (bad, left, _) => {
                let left = if left > 0 {
                    format!(", and {left} are not done")
                } else {
                    String::new()
                };
                let words = format!(
                    "{bad} of {} items failed{left}; {resume} retries those whose boards failed",
                    self.items
                );
                Err(failure(Code::DeviceFailed, words))
            }
        }
    }
}

/// `1 item`, `2 items`.
fn counted(number: u64, thing: &str) -> String {
    polychip_partitioner::report::count(usize::try_from(number).unwrap_or(usize::MAX), thing)
}

impl fmt::Display for FarmRunOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in &self.not_measured {
            writeln!(f, "{} on {}: {}", one.item, one.place, printable(&one.reason))?;
        }
        for (place, words) in &self.summary.lost_boards {
            writeln!(f, "board {place} became unavailable: {}", printable(words))?;
        }
        for (place, words) in &self.summary.missing_profiles {
            writeln!(
                f,
                "cannot fetch the profile of board {place}: {}",
                printable(words)
            )?;
        }
        let Summary {
            known_before,
            measured,
            refused,
            failed,
            skipped,
            lost,
            sent,
            left,
            ..
        } = &self.summary;
        write!(
            f,
            "{}: {measured} measured, {refused} unsupported, {failed} failed, {skipped} skipped, {lost} without an \
             available board, {known_before} measured earlier",
            counted(self.items, "item")
        )?;
        if *left > 0 {
            write!(f, ", {left} not done")?;
        }
        if self.unchanged > 0 {
            write!(f, "; {} more unchanged since an earlier run", self.unchanged)?;
        }
        f.write_str("\n")?;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "sent {} ({:.1} MiB), found {} there ({:.1} MiB)",
            counted(sent.files, "file"),
            mib(sent.bytes),
            counted(sent.kept_files, "file"),
            mib(sent.kept_bytes)
        )?;
        write!(f, "records of run {} are in {}", self.run, self.folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_sets_are_sorted() {
        assert_eq!(
            plugin_set("gpu+cpu+gpu"),
            Ok(PluginSet(vec!["cpu".into(), "gpu".into()]))
        );
        for bad in ["", "cpu+", "+"] {
            assert!(plugin_set(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn run_names_are_valid_folder_names() {
        assert!(run_name("pr-17.2").is_ok());
        for bad in ["", ".x", "-x", "a/b", "a b"] {
            assert!(run_name(bad).is_err(), "{bad}");
        }
    }
}
