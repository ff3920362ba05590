//! Nights of a farm of simulated boards with planted slowdowns: which are found when, what is called slower and is not,
//! and what is measured again.
//!
//! ```text
//! cargo run --release -p polychip-cli --features farm --example simulated_nights -- [SEEDS [ROUNDS [PERCENT]]]
//! ```
//!
//! Six boards measure ten models in five nights, as `docs/farm.md` describes it. Nights 2, 3 and 5 bring a new build,
//! whose slowdowns are planted: it alternates on each board with the build of the last release (`--reference`). Nights 1
//! and 4 bring none, and night 4 two changed models: only what has changed is measured (`--unchanged-since`), and
//! undecided items of the night before alternate again (`--suspects`). Other programs use the boards for a third of the time, and boards have two
//! clock modes.
//!
//! A change counts from PERCENT on (`--fail-on slower=5`; default: 5). Exit code 1 if a planted slowdown was not called slower within two nights, if more than 5 % of the nights called
//! something slower that is not, or if an unchanged model was measured again.
//!
//! Not here: real boards and their times. Time is virtual; records are written to the folder `TMPDIR`.

#![allow(clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use polychip_farm::inventory::{Hold, Member};
use polychip_farm::transport::{Course, Faults, Simulated, World};
use polychip_farm::{Blob, Clock, Equipped, RunFolder, Settings, alternation, drive};
use polychip_farm_record::{
    Effort, Equipment, FORMAT, InventoryEntry, Item, Job, Limits, Model, Outcome, RunHeader, Wanted,
};
use polychip_farm_results::compare::{Options, Verdict};
use polychip_farm_results::{Comparison, Earlier, Run, Selection, compare};

const BOARDS: usize = 6;
const MODELS: usize = 10;
const NIGHTS: usize = 5;
const DAY: Duration = Duration::from_secs(86_400);

/// Other programs begin and end at multiples of this, and use a board in this share of them.
const SPELL_S: u64 = 300;
const BUSY: f64 = 0.33;
/// What a runner accepts and how long it waits for it, as `docs/farm.md` states the defaults.
const MOST_LOAD_MILLIS: u32 = 100;
const PATIENCE_S: u64 = 600;
const TRIES: u32 = 3;

/// The build of each night; build 0 is the last release.
const BUILDS: [usize; NIGHTS] = [0, 1, 2, 2, 3];
const RELEASE: usize = 0;

/// A slowdown that a build brings.
#[derive(Debug)]
struct Plant {
    build: usize,
    model: usize,
    /// All boards if absent.
    board: Option<usize>,
    factor: f64,
}

const PLANTS: [Plant; 6] = [
    plant(1, 2, None, 1.2),
    plant(2, 6, Some(2), 1.3),
    plant(2, 8, Some(5), 2.5),
    plant(3, 0, None, 1.25),
    plant(3, 4, Some(4), 1.2),
    plant(3, 9, Some(0), 1.5),
];

const fn plant(build: usize, model: usize, board: Option<usize>, factor: f64) -> Plant {
    Plant {
        build,
        model,
        board,
        factor,
    }
}

/// An item by model and board.
type Cell = (usize, usize);

/// What a build makes slower.
fn planted(build: usize) -> BTreeSet<Cell> {
    let plants = PLANTS.iter().filter(|plant| plant.build == build);
    let cells = plants.flat_map(|plant| {
        let boards = 0..BOARDS;
        let boards = boards.filter(|board| plant.board.is_none_or(|only| only == *board));
        boards.map(|board| (plant.model, board))
    });
    cells.collect()
}

/// A number from 0 up to 1 that depends on all of these.
fn unit(parts: &[&[u8]]) -> f64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut word = [0; 8];
    hasher.finalize_xof().fill(&mut word);
    (u64::from_le_bytes(word) >> 11) as f64 / (1u64 << 53) as f64
}

/// The simulated world of a seed.
#[derive(Debug)]
struct Farm {
    seed: u64,
}

