//! Tests of bundles: round trips, refusals by kind, staged rollouts.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::{BatchRecord, LinkCost, LinkRecord, PartKey, PartRecord, Profile};

fn key() -> SecretKey {
    SecretKey::from_bytes(&[42; 32])
}

fn trust() -> Trust {
    Trust::new().key(key().public())
}

fn content() -> Content {
    let mut content = Content::default();
    content.profile.parts.push(PartRecord {
        device: "npu:0|0.1.0|npu-1|Maker|Chip|SM8650|driver 3|".into(),
        fingerprint: "0a".repeat(32),
        operating_point: String::new(),
        emulated: false,
        batches: vec![BatchRecord {
            recorded_us: 5,
            build: "0.1.0".into(),
            conditions: String::new(),
            source: "nightly-7 desk".into(),
            digest: "0b".repeat(32),
            times_ns: vec![1_000, 1_010, 1_020],
            energies_uj: Vec::new(),
            sensor: String::new(),
            energy_interval_uj: None,
        }],
    });
    content
}

fn signed(version: u64) -> Vec<u8> {
    Bundle::sign(&content(), &Manifest::new("SM8650", version), &key()).unwrap()
}

fn refusal(bytes: &[u8], trust: &Trust) -> BundleErrorKind {
    Bundle::open(bytes, trust).unwrap_err().kind()
}

/// What was loaded, as an app remembers it.
fn loaded(bytes: &[u8]) -> Loaded {
    let bundle = Bundle::open(bytes, &trust()).unwrap();
    Loaded {
        family: bundle.manifest.family.clone(),
        version: bundle.manifest.version,
        digest: crate::unhex(&bundle.manifest.content_blake3)
            .unwrap()
            .try_into()
            .unwrap(),
    }
}

#[test]
fn signed_bundle_round_trips() {
    let bundle = Bundle::open(&signed(3), &trust()).unwrap();
    assert_eq!(bundle.content, content());
    assert_eq!(
        (bundle.manifest.family.as_str(), bundle.manifest.version),
        ("SM8650", 3)
    );
    assert_eq!(bundle.signer, key().public());
    // the same content gives the same file
    assert_eq!(signed(3), signed(3));
}

#[test]
fn signature_matches_the_standard_vector() {
    // RFC 8032, section 7.1, test 2
    let secret: SecretKey = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"
        .parse()
        .unwrap();
    assert_eq!(
        secret.public().to_string(),
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    );
    assert_eq!(
        crate::hex(&secret.sign(&[0x72])),
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
         085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    );
    assert!(!format!("{secret:?}").contains("4ccd089b"));
}

#[test]
fn another_key_an_older_version_and_a_second_of_the_same_are_refused() {
    let (old, new) = (signed(3), signed(4));
    assert_eq!(refusal(&new, &Trust::new()), BundleErrorKind::UntrustedKey);
    let other = SecretKey::from_bytes(&[1; 32]).public();
    assert_eq!(
        refusal(&new, &Trust::new().key(other)),
        BundleErrorKind::UntrustedKey
    );
    assert!(Bundle::open(&new, &Trust::new().key(other).key(key().public())).is_ok());

    let since = trust().loaded(loaded(&new));
    let error = Bundle::open(&old, &since).unwrap_err();
    assert_eq!(error.kind(), BundleErrorKind::Downgraded);
    assert!(
        error.to_string().contains("version 3") && error.to_string().contains("version 4"),
        "{error}"
    );
    assert!(Bundle::open(&new, &since).is_ok(), "the same again");
    assert!(Bundle::open(&signed(5), &since).is_ok());
    assert!(Bundle::open(&old, &since.allow_rollback()).is_ok());

    let second = Bundle::sign(&Content::default(), &Manifest::new("SM8650", 4), &key()).unwrap();
    let since = trust().loaded(loaded(&new));
    assert_eq!(refusal(&second, &since), BundleErrorKind::Replaced);
    // going back does not mean that a version may be two
    assert_eq!(
        refusal(&second, &since.clone().allow_rollback()),
        BundleErrorKind::Replaced
    );
    // another family has versions of its own
    let other = Bundle::sign(&content(), &Manifest::new("RK3588", 1), &key()).unwrap();
    assert!(Bundle::open(&other, &since).is_ok());
    assert_eq!(
        refusal(&other, &since.family("SM8650")),
        BundleErrorKind::OtherFamily
    );
}

