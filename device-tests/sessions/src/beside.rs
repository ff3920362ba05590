//! Concurrent sessions of one runtime, each on one core, compared with each alone.

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use polychip::{Policy, Runtime, Session};
use polychip_profile::median;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Models of the concurrent sessions; give one model twice to run it against itself
    #[arg(long = "model", value_name = "FILE", required = true, num_args = 1..)]
    models: Vec<PathBuf>,
    /// Seconds per measurement
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Alternating measurements alone and concurrently
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

const LONGEST: Duration = Duration::from_secs(120);

/// Measures, and returns the results as text.
///
/// # Errors
/// Whatever a user of the crate would get.
pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let runtime = Runtime::builder().only_given_folders().build()?;
    let mut files = arguments.models.clone();
    if let [one] = &files[..] {
        files = vec![one.clone(), one.clone()];
    }
    let mut sessions = Vec::with_capacity(files.len());
    for file in &files {
        let model = runtime.load(file)?;
        sessions.push(runtime.session(&model, Policy::latency().threads(1))?);
    }
    let length = Duration::from_secs_f64(arguments.seconds);
    let mut alone: Vec<Vec<u64>> = vec![Vec::new(); sessions.len()];
    let mut at_once = alone.clone();
    for _ in 0..=arguments.rounds {
        for (session, times) in sessions.iter().zip(&mut alone) {
            times.extend(runs(session, length, &Barrier::new(1))?);
        }
        let barrier = Barrier::new(sessions.len());
        let found = std::thread::scope(|scope| -> Result<Vec<Vec<u64>>> {
            let threads: Vec<_> = sessions
                .iter()
                .map(|session| scope.spawn(|| runs(session, length, &barrier)))
                .collect();
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().ok().context("a thread panicked")?);
            joined.collect()
        })?;
        for (times, found) in at_once.iter_mut().zip(found) {
            times.extend(found);
        }
    }
    let sides = files.iter().zip(alone).zip(at_once);
    let lines = sides.map(|((file, alone), at_once)| {
        let median = |mut times: Vec<u64>| median(&mut times, u64::cmp).unwrap_or(0);
        let (alone, at_once) = (median(alone), median(at_once));
        format!(
            "{}: {:.3} ms alone, {:.3} ms at once: {:.2}",
            file.display(),
            alone as f64 / 1e6,
            at_once as f64 / 1e6,
            at_once as f64 / alone as f64
        )
    });
    Ok(lines.collect::<Vec<String>>().join("\n"))
}

/// Times of runs that follow each other for so long, in nanoseconds.
fn runs(session: &Session, length: Duration, begin: &Barrier) -> Result<Vec<u64>> {
    let names: Vec<String> = session.inputs().map(|input| input.name.clone()).collect();
    let inputs = names
        .iter()
        .map(|name| session.input(name))
        .collect::<polychip::Result<Vec<_>>>()?;
    let given: Vec<_> = inputs.iter().collect();
    begin.wait();
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < length {
        let one = Instant::now();
        drop(session.submit(&given)?.wait(LONGEST)?);
        times.push(u64::try_from(one.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(times)
}