impl Farm {
    fn load(&self, board: &str, spell: u64) -> f64 {
        let draw = |what: &[u8]| {
            unit(&[
                what,
                &self.seed.to_le_bytes(),
                board.as_bytes(),
                &spell.to_le_bytes(),
            ])
        };
        if draw(b"busy") < BUSY {
            150.0 + 550.0 * draw(b"load")
        } else {
            80.0 * draw(b"load")
        }
    }

    /// Mean load from one second to another.
    fn mean(&self, board: &str, from: u64, to: u64) -> f64 {
        let seconds = (from..to.max(from + 1)).map(|second| self.load(board, second / SPELL_S));
        seconds.sum::<f64>() / (to.max(from + 1) - from) as f64
    }
}

impl World for Farm {
    fn course(&self, place: &str, item: &Item, runner: &str, now: Duration, took: Duration) -> Course {
        let is_loaded = |load: f64| load > f64::from(MOST_LOAD_MILLIS);
        let (mut at, mut skipped, mut load) = (now.as_secs(), None, 0.0);
        for tries in 1..=TRIES {
            let waits_from = at;
            while is_loaded(self.load(place, at / SPELL_S)) && at - waits_from < PATIENCE_S {
                at += 2;
            }
            if is_loaded(self.load(place, at / SPELL_S)) {
                skipped = Some("other programs use the board, still so after 600 s".to_owned());
                break;
            }
            load = self.mean(place, at, at + took.as_secs());
            if !is_loaded(load) {
                break;
            }
            at += took.as_secs();
            if tries == TRIES {
                skipped = Some("other programs used the board during the measurement, 3 times".to_owned());
            }
        }
        let text = item.to_string();
        let draw = |what: &[u8]| {
            let seed = self.seed.to_le_bytes();
            let at = at.to_le_bytes();
            unit(&[
                what,
                &seed,
                place.as_bytes(),
                text.as_bytes(),
                runner.as_bytes(),
                &at,
            ])
        };
        // of one batch in ten the clock is in its slower mode; batches differ by 3 % beside it
        let mode = if draw(b"mode") < 0.1 { 1.18 } else { 1.0 };
        let normal =
            (-2.0 * (1.0 - draw(b"radius")).ln()).sqrt() * (std::f64::consts::TAU * draw(b"angle")).cos();
        let of_plant = |plant: &Plant| {
            let is_built = (plant.build..=BUILDS[NIGHTS - 1]).any(|build| runner == hash(&build_name(build)));
            let is_model = item
                .model
                .as_ref()
                .is_some_and(|model| model.name == model_name(plant.model));
            let is_board = plant.board.is_none_or(|board| place == board_name(board));
            if is_built && is_model && is_board {
                plant.factor
            } else {
                1.0
            }
        };
        Course {
            wait: Duration::from_secs(at.saturating_sub(now.as_secs())),
            factor: PLANTS.iter().map(of_plant).product::<f64>()
                * mode
                * (1.0 + 0.5 * load / 1000.0)
                * (0.03 * normal).exp(),
            load_by_others_millis: load as u32,
            skipped,
        }
    }
}

fn hash(name: &str) -> String {
    blake3::hash(name.as_bytes()).to_hex().to_string()
}

fn build_name(build: usize) -> String {
    format!("runner of build {build}")
}

fn model_name(model: usize) -> String {
    format!("model-{model}.onnx")
}

fn board_name(board: usize) -> String {
    format!("board-{board}")
}

fn blob(name: &str, contents: &str, bytes: u64) -> Blob {
    Blob {
        path: name.into(),
        name: name.into(),
        blake3: hash(contents),
        sha256: None,
        bytes,
        program: false,
        machine: None,
    }
}

