//! The test of demand over supply beside an exhaustive search: all phases of small sets over their hyperperiods, tick by tick,
//! in code that shares nothing with the crate's.
//!
//! The test is exact in theory for jobs of one part, or of parts as fine as the clock: there the two must agree on
//! every set. Elsewhere an admitted set must not miss a deadline.

use polychip_device_queue::{Arrivals, Class, Device, Part, Settings, Task, TaskSet, admit};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// A task of the search.
#[derive(Debug, Clone)]
struct Row {
    class: u8,
    period: u64,
    deadline: u64,
    parts: Vec<u64>,
}

/// A job of the search.
#[derive(Debug, Clone)]
struct Job {
    class: u8,
    due: u64,
    task: usize,
    left: Vec<u64>,
}

/// How the device of the search treats what it has begun.
#[derive(Debug, Clone, Copy)]
struct Giving {
    /// Ticks until it has interrupted a part for a more urgent one; none: it does not.
    within: Option<u64>,
    /// Ticks from a part of one task to one of another.
    switch: u64,
}

/// A part that the device of the search was given.
#[derive(Debug, Clone)]
struct Begun {
    class: u8,
    due: u64,
    task: usize,
    /// Ticks of the part, without switches.
    left: u64,
    /// Parts of its run behind it.
    rest: Vec<u64>,
}

/// As [`misses_from`], on a device that gives way, one more urgent part above the other, and switches. A part is given where
/// nothing as urgent is with the device; the device runs the most urgent one that it has, after the bound.
fn misses_giving_way(rows: &[Row], phases: &[u64], until: u64, giving: Giving) -> bool {
    let mut ready: Vec<Begun> = Vec::new();
    let mut begun: Vec<Begun> = Vec::new();
    // index of the one that runs, ticks that it still switches, and ticks until it gives way
    let mut running: Option<(usize, u64, Option<u64>)> = None;
    let mut last: Option<usize> = None;
    for tick in 0..until {
        for (task, row) in rows.iter().enumerate() {
            if tick >= phases[task] && (tick - phases[task]).is_multiple_of(row.period) {
                ready.push(Begun {
                    class: row.class,
                    due: tick + row.deadline,
                    task,
                    left: row.parts[0],
                    rest: row.parts[1..].to_vec(),
                });
            }
        }
        let change = |to: &Begun, last: Option<usize>| match last {
            Some(last) if last != to.task => giving.switch,
            _ => 0,
        };
        let mut start = |begun: &[Begun], place: usize| {
            let switch = change(&begun[place], last);
            last = Some(begun[place].task);
            Some((place, switch, None))
        };
        // what gave way long enough, and what is left where nothing runs
        if let Some((_, _, Some(0))) = running {
            running = None;
        }
        let most_urgent =
            |begun: &[Begun]| (0..begun.len()).min_by_key(|place| (begun[*place].class, *place));
        if running.is_none()
            && let Some(place) = most_urgent(&begun)
        {
            running = start(&begun, place);
        }
        let next =
            (0..ready.len()).min_by_key(|place| (ready[*place].class, ready[*place].due, ready[*place].task));
        if let Some(next) = next {
            let class = ready[next].class;
            let may_go = match giving.within {
                None => begun.is_empty(),
                Some(_) => begun.iter().all(|other| other.class > class),
            };
            if may_go {
                begun.push(ready.remove(next));
                running = match (running, giving.within) {
                    (None, _) => start(&begun, begun.len() - 1),
                    // a job that is already giving way keeps its earlier bound
                    (Some((place, switch, left)), Some(within)) => Some((
                        place,
                        switch,
                        Some(left.map_or(within, |left: u64| left.min(within))),
                    )),
                    (Some(_), None) => unreachable!("nothing was with the device"),
                };
                if let Some((_, _, Some(0))) = running {
                    let place = most_urgent(&begun).unwrap();
                    running = start(&begun, place);
                }
            }
        }
        if let Some((place, switch, left)) = running {
            running = Some((place, switch.saturating_sub(1), left.map(|left| left - 1)));
            if switch == 0 {
                begun[place].left -= 1;
                if begun[place].left == 0 {
                    let mut done = begun.remove(place);
                    if !done.rest.is_empty() {
                        done.left = done.rest.remove(0);
                        ready.push(done);
                    }
                    running = None;
                }
            }
        }
        if begun.iter().chain(&ready).any(|job| job.due <= tick + 1) {
            return true;
        }
    }
    false
}

