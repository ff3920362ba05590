//! Times of runs with the plugin in this process and in one of its own.

use std::time::{Duration, Instant};

use polychip::Isolate;

use crate::world::{Ready, Result, World};

/// Length of a turn.
const TURN: Duration = Duration::from_millis(300);

#[allow(clippy::print_stdout, reason = "the figures are what the command is for")]
pub(crate) fn run(world: &World) -> Result<()> {
    let both = [Isolate::None, Isolate::All].map(|isolate| world.session(&world.plugins, isolate));
    let [inside, outside] = both;
    let both = [inside?, outside?];
    let mut times: [Vec<f64>; 2] = Default::default();
    for round in 0..=world.rounds {
        for (one, times) in both.iter().zip(&mut times) {
            let turn = turn(one)?;
            // the first is a warm-up
            if round > 0 {
                times.extend(turn);
            }
        }
    }
    let parts = both[1].session.report().parts.len();
    let [inside, outside] = times.map(median);
    println!(
        "{parts} parts: in this process {inside:.1} µs, in a process of its own {outside:.1} µs, ratio {:.3}, \
         difference {:.1} µs a run",
        outside / inside,
        outside - inside
    );
    Ok(())
}

/// Times of the runs of a turn, in microseconds.
fn turn(one: &Ready) -> Result<Vec<f64>> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < TURN || times.len() < 3 {
        let start = Instant::now();
        one.run()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
