//! Memory compared with SQLite: the same calls give the same rows and the same answers.

use proptest::prelude::*;

use super::*;
use crate::bundle::{Content, Manifest, SecretKey, Trust};
use crate::rows::of_bundle;
use crate::sqlite::File;

/// A call that changes rows.
#[derive(Debug, Clone)]
enum Call {
    Add {
        part: u8,
        emulated: bool,
        recorded_us: u64,
        clock: u8,
        digest: u8,
        source: u8,
        times: Vec<(u64, Option<u64>)>,
    },
    Describe(u8, u8),
    Refuse(u8, u8, u8),
    Forget(Option<u8>),
    Link {
        ends: (u8, u8),
        bytes: u64,
        time_ns: u64,
        energy_nj: Option<u64>,
        recorded_us: u64,
        source: u8,
    },
    Value(u8, Vec<u8>),
    /// Adds what another profile holds after these calls.
    Write(Vec<Call>),
    /// Loads what another profile holds as a bundle of this family and version.
    Bundle(u8, u64, Vec<Call>),
}

fn device(of: u8) -> String {
    format!("npu:{of}|0.1.0|build")
}

fn source(of: u8) -> &'static str {
    [
        "",
        "a.json",
        "bundle \"A\" version 1",
        "bundle \"B\" version 7: a.json",
    ][usize::from(of % 4)]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..6u64, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn simple() -> impl Strategy<Value = Call> {
    let times = prop::collection::vec((number(), prop::option::weighted(0.1, number())), 1..90);
    // often the same one, of which more are measured than are kept
    let clock = prop_oneof![6 => Just(1u8), 1 => 0..12u8];
    let add = (0..3u8, any::<bool>(), 0..5u64, clock, 0..200u8, 0..4u8, times);
    let link = (
        (0..2u8, Just(0u8)),
        prop_oneof![4 => Just(1u64), 1 => number()],
        number(),
        prop::option::of(number()),
        0..4u64,
        0..4u8,
    );
    prop_oneof![
        8 => add.prop_map(|(part, emulated, recorded_us, clock, digest, source, times)| Call::Add {
            part, emulated, recorded_us, clock, digest, source, times,
        }),
        1 => (0..3u8, 0..3u8).prop_map(|(part, content)| Call::Describe(part, content)),
        1 => (0..2u8, 0..3u8, 0..3u8).prop_map(|(device, run, words)| Call::Refuse(device, run, words)),
        1 => prop::option::of(0..2u8).prop_map(Call::Forget),
        3 => link.prop_map(|(ends, bytes, time_ns, energy_nj, recorded_us, source)| Call::Link {
            ends, bytes, time_ns, energy_nj, recorded_us, source,
        }),
        1 => (0..3u8, prop::collection::vec(any::<u8>(), 0..3)).prop_map(|(key, value)| Call::Value(key, value)),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let some = || prop::collection::vec(simple(), 1..6);
    prop_oneof![
        8 => simple(),
        1 => some().prop_map(Call::Write),
        1 => (0..2u8, 1..4u64, some()).prop_map(|(family, version, calls)| Call::Bundle(family, version, calls)),
    ]
}

fn key<'a>(device: &'a str, fingerprint: &'a [u8; 32], part: u8) -> PartKey<'a> {
    PartKey {
        device,
        fingerprint,
        operating_point: if part == 2 { "threads=1" } else { "" },
    }
}

/// Makes a call; its result as text.
fn make(call: &Call, rows: &mut dyn Rows) -> String {
    match call {
        Call::Add {
            part,
            emulated,
            recorded_us,
            clock,
            digest,
            source: from,
            times,
        } => {
            let conditions = match clock {
                0 => String::new(),
                clock => format!("mhz={}", u32::from(*clock) * 200),
            };
            let measurements: Vec<Measurement> = times
                .iter()
                .map(|&(ns, energy_uj)| Measurement {
                    time: Time::from_nanoseconds(ns.min(u64::MAX / 1_000_000)),
                    energy_uj,
                })
                .collect();
            let stated = Stated {
                recorded_us: *recorded_us,
                build: "0.1.0",
                conditions: &conditions,
                source: source(*from),
                digest: &[*digest; 32],
                sensor: "plugin",
                energy_interval_uj: (*digest == 1).then_some([3, u64::MAX]),
            };
            let device = device(part % 2);
            rows.add(
                key(&device, &[*part; 32], *part),
                *emulated,
                &stated,
                &measurements,
            )
            .unwrap();
            String::new()
        }
        Call::Describe(part, content) => {
            rows.describe(&[*part; 32], &content.to_string()).unwrap();
            String::new()
        }
        Call::Refuse(of, run, words) => {
            let run = RefusedRun {
                fingerprint: [*run; 32],
                nodes: usize::from(*words),
                words: words.to_string(),
            };
            rows.refuse(&device(*of), &run).unwrap();
            String::new()
        }
        Call::Forget(of) => {
            let of = of.map(device);
            rows.forget_refusals(of.as_deref()).unwrap().to_string()
        }
        Call::Link {
            ends,
            bytes,
            time_ns,
            energy_nj,
            recorded_us,
            source: from,
        } => {
            let link = LinkRecord {
                from: device(ends.0),
                to: device(ends.1),
                bytes: *bytes,
                time_ns: *time_ns,
                energy_nj: *energy_nj,
                recorded_us: *recorded_us,
                build: "0.1.0".to_owned(),
                source: source(*from).to_owned(),
            };
            rows.put_link(&link).unwrap().to_string()
        }
        Call::Value(at, value) => {
            rows.set_plugin_value("cpu", &at.to_string(), value).unwrap();
            String::new()
        }
        Call::Write(calls) => format!("{:?}", rows.write(&records(calls), "b.json").unwrap()),
        Call::Bundle(family, version, calls) => {
            let content = Content {
                profile: records(calls),
                plans: Vec::new(),
            };
            let family = ["A", "B"][usize::from(*family)];
            let secret = SecretKey::from_bytes(&[5; 32]);
            let bytes = Bundle::sign(&content, &Manifest::new(family, *version), &secret).unwrap();
            let trust = Trust::new().key(secret.public());
            let bundle = Bundle::open(&bytes, &trust).unwrap();
            assert!(of_bundle(&bundle).0.plugin_values.is_empty());
            let mut check = |known: Vec<Loaded>, digest: &[u8; 32]| {
                let knowing = known.into_iter().fold(trust.clone(), Trust::loaded);
                knowing.check_manifest(&bundle.manifest, digest)
            };
            let written = rows.write_bundle(&bundle, &mut check).unwrap();
            format!("{:?}", written.map_err(|error| error.kind()))
        }
    }
}

/// What a profile holds after these calls.
fn records(calls: &[Call]) -> ProfileFile {
    let mut rows = Memory::default();
    for call in calls {
        make(call, &mut rows);
    }
    rows.read().unwrap()
}

/// The results of all queries as text.
fn answers(rows: &dyn Rows) -> String {
    let mut all = String::new();
    let mut say = |answer: &dyn std::fmt::Debug| all.push_str(&format!("{answer:?}\n"));
    say(&rows.read().unwrap());
    say(&rows.has_batches().unwrap());
    for part in 0..3 {
        let mut devices = rows.devices_of(&[part; 32]).unwrap();
        devices.sort();
        say(&devices);
        for emulated in [false, true] {
            say(&rows.devices_of_bundles(&[part; 32], "", emulated).unwrap());
        }
        let (batches, emulated) = rows.batches(key(&device(part % 2), &[part; 32], part)).unwrap();
        say(&(batches, emulated));
        say(&rows.plugin_value("cpu", &part.to_string()).unwrap());
    }
    for one in 0..2 {
        say(&rows.refusals(&device(one)).unwrap());
        for other in 0..2 {
            say(&rows.links(&device(one), &device(other)).unwrap());
        }
    }
    say(&rows.loaded_bundles().unwrap());
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn memory_and_file_profiles_agree(calls in prop::collection::vec(call(), 1..40)) {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::open(&folder.path().join("device.profile")).unwrap();
        let mut memory = Memory::default();
        for call in &calls {
            prop_assert_eq!(make(call, &mut memory), make(call, &mut file), "{:?}", call);
        }
        prop_assert_eq!(answers(&memory), answers(&file));
    }
}
