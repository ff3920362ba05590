//! The queue of one device.
//!
//! Invariants:
//! 1. Within the class that is served, the part with the earliest deadline goes first, and parts
//!    without one go last; among equals the part whose run began first, so that pipelined frames do
//!    not pile up at one device; then the part that arrived first.
//! 2. A lower class goes before a higher one at most as often as [`Settings::out_of_turn_bound_ns`]
//!    states.
//! 3. A ticket is issued once: a withdrawn or ended ticket has no effect.
//! 4. If the device is preemptive ([`Settings::preemption_ns`]), a part is issued while its class
//!    and more urgent ones hold fewer places than the device has. Then no part goes out of turn
//!    while another part is with the device, and the class that an out-of-turn part overtook cannot
//!    take its place.

use crate::heap::Heap;
use crate::settings::{Class, Settings};

/// A part that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<T> {
    /// The class of its run.
    pub class: Class,
    /// Its deadline, in nanoseconds on the clock that all calls use.
    pub deadline_ns: Option<u64>,
    /// When its run began, on the same clock.
    pub since_ns: u64,
    /// Expected device time in nanoseconds: an upper quantile, so that the bound on shares holds.
    pub expected_ns: u64,
    /// Returned when the part gets its turn.
    pub owner: T,
}

/// A part in a queue, or with its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    place: u32,
    generation: u32,
}

/// Selects the next part, of all sessions, on one device.
#[derive(Debug)]
pub struct Queue<T> {
    settings: Settings,
    places: Vec<QueueSlot<T>>,
    free: Vec<u32>,
    waiting: [Heap; Class::COUNT],
    /// By class, device time that it has earned and not taken, times 1000: that of a share in thousandths stays whole.
    earned: [i128; Class::COUNT],
    out: usize,
    /// Of these, by the class that they are taken for.
    out_as: [usize; Class::COUNT],
    /// When the classes that wait last earned something.
    earned_at_ns: u64,
    /// When a part last ended: the device began the next one no sooner.
    ended_ns: u64,
    /// Parts that came so far.
    came: u64,
}

#[derive(Debug)]
struct QueueSlot<T> {
    generation: u32,
    class: Class,
    expected_ns: u64,
    /// How many of the device's places it takes.
    width: usize,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Free,
    /// In the heap of its class, at this index.
    Waiting(usize, T),
    /// With the device since then; before a higher class or in its turn; in a place of this class.
    Out {
        since_ns: u64,
        out_of_turn: bool,
        taken_as: Class,
    },
}

impl<T> Queue<T> {
    /// An empty queue, with at least one device place.
    #[must_use]
    pub fn new(settings: Settings) -> Queue<T> {
        let heap = || Heap::with_capacity(settings.capacity);
        Queue {
            settings: Settings {
                in_flight: settings.in_flight.max(1),
                ..settings
            },
            places: Vec::with_capacity(settings.capacity),
            free: Vec::with_capacity(settings.capacity),
            waiting: [heap(), heap(), heap()],
            earned: [0; Class::COUNT],
            out: 0,
            out_as: [0; Class::COUNT],
            earned_at_ns: 0,
            ended_ns: 0,
            came: 0,
        }
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Number of waiting parts.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.iter().map(Heap::len).sum()
    }

    /// Number of occupied device places: the number of parts with the device, if each has one.
    #[must_use]
    pub fn out(&self) -> usize {
        self.out
    }

    /// Queues a ready part. It waits until [`Queue::next`] returns it.
    pub fn push(&mut self, entry: Entry<T>, now_ns: u64) -> Ticket {
        self.push_wide(entry, 1, now_ns)
    }

