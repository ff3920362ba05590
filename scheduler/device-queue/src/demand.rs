//! Demand over supply on one device: whether all parts meet their deadlines if the queue orders
//! them by class, then by deadline.
//!
//! The test is that of EDF with limited preemption (Baruah, The limited-preemption uniprocessor scheduling of sporadic
//! task systems, ECRTS 2005; Buttazzo, Bertogna and Yao, Limited preemptive scheduling for real-time systems: a survey,
//! IEEE TII 2013), with more urgent classes as interference (time-demand analysis: Lehoczky, Sha and Ding, RTSS 1989).
//!
//! Why it is sound: suppose that a run of class `c` with deadline `d` is late. Let `s` be the last
//! instant before `d` with no pending work of more urgent classes, nor of class `c` with a deadline
//! up to `d`. From `s` to `d` the device is never idle and does only such work, with two
//! exceptions: parts issued before `s` (at most `in_flight`, each at most as long as the longest
//! part that is due later or less urgent), and parts of less urgent classes that their shares let
//! overtake. With `t = d - s`, the work of class `c` is at most the demand bound
//! `dbf(t) = sum of max(0, floor((t - D) / T) + 1) C`, and more urgent work that arrived within `x`
//! is at most `rbf(x) = sum of ceil((x + J) / T) C`. If all of that is done by some `x <= t`, the
//! run was not late.
//!
//! If the device interrupts a part for a more urgent class within `b`, work waits for less urgent
//! parts only that long: `b` before each of its parts (between two of them the device continues the
//! interrupted part), and never longer than the longest part of each less urgent class, of which
//! one can have started before `s`. A part of class `c` that is due later is not interrupted, nor
//! is a part that went out of turn before one.
//!
//! If a device takes `n` parts at once, each part may find `n - 1` others ahead of it that were
//! issued while nothing else was waiting; each part is charged for them.
//!
//! Out-of-turn time of a class is at most its credit at `s` plus its share of the time since. A
//! class earns credit only while it waits, and pays for its parts: the more device time more urgent
//! classes leave, the less credit it can have (`saved`). With less credit than its shortest part,
//! no part of it goes out of turn.
//!
//! Invariants: times are whole nanoseconds; saturated sums lead to refusal; an `f64` bounds the
//! examined deadlines and the credit of a class, and is rounded to the safe side.

use crate::settings::{Class, Settings};
use crate::task::{Arrivals, TaskSet};

/// Maximum examined deadlines of a test.
const MOST_INSTANTS: usize = 1 << 17;
/// Maximum examined deadlines on a fully used device, only to name a missed one.
const MOST_OVERLOADED: usize = 1 << 12;
/// Iterations after which a busy period counts as endless.
const MAX_ITERATIONS: usize = 1 << 12;

/// Consecutive parts of a task on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subtask {
    pub(crate) task: usize,
    pub(crate) class: Class,
    /// Time of its parts (`C`).
    pub(crate) time_ns: u64,
    pub(crate) parts: u64,
    pub(crate) longest_ns: u64,
    pub(crate) shortest_ns: u64,
    /// Shortest time from one to the next (`T`); `None` if endless.
    pub(crate) period_ns: Option<u64>,
    /// Time from its nominal release to its deadline (`D`).
    pub(crate) window_ns: u64,
    /// Maximum time by which it may be ready early (`J`): the bound of the subtasks before it.
    pub(crate) early_ns: u64,
}

/// The deadline of a class on a device that has the least slack, or one that could be missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// Index of the device.
    pub device: usize,
    /// The class whose deadline it is.
    pub class: Class,
    /// The supply: time from the start of the device's busy period to the deadline, in nanoseconds.
    pub supply_ns: u64,
    /// Demand of the class up to the deadline, in nanoseconds.
    pub own_ns: u64,
    /// Interference of more urgent classes, in nanoseconds.
    pub higher_ns: u64,
    /// Blocking by parts issued before the busy period, in nanoseconds.
    pub blocking_ns: u64,
    /// Time that less urgent classes take out of turn, by their shares, in nanoseconds.
    pub lower_ns: u64,
}

/// Blocking of a device: the longest parts of subtasks with later deadlines.
pub(crate) trait Blocking {
    /// By class, the longest part that may be ahead of work of this class that is due after `supply_ns`.
    fn ahead(&self, class: Class, supply_ns: u64) -> [u64; Class::COUNT];

