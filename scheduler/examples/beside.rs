//! What sessions cost each other on the CPU: sessions of one thread each, alone and all at once.
//!
//! ```sh
//! cargo run --release -p polychip --example beside -- models/generated/mobilenet_v2.onnx models/generated/resnet50.onnx
//! ```
//!
//! Per model: the median time of a run of one session alone, of each of two at once and of each of four, in turns; then the
//! same of sessions that use all threads; then 64 threads that share four sessions, of which every run must be answered as
//! the first one was.

use std::io::Write;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use polychip::{Input, Model, Policy, Runtime, Session};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long each kind of run is timed in a round, and how many rounds there are.
const TURN: Duration = Duration::from_millis(500);
const ROUNDS: usize = 7;
/// Threads that share sessions, and runs of each.
const THREADS: usize = 64;
const RUNS: usize = 8;

/// A session with its inputs in place.
struct Ready {
    session: Session,
    inputs: Vec<Input>,
}

impl Ready {
    fn new(runtime: &Runtime, model: &Model, threads: u32, in_flight: usize) -> Result<Ready> {
        let policy = Policy::latency().threads(threads).in_flight(in_flight);
        let session = runtime.session(model, policy)?;
        let inputs = inputs(model, &session)?;
        Ok(Ready { session, inputs })
    }

    fn run(&self, inputs: &[Input]) -> Result<Vec<u8>> {
        let inputs: Vec<&Input> = inputs.iter().collect();
        let outputs = self.session.submit(&inputs)?.wait(PATIENCE)?;
        Ok(outputs.at(0)?.bytes().to_vec())
    }
}

/// Inputs that hold a ramp.
fn inputs(model: &Model, session: &Session) -> Result<Vec<Input>> {
    let graph = model.graph();
    let names = graph.inputs.iter().map(|&id| graph.tensor(id).name.clone());
    names
        .map(|name| {
            let mut input = session.input(&name)?;
            let elements = input.bytes_mut()?.len() / 4;
            let values: Vec<f32> = (0..elements).map(|i| (i % 251) as f32 / 251.0).collect();
            input.write(&values)?;
            Ok(input)
        })
        .collect()
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN) * 1e3
}

/// Times of runs of a session, one after the other, in seconds.
fn timed(ready: &Ready, begin: &Barrier) -> Result<Vec<f64>> {
    begin.wait();
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < TURN {
        let run = Instant::now();
        ready.run(&ready.inputs)?;
        times.push(run.elapsed().as_secs_f64());
    }
    Ok(times)
}

/// The same of all these sessions at once.
fn at_once(sessions: &[Ready]) -> Result<Vec<f64>> {
    let begin = Barrier::new(sessions.len());
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .iter()
            .map(|ready| scope.spawn(|| timed(ready, &begin)))
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().expect("no run panics"));
        joined.collect::<Result<Vec<_>>>()
    })?;
    Ok(all.concat())
}

fn main() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for path in std::env::args().skip(1) {
        let runtime = Runtime::builder().only_given_folders().build()?;
        let model = runtime.load(&path)?;
        let open: Vec<(String, usize)> = model.open_dims().into_iter().map(|dim| (dim, 1)).collect();
        let model = model.bind(open)?;
        for (threads, words) in [(1, "one thread"), (0, "all threads")] {
            let sessions = (0..4)
                .map(|_| Ready::new(&runtime, &model, threads, 1))
                .collect::<Result<Vec<_>>>()?;
            let mut times = [Vec::new(), Vec::new(), Vec::new()];
            at_once(&sessions)?;
            for _ in 0..ROUNDS {
                for (count, times) in [1, 2, 4].into_iter().zip(&mut times) {
                    times.extend(at_once(&sessions[..count])?);
                }
            }
            let [one, two, four] = times.map(|mut times| median(&mut times));
            writeln!(
                out,
                "{path}: sessions of {words}: alone {one:.2} ms, two at once {two:.2} ms ({:.2}), four {four:.2} ms ({:.2})",
                two / one,
                four / one
            )?;
        }
        let sessions = (0..4)
            .map(|_| Ready::new(&runtime, &model, 1, THREADS))
            .collect::<Result<Vec<_>>>()?;
        let wanted = sessions[0].run(&sessions[0].inputs)?;
        let start = Instant::now();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (ready, model, wanted) = (&sessions[thread % sessions.len()], &model, &wanted);
                    scope.spawn(move || -> Result<()> {
                        let own = inputs(model, &ready.session)?;
                        for run in 0..RUNS {
                            if ready.run(&own)? != *wanted {
                                return Err(format!("thread {thread}: run {run} gave something else").into());
                            }
                        }
                        Ok(())
                    })
                })
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("no run panics"))
        })?;
        let each = start.elapsed().as_secs_f64() * 1e3 / (THREADS * RUNS) as f64;
        writeln!(
            out,
            "{path}: {THREADS} threads on four sessions: {} runs answered, {each:.2} ms each",
            THREADS * RUNS
        )?;
    }
    Ok(())
}
