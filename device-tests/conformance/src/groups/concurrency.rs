//! Concurrency: the calls that the contract states thread-safe, from several threads.

use std::sync::Arc;

use crate::bench::Bench;
use crate::case::Case;
use crate::plugin::Device;
use crate::verdict::{Judgement, Stop};

/// Threads of a case.
const THREADS: u64 = 4;

pub(super) fn cases(cases: &mut Vec<Case>) {
    let case = |name: &str, run: fn(&Bench) -> Judgement| Case::new("concurrency", name, run).basic();
    cases.extend([
        case("threads-compile-load-run", compile_load_run),
        case("threads-run-one-executable", one_executable),
        case("many-runs-in-flight", many_in_flight),
        case("threads-load-one-blob", load_one_blob),
        case("threads-ask-and-run", ask_and_run),
        case("instances-in-parallel", instances),
        case("threads-make-buffers", buffers),
        case("runs-wait-across-threads", wait_across),
    ]);
}

/// Runs `work` from several threads and gives the first failure.
fn at_once(work: impl Fn(u64) -> Judgement + Sync) -> Judgement {
    let ends: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let work = &work;
                scope.spawn(move || work(thread))
            })
            .collect();
        threads
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect()
    });
    for end in ends {
        end.map_err(|_| Stop::Failed("a thread of the case panicked".into()))??;
    }
    Ok(())
}

fn rounds(bench: &Bench, device: &Arc<Device>, thread: u64) -> Judgement {
    let problem = bench.carrier()?;
    for round in 0..8 {
        let next = problem.seeded(thread * 100 + round)?;
        next.solve(device, bench.reduced, &bench.tolerances())?;
    }
    Ok(())
}

fn compile_load_run(bench: &Bench) -> Judgement {
    at_once(|thread| rounds(bench, &bench.device, thread))
}

fn one_executable(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    at_once(|thread| {
        for round in 0..20 {
            let next = problem.seeded(thread * 100 + round)?;
            next.run(&executable, &bench.tolerances())?;
        }
        Ok(())
    })
}

fn many_in_flight(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    for round in 0..4 {
        let problems = (0..16)
            .map(|run| problem.seeded(round * 100 + run))
            .collect::<Result<Vec<_>, _>>()?;
        let buffers = problems
            .iter()
            .map(|problem| problem.buffers(&executable))
            .collect::<Result<Vec<_>, _>>()?;
        let fences = buffers
            .iter()
            .map(|buffers| executable.execute(buffers, &[]))
            .collect::<Result<Vec<_>, _>>()?;
        for ((problem, buffers), fence) in problems.iter().zip(&buffers).zip(&fences).rev() {
            fence.wait()?;
            problem.judge(fence, &executable, buffers, &bench.tolerances())?;
        }
    }
    Ok(())
}

fn load_one_blob(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    let bytes = bench.device.compile(&problem.flat, bench.reduced)?.bytes()?;
    at_once(|_| {
        for _ in 0..8 {
            let executable = bench.device.load_bytes(&problem.flat, Arc::clone(&bytes))?;
            problem.run(&executable, &bench.tolerances())?;
        }
        Ok(())
    })
}

fn ask_and_run(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let answers = bench.device.support(&problem.flat)?;
    let info = bench.device.info()?;
    at_once(|thread| {
        for _ in 0..20 {
            if thread % 2 == 0 {
                problem.run(&executable, &bench.tolerances())?;
                continue;
            }
            let same = bench.device.support(&problem.flat)? == answers && bench.device.info()? == info;
            crate::verdict::check!(same, "its answer differs while runs are in progress");
            bench.device.telemetry()?;
            bench.device.estimate(&problem.flat, &[0])?;
        }
        Ok(())
    })
}

fn instances(bench: &Bench) -> Judgement {
    at_once(|thread| rounds(bench, &bench.reopen()?, thread))
}

fn buffers(bench: &Bench) -> Judgement {
    at_once(|thread| {
        for round in 0..50 {
            let bytes = 64 + thread * 1000 + round;
            let buffer = bench.device.create_buffer(bytes, 64)?;
            let pattern = vec![(thread * 50 + round) as u8; bytes as usize];
            buffer.write(0, &pattern)?;
            crate::verdict::check!(
                buffer.read(0, bytes)? == pattern,
                "a buffer holds another thread's data"
            );
        }
        Ok(())
    })
}

fn wait_across(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let first = problem.buffers(&executable)?;
    let before = executable.execute(&first, &[])?;
    at_once(|thread| {
        for round in 0..10 {
            let next = problem.seeded(thread * 100 + round)?;
            let buffers = next.buffers(&executable)?;
            let fence = executable.execute(&buffers, &[&before])?;
            fence.wait()?;
            before.wait_ns(0)?;
            next.judge(&fence, &executable, &buffers, &bench.tolerances())?;
        }
        Ok(())
    })
}
