//! Order, shares and withdrawal, and random histories compared with a naive model.

use proptest::prelude::*;

use crate::{Class, Device, Entry, Part, Queue, Settings, Task, TaskSet, Ticket, admit, cuts};

const NO_SHARES: Settings = Settings {
    in_flight: 1,
    capacity: 16,
    share_permille: [0; Class::COUNT],
    preemption_ns: None,
};

fn entry(class: Class, deadline_ns: Option<u64>, owner: usize) -> Entry<usize> {
    Entry {
        class,
        deadline_ns,
        since_ns: 0,
        expected_ns: 10,
        owner,
    }
}

/// Owners in the order in which parts of 10 ns go, the first of them at `now_ns`.
fn order(queue: &mut Queue<usize>, mut now_ns: u64) -> Vec<usize> {
    let mut owners = Vec::new();
    while let Some((ticket, owner)) = queue.next(now_ns) {
        owners.push(owner);
        now_ns += 10;
        assert!(queue.ended(ticket, now_ns));
    }
    owners
}

#[test]
fn order_is_class_then_deadline_then_arrival() {
    let mut queue = Queue::new(NO_SHARES);
    queue.push(entry(Class::Background, Some(1), 0), 0);
    queue.push(entry(Class::Normal, None, 1), 0);
    queue.push(entry(Class::Urgent, None, 2), 0);
    queue.push(entry(Class::Urgent, Some(90), 3), 0);
    queue.push(entry(Class::Urgent, Some(50), 4), 0);
    queue.push(entry(Class::Urgent, Some(90), 5), 0);
    queue.push(entry(Class::Normal, None, 6), 0);
    assert_eq!(order(&mut queue, 0), [4, 3, 5, 2, 1, 6, 0]);
}

#[test]
fn queue_fills_all_device_places() {
    for places in [1, 2, 3] {
        let mut queue = Queue::new(Settings {
            in_flight: places,
            ..NO_SHARES
        });
        for owner in 0..5 {
            queue.push(entry(Class::Normal, None, owner), 0);
        }
        let tickets: Vec<Ticket> = std::iter::from_fn(|| queue.next(0).map(|(ticket, _)| ticket)).collect();
        assert_eq!(
            (tickets.len(), queue.out(), queue.waiting()),
            (places, places, 5 - places)
        );
        assert!(queue.ended(tickets[0], 1));
        assert!(!queue.ended(tickets[0], 1), "a ticket ends once");
        assert_eq!(queue.next(1).map(|(_, owner)| owner), Some(places));
    }
}

#[test]
fn wide_part_waits_for_its_places_without_overtaking() {
    let mut queue = Queue::new(Settings {
        in_flight: 2,
        ..NO_SHARES
    });
    let narrow = queue.push(entry(Class::Normal, None, 0), 0);
    assert_eq!(queue.next(0), Some((narrow, 0)));
    let wide = queue.push_wide(entry(Class::Normal, None, 1), 9, 0);
    queue.push(entry(Class::Normal, None, 2), 0);
    assert_eq!(queue.next(0), None);
    queue.ended(narrow, 1);
    assert_eq!(queue.next(1), Some((wide, 1)));
    assert_eq!((queue.out(), queue.next(1)), (2, None));
    queue.ended(wide, 2);
    assert_eq!(queue.next(2).map(|(_, owner)| owner), Some(2));
}

#[test]
fn withdrawn_part_does_not_block_the_queue() {
    let mut queue = Queue::new(NO_SHARES);
    let out = queue.push(entry(Class::Normal, None, 0), 0);
    let (first, second) = (
        queue.push(entry(Class::Urgent, Some(5), 1), 0),
        queue.push(entry(Class::Urgent, Some(6), 2), 0),
    );
    let (granted, _) = queue.next(0).unwrap();
    assert_eq!(granted, first);
    assert!(queue.withdraw(second, 1) && !queue.withdraw(second, 1));
    assert!(queue.is_waiting(out) && !queue.is_waiting(second));
    assert_eq!(queue.next(1), None);
    // the granted one is withdrawn while it is on the device: its outcome is unknown
    assert!(queue.withdraw(first, 2));
    assert_eq!(queue.next(2), Some((out, 0)));
}