/// Six boards that keep their files from night to night.
fn members(world: &Arc<Farm>, clock: &Clock) -> Vec<Member> {
    let faults = Faults {
        cut: 5,
        killed: 5,
        killed_after: 5,
        partial: 5,
        corrupt: 5,
        ..Faults::default()
    };
    let member = |board: usize| {
        let seed = world.seed * BOARDS as u64 + board as u64;
        let simulated =
            Simulated::new(seed, clock.clone(), faults).within(Arc::clone(world) as Arc<dyn World>);
        Member {
            place: InventoryEntry {
                name: board_name(board),
                transport: "simulated".into(),
                tags: vec![format!("soc=simulated-{board}")],
            },
            transport: Arc::new(simulated),
            folder: "/farm".into(),
            runner: None,
            conform: None,
            plugins: vec![],
            limits: Limits::default(),
            environment: vec![],
            emulated: true,
            reconnect: None,
            hold: Hold::Nothing,
        }
    };
    (0..BOARDS).map(member).collect()
}

fn equipped(members: &[Member], build: usize) -> Vec<Equipped> {
    let equip = |member: &Member| Equipped {
        member: member.clone(),
        runner: blob("polychip-runner", &build_name(build), 10 << 20),
        conform: None,
        plugins: vec![],
    };
    members.iter().map(equip).collect()
}

/// A farm between two nights.
struct State {
    folder: PathBuf,
    clock: Clock,
    members: Vec<Member>,
    models: Vec<Blob>,
    /// Smallest change that counts.
    percent: f64,
    runs: u64,
}

impl State {
    /// All items, or those of a night's suspects.
    fn items(&self) -> Vec<Wanted> {
        let cells = self
            .models
            .iter()
            .flat_map(|model| (0..BOARDS).map(move |board| (model, board)));
        let item = |(model, board): (&Blob, usize)| Wanted {
            item: Item {
                job: Job::Bench,
                model: Some(Model {
                    name: model.name.clone(),
                    blake3: model.blake3.clone(),
                    bytes: model.bytes,
                }),
                plugins: vec![],
                settings: Default::default(),
            },
            places: vec![board_name(board)],
        };
        cells.map(item).collect()
    }

    /// Measures items; `unchanged_since` leaves out what earlier runs have measured.
    fn run(
        &mut self,
        path: &str,
        build: usize,
        mut items: Vec<Wanted>,
        unchanged_since: Option<&Earlier>,
    ) -> anyhow::Result<Run> {
        let boards = equipped(&self.members, build);
        let equipment = |board: &Equipped| {
            let equipment = Equipment {
                runner: board.runner.blake3.clone(),
                ..Equipment::default()
            };
            (board.member.place.name.clone(), equipment)
        };
        let equipment: BTreeMap<String, Equipment> = boards.iter().map(equipment).collect();
        let effort = Effort::default();
        let unchanged = unchanged_since
            .map(|earlier| earlier.unchanged(&mut items, &equipment, &effort))
            .unwrap_or_default();
        self.runs += 1;
        let header = RunHeader {
            format: FORMAT,
            id: format!("run-{}", self.runs),
            started_s: self.clock.elapsed().unwrap_or_default().as_secs(),
            commit: None,
            places: self.members.iter().map(|member| member.place.clone()).collect(),
            items,
            unchanged,
            equipment,
        };
        let models = self
            .models
            .iter()
            .map(|model| (model.blake3.clone(), model.clone()));
        let models: BTreeMap<String, Blob> = models.collect();
        let path = self.folder.join(path);
        let run = RunFolder::create(&path, header, &effort)?;
        let stop = AtomicBool::new(false);
        drive(
            &run,
            &boards,
            &models,
            &Settings::default(),
            &self.clock,
            &stop,
            &|_| {},
        )?;
        drop(run);
        Ok(Run::read(&path)?)
    }

