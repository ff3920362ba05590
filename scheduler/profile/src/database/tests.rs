//! Tests of the profile database: stored rows, refused files, recovery.

use super::*;
use crate::sqlite::tables;
use crate::{ErrorKind, KEPT, ProfileDiff};
use rusqlite::Connection;

mod conditions;

const FINGERPRINT: [u8; 32] = [7; 32];

fn key(device: &str) -> PartKey<'_> {
    PartKey {
        device,
        fingerprint: &FINGERPRINT,
        operating_point: "",
    }
}

fn times(values: impl IntoIterator<Item = u64>) -> Vec<Measurement> {
    values
        .into_iter()
        .map(|ns| Measurement {
            time: Time::from_nanoseconds(ns),
            energy_uj: None,
        })
        .collect()
}

#[test]
fn many_times_do_not_evict_a_measured_energy() {
    let profile = Profile::in_memory();
    let energy = Measurement {
        time: Time::from_nanoseconds(9),
        energy_uj: Some(70),
    };
    profile.record(key("gpu:0"), false, &[energy]).unwrap();
    for _ in 0..3 {
        profile
            .record(key("gpu:0"), false, &times(std::iter::repeat_n(9, 101)))
            .unwrap();
    }
    let summary = profile.part(key("gpu:0")).unwrap().unwrap();
    assert_eq!((summary.energy_uj, summary.samples), (Some(70), KEPT + 1));
}

#[test]
fn percentiles_come_from_single_measurements() {
    let profile = Profile::in_memory();
    assert_eq!(profile.part(key("cpu:0")).unwrap(), None);
    profile
        .record(key("cpu:0"), false, &times((1..=11).rev()))
        .unwrap();
    let summary = profile.part(key("cpu:0")).unwrap().unwrap();
    assert_eq!(
        (summary.samples, summary.p10, summary.p50, summary.p90),
        (
            11,
            Time::from_nanoseconds(2),
            Time::from_nanoseconds(6),
            Time::from_nanoseconds(10)
        )
    );
    // of fewer than a hundred, what is rarely exceeded is the longest
    assert_eq!(summary.p99, Time::from_nanoseconds(11));
    assert_eq!(profile.part(key("cpu:1")).unwrap(), None);
}

#[test]
fn only_the_newest_measurements_are_kept() {
    let profile = Profile::in_memory();
    profile
        .record(key("cpu:0"), false, &times(std::iter::repeat_n(5, 300)))
        .unwrap();
    profile
        .record(key("cpu:0"), false, &times(std::iter::repeat_n(9, 101)))
        .unwrap();
    let summary = profile.part(key("cpu:0")).unwrap().unwrap();
    assert_eq!((summary.samples, summary.p10), (KEPT, Time::from_nanoseconds(9)));
}

#[test]
fn reopened_profile_has_stored_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.profile");
    {
        let profile = Profile::open(&path).unwrap();
        profile.record(key("npu:0"), true, &times([4])).unwrap();
        profile.set_plugin_value("cpu", "tile", b"12x32").unwrap();
    }
    let profile = Profile::open(&path).unwrap();
    assert!(profile.part(key("npu:0")).unwrap().unwrap().emulated);
    assert_eq!(
        profile.plugin_value("cpu", "tile").unwrap().as_deref(),
        Some(&b"12x32"[..])
    );
    assert_eq!(profile.plugin_value("gpu", "tile").unwrap(), None);
    profile.set_plugin_value("cpu", "tile", b"").unwrap();
    assert_eq!(profile.plugin_value("cpu", "tile").unwrap(), None);
}

