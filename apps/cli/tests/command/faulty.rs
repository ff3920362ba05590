//! Faulty plugins: a fault costs the plugin's devices, never the command. The CPU gives the right
//! outputs, and the text names the plugin and the cause.
//!
//! The plugin is `contract/isolation/examples/deadly.rs`, whose fault a setting or a variable chooses.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use polychip_test_requirements::libraries;

use crate::tool::{Done, library_name, polychip_with, repository, shapes};

/// A device that costs next to nothing, so that the plan gives it all that it offers.
const SCRIPT: &str = "null.script=[[device]]\nname = \"npu\"\nlaunch_ns = 10\n\
                      cost = { fixed_ns = 1, ps_per_mac = 0.001, ps_per_byte = 0.001 }\n";

/// Where a plugin has the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// In a process of its own, as by default.
    Isolated,
    /// In the process of the command: only faults that no process can die of.
    Here,
}

/// A fault, and the command's text about it.
struct Case {
    fault: &'static str,
    /// Whether the fault is harmless enough for the command's own process.
    survives_here: bool,
    more: &'static [&'static str],
    words: &'static [&'static str],
}

const fn deadly(fault: &'static str, words: &'static [&'static str]) -> Case {
    Case {
        fault,
        survives_here: false,
        more: &[],
        words,
    }
}

const fn wrong(fault: &'static str, words: &'static [&'static str]) -> Case {
    Case {
        survives_here: true,
        ..deadly(fault, words)
    }
}

/// Before the plugin's settings are read.
const EARLY: &[Case] = &[
    wrong("query:none", &["returned no table"]),
    wrong("query:major", &["version 99"]),
    deadly("query:segv", &["signal 11 (SIGSEGV)"]),
    deadly("query:exit", &["exited with code 0"]),
    wrong("plugin_info:name", &["Not A Name!"]),
    wrong("plugin_info:long", &["is not lower-case letters"]),
    deadly("plugin_info:abort", &["signal 6 (SIGABRT)"]),
];

const LATER: &[Case] = &[
    wrong("create:null:1+", &["create"]),
    wrong("create:status:1+", &["create"]),
    deadly("create:panic:1+", &["signal 6 (SIGABRT)", "the plugin panics"]),
    deadly("create:exit:1+", &["exited with code 0"]),
    Case {
        more: &["--compile-timeout", "2s"],
        ..deadly("create:loop:1+", &["create did not return within 2s"])
    },
    wrong("device_count:many:1+", &["1000000000 devices"]),
    deadly("device_count:segv:1+", &["signal 11 (SIGSEGV)"]),
    wrong("device_open:null:1+", &["device_open"]),
    deadly("device_open:thread:1+", &["signal 11 (SIGSEGV)"]),
    wrong("device_info:garbage:1+", &[]),
    wrong("query_support:short:1+", &["query_support answered for 1 of"]),
    wrong("query_support:long:1+", &["answered for more than the"]),
    wrong("query_support:garbage:1+", &[]),
    wrong("query_support:status:1+", &["query_support"]),
    deadly("query_support:panic:1+", &["query_support", "the plugin panics"]),
    deadly("query_support:segv:1+", &["query_support", "signal 11 (SIGSEGV)"]),
    Case {
        more: &["--compile-timeout", "2s"],
        ..deadly(
            "query_support:loop:1+",
            &["query_support", "did not return within 2s"],
        )
    },
    wrong("estimate:zero:1+", &["0 ns for each of"]),
    wrong("estimate:negative:1+", &["-5 as a signed number"]),
    wrong("estimate:nan:1+", &["the bits of a NaN"]),
    wrong("estimate:absurd:1+", &["above the limit of 1 h"]),
    wrong("estimate:long:1+", &["estimated more than the"]),
    wrong("estimate:status:1+", &["estimate"]),
    deadly("estimate:abort:1+", &["estimate", "signal 6 (SIGABRT)"]),
    wrong("compile:null:1+", &["compile"]),
    wrong("compile:status:1+", &["compile"]),
    deadly("compile:abort:1+", &["compile", "signal 6 (SIGABRT)"]),
    Case {
        more: &["--compile-timeout", "2s"],
        ..deadly("compile:loop:1+", &["compile", "did not return within 2s"])
    },
    wrong("load:null:1+", &["load"]),
    deadly("load:segv:1+", &["load", "signal 11 (SIGSEGV)"]),
    wrong("executable_info:garbage:1+", &[]),
    wrong("port_info:small:1+", &["bytes"]),
    wrong("port_info:huge:1+", &["more than any padding explains"]),
    wrong("port_info:rank:1+", &["port 0"]),
    wrong("port_info:alignment:1+", &["alignment"]),
    wrong("blob_bytes:long:1+", &[]),
    wrong("buffer_import:null:1+", &["buffer"]),
    wrong("buffer_import:status:1+", &["buffer"]),
    deadly("buffer_import:segv:1+", &["signal 11 (SIGSEGV)"]),
    wrong("execute:null:1+", &["execute"]),
    wrong("execute:status:1+", &["execute"]),
    deadly("execute:segv:1+", &["execute", "signal 11 (SIGSEGV)"]),
    deadly("execute:panic:1+", &["execute", "the plugin panics"]),
    deadly("execute:exit:1+", &["execute", "exited with code 0"]),
    deadly("execute:thread:1+", &["execute", "signal 11 (SIGSEGV)"]),
    Case {
        more: &["--hang-timeout", "2s"],
        ..deadly("execute:loop:1+", &["execute", "did not return within 2s"])
    },
    deadly("execute:past1m:1+", &["execute", "signal 11 (SIGSEGV)"]),
    Case {
        more: &["--guard-buffers"],
        ..wrong("execute:past4:1+", &[])
    },
    deadly("executable_info:segv:1+", &["load", "signal 11 (SIGSEGV)"]),
    deadly("port_info:abort:1+", &["load", "signal 6 (SIGABRT)"]),
    wrong("fence_timing:garbage:1+", &[]),
    wrong("telemetry:hot:1+", &[]),
];

/// A folder that holds the deadly plugin alone.
fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let built = libraries::example("polychip-isolation", "deadly").unwrap();
    std::os::unix::fs::symlink(built, folder.path().join(library_name("deadly"))).unwrap();
    let path = folder.path().display().to_string();
    (folder, path)
}

/// The program that loads plugins, for all commands of these tests.
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let path = libraries::program("polychip-plugin-host", "polychip-plugin-host").unwrap();
        path.display().to_string()
    })
}

