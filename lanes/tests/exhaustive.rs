//! The test of demand over supply beside an exhaustive search: all phases of small sets over their hyperperiods, tick by tick,
//! in code that shares nothing with the crate's.
//!
//! Where the theory says that the test is exact (jobs of one part, or of parts as fine as the clock), the two must agree on
//! every set; elsewhere whatever is admitted must not miss.

use polychip_lanes::{Arrivals, Class, Device, Part, Settings, Task, TaskSet, admit};
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
        if misses_from(rows, &phases, hyperperiods * hyperperiod + 2 * longest) {
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
            ..Settings::default()
        },
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
            Kind::Mixed => match (time, below(2)) {
                (2, 0) => vec![1, 1],
                (3, 0) => vec![1, 2],
                (3, _) => vec![2, 1],
                _ => vec![time],
            },
        };
        Row {
            class: if kind == Kind::Whole { 0 } else { below(2) as u8 },
            period,
            // also beyond the period
            deadline: time + below(period + 2),
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