    /// The longest and the shortest part of a class; zero where it has none.
    fn parts(&self, class: Class) -> (u64, u64);
}

/// The device's own later and less urgent parts.
impl Blocking for &[Subtask] {
    fn ahead(&self, class: Class, supply_ns: u64) -> [u64; Class::COUNT] {
        let mut longest = [0; Class::COUNT];
        for one in self.iter().filter(|one| one.blocks(class, supply_ns)) {
            let of_class = &mut longest[one.class.index()];
            *of_class = one.longest_ns.max(*of_class);
        }
        longest
    }

    fn parts(&self, class: Class) -> (u64, u64) {
        let own = || self.iter().filter(|one| one.class == class);
        let longest = own().map(|one| one.longest_ns).max();
        let shortest = own().map(|one| one.shortest_ns).min();
        (longest.unwrap_or(0), shortest.unwrap_or(0))
    }
}

/// Parts up to this length, of a subtask of this class and deadline, where no other part that can be ahead is longer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hypothetical<'a> {
    pub(crate) subtasks: &'a [Subtask],
    pub(crate) class: Class,
    /// Time from its run's arrival to the deadline; none: endless.
    pub(crate) due_ns: Option<u64>,
    pub(crate) longest_ns: u64,
    /// Further cost of each part.
    pub(crate) switch_ns: u64,
}

impl Hypothetical<'_> {
    /// The longest time that such a part occupies the device; 0 without such a part.
    fn time_ns(&self) -> u64 {
        match self.longest_ns {
            0 => 0,
            longest => longest.saturating_add(self.switch_ns),
        }
    }
}

impl Blocking for Hypothetical<'_> {
    fn ahead(&self, class: Class, supply_ns: u64) -> [u64; Class::COUNT] {
        let later = self.due_ns.is_none_or(|due| due > supply_ns);
        if !(self.class > class || self.class == class && later) {
            return [0; Class::COUNT];
        }
        let mut longest = self.subtasks.ahead(class, supply_ns);
        longest[self.class.index()] = u64::MAX;
        longest.map(|longest| longest.min(self.time_ns()))
    }

    fn parts(&self, class: Class) -> (u64, u64) {
        let (longest, _) = self.subtasks.parts(class);
        let longest = if class == self.class {
            self.time_ns()
        } else {
            longest.min(self.time_ns())
        };
        // as short ones as may be are among them
        (longest, longest.min(1))
    }
}

impl Subtask {
    /// Whether one of its parts may be ahead of work of this class that is due after so long.
    pub(crate) fn blocks(&self, class: Class, supply_ns: u64) -> bool {
        // it may have been ready early, and then its deadline is as much further away
        let due = self.window_ns.saturating_add(self.early_ns);
        self.class > class || self.class == class && (self.period_ns.is_none() || due > supply_ns)
    }

    /// The charge for a run, if this much time may be ahead of each of its parts.
    fn charge(&self, ahead: Ahead) -> u64 {
        self.time_ns
            .saturating_add(self.parts.saturating_mul(ahead.beside_ns))
    }

    /// Maximum number of runs that become ready within this time.
    fn come(&self, within_ns: u64) -> u64 {
        let jittered = within_ns.saturating_add(self.early_ns);
        self.period_ns.map_or(0, |period| jittered.div_ceil(period))
    }
}

impl Instant {
    /// The demand by the deadline, in nanoseconds.
    #[must_use]
    pub fn demand_ns(&self) -> u64 {
        let rest = self.higher_ns.saturating_add(self.lower_ns);
        self.own_ns.saturating_add(self.blocking_ns).saturating_add(rest)
    }

    /// The unused supply; 0 if it is exceeded.
    #[must_use]
    pub fn slack_ns(&self) -> u64 {
        self.supply_ns.saturating_sub(self.demand_ns())
    }
}

/// Why a class did not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// Demand exceeds supply.
    Exceeded(Instant),
    /// This class and more urgent ones need more than all of the device's time.
    Overloaded(Class),
    /// More deadlines than the maximum; the class.
    TooMany(Class),
}

/// A device with its subtasks. Times include the switch to each part, and the switch back if it may
/// interrupt another one.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) device: usize,
    in_flight: u64,
    queue: Settings,
    /// Switching cost per part.
    pub(crate) switch_ns: u64,
    pub(crate) subtasks: Vec<Subtask>,
}

