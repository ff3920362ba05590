//! Runs the suite on this repository's plugins, each as a case of this test.
//!
//! Invariant: a plugin that cannot be tested here (without its vendor's library) is reported as skipped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use polychip_conformance::groups::GROUPS;
use polychip_conformance::run::{self, Settings};
use polychip_conformance::verdict::Verdict;
use polychip_device_tests::{Need, emulated, libraries, passes, skipped, suite};
use polychip_parts::expectations::Expectations;

/// Cases of each group where the suite is sampled.
const SAMPLE: usize = 8;

fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_polychip-conform").into()
}

/// A plugin of this repository, with its known failures.
fn settings(plugin: &str) -> Result<Settings, Failed> {
    let mut settings = Settings::new(program(), libraries::plugin(plugin)?);
    settings.expectations = Arc::new(Expectations::load(&format!("conformance-{plugin}"))?);
    settings.cycles = 200;
    // an emulated processor takes an hour for all
    if suite::every()? > 1 {
        settings.selection.sample = SAMPLE;
        settings.cycles = 40;
    }
    Ok(settings)
}

/// The plugin conforms, and as many cases of ops pass as are committed for this trial.
fn conforms(trial: &str, settings: &Settings) -> Result<(), Failed> {
    let report = run::run(settings, &mut ())?;
    if !report.conforms() {
        return Err(report.text().into());
    }
    let every = suite::every()?;
    for device in &report.devices {
        if let Some(ops) = device.groups().get("ops").filter(|_| every == 1) {
            let counted = passes::counted(trial, device.device.emulated);
            passes::check("conformance", &counted, &[("ops", ops.passed)])?;
        }
    }
    Ok(())
}

/// A plugin on its emulated library; `reduced` asks for 16-bit arithmetic.
fn emulated(plugin: &str, reduced: bool) -> Result<Settings, Failed> {
    let mut settings = settings(plugin)?;
    settings
        .configuration
        .extend(owned(emulated::configuration(plugin)?));
    if reduced {
        settings.reduced = true;
        settings
            .configuration
            .insert("precision".into(), "reduced".into());
    }
    Ok(settings)
}

