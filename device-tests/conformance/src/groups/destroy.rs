//! Destruction in every order that the contract allows.

#![allow(unsafe_code)]

use std::sync::Arc;

use polychip_abi as abi;

use crate::bench::Bench;
use crate::case::Case;
use crate::plugin::Fence;
use crate::verdict::{Judgement, Stop, check};

pub(super) fn cases(cases: &mut Vec<Case>) {
    let case = |name: &str, run: fn(&Bench) -> Judgement| Case::new("destroy", name, run).basic();
    cases.extend([
        case("null-is-accepted", null).alone(),
        case("blob-never-loaded", blob_unused),
        case("blob-before-run", blob_before_run),
        case("blob-after-executable", blob_after_executable),
        case("buffers-before-executable", buffers_first),
        case("executable-before-buffers", executable_first),
        case("executable-before-fence", executable_before_fence),
        case("waited-for-fence-first", waited_first),
        case("graph-before-run", graph_before_run),
        case("devices-in-any-order", devices),
        case("instance-ends-its-threads", threads),
    ]);
}

fn null(bench: &Bench) -> Judgement {
    let table = bench.library.table();
    macro_rules! destroys {
        ($($call:ident),+) => {
            $(
                let call = table.$call.expect("invariant: required calls are checked");
                // SAFETY: every destroy accepts null.
                unsafe { call(std::ptr::null_mut()) };
            )+
        };
    }
    destroys!(
        destroy,
        device_close,
        blob_destroy,
        executable_destroy,
        buffer_destroy,
        fence_destroy
    );
    bench
        .carrier()?
        .solve(&bench.device, bench.reduced, &bench.tolerances())
}

fn blob_unused(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    for _ in 0..10 {
        drop(bench.device.compile(&problem.flat, bench.reduced)?);
        bench.device.compile(&problem.flat, bench.reduced)?.bytes()?;
    }
    Ok(())
}

fn blob_before_run(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    let mut blob = bench.device.compile(&problem.flat, bench.reduced)?;
    let executable = blob.load()?;
    drop(blob);
    problem.run(&executable, &bench.tolerances())
}

fn blob_after_executable(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    let mut blob = bench.device.compile(&problem.flat, bench.reduced)?;
    let executable = blob.load()?;
    problem.run(&executable, &bench.tolerances())?;
    drop(executable);
    drop(blob);
    Ok(())
}

fn buffers_first(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    problem.run(&executable, &bench.tolerances())?;
    // the first ones are gone
    problem.run(&executable, &bench.tolerances())
}

fn executable_first(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    executable.execute(&buffers, &[])?.wait()?;
    drop(executable);
    buffers[0].read(0, 1)?;
    drop(buffers);
    bench
        .carrier()?
        .solve(&bench.device, bench.reduced, &bench.tolerances())
}

fn executable_before_fence(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let fence = executable.execute(&buffers, &[])?;
    fence.wait()?;
    let table = *bench.library.table();
    let raw = fence.into_raw();
    // the fence's own hold is gone with `into_raw`
    check!(
        Arc::strong_count(&executable) == 1,
        "a mistake of the suite: the executable is held"
    );
    drop(executable);
    let wait = table.fence_wait.expect("invariant: required calls are checked");
    // SAFETY: the fence is alive: fences that have signalled may be destroyed later than their executable.
    let status = unsafe { wait(raw, 0, std::ptr::null_mut()) };
    let destroy = table
        .fence_destroy
        .expect("invariant: required calls are checked");
    // SAFETY: destroyed once.
    unsafe { destroy(raw) };
    check!(
        status == abi::POLYCHIP_STATUS_OK,
        "after its executable is destroyed, the fence returns {}",
        crate::plugin::status_name(status)
    );
    Ok(())
}

fn waited_first(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    for _ in 0..20 {
        let one = problem.buffers(&executable)?;
        let two = problem.buffers(&executable)?;
        let first = executable.execute(&one, &[])?;
        let second = executable.execute(&two, &[&first])?;
        // a fence may be destroyed while its run goes on; the run that waits for it goes on waiting
        Fence::destroy_at_once(first);
        second.wait()?;
        problem.judge(&second, &executable, &two, &bench.tolerances())?;
    }
    Ok(())
}

fn graph_before_run(bench: &Bench) -> Judgement {
    // a graph of its own, which nothing else holds
    let problem = bench.carrier()?;
    let flat = crate::plugin::RawGraph::of(&problem.flat);
    let executable = flat.load(&bench.device, &problem.flat)?;
    drop(flat);
    problem.run(&executable, &bench.tolerances())
}

fn devices(bench: &Bench) -> Judgement {
    let instance = bench.library.create(&bench.configuration)?;
    let count = instance.device_count()?;
    let mut open = (0..count.min(8))
        .map(|index| instance.open(index))
        .collect::<Result<Vec<_>, _>>()?;
    drop(instance);
    while !open.is_empty() {
        drop(open.remove(open.len() / 2));
    }
    bench
        .carrier()?
        .solve(&bench.device, bench.reduced, &bench.tolerances())
}

#[cfg(target_os = "linux")]
fn threads(bench: &Bench) -> Judgement {
    let count = || {
        std::fs::read_dir("/proc/self/task")
            .map(Iterator::count)
            .map_err(|error| Stop::Failed(format!("the system: {error}")))
    };
    let run = || {
        let device = bench.reopen()?;
        bench
            .carrier()?
            .solve(&device, bench.reduced, &bench.tolerances())
    };
    // vendors keep a pool of their own for the process
    run()?;
    let before = count()?;
    for _ in 0..5 {
        run()?;
    }
    // a thread that was joined may still be listed for a moment
    let until = crate::problem::deadline(5);
    while count()? > before && std::time::Instant::now() < until {
        std::thread::yield_now();
    }
    let after = count()?;
    check!(
        after <= before,
        "{before} threads, and {after} after five more instances"
    );
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn threads(_: &Bench) -> Judgement {
    Err(Stop::Skipped("threads are counted only on Linux".into()))
}