#[test]
fn contradictory_content_is_not_signed() {
    for manifest in [
        Manifest::new(" ", 1),
        Manifest::new("SM8650", 0),
        Manifest::new("SM8650", u64::MAX),
        Manifest {
            share_permille: 1_001,
            ..Manifest::new("SM8650", 1)
        },
    ] {
        let error = Bundle::sign(&content(), &manifest, &key()).unwrap_err();
        assert_eq!(error.kind(), BundleErrorKind::BadContents, "{manifest:?}");
    }
    let mut torn = content();
    torn.profile.parts[0].fingerprint = "0a".into();
    assert!(Bundle::sign(&torn, &Manifest::new("SM8650", 1), &key()).is_err());
}

#[test]
fn staged_rollout_is_stable() {
    let of = |share_permille, version| Manifest {
        share_permille,
        ..Manifest::new("SM8650", version)
    };
    let chosen = |manifest: &Manifest| -> BTreeSet<u32> {
        (0..10_000)
            .filter(|device| manifest.is_for(Some(&format!("device {device}"))))
            .collect()
    };
    let mut before = BTreeSet::new();
    for (version, share) in [(1, 0), (2, 10), (3, 100), (4, 500), (5, 1_000)] {
        let now = chosen(&of(share, version));
        let expected = share as usize * 10;
        // five deviations of so many throws
        let reach = 5.0 * (10_000.0 * 0.25_f64).sqrt();
        assert!(
            (now.len() as f64 - expected as f64).abs() < reach,
            "{share}: {}",
            now.len()
        );
        assert!(before.is_subset(&now), "{share}");
        before = now;
    }
    assert_eq!(before.len(), 10_000);
    // others are first of another family
    let other = Manifest {
        family: "RK3588".into(),
        ..of(100, 1)
    };
    assert_ne!(chosen(&of(100, 1)), chosen(&other));

    let bytes = Bundle::sign(&content(), &of(10, 2), &key()).unwrap();
    let names: Vec<String> = (0..1_000).map(|device| format!("device {device}")).collect();
    let first = names.iter().find(|name| of(10, 2).is_for(Some(name))).unwrap();
    let last = names.iter().find(|name| !of(10, 2).is_for(Some(name))).unwrap();
    assert!(Bundle::open(&bytes, &trust().installation(first)).is_ok());
    assert_eq!(
        refusal(&bytes, &trust().installation(last)),
        BundleErrorKind::NotYet
    );
    assert_eq!(refusal(&bytes, &trust()), BundleErrorKind::NotYet);
}

/// A way to make another file of a bundle.
#[derive(Debug, Clone)]
enum Mutation {
    /// A bit of a byte.
    Flip(prop::sample::Index, u8),
    /// Other bytes in a place.
    Overwrite(prop::sample::Index, Vec<u8>),
    /// The end is gone.
    Cut(prop::sample::Index),
    /// Bytes in the middle are gone.
    Remove(prop::sample::Index, usize),
    /// Bytes more.
    Insert(prop::sample::Index, Vec<u8>),
    /// An earlier file, as it was.
    Replay(u64),
    /// The content of one file between the manifest and the signature of another.
    Splice(u64),
    /// The same contents, signed by somebody else who names himself.
    Resign([u8; 32]),
    /// The same, and the trusted key's name put over his.
    Forge([u8; 32]),
}