/// Blocking of due work, by the device's preemption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ahead {
    /// Not interrupted: parts issued before the device became busy.
    once_ns: u64,
    /// Not interrupted: parts issued beside each part.
    beside_ns: u64,
    /// Interrupted parts, in total.
    interrupted_ns: u64,
    /// Of that, the maximum wait of each part.
    each_ns: u64,
}

impl Ahead {
    /// Blocking of this many parts. A part on the device started at least a nanosecond before them;
    /// the bound counts from their arrival.
    fn blocking_ns(&self, parts: u64) -> u64 {
        let interrupted = self.interrupted_ns.saturating_sub(1);
        let interrupted = interrupted.min(parts.saturating_mul(self.each_ns));
        self.once_ns.saturating_sub(1).saturating_add(interrupted)
    }

    /// Blocking of any number of parts.
    fn most_ns(&self) -> u64 {
        self.once_ns.saturating_add(self.interrupted_ns)
    }
}

/// The range of examined deadlines.
#[derive(Debug, Clone, Copy)]
struct End {
    is_overloaded: bool,
    /// The last deadline to examine; `None` if unknown.
    bound_ns: Option<u64>,
    most_instants: usize,
}

/// Out-of-turn time of a less urgent class.
#[derive(Debug, Clone, Copy, Default)]
struct Lower {
    share_permille: u64,
    /// Its maximum credit when the device becomes busy, in nanoseconds.
    saved_ns: u64,
    /// Its shortest part, in nanoseconds.
    shortest_ns: u64,
}

/// By class; zero for classes that are not less urgent.
type Lowers = [Lower; Class::COUNT];

impl Load {
    /// The subtasks of a device, with `deadlines` by task and subtask as time from arrival.
    pub(crate) fn new(set: &TaskSet, device: usize, deadlines: &[Vec<u64>]) -> Self {
        let (queue, switch_ns) = (set.devices[device].queue, set.devices[device].switch_ns);
        let charged_ns = match queue.preemption_ns {
            Some(_) => switch_ns * 2,
            None => switch_ns,
        };
        let mut subtasks = Vec::new();
        for (index, task) in set.tasks.iter().enumerate() {
            let mut before = 0;
            for ((first, end), due) in task.subtasks().zip(&deadlines[index]) {
                let parts = &task.parts[first..end];
                if parts[0].device == device {
                    subtasks.push(Subtask {
                        task: index,
                        class: task.class,
                        time_ns: parts.iter().map(|part| part.time_ns + charged_ns).sum(),
                        parts: parts.len() as u64,
                        longest_ns: parts.iter().map(|part| part.time_ns).max().unwrap_or(0) + charged_ns,
                        // the credit that its class needs
                        shortest_ns: parts.iter().map(|part| part.time_ns).min().unwrap_or(0) + switch_ns,
                        period_ns: match task.arrivals {
                            Arrivals::Sporadic { period_ns, .. } => Some(period_ns),
                            Arrivals::Endless => None,
                        },
                        window_ns: due - before,
                        early_ns: before,
                    });
                }
                before = *due;
            }
        }
        Self {
            device,
            in_flight: queue.in_flight as u64,
            queue,
            switch_ns: charged_ns,
            subtasks,
        }
    }

    /// What may be ahead of work of this class that is due after `supply_ns`.
    fn ahead(&self, class: Class, supply_ns: u64, blocking: &impl Blocking) -> Ahead {
        let longest = blocking.ahead(class, supply_ns);
        let any = longest.into_iter().max().unwrap_or(0);
        let beside_ns = (self.in_flight - 1).saturating_mul(any);
        let Some(each_ns) = self.queue.preemption_ns else {
            return Ahead {
                once_ns: self.in_flight.saturating_mul(any),
                beside_ns,
                interrupted_ns: 0,
                each_ns: 0,
            };
        };
        let (mut own, lower) = (longest[class.index()], class.index() + 1);
        let lower = lower.min(Class::COUNT)..Class::COUNT;
        if own > 0 {
            // a part that went before a later part of the class stays ahead of it
            let shared = lower
                .clone()
                .filter(|index| self.queue.share_permille[*index] > 0);
            own = shared.map(|index| longest[index]).fold(own, u64::max);
        }
        let lower = lower.map(|index| self.in_flight.saturating_mul(longest[index]));
        Ahead {
            once_ns: self.in_flight.saturating_mul(own),
            beside_ns,
            interrupted_ns: lower.fold(0, u64::saturating_add),
            each_ns,
        }
    }

