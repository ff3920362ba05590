//! Bundles as apps load them: trusted signers, no older versions, and figures for other chips.

use std::path::{Path, PathBuf};
use std::time::Duration;

use polychip::bundle::{Bundle, BundleErrorKind, Content, Manifest, SecretKey};
use polychip::{Policy, ProfileFile, Runtime};

/// The model that ships.
fn shapes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shapes/shapes.onnx")
}

fn key() -> SecretKey {
    SecretKey::from_bytes(&[9; 32])
}

/// How the plan of the model is priced, and the runtime after some runs.
fn price(runtime: &Runtime) -> String {
    let model = runtime.load(shapes()).unwrap();
    let session = runtime.session(&model, Policy::latency().threads(1)).unwrap();
    let priced = session.report().parts[0].provenance.to_string();
    let input = session.input(&session.inputs().next().unwrap().name).unwrap();
    for _ in 0..8 {
        let run = session.submit(&[&input]).unwrap();
        drop(run.wait(Duration::from_secs(60)).unwrap());
    }
    session.record().unwrap();
    priced
}

/// What is measured here, as if it had been on another chip.
fn of_another_chip() -> ProfileFile {
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    assert_eq!(price(&runtime), "estimated");
    assert_eq!(price(&runtime), "measured");
    let mut file = runtime.profile().export().unwrap();
    for part in &mut file.parts {
        let mut fields: Vec<&str> = part.device.split('|').collect();
        // maker, device, chip
        (fields[3], fields[4], fields[5]) = ("Maker", "Phone", "Chip");
        part.device = fields.join("|");
    }
    file
}

fn bundle(folder: &Path, version: u64, profile: &ProfileFile) -> PathBuf {
    let content = Content {
        profile: profile.clone(),
        plans: Vec::new(),
    };
    let bytes = Bundle::sign(&content, &Manifest::new("Chip", version), &key()).unwrap();
    let path = folder.join(format!("{version}.bundle"));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn unknown_chip_uses_bundle_costs_until_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(folder.path(), 1, &of_another_chip());
    let runtime = Runtime::builder()
        .only_given_folders()
        .profiles(&path)
        .trust(key().public());
    let runtime = runtime.build().unwrap();
    assert_eq!(runtime.bundles()[0].manifest().unwrap().family, "Chip");
    assert_eq!(price(&runtime), "other device");
    assert_eq!(price(&runtime), "measured");
}

#[test]
fn older_bundle_is_refused_by_later_processes() {
    let folder = tempfile::tempdir().unwrap();
    let rows = of_another_chip();
    let (first, second) = (bundle(folder.path(), 1, &rows), bundle(folder.path(), 2, &rows));
    let builder = || {
        let database = folder.path().join("device.profile");
        Runtime::builder()
            .only_given_folders()
            .profiles(database)
            .trust(key().public())
    };
    let refusal = |runtime: &Runtime| {
        runtime.bundles()[0]
            .manifest()
            .map_err(|error| error.kind())
            .err()
    };
    assert_eq!(refusal(&builder().profiles(&second).build().unwrap()), None);
    let runtime = builder().profiles(&first).build().unwrap();
    assert_eq!(refusal(&runtime), Some(BundleErrorKind::Downgraded));
    let trouble = runtime.profile().trouble().unwrap();
    assert!(
        trouble.contains("1.bundle") && trouble.contains("version 2 was loaded before"),
        "{trouble}"
    );
    let runtime = builder().profiles(&first).allow_rollback().build().unwrap();
    assert_eq!(refusal(&runtime), None);
    // a changed file is named, and the app runs without it
    let mut bytes = std::fs::read(&second).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&second, bytes).unwrap();
    let runtime = builder().profiles(&second).build().unwrap();
    assert_eq!(refusal(&runtime), Some(BundleErrorKind::BadSignature));
    assert!(!runtime.devices().is_empty());
}

#[test]
fn missing_or_truncated_bundle_keeps_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let (database, cut) = (folder.path().join("app.db"), folder.path().join("cut"));
    let missing = folder.path().join("soc.bundle");
    std::fs::write(&cut, b"POLYCHIP-BUN").unwrap();
    let runtime = Runtime::builder()
        .only_given_folders()
        .profiles(&database)
        .profiles(&missing)
        .profiles(&cut)
        .trust(key().public())
        .build()
        .unwrap();
    let refused: Vec<BundleErrorKind> = runtime
        .bundles()
        .iter()
        .map(|one| one.manifest().unwrap_err().kind())
        .collect();
    assert_eq!(refused, [BundleErrorKind::Io, BundleErrorKind::Truncated]);
    assert!(database.exists() && !missing.exists());
}
