//! Fences: waits, order, signals, timing on the host's clock, and data-dependent shapes.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use polychip_abi as abi;

use crate::bench::Bench;
use crate::case::Case;
use crate::ops;
use crate::plugin::{Fence, now_ns, status_name};
use crate::problem::{deadline, supported};
use crate::verdict::{Judgement, Stop, check, fail, skip};

pub(super) fn cases(cases: &mut Vec<Case>) {
    let case = |name: &str, run: fn(&Bench) -> Judgement| Case::new("fences", name, run).basic();
    cases.extend([
        case("wait-without-limit", |bench| wait_for(bench, u64::MAX)),
        case("wait-again", wait_again),
        case("timeout-of-zero", timeout_zero),
        case("wait-from-many-threads", many_threads),
        case("runs-in-a-row", in_a_row),
        case("run-waits-for-run", run_waits),
        case("chain-of-waits", chain),
        case("waits-for-several", waits_for_several),
        case("signal-comes-once", signal_once),
        case("signal-after-the-end", signal_late),
        case("signals-of-several", signal_several),
        case("signal-without-fence", signal_without_fence),
        case("timing", timing),
        case("timing-in-order", timing_in_order),
        case("steps", steps),
        case("output-dims", output_dims),
        case("output-dims-of-unknown-port", unknown_port).alone(),
    ]);
}

fn wait_for(bench: &Bench, timeout_ns: u64) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let fence = executable.execute(&buffers, &[])?;
    fence.wait_ns(timeout_ns)?;
    problem.judge(&fence, &executable, &buffers, &bench.tolerances())
}

fn wait_again(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let fence = executable.execute(&buffers, &[])?;
    fence.wait()?;
    for timeout in [0, 1, 1_000_000, u64::MAX] {
        fence.wait_ns(timeout)?;
    }
    Ok(())
}

/// Polls until the run has ended.
fn poll(fence: &Fence) -> Judgement {
    let until = deadline(30);
    loop {
        match fence.wait_ns(0) {
            Ok(()) => return Ok(()),
            Err(failure) if failure.status == abi::POLYCHIP_STATUS_TIMEOUT => {
                check!(std::time::Instant::now() < until, "the run does not finish");
                std::thread::yield_now();
            }
            Err(failure) => return Err(failure.into()),
        }
    }
}

fn timeout_zero(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    for _ in 0..20 {
        let fence = executable.execute(&buffers, &[])?;
        poll(&fence)?;
        // once ended, ended
        fence.wait_ns(0)?;
        problem.judge(&fence, &executable, &buffers, &bench.tolerances())?;
    }
    Ok(())
}

fn many_threads(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    for _ in 0..10 {
        let fence = executable.execute(&buffers, &[])?;
        let ends: Vec<_> = std::thread::scope(|scope| {
            let waits: Vec<_> = (0..8)
                .map(|index| {
                    let fence = &fence;
                    scope.spawn(move || {
                        if index % 2 == 0 {
                            fence.wait().map_err(Stop::from)
                        } else {
                            poll(fence)
                        }
                    })
                })
                .collect();
            waits.into_iter().map(|wait| wait.join()).collect()
        });
        for end in ends {
            end.map_err(|_| Stop::Failed("a wait panicked".into()))??;
        }
    }
    Ok(())
}

fn in_a_row(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    for _ in 0..200 {
        executable.execute(&buffers, &[])?.wait()?;
    }
    let fence = executable.execute(&buffers, &[])?;
    fence.wait()?;
    problem.judge(&fence, &executable, &buffers, &bench.tolerances())
}

fn run_waits(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let number = problem.inputs.len();
    let mut inputs = problem.inputs.clone();
    inputs[0] = problem.expected[0].clone();
    let wanted = problem.with_inputs(inputs)?;
    for round in 0..20 {
        let first = problem.buffers(&executable)?;
        let mut second = problem.buffers(&executable)?;
        second[0] = std::sync::Arc::clone(&first[number]);
        let before = executable.execute(&first, &[])?;
        let fence = executable.execute(&second, &[&before])?;
        if round % 2 == 0 {
            // the plugin has taken what it needs of the fence
            drop(before);
        }
        fence.wait()?;
        wanted.judge(&fence, &executable, &second, &bench.tolerances())?;
    }
    Ok(())
}