fn owned(pairs: Vec<(&'static str, String)>) -> impl Iterator<Item = (String, String)> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value))
}

/// The QNN plugin for a chip.
fn qnn(soc: &str, reduced: bool) -> Result<Settings, Failed> {
    let mut settings = emulated("qnn", reduced)?;
    settings.configuration.insert("soc".into(), soc.into());
    Ok(settings)
}

/// The same on a library that registers memory, as a chip's does.
fn qnn_registered() -> Result<Settings, Failed> {
    let mut settings = qnn("57", false)?;
    settings
        .configuration
        .insert("memory".into(), "registered".into());
    settings.environment = vec![("POLYCHIP_QNN_REGISTERS".into(), "1".into())];
    Ok(settings)
}

/// The same on the vendor's library of a folder.
fn vendors_qnn(folder: &str, soc: &str) -> Result<Settings, Failed> {
    let mut settings = settings("qnn")?;
    let pairs = [("lib_dir", folder), ("soc", soc)];
    settings
        .configuration
        .extend(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
    Ok(settings)
}

/// A device of the coreml plugin: 0 is the Neural Engine, 1 the GPU.
fn coreml(device: u32, reduced: bool) -> Result<Settings, Failed> {
    let mut settings = emulated("coreml", reduced)?;
    settings.device = Some(device);
    Ok(settings)
}

/// The rknn plugin on the emulated runtime, of a board (`rknnrt`) or of a connected one (`rknn_api`). It computes in 16
/// bits or not at all.
fn rknn(package: &str, stem: &str) -> Result<Settings, Failed> {
    let mut settings = emulated("rknn", true)?;
    settings
        .configuration
        .extend(owned(emulated::rknn(package, stem)?));
    Ok(settings)
}

/// The same on a chip that sees memory otherwise than the processor, with no maintenance but that of accesses.
fn rknn_incoherent() -> Result<Settings, Failed> {
    let mut settings = rknn("polychip-emulator-rknnrt", "rknnrt")?;
    settings.configuration.insert("caches".into(), "access".into());
    settings.environment = vec![("POLYCHIP_RKNN_INCOHERENT".into(), "1".into())];
    settings.selection.tags = ["buffers", "compile", "concurrency", "fences"]
        .map(str::to_owned)
        .into();
    Ok(settings)
}

/// The OpenVINO plugin on the genuine library, a spread of the cases: each start and each compilation takes
/// its time.
fn openvino(folder: &Path, tags: &[&str], sample: usize) -> Result<Settings, Failed> {
    let mut settings = settings("openvino")?;
    settings.environment = vec![("OPENVINO_LIB_DIR".into(), folder.display().to_string())];
    settings.device = Some(0);
    settings.selection.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    settings.selection.sample = sample;
    settings.cycles = 40;
    Ok(settings)
}

/// The GPU plugin on the first adapter, in software where there is no other: a spread of the cases, because each shape
/// is a kernel that the driver compiles.
fn gpu(tags: &[&str], sample: usize) -> Result<Settings, Failed> {
    let mut settings = settings("gpu")?;
    settings.device = Some(0);
    settings.selection.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    settings.selection.sample = sample;
    settings.cycles = 40;
    Ok(settings)
}

/// Why no GPU can be judged here, if so.
fn no_gpu() -> Option<String> {
    let host = polychip_host::Host::builder().linked(polychip_gpu::query).build();
    if !host.devices().is_empty() {
        return None;
    }
    let words: Vec<String> = host.refusals().iter().map(ToString::to_string).collect();
    Some(format!(
        "no GPU and no driver in software (Debian: mesa-vulkan-drivers libvulkan1): {}",
        words.join("; ")
    ))
}

/// What is wrong with the wrong plugin, and the case that must say so, with words of its failure.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "serves-any-major",
        "discovery/another-major-is-refused",
        "major version 0",
    ),
    ("info-changes", "discovery/plugin-info", "different answers"),
    (
        "opens-behind-the-last",
        "discovery/device-behind-the-last-is-refused",
        "opens",
    ),
    ("no-words", "support/answers-are-reasoned", "without a message"),
    (
        "promises-all",
        "support/custom-op-is-refused",
        "claims to support",
    ),
    ("promises-all", "ops/Conv/plain/f32", "compile: UNSUPPORTED"),
    ("answers-differ", "support/answers-are-the-same", "differ"),
    (
        "estimates-the-first",
        "telemetry/estimate-of-each-node",
        "got no cost",
    ),
    ("accepts-any-bytes", "compile/bytes-flipped", "flipped: loaded"),
    ("accepts-any-bytes", "compile/bytes-truncated", "loaded"),
    ("accepts-another-part", "compile/bytes-of-another-part", "loaded"),
    ("port-too-small", "compile/ports-as-the-graph-says", "bytes"),
    ("wrong-on-odd", "ops/Relu/unary-odd/f32", "element 0"),
    (
        "ignores-size",
        "buffers/too-small-binding-is-refused",
        "is accepted",
    ),
    (
        "writes-past-the-end",
        "buffers/import-host-memory",
        "past the end",
    ),
    ("forgets", "buffers/create-write-read", "loses"),
    ("grants-outside", "buffers/access-outside-is-refused", "succeeds"),
    ("signals-twice", "fences/signal-comes-once", "2 signals"),
    ("another-clock", "fences/timing", "host's clock"),
    ("ends-twice", "fences/wait-again", "PERSISTENT"),
    ("absurd-temperature", "telemetry/sensors", "degree"),
    (
        "miscounts-points",
        "telemetry/operating-points-into-little-room",
        "counts",
    ),
    ("endless-memory", "deny/memory-that-is-not-there", "is made"),
    ("cancel-fails", "deny/cancel-after-the-end", "PERSISTENT"),
    ("closes-null", "destroy/null-is-accepted", "crashes"),
    (
        "fence-dies-with-executable",
        "destroy/executable-before-fence",
        "DEVICE_LOST",
    ),
    ("leaves-threads", "destroy/instance-ends-its-threads", "threads"),
    ("races", "concurrency/threads-run-one-executable", "element 0"),
    ("leaks-memory", "leaks/runs", "memory grew"),
    ("leaks-descriptors", "leaks/buffers", "more descriptors"),
    ("follows-null", "errors/graph/nodes-at-no-address", "crashes"),
    ("takes-null", "errors/null-results", "device_info"),
    ("hangs", "fences/wait-without-limit", "hangs"),
];

/// The wrong plugin, wrong in this way, asked this case.
fn wrong(way: &str, case: &str) -> Result<Settings, Failed> {
    let mut settings = Settings::new(program(), libraries::plugin("wrong")?);
    settings.environment = vec![("POLYCHIP_WRONG".into(), way.into())];
    let mut script = String::from(
        "[[device]]\noperating_point = [{ name = \"fast\" }, { name = \"slow\", time_permille = 2000 }]\n",
    );
    if matches!(way, "no-words" | "promises-all") {
        script.push_str("ops = [\"Identity\", \"Relu\", \"Add\"]\n");
    }
    settings.configuration.insert("script".into(), script);
    settings.selection.filters = vec![case.into()];
    settings.cycles = 400;
    settings.patience = Duration::from_secs(if way == "hangs" { 2 } else { 60 });
    Ok(settings)
}

