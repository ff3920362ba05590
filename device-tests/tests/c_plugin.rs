//! The C plugin of `examples/c-plugin`, built as a vendor builds it: from a copy of its folder and the
//! committed header alone, by the one command of its README.
//!
//! Rust links by a C compiler, so there is one; without one of C++, or a sanitizer's library, the tests that need it are
//! reported as skipped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use polychip_device_tests::{Need, left_out, libraries, paths, skipped};
use polychip_graph::{Constant, Graph, Node, Tensor, TensorId};
use polychip_host::{Access, Buffer, CompileOptions, Device, ErrorKind, FlatGraph, Host, Memory, Submission};
use polychip_ops::{DType, Op, TensorType};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

fn main() {
    let arguments = Arguments::from_args();
    if !cfg!(all(target_os = "linux", target_pointer_width = "64")) {
        let trial = left_out("c_plugin", "the README's command is for 64-bit Linux");
        libtest_mimic::run(&arguments, vec![trial]).exit();
    }
    let trial = |name: &str, missing: Option<(Need, String)>, test: fn()| match missing {
        Some((need, why)) => skipped(name, need, &why),
        None => Trial::test(name, move || {
            test();
            Ok(())
        }),
    };
    let no_cpp = (!has("c++")).then(|| (Need::Cpp, "no C++ compiler (c++)".to_owned()));
    let no_sanitizer = |names: &'static str| {
        let missing = (!sanitizes(names)).then(|| format!("no -fsanitize={names} here"));
        missing.map(|why| (Need::Sanitizers, why))
    };
    let no_runtimes = runtimes().err().map(|why| (Need::Sanitizers, why));
    let trials = vec![
        trial("it_answers_as_the_cpu_does", None, it_answers_as_the_cpu_does),
        trial(
            "what_it_cannot_do_it_refuses_with_a_reason",
            None,
            what_it_cannot_do_it_refuses_with_a_reason,
        ),
        trial(
            "its_memory_is_clean_and_nothing_leaks",
            no_sanitizer(MEMORY),
            || sanitized(MEMORY),
        ),
        trial("its_threads_do_not_race", no_sanitizer(THREADS), || {
            sanitized(THREADS)
        }),
        trial(
            "the_export_of_a_plugin_in_cpp_is_found",
            no_cpp,
            the_export_of_a_plugin_in_cpp_is_found,
        ),
        trial(
            "the_conformance_suite_passes_it",
            None,
            the_conformance_suite_passes_it,
        ),
        trial(
            "the_conformance_suite_finds_no_misuse_of_memory",
            no_runtimes,
            the_conformance_suite_finds_no_misuse_of_memory,
        ),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

/// The sanitizers of memory.
const MEMORY: &str = "address,undefined";
/// The sanitizer of threads.
const THREADS: &str = "thread";

/// Whether a program answers.
fn has(program: &str) -> bool {
    let answer = Command::new(program).arg("--version").output();
    answer.is_ok_and(|output| output.status.success())
}

/// Whether the C compiler has these sanitizers, and what it makes with them runs.
fn sanitizes(names: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("probe.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let built = Command::new("cc")
        .arg(format!("-fsanitize={names}"))
        .arg(&source)
        .args(["-o", "probe"])
        .current_dir(folder.path())
        .output();
    let ran = || Command::new(folder.path().join("probe")).output();
    built.is_ok_and(|output| output.status.success()) && ran().is_ok_and(|output| output.status.success())
}

/// Libraries of the sanitizers of memory, to be loaded before a program's own.
fn runtimes() -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for name in ["libasan.so", "libubsan.so"] {
        let said = Command::new("cc")
            .arg(format!("-print-file-name={name}"))
            .output()
            .map_err(|error| format!("cc: {error}"))?;
        let path = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        if !Path::new(&path).is_absolute() {
            return Err(format!("cc has no {name}"));
        }
        found.push(path);
    }
    Ok(found)
}

fn header() -> PathBuf {
    paths::root().join("contract/abi/include/polychip_plugin.h")
}

/// The plugin's files and the header, alone in a folder outside the repository.
fn copied() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(paths::root().join("examples/c-plugin")).unwrap() {
        let file = entry.unwrap().path();
        std::fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
    }
    std::fs::copy(header(), folder.path().join("polychip_plugin.h")).unwrap();
    folder
}

