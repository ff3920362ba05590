//! The execution slots of a device, on which runs compute at once, and the queue of waiting claims.
//!
//! Invariants:
//! 1. The most urgent waiter is served first, among equals the oldest. Once it is older than
//!    [`OVERTAKING_LIMIT`], no later claim takes a slot before it, so narrow runs do not starve a
//!    wide one.
//! 2. No run takes a slot before a more urgent waiter.
//! 3. If the slots of the first waiter are free, it waits only until it has woken.
//! 4. Nothing is allocated for at most [`PREALLOCATED`] waiters, nor once the number of waiters has
//!    reached its maximum.
//!
//! Not here: threads. A waiter sleeps on its condition variable, under the lock that guards the
//! slots (`queue`).

use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// Age up to which equally urgent claims may overtake a waiting one. Handing slots to a sleeping
/// thread leaves them idle until it has woken, some 50 to 300 µs on a virtual machine. Runs of
/// microseconds would take many times as long if slots were handed over every time.
const OVERTAKING_LIMIT: Duration = Duration::from_millis(1);

/// Number of waiters for which nothing is allocated.
const PREALLOCATED: usize = 8;

/// A request for slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Higher goes first.
    pub(crate) priority: u8,
    /// Earlier goes first.
    pub(crate) since: Instant,
    /// Number of slots requested; a number above the device's means all.
    pub(crate) slots: usize,
}

impl Claim {
    /// Whether a later claim may overtake this one.
    fn yields_to(&self, other: &Claim) -> bool {
        other.priority == self.priority && self.since.elapsed() < OVERTAKING_LIMIT
    }

    /// Whether it goes before another; among equals, the earlier one.
    fn precedes(&self, other: &Claim) -> bool {
        (self.priority, other.since) > (other.priority, self.since)
    }
}

/// A waiting claim.
#[derive(Debug)]
struct Waiter {
    number: u64,
    claim: Claim,
    condvar: Arc<Condvar>,
}

/// A position among the waiters.
#[derive(Debug)]
pub(crate) struct Ticket {
    number: u64,
    /// Notified when the claim is granted, or can be.
    pub(crate) condvar: Arc<Condvar>,
}

/// Execution slots and their waiters.
#[derive(Debug)]
pub(crate) struct ExecutionSlots {
    all: usize,
    free: usize,
    waiters: Vec<Waiter>,
    /// Condition variables without a waiter.
    spare_condvars: Vec<Arc<Condvar>>,
    /// Number of tickets issued so far.
    tickets: u64,
}

impl ExecutionSlots {
    /// `all` free slots, at least one.
    pub(crate) fn new(all: usize) -> Self {
        let all = all.max(1);
        Self {
            all,
            free: all,
            waiters: Vec::with_capacity(PREALLOCATED),
            spare_condvars: (0..PREALLOCATED).map(|_| Arc::default()).collect(),
            tickets: 0,
        }
    }

    /// Number of slots.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// The claim limited to at least one slot and at most all.
    pub(crate) fn possible(&self, claim: Claim) -> Claim {
        Claim {
            slots: claim.slots.clamp(1, self.all),
            ..claim
        }
    }

    /// Takes slots if they are free and no waiter goes first.
    pub(crate) fn take(&mut self, claim: Claim) -> bool {
        let claim = self.possible(claim);
        if claim.slots > self.free {
            return false;
        }
        let before = |other: &Claim| claim.precedes(other) || other.yields_to(&claim);
        if !self.waiters.iter().all(|waiter| before(&waiter.claim)) {
            return false;
        }
        self.free -= claim.slots;
        true
    }

    /// Adds a waiter; for a claim that [`take`](Self::take) refused.
    pub(crate) fn join(&mut self, claim: Claim) -> Ticket {
        let claim = self.possible(claim);
        let condvar = self.spare_condvars.pop().unwrap_or_default();
        let number = self.tickets;
        self.tickets += 1;
        let at = self
            .waiters
            .iter()
            .position(|waiter| claim.precedes(&waiter.claim))
            .unwrap_or(self.waiters.len());
        self.waiters.insert(
            at,
            Waiter {
                number,
                claim,
                condvar: Arc::clone(&condvar),
            },
        );
        Ticket { number, condvar }
    }

    /// Whether a claim is granted, either before or now that its waiter has woken.
    pub(crate) fn settle(&mut self, ticket: &Ticket) -> bool {
        let free = self.free;
        if let Some(first) = self.waiters.first()
            && first.number == ticket.number
            && first.claim.slots <= free
        {
            self.free -= self.waiters.remove(0).claim.slots;
            self.admit();
        }
        self.waiters.iter().all(|waiter| waiter.number != ticket.number)
    }