fn chain(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let number = problem.inputs.len();
    let mut wanted = problem.clone();
    let mut fences: Vec<Fence> = Vec::new();
    let mut buffers = problem.buffers(&executable)?;
    let mut waits = Vec::new();
    for link in 0..16 {
        if link > 0 {
            let mut next = problem.buffers(&executable)?;
            next[0] = std::sync::Arc::clone(&buffers[number]);
            buffers = next;
            let mut inputs = problem.inputs.clone();
            inputs[0] = wanted.expected[0].clone();
            wanted = problem.with_inputs(inputs)?;
        }
        let fence = executable.execute(&buffers, &fences.last().into_iter().collect::<Vec<_>>())?;
        fences.push(fence);
        waits.push(link);
    }
    let last = fences.last().ok_or_else(|| Stop::Failed("no run".into()))?;
    last.wait()?;
    for fence in &fences {
        // what the last one waited for has ended
        fence.wait_ns(0)?;
    }
    wanted.judge(last, &executable, &buffers, &bench.tolerances())
}

fn waits_for_several(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let runs = (0..4)
        .map(|_| problem.buffers(&executable))
        .collect::<Result<Vec<_>, _>>()?;
    let fences = runs
        .iter()
        .map(|buffers| executable.execute(buffers, &[]))
        .collect::<Result<Vec<_>, _>>()?;
    let buffers = problem.buffers(&executable)?;
    let all: Vec<&Fence> = fences.iter().chain(&fences).collect();
    let fence = executable.execute(&buffers, &all)?;
    fence.wait()?;
    for fence in &fences {
        fence.wait_ns(0)?;
    }
    problem.judge(&fence, &executable, &buffers, &bench.tolerances())
}

/// Counts signals; lives as long as the process, because a plugin that signals too late would write to it.
struct Counter {
    calls: AtomicU32,
    status: AtomicU32,
}

impl Counter {
    fn new() -> &'static Counter {
        Box::leak(Box::new(Counter {
            calls: AtomicU32::new(0),
            status: AtomicU32::new(u32::MAX),
        }))
    }

    fn user(&'static self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Waits for the first signal, then for a second one that must not come.
    fn once(&self) -> Judgement {
        let until = deadline(30);
        while self.calls.load(Ordering::Acquire) == 0 {
            check!(std::time::Instant::now() < until, "no signal arrived");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(10));
        let calls = self.calls.load(Ordering::Acquire);
        check!(calls == 1, "{calls} signals arrived for one run");
        let status = self.status.load(Ordering::Acquire);
        check!(
            status == abi::POLYCHIP_STATUS_OK,
            "the signal reports {}, but the run succeeded",
            status_name(status)
        );
        Ok(())
    }
}

unsafe extern "C" fn count(user: *mut c_void, status: u32) {
    // SAFETY: `user` is a counter that is never freed.
    let counter = unsafe { &*user.cast_const().cast::<Counter>() };
    counter.status.store(status, Ordering::Release);
    counter.calls.fetch_add(1, Ordering::AcqRel);
}

/// Registers a counter.
fn register(fence: &Fence) -> Result<&'static Counter, Stop> {
    let counter = Counter::new();
    // SAFETY: the counter is never freed.
    match unsafe { fence.on_signal(count, counter.user()) }? {
        Some(()) => Ok(counter),
        None => skip("fence_on_signal is not offered"),
    }
}

fn signal_once(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    for _ in 0..10 {
        let fence = executable.execute(&buffers, &[])?;
        let counter = register(&fence)?;
        counter.once()?;
        fence.wait()?;
    }
    Ok(())
}