/// The command that the README gives, word for word.
fn command_of_readme(folder: &Path) -> String {
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let commands: Vec<&str> = readme.lines().filter(|line| line.starts_with("cc ")).collect();
    assert_eq!(commands.len(), 1, "one command builds it");
    commands[0].to_owned()
}

/// The folder with the library built in it.
fn built() -> tempfile::TempDir {
    let folder = copied();
    let output = Command::new("sh")
        .args(["-c", &command_of_readme(folder.path())])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    folder
}

/// The C plugin's device and the CPU, in one host.
fn devices(folder: &Path) -> (Device, Device) {
    let host = Host::builder()
        .folder(folder)
        .linked(polychip_sdk::plugin_query::<polychip_cpu::CpuPlugin>)
        .build();
    assert_eq!(host.refusals(), []);
    let named = |name: &str| {
        let found = host.devices().iter().find(|device| device.name() == name);
        found.unwrap_or_else(|| panic!("no device {name}")).clone()
    };
    (named("acme:0"), named("cpu:0"))
}

/// Random numbers, the same each time.
struct Numbers(ChaCha8Rng);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    /// Floats with both signs, halves and zeros among them.
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count)
            .flat_map(|_| ((self.below(41) as f32 - 20.0) / 2.0).to_le_bytes())
            .collect()
    }
}

/// A graph of Identity, Relu and Add over shapes that broadcast to one of rank up to 4; an extent may be 0.
fn random_graph(numbers: &mut Numbers) -> Graph {
    let mut graph = Graph::new("random");
    let rank = numbers.below(5);
    let full: Vec<usize> = (0..rank)
        .map(|_| [0, 1, 2, 3, 3, 4, 5][numbers.below(7)])
        .collect();
    let mut known: Vec<(TensorId, Vec<usize>)> = Vec::new();
    for index in 0..3 {
        let dropped = numbers.below(rank + 1);
        let shape: Vec<usize> = full[dropped..]
            .iter()
            .map(|extent| if numbers.below(3) == 0 { 1 } else { *extent })
            .collect();
        let ty = TensorType::known(DType::F32, &shape);
        let name = format!("in{index}");
        let tensor = if index == 2 {
            let data = Constant::new(numbers.bytes(shape.iter().product()));
            graph.add_tensor(Tensor::constant(name, ty, data))
        } else {
            let tensor = graph.add_tensor(Tensor::new(name, ty));
            graph.inputs.push(tensor);
            tensor
        };
        known.push((tensor, shape));
    }
    for index in 0..1 + numbers.below(6) {
        let pick = |numbers: &mut Numbers| known[numbers.below(known.len())].clone();
        let op = [Op::Identity, Op::Relu, Op::Add, Op::Add][numbers.below(4)];
        let (left, right) = (pick(numbers), pick(numbers));
        let (operands, shape) = if op == Op::Add {
            (vec![left.0, right.0], broadcast(&left.1, &right.1))
        } else {
            (vec![left.0], left.1)
        };
        let result = graph.add_tensor(Tensor::new(
            format!("t{index}"),
            TensorType::known(DType::F32, &shape),
        ));
        let operands = operands.into_iter().map(Some).collect();
        graph.add_node(Node::new(op, operands, vec![Some(result)]).named(format!("n{index}")));
        known.push((result, shape));
    }
    // the last one, and perhaps one in the middle that others read too
    graph.outputs = vec![known[known.len() - 1].0];
    if known.len() > 5 {
        graph.outputs.push(known[3].0);
    }
    graph
}

/// The shape that NumPy's rules make of two, each extent of which is 1 or the larger shape's.
fn broadcast(left: &[usize], right: &[usize]) -> Vec<usize> {
    let rank = left.len().max(right.len());
    let extent = |shape: &[usize], axis: usize| {
        let missing = rank - shape.len();
        axis.checked_sub(missing).map_or(1, |axis| shape[axis])
    };
    (0..rank)
        .map(|axis| match (extent(left, axis), extent(right, axis)) {
            (1, other) | (other, _) => other,
        })
        .collect()
}