    /// Ends a wait. Returns true if the claim was granted; its slots are then taken.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> bool {
        let at = self
            .waiters
            .iter()
            .position(|waiter| waiter.number == ticket.number);
        if let Some(at) = at {
            self.waiters.remove(at);
            self.admit();
        }
        self.spare_condvars.push(ticket.condvar);
        at.is_none()
    }

    /// Releases slots.
    pub(crate) fn give_back(&mut self, slots: usize) {
        self.free += slots;
        self.admit();
    }

    /// Grants waiters in order while slots suffice, up to one that may be overtaken, which is only
    /// woken.
    fn admit(&mut self) {
        while let Some(first) = self.waiters.first()
            && first.claim.slots <= self.free
        {
            first.condvar.notify_one();
            if first.claim.yields_to(&first.claim) {
                break;
            }
            self.free -= self.waiters.remove(0).claim.slots;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A claim whose age is given in units above the overtaking limit.
    fn claim(priority: u8, age: u32, slots: usize) -> Claim {
        static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let begin = *BEGIN.get_or_init(Instant::now);
        Claim {
            priority,
            since: begin - 2 * OVERTAKING_LIMIT * age,
            slots,
        }
    }

    /// A claim that stays below the overtaking limit.
    fn young(priority: u8, slots: usize) -> Claim {
        Claim {
            since: Instant::now() + Duration::from_secs(1_000),
            ..claim(priority, 1, slots)
        }
    }

    fn is_granted(slots: &ExecutionSlots, ticket: &Ticket) -> bool {
        slots.waiters.iter().all(|waiter| waiter.number != ticket.number)
    }

    /// Indices of the granted tickets.
    fn granted(slots: &ExecutionSlots, tickets: &[Ticket]) -> Vec<usize> {
        (0..tickets.len())
            .filter(|&i| is_granted(slots, &tickets[i]))
            .collect()
    }

    #[test]
    fn concurrent_runs_are_limited_by_slots() {
        let mut slots = ExecutionSlots::new(4);
        assert!(slots.take(claim(1, 9, 2)) && slots.take(claim(1, 8, 1)));
        assert!(!slots.take(claim(1, 7, 2)), "one is free");
        assert!(slots.take(claim(1, 6, 1)));
        slots.give_back(2);
        slots.give_back(2);
        // a number above the limit means all, and 0 means one
        assert!(slots.take(claim(1, 5, usize::MAX)) && !slots.take(claim(1, 5, 0)));
    }

    #[test]
    fn order_is_by_priority_then_by_age() {
        let mut slots = ExecutionSlots::new(1);
        assert!(slots.take(claim(1, 100, 1)));
        let tickets: Vec<Ticket> = [(1, 5), (2, 1), (1, 7), (0, 90), (2, 3), (1, 7)]
            .into_iter()
            .map(|(priority, age)| slots.join(claim(priority, age, 1)))
            .collect();
        let mut order = Vec::new();
        for _ in 0..tickets.len() {
            slots.give_back(1);
            let new = granted(&slots, &tickets).into_iter().find(|i| !order.contains(i));
            order.push(new.unwrap());
        }
        assert_eq!(order, [4, 1, 2, 5, 0, 3]);
        assert!(tickets.into_iter().all(|ticket| slots.leave(ticket)));
        assert_eq!(
            (slots.free, slots.spare_condvars.len()),
            (0, PREALLOCATED),
            "condition variables are reused"
        );
    }

    #[test]
    fn narrow_runs_do_not_starve_a_wide_one() {
        let mut slots = ExecutionSlots::new(2);
        assert!(slots.take(claim(1, 50, 1)) && slots.take(claim(1, 49, 1)));
        let wide = slots.join(claim(1, 40, 2));
        slots.give_back(1);
        assert!(!is_granted(&slots, &wide));
        // a slot is free but reserved for the earlier claim
        assert!(!slots.take(claim(1, 39, 1)));
        let narrow = slots.join(claim(1, 39, 1));
        // a more urgent claim does not wait for it
        assert!(slots.take(claim(2, 1, 1)));
        slots.give_back(1);
        assert!(!is_granted(&slots, &wide) && !is_granted(&slots, &narrow));
        slots.give_back(1);
        assert!(slots.leave(wide) && !is_granted(&slots, &narrow));
        slots.give_back(2);
        assert!(slots.leave(narrow));
    }

    #[test]
    fn abandoned_wait_does_not_block_later_waiters() {
        let mut slots = ExecutionSlots::new(2);
        assert!(slots.take(claim(1, 50, 1)));
        let wide = slots.join(claim(1, 40, 2));
        let narrow = slots.join(claim(1, 30, 1));
        assert!(!is_granted(&slots, &narrow));
        assert!(!slots.leave(wide));
        assert!(slots.leave(narrow));
        slots.give_back(1);
        slots.give_back(1);
        assert_eq!(slots.free, slots.all());
    }

    #[test]
    fn equally_urgent_runs_overtake_only_a_young_one() {
        let mut slots = ExecutionSlots::new(1);
        assert!(slots.take(claim(1, 9, 1)));
        let (head, behind) = (slots.join(young(1, 1)), slots.join(young(1, 1)));
        slots.give_back(1);
        // it has been woken, and another overtakes it; a less urgent one does not
        assert!(!slots.take(young(0, 1)));
        assert!(slots.take(young(1, 1)) && !slots.settle(&head));
        slots.give_back(1);
        assert!(!slots.settle(&behind), "waiters keep their order");
        assert!(slots.settle(&head) && !slots.settle(&behind));
        assert!(slots.leave(head));
        // an abandoned wait leaves the slot to the next waiter
        slots.give_back(1);
        let late = slots.join(young(1, 1));
        assert!(!slots.leave(behind) && slots.settle(&late));
        slots.leave(late);
        // an old one is not overtaken
        let old = slots.join(claim(1, 3, 1));
        slots.give_back(1);
        assert!(!slots.take(young(1, 1)) && is_granted(&slots, &old));
    }
}