#[test]
fn copy_has_rows_of_the_write_ahead_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.profile");
    let writer = Profile::open(&path).unwrap();
    writer.record(key("npu:0"), false, &times([4])).unwrap();
    // the writer has it open still: its rows are not in the file itself
    let alone = folder.path().join("alone.profile");
    std::fs::copy(&path, &alone).unwrap();
    let has_row = |path: &Path| match Profile::open(path).map(|profile| profile.part(key("npu:0"))) {
        Ok(Ok(part)) => part.is_some(),
        _ => false,
    };
    assert!(!has_row(&alone));
    let copy = folder.path().join("copy.profile");
    Profile::open_read_only(&path).unwrap().copy_to(&copy).unwrap();
    assert!(has_row(&copy));
    assert_eq!(
        Profile::open(&copy).unwrap().export().unwrap(),
        writer.export().unwrap()
    );
    // another file is not overwritten, and memory has none
    assert!(writer.copy_to(&copy).is_err());
    assert!(
        Profile::in_memory()
            .copy_to(folder.path().join("memory"))
            .is_err()
    );
}

#[test]
fn foreign_corrupt_and_newer_files_stay_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(
        &text,
        "not a database at all, but longer than a page header needs to be".repeat(40),
    )
    .unwrap();
    let foreign = folder.path().join("foreign.sqlite");
    Connection::open(&foreign)
        .unwrap()
        .execute_batch("CREATE TABLE t (a)")
        .unwrap();
    let newer = folder.path().join("newer.profile");
    drop(Profile::open(&newer).unwrap());
    let connection = Connection::open(&newer).unwrap();
    connection
        .pragma_update(None, "user_version", tables::VERSION + 1)
        .unwrap();
    connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
    drop(connection);
    for (path, words) in [
        (&text, &"not a database".to_owned()),
        (&foreign, &"another program".to_owned()),
        (&newer, &format!("version {}", tables::VERSION + 1)),
    ] {
        let before = std::fs::read(path).unwrap();
        let error = Profile::open(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadProfile);
        let message = error.to_string();
        assert!(
            message.contains(words.as_str()) && message.contains("unchanged"),
            "{message}"
        );
        assert_eq!(
            std::fs::read(path).unwrap(),
            before,
            "{} was changed",
            path.display()
        );
    }
}

#[test]
fn two_writers_lose_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.profile");
    drop(Profile::open(&path).unwrap());
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let path = &path;
            scope.spawn(move || {
                let profile = Profile::open(path).unwrap();
                for step in 0..20 {
                    profile
                        .record(key("cpu:0"), false, &times([writer * 100 + step]))
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(
        Profile::open(&path)
            .unwrap()
            .part(key("cpu:0"))
            .unwrap()
            .unwrap()
            .samples,
        40
    );
}

#[test]
fn refusals_are_remembered_by_device_until_they_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.profile");
    let run = RefusedRun {
        fingerprint: FINGERPRINT,
        nodes: 3,
        words: "no (vendor code 6001)".into(),
    };
    {
        let profile = Profile::open(&path).unwrap();
        profile.refuse("npu:0|build 1", &run).unwrap();
        profile.refuse("npu:0|build 1", &run).unwrap();
    }
    let profile = Profile::open(&path).unwrap();
    assert_eq!(
        profile.refusals("npu:0|build 1").unwrap(),
        std::slice::from_ref(&run)
    );
    assert_eq!(profile.refusals("npu:0|build 2").unwrap(), []);
    assert_eq!(profile.forget_refusals(Some("npu:0|build 2")).unwrap(), 0);
    assert_eq!(profile.forget_refusals(None).unwrap(), 1);
    assert_eq!(profile.refusals("npu:0|build 1").unwrap(), []);
}

/// A file of an older version with what that version could hold.
fn old_file(path: &Path, version: i32) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(tables::SCHEMA).unwrap();
    if version >= 2 {
        connection.execute_batch(tables::SINCE_2).unwrap();
        connection
            .execute(
                "INSERT INTO refusal VALUES ('npu:0', ?1, 3, 'no')",
                [&FINGERPRINT[..]],
            )
            .unwrap();
    }
    if version >= 3 {
        connection.execute_batch(tables::SINCE_3).unwrap();
        connection
            .execute_batch("INSERT INTO link VALUES ('cpu:0', 'npu:0', 1024, 700)")
            .unwrap();
    }
    connection
        .execute(
            "INSERT INTO part (device, fingerprint, operating_point, emulated) VALUES ('cpu:0', ?1, '', 0)",
            [&FINGERPRINT[..]],
        )
        .unwrap();
    connection
        .execute_batch(
            "INSERT INTO measurement (part, time_ns, energy_uj) VALUES (1, 30, 5), (1, 10, NULL), (1, 20, 7);
             INSERT INTO plugin_value VALUES ('cpu', 'tile', x'01');",
        )
        .unwrap();
    if version >= 4 {
        connection.execute_batch(tables::SINCE_4).unwrap();
        connection
            .execute(
                "INSERT INTO batch VALUES (1, 1, 0, '0.1.0', 'mhz=2400', '', ?1)",
                [&FINGERPRINT[..]],
            )
            .unwrap();
        let connect = "UPDATE measurement SET batch = 1";
        connection.execute_batch(connect).unwrap();
    }
    if version >= 5 {
        connection.execute_batch(tables::SINCE_5).unwrap();
    }
    if version >= 6 {
        connection.execute_batch(tables::SINCE_6).unwrap();
    }
    connection
        .pragma_update(None, "application_id", tables::APPLICATION_ID)
        .unwrap();
    connection.pragma_update(None, "user_version", version).unwrap();
}