/// Runs a part on a device, once from its blob and once from the blob's bytes; both answer the same.
fn answers(device: &Device, graph: &Graph, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let flat = FlatGraph::new(graph, &[]).unwrap();
    for (node, support) in device.query_support(&flat).unwrap().iter().enumerate() {
        assert_eq!(
            support.reason,
            0,
            "{} refuses node {node}: {}",
            device.name(),
            support.detail
        );
    }
    let mut blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let bytes = blob.bytes().unwrap().to_vec();
    let fresh = device.load(blob, &flat, 1).unwrap();
    let cached = device.load_bytes(bytes.into(), &flat, 1).unwrap();
    let mut both = Vec::new();
    for executable in [fresh, cached] {
        let mut submission = Submission::new(&executable, 1);
        let mut buffers = Vec::new();
        for (number, port) in executable.ports().iter().enumerate() {
            let buffer = if number % 2 == 0 {
                device.import_buffer(&Memory::new(port.bytes).unwrap())
            } else {
                device.create_buffer(port.bytes, port.alignment)
            };
            let buffer: Arc<Buffer> = Arc::new(buffer.unwrap());
            submission.bind(number as u32, &buffer, 0).unwrap();
            buffers.push(buffer);
        }
        for (buffer, bytes) in buffers.iter().zip(inputs) {
            let mut access = buffer.access(Access::Write, 0, bytes.len() as u64).unwrap();
            access.copy_from_slice(bytes);
        }
        let first = executable.execute(&mut submission, &[]).unwrap();
        first.wait(Duration::from_secs(60)).unwrap();
        let second = executable.execute(&mut submission, &[&first]).unwrap();
        second.wait(Duration::from_secs(60)).unwrap();
        let span = second.timing().unwrap().span_ns;
        assert!(span.is_some_and(|(start, end)| start <= end), "{span:?}");
        let outputs = buffers[inputs.len()..].iter().map(|buffer| {
            let access = buffer.access(Access::Read, 0, buffer.bytes()).unwrap();
            access.to_vec()
        });
        both.push(outputs.collect::<Vec<_>>());
    }
    assert_eq!(
        both[0],
        both[1],
        "{}: a cached blob answers otherwise",
        device.name()
    );
    both.swap_remove(0)
}

fn it_answers_as_the_cpu_does() {
    let folder = built();
    let (acme, cpu) = devices(folder.path());
    let mut numbers = Numbers(ChaCha8Rng::seed_from_u64(7));
    let mut compared = 0;
    for _ in 0..200 {
        let graph = random_graph(&mut numbers);
        let inputs: Vec<Vec<u8>> = graph
            .inputs
            .iter()
            .map(|id| {
                let shape = graph.tensor(*id).ty.shape.as_ref().unwrap();
                let count = shape.iter().map(|dim| dim.known().unwrap()).product();
                numbers.bytes(count)
            })
            .collect();
        let (mine, theirs) = (answers(&acme, &graph, &inputs), answers(&cpu, &graph, &inputs));
        // + and max of halves are exact, and the sign of zero is not asked
        let floats = |outputs: &[Vec<u8>]| -> Vec<f32> {
            let bytes = outputs.iter().flat_map(|bytes| bytes.chunks_exact(4));
            bytes
                .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
                .collect()
        };
        assert_eq!(floats(&mine), floats(&theirs), "{graph:?}");
        compared += floats(&mine).len();
    }
    assert!(compared > 1000, "{compared} elements were compared");
}

fn what_it_cannot_do_it_refuses_with_a_reason() {
    let folder = built();
    let (acme, _) = devices(folder.path());
    let asked = |op: Op, dtype: DType, left: &[usize], right: &[usize]| {
        let mut graph = Graph::new("refused");
        let mut tensor = |name: &str, sizes: &[usize]| {
            graph.add_tensor(Tensor::new(name, TensorType::known(dtype, sizes)))
        };
        let (x, y, sum) = (tensor("x", left), tensor("y", right), tensor("sum", left));
        graph.add_node(Node::new(op, vec![Some(x), Some(y)], vec![Some(sum)]));
        (graph.inputs, graph.outputs) = (vec![x, y], vec![sum]);
        let flat = FlatGraph::new(&graph, &[]).unwrap();
        let answer = acme.query_support(&flat).unwrap().swap_remove(0);
        if answer.reason != 0 {
            let refusal = acme
                .compile(&flat, &CompileOptions::default())
                .map(drop)
                .unwrap_err();
            assert_eq!(refusal.kind(), ErrorKind::Unsupported);
        }
        (answer.reason, answer.detail)
    };
    assert_eq!(asked(Op::Add, DType::F32, &[2, 3], &[3]).0, 0);
    assert_eq!(asked(Op::Mul, DType::F32, &[2, 3], &[3]), (1, "Mul".into()));
    let (code, words) = asked(Op::Add, DType::I64, &[2, 3], &[3]);
    assert!(code == 2 && words.contains('7'), "{code}: {words}");
    assert_eq!(asked(Op::Add, DType::F32, &[2, 3], &[2]).0, 3);
}

