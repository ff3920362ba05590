//! Handles: 64-bit numbers that identify objects, checked at every use.
//!
//! A handle holds the kind of its object, an index in a table, and the generation of that slot,
//! which changes whenever its object is destroyed. A handle that was destroyed, never made or of
//! another kind is therefore detected, from any thread, in release builds too. 0 is never a handle.
//!
//! Invariants:
//! 1. A number is issued once: a slot whose generations are used up is retired.
//! 2. No object is dropped while a table is locked, because dropping one may call the app.
//! 3. A table grows by shards, so that threads rarely contend. A look-up takes a shared lock and
//!    allocates nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::failure::{Failure, Result};
use crate::status::POLYCHIP_ERROR_BAD_HANDLE;

/// Shards of a table.
const SHARDS: usize = 16;
const SHARD_BITS: u32 = SHARDS.trailing_zeros();
/// Bits of a slot within its shard.
const SLOT_BITS: u32 = 24;
const KIND_SHIFT: u32 = SHARD_BITS + SLOT_BITS;
const GENERATION_SHIFT: u32 = 32;

/// Kind of a handle's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Builder = 1,
    Runtime = 2,
    Model = 3,
    Policy = 4,
    Session = 5,
    Tensor = 6,
    Run = 7,
    Text = 8,
    Plan = 9,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Builder => "builder",
            Kind::Runtime => "runtime",
            Kind::Model => "model",
            Kind::Policy => "policy",
            Kind::Session => "session",
            Kind::Tensor => "tensor",
            Kind::Run => "run",
            Kind::Text => "text",
            Kind::Plan => "plan",
        }
    }

    fn of(number: u64) -> Option<Kind> {
        let all = [
            Kind::Builder,
            Kind::Runtime,
            Kind::Model,
            Kind::Policy,
            Kind::Session,
            Kind::Tensor,
            Kind::Run,
            Kind::Text,
            Kind::Plan,
        ];
        all.into_iter().find(|kind| *kind as u64 == number)
    }
}

/// An object that C has a handle of.
pub(crate) trait Object: Send + Sync + Sized + 'static {
    /// The table that its handles are of.
    fn table() -> &'static Table<Self>;

    /// The object of a handle.
    ///
    /// # Errors
    /// The handle was destroyed, never made, or is of another kind.
    fn of(handle: u64) -> Result<Arc<Self>> {
        Self::table().get(handle)
    }

    /// Whether a handle has an object now. Unlike [`Object::of`], this never holds the last
    /// reference to one.
    fn is_there(handle: u64) -> bool {
        Self::table().holds(handle)
    }

    /// A handle of an object.
    ///
    /// # Errors
    /// There are too many.
    fn into_handle(self) -> Result<u64> {
        Self::table().insert(Arc::new(self))
    }

    /// Takes the object of a handle, which is none from then on.
    ///
    /// # Errors
    /// As [`Object::of`].
    fn take(handle: u64) -> Result<Arc<Self>> {
        Self::table().remove(handle)
    }
}

/// The objects of one kind.
pub(crate) struct Table<T> {
    kind: Kind,
    next: AtomicUsize,
    shards: [RwLock<Shard<T>>; SHARDS],
}

struct Shard<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// A slot of a table.
struct Slot<T> {
    /// Generation of the present object, or of the next one.
    generation: u32,
    object: Option<Arc<T>>,
}

impl<T> Shard<T> {
    const fn new() -> Shard<T> {
        Shard {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Table<T> {
    pub(crate) const fn new(kind: Kind) -> Table<T> {
        Table {
            kind,
            next: AtomicUsize::new(0),
            shards: [const { RwLock::new(Shard::new()) }; SHARDS],
        }
    }

    fn insert(&self, object: Arc<T>) -> Result<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let mut shard = self.shards[number]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let slot = match shard.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(shard.slots.len()).unwrap_or(u32::MAX);
                if slot >= 1 << SLOT_BITS {
                    drop(shard);
                    let words = format!(
                        "there are too many {}s: destroy those that are not used",
                        self.kind.name()
                    );
                    return Err(Failure::new(POLYCHIP_ERROR_BAD_HANDLE, words));
                }
                shard.slots.push(Slot {
                    generation: 1,
                    object: None,
                });
                slot
            }
        };
        let entry = &mut shard.slots[slot as usize];
        entry.object = Some(object);
        Ok(u64::from(entry.generation) << GENERATION_SHIFT
            | (self.kind as u64) << KIND_SHIFT
            | u64::from(slot) << SHARD_BITS
            | number as u64)
    }

    fn get(&self, handle: u64) -> Result<Arc<T>> {
        let (number, slot, generation) = self.parts(handle)?;
        let shard = self.shards[number].read().unwrap_or_else(PoisonError::into_inner);
        let entry = shard.slots.get(slot);
        match entry.filter(|entry| entry.generation == generation) {
            Some(Slot {
                object: Some(object), ..
            }) => Ok(Arc::clone(object)),
            _ => Err(self.gone(handle, entry.map(|entry| entry.generation))),
        }
    }

    fn holds(&self, handle: u64) -> bool {
        let Ok((number, slot, generation)) = self.parts(handle) else {
            return false;
        };
        let shard = self.shards[number].read().unwrap_or_else(PoisonError::into_inner);
        let entry = shard.slots.get(slot);
        entry.is_some_and(|entry| entry.generation == generation && entry.object.is_some())
    }