#[test]
fn lower_class_gets_its_share_under_endless_urgent_load() {
    let settings = Settings {
        share_permille: [0, 100, 50],
        ..NO_SHARES
    };
    for (settings, least) in [(settings, [80_000, 9_000, 4_500]), (NO_SHARES, [100_000, 0, 0])] {
        let mut queue = Queue::new(settings);
        let mut used = [0_u64; Class::COUNT];
        let mut now_ns = 0;
        for class in Class::ALL {
            queue.push(entry(class, None, class.index()), now_ns);
        }
        while now_ns < 100_000 {
            let (ticket, owner) = queue.next(now_ns).unwrap();
            now_ns += 10;
            queue.ended(ticket, now_ns);
            used[owner] += 10;
            queue.push(entry(Class::ALL[owner], None, owner), now_ns);
        }
        // a part that is with the device earns nothing for the next
        assert!(
            (0..Class::COUNT).all(|class| used[class] >= least[class]),
            "{used:?}"
        );
    }
}

#[test]
fn satisfied_class_does_not_go_out_of_turn() {
    let mut queue = Queue::new(Settings::default());
    let mut now_ns = 0;
    let background = |now_ns, queue: &mut Queue<usize>| {
        queue.push(
            Entry {
                expected_ns: 20,
                ..entry(Class::Background, None, 1)
            },
            now_ns,
        )
    };
    background(now_ns, &mut queue);
    for _ in 0..1000 {
        // an urgent part of 10 ns every 40, beside a background of 20 ns without end
        queue.push(entry(Class::Urgent, None, 0), now_ns);
        let (ticket, owner) = queue.next(now_ns).unwrap();
        assert_eq!(owner, 0);
        queue.ended(ticket, now_ns + 10);
        let (ticket, owner) = queue.next(now_ns + 10).unwrap();
        assert_eq!(owner, 1);
        queue.ended(ticket, now_ns + 30);
        background(now_ns + 30, &mut queue);
        now_ns += 40;
    }
}

const INTERRUPTS: Settings = Settings {
    preemption_ns: Some(5),
    ..NO_SHARES
};

#[test]
fn preemptive_device_waits_only_for_equal_urgency() {
    let mut queue = Queue::new(INTERRUPTS);
    let background = queue.push(entry(Class::Background, None, 0), 0);
    assert_eq!(queue.next(0), Some((background, 0)));
    queue.push(entry(Class::Background, Some(1), 1), 1);
    assert_eq!(queue.next(1), None, "inside a class nothing is interrupted");
    let normal = queue.push(entry(Class::Normal, None, 2), 2);
    assert_eq!(queue.next(2), Some((normal, 2)));
    let urgent = queue.push(entry(Class::Urgent, None, 3), 3);
    queue.push(entry(Class::Urgent, Some(9), 4), 3);
    assert_eq!(queue.next(3).map(|(_, owner)| owner), Some(4));
    assert_eq!((queue.next(3), queue.out()), (None, 3));
    assert!(queue.is_waiting(urgent));
    // what is below has ended first: the place of the urgent class is still taken
    assert!(queue.ended(background, 4) && queue.ended(normal, 4));
    assert_eq!(queue.next(4), None);
}

#[test]
fn interrupted_part_is_charged_and_not_overtaken() {
    let settings = Settings {
        share_permille: [0, 0, 500],
        ..INTERRUPTS
    };
    let mut queue = Queue::new(settings);
    let parts =
        [Class::Background, Class::Normal, Class::Urgent].map(|class| entry(class, None, class.index()));
    let background = queue.push(parts[0], 0);
    assert_eq!(queue.next(0), Some((background, 2)));
    let normal = queue.push(parts[1], 6);
    assert_eq!(queue.next(6), Some((normal, 1)));
    // it waits and earns all that its next part takes, and does not pass the one that is with the device
    queue.push(parts[0], 6);
    queue.push(parts[2], 40);
    assert_eq!(queue.next(40).map(|(_, owner)| owner), Some(0));
    assert_eq!(queue.next(40), None);
    let mut plain = Queue::new(Settings {
        preemption_ns: None,
        ..settings
    });
    let background = plain.push(parts[0], 0);
    assert_eq!(plain.next(0), Some((background, 2)));
    assert!(plain.ended(background, 10));
    plain.push(parts[0], 10);
    plain.push(parts[2], 10);
    assert_eq!(
        plain.next(40).map(|(_, owner)| owner),
        Some(2),
        "it has earned its part"
    );
}