/// The suite names what is wrong, and passes the case where nothing is.
fn caught(way: &str, case: &str, words: &str) -> Result<(), Failed> {
    let judge = |way: &str| -> Result<_, Failed> {
        let report = run::run(&wrong(way, case)?, &mut ())?;
        let row = report.devices[0].row(case).cloned();
        row.ok_or_else(|| format!("there is no case {case}").into())
    };
    let row = judge(way)?;
    let Verdict::Failed(found) = &row.verdict else {
        return Err(format!("{way}: {case} is {:?}", row.verdict).into());
    };
    if !found.contains(words) {
        return Err(format!("{way}: {case} says {found:?}, not {words:?}").into());
    }
    // also where the plugin crashed and said nothing
    let is_of_op = case.starts_with("ops/");
    if is_of_op
        != row
            .graph
            .as_deref()
            .is_some_and(|graph| graph.contains(" of ") && graph.contains('['))
    {
        return Err(format!("{way}: {case} names {:?} as what was asked", row.graph).into());
    }
    let right = judge("")?;
    if !matches!(
        right.verdict,
        Verdict::Passed | Verdict::Skipped(_) | Verdict::Refused(_)
    ) {
        return Err(format!("nothing is wrong, and {case} is {:?}", right.verdict).into());
    }
    Ok(())
}

/// What a plugin prints does not mix with what its child says.
fn printing() -> Result<(), Failed> {
    let mut settings = wrong("prints", "fences/")?;
    settings.selection.filters = vec!["fences/".into(), "support/carrier".into()];
    conforms("wrong", &settings)
}

/// The program's exit code and what it printed to standard output.
fn command(arguments: &[&str]) -> Result<(Option<i32>, String), Failed> {
    let output = Command::new(program()).args(arguments).output()?;
    Ok((output.status.code(), String::from_utf8(output.stdout)?))
}

