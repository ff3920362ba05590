//! The live contexts by their numbers, and the number of live contexts and memories.
//!
//! Invariants:
//! 1. A context's number is never reused. A call with a context that does not exist returns one of
//!    the vendor's errors.
//! 2. The lock is held for lookups, never while a model computes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::context::Context;
use crate::memories;

struct World {
    contexts: BTreeMap<u64, Arc<Context>>,
    next: u64,
}

static WORLD: Mutex<World> = Mutex::new(World {
    contexts: BTreeMap::new(),
    next: 1,
});

fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Contexts and memories alive.
pub(crate) fn alive() -> (u64, u64) {
    (world().contexts.len() as u64, memories::alive())
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

/// Destroys a context. Memory that was made in it stays until it is freed.
pub(crate) fn end(number: u64) -> bool {
    let ended = world().contexts.remove(&number);
    ended.is_some()
}

/// Restarts the chip: every context becomes invalid.
pub(crate) fn lose() {
    let lost = std::mem::take(&mut world().contexts);
    drop(lost);
}

/// Frees memory of a context; false if the context has no such memory.
pub(crate) fn end_memory(context: u64, memory: usize) -> bool {
    let ended = memories::end(context, memory);
    if ended && let Some(context) = self::context(context) {
        context.unbind(memory);
    }
    ended
}
