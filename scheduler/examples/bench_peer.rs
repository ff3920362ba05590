//! Speaks the line protocol of `device-tests/peers/peers.py`, so that it runs us interleaved with others:
//!
//! ```sh
//! cargo build --release -p polychip --example bench_peer
//! device-tests/peers/peers.py MODELS --add polychip=target/release/examples/bench_peer
//! ```
//!
//! A name that ends with `reduced` (`--add polychip-reduced=...`) allows 16-bit floats.
//!
//! `bench_peer PEER MODEL THREADS INPUT=ELEM:DIMS:FILE ...` loads the model and prints `ready SECONDS`.
//! Then each line `K` on standard input is answered with the `[wall, cpu]` seconds of K runs, and
//! `out FILE` by writing output 0 there as f32. Inputs are written once; outputs stay where they are.
//!
//! `idle K` is answered with K pairs of seconds: the processor time that this process takes from 1 ms to 11 ms after a
//! run has ended, and the wall time of that. `both K` is answered with `[wall, cpu]` of K runs on each of two sessions
//! of the model at once, and of 2 K runs on one (`device-tests/peers/threads.py`).

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use polychip::{DType, Input, Model, OutputView, Policy, Precision, Runtime, Session};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// An input as the command line names it.
struct InputArgument {
    name: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl InputArgument {
    /// Reads `INPUT=ELEM:DIMS:FILE`, as in `image=FLOAT:1x3x96x96:image.bin`.
    fn parse(text: &str) -> Result<InputArgument> {
        let bad = || format!("{text}: not INPUT=ELEM:DIMS:FILE");
        let (name, rest) = text.split_once('=').ok_or_else(bad)?;
        let mut rest = rest.splitn(3, ':');
        let element = match rest.next() {
            Some("FLOAT") => DType::F32,
            Some("INT64") => DType::I64,
            _ => return Err(bad().into()),
        };
        let dims = rest.next().ok_or_else(bad)?;
        let shape: Vec<usize> = match dims {
            "" => Vec::new(),
            dims => dims
                .split('x')
                .map(str::parse)
                .collect::<std::result::Result<_, _>>()?,
        };
        let bytes = std::fs::read(rest.next().ok_or_else(bad)?)?;
        if element.byte_len(shape.iter().product()) != Some(bytes.len()) {
            return Err(format!("{text}: the file has {} bytes", bytes.len()).into());
        }
        Ok(InputArgument {
            name: name.to_owned(),
            shape,
            bytes,
        })
    }
}

/// Loads the model for the sizes of the inputs.
fn load(path: &str, inputs: &[InputArgument]) -> Result<(Runtime, Model)> {
    let runtime = Runtime::builder().only_given_folders().build()?;
    let model = runtime.load(path)?;
    let mut sizes = Vec::new();
    for given in inputs {
        let id = model
            .graph()
            .input_named(&given.name)
            .ok_or_else(|| format!("no input {}", given.name))?;
        let open = model.open_dims();
        let dims = model.graph().tensor(id).ty.shape.clone().unwrap_or_default();
        for (dim, size) in dims.iter().zip(&given.shape) {
            if open.contains(&dim.to_string()) {
                sizes.push((dim.to_string(), *size));
            }
        }
    }
    let model = model.bind(sizes)?;
    Ok((runtime, model))
}

/// Values of an output as f32.
fn floats(view: &OutputView<'_>) -> Result<Vec<f32>> {
    Ok(match view.dtype() {
        DType::F32 => view.values::<f32>()?.into_owned(),
        DType::F64 => view.values::<f64>()?.iter().map(|value| *value as f32).collect(),
        DType::I64 => view.values::<i64>()?.iter().map(|value| *value as f32).collect(),
        DType::I32 => view.values::<i32>()?.iter().map(|value| *value as f32).collect(),
        other => return Err(format!("output {} holds {}", view.name(), other.name()).into()),
    })
}

/// Processor time of this process so far, in seconds.
#[cfg(unix)]
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(not(unix))]
fn processor_seconds() -> f64 {
    f64::NAN
}

