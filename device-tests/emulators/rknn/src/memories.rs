//! The live memories, by the address of their record.
//!
//! Invariant: the lock is held for lookups and copies, never while a model computes.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::board::COUNTS;
use crate::memory::{Memory, Views};

struct Memories {
    all: BTreeMap<usize, Memory>,
    views: Views,
}

static MEMORIES: Mutex<Memories> = Mutex::new(Memories {
    all: BTreeMap::new(),
    views: Views::new(),
});

fn memories() -> MutexGuard<'static, Memories> {
    MEMORIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memories alive.
pub(crate) fn alive() -> u64 {
    memories().all.len() as u64
}

/// Frees memory of a context; false if the context has no such memory.
pub(crate) fn end(context: u64, memory: usize) -> bool {
    let mut memories = memories();
    let Memories { all, views } = &mut *memories;
    if all.get(&memory).is_none_or(|found| found.context != context) {
        return false;
    }
    let Some(found) = all.remove(&memory) else {
        return false;
    };
    found.end(views);
    true
}

/// Memory of the runtime's own, under the number that `id` makes of its address and size.
pub(crate) fn own_memory(context: u64, size: usize, id: impl FnOnce(&Memory) -> usize) -> usize {
    let memory = Memory::own(context, size);
    let id = id(&memory);
    memories().all.insert(id, memory);
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
    let mut memories = memories();
    let memory = Memory::of_file(context, fd, address, size, offset, &mut memories.views)?;
    let id = id(&memory);
    memories.all.insert(id, memory);
    Some(id)
}

/// Bytes of memory that is alive.
pub(crate) fn size(memory: usize) -> Option<usize> {
    memories().all.get(&memory).map(|memory| memory.size)
}

/// Explicit cache maintenance.
pub(crate) fn sync(memory: usize, to_device: bool, from_device: bool) -> bool {
    COUNTS.syncs.fetch_add(1, Ordering::Relaxed);
    let mut memories = memories();
    let Memories { all, views } = &mut *memories;
    let Some(memory) = all.get_mut(&memory) else {
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

/// Reads as the chip does; with `flush`, after cache maintenance.
pub(crate) fn read(memory: usize, flush: bool) -> Option<Vec<u8>> {
    let mut memories = memories();
    let Memories { all, views } = &mut *memories;
    let memory = all.get_mut(&memory)?;
    if flush {
        memory.flush(views);
    }
    Some(memory.read(views))
}

/// Writes as the chip does; with `invalidate`, followed by cache maintenance.
pub(crate) fn write(memory: usize, bytes: &[u8], invalidate: bool) -> bool {
    let mut memories = memories();
    let Memories { all, views } = &mut *memories;
    let Some(memory) = all.get_mut(&memory) else {
        return false;
    };
    memory.write(bytes, views);
    if invalidate {
        memory.invalidate(views);
    }
    true
}