    /// Classes that have deadlines here, ascending.
    pub(crate) fn classes(&self) -> Vec<Class> {
        let with = self.subtasks.iter().filter(|one| one.period_ns.is_some());
        let mut classes: Vec<Class> = with.map(|one| one.class).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// Device utilisation by work with deadlines of a class and of more urgent ones, in millionths,
    /// rounded up.
    pub(crate) fn utilisation_ppm(&self, class: Class) -> u64 {
        let urgent = self.subtasks.iter().filter(|one| one.class <= class);
        let shares = urgent.filter_map(|one| {
            let period = one.period_ns?;
            Some((u128::from(one.time_ns) * 1_000_000_000_000).div_ceil(u128::from(period)))
        });
        u64::try_from(shares.sum::<u128>().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }

    /// The tightest deadline of a class, if none can be missed; `None` if the class has no deadline
    /// here.
    pub(crate) fn test(&self, class: Class, blocking: &impl Blocking) -> Result<Option<Instant>, Failed> {
        let own: Vec<&Subtask> = self
            .subtasks
            .iter()
            .filter(|one| one.class == class && one.period_ns.is_some())
            .collect();
        let Some(first) = own.iter().map(|one| one.window_ns).min() else {
            return Ok(None);
        };
        let lowers = self.lowers(class, blocking);
        let mut next: Vec<u64> = own.iter().map(|one| one.window_ns).collect();
        let (mut time, mut parts) = (0u64, 0u64);
        let mut tightest: Option<Instant> = None;
        let mut supply = first;
        // of the longest part that may be ahead, which gets shorter the later the deadline is
        let mut ahead = self.ahead(class, supply, blocking);
        let mut end = self.end(class, ahead, &lowers);
        let mut looked_at = 0;
        while looked_at < end.most_instants {
            looked_at += 1;
            let ahead_now = self.ahead(class, supply, blocking);
            if ahead_now != ahead {
                ahead = ahead_now;
                end = self.end(class, ahead, &lowers);
            }
            // the first deadline counts even where it lies beyond the busy period
            if end.bound_ns.is_some_and(|bound| supply > bound.max(first)) {
                return Ok(tightest);
            }
            for (one, next) in own.iter().zip(&mut next) {
                if *next == supply {
                    time = time.saturating_add(one.time_ns);
                    parts += one.parts;
                    *next = next.saturating_add(one.period_ns.unwrap_or(u64::MAX));
                }
            }
            let instant = self.at(class, supply, (time, parts), ahead, &lowers);
            if instant.demand_ns() > supply {
                return Err(Failed::Exceeded(instant));
            }
            if tightest.is_none_or(|other| instant.slack_ns() < other.slack_ns()) {
                tightest = Some(instant);
            }
            supply = next.iter().copied().min().unwrap_or(u64::MAX);
        }
        Err(if end.is_overloaded {
            Failed::Overloaded(class)
        } else {
            Failed::TooMany(class)
        })
    }

    /// The demand by a deadline this far ahead: at the earliest instant by which all work can be
    /// done, otherwise at the deadline.
    fn at(
        &self,
        class: Class,
        supply_ns: u64,
        (time, parts): (u64, u64),
        ahead: Ahead,
        lowers: &Lowers,
    ) -> Instant {
        // a part that is issued together with each part of this work
        let charged = |time: u64, parts: u64| time.saturating_add(parts.saturating_mul(ahead.beside_ns));
        let mut instant = Instant {
            device: self.device,
            class,
            supply_ns,
            own_ns: charged(time, parts),
            higher_ns: 0,
            blocking_ns: ahead.blocking_ns(parts),
            lower_ns: 0,
        };
        let mut within = instant.demand_ns();
        loop {
            let urgent = self.subtasks.iter().filter(|one| one.class < class);
            let mut all_parts = parts;
            let come = urgent.map(|one| {
                let runs = one.come(within);
                let parts = runs.saturating_mul(one.parts);
                all_parts = all_parts.saturating_add(parts);
                charged(runs.saturating_mul(one.time_ns), parts)
            });
            instant.higher_ns = come.fold(0, u64::saturating_add);
            instant.blocking_ns = ahead.blocking_ns(all_parts);
            instant.lower_ns = out_of_turn(lowers, within);
            let demand = instant.demand_ns();
            if demand <= within || demand > supply_ns {
                return instant;
            }
            within = demand;
        }
    }

    /// Out-of-turn time of less urgent classes.
    fn lowers(&self, class: Class, blocking: &impl Blocking) -> Lowers {
        Class::ALL.map(|lower| {
            let (longest, shortest_ns) = blocking.parts(lower);
            let share_permille = u64::from(self.queue.share_permille[lower.index()]);
            if lower <= class || longest == 0 || share_permille == 0 {
                return Lower::default();
            }
            Lower {
                share_permille,
                saved_ns: self.saved(lower, longest, blocking),
                shortest_ns,
            }
        })
    }

    /// Maximum credit of a class, up to one part. It earns its share while it waits, and pays for
    /// the time that more urgent classes leave. So over `y` nanoseconds it keeps at most `share y -
    /// (y - rbf(y))`, with `rbf(y) <= U y + burst`.
    fn saved(&self, class: Class, longest_ns: u64, blocking: &impl Blocking) -> u64 {
        let share = |class: Class| f64::from(self.queue.share_permille[class.index()]) / 1_000.0;
        let interrupts = self.queue.preemption_ns.is_some();
        // while an out-of-turn part is interrupted, which was paid in advance, its class may earn
        // another
        let most = if interrupts {
            longest_ns.saturating_mul(2)
        } else {
            longest_ns
        };
        if self.in_flight > 1 {
            // an out-of-turn part is paid in advance, and the rest is paid back
            let while_given = share(class) * self.in_flight as f64 * longest_ns as f64;
            return most.saturating_add(while_given as u64 + 1);
        }
        let least = Class::ALL.into_iter().filter(|other| *other >= class);
        let least = least.map(|other| blocking.parts(other).0);
        // where parts are interrupted, one of each class can have been begun
        let begun: u64 = if interrupts {
            least.fold(0, u64::saturating_add)
        } else {
            least.max().unwrap_or(0)
        };
        let mut burst = begun as f64;
        let mut utilisation = 0.0;
        for one in self.subtasks.iter().filter(|one| one.class < class) {
            let Some(period) = one.period_ns else {
                return most;
            };
            let of_it = one.time_ns as f64 / period as f64;
            utilisation += of_it;
            burst += one.time_ns as f64 + of_it * one.early_ns as f64;
        }
        for other in Class::ALL.into_iter().filter(|other| *other > class) {
            let (longest, _) = blocking.parts(other);
            if longest > 0 {
                utilisation += share(other);
                burst += longest as f64;
            }
        }
        let left = 1.0 - utilisation - 1e-9;
        if share(class) > left {
            return most;
        }
        let earned = share(class) * burst / left * (1.0 + 1e-9) + 1.0;
        most.min(earned as u64 + 1)
    }

    /// The range of examined deadlines with this blocking.
    fn end(&self, class: Class, ahead: Ahead, lowers: &Lowers) -> End {
        let is_overloaded = self.is_overloaded(class, ahead);
        let bound_ns = if is_overloaded {
            None
        } else {
            self.bound(class, ahead, lowers)
        };
        End {
            is_overloaded,
            bound_ns,
            most_instants: match bound_ns {
                Some(_) => MOST_INSTANTS,
                None => MOST_OVERLOADED,
            },
        }
    }

    /// The longest time from the start of a busy period to a deadline that must be examined; `None`
    /// if unknown.
    fn bound(&self, class: Class, ahead: Ahead, lowers: &Lowers) -> Option<u64> {
        // each part waits for interrupted parts, in total at most for their full time
        let each = self.linear(class, (ahead.once_ns, ahead.each_ns), ahead, lowers);
        let linear = self.linear(class, (ahead.most_ns(), 0), ahead, lowers);
        match self
            .busy_period(class, ahead, lowers)
            .into_iter()
            .chain(linear)
            .chain(each)
            .min()
        {
            Some(bound) => Some(bound),
            None if lowers.iter().all(|lower| lower.share_permille == 0) => self.hyperperiod(class),
            None => None,
        }
    }

    /// Whether a class and more urgent ones certainly need more than all of the device's time.
    fn is_overloaded(&self, class: Class, ahead: Ahead) -> bool {
        let urgent = self.subtasks.iter().filter(|one| one.class <= class);
        let shares = urgent.filter_map(|one| {
            let charge = u128::from(one.charge(ahead));
            Some((charge << 64) / u128::from(one.period_ns?))
        });
        // each share is rounded down
        shares.fold(0, u128::saturating_add) > 1 << 64
    }

    /// From here on demand is below supply because it grows more slowly: `dbf(t) <= U t + sum of U
    /// max(0, T - D)` and `rbf(x) <= U (x + J) + sum of C`. Blocking is `once`, plus `each` per
    /// part.
    fn linear(&self, class: Class, (once, each): (u64, u64), ahead: Ahead, lowers: &Lowers) -> Option<u64> {
        let mut constant = once as f64;
        let mut utilisation = 0.0;
        for lower in lowers {
            utilisation += lower.share_permille as f64 / 1_000.0;
            constant += lower.saved_ns as f64 + 1.0;
        }
        for one in self.subtasks.iter().filter(|one| one.class <= class) {
            let Some(period) = one.period_ns else { continue };
            let charge = one.charge(ahead) as f64 + one.parts as f64 * each as f64;
            let share = charge / period as f64;
            utilisation += share;
            constant += if one.class < class {
                charge + share * one.early_ns as f64
            } else {
                share * period.saturating_sub(one.window_ns) as f64
            };
        }
        // far enough from one that rounding changes nothing
        let left = 1.0 - utilisation - 1e-9;
        let bound = constant / left * (1.0 + 1e-9) + 1.0;
        (left > 0.0 && bound < 1e18).then_some(bound as u64)
    }

    /// The longest time that the device is busy with a class and more urgent ones.
    fn busy_period(&self, class: Class, ahead: Ahead, lowers: &Lowers) -> Option<u64> {
        let urgent: Vec<&Subtask> = self.subtasks.iter().filter(|one| one.class <= class).collect();
        let mut period = ahead.once_ns.saturating_add(1);
        for _ in 0..MAX_ITERATIONS {
            let mut parts = 0u64;
            let come = urgent.iter().map(|one| {
                let runs = one.come(period);
                parts = parts.saturating_add(runs.saturating_mul(one.parts));
                runs.saturating_mul(one.charge(ahead))
            });
            let come = come.fold(out_of_turn(lowers, period), u64::saturating_add);
            let longer = come.saturating_add(ahead.blocking_ns(parts)).saturating_add(1);
            if longer <= period {
                return Some(period);
            }
            if longer > u64::MAX / 4 {
                return None;
            }
            period = longer;
        }
        None
    }

    /// After all deadlines once and a common multiple of the periods, slack only grows, as long as the device is not
    /// overloaded.
    fn hyperperiod(&self, class: Class) -> Option<u64> {
        if self.in_flight > 1 {
            return None;
        }
        let urgent = self.subtasks.iter().filter(|one| one.class <= class);
        let timed: Vec<(&Subtask, u64)> = urgent.filter_map(|one| Some((one, one.period_ns?))).collect();
        let multiple = timed
            .iter()
            .try_fold(1u64, |multiple, (_, period)| multiple_of(multiple, *period))?;
        let work = timed
            .iter()
            .map(|(one, period)| u128::from(multiple / period) * u128::from(one.time_ns))
            .sum::<u128>();
        let latest = timed.iter().map(|(one, _)| one.window_ns).max()?;
        (work <= u128::from(multiple)).then(|| multiple.checked_add(latest))?
    }
}

/// Maximum out-of-turn time of less urgent classes within this many nanoseconds.
fn out_of_turn(lowers: &Lowers, within_ns: u64) -> u64 {
    let each = lowers.iter().map(|lower| {
        // in two steps, so that it fits
        let (thousands, rest) = (within_ns / 1_000, within_ns % 1_000);
        let earned = thousands * lower.share_permille + (rest * lower.share_permille).div_ceil(1_000);
        let most = lower.saved_ns.saturating_add(earned);
        // a class without credit for its next part gets none
        if most < lower.shortest_ns { 0 } else { most }
    });
    each.fold(0, u64::saturating_add)
}

/// The least common multiple, if it is small enough.
fn multiple_of(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b).filter(|multiple| *multiple < u64::MAX / 4)
}
