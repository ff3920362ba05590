//! Figures of one cadence are never compared with another's.

use polychip_partitioner::Time;
use polychip_profile::{Cadence, Conditions, Measurement, PartKey, Profile, Summary};
use proptest::prelude::*;
use std::time::Duration;

const PART: [u8; 32] = [7; 32];

fn key(operating_point: &str) -> PartKey<'_> {
    PartKey {
        device: "gpu:0|1|b|v|d||d",
        fingerprint: &PART,
        operating_point,
    }
}

fn at(cadence: Option<Cadence>) -> Conditions {
    Conditions {
        cadence,
        ..Conditions::default()
    }
}

fn cadence(period_ms: u64) -> Cadence {
    Cadence::of_period(Duration::from_millis(period_ms))
}

fn record(profile: &Profile, cadence: Option<Cadence>, times_ns: &[u64]) {
    let measurements: Vec<Measurement> = times_ns
        .iter()
        .map(|ns| Measurement {
            time: Time::from_nanoseconds(*ns),
            energy_uj: None,
        })
        .collect();
    let conditions = at(cadence);
    profile
        .record_under(key(""), false, &measurements, &conditions)
        .unwrap();
}

fn found(profile: &Profile, cadence: Cadence) -> Summary {
    profile.part_under(key(""), &at(Some(cadence))).unwrap().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each cadence's figures are those of its own rows, whatever is recorded at others, in whatever order.
    #[test]
    fn rows_of_cadences_stay_apart(
        batches in proptest::collection::vec((0u64..3_000, proptest::collection::vec(1u64..1_000_000, 1..12)), 1..12),
    ) {
        let together = Profile::in_memory();
        for (period, times) in &batches {
            record(&together, Some(cadence(*period)), times);
        }
        for (period, _) in &batches {
            let asked = cadence(*period);
            let alone = Profile::in_memory();
            for (_, times) in batches.iter().filter(|(other, _)| cadence(*other) == asked) {
                record(&alone, Some(asked), times);
            }
            let (one, other) = (found(&together, asked), found(&alone, asked));
            prop_assert!(!one.inherited);
            prop_assert_eq!(one.cadence, Some(asked));
            prop_assert_eq!((one.p10, one.p50, one.p99, one.samples), (other.p10, other.p50, other.p99, other.samples));
            prop_assert_eq!(one.interval, other.interval);
        }
        // a file in JSON keeps them apart too
        let copy = Profile::in_memory();
        copy.import(&together.export().unwrap(), "").unwrap();
        for (period, _) in &batches {
            prop_assert_eq!(found(&copy, cadence(*period)).p50, found(&together, cadence(*period)).p50);
        }
    }

    /// A row of another cadence is marked as such, and has a wider interval.
    #[test]
    fn rows_of_another_cadence_are_inherited(time_ns in 1u64..1_000_000, from in 0u64..3_000, to in 0u64..3_000) {
        prop_assume!(cadence(from) != cadence(to));
        let profile = Profile::in_memory();
        record(&profile, Some(cadence(from)), &[time_ns; 12]);
        let (own, inherited) = (found(&profile, cadence(from)), found(&profile, cadence(to)));
        prop_assert!(!own.inherited && inherited.inherited);
        prop_assert_eq!(inherited.p50, own.p50);
        let (own, wide) = (own.interval.unwrap(), inherited.interval.unwrap());
        prop_assert!(wide.low_ns <= own.low_ns && own.high_ns < wide.high_ns);
    }
}

#[test]
fn older_rows_are_back_to_back() {
    let profile = Profile::in_memory();
    record(&profile, None, &[1_000; 7]);
    assert!(!found(&profile, Cadence::BackToBack).inherited);
    assert!(found(&profile, cadence(100)).inherited);
    record(&profile, Some(Cadence::BackToBack), &[2_000; 7]);
    let known = found(&profile, Cadence::BackToBack);
    assert_eq!((known.p50.nanoseconds(), known.samples), (2_000, 7));
}

#[test]
fn overloaded_device_keeps_the_stated_period() {
    let profile = Profile::in_memory();
    // 40 ms at 33 ms: it is busy all the time
    record(&profile, Some(Cadence::BackToBack), &[40_000_000; 7]);
    assert!(!found(&profile, cadence(33)).inherited);
    assert!(found(&profile, cadence(100)).inherited);
}

#[test]
fn cadences_evict_independently() {
    let profile = Profile::in_memory();
    record(&profile, Some(cadence(100)), &[4_000_000; 20]);
    for run in 0..50 {
        record(&profile, Some(Cadence::BackToBack), &[1_000_000 + run; 20]);
    }
    assert_eq!(found(&profile, cadence(100)).samples, 20);
    assert_eq!(found(&profile, Cadence::BackToBack).samples, 101);
    let lines = profile.parts().unwrap();
    let lines: Vec<(Cadence, u64)> = lines.iter().map(|line| (line.cadence, line.samples)).collect();
    assert_eq!(lines, [(cadence(100), 20), (Cadence::BackToBack, 101)]);
}