/// One device, a camera's part of 8 ms every 33 ms beside endless parts of 60 ms.
fn camera_and_background(preemption_ns: Option<u64>, switch_ns: u64) -> TaskSet {
    let ms = |time: u64| {
        vec![Part {
            device: 0,
            time_ns: time * 1_000_000,
        }]
    };
    let device = Device {
        queue: Settings {
            preemption_ns,
            share_permille: [0; Class::COUNT],
            ..Settings::default()
        },
        switch_ns,
        ..Device::new("npu:0")
    };
    let camera = Task::periodic("camera", 33_000_000, ms(8)).in_class(Class::Urgent);
    TaskSet::new(
        vec![device],
        vec![camera, Task::endless("background", Class::Background, ms(60))],
    )
}

/// The tightest deadline of a set that is admitted.
fn tightest(set: &TaskSet) -> Option<crate::Instant> {
    let admission = admit(set).unwrap();
    let certificate = admission.certificate()?;
    certificate.devices[0].tightest.first().copied()
}

#[test]
fn preemptible_part_blocks_for_its_bound() {
    let with = camera_and_background;
    assert_eq!(
        tightest(&with(None, 0)),
        None,
        "60 ms are longer than what is left"
    );
    let blocking = |preemption_ns| tightest(&with(Some(preemption_ns), 0)).map(|at| at.blocking_ns);
    assert_eq!(blocking(2_000_000), Some(2_000_000));
    assert_eq!(blocking(25_000_000), Some(25_000_000));
    assert_eq!(blocking(25_000_001), None);
    let mut short = with(Some(u64::MAX), 0);
    short.tasks[1].parts[0].time_ns = 20_000_000;
    assert_eq!(tightest(&short).map(|at| at.blocking_ns), Some(20_000_000 - 1));
    // and so there is no need to cut what gives way in time
    assert_eq!(cuts(&with(Some(2_000_000), 0)).unwrap()[0].longest_ns, None);
    assert_eq!(cuts(&with(None, 0)).unwrap()[0].longest_ns, Some(25_000_001));
    assert_eq!(
        cuts(&with(None, 1_000_000)).unwrap()[0].longest_ns,
        Some(23_000_001)
    );
}

#[test]
fn switch_time_is_added_to_each_part() {
    let mut set = camera_and_background(None, 0);
    set.tasks.pop();
    set.tasks[0].parts = vec![set.tasks[0].parts[0]; 2];
    let own = |set: &TaskSet| tightest(set).map(|at| at.own_ns);
    assert_eq!(own(&set), Some(16_000_000));
    set.devices[0].switch_ns = 1_000_000;
    assert_eq!(own(&set), Some(18_000_000));
    // to it and back
    set.devices[0].queue.preemption_ns = Some(0);
    assert_eq!(own(&set), Some(20_000_000));
    set.devices[0].switch_ns = 8_500_000;
    assert_eq!(own(&set), None);
}

#[derive(Debug, Clone)]
enum Step {
    Push(Class, Option<u64>, u64),
    Next,
    End(usize, u64),
    Withdraw(usize),
}

fn class() -> impl Strategy<Value = Class> {
    prop::sample::select(Class::ALL.to_vec())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (class(), prop::option::of(0_u64..20), 1_u64..30).prop_map(|(c, d, e)| Step::Push(c, d, e)),
        3 => Just(Step::Next),
        3 => (any::<usize>(), 0_u64..30).prop_map(|(at, after)| Step::End(at, after)),
        1 => any::<usize>().prop_map(Step::Withdraw),
    ]
}

