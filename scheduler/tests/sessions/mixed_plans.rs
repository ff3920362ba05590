//! Plans over scripted devices: parts on several chips give the CPU's answers, figures are labelled
//! emulated, and every fault is an error that names the device.

use std::path::{Path, PathBuf};
use std::time::Duration;

use polychip::{Error, ErrorKind, Model, Policy, Runtime, Session};

const PATIENCE: Duration = Duration::from_secs(60);

fn shapes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shapes/shapes.onnx")
}

fn runtime(script: &str) -> Runtime {
    Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", script)
        .virtual_time()
        .only_given_folders()
        .build()
        .unwrap()
}

/// A device that is fast at these ops and refuses the rest.
fn device(ops: &str, rest: &str) -> String {
    format!(
        "[[device]]\nname = \"npu\"\nops = [{ops}]\nlaunch_ns = 1000\ncost = {{ fixed_ns = 10, ps_per_mac = 0.001, ps_per_byte = 0.001 }}\n{rest}\n"
    )
}

const CONVOLUTIONS: &str = "\"Conv\", \"Clip\"";

fn image() -> Vec<f32> {
    (0..3 * 96 * 96).map(|index| (index % 97) as f32 / 97.0).collect()
}

fn classify(session: &Session) -> Result<Vec<f32>, Error> {
    let mut input = session.input("image")?;
    input.write(&image())?;
    let outputs = session.submit(&[&input])?.wait(PATIENCE)?;
    Ok(outputs.get("probabilities")?.values::<f32>()?.into_owned())
}

fn on(runtime: &Runtime, model: &Model, devices: &[&str]) -> Session {
    runtime
        .session(model, Policy::latency().devices(devices.iter().copied()))
        .unwrap()
}

fn assert_close(found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    let largest = wanted.iter().fold(0f32, |most, value| most.max(value.abs()));
    for (a, b) in found.iter().zip(wanted) {
        assert!((a - b).abs() <= 1e-4 * largest, "{found:?} instead of {wanted:?}");
    }
}

#[test]
fn plan_over_two_plugins_matches_single_plugin_outputs() {
    let runtime = runtime(&device(CONVOLUTIONS, ""));
    let model = runtime.load(shapes()).unwrap();
    let alone = classify(&on(&runtime, &model, &["cpu"])).unwrap();
    let session = on(&runtime, &model, &["cpu", "null"]);
    let used: std::collections::BTreeSet<_> = session
        .plan()
        .unwrap()
        .parts
        .iter()
        .map(|part| part.device)
        .collect();
    assert_eq!(
        used.len(),
        2,
        "both devices have parts: {:?}",
        session.plan().unwrap().parts
    );
    for _ in 0..3 {
        assert_close(&classify(&session).unwrap(), &alone);
    }
    let report = session.report();
    assert!(report.emulated && report.optimal);
    assert!(
        report
            .parts
            .iter()
            .any(|part| part.device == "null:0" && part.emulated)
    );
    assert!(
        report
            .parts
            .iter()
            .all(|part| part.device == "null:0" || !part.emulated)
    );
    assert!(report.to_string().contains("emulated"));
}

#[test]
fn device_without_import_gets_explicit_copies() {
    let runtime = runtime(&device(CONVOLUTIONS, "imports = []"));
    let model = runtime.load(shapes()).unwrap();
    let alone = classify(&on(&runtime, &model, &["cpu"])).unwrap();
    let session = on(&runtime, &model, &["cpu", "null"]);
    let report = session.report();
    let between = report
        .crossings
        .iter()
        .filter(|crossing| crossing.from != crossing.to);
    let modes: std::collections::BTreeSet<&str> = between.map(|crossing| crossing.mode).collect();
    assert_eq!(modes.into_iter().collect::<Vec<_>>(), ["copy"]);
    assert_close(&classify(&session).unwrap(), &alone);
}