fn command(variables: &[(&str, &str)], arguments: &[&str]) -> Done {
    let mut all = vec![("POLYCHIP_PLUGIN_HOST", program())];
    all.extend(variables);
    polychip_with(&all, arguments)
}

/// Runs the model on a picture; what it printed, and its first output.
fn run(variables: &[(&str, &str)], more: &[&str]) -> (Done, Vec<f32>) {
    let saved = tempfile::tempdir().unwrap();
    let (model, saved_to) = (shapes(), saved.path().display().to_string());
    let mut arguments = vec!["run", &model, "--fill", "3", "--save", &saved_to];
    arguments.extend(more);
    let done = command(variables, &arguments);
    let values = outputs(saved.path());
    (done, values)
}

/// The values of the saved output; none if the command failed.
fn outputs(folder: &Path) -> Vec<f32> {
    let Ok(bytes) = std::fs::read(folder.join("probabilities.npy")) else {
        return Vec::new();
    };
    // version 1 of the format: the header's length, the header, the values
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let values = bytes[10 + header..].chunks_exact(4);
    values
        .map(|value| f32::from_le_bytes(value.try_into().unwrap()))
        .collect()
}

/// What the CPU alone computes.
fn right() -> &'static [f32] {
    static RIGHT: OnceLock<Vec<f32>> = OnceLock::new();
    RIGHT.get_or_init(|| {
        let (done, values) = run(&[], &["--devices", "cpu"]);
        done.ok();
        assert_eq!(values.len(), 12, "one for each class");
        values
    })
}

fn is_right(values: &[f32]) -> bool {
    let right = right();
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * (1.0 + b.abs());
    values.len() == right.len() && values.iter().zip(right).all(near)
}