fn signal_late(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let fence = executable.execute(&buffers, &[])?;
    fence.wait()?;
    register(&fence)?.once()?;
    register(&fence)?.once()
}

fn signal_several(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let fence = executable.execute(&buffers, &[])?;
    let counters = (0..5).map(|_| register(&fence)).collect::<Result<Vec<_>, _>>()?;
    fence.wait()?;
    counters.iter().try_for_each(|counter| counter.once())
}

fn signal_without_fence(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let fence = executable.execute(&buffers, &[])?;
    let counter = register(&fence)?;
    fence.destroy_at_once();
    counter.once()
}

fn steps(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let plain = executable.execute(&buffers, &[])?;
    plain.wait()?;
    match plain.steps(0) {
        Ok(None) => return skip("fence_steps is not offered"),
        Err(failure) if failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED => {}
        Err(failure) => return Err(failure.into()),
        Ok(Some((_, count))) => {
            return fail(format!("a run without step measurement has {count} steps"));
        }
    }
    let before = now_ns();
    let fence = executable.execute_by_steps(&buffers)?;
    fence.wait()?;
    let took = now_ns() - before;
    let count = match fence.steps(0) {
        Err(failure) if failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED => {
            return skip("this device measures no steps");
        }
        Err(failure) => return Err(failure.into()),
        Ok(steps) => steps.map_or(0, |(_, count)| count),
    };
    check!(count > 0, "a run with step measurement has no steps");
    let Some((steps, again)) = fence.steps(count as usize)? else {
        return fail("fence_steps is offered once, but not again");
    };
    check!(again == count, "{count} steps, and then {again}");
    // SAFETY: the problem keeps its graph.
    let nodes = unsafe { (*problem.flat.raw()).node_count } as u32;
    let mut sum = 0u64;
    for (index, step) in steps.iter().enumerate() {
        check!(
            step.flags < 8,
            "step {index} has unknown bits in flags: {:#x}",
            step.flags
        );
        check!(step.name.len > 0, "step {index} has no name");
        if step.node_count > 0 {
            check!(!step.nodes.is_null(), "the nodes of step {index} are null");
            // SAFETY: they live as long as the fence, by the contract.
            let of = unsafe { std::slice::from_raw_parts(step.nodes, step.node_count as usize) };
            check!(
                of.iter().all(|node| *node < nodes),
                "step {index} computes {of:?} of {nodes} nodes"
            );
        }
        sum = sum.saturating_add(step.time_ns);
    }
    check!(sum > 0, "every step took no time");
    check!(sum <= took, "steps of {sum} ns in a run of {took} ns");
    problem.judge(&fence, &executable, &buffers, &bench.tolerances())
}

fn timing(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    // a run to warm up
    executable.execute(&buffers, &[])?.wait()?;
    for _ in 0..5 {
        let before = now_ns();
        let fence = executable.execute(&buffers, &[])?;
        fence.wait()?;
        let after = now_ns();
        let timing = match fence.timing() {
            Ok(Some(timing)) => timing,
            Ok(None) => return skip("fence_timing is not offered"),
            Err(failure) if failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED => {
                return skip("runs are not measured");
            }
            Err(failure) => return Err(failure.into()),
        };
        check!(timing.valid < 16, "unknown bits in valid: {:#x}", timing.valid);
        let queued = (timing.valid & abi::POLYCHIP_TIMING_QUEUED != 0).then_some(timing.queued_ns);
        if timing.valid & abi::POLYCHIP_TIMING_SPAN != 0 {
            let (start, end) = (timing.start_ns, timing.end_ns);
            check!(start <= end, "the run starts at {start} and ends at {end}");
            check!(
                before <= start && end <= after,
                "the run took from {start} to {end}, but lay between {before} and {after} on the host's clock"
            );
            if let Some(queued) = queued {
                check!(
                    queued <= start,
                    "the run is queued at {queued} and starts at {start}"
                );
            }
        }
        if let Some(queued) = queued {
            check!(
                before <= queued && queued <= after,
                "queued at {queued}, not between {before} and {after}"
            );
        }
        if timing.valid & abi::POLYCHIP_TIMING_COPIED != 0 {
            // each port there, back and converted once on each side
            let bytes: u64 = executable.ports().iter().map(|port| port.bytes).sum();
            check!(
                timing.copied_bytes <= 4 * bytes,
                "a run with ports of {bytes} bytes copied {}",
                timing.copied_bytes
            );
        }
        if timing.valid & abi::POLYCHIP_TIMING_ENERGY != 0 {
            check!(
                timing.energy_uj < 1_000_000_000,
                "a small run took {} µJ",
                timing.energy_uj
            );
        }
    }
    Ok(())
}

