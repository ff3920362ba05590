//! How fast threads read memory that no cache holds: what a token's weights cannot be read faster than.
//!
//! `cargo run --release -p polychip-llm --example memory_bandwidth -- --threads 2` prints
//! `{"threads":2,"bytes_per_s":…}`, the best of nine times through 512 MiB: a limit is what was reached at least once.

#![allow(clippy::print_stdout)] // an example's output

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

const BYTES: usize = 512 << 20;
const ROUNDS: usize = 9;

/// Sums in eight lanes: adding waits for nothing that memory does not wait for.
fn sum(words: &[u64]) -> u64 {
    let mut lanes = [0u64; 8];
    for piece in words.as_chunks::<8>().0 {
        for (lane, word) in lanes.iter_mut().zip(piece) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let threads = match &words[..] {
        [] => 1,
        [option, count] if option == "--threads" => count.parse::<usize>()?.max(1),
        _ => return Err("usage: memory_bandwidth [--threads N]".into()),
    };
    let memory: Vec<u64> = (0..BYTES as u64 / 8).collect();
    let share = memory.len().div_ceil(threads);
    let barrier = Barrier::new(threads + 1);
    let mut best = f64::INFINITY;
    std::thread::scope(|scope| {
        for own in memory.chunks(share) {
            let barrier = &barrier;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    barrier.wait();
                    black_box(sum(black_box(own)));
                    barrier.wait();
                }
            });
        }
        for _ in 0..ROUNDS {
            barrier.wait();
            let start = Instant::now();
            barrier.wait();
            best = best.min(start.elapsed().as_secs_f64());
        }
    });
    println!(
        "{{\"threads\":{threads},\"bytes_per_s\":{:.0}}}",
        BYTES as f64 / best
    );
    Ok(())
}