fn mutations() -> impl Strategy<Value = Mutation> {
    let at = any::<prop::sample::Index>;
    let bytes = || prop::collection::vec(any::<u8>(), 1..40);
    prop_oneof![
        (at(), 0..8_u8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        (at(), bytes()).prop_map(|(at, bytes)| Mutation::Overwrite(at, bytes)),
        at().prop_map(Mutation::Cut),
        (at(), 1..100_usize).prop_map(|(at, count)| Mutation::Remove(at, count)),
        (at(), bytes()).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (1..8_u64).prop_map(Mutation::Replay),
        (1..8_u64).prop_map(Mutation::Splice),
        any::<[u8; 32]>().prop_map(Mutation::Resign),
        any::<[u8; 32]>().prop_map(Mutation::Forge),
    ]
}

/// The version that was loaded last.
const NEWEST: u64 = 8;

fn mutated(bytes: &[u8], mutation: &Mutation) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match mutation {
        Mutation::Flip(at, bit) => {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        Mutation::Overwrite(at, with) => {
            let at = at.index(bytes.len());
            let count = with.len().min(bytes.len() - at);
            bytes[at..at + count].copy_from_slice(&with[..count]);
        }
        Mutation::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Mutation::Remove(at, count) => {
            let at = at.index(bytes.len());
            bytes.drain(at..(at + count).min(bytes.len()));
        }
        Mutation::Insert(at, with) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, with.iter().copied());
        }
        Mutation::Replay(version) => bytes = signed(*version),
        Mutation::Splice(version) => {
            let older = signed(*version);
            let at = bytes.len() - SIGNATURE;
            bytes.truncate(at);
            bytes.extend(&older[older.len() - SIGNATURE..]);
        }
        Mutation::Resign(secret) | Mutation::Forge(secret) => {
            let other = SecretKey::from_bytes(secret);
            bytes = Bundle::sign(&content(), &Manifest::new("SM8650", NEWEST + 1), &other).unwrap();
            if let Mutation::Forge(_) = mutation {
                bytes[32..64].copy_from_slice(&key().public().to_bytes());
            }
        }
    }
    bytes
}

#[test]
fn a_thousand_mutated_bundles_are_refused_by_name_and_leave_nothing_behind() {
    let newest = signed(NEWEST);
    let profile = Profile::in_memory();
    profile.load_bundle(&newest, &trust()).unwrap();
    let before = profile.export().unwrap();
    assert_eq!(before.parts.len(), 1);
    let mut runner = TestRunner::new(Config {
        cases: 1_000,
        failure_persistence: None,
        ..Config::default()
    });
    let reasons = std::cell::RefCell::new(BTreeMap::new());
    runner
        .run(&mutations(), |mutation| {
            let bytes = mutated(&newest, &mutation);
            prop_assume!(bytes != newest);
            let error = match profile.load_bundle(&bytes, &trust()) {
                Ok(_) => return Err(TestCaseError::fail("it was loaded")),
                Err(error) => error,
            };
            prop_assert!(!error.to_string().is_empty());
            match mutation {
                Mutation::Replay(_) => prop_assert_eq!(error.kind(), BundleErrorKind::Downgraded),
                Mutation::Splice(_) | Mutation::Forge(_) => {
                    prop_assert_eq!(error.kind(), BundleErrorKind::BadSignature);
                }
                Mutation::Resign(_) => prop_assert_eq!(error.kind(), BundleErrorKind::UntrustedKey),
                Mutation::Cut(_) => prop_assert_eq!(error.kind(), BundleErrorKind::Truncated),
                _ => {}
            }
            *reasons
                .borrow_mut()
                .entry(format!("{:?}", error.kind()))
                .or_insert(0_u32) += 1;
            prop_assert_eq!(&profile.export().unwrap(), &before);
            Ok(())
        })
        .unwrap();
    let reasons = reasons.into_inner();
    assert_eq!(reasons.values().sum::<u32>(), 1_000);
    for reason in [
        "BadSignature",
        "Truncated",
        "UntrustedKey",
        "Downgraded",
        "NotABundle",
        "BadContents",
    ] {
        assert!(reasons.contains_key(reason), "{reason}: {reasons:?}");
    }
    assert!(profile.load_bundle(&newest, &trust()).is_ok());
}

