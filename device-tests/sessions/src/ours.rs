//! One side: the crate that apps use, in a process of its own, the counterpart of `peer.py`.
//!
//! Reports the cost of loading, then answers lines: `pass` with the nanoseconds of each run over all inputs, `fixed` with those of
//! runs of the widest input in a session of that shape, `check` with the distance from the peer's outputs, `report` with what
//! the session keeps, `peak` with the bytes that it all added to the process.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use polychip::{PlanningPhases, Policy, Runtime, Session, SpecialisationReport};
use polychip_device_tests::compare::deviation;
use polychip_device_tests::npy;
use polychip_device_tests::process::{forget_peak, memory};
use polychip_ops::{DType, Literal};
use serde::{Deserialize, Serialize};

/// Longest that a single run may take.
const LONGEST: Duration = Duration::from_secs(120);
/// Runs of the fixed shape.
const FIXED: usize = 100;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Widths,
    Stream,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Widths => "widths",
            Kind::Stream => "stream",
        }
    }
}

/// What loading came to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub(crate) load_ns: u64,
    /// Of the peer.
    pub(crate) version: Option<String>,
}

/// What a session keeps and did.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) misses: u64,
    pub(crate) hits: u64,
    pub(crate) bytes: u64,
    pub(crate) copies: u64,
    /// Time to plan for each of the shapes that are kept.
    pub(crate) planning_ns: Vec<u64>,
    /// The same by phase.
    pub(crate) phases: Vec<(String, Vec<u64>)>,
}

/// Serves one model until its input ends.
///
/// # Errors
/// Whatever a user of the crate would get.
pub(crate) fn serve(kind: Kind, model: &Path, folder: &Path, threads: u32, count: usize) -> Result<()> {
    let data = inputs(kind, folder, count)?;
    forget_peak();
    let before = memory("VmRSS");
    let start = Instant::now();
    let runtime = Runtime::builder()
        .only_given_folders()
        .configure("cpu", "threads", threads.to_string())
        .build()?;
    let policy = Policy::latency().threads(threads);
    let loaded = runtime.load(model)?;
    let session = runtime.session(&loaded, policy.clone())?;
    if kind == Kind::Stream {
        session.bind_state("state", "stateN")?;
    }
    let load_ns = nanoseconds(start.elapsed());
    say(&Loaded {
        load_ns,
        version: None,
    })?;
    for line in std::io::stdin().lock().lines() {
        match line?.trim() {
            "peak" => say(&memory("VmHWM").saturating_sub(before))?,
            "report" => say(&kept(&session))?,
            "check" => say(&check(kind, &session, &data, folder)?)?,
            "fixed" => {
                let widest = data.iter().max_by_key(|value| value.bytes.len());
                let widest = widest.context("there are no inputs")?;
                let name = name_of(&session)?;
                let bound = loaded.bind_shapes([(&name, &widest.shape)])?;
                let fixed = runtime.session(&bound, policy.clone())?;
                let many: Vec<Literal> = vec![widest.clone(); FIXED];
                pass(Kind::Widths, &fixed, &many, |_, _| Ok(()))?;
                say(&pass(Kind::Widths, &fixed, &many, |_, _| Ok(()))?)?;
            }
            _ => say(&pass(kind, &session, &data, |_, _| Ok(()))?)?,
        }
    }
    Ok(())
}

fn name_of(session: &Session) -> Result<String> {
    Ok(session
        .inputs()
        .next()
        .context("the model has no input")?
        .name
        .clone())
}