    /// Like [`Queue::push`], for a part that needs several device places (CPU threads), or all of
    /// them if the device has fewer. While the next part waits for places, no other part starts.
    pub fn push_wide(&mut self, entry: Entry<T>, width: usize, now_ns: u64) -> Ticket {
        self.earn(now_ns);
        let class = entry.class;
        let index = class.index();
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(QueueSlot {
                generation: 0,
                class,
                expected_ns: 0,
                width: 1,
                state: State::Free,
            });
            // giving any of them back then allocates nothing
            self.free
                .reserve(self.places.len().saturating_sub(self.free.len()));
            u32::try_from(self.places.len() - 1).expect("invariant: fewer parts than 2^32")
        });
        let at = &mut self.places[place as usize];
        (at.class, at.expected_ns) = (class, entry.expected_ns);
        at.width = width.clamp(1, self.settings.in_flight);
        at.state = State::Waiting(0, entry.owner);
        let ticket = Ticket {
            place,
            generation: at.generation,
        };
        let key = (entry.deadline_ns.unwrap_or(u64::MAX), entry.since_ns, self.came);
        self.came += 1;
        let places = &mut self.places;
        self.waiting[index].push(key, place, |place, at| moved(places, place, at));
        ticket
    }

    /// The part to start now, if the device has a place and a part waits. The caller starts it on
    /// the device.
    pub fn next(&mut self, now_ns: u64) -> Option<(Ticket, T)> {
        self.earn(now_ns);
        let interrupts = self.settings.preemption_ns.is_some();
        if self.out >= self.settings.in_flight && !interrupts {
            return None;
        }
        let waits = |class: &Class| self.waiting[class.index()].len() > 0;
        let in_turn = Class::ALL.into_iter().find(waits)?;
        let has_earned = |class: &Class| {
            let share = self.settings.share_permille[class.index()];
            let first = self.waiting[class.index()].first();
            share > 0
                && first.is_some_and(|place| {
                    let expected = i128::from(self.places[place as usize].expected_ns);
                    self.earned[class.index()] >= expected * 1000
                })
        };
        let mut lower = Class::ALL.into_iter().skip(in_turn.index() + 1);
        let may_pass = !interrupts || self.out == 0;
        let before = lower.find(has_earned).filter(|_| may_pass);
        let class = before.unwrap_or(in_turn);
        let place = self.waiting[class.index()]
            .first()
            .expect("invariant: a part of this class waits");
        let width = self.places[place as usize].width;
        let taken = if interrupts {
            self.out_as[..=in_turn.index()].iter().sum()
        } else {
            self.out
        };
        if taken + width > self.settings.in_flight {
            return None;
        }
        if taken < self.out {
            self.interrupt(in_turn, now_ns);
        }
        let owner = self.take_waiting(place)?;
        self.out += width;
        self.out_as[in_turn.index()] += width;
        let at = &mut self.places[place as usize];
        at.state = State::Out {
            since_ns: now_ns,
            out_of_turn: before.is_some(),
            taken_as: in_turn,
        };
        if before.is_some() {
            // paid for now, so that two places with the device are not had for one
            self.earned[class.index()] -= i128::from(at.expected_ns) * 1000;
        }
        let ticket = Ticket {
            place,
            generation: at.generation,
        };
        Some((ticket, owner))
    }

    /// Reports that the device has finished a part, which frees its place. Returns whether the part
    /// was with the device.
    pub fn ended(&mut self, ticket: Ticket, now_ns: u64) -> bool {
        let Some(at) = self.place(ticket) else {
            return false;
        };
        let State::Out {
            since_ns,
            out_of_turn,
            taken_as,
        } = at.state
        else {
            return false;
        };
        let (class, expected_ns, width) = (at.class, at.expected_ns, at.width);
        self.earn(now_ns);
        self.pay(class, since_ns, out_of_turn, now_ns);
        if out_of_turn {
            self.earned[class.index()] += i128::from(expected_ns) * 1000;
        }
        self.ended_ns = self.ended_ns.max(now_ns);
        self.out -= width;
        self.out_as[taken_as.index()] -= width;
        self.give_back(ticket.place);
        true
    }

    /// A class pays for what one of its parts had of the device: since it was given, or another one ended.
    fn pay(&mut self, class: Class, since_ns: u64, out_of_turn: bool, now_ns: u64) {
        let used = i128::from(now_ns.saturating_sub(since_ns.max(self.ended_ns))) * 1000;
        let earned = self.earned[class.index()];
        self.earned[class.index()] = if out_of_turn {
            earned - used
        } else {
            // what was had in its turn is no debt
            (earned - used).max(earned.min(0))
        };
    }

    /// A part of this class interrupts those that the device is busy with: they pay for what they had.
    fn interrupt(&mut self, by: Class, now_ns: u64) {
        let Some(busy) = Class::ALL
            .into_iter()
            .find(|class| *class > by && self.out_as[class.index()] > 0)
        else {
            return;
        };
        for place in 0..self.places.len() {
            let at = &self.places[place];
            if let State::Out {
                since_ns,
                out_of_turn,
                taken_as,
            } = at.state
                && taken_as == busy
            {
                self.pay(at.class, since_ns, out_of_turn, now_ns);
            }
        }
    }

    /// Withdraws a part that no longer needs the device, or whose state on the device is unknown:
    /// it stops waiting, and its place becomes free. Returns whether the part was waiting or with
    /// the device.
    pub fn withdraw(&mut self, ticket: Ticket, now_ns: u64) -> bool {
        match self.place(ticket).map(|at| &at.state) {
            Some(State::Waiting(..)) => {
                self.earn(now_ns);
                drop(self.take_waiting(ticket.place));
                self.give_back(ticket.place);
                true
            }
            Some(State::Out { .. }) => self.ended(ticket, now_ns),
            Some(State::Free) | None => false,
        }
    }

    /// Whether the part of this ticket still waits.
    #[must_use]
    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        let at = self.places.get(ticket.place as usize);
        at.is_some_and(|at| at.generation == ticket.generation && matches!(at.state, State::Waiting(..)))
    }

    fn place(&self, ticket: Ticket) -> Option<&QueueSlot<T>> {
        let at = self.places.get(ticket.place as usize)?;
        (at.generation == ticket.generation).then_some(at)
    }

    /// Takes a part out of the heap of its class.
    fn take_waiting(&mut self, place: u32) -> Option<T> {
        let at = &mut self.places[place as usize];
        let index = at.class.index();
        let State::Waiting(heap_at, owner) = std::mem::replace(&mut at.state, State::Free) else {
            return None;
        };
        let places = &mut self.places;
        self.waiting[index].remove(heap_at, |place, at| moved(places, place, at));
        Some(owner)
    }

    fn give_back(&mut self, place: u32) {
        let at = &mut self.places[place as usize];
        at.state = State::Free;
        at.generation = at.generation.wrapping_add(1);
        self.free.push(place);
    }

    /// Classes that wait earn their share of the time since this was last called.
    fn earn(&mut self, now_ns: u64) {
        let passed = i128::from(now_ns.saturating_sub(self.earned_at_ns));
        self.earned_at_ns = self.earned_at_ns.max(now_ns);
        for class in Class::ALL {
            let index = class.index();
            let Some(first) = self.waiting[index].first() else {
                // who wants nothing has nothing to catch up with; what was taken too early stays a debt
                self.earned[index] = self.earned[index].min(0);
                continue;
            };
            let most = i128::from(self.places[first as usize].expected_ns) * 1000;
            let share = i128::from(self.settings.share_permille[index]);
            let earned = self.earned[index] + passed * share;
            self.earned[index] = earned.min(most.max(self.earned[index]));
        }
    }
}

fn moved<T>(places: &mut [QueueSlot<T>], place: u32, at: usize) {
    if let State::Waiting(heap_at, _) = &mut places[place as usize].state {
        *heap_at = at;
    }
}