#[test]
fn older_files_are_migrated_without_loss() {
    for version in 1..tables::VERSION {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device.profile");
        old_file(&path, version);
        for _ in 0..2 {
            let profile = Profile::open(&path).unwrap();
            assert_eq!(profile.plugin_value("cpu", "tile").unwrap(), Some(vec![1]));
            let summary = profile.part(key("cpu:0")).unwrap().unwrap();
            assert_eq!(
                (summary.samples, summary.p50.nanoseconds(), summary.newest_us),
                (3, 20, 0)
            );
            assert_eq!(
                profile.refusals("npu:0").unwrap().len(),
                usize::from(version >= 2)
            );
            assert_eq!(
                profile.link("cpu:0", "npu:0").unwrap().len(),
                usize::from(version >= 3)
            );
            let file = profile.export().unwrap();
            let batch = &file.parts[0].batches[0];
            let said = match version {
                ..4 => ("before version 4", ""),
                _ => ("0.1.0", "mhz=2400"),
            };
            assert_eq!((&*batch.build, &*batch.conditions), said);
            assert_eq!((&*batch.sensor, batch.energy_interval_uj), ("", None));
            assert_eq!(batch.times_ns, [30, 10, 20]);
            assert_eq!(batch.energies_uj, [Some(5), None, Some(7)]);
        }
    }
}

#[test]
fn bundle_lookup_uses_the_nearest_chip_with_equal_settings() {
    use crate::bundle::{Bundle, Content, Manifest, SecretKey, Trust};
    let identity = |chip: &str, driver: &str, settings: &str| {
        format!("npu:0|0.1.0|npu-1|Maker|Phone|{chip}|{driver}|{settings}")
    };
    let asked = identity("B", "2", "threads=2");
    let key = PartKey {
        device: &asked,
        ..key("")
    };
    let measured = Profile::in_memory();
    let record = |device: String, emulated, ns| {
        let key = PartKey {
            device: &device,
            ..key
        };
        measured.record(key, emulated, &times([ns, ns, ns])).unwrap();
    };
    record(identity("A", "1", "threads=2"), false, 50);
    record(identity("C", "2", "threads=2"), false, 70);
    record(identity("C", "2", "threads=1"), false, 10);
    record(identity("D", "2", "threads=2"), true, 20);
    let content = Content {
        profile: measured.export().unwrap(),
        plans: Vec::new(),
    };
    let secret = SecretKey::from_bytes(&[5; 32]);
    let bytes = Bundle::sign(&content, &Manifest::new("A", 1), &secret).unwrap();
    let profile = Profile::in_memory();
    // what was only imported is of other settings, and named as such
    profile.import(&content.profile, "a file").unwrap();
    assert_eq!(profile.other_device(key, false).unwrap(), None);
    let profile = Profile::in_memory();
    profile
        .load_bundle(&bytes, &Trust::new().key(secret.public()))
        .unwrap();
    let found = |emulated| {
        profile
            .other_device(key, emulated)
            .unwrap()
            .map(|one| one.p50.nanoseconds())
    };
    assert_eq!(found(false), Some(70), "the same driver is nearer");
    assert_eq!(found(true), Some(20));
}

