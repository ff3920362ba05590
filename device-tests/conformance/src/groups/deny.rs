//! Impossible requests: memory, kinds, cancelled runs, late runs, a reset. The device stays usable after each.

use polychip_abi as abi;

use crate::bench::Bench;
use crate::case::Case;
use crate::plugin::{Buffer, Failure, status_name};
use crate::verdict::{Judgement, check, fail, skip};

pub(super) fn cases(cases: &mut Vec<Case>) {
    let case = |name: &str, run: fn(&Bench) -> Judgement| Case::new("deny", name, run).basic();
    cases.extend([
        case("memory-that-is-not-there", endless_memory).alone(),
        case("memory-kinds", memory_kinds),
        case("unknown-memory-kind", unknown_kind).alone(),
        case("odd-alignment", odd_alignment).alone(),
        case("cancel-after-the-end", cancel_late),
        case("cancel-in-flight", cancel_in_flight),
        case("late-deadline", deadline),
        case("priorities", priorities),
        case("reset", reset).alone(),
        case("reset-in-flight", reset_in_flight).alone(),
    ]);
}

fn endless_memory(bench: &Bench) -> Judgement {
    for bytes in [1u64 << 50, 1 << 62, u64::MAX - 63, u64::MAX] {
        match bench.device.create_buffer(bytes, 64) {
            Ok(_) => return fail(format!("a buffer of {bytes} bytes is made")),
            Err(failure) => {
                check!(
                    matches!(
                        failure.status,
                        abi::POLYCHIP_STATUS_OUT_OF_MEMORY | abi::POLYCHIP_STATUS_BAD_ARGUMENT
                    ),
                    "a buffer of {bytes} bytes is refused as {} instead of OUT_OF_MEMORY",
                    status_name(failure.status)
                );
                check!(
                    !failure.words.is_empty(),
                    "a buffer of {bytes} bytes is refused without a message"
                );
            }
        }
    }
    bench.works()
}

fn memory_kinds(bench: &Bench) -> Judgement {
    for kind in 0..=abi::POLYCHIP_MEMORY_VENDOR {
        match Buffer::create(&bench.device, kind, 4096, 64) {
            Ok(_) => {}
            Err(failure) => {
                check!(
                    kind != abi::POLYCHIP_MEMORY_HOST,
                    "host memory must be offered: {failure}"
                );
                check!(
                    failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED,
                    "memory of kind {kind} is refused as {} instead of UNSUPPORTED",
                    status_name(failure.status)
                );
            }
        }
    }
    bench.works()
}

fn unknown_kind(bench: &Bench) -> Judgement {
    for kind in [6, 99, u32::MAX] {
        match Buffer::create(&bench.device, kind, 4096, 64) {
            Ok(_) => return fail(format!("memory of kind {kind} is made")),
            Err(failure) => check!(
                matches!(
                    failure.status,
                    abi::POLYCHIP_STATUS_UNSUPPORTED | abi::POLYCHIP_STATUS_BAD_ARGUMENT
                ),
                "memory of kind {kind} is refused as {}",
                status_name(failure.status)
            ),
        }
    }
    bench.works()
}

fn odd_alignment(bench: &Bench) -> Judgement {
    for alignment in [3, 100, 1 << 40, u64::MAX] {
        match bench.device.create_buffer(64, alignment) {
            Ok(buffer) => {
                let address = buffer.access(abi::POLYCHIP_ACCESS_READ, 0, 64, |data| data as u64)?;
                check!(
                    address.is_multiple_of(alignment),
                    "a buffer of alignment {alignment} is made at {address:#x}"
                );
            }
            Err(failure) => check!(
                !failure.words.is_empty(),
                "alignment {alignment} is refused without a message"
            ),
        }
    }
    bench.works()
}

fn cancel_late(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let fence = executable.execute(&buffers, &[])?;
    fence.wait()?;
    match fence.cancel() {
        Ok(None) => return skip("cancel is not offered"),
        Ok(Some(())) => {}
        Err(failure) if failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED => {}
        Err(failure) => return Err(failure.into()),
    }
    // what was done stays done
    fence.wait()?;
    problem.judge(&fence, &executable, &buffers, &bench.tolerances())
}