/// A session with its inputs in place.
struct Ready {
    session: Session,
    inputs: Vec<Input>,
}

impl Ready {
    fn new(session: Session, given: &[InputArgument]) -> Result<Ready> {
        let mut inputs = Vec::new();
        for given in given {
            let mut input = session.input(&given.name)?;
            input.write_bytes(&given.bytes)?;
            inputs.push(input);
        }
        Ok(Ready { session, inputs })
    }

    fn run(&self) -> Result<polychip::Outputs> {
        let inputs: Vec<&Input> = self.inputs.iter().collect();
        Ok(self.session.submit(&inputs)?.wait(PATIENCE)?)
    }

    fn runs(&self, count: usize) -> Result<()> {
        (0..count).try_for_each(|_| self.run().map(drop))
    }
}

/// Wall and processor seconds of something, as JSON.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<String> {
    let (wall, processor) = (Instant::now(), processor_seconds());
    work()?;
    let (wall, processor) = (wall.elapsed().as_secs_f64(), processor_seconds() - processor);
    Ok(format!("[{wall},{processor}]"))
}

/// Runs on two sessions at once, then as many on the first alone.
fn both(one: &Ready, other: &Ready, count: usize) -> Result<String> {
    let at_once = timed(|| {
        std::thread::scope(|scope| {
            let second = scope.spawn(|| other.runs(count).map_err(|error| error.to_string()));
            one.runs(count)?;
            Ok(second.join().expect("no run panics")?)
        })
    })?;
    let alone = timed(|| one.runs(2 * count))?;
    Ok(format!("[{at_once},{alone}]"))
}

/// Processor time of the idle process after a run.
fn idle(ready: &Ready) -> Result<String> {
    ready.runs(3)?;
    std::thread::sleep(Duration::from_millis(1));
    let (wall, processor) = (Instant::now(), processor_seconds());
    std::thread::sleep(Duration::from_millis(10));
    let spent = processor_seconds() - processor;
    Ok(format!("[{spent},{}]", wall.elapsed().as_secs_f64()))
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, peer, model, threads, inputs @ ..] = &arguments[..] else {
        return Err("usage: bench_peer PEER MODEL THREADS INPUT=ELEM:DIMS:FILE ...".into());
    };
    let given = inputs
        .iter()
        .map(|text| InputArgument::parse(text))
        .collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    let precision = if peer.ends_with("reduced") {
        Precision::Reduced
    } else {
        Precision::Exact
    };
    let policy = Policy::latency().threads(threads.parse()?).precision(precision);
    let loaded = load(model, &given)?;
    let (runtime, model) = &loaded;
    let open = || -> Result<Ready> {
        let session = runtime.session(model, policy.clone().in_flight(1))?;
        Ready::new(session, &given)
    };
    let ready = open()?;
    drop(ready.run()?);
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready {}", start.elapsed().as_secs_f64())?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if let Some(file) = line.strip_prefix("out ") {
            let outputs = ready.run()?;
            let bytes: Vec<u8> = floats(&outputs.at(0)?)?
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect();
            std::fs::write(file.trim(), bytes)?;
            writeln!(out, "ok")?;
        } else if let Some(count) = line.strip_prefix("idle ") {
            let times = (0..count.trim().parse()?)
                .map(|_: usize| idle(&ready))
                .collect::<Result<Vec<_>>>()?;
            writeln!(out, "[{}]", times.join(","))?;
        } else if let Some(count) = line.strip_prefix("both ") {
            writeln!(out, "{}", both(&ready, &open()?, count.trim().parse()?)?)?;
        } else {
            let times = (0..line.trim().parse()?)
                .map(|_: usize| timed(|| ready.run().map(drop)))
                .collect::<Result<Vec<_>>>()?;
            writeln!(out, "[{}]", times.join(","))?;
        }
        out.flush()?;
    }
    Ok(())
}
