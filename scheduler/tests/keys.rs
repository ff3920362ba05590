//! Keys contain everything that changes a figure: two settings of a device share neither measured
//! times nor compiled parts.

use std::path::Path;
use std::time::Duration;

use polychip::{Policy, Runtime, Warning};

/// The model that ships.
fn shapes() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shapes/shapes.onnx")
}

fn runtime(folder: &Path, settings: &[(&str, &str)]) -> Runtime {
    let builder = Runtime::builder()
        .only_given_folders()
        .profiles(folder.join("a.profile"))
        .cache(folder.join("blobs"));
    let builder = settings.iter().fold(builder, |builder, (key, value)| {
        builder.configure("cpu", key, *value)
    });
    builder.build().unwrap()
}

/// Runs the model a few times: whether its part came from the cache, whether its price was measured, and what was
/// warned of.
fn run(folder: &Path, settings: &[(&str, &str)], policy: Policy) -> (bool, bool, Vec<Warning>) {
    let runtime = runtime(folder, settings);
    let model = runtime.load(shapes()).unwrap();
    let session = runtime.session(&model, policy).unwrap();
    let input = session.input(&session.inputs().next().unwrap().name).unwrap();
    for _ in 0..8 {
        drop(
            session
                .submit(&[&input])
                .unwrap()
                .wait(Duration::from_secs(60))
                .unwrap(),
        );
    }
    session.record().unwrap();
    let warnings = session.planned().unwrap().warnings().to_vec();
    let report = session.report();
    let part = &report.parts[0];
    (part.cached, part.provenance == "measured", warnings)
}

#[test]
fn every_speed_setting_is_part_of_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let exact = Policy::latency;
    assert_eq!(run(folder.path(), &[], exact()), (false, false, Vec::new()));
    let (cached, measured, _) = run(folder.path(), &[], exact());
    assert!(cached && measured, "the same settings find both");
    // what changes no speed changes no key
    let (cached, measured, _) = run(folder.path(), &[("rates", "stated")], exact());
    assert!(cached && measured);
    let settings: [(&str, &str); 4] = [
        ("isa", "scalar"),
        ("tune", "on"),
        ("threads", "7"),
        ("cores", "0"),
    ];
    for setting in settings {
        let (cached, measured, warnings) = run(folder.path(), &[setting], exact());
        assert!(!cached && !measured, "{setting:?} shares a row or a blob");
        let words: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert!(
            words
                .iter()
                .any(|words| words.contains("measured at") && words.contains(setting.0)),
            "{setting:?} is not named: {words:?}"
        );
    }
    for (policy, word) in [
        (exact().threads(3), "threads"),
        (exact().precision(polychip::Precision::Reduced), "precision"),
    ] {
        let (cached, measured, warnings) = run(folder.path(), &[], policy);
        assert!(!cached && !measured, "{word} shares a row or a blob");
        assert!(warnings.iter().any(|warning| warning.to_string().contains(word)));
    }
}

#[test]
fn rates_are_stated_until_measured() {
    let folder = tempfile::tempdir().unwrap();
    let measured_s = |runtime: &Runtime| runtime.devices()[0].info().rates_measured_s;
    let rate = |runtime: &Runtime| runtime.devices()[0].info().peak_macs_per_s;
    let stated = runtime(folder.path(), &[]);
    assert_eq!(measured_s(&stated), None);
    let asked = runtime(folder.path(), &[("rates", "measure")]);
    let when = measured_s(&asked);
    assert!(when.is_some());
    drop((stated, asked));
    let kept = runtime(folder.path(), &[]);
    assert_eq!(measured_s(&kept), when, "kept by the profile");
    let left_aside = runtime(folder.path(), &[("rates", "stated")]);
    assert_eq!(measured_s(&left_aside), None);
    let other = runtime(folder.path(), &[("isa", "scalar")]);
    assert_eq!(measured_s(&other), None, "rates of another instruction set");
    assert_ne!(rate(&other), rate(&kept));
}
