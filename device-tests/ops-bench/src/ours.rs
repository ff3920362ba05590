//! Plans, predicts and runs a case with Polychip, from submission to outputs.

use std::time::{Duration, Instant};

use anyhow::Result;
use polychip::{Input, Policy, Runtime, Session};
use polychip_ops::Literal;

use crate::model::Files;

/// Longest that a single run may take.
const LONGEST: Duration = Duration::from_secs(120);

/// What a run took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) elapsed_ns: u64,
    /// Processor time of all threads.
    pub(crate) spent_ns: u64,
}

/// A session with its inputs filled.
pub(crate) struct Ours {
    session: Session,
    inputs: Vec<Input>,
    pub(crate) predicted_ns: u64,
    pub(crate) provenance: &'static str,
}

/// A runtime whose CPU has this many threads.
///
/// # Errors
/// There is no runtime.
pub(crate) fn runtime(threads: u32) -> Result<Runtime> {
    Ok(Runtime::builder()
        .only_given_folders()
        // not by the policy: a device is asked for estimates before any policy is known
        .configure("cpu", "threads", threads.to_string())
        .build()?)
}

impl Ours {
    /// Plans a model.
    ///
    /// # Errors
    /// Whatever a user of the crate would get.
    pub(crate) fn new(runtime: &Runtime, files: &Files, inputs: &[Literal]) -> Result<Ours> {
        let model = runtime.load(&files.model)?;
        let session = runtime.session(&model, Policy::latency().devices(["cpu:0"]))?;
        let predicted = session.report();
        let inputs = inputs.iter().enumerate().map(|(index, value)| {
            let mut input = session.input(&format!("i{index}"))?;
            input.write_bytes(&value.bytes)?;
            Ok(input)
        });
        Ok(Ours {
            inputs: inputs.collect::<Result<Vec<_>>>()?,
            predicted_ns: predicted.predicted_ns,
            provenance: predicted.provenance,
            session,
        })
    }

    /// Runs so often.
    ///
    /// # Errors
    /// A run fails.
    pub(crate) fn turn(&self, runs: u64) -> Result<Vec<Run>> {
        let inputs: Vec<&Input> = self.inputs.iter().collect();
        let once = |_| -> Result<Run> {
            let (start, spent) = (Instant::now(), spent());
            drop(self.session.submit(&inputs)?.wait(LONGEST)?);
            let elapsed = start.elapsed();
            Ok(Run {
                elapsed_ns: nanoseconds(elapsed),
                spent_ns: nanoseconds(self::spent().saturating_sub(spent)),
            })
        };
        (0..runs).map(once).collect()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Processor time of this process so far.
#[cfg(unix)]
fn spent() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Time so far, where the system does not tell the processor's.
#[cfg(not(unix))]
fn spent() -> Duration {
    use std::sync::LazyLock;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}
