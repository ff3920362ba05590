//! The places of a device on which runs compute at once, and the line of those that wait for some.
//!
//! Invariants:
//! 1. Of those that wait the most urgent is served first, of these the oldest: once that is older than [`PASSED`], whoever
//!    comes behind it takes no place before it has its own. So a wide run is not starved by narrow ones.
//! 2. No run takes a place before a more urgent one that waits.
//! 3. Nobody waits while there are places for the first of the line, but until it has woken.
//! 4. Nothing is allocated once as many have waited as there will be, nor before more than [`USUAL`] do.
//!
//! Not here: threads; whoever waits sleeps on its bell, under the lock that these places are in (`queue`).

use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// How old a run may become while others as urgent pass it. To hand places to a thread that sleeps leaves them empty until it
/// has woken, some 50 to 300 µs on a virtual machine: runs of microseconds would take many times as long, were they handed over
/// each time.
const PASSED: Duration = Duration::from_millis(1);

/// So many wait without an allocation.
const USUAL: usize = 8;

/// What a run asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The greater, the sooner.
    pub(crate) priority: u8,
    /// The earlier, the sooner.
    pub(crate) since: Instant,
    /// How many places it computes on; more than there are stands for all.
    pub(crate) places: usize,
}

impl Claim {
    /// Whether another that comes behind this one may go first.
    fn yields_to(&self, other: &Claim) -> bool {
        other.priority == self.priority && self.since.elapsed() < PASSED
    }

    /// Whether it goes before another; of equals, whoever came first.
    fn precedes(&self, other: &Claim) -> bool {
        (self.priority, other.since) > (other.priority, self.since)
    }
}

/// Whoever waits.
#[derive(Debug)]
struct Waiter {
    number: u64,
    claim: Claim,
    bell: Arc<Condvar>,
}

/// A place in the line.
#[derive(Debug)]
pub(crate) struct Ticket {
    number: u64,
    /// Rings when the claim is granted, or can be.
    pub(crate) bell: Arc<Condvar>,
}

/// Places, and who waits for some.
#[derive(Debug)]
pub(crate) struct Places {
    all: usize,
    free: usize,
    line: Vec<Waiter>,
    /// Bells of nobody.
    bells: Vec<Arc<Condvar>>,
    /// Tickets given out so far.
    tickets: u64,
}

impl Places {
    /// This many places, all free; at least one.
    pub(crate) fn new(all: usize) -> Self {
        let all = all.max(1);
        Self {
            all,
            free: all,
            line: Vec::with_capacity(USUAL),
            bells: (0..USUAL).map(|_| Arc::default()).collect(),
            tickets: 0,
        }
    }

    /// How many there are.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// A claim for at least one place, and for no more than there are.
    pub(crate) fn possible(&self, claim: Claim) -> Claim {
        Claim {
            places: claim.places.clamp(1, self.all),
            ..claim
        }
    }

    /// Takes places where they are free and nobody waits who goes before.
    pub(crate) fn take(&mut self, claim: Claim) -> bool {
        let claim = self.possible(claim);
        if claim.places > self.free {
            return false;
        }
        let before = |other: &Claim| claim.precedes(other) || other.yields_to(&claim);
        if !self.line.iter().all(|waiter| before(&waiter.claim)) {
            return false;
        }
        self.free -= claim.places;
        true
    }

    /// Joins the line; for a claim that [`take`](Self::take) refused.
    pub(crate) fn join(&mut self, claim: Claim) -> Ticket {
        let claim = self.possible(claim);
        let bell = self.bells.pop().unwrap_or_default();
        let number = self.tickets;
        self.tickets += 1;
        let at = self
            .line
            .iter()
            .position(|waiter| claim.precedes(&waiter.claim))
            .unwrap_or(self.line.len());
        self.line.insert(
            at,
            Waiter {
                number,
                claim,
                bell: Arc::clone(&bell),
            },
        );
        Ticket { number, bell }
    }

    /// Whether a claim is granted, if not before then now that whoever waits has woken.
    pub(crate) fn settle(&mut self, ticket: &Ticket) -> bool {
        let free = self.free;
        if let Some(first) = self.line.first()
            && first.number == ticket.number
            && first.claim.places <= free
        {
            self.free -= self.line.remove(0).claim.places;
            self.admit();
        }
        self.line.iter().all(|waiter| waiter.number != ticket.number)
    }

