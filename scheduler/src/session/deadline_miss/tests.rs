//! Causes of late runs, and figures of all runs.

use super::path::Spent;
use super::*;

const SPENT: Spent = Spent {
    queued_ns: 10,
    between_ns: 20,
    predicted_ns: 100,
    slowest: Some((3, 5, 40)),
};

fn causes() -> Causes {
    Causes {
        transfers_ns: 15,
        deadline_ns: 200,
        late_ns: 50,
        ..Causes::default()
    }
}

#[test]
fn late_run_cause_is_the_largest_excess() {
    let of = |causes: Causes, spent: Spent| causes.of(Some(&spent));
    // transfers were predicted to take 15 of the 20
    assert_eq!(of(causes(), SPENT), (LateCause::Queued, None));
    let slow = Spent {
        slowest: Some((3, 30, 70)),
        ..SPENT
    };
    assert_eq!(of(causes(), slow), (LateCause::SlowPart, Some((3, 70))));
    let copied = Causes {
        copied_ns: 60,
        ..causes()
    };
    assert_eq!(of(copied, slow), (LateCause::Transfers, None));
    let waited = Causes {
        waited_ns: 25,
        ..causes()
    };
    assert_eq!(of(waited, slow), (LateCause::Queued, None));
    let replanned = Causes {
        replanned_ns: 31,
        ..causes()
    };
    assert_eq!(of(replanned, slow), (LateCause::Replanned, None));
}

#[test]
fn slow_plan_is_the_cause_before_smaller_excesses() {
    let tight = Causes {
        deadline_ns: 60,
        ..causes()
    };
    assert_eq!(tight.of(Some(&SPENT)), (LateCause::Plan, None));
    // predicted 55 above the deadline, and a part takes 80 more than that
    let slow = Spent {
        slowest: Some((0, 80, 90)),
        ..SPENT
    };
    assert_eq!(tight.of(Some(&slow)), (LateCause::SlowPart, Some((0, 90))));
}

#[test]
fn cause_is_unknown_without_device_times() {
    let none = |waited_ns| Causes {
        waited_ns,
        ..causes()
    };
    assert_eq!(none(10).of(None), (LateCause::Unknown, None));
    assert_eq!(none(30).of(None), (LateCause::Queued, None));
}

#[test]
fn run_time_restarts_after_a_failure() {
    let mut submitted = Submitted::at(100);
    submitted.waited(30);
    submitted.begins(140);
    assert_eq!(submitted.replanned_ns(), 10);
    submitted.begins(190);
    assert_eq!(submitted.replanned_ns(), 60);
}

#[test]
fn deadline_can_change_and_be_removed() {
    let lateness = Lateness::new(2, Some(Duration::from_millis(5)), None);
    assert_eq!(lateness.deadline_ns(), Some(5_000_000));
    lateness.set_deadline(None);
    assert_eq!(lateness.deadline_ns(), None);
    lateness.set_deadline(Some(Duration::MAX));
    assert_eq!(lateness.deadline_ns(), Some(u64::MAX - 1));
    assert_eq!((lateness.latency(), lateness.late_runs()), (None, 0));
}

#[test]
fn throttling_is_reported_or_above_the_limit() {
    let limit = Some(MilliCelsius::new(60_000));
    let slows = |limit, temperature_mc, throttle| {
        let said = polychip_host::Telemetry {
            temperature_mc,
            throttle,
            ..polychip_host::Telemetry::default()
        };
        Lateness::new(1, None, limit).slows(&said)
    };
    assert!(slows(None, None, Some(1)) && slows(limit, Some(60_001), None));
    assert!(!slows(None, Some(99_000), Some(0)) && !slows(limit, Some(60_000), None));
}
