//! Rows that were measured under other conditions, or on another machine.

use super::*;

/// Conditions with this clock under load, in megahertz.
fn at(mhz: u64) -> Conditions {
    Conditions {
        khz: Some(mhz * 1_000),
        ..Conditions::default()
    }
}

#[test]
fn cost_uses_the_current_clock() {
    let profile = Profile::in_memory();
    let record = |times: Vec<Measurement>, conditions: &Conditions| {
        profile
            .record_under(key("gpu:0"), false, &times, conditions)
            .unwrap();
    };
    // an idle chip's clock, three times as slow, measured more often and later
    record(times([1_000; 7]), &at(1_980));
    record(times([3_000; 40]), &at(345));
    record(times([1_010; 7]), &at(1_900));
    record(times([2_900; 40]), &Conditions::default());
    let priced = |now: &Conditions| {
        let found = profile.part_under(key("gpu:0"), now).unwrap().unwrap();
        let all = (found.samples, found.batches, found.all_batches);
        (found.p50.nanoseconds(), all, found.conditions)
    };
    let fast = (1_000, (14, 2, 4), "load_mhz=1900,2000".to_owned());
    assert_eq!(priced(&Conditions::default()), fast);
    assert_eq!(priced(&at(2_100)), fast);
    assert_eq!(priced(&at(400)), (3_000, (40, 1, 4), "load_mhz=300".to_owned()));
    let shown = &profile.parts().unwrap()[0];
    assert_eq!((shown.p50_ns, shown.used_samples, shown.samples), (1_000, 14, 94));
    assert_eq!((shown.used_batches, shown.batches), (2, 4));
    assert_eq!(shown.conditions, "load_mhz=1900,2000");
}

#[test]
fn slow_clock_rows_do_not_evict_fast_clock_rows() {
    let profile = Profile::in_memory();
    let energy = Measurement {
        time: Time::from_nanoseconds(9),
        energy_uj: Some(70),
    };
    profile
        .record_under(key("gpu:0"), false, &[energy], &at(2_000))
        .unwrap();
    profile
        .record_under(key("gpu:0"), false, &times([9; 120]), &at(2_000))
        .unwrap();
    for _ in 0..3 {
        profile
            .record_under(key("gpu:0"), false, &times([30; 101]), &at(300))
            .unwrap();
    }
    let found = profile.part(key("gpu:0")).unwrap().unwrap();
    assert_eq!(
        (found.p50.nanoseconds(), found.samples, found.energy_uj),
        (9, KEPT + 1, Some(70))
    );
    let slow = profile.part_under(key("gpu:0"), &at(300)).unwrap().unwrap();
    assert_eq!((slow.p50.nanoseconds(), slow.samples), (30, KEPT));
    // a clock that was measured long before eight others goes
    for mhz in 4..12 {
        profile
            .record_under(key("gpu:0"), false, &times([5; 20]), &at(mhz * 100))
            .unwrap();
    }
    let kept = &profile.export().unwrap().parts[0];
    let clocks: std::collections::BTreeSet<&str> = kept
        .batches
        .iter()
        .map(|batch| batch.conditions.as_str())
        .collect();
    // but for the energy that was measured at it
    let energies = kept.batches.iter().flat_map(|batch| &batch.energies_uj);
    assert_eq!(energies.flatten().collect::<Vec<_>>(), [&70]);
    let fast = kept
        .batches
        .iter()
        .filter(|batch| batch.conditions == "load_mhz=2000");
    assert_eq!(fast.map(|batch| batch.times_ns.len()).collect::<Vec<_>>(), [1]);
    assert_eq!((clocks.len(), clocks.contains("load_mhz=300")), (9, false));
}

#[test]
fn energy_is_found_under_other_conditions() {
    let profile = Profile::in_memory();
    let energy = Measurement {
        time: Time::from_nanoseconds(9),
        energy_uj: Some(70),
    };
    profile.record(key("gpu:0"), false, &[energy]).unwrap();
    profile
        .record_under(key("gpu:0"), false, &times([5; 20]), &at(1_900))
        .unwrap();
    let found = profile.part(key("gpu:0")).unwrap().unwrap();
    assert_eq!((found.p50.nanoseconds(), found.energy_uj), (5, Some(70)));
}

#[test]
fn regressions_use_the_nearest_rows() {
    let profile = Profile::in_memory();
    profile
        .record_under(key("gpu:0"), false, &times([1_000; 7]), &at(1_980))
        .unwrap();
    profile
        .record_under(key("gpu:0"), false, &times([3_000; 40]), &at(345))
        .unwrap();
    profile.record(key("cpu:0"), false, &times([7])).unwrap();
    let narrowed = |now: &Conditions| {
        let mut file = profile.export().unwrap();
        file.narrow("gpu:0", now);
        let parts = file.parts.iter();
        parts
            .flat_map(|part| part.batches.iter().map(|batch| batch.times_ns.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(narrowed(&Conditions::default()), [[1_000; 7]]);
    assert_eq!(narrowed(&at(300)), [vec![3_000; 40]]);
}

#[test]
fn rows_of_another_machine_are_near_matches() {
    const DEVICE: &str =
        "cpu:0|0.1.0|cpu-1a|AuthenticAMD|EPYC|soc|avx512|cores=2x0 isa=avx512 threads=2 tune=off";
    let profile = Profile::in_memory();
    let asked = |device: &'static str| PartKey {
        operating_point: "threads=1",
        ..key(device)
    };
    profile.record(asked(DEVICE), false, &times([5; 7])).unwrap();
    assert!(profile.part(asked(DEVICE)).unwrap().is_some());
    assert_eq!(profile.elsewhere(asked(DEVICE)).unwrap(), []);
    for (from, to) in [
        ("|0.1.0|", "|0.2.0|"),
        ("cpu-1a", "cpu-2b"),
        ("AuthenticAMD", "GenuineIntel"),
        ("EPYC", "Xeon"),
        ("soc", "chip"),
        ("avx512|", "avx2|"),
        ("cores=2x0", "cores=4x0"),
        ("isa=avx512", "isa=avx2"),
        ("threads=2", "threads=4"),
        ("tune=off", "tune=on"),
    ] {
        let other: &'static str = DEVICE.replacen(from, to, 1).leak();
        assert_eq!(profile.part(asked(other)).unwrap(), None, "{to}");
        let found = profile.elsewhere(asked(other)).unwrap();
        assert_eq!(
            (found.len(), found[0].differences.len(), found[0].samples),
            (1, 1, 7),
            "{to}"
        );
    }
    for operating_point in ["threads=2", "precision=reduced threads=1", ""] {
        let other = PartKey {
            operating_point,
            ..key(DEVICE)
        };
        assert_eq!(profile.part(other).unwrap(), None);
        assert_eq!(profile.elsewhere(other).unwrap().len(), 1);
    }
    let found = profile.elsewhere(key(DEVICE)).unwrap();
    assert_eq!(
        found[0].to_string(),
        "measured at threads=1, not at threads unset: 5.000 ns (7 runs)"
    );
}