/// Modes of the crossings between devices, and the explicit copies that two runs made; the answers are right.
fn moved_between(script: &str) -> (Vec<&'static str>, u64) {
    let runtime = runtime(script);
    let model = runtime.load(shapes()).unwrap();
    let alone = classify(&on(&runtime, &model, &["cpu"])).unwrap();
    let session = on(&runtime, &model, &["cpu", "null"]);
    for _ in 0..2 {
        assert_close(&classify(&session).unwrap(), &alone);
    }
    let own = session.output("probabilities").unwrap();
    let mut input = session.input("image").unwrap();
    input.write(&image()).unwrap();
    let before = session.report().copies;
    let run = session.submit_into(&[&input], &[&own]).unwrap();
    drop(run.wait(PATIENCE).unwrap());
    let found: Vec<f32> = own
        .bytes()
        .unwrap()
        .as_chunks()
        .0
        .iter()
        .map(|word| f32::from_le_bytes(*word))
        .collect();
    assert_close(&found, &alone);
    let report = session.report();
    assert_eq!(report.copies == 0, report.copied_bytes == 0);
    assert_eq!(report.copies, before / 2 * 3, "every run makes the same copies");
    let between = report
        .crossings
        .iter()
        .filter(|crossing| crossing.from != crossing.to);
    let modes: std::collections::BTreeSet<&str> = between.clone().map(|crossing| crossing.mode).collect();
    let bytes_of_a_run: u64 = between.filter_map(|crossing| crossing.bytes).sum();
    let moved = 3 * bytes_of_a_run;
    if report.copies == 0 {
        assert_eq!(report.shared_bytes, moved, "{report}");
    } else {
        let of_inputs = 3 * 4 * image().len() as u64;
        assert_eq!(
            (report.shared_bytes, report.copied_bytes),
            (0, moved + of_inputs),
            "{report}"
        );
    }
    (modes.into_iter().collect(), before)
}

#[test]
#[cfg(target_os = "linux")]
fn importable_memory_is_shared_without_copies() {
    // an address on a page, by what GPUs ask for
    let pages = device(CONVOLUTIONS, "kind = \"gpu\"\nimport_alignment = 4096");
    assert_eq!(moved_between(&pages), (vec!["native"], 0));
    let files = device(CONVOLUTIONS, "kind = \"gpu\"\nimports = [\"memfd\"]");
    assert_eq!(moved_between(&files), (vec!["imported"], 0));
}

#[test]
fn unmet_import_alignment_gets_explicit_copies() {
    let apart = device(CONVOLUTIONS, "imports = [\"host\"]\nimport_alignment = 1048576");
    let (modes, copies) = moved_between(&apart);
    assert_eq!(modes, ["copy"]);
    assert!(copies > 0);
}

#[test]
fn runs_in_flight_are_independent() {
    let runtime = runtime(&device(CONVOLUTIONS, ""));
    let model = runtime.load(shapes()).unwrap();
    let session = on(&runtime, &model, &["cpu", "null"]);
    let wanted = classify(&session).unwrap();
    let (mut a, mut b) = (session.input("image").unwrap(), session.input("image").unwrap());
    a.write(&image()).unwrap();
    b.write(&vec![0.25f32; 3 * 96 * 96]).unwrap();
    let (first, second) = (session.submit(&[&a]).unwrap(), session.submit(&[&b]).unwrap());
    let busy = session.submit(&[&a]).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::InFlight, "{busy}");
    let second = second.wait(PATIENCE).unwrap();
    let first = first.wait(PATIENCE).unwrap();
    assert_close(&first.at(0).unwrap().values::<f32>().unwrap(), &wanted);
    assert_ne!(first.at(0).unwrap().bytes(), second.at(0).unwrap().bytes());
}

#[test]
fn outputs_bound_by_the_app_are_written_in_place() {
    let runtime = runtime(&device(CONVOLUTIONS, ""));
    let model = runtime.load(shapes()).unwrap();
    let session = on(&runtime, &model, &["cpu", "null"]);
    let wanted = classify(&session).unwrap();
    let mut input = session.input("image").unwrap();
    input.write(&image()).unwrap();
    let own = session.output("probabilities").unwrap();
    let outputs = session
        .submit_into(&[&input], &[&own])
        .unwrap()
        .wait(PATIENCE)
        .unwrap();
    assert!(
        outputs
            .get("probabilities")
            .err()
            .unwrap()
            .to_string()
            .contains("bound by the app")
    );
    let bytes = own.bytes().unwrap();
    let found: Vec<f32> = bytes
        .chunks_exact(4)
        .map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap()))
        .collect();
    assert_close(&found, &wanted);
    drop(bytes);
    drop(outputs);
    // and the session's own memory again
    assert_close(&classify(&session).unwrap(), &wanted);
}