/// A profile with something in every table.
fn filled(path: &Path) -> Profile {
    let profile = Profile::open(path).unwrap();
    let conditions = Conditions {
        governor: Some("performance".into()),
        ..Conditions::default()
    };
    profile
        .record_under(key("cpu:0"), false, &times([4, 2, 9]), &conditions)
        .unwrap();
    profile.record(key("npu:0"), true, &times([1])).unwrap();
    profile.describe(&FINGERPRINT, "{}").unwrap();
    profile
        .record_link("a", "b", 1_000, LinkCost::of_time(Time::from_nanoseconds(500)))
        .unwrap();
    profile.set_plugin_value("cpu", "tile", b"12x32").unwrap();
    let run = RefusedRun {
        fingerprint: FINGERPRINT,
        nodes: 3,
        words: "no".into(),
    };
    profile.refuse("npu:0", &run).unwrap();
    profile
}

#[test]
fn export_import_round_trips_with_origin() {
    let folder = tempfile::tempdir().unwrap();
    let profile = filled(&folder.path().join("a.profile"));
    let file = profile.export().unwrap();
    let text = serde_json::to_string(&file).unwrap();
    let file = ProfileFile::from_json(&text).unwrap();
    let other = Profile::open(folder.path().join("b.profile")).unwrap();
    let merged = other.import(&file, "a.profile").unwrap();
    assert_eq!((merged.batches, merged.measurements, merged.known), (2, 4, 0));
    assert_eq!((merged.links, merged.refusals, merged.plugin_values), (1, 1, 1));
    let mut back = other.export().unwrap();
    for batch in back.parts.iter_mut().flat_map(|part| &mut part.batches) {
        assert_eq!(batch.source, "a.profile");
        batch.source.clear();
    }
    assert_eq!(back.links[0].source, "a.profile");
    back.links[0].source.clear();
    assert_eq!(back, file);
    // a second import adds nothing, and a third file still names the source of the measurements
    let merged = other.import(&file, "again").unwrap();
    assert_eq!((merged.batches, merged.measurements, merged.known), (0, 0, 2));
    let third = Profile::in_memory();
    third.import(&other.export().unwrap(), "b.profile").unwrap();
    assert_eq!(third.export().unwrap().parts[0].batches[0].source, "a.profile");
}

#[test]
fn energy_names_its_sensor_and_interval() {
    let profile = Profile::in_memory();
    let energy = |uj| Measurement {
        time: Time::from_nanoseconds(9),
        energy_uj: Some(uj),
    };
    profile.record(key("npu:0"), false, &[energy(40)]).unwrap();
    profile
        .record_energy(key("gpu:0"), false, energy(70), "energy of plugin gpu", [65, 75])
        .unwrap();
    let file = profile.export().unwrap();
    let text = serde_json::to_string(&file).unwrap();
    let other = Profile::in_memory();
    other
        .import(&ProfileFile::from_json(&text).unwrap(), "a.json")
        .unwrap();
    let energies: Vec<_> = other
        .parts()
        .unwrap()
        .into_iter()
        .map(|part| part.energy.unwrap())
        .collect();
    let said: Vec<_> = energies
        .iter()
        .map(|energy| (energy.energy_uj, &*energy.sensor, energy.interval_uj))
        .collect();
    assert_eq!(
        said,
        [(70, "energy of plugin gpu", Some([65, 75])), (40, "plugin", None)]
    );
    // a file of the first version says nothing of sensors
    let old = text.replace("\"version\":2", "\"version\":1");
    let old = old.replace(",\"sensor\":\"plugin\",\"energy_interval_uj\":null", "");
    assert_eq!(
        ProfileFile::from_json(&old).unwrap().parts[1].batches[0].sensor,
        ""
    );
}