    /// Both builds, alternating as with `farm run --reference`; what `farm compare` reports.
    fn alternate(
        &mut self,
        path: &str,
        (base, new): (usize, usize),
        items: &[Wanted],
        rounds: usize,
    ) -> anyhow::Result<(Comparison, Vec<Run>)> {
        let (mut of_base, mut of_new, mut runs) = (Selection::new(), Selection::new(), Vec::new());
        let groups = alternation::groups(items);
        let rounds = groups.iter().flat_map(|items| (0..rounds).map(move |_| items));
        for (round, items) in (1..).zip(rounds) {
            let mut sides = [(base, false), (new, true)];
            if round % 2 == 0 {
                sides.reverse();
            }
            for (build, is_new) in sides {
                let side = if is_new { "new" } else { "base" };
                let run = self.run(&format!("{path}/{side}/{round}"), build, items.clone(), None)?;
                let selection = if is_new { &mut of_new } else { &mut of_base };
                selection.add(run.clone(), None)?;
                runs.push(run);
            }
        }
        let options = Options {
            relevant: self.percent / 100.0,
            emulated: true,
            ..Options::default()
        };
        Ok((compare(&of_base, &of_new, &options), runs))
    }
}

fn batches(runs: &[Run]) -> usize {
    let records = runs.iter().flat_map(|run| &run.records);
    records
        .filter(|record| matches!(record.outcome, Outcome::Measured(_)))
        .count()
}

/// Models and boards of rows that are called slower.
fn slower(comparison: &Comparison) -> BTreeSet<Cell> {
    let rows = comparison
        .rows
        .iter()
        .filter(|row| row.verdict == Verdict::Slower && !row.model_changed);
    let number = |text: &str, prefix: &str| {
        text.strip_prefix(prefix)?
            .split('.')
            .next()?
            .parse::<usize>()
            .ok()
    };
    let cell = |row: &polychip_farm_results::compare::Row| {
        let model = number(&row.asked.model.as_ref()?.name, "model-")?;
        Some((model, number(row.places.first()?, "board-")?))
    };
    rows.filter_map(cell).collect()
}

/// What a night did.
#[derive(Debug, Default)]
struct Night {
    what: String,
    batches: usize,
    unchanged: usize,
    again: usize,
    planted: usize,
    found: usize,
    found_later: usize,
    false_alarms: usize,
    undecided: usize,
    hours: f64,
}

/// The five nights of a seed, the slowdowns that two nights did not find, and those that the last night did not find.
fn nights(seed: u64, rounds: usize, percent: f64) -> anyhow::Result<(Vec<Night>, usize, usize)> {
    let folder = tempfile::tempdir()?;
    let world = Arc::new(Farm { seed });
    let clock = Clock::simulated();
    let mut farm = State {
        folder: folder.path().to_owned(),
        members: members(&world, &clock),
        clock,
        models: (0..MODELS)
            .map(|at| blob(&model_name(at), &model_name(at), 5 << 20))
            .collect(),
        percent,
        runs: 0,
    };
    let mut earlier: Vec<Run> = Vec::new();
    let mut waiting: Vec<Wanted> = Vec::new();
    let mut slow: BTreeSet<Cell> = BTreeSet::new();
    let mut open: BTreeSet<Cell> = BTreeSet::new();
    let (mut done, mut never) = (Vec::new(), 0);
    for (at, build) in BUILDS.into_iter().enumerate() {
        let begun = farm.clock.elapsed().unwrap_or_default();
        let mut night = Night::default();
        let last = at.checked_sub(1).map(|before| BUILDS[before]);
        let path = format!("night-{}", at + 1);
        let truth = if last == Some(build) {
            BTreeSet::new()
        } else {
            planted(build)
        };
        night.planted = truth.len();
        // what the night before planted and did not find has this night left
        let late = std::mem::take(&mut open);
        let mut called = BTreeSet::new();
        let is_new_build = last.is_some_and(|last| last != build);
        if is_new_build {
            night.what = format!("build {build} and the release alternate");
            let (comparison, runs) = farm.alternate(&path, (RELEASE, build), &farm.items(), rounds)?;
            night.batches += batches(&runs);
            called.extend(slower(&comparison));
            let suspects = comparison.suspects().into_iter().map(|suspect| suspect.wanted);
            waiting = suspects.collect();
            night.undecided = waiting.len();
            earlier.extend(runs);
        } else {
            night.what = "changed items only".to_owned();
            if at == 3 {
                for model in [1, 7] {
                    let name = model_name(model);
                    farm.models[model] = blob(&name, &format!("{name}, trained again"), 5 << 20);
                }
            }
            let known = Earlier::new(
                earlier
                    .iter()
                    .map(|run| (run.clone(), Effort::default()))
                    .collect(),
            );
            let run = farm.run(&path, build, farm.items(), Some(&known))?;
            night.unchanged = run.header.unchanged.len();
            night.batches += batches(std::slice::from_ref(&run));
            // measured, although the same model, build and board had been measured before
            let had = |item: &Item, place: &String| {
                earlier.iter().any(|run| {
                    run.records.iter().any(|record| {
                        record.item == *item
                            && record.place.name == *place
                            && record.build.runner == hash(&build_name(build))
                            && matches!(record.outcome, Outcome::Measured(_))
                    })
                })
            };
            night.again = run
                .records
                .iter()
                .filter(|record| had(&record.item, &record.place.name))
                .count();
            earlier.push(run);
            let items = std::mem::take(&mut waiting);
            if !items.is_empty() {
                night.what += &format!("; {} undecided items again", items.len());
                let (comparison, runs) =
                    farm.alternate(&format!("{path}-suspects"), (RELEASE, build), &items, rounds)?;
                night.batches += batches(&runs);
                called.extend(slower(&comparison));
                earlier.extend(runs);
            }
        }
        night.found = called.intersection(&truth).count();
        night.found_later = called.intersection(&late).count();
        never += late.difference(&called).count();
        // what an earlier build brought is slower than the release, too
        slow.extend(&truth);
        night.false_alarms = called.difference(&slow).count();
        open = truth.difference(&called).copied().collect();
        let now = farm.clock.elapsed().unwrap_or_default();
        night.hours = (now - begun).as_secs_f64() / 3600.0;
        done.push(night);
        let presence = farm.clock.enter();
        farm.clock.sleep(DAY.saturating_sub(now - begun));
        drop(presence);
    }
    // the last night has no second one
    Ok((done, never, open.len()))
}