/// Exit codes, lists, and reports as files and on standard output.
fn command_line() -> Result<(), Failed> {
    let plugin = libraries::plugin("null")?.display().to_string();
    let plugin = plugin.as_str();
    let device = ["--config", "script=[[device]]"];
    let folder = std::env::temp_dir().join(format!("conform-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = |name: &str| folder.join(name).display().to_string();
    let expect = |what: &str, wanted: i32, arguments: &[&str]| -> Result<String, Failed> {
        let (code, text) = command(arguments)?;
        if code == Some(wanted) {
            Ok(text)
        } else {
            Err(format!("{what}: {code:?} {text}").into())
        }
    };
    let list = expect("list", 0, &["--list", "--tags", "fences"])?;
    if !list.lines().all(|line| line.starts_with("fences/")) || !list.contains("fences/timing  fences,basic")
    {
        return Err(list.into());
    }
    expect("an unknown tag", 2, &[plugin, "--tags", "fancy"])?;
    expect("no such file", 2, &["/nowhere/libpolychip_plugin_x.so"])?;
    expect("no plugin", 3, &[&program().display().to_string()])?;
    expect("no device", 3, &[plugin, "--config", "script="])?;
    let some = ["--filter", "discovery/", "--filter", "ops/Relu/unary-odd"];
    let json = expect(
        "JSON",
        0,
        &[
            &[plugin, "--json", "-", "--junit", &path("report.xml")],
            &device[..],
            &some[..],
        ]
        .concat(),
    )?;
    let json: serde_json::Value = serde_json::from_str(&json)?;
    let rows = json["devices"][0]["rows"].as_array().ok_or("no rows")?;
    if rows.len() < 15 || json["devices"][0]["device"]["emulated"] != true {
        return Err(json.to_string().into());
    }
    let xml = std::fs::read_to_string(path("report.xml"))?;
    if xml.matches("<testcase").count() != rows.len() {
        return Err(xml.into());
    }
    // a case that is known to fail and passes fails the suite
    let known = "[[wrong]]\nreason = \"it was so once\"\ncases = [\"discovery/table-head\"]\n";
    std::fs::write(path("known.toml"), known)?;
    let table = expect(
        "an unexpected pass",
        1,
        &[&[plugin, "--expect", &path("known.toml")], &device[..], &some[..]].concat(),
    )?;
    if !table.contains("discovery/table-head: passes unexpectedly") {
        return Err(table.into());
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// All groups but the ops.
fn contract() -> Vec<&'static str> {
    let groups = GROUPS.iter().map(|(group, _)| *group);
    groups.filter(|group| *group != "ops").collect()
}

fn main() {
    let mut arguments = Arguments::from_args();
    // children share the machine's few cores
    arguments.test_threads.get_or_insert(2);
    let mut trials = vec![
        Trial::test("cpu", || conforms("cpu", &settings("cpu")?)),
        Trial::test("null", || {
            let mut settings = settings("null")?;
            settings
                .configuration
                .insert("script".into(), "[[device]]".into());
            conforms("null", &settings)
        }),
    ];
    for soc in ["30", "43", "57"] {
        let name = format!("qnn/soc-{soc}");
        trials.push(Trial::test(name.clone(), move || {
            conforms(&name, &qnn(soc, false)?)
        }));
    }
    trials.push(Trial::test("qnn/registered", || {
        conforms("qnn/registered", &qnn_registered()?)
    }));
    trials.push(Trial::test("qnn/soc-57-reduced", || {
        conforms("qnn/soc-57-reduced", &qnn("57", true)?)
    }));
    trials.push(Trial::test("neuron", || {
        conforms("neuron", &emulated("neuron", false)?)
    }));
    trials.push(Trial::test("neuron-reduced", || {
        conforms("neuron-reduced", &emulated("neuron", true)?)
    }));
    for (name, device, reduced) in [
        ("coreml/ane", 0, false),
        ("coreml/ane-reduced", 0, true),
        ("coreml/gpu", 1, false),
    ] {
        trials.push(Trial::test(name, move || {
            conforms(name, &coreml(device, reduced)?)
        }));
    }
    match std::env::var_os("QNN_LIB_DIR")
        .map(PathBuf::from)
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        // its answers are one chip's per process: each trial has child processes of its own
        Some(folder) => trials.extend(["30", "43", "57"].map(|soc| {
            let (folder, name) = (
                folder.display().to_string(),
                format!("qnn/vendor-library/soc-{soc}"),
            );
            Trial::test(name.clone(), move || conforms(&name, &vendors_qnn(&folder, soc)?))
        })),
        None => {
            trials.push(skipped(
                "qnn/vendor-library",
                Need::QnnLibrary,
                "QNN_LIB_DIR is not set",
            ));
        }
    }
    trials.push(Trial::test("rknn/board", || {
        conforms("rknn/board", &rknn("polychip-emulator-rknnrt", "rknnrt")?)
    }));
    trials.push(Trial::test("rknn/connected", || {
        conforms("rknn/connected", &rknn("polychip-emulator-rknn-api", "rknn_api")?)
    }));
    trials.push(Trial::test("rknn/incoherent", || {
        conforms("rknn/incoherent", &rknn_incoherent()?)
    }));
    trials.push(Trial::test("nnrt", || {
        conforms("nnrt", &emulated("nnrt", false)?)
    }));
    trials.push(Trial::test("nnrt-reduced", || {
        conforms("nnrt-reduced", &emulated("nnrt", true)?)
    }));
    trials.push(Trial::test("ascend", || {
        conforms("ascend", &emulated("ascend", true)?)
    }));
    match polychip_device_tests::openvino::library() {
        Ok(folder) => {
            let other = folder.clone();
            let groups = contract();
            trials.push(Trial::test("openvino/ops", move || {
                conforms("openvino/ops", &openvino(&folder, &["ops"], 400)?)
            }));
            trials.push(Trial::test("openvino/contract", move || {
                conforms("openvino/contract", &openvino(&other, &groups, 12)?)
            }));
        }
        Err(why) => trials.push(skipped("openvino", Need::Openvino, &why)),
    }
    match no_gpu() {
        None => {
            trials.push(Trial::test("gpu/ops", || {
                conforms("gpu/ops", &gpu(&["ops"], 400)?)
            }));
            trials.push(Trial::test("gpu/contract", || {
                conforms("gpu/contract", &gpu(&contract(), 12)?)
            }));
        }
        Some(why) => trials.push(skipped("gpu", Need::Vulkan, &why)),
    }
    trials.push(Trial::test("command-line", command_line));
    trials.push(Trial::test("wrong/prints", printing));
    for (way, case, words) in WRONG {
        trials.push(Trial::test(format!("wrong/{way}/{case}"), || {
            caught(way, case, words)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit();
}
