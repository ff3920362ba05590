//! `polychip serve-sim`: whether models that share devices meet their deadlines, with the proof, and what happens on virtual
//! time, or with `--real` on this machine.
//!
//! Invariants:
//! 1. The verdict comes from the test alone; the simulation and the real runs show, they prove nothing.
//! 2. All times of the verdict are stated, predicted or from the profile, and the output names
//!    their origin. Without `--real` nothing runs.

mod arguments;
mod output;
mod real;
mod set;

use anyhow::Context as _;
use polychip_device_queue::{Pattern, Scenario, TaskSet, admit, deadlines_of, simulate};

use crate::exit::{Code, bad_input, failure, usage};
use crate::output::Output;
use arguments::{Arriving, Gate};

pub(crate) use arguments::Arguments;
pub(crate) use output::ServeSimOutput;

/// Parts that are simulated at most: a minute or so.
const MOST_PARTS: u64 = 100_000_000;

/// Parts that come in so long.
fn parts(set: &TaskSet, until_ns: u64) -> u64 {
    let each = set.tasks.iter().map(|task| {
        let every = task.sporadic().map_or(task.time_ns(), |(period, _)| period);
        (until_ns / every.max(1) + 1).saturating_mul(task.parts.len() as u64)
    });
    each.fold(0, u64::saturating_add)
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let max_part = arguments.max_part.map(|longest| longest.as_secs_f64() * 1e3);
    let mut read = set::read(&arguments.file, &arguments.runtime, max_part)?;
    let scenario = Scenario {
        seed: arguments.seed,
        until_ns: (arguments.seconds * 1e9) as u64,
        keep_times: true,
        ..Scenario::of(match arguments.arrivals {
            Arriving::Periodic => Pattern::Periodic,
            Arriving::Sporadic => Pattern::Sporadic,
        })
    };
    let admission = admit(&read.set).map_err(bad_input)?;
    let outcome = if arguments.real {
        real::run(&mut read, &scenario).with_context(|| arguments.file.display().to_string())?
    } else {
        let parts = parts(&read.set, scenario.until_ns);
        if parts > MOST_PARTS {
            return Err(usage(format!(
                "--seconds {}: about {parts} parts would arrive; the maximum is {MOST_PARTS}",
                arguments.seconds
            )));
        }
        simulate(&read.set, &deadlines_of(&read.set, &admission), &scenario)
    };
    let answer = ServeSimOutput::of(&arguments.file, &read, &admission, &outcome, arguments, &scenario)?;
    let mut failed = Vec::new();
    if arguments.fail_on.contains(&Gate::Refused) && !answer.admitted {
        failed.push("the set is refused (--fail-on refused)".to_owned());
    }
    if arguments.fail_on.contains(&Gate::Missed) && answer.misses() > 0 {
        failed.push(format!("{} runs were late (--fail-on missed)", answer.misses()));
    }
    if arguments.json {
        out.json(&answer)?
    } else {
        out.text(&answer.to_string())?
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failure(Code::Differs, failed.join("; ")))
    }
}