/// Whether a run is late where tasks come periodically from these ticks on.
fn misses_from(rows: &[Row], phases: &[u64], until: u64) -> bool {
    let mut jobs: Vec<Job> = Vec::new();
    let mut running: Option<(usize, u64)> = None;
    for tick in 0..until {
        for (task, row) in rows.iter().enumerate() {
            if tick >= phases[task] && (tick - phases[task]).is_multiple_of(row.period) {
                jobs.push(Job {
                    class: row.class,
                    due: tick + row.deadline,
                    task,
                    left: row.parts.clone(),
                });
            }
        }
        if running.is_none() {
            let next = jobs.iter().enumerate();
            let next = next.min_by_key(|(place, job)| (job.class, job.due, job.task, *place));
            running = next.map(|(place, job)| (place, job.left[0]));
        }
        if let Some((place, left)) = running {
            running = Some((place, left - 1));
            if left == 1 {
                jobs[place].left.remove(0);
                if jobs[place].left.is_empty() {
                    jobs.remove(place);
                }
                running = None;
            }
        }
        // what is there at the end of this tick is not done yet
        if jobs.iter().any(|job| job.due <= tick + 1) {
            return true;
        }
    }
    false
}

fn common_multiple(a: u64, b: u64) -> u64 {
    (1..)
        .map(|times| a * times)
        .find(|multiple| multiple % b == 0)
        .unwrap()
}

/// Whether any phases make a run late.
fn misses(rows: &[Row]) -> bool {
    misses_where(rows, &misses_from)
}

/// Whether a deadline is missed, with rows that first come at these phases, until then.
type Misses<'a> = dyn Fn(&[Row], &[u64], u64) -> bool + 'a;

/// The same with runs that go as `from` says.
fn misses_where(rows: &[Row], from: &Misses<'_>) -> bool {
    let hyperperiod = rows
        .iter()
        .fold(1, |sofar, row| common_multiple(sofar, row.period));
    let longest = rows.iter().map(|row| row.period.max(row.deadline)).max().unwrap();
    let work: u64 = rows
        .iter()
        .map(|row| hyperperiod / row.period * row.parts.iter().sum::<u64>())
        .sum();
    // what is asked for too much adds up until a deadline is missed
    let hyperperiods = if work > hyperperiod { 2 + longest } else { 2 };
    let mut phases = vec![0; rows.len()];
    loop {
        if from(rows, &phases, hyperperiods * hyperperiod + 2 * longest) {
            return true;
        }
        let Some(place) = (0..rows.len()).find(|place| phases[*place] + 1 < rows[*place].period) else {
            return false;
        };
        phases[place] += 1;
        phases[..place].fill(0);
    }
}

/// Whether the set is admitted.
fn admitted(rows: &[Row]) -> bool {
    let giving = Giving {
        within: None,
        switch: 0,
    };
    admitted_giving_way(rows, giving)
}

/// The same on a device that gives way and switches so.
fn admitted_giving_way(rows: &[Row], giving: Giving) -> bool {
    let tasks = rows.iter().enumerate().map(|(index, row)| Task {
        name: format!("t{index}"),
        class: Class::ALL[usize::from(row.class)],
        arrivals: Arrivals::Sporadic {
            period_ns: row.period,
            deadline_ns: row.deadline,
        },
        parts: row
            .parts
            .iter()
            .map(|time_ns| Part {
                device: 0,
                time_ns: *time_ns,
            })
            .collect(),
        memory_bytes: Vec::new(),
    });
    // the search knows no shares
    let device = Device {
        queue: Settings {
            share_permille: [0; 3],
            preemption_ns: giving.within,
            ..Settings::default()
        },
        switch_ns: giving.switch,
        ..Device::new("d")
    };
    let set = TaskSet::new(vec![device], tasks.collect());
    admit(&set).unwrap().certificate().is_some()
}

/// What the tasks of a kind of set look like.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// One part per job, one class: the test is exact.
    Whole,
    /// Parts of one tick, two classes: exact.
    Fine,
    /// Anything: sufficient.
    Mixed,
    /// The same, where the more urgent class has little time to spare and the other has much.
    Tight,
}