fn cancel_in_flight(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    if bench.device.table().cancel.is_none() {
        return skip("cancel is not offered");
    }
    for _ in 0..10 {
        let runs = (0..4)
            .map(|_| problem.buffers(&executable))
            .collect::<Result<Vec<_>, _>>()?;
        let fences = runs
            .iter()
            .map(|buffers| executable.execute(buffers, &[]))
            .collect::<Result<Vec<_>, _>>()?;
        for fence in fences.iter().rev() {
            match fence.cancel() {
                Ok(_) => {}
                Err(failure) if failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED => {
                    return skip("runs finish on their own");
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        for (fence, buffers) in fences.iter().zip(&runs) {
            match fence.wait() {
                Ok(()) => problem.judge(fence, &executable, buffers, &bench.tolerances())?,
                Err(failure) => check!(
                    failure.status == abi::POLYCHIP_STATUS_CANCELLED,
                    "a cancelled run ends with {}",
                    status_name(failure.status)
                ),
            }
        }
    }
    problem.run(&executable, &bench.tolerances())
}

fn deadline(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let fence = executable.execute_with(&buffers, abi::POLYCHIP_PRIORITY_NORMAL, 1)?;
    match fence.wait() {
        Ok(()) => problem.judge(&fence, &executable, &buffers, &bench.tolerances())?,
        Err(failure) => check!(
            failure.status == abi::POLYCHIP_STATUS_CANCELLED,
            "a late run ends with {}",
            status_name(failure.status)
        ),
    }
    let far = u64::MAX - 1;
    let fence = executable.execute_with(&buffers, abi::POLYCHIP_PRIORITY_NORMAL, far)?;
    fence.wait()?;
    problem.judge(&fence, &executable, &buffers, &bench.tolerances())
}

fn priorities(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    // a hint: one that is not known is ignored
    for priority in [0, 1, 2, 77] {
        let fence = executable.execute_with(&buffers, priority, abi::POLYCHIP_NO_DEADLINE)?;
        fence.wait()?;
        problem.judge(&fence, &executable, &buffers, &bench.tolerances())?;
    }
    Ok(())
}

fn reset(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    executable.execute(&buffers, &[])?.wait()?;
    for _ in 0..3 {
        match bench.device.reset() {
            Ok(None) => return skip("device_reset is not offered"),
            Ok(Some(())) => {}
            Err(failure) if failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED => {
                return skip("the device cannot be reset");
            }
            Err(failure) => return Err(failure.into()),
        }
    }
    // void, and can be destroyed
    drop(executable);
    let again = problem.load(&bench.device, bench.reduced)?;
    // buffers stay, with what they hold
    let number = problem.inputs.len();
    let fence = again.execute(&buffers, &[])?;
    fence.wait()?;
    problem.judge(&fence, &again, &buffers, &bench.tolerances())?;
    buffers[number].read(0, 1)?;
    bench.works()
}

/// Whether a buffer in the device's own memory reports its contents as lost.
fn is_lost(buffer: &Buffer) -> bool {
    let lost = |failure: Failure| failure.status == abi::POLYCHIP_STATUS_DEVICE_LOST;
    buffer.memory().is_none() && buffer.read(0, buffer.bytes()).err().is_some_and(lost)
}

fn reset_in_flight(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    if bench.device.table().device_reset.is_none() {
        return skip("device_reset is not offered");
    }
    let runs = (0..8)
        .map(|_| problem.buffers(&executable))
        .collect::<Result<Vec<_>, _>>()?;
    let fences = runs
        .iter()
        .map(|buffers| executable.execute(buffers, &[]))
        .collect::<Result<Vec<_>, _>>()?;
    match bench.device.reset() {
        Err(failure) if failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED => {
            return skip("the device cannot be reset");
        }
        done => done?,
    };
    for (fence, buffers) in fences.iter().zip(&runs) {
        match fence.wait() {
            // a reset may discard what runs wrote to the device's own memory; reading it is then an error
            Ok(()) if is_lost(&buffers[executable.inputs()]) => {}
            Ok(()) => problem.judge(fence, &executable, buffers, &bench.tolerances())?,
            Err(failure) => check!(
                matches!(
                    failure.status,
                    abi::POLYCHIP_STATUS_DEVICE_LOST | abi::POLYCHIP_STATUS_CANCELLED
                ),
                "a run ended by the reset returns {}",
                status_name(failure.status)
            ),
        }
    }
    drop(fences);
    drop(executable);
    bench.works()
}
