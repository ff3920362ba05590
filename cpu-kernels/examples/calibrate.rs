//! What this machine can do at this moment, in turns with what is measured: its peak rate and a pool's fork-join.
//!
//! Speaks the line protocol of `device-tests/peers/peers.py`: `calibrate PEER MODEL THREADS …` prints
//! `ready 0 FLOPS`, where `FLOPS` is what one sample computes; `K` is answered with the `[wall, cpu]` seconds of K
//! samples, `fork K` with K times of one empty step over all threads inside a region, in seconds.
#![allow(clippy::print_stdout)] // the protocol

use polychip_cpu_kernels::{Isa, ThreadPool, peak};
use std::io::{BufRead, Write};
use std::time::Instant;

/// Floating-point operations of a sample and thread: a tenth of a millisecond or more.
const SAMPLE: u64 = 1 << 25;

/// Steps behind one time of a fork and join.
const STEPS: u32 = 1000;

fn list(times: impl Iterator<Item = String>) -> String {
    format!("[{}]", times.collect::<Vec<_>>().join(","))
}

fn main() {
    let threads = std::env::args().nth(3).and_then(|n| n.parse().ok()).unwrap_or(1);
    let isa = Isa::detect();
    let pool = ThreadPool::new(threads);
    let rounds = usize::try_from(SAMPLE / peak::multiply_add(isa, 1)).unwrap_or(1);
    let flops = peak::multiply_add(isa, rounds) * pool.threads() as u64;
    println!("ready 0 {flops}");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let _region = pool.region();
        let line = line.trim();
        if let Some(count) = line.strip_prefix("fork ") {
            let times = (0..count.parse().unwrap_or(0)).map(|_: usize| {
                let start = Instant::now();
                for _ in 0..STEPS {
                    pool.run(pool.threads(), &|_| {});
                }
                (start.elapsed() / STEPS).as_secs_f64().to_string()
            });
            println!("{}", list(times));
        } else {
            let times = (0..line.parse().unwrap_or(0)).map(|_: usize| {
                let start = Instant::now();
                pool.run(pool.threads(), &|_| {
                    peak::multiply_add(isa, rounds);
                });
                let wall = start.elapsed().as_secs_f64();
                format!("[{wall},{wall}]")
            });
            println!("{}", list(times));
        }
        if std::io::stdout().flush().is_err() {
            return;
        }
    }
}