fn main() -> anyhow::Result<ExitCode> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<f64>());
    let mut number = |default: f64| numbers.next().unwrap_or(Ok(default));
    let seeds = number(1.0)? as usize;
    let rounds = number(12.0)? as usize;
    let percent = number(5.0)?;
    let start = Instant::now();
    let (mut all, mut alarmed, mut again) = (0, 0, 0);
    let (mut planted, mut at_once, mut later, mut never, mut undecided) = (0, 0, 0, 0, 0);
    println!(
        "simulated boards: all figures are emulated; {BOARDS} boards, {MODELS} models, {rounds} rounds, changes from {percent} %"
    );
    for seed in 1..=seeds as u64 {
        let (nights, missed, left) = nights(seed, rounds, percent)?;
        println!("\nseed {seed}");
        println!(
            "night  batches  not again  again  planted  found  next night  false alarms  undecided  hours  what"
        );
        for (at, night) in nights.iter().enumerate() {
            println!(
                "{:>5}  {:>7}  {:>9}  {:>5}  {:>7}  {:>5}  {:>10}  {:>12}  {:>9}  {:>5.1}  {}",
                at + 1,
                night.batches,
                night.unchanged,
                night.again,
                night.planted,
                night.found,
                night.found_later,
                night.false_alarms,
                night.undecided,
                night.hours,
                night.what,
            );
            all += 1;
            alarmed += usize::from(night.false_alarms > 0);
            again += night.again;
            planted += night.planted;
            at_once += night.found;
            later += night.found_later;
        }
        never += missed;
        undecided += left;
    }
    println!(
        "\n{planted} slowdowns planted: {at_once} found in their night, {later} in the next, {never} not found in two nights, \
         {undecided} not found in the last night\n\
         nights with a false alarm: {alarmed} of {all}\n\
         unchanged items measured again: {again}\n\
         wall time: {:.0} s",
        start.elapsed().as_secs_f64()
    );
    let holds = never == 0 && 20 * alarmed <= all && again == 0;
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