#[test]
fn wrong_input_error_names_the_input() {
    let runtime = runtime("");
    let model = runtime.load(shapes()).unwrap();
    let session = on(&runtime, &model, &["cpu"]);
    assert!(
        session
            .input("picture")
            .unwrap_err()
            .to_string()
            .contains("its inputs are: image")
    );
    let mut input = session.input("image").unwrap();
    let message = input.write(&[0u8; 5]).unwrap_err().to_string();
    assert!(
        message.contains("27648 elements of f32") && message.contains("5 of u8"),
        "{message}"
    );
    assert!(
        session
            .submit(&[])
            .unwrap_err()
            .to_string()
            .contains("\"image\" is missing")
    );
    assert!(
        session
            .submit(&[&input, &input])
            .unwrap_err()
            .to_string()
            .contains("given twice")
    );
    let other = on(&runtime, &model, &["cpu"]);
    assert!(
        other
            .submit(&[&input])
            .unwrap_err()
            .to_string()
            .contains("another session")
    );
}

#[test]
fn plan_for_another_model_is_refused() {
    let runtime = runtime(&device(CONVOLUTIONS, ""));
    let model = runtime.load(shapes()).unwrap();
    let policy = Policy::latency().devices(["cpu", "null"]);
    let plan = runtime.plan(&model, &policy).unwrap().plan().clone();
    let again = runtime.with_plan(&model, &policy, plan.clone()).unwrap();
    assert_eq!(again.plan(), &plan);
    let mut torn = plan.clone();
    torn.parts[0].nodes.pop();
    let error = runtime.with_plan(&model, &policy, torn).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadPlan, "{error}");
    let int8 = runtime.load(shapes().with_file_name("shapes-int8.onnx")).unwrap();
    let error = runtime.with_plan(&int8, &policy, plan).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadPlan, "{error}");
}

#[test]
fn unknown_device_error_lists_the_devices() {
    let runtime = runtime("");
    let model = runtime.load(shapes()).unwrap();
    let error = runtime
        .session(&model, Policy::latency().devices(["npu:0"]))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadPlugin);
    assert!(
        error.to_string().contains("no device npu:0; there are: cpu:0"),
        "{error}"
    );
}

#[test]
fn unsupported_model_error_names_node_and_reasons() {
    let runtime = runtime(&device(CONVOLUTIONS, ""));
    let model = runtime.load(shapes()).unwrap();
    let error = runtime
        .session(&model, Policy::latency().devices(["null"]))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    assert!(error.to_string().contains("null:0 refuses it"), "{error}");
}

fn fault(kind: &str, more: &str) -> (Runtime, Model) {
    let runtime = runtime(&device(
        CONVOLUTIONS,
        &format!("fault = [{{ kind = \"{kind}\"{more} }}]"),
    ));
    let model = runtime.load(shapes()).unwrap();
    (runtime, model)
}

#[test]
fn lost_device_error_names_the_device_without_retry() {
    let (runtime, model) = fault("lost", "");
    let policy = Policy::latency().devices(["cpu", "null"]).retry(0);
    let session = runtime.session(&model, policy).unwrap();
    let plan = session.report();
    assert!(plan.parts.iter().any(|part| part.device == "null:0"), "{plan}");
    let error = classify(&session).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    for words in ["null:0", "scripted loss of the device"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    // a new session plans without the device until somebody resets it
    let other = on(&runtime, &model, &["cpu", "null"]);
    assert!(other.report().parts.iter().all(|part| part.device == "cpu:0"));
    classify(&other).unwrap();
    // the session itself does so before its next run
    classify(&session).unwrap();
    assert!(session.report().parts.iter().any(|part| part.device == "null:0"));
}

#[test]
fn failed_run_names_the_device_and_the_next_run_works() {
    let (runtime, model) = fault("error", "");
    let session = on(&runtime, &model, &["cpu", "null"]);
    let error = classify(&session).unwrap_err();
    assert!(error.to_string().contains("null:0"), "{error}");
    let alone = classify(&on(&runtime, &model, &["cpu"])).unwrap();
    assert_close(&classify(&session).unwrap(), &alone);
}

#[test]
fn measured_part_times_are_costs_of_the_next_session() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("device.profile");
    let make = || {
        Runtime::builder()
            .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
            .configure("null", "script", device(CONVOLUTIONS, ""))
            .virtual_time()
            .only_given_folders()
            .profiles(&profile)
            .build()
            .unwrap()
    };
    let policy = Policy::latency().devices(["cpu", "null"]);
    {
        let runtime = make();
        let model = runtime.load(shapes()).unwrap();
        let session = runtime.session(&model, policy.clone()).unwrap();
        assert!(
            session
                .report()
                .parts
                .iter()
                .all(|part| part.provenance != "measured")
        );
        for _ in 0..4 {
            classify(&session).unwrap();
        }
    }
    let runtime = make();
    let model = runtime.load(shapes()).unwrap();
    let planned = runtime.plan(&model, &policy).unwrap();
    assert!(
        planned.request().costs.parts().next().is_some(),
        "the first session's parts are known"
    );
    let measured = planned
        .plan()
        .parts
        .iter()
        .filter(|part| part.cost.provenance.word() == "measured");
    assert!(measured.count() > 0, "the plan uses what was measured");
}