/// One run for each input; the nanoseconds of each, from filling the input to reading the output.
fn pass(
    kind: Kind,
    session: &Session,
    data: &[Literal],
    mut read: impl FnMut(usize, Literal) -> Result<()>,
) -> Result<Vec<u64>> {
    let mut others = Vec::new();
    let name = match kind {
        Kind::Widths => name_of(session)?,
        Kind::Stream => {
            session.set_state("state", &[2, 1, 128], &[0; 2 * 128 * 4])?;
            if session.inputs().any(|input| input.name == "sr") {
                let mut rate = session.input("sr")?;
                rate.write(&[16000i64])?;
                others.push(rate);
            }
            "input".to_owned()
        }
    };
    let mut input = session.input(&name)?;
    let mut times = Vec::with_capacity(data.len());
    for (number, value) in data.iter().enumerate() {
        let start = Instant::now();
        input.resize(&value.shape)?;
        input.write_bytes(&value.bytes)?;
        let mut given = vec![&input];
        given.extend(&others);
        let outputs = session.submit(&given)?.wait(LONGEST)?;
        let taken = nanoseconds(start.elapsed());
        let found = outputs.at(0)?;
        let found = Literal::new(found.dtype(), found.shape().to_vec(), found.bytes().to_vec());
        read(number, found.context("an output has no size")?)?;
        times.push(taken);
    }
    Ok(times)
}

fn inputs(kind: Kind, folder: &Path, count: usize) -> Result<Vec<Literal>> {
    match kind {
        Kind::Widths => (0..count)
            .map(|number| npy::read(&folder.join(format!("in-{number}.npy"))))
            .collect(),
        Kind::Stream => {
            let all = npy::read(&folder.join("in.npy"))?;
            ensure!(
                all.shape.len() == 2 && all.dtype == DType::F32,
                "chunks are [count, samples]"
            );
            let each = 4 * all.shape[1];
            let chunk = |bytes: &[u8]| Literal::new(DType::F32, vec![1, all.shape[1]], bytes.to_vec());
            let chunks = all
                .bytes
                .chunks(each)
                .map(|bytes| chunk(bytes).context("a chunk is cut off"));
            chunks.collect()
        }
    }
}

/// The largest distance of an output from the peer's, over the largest value of that output.
fn check(kind: Kind, session: &Session, data: &[Literal], folder: &Path) -> Result<f64> {
    let mut worst = 0.0f64;
    let mut stream: Vec<u8> = Vec::new();
    pass(kind, session, data, |number, found| {
        match kind {
            Kind::Widths => {
                let wanted: PathBuf = folder.join(format!("out-{number}.npy"));
                worst = worst.max(apart(&found, &npy::read(&wanted)?)?);
            }
            Kind::Stream => stream.extend(&*found.bytes),
        }
        Ok(())
    })?;
    if kind == Kind::Stream {
        let wanted = npy::read(&folder.join("out.npy"))?;
        let found = Literal::new(DType::F32, wanted.shape.clone(), stream);
        worst = apart(&found.context("as many answers as chunks")?, &wanted)?;
    }
    Ok(worst)
}

fn apart(found: &Literal, wanted: &Literal) -> Result<f64> {
    ensure!(
        found.shape == wanted.shape && found.dtype == wanted.dtype,
        "an output is {:?}, the peer's {:?}",
        found.shape,
        wanted.shape
    );
    Ok(deviation(found, wanted))
}

fn kept(session: &Session) -> Kept {
    let report = session.report();
    let shapes = report.shapes.unwrap_or_default();
    Kept {
        misses: shapes.misses,
        hits: shapes.hits,
        bytes: shapes.bytes,
        copies: report.copies,
        planning_ns: shapes.kept.iter().map(|one| one.planning_ns).collect(),
        phases: phases(&shapes.kept),
    }
}

/// The times of each phase of planning, by specialisation.
fn phases(kept: &[SpecialisationReport]) -> Vec<(String, Vec<u64>)> {
    let phase = |name: &str, time: fn(&PlanningPhases) -> u64| {
        let times = kept.iter().map(|one| time(&one.phases));
        (name.to_owned(), times.collect())
    };
    vec![
        phase("bind", |phases| phases.bind_ns),
        phase("simplify", |phases| phases.simplify_ns),
        phase("ask", |phases| phases.ask_ns),
        phase("place", |phases| phases.place_ns),
        phase("compile", |phases| phases.compile_ns),
        phase("connect", |phases| phases.connect_ns),
    ]
}

pub(crate) fn say(value: &impl Serialize) -> Result<()> {
    let mut to = std::io::stdout().lock();
    writeln!(to, "{}", serde_json::to_string(value)?)?;
    to.flush()?;
    Ok(())
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