#[test]
fn merge_keeps_the_newest_rows() {
    let (old, new) = (Profile::in_memory(), Profile::in_memory());
    old.record(key("cpu:0"), false, &times(std::iter::repeat_n(5, 60)))
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1));
    new.record(key("cpu:0"), false, &times(std::iter::repeat_n(9, 90)))
        .unwrap();
    new.import(&old.export().unwrap(), "old").unwrap();
    let file = new.export().unwrap();
    let lengths: Vec<usize> = file.parts[0]
        .batches
        .iter()
        .map(|batch| batch.times_ns.len())
        .collect();
    assert_eq!(lengths, [11, 90]);
}

#[test]
fn contradictory_records_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let profile = filled(&folder.path().join("a.profile"));
    let good = profile.export().unwrap();
    let change = |change: &dyn Fn(&mut ProfileFile)| {
        let mut file = good.clone();
        change(&mut file);
        file
    };
    let bad = [
        change(&|file| file.version = crate::record::VERSION + 1),
        change(&|file| file.format = "other".into()),
        change(&|file| file.parts[0].fingerprint.truncate(62)),
        change(&|file| file.parts[0].batches[0].digest = "é".repeat(32)),
        change(&|file| file.parts[0].batches[0].times_ns.clear()),
        change(&|file| file.parts[0].batches[0].energies_uj = vec![Some(1)]),
        change(&|file| file.plugin_values[0].value = "1".into()),
    ];
    for file in bad {
        let error = profile.import(&file, "bad").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadProfile);
        let text = serde_json::to_string(&file).unwrap();
        assert!(ProfileFile::from_json(&text).is_err());
        assert_eq!(profile.export().unwrap(), good);
    }
    assert!(ProfileFile::from_json("{}").is_err());
}

#[test]
fn rows_are_kept_in_memory_while_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.profile");
    let profile = Profile::open(&path).unwrap();
    profile.record(key("cpu:0"), false, &times([1])).unwrap();
    let pages = |most: u32| {
        let state = profile.lock();
        let connection = state.store.connection();
        connection.pragma_update(None, "max_page_count", most).unwrap();
    };
    pages(1); // SQLite takes the present size for it: nothing more fits
    let fingerprints: Vec<[u8; 32]> = (10..210).map(|index| [index; 32]).collect();
    for fingerprint in &fingerprints {
        let key = PartKey {
            fingerprint,
            ..key("cpu:0")
        };
        profile.record(key, false, &times([2, 3])).unwrap();
    }
    let words = profile.trouble().expect("the file was too small");
    assert!(words.contains("full"), "{words}");
    let known = |profile: &Profile| {
        let found = fingerprints.iter().filter(|fingerprint| {
            let key = PartKey {
                fingerprint,
                ..key("cpu:0")
            };
            profile
                .part(key)
                .unwrap()
                .is_some_and(|summary| summary.samples >= 2)
        });
        found.count()
    };
    assert_eq!(known(&profile), 200);
    assert!(known(&Profile::open_read_only(&path).unwrap()) < 200);
    assert_eq!(profile.export().unwrap().parts.len(), 201);
    pages(100_000);
    profile.record(key("cpu:0"), false, &times([1])).unwrap();
    assert_eq!(profile.trouble(), None);
    drop(profile);
    let profile = Profile::open(&path).unwrap();
    assert_eq!(
        (
            known(&profile),
            profile.part(key("cpu:0")).unwrap().unwrap().samples
        ),
        (200, 2)
    );
}

