//! Properties of admission.

use polychip_device_queue::{Class, Device, Part, Settings, Task, TaskSet, admit, cuts};
use proptest::prelude::*;

fn task() -> impl Strategy<Value = Task> {
    let parts = prop::collection::vec((0..2_usize, 1..40_u64), 1..5);
    (
        parts,
        20..400_u64,
        10..150_u64,
        0..3_usize,
        prop::bool::weighted(0.15),
    )
        .prop_map(|(parts, period, due_percent, class, is_endless)| {
            let parts: Vec<Part> = parts
                .into_iter()
                .map(|(device, time_ns)| Part { device, time_ns })
                .collect();
            if is_endless {
                Task::endless("e", Class::Background, parts)
            } else {
                Task::periodic("p", period, parts)
                    .due((period * due_percent / 100).max(1))
                    .in_class(Class::ALL[class])
            }
        })
}

fn devices(share_permille: [u16; 3], in_flight: usize) -> Vec<Device> {
    let device = |name: &str| Device {
        queue: Settings {
            share_permille,
            in_flight,
            ..Settings::default()
        },
        ..Device::new(name)
    };
    vec![device("a:0"), device("b:0")]
}

fn is_admitted(set: &TaskSet) -> bool {
    admit(set).unwrap().certificate().is_some()
}

proptest! {
    /// What is refused is refused with any task more.
    #[test]
    fn admission_is_monotone(
        tasks in prop::collection::vec(task(), 1..5),
        more in task(),
        shares in prop::sample::select(vec![[0, 0, 0], [0, 100, 50], [0, 300, 200]]),
        in_flight in 1..3_usize,
    ) {
        let set = TaskSet::new(devices(shares, in_flight), tasks);
        let mut larger = set.clone();
        larger.tasks.push(more);
        prop_assert!(is_admitted(&set) || !is_admitted(&larger));
    }

    /// A part that is cut in two for nothing never makes a set worse, where no share goes out of turn.
    #[test]
    fn free_cuts_are_harmless(tasks in prop::collection::vec(task(), 1..5), which in any::<prop::sample::Index>()) {
        let set = TaskSet::new(devices([0; 3], 1), tasks);
        let mut cut = set.clone();
        let parts = &mut cut.tasks[which.index(set.tasks.len())].parts;
        *parts = parts
            .iter()
            .flat_map(|part| {
                let half = part.time_ns / 2;
                let halves = [half, part.time_ns - half].into_iter().filter(|time| *time > 0);
                halves.map(|time_ns| Part { time_ns, ..*part })
            })
            .collect();
        prop_assert!(!is_admitted(&set) || is_admitted(&cut));
    }

    /// A set is admitted with its parts cut as `cuts` says, whatever else its parts are, as long as those that block are no longer.
    #[test]
    fn parts_within_their_cuts_are_admitted(
        tasks in prop::collection::vec(task(), 1..5),
        shares in prop::sample::select(vec![[0, 0, 0], [0, 100, 50], [0, 300, 200]]),
    ) {
        let set = TaskSet::new(devices(shares, 1), tasks);
        let limits = cuts(&set).unwrap();
        let within = |device: usize| {
            let each = limits[device].tasks.iter();
            each.into_iter().all(|(task, longest)| {
                longest.is_none_or(|longest| set.tasks[*task].longest_on(device) <= longest)
            })
        };
        let one_division = set.tasks.iter().all(|task| {
            task.parts.windows(2).all(|pair| pair[0].device == pair[1].device)
        });
        // with a deadline that is missed whatever is cut, no part is short enough
        let has_bound = |device: usize| limits[device].longest_ns != Some(0);
        if one_division && (0..2).all(|device| within(device) && has_bound(device)) {
            prop_assert!(is_admitted(&set), "{limits:?}");
        }
    }
}