#[test]
fn precompiled_plan_is_refused_on_another_device() {
    let policy = || Policy::latency().threads(1);
    let script = device(CONVOLUTIONS, "");
    let (made, right) = {
        let runtime = runtime(&script);
        let model = runtime.load(shapes()).unwrap();
        let made = runtime.precompile(&model, &policy(), &[]).unwrap();
        (
            made,
            classify(&runtime.session(&model, policy()).unwrap()).unwrap(),
        )
    };
    let parts = &made.plan().parts;
    assert!(
        parts.iter().any(|part| part.device != parts[0].device),
        "two devices compute"
    );
    let session = |script: &str| {
        let runtime = runtime(script);
        let model = runtime.load(shapes()).unwrap();
        runtime.session_precompiled(&model, policy(), std::slice::from_ref(&made))
    };
    let own = session(&script).unwrap();
    assert!(
        own.report().parts.iter().all(|part| part.cached),
        "nothing is compiled"
    );
    assert_eq!(classify(&own).unwrap(), right);
    // it runs other nodes now, and so is another device; one is gone; one is of another name
    for other in [
        device("\"Clip\"", ""),
        String::new(),
        script.replace("\"npu\"", "\"gpu\""),
    ] {
        let error = session(&other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadPlan, "{error}");
        assert!(error.to_string().contains("is stale"), "{error}");
    }
}

#[test]
fn torn_cache_entry_is_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let make = || {
        Runtime::builder()
            .only_given_folders()
            .cache(folder.path())
            .build()
            .unwrap()
    };
    let run = |cached: bool| {
        let runtime = make();
        let model = runtime.load(shapes()).unwrap();
        let session = on(&runtime, &model, &["cpu"]);
        assert_eq!(session.report().parts[0].cached, cached);
        classify(&session).unwrap()
    };
    let first = run(false);
    assert_eq!(run(true), first);
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x55;
        std::fs::write(&path, bytes).unwrap();
    }
    assert_eq!(run(false), first);
    assert_eq!(run(true), first);
}

#[test]
fn times_at_another_thread_count_are_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::builder()
        .only_given_folders()
        .profiles(folder.path().join("device.profile"))
        .build()
        .unwrap();
    let model = runtime.load(shapes()).unwrap();
    let policy = |threads| Policy::latency().devices(["cpu"]).threads(threads);
    {
        let session = runtime.session(&model, policy(1)).unwrap();
        for _ in 0..3 {
            classify(&session).unwrap();
        }
        session.record().unwrap();
    }
    let measured = |threads| {
        let planned = runtime.plan(&model, &policy(threads)).unwrap();
        planned.request().costs.parts().next().is_some()
    };
    assert!(measured(1));
    assert!(!measured(2) && !measured(0));
}

#[test]
fn measured_links_appear_in_plans() {
    let script = device("\"Relu\", \"Add\", \"Conv\", \"Clip\"", "");
    let (measured, not) = runtime(&script).measure_links(&Policy::latency()).unwrap();
    assert!(measured.is_empty());
    assert_eq!(not.len(), 2, "both directions");
    assert!(not.iter().all(|link| link.reason.contains("virtual")), "{not:?}");

    let real = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", &script)
        .only_given_folders()
        .build()
        .unwrap();
    let model = real.load(shapes()).unwrap();
    let crossings = || on(&real, &model, &["cpu", "null"]).report().crossings;
    assert!(
        crossings()
            .iter()
            .all(|crossing| crossing.provenance == "estimated")
    );
    let (measured, not) = real.measure_links(&Policy::latency()).unwrap();
    assert!(not.is_empty(), "{not:?}");
    assert_eq!(measured.len(), 2);
    for link in &measured {
        assert!(
            link.latency_ns + link.from_launch_ns + link.to_launch_ns > 0,
            "{link:?}"
        );
    }
    let policy = Policy::latency().devices(["cpu", "null"]);
    let planned = real.plan(&model, &policy).unwrap();
    let crossed = planned
        .plan()
        .crossings
        .iter()
        .filter(|crossing| crossing.from_device != crossing.to_device);
    for crossing in crossed {
        assert_eq!(crossing.provenance.word(), "measured");
    }
}