#[test]
fn newer_bundle_replaces_older_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.profile");
    let profile = Profile::open(&path).unwrap();
    profile.load_bundle(&signed(3), &trust()).unwrap();
    let mut other = content();
    other.profile.parts[0].batches[0].times_ns = vec![2_000; 5];
    other.profile.parts[0].batches[0].digest = "0c".repeat(32);
    let newer = Bundle::sign(&other, &Manifest::new("SM8650", 4), &key()).unwrap();
    profile.load_bundle(&newer, &trust()).unwrap();
    let batches = |profile: &Profile| profile.export().unwrap().parts[0].batches.clone();
    let now = batches(&profile);
    assert_eq!(now.len(), 1);
    assert_eq!(now[0].times_ns, [2_000; 5]);
    assert_eq!(now[0].source, "bundle \"SM8650\" version 4: nightly-7 desk");
    drop(profile);

    // the next process knows what was loaded, and a bad version is taken back
    let profile = Profile::open(&path).unwrap();
    let error = profile.load_bundle(&signed(3), &trust()).unwrap_err();
    assert_eq!(error.kind(), BundleErrorKind::Downgraded);
    assert_eq!(batches(&profile), now);
    profile
        .load_bundle(&signed(3), &trust().allow_rollback())
        .unwrap();
    assert_eq!(
        batches(&profile)[0].times_ns,
        content().profile.parts[0].batches[0].times_ns
    );
    assert_eq!(profile.loaded_bundles().unwrap()[0].version, 3);
}

#[test]
fn local_measurements_precede_bundle_rows() {
    use polychip_partitioner::Time;
    let profile = Profile::in_memory();
    let device = content().profile.parts[0].device.clone();
    let own = PartKey {
        device: &device,
        fingerprint: &[10; 32],
        operating_point: "",
    };
    let times = |ns: u64, count: usize| -> Vec<crate::Measurement> {
        let one = crate::Measurement {
            time: Time::from_nanoseconds(ns),
            energy_uj: None,
        };
        vec![one; count]
    };
    profile.record(own, false, &times(700, 8)).unwrap();
    let ns = |ns| LinkCost::of_time(Time::from_nanoseconds(ns));
    profile.record_link("a", "b", 8, ns(5)).unwrap();
    // of a board whose clock is ahead
    let ahead = u64::MAX / 4;
    let mut brought = content();
    let batch = &mut brought.profile.parts[0].batches[0];
    (batch.recorded_us, batch.times_ns) = (ahead, vec![1_000; 101]);
    let link = |to: &str| LinkRecord {
        from: "a".into(),
        to: to.into(),
        bytes: 8,
        time_ns: 90,
        energy_nj: Some(3),
        recorded_us: ahead,
        build: "0.1.0".into(),
        source: String::new(),
    };
    brought.profile.links = vec![link("b"), link("c")];
    let bytes = Bundle::sign(&brought, &Manifest::new("SM8650", 1), &key()).unwrap();
    profile.load_bundle(&bytes, &trust()).unwrap();
    let mine = |profile: &Profile| {
        let parts = profile.export().unwrap().parts;
        let batches = parts.into_iter().flat_map(|part| part.batches);
        let own = batches.filter(|batch| batch.source.is_empty());
        own.map(|batch| batch.times_ns.len()).sum::<usize>()
    };
    assert_eq!(mine(&profile), 8);
    assert_eq!(profile.link("a", "b").unwrap(), [(8, ns(5))]);
    assert_eq!(profile.link("a", "c").unwrap()[0].1.time.nanoseconds(), 90);
    // and what is measured here takes the place of what was brought, without the energy that belonged to that
    profile.record(own, false, &times(710, 8)).unwrap();
    profile.record_link("a", "c", 8, ns(6)).unwrap();
    assert_eq!(mine(&profile), 16);
    assert_eq!(profile.link("a", "c").unwrap(), [(8, ns(6))]);
}