/// What is wrong with what the command made of the fault; nothing if it is as it must be.
fn failure(plugins: &str, case: &Case, at: At, is_early: bool) -> Option<String> {
    let fault = format!("null.die={}", case.fault);
    let isolate = if at == At::Here { "none" } else { "auto" };
    let mut more = vec!["--plugins", plugins, "--isolate", isolate, "--set", SCRIPT];
    let variables = [("POLYCHIP_DEADLY", case.fault)];
    if !is_early {
        more.extend(["--set", &fault]);
    }
    more.extend(case.more);
    let (done, values) = run(if is_early { &variables } else { &[] }, &more);
    let said = format!("{}\n{}", done.stderr, done.stdout);
    let missing: Vec<&&str> = case.words.iter().filter(|word| !said.contains(**word)).collect();
    let mut wrong = Vec::new();
    if done.code != 0 {
        wrong.push(format!("it ended with code {}", done.code));
    }
    if !is_right(&values) {
        wrong.push(format!("outputs {values:?} instead of {:?}", right()));
    }
    // at another place the same fault may be found by other means
    if !missing.is_empty() && at == At::Isolated {
        wrong.push(format!("it does not say {missing:?}"));
    }
    if !case.words.is_empty() && !said.contains("deadly") && !said.contains("null") {
        wrong.push("it names no plugin".to_owned());
    }
    (!wrong.is_empty()).then(|| format!("{} ({at:?}): {}\n{said}", case.fault, wrong.join("; ")))
}

fn check(cases: &[Case], is_early: bool) {
    let (_held, plugins) = folder();
    let mut failures = Vec::new();
    for case in cases {
        failures.extend(failure(&plugins, case, At::Isolated, is_early));
        if case.survives_here {
            failures.extend(failure(&plugins, case, At::Here, is_early));
        }
    }
    let count = failures.len();
    assert!(
        failures.is_empty(),
        "{count} faults:\n{}",
        failures.join("\n---\n")
    );
}

#[test]
fn fault_before_the_settings_costs_the_plugin() {
    check(EARLY, true);
}

#[test]
fn fault_in_any_call_costs_the_devices_alone() {
    check(LATER, false);
}

#[test]
fn plugin_without_a_fault_is_used() {
    let (_held, plugins) = folder();
    for isolate in ["auto", "none"] {
        let more = ["--plugins", &plugins, "--isolate", isolate, "--set", SCRIPT];
        let (done, values) = run(&[], &more);
        let text = done.ok();
        assert!(text.contains("null:0"), "the plan must use the device: {text}");
        assert!(is_right(&values));
    }
}

/// A plugin that calls a function which no library has.
const UNRESOLVED: &str = "extern int no_such_driver_call(void);\n\
    const void *polychip_plugin_query(unsigned a, unsigned b) { return no_such_driver_call() + a + b ? 0 : 0; }\n";

/// Builds a plugin's library from C.
fn build(folder: &Path, name: &str, source: &str) {
    let file = folder.join("source.c");
    std::fs::write(&file, source).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&folder.join(library_name(name)), &file])
        .output();
    let built = built.expect("a C compiler (cc)");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    std::fs::remove_file(file).unwrap();
}