fn random_rows(random: &mut ChaCha8Rng, kind: Kind) -> Vec<Row> {
    let mut below = |limit: u64| random.next_u64() % limit;
    let count = 2 + below(2);
    let row = |_| {
        let period = [2, 3, 4, 5, 6, 8][below(6) as usize];
        let time = 1 + below(3.min(period));
        let parts = match kind {
            Kind::Whole => vec![time],
            Kind::Fine => vec![1; time as usize],
            Kind::Mixed | Kind::Tight => match (time, below(2)) {
                (2, 0) => vec![1, 1],
                (3, 0) => vec![1, 2],
                (3, _) => vec![2, 1],
                _ => vec![time],
            },
        };
        let class = if kind == Kind::Whole { 0 } else { below(2) as u8 };
        Row {
            class,
            period,
            deadline: match (kind, class) {
                (Kind::Tight, 0) => time + below(3),
                (Kind::Tight, _) => time + period + below(3),
                // also beyond the period
                _ => time + below(period + 2),
            },
            parts,
        }
    };
    (0..count).map(row).collect()
}

/// Compares so many sets; how many were admitted, and how many were refused and miss nothing.
fn compare(seed: u64, kind: Kind, sets: usize) -> (usize, usize) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut admitted_sets, mut only_sufficient) = (0, 0);
    for _ in 0..sets {
        let rows = random_rows(&mut random, kind);
        match (admitted(&rows), misses(&rows)) {
            (true, true) => panic!("admitted and misses: {rows:?}"),
            (true, false) => admitted_sets += 1,
            (false, true) => (),
            (false, false) if kind == Kind::Mixed => only_sufficient += 1,
            (false, false) => panic!("refused and never misses: {rows:?}"),
        }
    }
    (admitted_sets, only_sufficient)
}

#[test]
fn whole_jobs_are_judged_exactly() {
    let (admitted, _) = compare(1, Kind::Whole, 1_000);
    assert!((100..=900).contains(&admitted), "{admitted} of 1000 are admitted");
}

#[test]
fn fine_parts_in_two_classes_are_judged_exactly() {
    let (admitted, _) = compare(2, Kind::Fine, 1_000);
    assert!((100..=900).contains(&admitted), "{admitted} of 1000 are admitted");
}

#[test]
fn mixed_parts_are_judged_soundly_and_seldom_refused_in_vain() {
    let (admitted, only_sufficient) = compare(3, Kind::Mixed, 1_000);
    assert!((100..=900).contains(&admitted), "{admitted} of 1000 are admitted");
    eprintln!("mixed parts: {admitted} of 1000 admitted, {only_sufficient} refused in vain");
    assert!(
        only_sufficient <= 150,
        "{only_sufficient} of 1000 are refused in vain"
    );
}

#[test]
fn preemptive_devices_with_switches_are_judged_soundly() {
    let (mut admitted_sets, mut by_giving_way, mut by_switches, mut in_vain) = (0, 0, 0, 0);
    let mut random = ChaCha8Rng::seed_from_u64(4);
    for _ in 0..6_000 {
        let rows = random_rows(&mut random, Kind::Tight);
        let giving = Giving {
            within: [None, Some(0), Some(1), Some(2)][(random.next_u64() % 4) as usize],
            switch: random.next_u64() % 2,
        };
        let from = |rows: &[Row], phases: &[u64], until| misses_giving_way(rows, phases, until, giving);
        let (is_admitted, late) = (admitted_giving_way(&rows, giving), misses_where(&rows, &from));
        assert!(!is_admitted || !late, "admitted and misses: {giving:?} {rows:?}");
        admitted_sets += usize::from(is_admitted);
        in_vain += usize::from(!is_admitted && !late);
        let otherwise = admitted(&rows);
        by_giving_way += usize::from(is_admitted && !otherwise);
        by_switches += usize::from(!is_admitted && otherwise);
    }
    eprintln!(
        "giving way: {admitted_sets} of 6000 admitted, {in_vain} refused in vain, {by_giving_way} only because a part gives way"
    );
    // else the device's facts would make no difference
    assert!(
        by_giving_way >= 5 && by_switches >= 100,
        "{by_giving_way}, {by_switches}"
    );
    assert!(
        admitted_sets >= 600 && in_vain <= 600,
        "{admitted_sets} admitted, {in_vain} in vain"
    );
}

/// On devices that neither give way nor switch, both searches say the same.
#[test]
fn the_two_searches_agree() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let giving = Giving {
        within: None,
        switch: 0,
    };
    for _ in 0..300 {
        let rows = random_rows(&mut random, Kind::Mixed);
        let from = |rows: &[Row], phases: &[u64], until| misses_giving_way(rows, phases, until, giving);
        assert_eq!(misses(&rows), misses_where(&rows, &from), "{rows:?}");
    }
}
