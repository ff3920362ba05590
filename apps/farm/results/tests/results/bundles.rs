//! Bundles made of runs, as an app reads them.

use polychip_farm_record::{EnergyOutcome, Job, Outcome, PlannedPart, Record, SoakWindow};
use polychip_farm_results::bundle::families;
use polychip_farm_results::{Kind, Run, Selection};
use polychip_partitioner::Time;
use polychip_profile::bundle::{Bundle, Manifest, SecretKey, Trust};
use polychip_profile::{Measurement, PartKey, Profile};

use crate::made::{item, run, selected, timed, write};

/// A record with a plan.
fn planned(place: &str, plugin: &str, at_s: u64, ns: u64) -> Record {
    let mut item = item("m");
    item.plugins = vec![plugin.to_owned()];
    let mut record = timed("r1", "a", &item, place, at_s, vec![ns; 5]);
    if let Outcome::Measured(measured) = &mut record.outcome {
        measured.plan.push(PlannedPart {
            id: "p0".into(),
            device: format!("{plugin}:0"),
            nodes: 9,
            ns,
            provenance: "measured".into(),
        });
        measured.energy = Some(EnergyOutcome {
            nanojoules: ns * 3,
            provenance: "estimated".into(),
        });
    }
    record
}

fn soak(place: &str, plugin: &str) -> Record {
    let mut record = planned(place, plugin, 90, 1);
    record.item.job = Job::Soak;
    if let Outcome::Measured(measured) = &mut record.outcome {
        let window = |end_ms, median_ns, hottest_mc| SoakWindow {
            end_ms,
            runs: 10,
            median_ns,
            hottest_mc: Some(hottest_mc),
            slowest_khz: None,
        };
        measured.windows = vec![
            window(1_000, 500, 40_000),
            window(2_000, 800, 61_000),
            window(3_000, 790, 60_000),
        ];
    }
    record
}

fn other_chip(mut record: Record) -> Record {
    record.board.soc = Some("RK3588".into());
    record
}

/// A folder with a run of two board types, each with a database.
fn farm() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let records = vec![
        planned("desk", "cpu", 5, 900),
        planned("desk", "npu", 6, 500),
        planned("desk", "npu", 8, 520),
        soak("desk", "npu"),
        other_chip(planned("shelf", "cpu", 7, 2_000)),
    ];
    write(folder.path(), &run("r1", records));
    std::fs::create_dir(folder.path().join("profiles")).unwrap();
    for (at, place) in ["desk", "shelf", "cellar"].into_iter().enumerate() {
        let profile = Profile::open(folder.path().join(format!("profiles/{place}.profile"))).unwrap();
        let key = PartKey {
            device: &format!("cpu:0|{place}"),
            fingerprint: &[7; 32],
            operating_point: "",
        };
        let time = Measurement {
            time: Time::from_nanoseconds(1_000 + at as u64),
            energy_uj: None,
        };
        profile.record(key, false, &[time; 3]).unwrap();
        profile.set_plugin_value("cpu", "tile", b"8x8").unwrap();
    }
    folder
}

#[test]
fn a_family_has_its_own_rows_with_their_sources_and_the_fastest_plan() {
    let folder = farm();
    let families = families(&selected(Run::read(folder.path()).unwrap())).unwrap();
    let names: Vec<&str> = families.keys().map(|kind| kind.name.as_str()).collect();
    assert_eq!(names, ["RK3588", "SM8650"]);
    let kind = Kind {
        name: "SM8650".into(),
        emulated: false,
    };
    let family = &families[&kind];
    assert_eq!((family.measured_s, &family.left_out[..]), (90, &[][..]));
    assert!(family.is_called("desk") && !family.is_called("phone"));
    let parts = &family.content.profile.parts;
    assert_eq!(parts.len(), 1);
    assert_eq!(parts[0].device, "cpu:0|desk");
    assert_eq!(parts[0].batches[0].source, "run r1, board desk");
    assert!(family.content.profile.plugin_values.is_empty());
    let [plan] = &family.content.plans[..] else {
        panic!("{:?}", family.content.plans)
    };
    assert_eq!((plan.model.as_str(), plan.median_ns), ("m", 510));
    assert_eq!(plan.parts[0].device, "npu:0");
    assert_eq!(plan.energy_nj, Some(1_560));
    assert_eq!(plan.sources, ["r1 on desk by 0.1.0 (aaaaaaaaaaaa)"]);
    let soak = plan.sustained.as_ref().unwrap();
    assert_eq!(
        (soak.first_ns, soak.last_ns, soak.lasted_ms, soak.hottest_mc),
        (500, 790, 3_000, Some(61_000))
    );
    assert!(!plan.emulated);
}

#[test]
fn bundle_is_readable_with_a_trusted_key() {
    let folder = farm();
    let families = families(&selected(Run::read(folder.path()).unwrap())).unwrap();
    let key = SecretKey::from_bytes(&[3; 32]);
    for (kind, family) in families {
        let bytes = Bundle::sign(&family.content, &Manifest::new(&kind.to_string(), 1), &key).unwrap();
        let profile = Profile::in_memory();
        let bundle = profile
            .load_bundle(&bytes, &Trust::new().key(key.public()))
            .unwrap();
        assert_eq!(bundle.content, family.content);
        assert_eq!(profile.export().unwrap().parts.len(), 1);
    }
}

#[test]
fn invalid_profile_is_skipped_by_name() {
    let folder = farm();
    // another board of the family, whose profile is whole
    let records = [planned("desk", "cpu", 5, 900), planned("shelf", "cpu", 7, 900)];
    write(folder.path(), &run("r1", records.to_vec()));
    std::fs::write(folder.path().join("profiles/desk.profile"), "not a database").unwrap();
    let mut selection = Selection::new();
    selection.add(Run::read(folder.path()).unwrap(), None).unwrap();
    let families = families(&selection).unwrap();
    let [family] = &families.values().collect::<Vec<_>>()[..] else {
        panic!("{families:?}")
    };
    let [left_out] = &family.left_out[..] else {
        panic!("{:?}", family.left_out)
    };
    assert!(left_out.contains("desk.profile"), "{left_out}");
    let parts = &family.content.profile.parts;
    assert_eq!(parts.len(), 1);
    assert_eq!(parts[0].batches[0].source, "run r1, board shelf");
}