fn timing_in_order(bench: &Bench) -> Judgement {
    let serial = bench.device.info()?.flags & abi::POLYCHIP_DEVICE_SERIAL != 0;
    if !serial {
        return skip("the device does not state that runs finish in order");
    }
    let (problem, executable) = bench.loaded()?;
    let runs = (0..8)
        .map(|_| problem.buffers(&executable))
        .collect::<Result<Vec<_>, _>>()?;
    let fences = runs
        .iter()
        .map(|buffers| executable.execute(buffers, &[]))
        .collect::<Result<Vec<_>, _>>()?;
    let mut last = 0;
    for (index, fence) in fences.iter().enumerate() {
        fence.wait()?;
        let Ok(Some(timing)) = fence.timing() else {
            return skip("runs are not measured");
        };
        if timing.valid & abi::POLYCHIP_TIMING_SPAN == 0 {
            return skip("runs are not measured");
        }
        check!(
            timing.end_ns >= last,
            "run {index} of a serial device ends at {}, the one before at {last}",
            timing.end_ns
        );
        last = timing.end_ns;
    }
    Ok(())
}

fn output_dims(bench: &Bench) -> Judgement {
    let spec = ops::specs()
        .iter()
        .find(|spec| spec.name == "NonZero/plain/f32")
        .ok_or_else(|| Stop::Failed("a mistake of the suite: no NonZero".into()))?;
    let problem = spec.build().map_err(Stop::Failed)?;
    supported(&bench.device, &problem.flat)?;
    let executable = problem.load(&bench.device, bench.reduced)?;
    let number = problem.inputs.len();
    check!(
        executable.ports()[number].is_bound(),
        "a port of unknown extents states no upper bounds"
    );
    let buffers = problem.buffers(&executable)?;
    let fence = executable.execute(&buffers, &[])?;
    fence.wait()?;
    let wanted: Vec<i64> = problem.expected[0]
        .shape
        .iter()
        .map(|size| *size as i64)
        .collect();
    for capacity in [0, 1, 2, 16] {
        let Some((dims, rank)) = fence.output_dims(number as u32, capacity)? else {
            return fail("a port states upper bounds, but fence_output_shape is not offered");
        };
        check!(
            rank == wanted.len() as u64,
            "rank {rank} instead of {}",
            wanted.len()
        );
        let fit = capacity.min(wanted.len());
        check!(
            dims[..fit] == wanted[..fit],
            "extents {dims:?} instead of {wanted:?}"
        );
    }
    problem.judge(&fence, &executable, &buffers, &bench.tolerances())
}

fn unknown_port(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let fence = executable.execute(&buffers, &[])?;
    fence.wait()?;
    for port in [executable.ports().len() as u32, u32::MAX] {
        match fence.output_dims(port, 16) {
            Ok(None) => return skip("fence_output_shape is not offered"),
            Ok(Some(_)) => return fail(format!("port {port} of {} has a shape", executable.ports().len())),
            Err(failure) => check!(
                failure.status != abi::POLYCHIP_STATUS_TIMEOUT,
                "port {port} is refused as a run in progress"
            ),
        }
    }
    Ok(())
}