/// Builds the plugin and the program of `c_plugin/threads.c` with a sanitizer, and runs it.
fn sanitized(sanitizer: &str) {
    let folder = copied();
    let flags = [
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-g",
        "-O1",
        "-fno-sanitize-recover=all",
        "-pthread",
        "-I.",
    ];
    let compile = |sources: &[PathBuf], to: &str| {
        Command::new("cc")
            .args(flags)
            .arg(format!("-fsanitize={sanitizer}"))
            .args(sources)
            .args(["-o", to])
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let mut sources = vec![paths::root().join("device-tests/tests/c_plugin/threads.c")];
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "c") {
            sources.push(file);
        }
    }
    let built = compile(&sources, "threads");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let run = Command::new(folder.path().join("threads")).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let words = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("passed"), "{words}");
}

fn the_export_of_a_plugin_in_cpp_is_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(header(), folder.path().join("polychip_plugin.h")).unwrap();
    let source = "#include \"polychip_plugin.h\"\n\
        const polychip_plugin_table *polychip_plugin_query(uint32_t, uint32_t) { return nullptr; }\n";
    std::fs::write(folder.path().join("plugin.cpp"), source).unwrap();
    let output = Command::new("c++")
        .args(["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fPIC"])
        .args([
            "-fvisibility=hidden",
            "-shared",
            "-o",
            "libpolychip_plugin_cpp.so",
            "plugin.cpp",
        ])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let host = Host::builder().folder(folder.path()).build();
    let refusals = host.refusals();
    assert!(
        refusals.len() == 1 && refusals[0].reason.contains("returned no table"),
        "{refusals:?}"
    );
}

/// The cases of the conformance suite with one of these tags, on a library: none may fail.
fn conforms(library: &Path, tags: &[&str], environment: &[(&str, String)]) {
    let suite = libraries::program("polychip-conformance", "polychip-conform").unwrap();
    let judged = Command::new(suite)
        .arg(library)
        .args(tags.iter().flat_map(|tag| ["--tags", tag]))
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&judged.stdout);
    let words = String::from_utf8_lossy(&judged.stderr);
    // what the plugin does not offer (sensors, a reset) is skipped with a message; what it offers is right
    let passed = said
        .lines()
        .find_map(|line| line.strip_prefix("acme conforms: ")?.split(' ').next());
    let passed: usize = passed.and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(
        judged.status.success() && passed >= 50 && said.contains(" 0 failed"),
        "{said}{words}"
    );
}

fn the_conformance_suite_passes_it() {
    let folder = built();
    conforms(&folder.path().join("libpolychip_plugin_acme.so"), &["basic"], &[]);
}

fn the_conformance_suite_finds_no_misuse_of_memory() {
    let folder = copied();
    let command = command_of_readme(folder.path()).replace(
        "-shared",
        "-shared -g -fsanitize=address,undefined -fno-sanitize-recover=all",
    );
    let output = Command::new("sh")
        .args(["-c", &command])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // the suite never unloads a library, and lets go of what it knows of it: that is no leak of the plugin
    let options = "detect_leaks=0:allocator_may_return_null=1";
    let environment = [
        // a sanitizer in a library only needs its runtime loaded before the program's own
        ("LD_PRELOAD", runtimes().unwrap().join(":")),
        ("ASAN_OPTIONS", options.to_owned()),
    ];
    // not `leaks`: the sanitizer keeps what is freed for a while, which looks like growth
    let tags = [
        "discovery",
        "support",
        "compile",
        "buffers",
        "fences",
        "deny",
        "destroy",
        "concurrency",
        "errors",
    ];
    let library = folder.path().join("libpolychip_plugin_acme.so");
    conforms(&library, &tags, &environment);
}