    /// Ends a wait; true where the claim was granted, whose places are then taken.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> bool {
        let at = self.line.iter().position(|waiter| waiter.number == ticket.number);
        if let Some(at) = at {
            self.line.remove(at);
            self.admit();
        }
        self.bells.push(ticket.bell);
        at.is_none()
    }

    /// Gives places back.
    pub(crate) fn give_back(&mut self, places: usize) {
        self.free += places;
        self.admit();
    }

    /// Grants what there are places for, in the order of the line, as far as nobody may pass; who may be passed is woken.
    fn admit(&mut self) {
        while let Some(first) = self.line.first()
            && first.claim.places <= self.free
        {
            first.bell.notify_one();
            if first.claim.yields_to(&first.claim) {
                break;
            }
            self.free -= self.line.remove(0).claim.places;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A claim of an age in units of which one is more than others may pass.
    fn claim(priority: u8, age: u32, places: usize) -> Claim {
        static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let begin = *BEGIN.get_or_init(Instant::now);
        Claim {
            priority,
            since: begin - 2 * PASSED * age,
            places,
        }
    }

    /// A claim that stays young.
    fn young(priority: u8, places: usize) -> Claim {
        Claim {
            since: Instant::now() + Duration::from_secs(1_000),
            ..claim(priority, 1, places)
        }
    }

    fn is_granted(places: &Places, ticket: &Ticket) -> bool {
        places.line.iter().all(|waiter| waiter.number != ticket.number)
    }

    /// Which of the tickets are granted.
    fn granted(places: &Places, tickets: &[Ticket]) -> Vec<usize> {
        (0..tickets.len())
            .filter(|&i| is_granted(places, &tickets[i]))
            .collect()
    }

    #[test]
    fn as_many_compute_at_once_as_there_are_places() {
        let mut places = Places::new(4);
        assert!(places.take(claim(1, 9, 2)) && places.take(claim(1, 8, 1)));
        assert!(!places.take(claim(1, 7, 2)), "one is free");
        assert!(places.take(claim(1, 6, 1)));
        places.give_back(2);
        places.give_back(2);
        // more than there are is all, and none is one
        assert!(places.take(claim(1, 5, usize::MAX)) && !places.take(claim(1, 5, 0)));
    }

    #[test]
    fn the_most_urgent_goes_first_and_then_the_oldest() {
        let mut places = Places::new(1);
        assert!(places.take(claim(1, 100, 1)));
        let tickets: Vec<Ticket> = [(1, 5), (2, 1), (1, 7), (0, 90), (2, 3), (1, 7)]
            .into_iter()
            .map(|(priority, age)| places.join(claim(priority, age, 1)))
            .collect();
        let mut order = Vec::new();
        for _ in 0..tickets.len() {
            places.give_back(1);
            let new = granted(&places, &tickets)
                .into_iter()
                .find(|i| !order.contains(i));
            order.push(new.unwrap());
        }
        assert_eq!(order, [4, 1, 2, 5, 0, 3]);
        assert!(tickets.into_iter().all(|ticket| places.leave(ticket)));
        assert_eq!(
            (places.free, places.bells.len()),
            (0, USUAL),
            "bells are used again"
        );
    }

    #[test]
    fn a_wide_run_is_not_starved_by_narrow_ones() {
        let mut places = Places::new(2);
        assert!(places.take(claim(1, 50, 1)) && places.take(claim(1, 49, 1)));
        let wide = places.join(claim(1, 40, 2));
        places.give_back(1);
        assert!(!is_granted(&places, &wide));
        // a place is free, and it is kept for the one that came before
        assert!(!places.take(claim(1, 39, 1)));
        let narrow = places.join(claim(1, 39, 1));
        // whoever is more urgent does not wait for it
        assert!(places.take(claim(2, 1, 1)));
        places.give_back(1);
        assert!(!is_granted(&places, &wide) && !is_granted(&places, &narrow));
        places.give_back(1);
        assert!(places.leave(wide) && !is_granted(&places, &narrow));
        places.give_back(2);
        assert!(places.leave(narrow));
    }

    #[test]
    fn whoever_gives_up_lets_those_behind_go_on() {
        let mut places = Places::new(2);
        assert!(places.take(claim(1, 50, 1)));
        let wide = places.join(claim(1, 40, 2));
        let narrow = places.join(claim(1, 30, 1));
        assert!(!is_granted(&places, &narrow));
        assert!(!places.leave(wide));
        assert!(places.leave(narrow));
        places.give_back(1);
        places.give_back(1);
        assert_eq!(places.free, places.all());
    }

    #[test]
    fn a_young_run_is_passed_by_others_as_urgent_and_no_longer_than_that() {
        let mut places = Places::new(1);
        assert!(places.take(claim(1, 9, 1)));
        let (head, behind) = (places.join(young(1, 1)), places.join(young(1, 1)));
        places.give_back(1);
        // it has been woken, and another comes first; one that is less urgent does not
        assert!(!places.take(young(0, 1)));
        assert!(places.take(young(1, 1)) && !places.settle(&head));
        places.give_back(1);
        assert!(!places.settle(&behind), "the line keeps its order");
        assert!(places.settle(&head) && !places.settle(&behind));
        assert!(places.leave(head));
        // whoever gives up leaves the place to the next
        places.give_back(1);
        let late = places.join(young(1, 1));
        assert!(!places.leave(behind) && places.settle(&late));
        places.leave(late);
        // an old one is not passed
        let old = places.join(claim(1, 3, 1));
        places.give_back(1);
        assert!(!places.take(young(1, 1)) && is_granted(&places, &old));
    }
}
