//! Benchmarks a queue grant on a shared device without the device's own work: a part requests its
//! grant, gets it and starts, and its end passes the grant to the next part.
//!
//! `alone`: a session that has the device to itself, and does not ask. `resting`: one beside sessions that want nothing. `waiting/N`: N sessions wait at once, on one thread. `threads/N`: N sessions,
//! each on a thread of its own that sleeps until it has its grant; this includes the system's wake-ups.
//!
//! `cargo bench -p polychip --bench queue_grants`; the time per element is that of a part. The aim is at most 2 µs.

#![allow(
    dead_code,
    reason = "the device queue as it is in the crate, which uses all of it"
)]

#[path = "../../src/device_queue.rs"]
mod device_queue;
mod live;
#[path = "../../src/lock_order.rs"]
mod lock_order;
#[allow(unused_imports, reason = "its tests run in the crate")]
#[path = "../../src/session/notifier.rs"]
mod notifier;
mod session {
    pub(crate) use crate::notifier;
}

use std::hint::black_box;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use live::Live;

fn queue_grants(criterion: &mut Criterion) {
    let live = Live::new();
    let mut group = criterion.benchmark_group("queue_grant");
    group.throughput(Throughput::Elements(1));
    let alone = live.sessions(1);
    assert!(live.is_free(&alone[0]));
    group.bench_function("alone", |bencher| {
        bencher.iter(|| live.is_free(black_box(&alone[0])))
    });
    let resting = live.sessions(4);
    group.bench_function("resting", |bencher| bencher.iter(|| live.round(&resting[..1])));
    for count in [2, 8, 32] {
        let sessions = live.sessions(count);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("waiting/{count}"), |bencher| {
            bencher.iter(|| live.round(&sessions));
        });
    }
    group.throughput(Throughput::Elements(1));
    for count in [2, 4] {
        let sessions = live.sessions(count);
        group.bench_function(format!("threads/{count}"), |bencher| {
            bencher.iter_custom(|grants| {
                let each = grants.div_ceil(count as u64);
                let start = Instant::now();
                std::thread::scope(|scope| {
                    for one in &sessions {
                        scope.spawn(|| live.round_trips(one, each));
                    }
                });
                start.elapsed()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, queue_grants);
criterion_main!(benches);
