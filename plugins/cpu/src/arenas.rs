//! The arenas of a device: memory for intermediate tensors, lent to runs.
//!
//! Invariants:
//! 1. Nothing in an arena is kept between runs: each finds what another left. Debug builds spoil it, so that every test
//!    proves that.
//! 2. There are no more arenas than runs that ever computed at once, whatever the number of loaded parts.
//! 3. Nothing is allocated once the largest parts that compute at once have done so: a run takes the smallest free arena
//!    that is large enough, and one that is too small makes room for a larger one.
//! 4. An arena that is larger than any loaded part needs is freed.
//!
//! Why: a first touch of memory costs more than most kernels. It is paid once per device, not once per session.
//!
//! Not here: where pieces lie in an arena (planned by the SDK), what memory it is (`arena`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_cpu_kernels::AlignedVec;
use polychip_sdk::Result;

/// What an arena is filled with in debug builds: NaN as floats, far outside as indices.
#[cfg(debug_assertions)]
const SPOILT: f32 = f32::from_bits(0x7fc5_c5c5);

#[derive(Default)]
struct Stock {
    free: Vec<AlignedVec>,
    /// How many runs have one.
    lent: usize,
    /// Floats that loaded parts need, and how many need so many.
    needs: BTreeMap<usize, usize>,
}

impl Stock {
    /// Floats of the largest arena that a part needs.
    fn most(&self) -> usize {
        self.needs.last_key_value().map_or(0, |(&floats, _)| floats)
    }

    /// Takes out the smallest arena of at least `floats`, else the largest of those that are too small.
    fn best(&mut self, floats: usize) -> Option<AlignedVec> {
        let lens = || self.free.iter().map(|arena| arena.len()).enumerate();
        let fits = lens()
            .filter(|&(_, len)| len >= floats)
            .min_by_key(|&(_, len)| len);
        let at = fits.or_else(|| lens().max_by_key(|&(_, len)| len))?.0;
        Some(self.free.swap_remove(at))
    }
}

/// Arenas.
#[derive(Default)]
pub(crate) struct Arenas {
    stock: Mutex<Stock>,
}

/// What a loaded part needs, as long as it is loaded.
pub(crate) struct Need {
    arenas: Arc<Arenas>,
    floats: usize,
}

/// An arena that a run has.
pub(crate) struct Lent<'a> {
    arenas: &'a Arenas,
    /// Some until it is given back.
    memory: Option<AlignedVec>,
}

fn made(floats: usize) -> Result<AlignedVec> {
    crate::arena::memory(floats, "intermediate tensors")
}

impl Arenas {
    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a part needs so many floats. Where no run computes, there is an arena for it then.
    ///
    /// # Errors
    /// Memory does not hold them.
    pub(crate) fn need(self: &Arc<Self>, floats: usize) -> Result<Need> {
        *self.stock().needs.entry(floats).or_default() += 1;
        let need = Need {
            arenas: Arc::clone(self),
            floats,
        };
        let (idle, best) = {
            let mut stock = self.stock();
            (stock.lent == 0, stock.best(floats))
        };
        if idle || best.is_some() {
            let arena = grown(best, floats)?;
            self.stock().free.push(arena);
        }
        Ok(need)
    }

    fn give_back(&self, arena: Option<AlignedVec>) {
        let mut stock = self.stock();
        stock.lent -= 1;
        match arena {
            Some(arena) if arena.len() <= stock.most() => stock.free.push(arena),
            // freed without the lock
            spare => {
                drop(stock);
                drop(spare);
            }
        }
    }
}

/// An arena of at least so many floats: this one, or a new one in its place.
fn grown(arena: Option<AlignedVec>, floats: usize) -> Result<AlignedVec> {
    match arena {
        Some(arena) if arena.len() >= floats => Ok(arena),
        small => {
            drop(small);
            made(floats)
        }
    }
}

impl Need {
    /// An arena for a run.
    ///
    /// # Errors
    /// There is none, and memory does not hold another.
    pub(crate) fn lend(&self) -> Result<Lent<'_>> {
        let arenas = &*self.arenas;
        let best = {
            let mut stock = arenas.stock();
            stock.lent += 1;
            stock.best(self.floats)
        };
        let mut lent = Lent { arenas, memory: None };
        // where that fails, nothing is given back but the right to have one
        let memory = lent.memory.insert(grown(best, self.floats)?);
        #[cfg(debug_assertions)]
        memory[..self.floats].fill(SPOILT);
        let _ = memory;
        Ok(lent)
    }
}

impl Drop for Need {
    fn drop(&mut self) {
        let mut stock = self.arenas.stock();
        if let Some(count) = stock.needs.get_mut(&self.floats) {
            *count -= 1;
            if *count == 0 {
                stock.needs.remove(&self.floats);
            }
        }
        let (most, any) = (stock.most(), !stock.needs.is_empty());
        stock.free.retain(|arena| any && arena.len() <= most);
    }
}

impl Lent<'_> {
    /// Its first byte.
    pub(crate) fn start(&mut self) -> *mut u8 {
        let memory = self.memory.as_mut();
        memory.map_or(std::ptr::null_mut(), |memory| memory.as_mut_ptr().cast())
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.arenas.give_back(self.memory.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of the free arenas in floats, in order.
    fn free(arenas: &Arenas) -> Vec<usize> {
        let mut all: Vec<usize> = arenas.stock().free.iter().map(|arena| arena.len()).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn parts_share_an_arena_unless_they_run_concurrently() {
        let arenas = Arc::<Arenas>::default();
        let needs: Vec<Need> = [100, 400, 200].map(|floats| arenas.need(floats).unwrap()).into();
        assert_eq!(free(&arenas), [400], "it grew");
        for need in &needs {
            drop(need.lend().unwrap());
        }
        assert_eq!(free(&arenas), [400]);
        let mut large = needs[1].lend().unwrap();
        let mut small = needs[0].lend().unwrap();
        assert_ne!(large.start(), small.start());
        assert!((large.start() as usize).is_multiple_of(crate::arena::ALIGN));
        drop((large, small));
        assert_eq!(free(&arenas), [100, 400]);
        // the smallest that is large enough is left for the small one
        let (middle, small) = (needs[2].lend().unwrap(), needs[0].lend().unwrap());
        assert_eq!(free(&arenas), []);
        drop((middle, small));
        // one that is too small grows, and none is added
        let both = [needs[1].lend().unwrap(), needs[1].lend().unwrap()];
        drop(both);
        assert_eq!(free(&arenas), [400, 400]);
    }

    #[test]
    fn unused_sections_are_freed() {
        let arenas = Arc::<Arenas>::default();
        let (small, large) = (arenas.need(10).unwrap(), arenas.need(1000).unwrap());
        let again = arenas.need(1000).unwrap();
        let lent = small.lend().unwrap();
        drop(large);
        drop(lent);
        assert_eq!(free(&arenas), [1000], "another needs it");
        let lent = small.lend().unwrap();
        drop(again);
        drop(lent);
        assert_eq!(free(&arenas), []);
        drop(small.lend().unwrap());
        assert_eq!(free(&arenas), [10]);
        drop(small);
        assert_eq!(free(&arenas), []);
    }

    #[cfg(debug_assertions)]
    #[test]
    fn run_sees_no_state_of_the_previous_run() {
        let arenas = Arc::<Arenas>::default();
        let need = arenas.need(8).unwrap();
        need.lend().unwrap().memory.as_mut().unwrap().fill(1.0);
        let lent = need.lend().unwrap();
        assert!(lent.memory.as_ref().unwrap().iter().all(|x| x.is_nan()));
    }
}
