//! Tests of the profile database: what is stored, and what is refused and left alone.

use super::*;

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
            time: Nanos::from_nanoseconds(ns),
            energy_uj: None,
        })
        .collect()
}

#[test]
fn percentiles_come_from_single_measurements() {
    let profile = Profile::in_memory().unwrap();
    assert_eq!(profile.part(key("cpu:0")).unwrap(), None);
    profile
        .record(key("cpu:0"), false, &times((1..=11).rev()))
        .unwrap();
    let summary = profile.part(key("cpu:0")).unwrap().unwrap();
    assert_eq!(
        (summary.samples, summary.p10, summary.p50, summary.p90),
        (
            11,
            Nanos::from_nanoseconds(2),
            Nanos::from_nanoseconds(6),
            Nanos::from_nanoseconds(10)
        )
    );
    assert_eq!(profile.part(key("cpu:1")).unwrap(), None);
}

#[test]
fn only_the_newest_measurements_are_kept() {
    let profile = Profile::in_memory().unwrap();
    profile
        .record(key("cpu:0"), false, &times(std::iter::repeat_n(5, 300)))
        .unwrap();
    profile
        .record(key("cpu:0"), false, &times(std::iter::repeat_n(9, 101)))
        .unwrap();
    let summary = profile.part(key("cpu:0")).unwrap().unwrap();
    assert_eq!((summary.samples, summary.p10), (KEPT, Nanos::from_nanoseconds(9)));
}

#[test]
fn a_second_opening_finds_what_the_first_stored() {
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
fn foreign_corrupt_and_newer_files_are_refused_and_unchanged() {
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
        .pragma_update(None, "user_version", VERSION + 1)
        .unwrap();
    connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
    drop(connection);
    for (path, words) in [
        (&text, &"not a database".to_owned()),
        (&foreign, &"another program".to_owned()),
        (&newer, &format!("version {}", VERSION + 1)),
    ] {
        let before = std::fs::read(path).unwrap();
        let error = Profile::open(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadProfile);
        let message = error.to_string();
        assert!(
            message.contains(words.as_str()) && message.contains("left as it is"),
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
fn two_writers_of_one_file_lose_nothing() {
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

#[test]
fn a_file_of_the_first_version_is_brought_up_and_keeps_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.profile");
    {
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        connection
            .pragma_update(None, "application_id", APPLICATION_ID)
            .unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        connection
            .execute_batch("INSERT INTO plugin_value VALUES ('cpu', 'tile', x'01')")
            .unwrap();
    }
    for _ in 0..2 {
        let profile = Profile::open(&path).unwrap();
        assert_eq!(profile.plugin_value("cpu", "tile").unwrap(), Some(vec![1]));
        assert_eq!(profile.refusals("npu:0").unwrap(), []);
    }
}
