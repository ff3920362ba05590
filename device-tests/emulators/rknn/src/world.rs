//! What lives in the runtime: contexts and memory, by their numbers, and how many.
//!
//! Invariants:
//! 1. A context's number is never used again; memory's is the address of its record. A call on what is not alive is an
//!    error of the vendor's.
//! 2. The lock is held for lookups and copies, never while a model computes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::context::Context;
use crate::memory::{Memory, Views};

/// What was done since the library was opened.
pub(crate) struct Tally {
    pub(crate) runs: AtomicU64,
    pub(crate) copied_bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) nanoseconds: AtomicU64,
    pub(crate) nanojoules: AtomicU64,
}

pub(crate) static COUNTS: Tally = Tally {
    runs: AtomicU64::new(0),
    copied_bytes: AtomicU64::new(0),
    syncs: AtomicU64::new(0),
    nanoseconds: AtomicU64::new(0),
    nanojoules: AtomicU64::new(0),
};

struct World {
    contexts: BTreeMap<u64, Arc<Context>>,
    memories: BTreeMap<usize, Memory>,
    views: Views,
    next: u64,
}

static WORLD: Mutex<World> = Mutex::new(World {
    contexts: BTreeMap::new(),
    memories: BTreeMap::new(),
    views: Views::new(),
    next: 1,
});

fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Contexts and memories alive.
pub(crate) fn alive() -> (u64, u64) {
    let world = world();
    (world.contexts.len() as u64, world.memories.len() as u64)
}

/// Keeps a context, and gives its number.
pub(crate) fn add(context: Context) -> u64 {
    let mut world = world();
    let number = world.next;
    world.next += 1;
    world.contexts.insert(number, Arc::new(context));
    number
}

pub(crate) fn context(number: u64) -> Option<Arc<Context>> {
    world().contexts.get(&number).cloned()
}

/// Ends a context; memory made of it stays until it is let go of.
pub(crate) fn end(number: u64) -> bool {
    let ended = world().contexts.remove(&number);
    ended.is_some()
}

/// The chip starts anew: every context is void.
pub(crate) fn lose() {
    let lost = std::mem::take(&mut world().contexts);
    drop(lost);
}

/// Memory of the runtime's own, under the number that `id` makes of its address and size.
pub(crate) fn own_memory(context: u64, size: usize, id: impl FnOnce(&Memory) -> usize) -> usize {
    let memory = Memory::own(context, size);
    let id = id(&memory);
    world().memories.insert(id, memory);
    id
}

/// Memory of a file.
pub(crate) fn file_memory(
    context: u64,
    fd: i32,
    address: usize,
    size: usize,
    offset: usize,
    id: impl FnOnce(&Memory) -> usize,
) -> Option<usize> {
    let mut world = world();
    let memory = Memory::of_file(context, fd, address, size, offset, &mut world.views)?;
    let id = id(&memory);
    world.memories.insert(id, memory);
    Some(id)
}

/// Bytes of memory that is alive.
pub(crate) fn size(memory: usize) -> Option<usize> {
    world().memories.get(&memory).map(|memory| memory.size)
}

/// Releases memory of a context; false where the context has no such memory.
pub(crate) fn end_memory(context: u64, memory: usize) -> bool {
    let mut world = world();
    let mine = world
        .memories
        .get(&memory)
        .is_some_and(|found| found.context == context);
    if !mine {
        return false;
    }
    let World {
        memories,
        views,
        contexts,
        ..
    } = &mut *world;
    let Some(found) = memories.remove(&memory) else {
        return false;
    };
    found.end(views);
    if let Some(context) = contexts.get(&context) {
        context.unbind(memory);
    }
    true
}

/// Maintenance by hand.
pub(crate) fn sync(memory: usize, to_device: bool, from_device: bool) -> bool {
    COUNTS.syncs.fetch_add(1, Ordering::Relaxed);
    let mut world = world();
    let World { memories, views, .. } = &mut *world;
    let Some(memory) = memories.get_mut(&memory) else {
        return false;
    };
    if to_device {
        memory.flush(views);
    }
    if from_device {
        memory.invalidate(views);
    }
    true
}

/// Reads as the chip does, after maintenance where that is wanted.
pub(crate) fn read(memory: usize, flush: bool) -> Option<Vec<u8>> {
    let mut world = world();
    let World { memories, views, .. } = &mut *world;
    let memory = memories.get_mut(&memory)?;
    if flush {
        memory.flush(views);
    }
    Some(memory.read(views))
}

/// Writes as the chip does, before maintenance where that is wanted.
pub(crate) fn write(memory: usize, bytes: &[u8], invalidate: bool) -> bool {
    let mut world = world();
    let World { memories, views, .. } = &mut *world;
    let Some(memory) = memories.get_mut(&memory) else {
        return false;
    };
    memory.write(bytes, views);
    if invalidate {
        memory.invalidate(views);
    }
    true
}