#[test]
fn library_that_cannot_be_loaded_is_named_with_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(library_name(name));
    let whole = std::fs::read(libraries::example("polychip-isolation", "deadly").unwrap()).unwrap();
    std::fs::write(place("truncated"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(place("text"), "not a library").unwrap();
    build(folder.path(), "unresolved", UNRESOLVED);
    std::fs::write(folder.path().join("libmy-plugin.so"), "").unwrap();
    let plugins = folder.path().display().to_string();
    let words = [
        "it is truncated",
        "not a shared library",
        "undefined symbol: no_such_driver_call",
        "is named like libpolychip_plugin_my.so",
    ];
    for isolate in ["auto", "none"] {
        let (done, values) = run(&[], &["--plugins", &plugins, "--isolate", isolate]);
        for word in words {
            assert!(
                done.stderr.contains(word),
                "{isolate}: {word:?} is not in {}",
                done.stderr
            );
        }
        done.ok();
        assert!(is_right(&values), "{isolate}");
    }
    // initialisers run when the library is opened: only a process of its own survives that
    build(
        folder.path(),
        "initialiser",
        "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n",
    );
    let (done, values) = run(&[], &["--plugins", &plugins]);
    assert!(
        done.stderr
            .contains("signal 6 (SIGABRT) while it loaded the library"),
        "{}",
        done.stderr
    );
    done.ok();
    assert!(is_right(&values));
}

#[test]
fn command_that_measures_tries_plugins_in_another_process_first() {
    let (_held, plugins) = folder();
    let model = shapes();
    let bench = |fault: &str, more: &[&str]| {
        let fault = format!("null.die={fault}");
        let mut arguments = vec!["bench", &model, "--iters", "2", "--warmup", "1"];
        arguments.extend(["--plugins", &plugins, "--set", SCRIPT, "--set", &fault]);
        arguments.extend(more);
        command(&[], &arguments)
    };
    for (fault, words) in [
        ("create:abort:1+", "signal 6 (SIGABRT)"),
        ("device_open:segv:1+", "signal 11 (SIGSEGV)"),
        ("query_support:segv:1+", "null:0 is not used"),
    ] {
        let done = bench(fault, &[]);
        for word in [words, "found by a trial in a process of its own"] {
            assert!(
                done.stderr.contains(word),
                "{fault}: {word:?} is not in {}",
                done.stderr
            );
        }
        assert!(!done.ok().contains("null:0"), "{fault}");
    }
    let done = bench("none", &[]);
    assert!(done.ok().contains("null:0"), "the plan must use the device");
    // what hangs after that hangs in the command's own process
    let done = bench("load:loop:1+", &["--compile-timeout", "1s"]);
    assert_ne!(done.code, 0);
    for word in [
        "load of",
        "did not return within 1 s (--compile-timeout)",
        "runs in this process",
    ] {
        assert!(done.stderr.contains(word), "{word:?} is not in {}", done.stderr);
    }
}

#[test]
fn plan_and_list_of_devices_survive_a_faulty_plugin() {
    let (_held, plugins) = folder();
    let model = shapes();
    let more = ["--plugins", &plugins, "--set", SCRIPT];
    let with = |fault: &str, command_line: &[&str]| {
        let fault = format!("null.die={fault}");
        let mut arguments = command_line.to_vec();
        arguments.extend(more);
        arguments.extend(["--set", &fault]);
        command(&[], &arguments)
    };
    let done = with("query_support:segv:1+", &["partition", &model]);
    assert!(done.stderr.contains("null:0 is not used"), "{}", done.stderr);
    done.ok();
    let done = with("telemetry:hot:1+", &["devices"]);
    assert_eq!(
        done.stderr.matches("a temperature of 9000.0 °C").count(),
        1,
        "{}",
        done.stderr
    );
    assert!(!done.ok().contains("9000"));
    let done = with("telemetry:segv:1+", &["devices"]);
    done.ok();
}

#[test]
fn guard_bytes_name_plugin_part_and_tensor() {
    let (_held, plugins) = folder();
    let fault = "null.die=execute:past4:1+";
    let more = [
        "--plugins",
        &plugins,
        "--isolate",
        "none",
        "--set",
        SCRIPT,
        "--set",
        fault,
    ];
    let (done, values) = run(&[], &[&more[..], &["--guard-buffers"]].concat());
    for word in [
        "null:0 is not used any more: its plugin null broke the contract",
        "wrote 4 bytes behind the end of tensor",
        "part ",
    ] {
        assert!(done.stderr.contains(word), "{word:?} is not in {}", done.stderr);
    }
    done.ok();
    assert!(is_right(&values));
}

#[test]
fn setting_of_a_plugin_that_does_not_exist_names_the_nearest() {
    let (_held, plugins) = folder();
    let done = command(&[], &["devices", "--plugins", &plugins, "--set", "nul.script="]);
    let words = "there is no plugin nul; did you mean null?";
    assert!(done.stderr.contains(words), "{}", done.stderr);
    done.ok();
}

#[test]
fn devices_lists_how_a_plugin_process_is_confined() {
    let (_held, folder) = folder();
    let devices = |more: &[&str]| {
        let mut arguments = vec!["devices", "--plugins", &folder, "--set", SCRIPT, "--json"];
        arguments.extend(more);
        let value = command(&[], &arguments).json("devices");
        let mut all = value["devices"].as_array().unwrap().iter();
        let npu = all.find(|device| device["name"] == "null:0").unwrap();
        npu["plugin"]["process"].clone()
    };
    let process = devices(&["--isolate", "all"]);
    let count = |list: &str| process[list].as_array().unwrap().len();
    assert_eq!(count("confined_by") + count("not_confined_by"), 2, "{process}");
    let process = devices(&["--isolate", "all", "--sandbox", "no"]);
    assert_eq!(process["confined_by"], serde_json::json!([]));
    assert!(devices(&["--isolate", "none"]).is_null());
    let text = command(
        &[],
        &[
            "devices",
            "--plugins",
            &folder,
            "--set",
            SCRIPT,
            "--isolate",
            "all",
        ],
    )
    .ok();
    assert!(text.contains("in a process of its own, "), "{text}");
}

/// The table of mistakes in the guide for plugin authors: each row, by words of its message, and what the command shows
/// of that mistake.
#[test]
fn guide_lists_common_mistakes_with_their_messages() {
    let guide = std::fs::read_to_string(repository().join("docs/adding-a-plugin.md")).unwrap();
    let (_, table) = guide.split_once("\n## Common mistakes\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let rows: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .collect();

    let (_held, plugins) = folder();
    let said = |done: Done| format!("{}\n{}", done.stderr, done.stdout);
    let early = |fault: &str| said(run(&[("POLYCHIP_DEADLY", fault)], &["--plugins", &plugins]).0);
    let later = |fault: &str, more: &[&str]| {
        let fault = format!("null.die={fault}");
        let all = ["--plugins", &plugins, "--set", SCRIPT, "--set", &fault];
        said(run(&[], &[&all[..], more].concat()).0)
    };
    let devices = |more: &[&str]| {
        let listed = ["devices", "--plugins", &plugins];
        said(command(&[], &[&listed[..], more].concat()))
    };
    let scripted = |command: &str, script: &str| {
        let (model, script) = (shapes(), format!("null.script=[[device]]\n{script}\n"));
        let mut arguments = vec![command, &model, "--plugins", &plugins, "--set", &script];
        if command == "run" {
            arguments.extend(["--fill", "1"]);
        }
        said(self::command(&[], &arguments))
    };
    let hung = || {
        let (model, script) = (
            shapes(),
            "null.script=[[device]]\ncost = { fixed_ns = 1 }\nfault = [{ kind = \"stuck\", at = 1 }]\n",
        );
        let run = [
            "run",
            &model,
            "--plugins",
            &plugins,
            "--set",
            script,
            "--fill",
            "1",
        ];
        said(self::command(
            &[],
            &[&run[..], &["--hang-timeout", "500ms"]].concat(),
        ))
    };
    let own = tempfile::tempdir().unwrap();
    std::fs::write(own.path().join("libmy_npu-plugin.so"), "").unwrap();
    build(own.path(), "unresolved", UNRESOLVED);
    let own = said(self::command(
        &[],
        &["devices", "--plugins", own.path().to_str().unwrap()],
    ));
    let refuses = "cost = { fixed_ns = 1 }\nrefuse_compile = [{ node = \"*\", code = 6001, detail = \"graph finalize failed\" }]";
    let cases = [
        (
            "the library of a plugin is named like libpolychip_plugin_my_npu.so",
            own.clone(),
        ),
        ("undefined symbol: ", own),
        ("(it returned no table)", early("query:none")),
        (
            "its table lacks required calls: execute",
            early("query:incomplete"),
        ),
        (":0 is not used", later("query_support:status:1+", &[])),
        (
            "query_support answered for ",
            later("query_support:short:1+", &[]),
        ),
        (
            ": graph finalize failed (vendor code 6001)",
            scripted("run", refuses),
        ),
        ("a time of 0 ns for each of ", later("estimate:zero:1+", &[])),
        (" bytes, it states 1", later("port_info:small:1+", &[])),
        (
            "wrote 4 bytes behind the end of tensor",
            later("execute:past4:1+", &["--isolate", "none", "--guard-buffers"]),
        ),
        ("signal 6 (SIGABRT)", later("create:panic:1+", &[])),
        (
            "did not return within ",
            later("execute:loop:1+", &["--hang-timeout", "2s"]),
        ),
        ("the run takes longer than ", hung()),
        (
            "reports a temperature of 9000.0 °C, which no chip has; it counts as unknown",
            devices(&["--set", SCRIPT, "--set", "null.die=telemetry:hot:1+"]),
        ),
        (
            "there is no plugin ",
            said(self::command(
                &[],
                &["devices", "--plugins", &plugins, "--set", "nul.script="],
            )),
        ),
        (":0: dearer: +", scripted("explain", "launch_ns = 900000000")),
    ];
    for (words, text) in &cases {
        let row = rows.iter().filter(|row| row.contains(words)).count();
        assert_eq!(row, 1, "{words:?} is in {row} rows of the table");
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    assert_eq!(rows.len(), cases.len(), "each row has its case");
}
