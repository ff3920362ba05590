//! Does the work of a stream when a caller waits for it.

use std::sync::atomic::Ordering;

use polychip_emulator_chip::fault::Effect;
use polychip_sys::ascend::bindings as acl;

use crate::board::{self, COUNTS};
use crate::world::{self, Code, Command, Loaded, outside};

/// Does all work of a stream, up to the first failure.
pub(crate) fn synchronize(number: usize) -> Result<(), Code> {
    let (pending, mut now_ns) = world::with(|world| {
        let stream = world.streams.get_mut(&number).ok_or(acl::ACL_RT_OTHER_CONTEXT)?;
        Ok::<_, Code>((std::mem::take(&mut stream.pending), stream.now_ns))
    })?;
    let done = pending.into_iter().try_for_each(|command| match command {
        Command::Record(event) => {
            world::with(|world| world.events.get_mut(&event).map(|(_, at)| *at = Some(now_ns)));
            Ok(())
        }
        Command::Copy(to, from, bytes) => world::with(|world| {
            let copied = world.range(from, bytes)?.to_vec();
            world.range(to, bytes)?.copy_from_slice(&copied);
            COUNTS.on_board_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            Ok(())
        }),
        Command::Run {
            loaded,
            inputs,
            outputs,
        } => run(&loaded, &inputs, &outputs).map(|ns| now_ns += ns),
    });
    world::with(|world| {
        world
            .streams
            .get_mut(&number)
            .map(|stream| stream.now_ns = now_ns)
    });
    done
}

/// One run; nanoseconds.
fn run(loaded: &Loaded, inputs: &[usize], outputs: &[usize]) -> Result<u64, Code> {
    let effect = board::faults().act("run");
    match effect {
        Some(Effect::Fail(code)) => return Err(u32::try_from(code).unwrap_or(acl::ACL_RT_MODEL_FAILED)),
        Some(Effect::Lost) => {
            world::with(world::World::lose);
            return Err(acl::ACL_RT_LOST_HEARTBEAT);
        }
        _ => {}
    }
    let program = &loaded.model.program;
    let mut taken = Vec::with_capacity(inputs.len());
    for (spec, &address) in program.inputs().zip(inputs) {
        let seen = outside(spec);
        let bytes = world::with(|world| world.range(address, seen.bytes()).map(|bytes| bytes.to_vec()))?;
        let value = seen.load(&bytes).and_then(|value| spec.store(&value));
        taken.push(value.map_err(|_| acl::ACL_RT_MODEL_FAILED)?);
    }
    let taken: Vec<&[u8]> = taken.iter().map(Vec::as_slice).collect();
    let (made, work) = program.run(&taken).map_err(|_| acl::ACL_RT_MODEL_FAILED)?;
    for ((spec, bytes), &address) in program.outputs().zip(&made).zip(outputs) {
        let given = spec.load(bytes).and_then(|value| outside(spec).store(&value));
        let mut given = given.map_err(|_| acl::ACL_RT_MODEL_FAILED)?;
        if effect == Some(Effect::Wrong) {
            let half = given.len() / 2;
            given[half..].fill(0);
        }
        world::with(|world| {
            world.range(address, given.len())?.copy_from_slice(&given);
            Ok::<_, Code>(())
        })?;
    }
    let spent = board::spend(work);
    COUNTS.runs.fetch_add(1, Ordering::Relaxed);
    COUNTS.nanoseconds.fetch_add(spent.ns, Ordering::Relaxed);
    COUNTS.nanojoules.fetch_add(spent.nj as u64, Ordering::Relaxed);
    Ok(spent.ns)
}