proptest! {
    /// Without shares the order is that of sorting all that wait.
    #[test]
    fn queue_matches_a_sorted_list(steps in prop::collection::vec(step(), 1..200), in_flight in 1_usize..4) {
        let mut queue = Queue::new(Settings { in_flight, ..NO_SHARES });
        let mut waiting: Vec<(Class, (u64, u64), usize, Ticket)> = Vec::new();
        let mut out: Vec<Ticket> = Vec::new();
        let mut now_ns = 0;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(class, deadline_ns, expected_ns) => {
                    // runs of which some began at the same time
                    let since_ns = expected_ns / 4;
                    let ticket = queue.push(Entry { class, deadline_ns, since_ns, expected_ns, owner: number }, now_ns);
                    waiting.push((class, (deadline_ns.unwrap_or(u64::MAX), since_ns), number, ticket));
                }
                Step::Next => {
                    waiting.sort_by_key(|(class, deadline, number, _)| (*class, *deadline, *number));
                    let expected = (out.len() < in_flight && !waiting.is_empty()).then(|| waiting.remove(0));
                    let given = queue.next(now_ns);
                    prop_assert_eq!(given, expected.map(|(_, _, number, ticket)| (ticket, number)));
                    out.extend(given.map(|(ticket, _)| ticket));
                }
                Step::End(at, after) if !out.is_empty() => {
                    now_ns += after;
                    let ticket = out.swap_remove(at % out.len());
                    prop_assert!(queue.ended(ticket, now_ns));
                    prop_assert!(!queue.withdraw(ticket, now_ns));
                }
                Step::Withdraw(at) if !waiting.is_empty() => {
                    let (.., ticket) = waiting.swap_remove(at % waiting.len());
                    prop_assert!(queue.withdraw(ticket, now_ns));
                    prop_assert!(!queue.is_waiting(ticket));
                }
                Step::End(..) | Step::Withdraw(_) => {}
            }
            prop_assert_eq!((queue.waiting(), queue.out()), (waiting.len(), out.len()));
        }
    }

    /// Under a load that never lets the device rest: what lower classes take before higher ones is bounded over every
    /// interval, and so is how long a part of a lower class waits.
    #[test]
    fn shares_are_kept_and_bounded(
        parts in prop::collection::vec((class(), 1_u64..30), 20..200),
        shares in (0_u16..300, 0_u16..300),
    ) {
        const LONGEST: u64 = 30;
        let settings = Settings { in_flight: 1, capacity: 8, share_permille: [0, shares.0, shares.1], preemption_ns: None };
        let mut queue = Queue::new(settings);
        // one of each class waits at any time; how long its parts take is drawn
        let mut lengths = Class::ALL.map(|class| {
            let own: Vec<u64> = parts.iter().filter(|(of, _)| *of == class).map(|(_, ns)| *ns).collect();
            if own.is_empty() { vec![7] } else { own }.into_iter().cycle()
        });
        let mut next = |class: Class, now_ns, queue: &mut Queue<(usize, u64)>| {
            let expected_ns = lengths[class.index()].next().unwrap();
            let owner = (class.index(), expected_ns);
            queue.push(Entry { class, deadline_ns: None, since_ns: now_ns, expected_ns, owner }, now_ns);
        };
        Class::ALL.into_iter().for_each(|class| next(class, 0, &mut queue));
        let mut now_ns = 0;
        // when each part of a class began, and how long it took
        let mut had: [Vec<(u64, u64)>; Class::COUNT] = Default::default();
        for _ in 0..400 {
            let (ticket, (class, took)) = queue.next(now_ns).unwrap();
            had[class].push((now_ns, took));
            now_ns += took;
            prop_assert!(queue.ended(ticket, now_ns));
            next(Class::ALL[class], now_ns, &mut queue);
        }
        for class in [Class::Normal, Class::Background] {
            let had = &had[class.index()];
            for first in 0..had.len() {
                let mut taken = 0;
                for (began, took) in &had[first..] {
                    taken += took;
                    let interval = began + took - had[first].0;
                    let bound = settings.out_of_turn_bound_ns(class, LONGEST, interval);
                    prop_assert!(taken <= bound, "{class:?} took {taken} of {interval}, bound {bound}");
                }
            }
            if settings.share_permille[class.index()] > 0 {
                let mut came = 0;
                for &(began, took) in had {
                    let bound = settings.longest_wait_ns(class, took, LONGEST);
                    prop_assert!(began - came <= bound, "{class:?} waited {}, bound {bound}", began - came);
                    came = began + took;
                }
            }
        }
    }
}
