//! Leaks: many create and destroy cycles keep memory and descriptors constant.
//!
//! Invariant: growth is measured over the last half of the cycles, after caches and pools are warm; a case that grows
//! is measured once more before it fails. If the system itself keeps the memory of finished threads, as an emulated
//! process does, the case is skipped.

use std::sync::Arc;

use crate::bench::Bench;
use crate::case::Case;
use crate::plugin::HostMemory;
use crate::verdict::{Judgement, Stop, check, skip};

/// Growth of resident memory that is no leak: what an allocator keeps in hand.
const SLACK: u64 = 384 << 10;

pub(super) fn cases(cases: &mut Vec<Case>) {
    let case = |name: &str, run: fn(&Bench) -> Judgement| Case::new("leaks", name, run).basic().alone();
    cases.extend([
        case("instances", |bench| cycle(bench, 10, || bench.reopen().map(drop))),
        case("plugin-info", |bench| {
            cycle(bench, 1, || Ok(bench.library.info().map(drop)?))
        }),
        case("support", |bench| {
            let problem = bench.carrier()?;
            cycle(bench, 1, || Ok(bench.device.support(&problem.flat).map(drop)?))
        }),
        case("blobs", |bench| {
            let problem = bench.carrier()?;
            cycle(bench, 1, || {
                Ok(bench
                    .device
                    .compile(&problem.flat, bench.reduced)?
                    .bytes()
                    .map(drop)?)
            })
        }),
        case("executables", |bench| {
            let problem = bench.carrier()?;
            cycle(bench, 1, || problem.load(&bench.device, bench.reduced).map(drop))
        }),
        case("executables-of-bytes", |bench| {
            let problem = bench.carrier()?;
            let bytes = bench.device.compile(&problem.flat, bench.reduced)?.bytes()?;
            cycle(bench, 1, || {
                Ok(bench
                    .device
                    .load_bytes(&problem.flat, Arc::clone(&bytes))
                    .map(drop)?)
            })
        }),
        case("buffers", |bench| {
            cycle(bench, 1, || {
                let buffer = bench.device.create_buffer(10_000, 64)?;
                Ok(buffer.write(0, &[1; 10_000])?)
            })
        }),
        case("imported-buffers", |bench| {
            let alignment = (bench.device.info()?.import_alignment.max(64)) as usize;
            if bench
                .device
                .import_buffer(HostMemory::new(4096, alignment, 0))
                .is_err()
            {
                return skip("host memory is not imported");
            }
            cycle(bench, 1, || {
                Ok(bench
                    .device
                    .import_buffer(HostMemory::new(4096, alignment, 0))
                    .map(drop)?)
            })
        }),
        case("runs", |bench| {
            let (problem, executable) = bench.loaded()?;
            let buffers = problem.buffers(&executable)?;
            cycle(bench, 1, || Ok(executable.execute(&buffers, &[])?.wait()?))
        }),
        case("waiting-runs", |bench| {
            let (problem, executable) = bench.loaded()?;
            let (one, two) = (problem.buffers(&executable)?, problem.buffers(&executable)?);
            cycle(bench, 1, || {
                let first = executable.execute(&one, &[])?;
                let second = executable.execute(&two, &[&first])?;
                Ok(second.wait()?)
            })
        }),
        case("refused-loads", |bench| {
            let problem = bench.carrier()?;
            let bytes = bench.device.compile(&problem.flat, bench.reduced)?.bytes()?;
            let torn: Arc<[u8]> = Arc::from(&bytes[..bytes.len() / 2]);
            cycle(bench, 1, || {
                let loaded = bench.device.load_bytes(&problem.flat, Arc::clone(&torn));
                check!(loaded.is_err(), "half a blob loads");
                Ok(())
            })
        }),
        case("refused-runs", |bench| {
            let (problem, executable) = bench.loaded()?;
            let buffers = problem.buffers(&executable)?;
            cycle(bench, 1, || {
                let started = executable.execute(&buffers[..1], &[]);
                check!(started.is_err(), "a run with missing ports starts");
                Ok(())
            })
        }),
    ]);
}

#[cfg(target_os = "linux")]
fn resident() -> Result<u64, Stop> {
    let text = std::fs::read_to_string("/proc/self/statm")
        .map_err(|error| Stop::Failed(format!("the system: {error}")))?;
    let pages: u64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| Stop::Failed("the system: /proc/self/statm has an unknown format".into()))?;
    Ok(pages * rustix::param::page_size() as u64)
}

#[cfg(target_os = "linux")]
fn descriptors() -> Result<usize, Stop> {
    std::fs::read_dir("/proc/self/fd")
        .map(Iterator::count)
        .map_err(|error| Stop::Failed(format!("the system: {error}")))
}

/// `cycles` rounds, fewer where one is `costly`, and twice as many to warm up.
#[cfg(target_os = "linux")]
fn cycle(bench: &Bench, costly: u32, mut round: impl FnMut() -> Judgement) -> Judgement {
    let count = (bench.cycles / costly).max(20);
    for _ in 0..count / 2 {
        round()?;
    }
    let mut growth = Vec::new();
    for _ in 0..2 {
        let (memory, files) = (resident()?, descriptors()?);
        for _ in 0..count / 2 {
            round()?;
        }
        let grown = resident()?.saturating_sub(memory);
        let opened = descriptors()?.saturating_sub(files);
        check!(
            opened == 0,
            "{opened} more descriptors after {} cycles",
            count / 2
        );
        if grown <= SLACK {
            return Ok(());
        }
        growth.push(grown);
    }
    let kept = kept_of_threads(count / 2)?;
    if kept > SLACK {
        return skip(format!(
            "the system keeps {kept} bytes of {} finished threads, as an emulated process does, so growth means nothing",
            count / 2
        ));
    }
    Err(Stop::Failed(format!(
        "memory grew by {} and then by {} bytes in {} cycles each",
        growth[0],
        growth[1],
        count / 2
    )))
}

/// What the system keeps of so many threads that did nothing and have ended, in bytes.
#[cfg(target_os = "linux")]
fn kept_of_threads(threads: u32) -> Result<u64, Stop> {
    let mut kept = 0;
    // the first ones fill what is kept for the next
    for _ in 0..2 {
        let before = resident()?;
        for _ in 0..threads {
            let ended = std::thread::spawn(|| ()).join();
            ended.map_err(|_| Stop::Failed("an empty thread panicked".into()))?;
        }
        kept = resident()?.saturating_sub(before);
    }
    Ok(kept)
}

#[cfg(not(target_os = "linux"))]
fn cycle(_: &Bench, _: u32, _: impl FnMut() -> Judgement) -> Judgement {
    skip("memory is measured only on Linux")
}

// on aarch64 tests run in emulated processes, too
#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Else a leak of a plugin's would be skipped where it can be told.
    #[test]
    fn real_system_frees_thread_memory() {
        assert!(kept_of_threads(50).is_ok_and(|kept| kept <= SLACK));
    }
}