#[test]
fn read_only_file_is_read_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.profile");
    drop(filled(&path));
    let before = std::fs::read(&path).unwrap();
    let profile = Profile::open_read_only(&path).unwrap();
    assert_eq!(profile.part(key("cpu:0")).unwrap().unwrap().samples, 3);
    assert_eq!(profile.trouble(), None);
    profile.record(key("cpu:0"), false, &times([7])).unwrap();
    profile
        .record_link("a", "b", 1_000, LinkCost::of_time(Time::from_nanoseconds(900)))
        .unwrap();
    assert_eq!(profile.part(key("cpu:0")).unwrap().unwrap().samples, 4);
    assert_eq!(
        profile.link("a", "b").unwrap(),
        [(1_000, LinkCost::of_time(Time::from_nanoseconds(900)))]
    );
    assert!(
        profile.trouble().unwrap().contains("readonly"),
        "{:?}",
        profile.trouble()
    );
    drop(profile);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    old_file(&folder.path().join("old.profile"), 3);
    let error = Profile::open_read_only(folder.path().join("old.profile")).unwrap_err();
    assert!(error.to_string().contains("version 3"), "{error}");
}

#[test]
fn torn_pages_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.profile");
    let fingerprints: Vec<[u8; 32]> = (0..100).map(|index| [index; 32]).collect();
    let of = |fingerprint| PartKey {
        fingerprint,
        ..key("cpu:0")
    };
    {
        let profile = Profile::open(&path).unwrap();
        for fingerprint in &fingerprints {
            profile.record(of(fingerprint), false, &times([5; 7])).unwrap();
        }
    }
    let mut bytes = std::fs::read(&path).unwrap();
    let length = bytes.len();
    bytes[4096..].fill(0xa5);
    std::fs::write(&path, &bytes).unwrap();
    assert!(length > 4 * 4096);
    match Profile::open(&path) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::BadProfile),
        Ok(profile) => {
            for fingerprint in &fingerprints {
                assert_eq!(
                    profile.part(of(fingerprint)).unwrap_err().kind(),
                    ErrorKind::BadProfile
                );
            }
            assert_eq!(profile.or_nothing(profile.part(of(&fingerprints[0]))), None);
            assert!(profile.trouble().is_some());
        }
    }
}

#[test]
fn differences_exceed_both_intervals() {
    let made = |build: &str, time: u64| {
        let profile = Profile::in_memory();
        let device = format!("cpu:0|0.1|{build}|AMD|EPYC||driver");
        let of = |fingerprint| PartKey {
            device: &device,
            fingerprint,
            operating_point: "threads=1",
        };
        profile
            .record(of(&[1; 32]), false, &times((0..25).map(|run| time + run)))
            .unwrap();
        // as much slower, and as much apart
        let wide = (0..25).map(|run| time + run * 20);
        profile.record(of(&[2; 32]), false, &times(wide)).unwrap();
        profile.record(of(&[3; 32]), false, &times([time; 5])).unwrap();
        profile
            .record(of(&[time as u8; 32]), false, &times([time; 9]))
            .unwrap();
        profile.export().unwrap()
    };
    let (old, new) = (made("build 1", 1_000), made("build 2", 1_100));
    let diff = ProfileDiff::of(&old, &new);
    assert_eq!(
        (diff.slower.len(), diff.faster.len(), diff.same, diff.unsure),
        (1, 0, 1, 1)
    );
    assert_eq!((diff.removed, diff.added), (1, 1));
    let change = &diff.slower[0];
    assert_eq!(
        (change.before_ns, change.now_ns, change.longer_ppm),
        (1_012, 1_112, 98_814)
    );
    assert_eq!(change.device, "cpu:0|AMD|EPYC||driver");
    let back = ProfileDiff::of(&new, &old);
    assert_eq!((back.slower.len(), back.faster.len()), (0, 1));
    assert_eq!(ProfileDiff::of(&old, &old).slower, []);
}
