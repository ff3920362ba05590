//! What this machine can do at this moment, in turns with what is measured: its peak rate and a pool's fork-join.
//!
//! Speaks the line protocol of `device-tests/peers/peers.py`: `calibrate PEER MODEL THREADS …` prints
//! `ready 0 FLOPS`, where `FLOPS` is what one sample computes; `K` is answered with the `[wall, cpu]` seconds of K
//! samples; `fork K` with K times, in seconds, of what a step of one microsecond's chunk per thread takes beyond that
//! chunk, inside a region; `trip K` with K times of a cache line's way to another thread and back, which is the least
//! that a fork and join can take.
#![allow(clippy::print_stdout)] // the protocol

use polychip_cpu_kernels::{Isa, ThreadPool, peak};
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Floating-point operations of a sample and thread: a tenth of a millisecond or more.
const SAMPLE: u64 = 1 << 25;

/// Floating-point operations of a chunk: about a microsecond, so that every thread takes one.
const CHUNK: u64 = 1 << 18;

/// Steps behind one time of a fork and join.
const STEPS: u32 = 1000;

fn list(times: impl Iterator<Item = String>) -> String {
    format!("[{}]", times.collect::<Vec<_>>().join(","))
}

/// Mean seconds of `STEPS` calls.
fn mean(mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..STEPS {
        call();
    }
    start.elapsed().as_secs_f64() / f64::from(STEPS)
}

/// `count` mean times of a word's way to another thread and back.
fn trips(count: usize) -> Vec<f64> {
    const STOP: u64 = u64::MAX;
    let word = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = 1;
            loop {
                match word.load(Ordering::Acquire) {
                    STOP => return,
                    seen if seen == next => {
                        word.store(next + 1, Ordering::Release);
                        next += 2;
                    }
                    _ => std::hint::spin_loop(),
                }
            }
        });
        let mut next = 1;
        let times = (0..count).map(|_| {
            mean(|| {
                word.store(next, Ordering::Release);
                while word.load(Ordering::Acquire) != next + 1 {
                    std::hint::spin_loop();
                }
                next += 2;
            })
        });
        let times = times.collect();
        word.store(STOP, Ordering::Release);
        times
    })
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
            let rounds = usize::try_from(CHUNK / peak::multiply_add(isa, 1)).unwrap_or(1);
            let chunk = || {
                peak::multiply_add(isa, rounds);
            };
            let times = (0..count.parse().unwrap_or(0)).map(|_: usize| {
                let alone = mean(chunk);
                (mean(|| pool.run(pool.threads(), &|_| chunk())) - alone).to_string()
            });
            println!("{}", list(times));
        } else if let Some(count) = line.strip_prefix("trip ") {
            let times = trips(count.parse().unwrap_or(0));
            println!("{}", list(times.iter().map(f64::to_string)));
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