    fn remove(&self, handle: u64) -> Result<Arc<T>> {
        let (number, slot, generation) = self.parts(handle)?;
        let mut guard = self.shards[number]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let shard = &mut *guard;
        let current = shard.slots.get(slot).map(|entry| entry.generation);
        let taken = match shard.slots.get_mut(slot) {
            Some(entry) if entry.generation == generation => entry.object.take(),
            _ => None,
        };
        let Some(object) = taken else {
            return Err(self.gone(handle, current));
        };
        match generation.checked_add(1) {
            Some(next) => {
                shard.slots[slot].generation = next;
                shard.free.push(slot as u32);
            }
            // all of its generations are used up: the slot stays empty
            None => shard.slots[slot].generation = 0,
        }
        Ok(object)
    }

    /// Shard, slot and generation of a handle.
    fn parts(&self, handle: u64) -> Result<(usize, usize, u32)> {
        let bad = |words: String| Err(Failure::new(POLYCHIP_ERROR_BAD_HANDLE, words));
        let own = self.kind.name();
        if handle == 0 {
            return bad(format!("the {own} handle is 0, which is never a handle"));
        }
        match Kind::of(handle >> KIND_SHIFT & 0xf) {
            Some(kind) if kind == self.kind => {}
            Some(kind) => {
                return bad(format!(
                    "{handle:#018x} is a handle of a {}, not of a {own}",
                    kind.name()
                ));
            }
            None => {
                return bad(format!("{handle:#018x} is not a handle; expected a {own}"));
            }
        }
        let number = (handle & (SHARDS as u64 - 1)) as usize;
        let slot = (handle >> SHARD_BITS & ((1 << SLOT_BITS) - 1)) as usize;
        Ok((number, slot, (handle >> GENERATION_SHIFT) as u32))
    }

    /// The reason why a handle identifies no object, if its slot is in this generation.
    fn gone(&self, handle: u64, current: Option<u32>) -> Failure {
        let generation = (handle >> GENERATION_SHIFT) as u32;
        let own = self.kind.name();
        // a slot with generation 0 has used them all
        let was_made = generation != 0 && current.is_some_and(|current| current == 0 || generation < current);
        let words = if was_made {
            format!("the {own} {handle:#018x} was destroyed")
        } else {
            format!("{handle:#018x} was never made; expected the handle of a {own}")
        };
        Failure::new(POLYCHIP_ERROR_BAD_HANDLE, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TEXTS: Table<String> = Table::new(Kind::Text);

    fn words(result: Result<Arc<String>>) -> String {
        let failure = result.unwrap_err();
        assert_eq!(failure.status, POLYCHIP_ERROR_BAD_HANDLE);
        failure.message
    }

    #[test]
    fn handle_identifies_its_object_until_it_is_destroyed() {
        let one = TEXTS.insert(Arc::new("one".into())).unwrap();
        assert_eq!(*TEXTS.get(one).unwrap(), "one");
        assert!(TEXTS.holds(one) && !TEXTS.holds(0));
        assert_eq!(*TEXTS.remove(one).unwrap(), "one");
        assert!(!TEXTS.holds(one));
        assert!(words(TEXTS.get(one)).ends_with("was destroyed"));
        assert!(words(TEXTS.remove(one)).ends_with("was destroyed"));
        // its slot is reused, and the old handle does not identify the new object
        let others: Vec<u64> = (0..SHARDS * 2)
            .map(|index| TEXTS.insert(Arc::new(index.to_string())).unwrap())
            .collect();
        assert!(others.iter().any(|other| *other as u32 == one as u32));
        assert!(words(TEXTS.get(one)).ends_with("was destroyed"));
        for (index, other) in others.into_iter().enumerate() {
            assert_eq!(*TEXTS.remove(other).unwrap(), index.to_string());
        }
    }

    #[test]
    fn numbers_that_are_not_handles_are_refused() {
        static RUNS: Table<String> = Table::new(Kind::Run);
        assert!(words(RUNS.get(0)).contains("is 0"));
        assert!(words(RUNS.get(u64::MAX)).contains("not a handle"));
        let text = TEXTS.insert(Arc::new(String::new())).unwrap();
        assert!(words(RUNS.get(text)).contains("a handle of a text, not of a run"));
        let run = RUNS.insert(Arc::new(String::new())).unwrap();
        assert!(words(RUNS.get(run + (5 << GENERATION_SHIFT))).contains("never made"));
        assert!(words(RUNS.get(run + (99 << SHARD_BITS))).contains("never made"));
        assert!(words(RUNS.get(run & 0xffff_ffff)).contains("never made"));
        TEXTS.remove(text).unwrap();
    }

    #[test]
    fn slot_without_unused_generations_is_retired() {
        static SESSIONS: Table<String> = Table::new(Kind::Session);
        let first = SESSIONS.insert(Arc::new(String::new())).unwrap();
        let shard = (first & 0xf) as usize;
        SESSIONS.shards[shard].write().unwrap().slots[0].generation = u32::MAX;
        let last = first & 0xffff_ffff | u64::from(u32::MAX) << GENERATION_SHIFT;
        SESSIONS.remove(last).unwrap();
        assert!(words(SESSIONS.get(last)).ends_with("was destroyed"));
        let again: Vec<u64> = (0..SHARDS)
            .map(|_| SESSIONS.insert(Arc::new(String::new())).unwrap())
            .collect();
        assert!(again.iter().all(|handle| *handle as u32 != last as u32));
    }

    #[test]
    fn concurrent_threads_never_see_each_others_objects() {
        static TENSORS: Table<String> = Table::new(Kind::Tensor);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for round in 0..500 {
                        let own = format!("{thread} {round}");
                        let handle = TENSORS.insert(Arc::new(own.clone())).unwrap();
                        assert_eq!(*TENSORS.get(handle).unwrap(), own);
                        assert_eq!(*TENSORS.remove(handle).unwrap(), own);
                        assert!(TENSORS.get(handle).is_err());
                    }
                });
            }
        });
    }
}
