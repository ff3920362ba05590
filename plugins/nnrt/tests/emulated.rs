//! The nnrt plugin through the host, on the emulated runtime: answers, runs, blobs, faults, what lives at the end.

#![allow(unsafe_code, reason = "exports of the emulator's own are called")]

use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_graph::Graph;
use polychip_host::{CompileOptions, Device, ErrorKind, Executable, FlatGraph, Host, Submission};
use polychip_parts::{buffers, floats, load, numbers, read, relu_of_sum, write};
use polychip_test_requirements::libraries;

const PATIENCE: Duration = Duration::from_secs(60);

fn emulator() -> PathBuf {
    libraries::library("polychip-emulator-nnrt", "neural_network_runtime").unwrap()
}

/// The emulated runtime, whose faults and counts are the process's: one test at a time.
struct Runtime {
    library: libloading::Library,
    _turn: MutexGuard<'static, ()>,
}

impl Runtime {
    fn new() -> Runtime {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: an emulator of this repository.
        let library = unsafe { libloading::Library::new(emulator()) }.unwrap();
        let runtime = Runtime { library, _turn: turn };
        runtime.faults("");
        runtime
    }

    fn faults(&self, rules: &str) {
        type Set = unsafe extern "C" fn(*const c_char) -> i32;
        let text = CString::new(rules).unwrap();
        // SAFETY: the export has this type.
        let set = unsafe { self.library.get::<Set>("polychip_nnrt_faults") }.unwrap();
        // SAFETY: the text ends with a zero byte.
        assert!(unsafe { set(text.as_ptr()) } >= 0, "{rules:?}");
    }

    /// Descriptions, models, compilations, executors, tensors and encodings that live.
    fn live(&self) -> [u64; 6] {
        // SAFETY: the export has this type.
        let live = unsafe {
            self.library
                .get::<extern "C" fn(u32) -> u64>("polychip_nnrt_live")
        }
        .unwrap();
        [0, 1, 2, 3, 4, 5].map(|kind| live(kind))
    }
}

fn host(folder: &Path, settings: &[(&str, &str)]) -> Host {
    let mut builder = Host::builder().configure("nnrt", "lib_dir", folder.display().to_string());
    for (key, value) in settings {
        builder = builder.configure("nnrt", key, (*value).to_owned());
    }
    builder.linked(polychip_nnrt::query).build()
}

fn device(settings: &[(&str, &str)]) -> (Host, Device) {
    let host = host(emulator().parent().unwrap(), settings);
    let device = host.devices().first().cloned();
    let device = device.unwrap_or_else(|| panic!("{:?}", host.refusals()));
    (host, device)
}

/// Four numbers through a part of one input and one output.
fn run(device: &Device, executable: &Executable, x: [f32; 4]) -> Result<Vec<f32>, ErrorKind> {
    let mut submission = Submission::new(executable, 0);
    let held = buffers(device, executable, &mut submission);
    write(&held[0], &floats(&x));
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence.wait(PATIENCE).map_err(|error| error.kind())?;
    Ok(numbers(&read(&held[1], 16)).to_vec())
}

fn compiled(device: &Device, graph: &Graph) -> Vec<u8> {
    let flat = FlatGraph::new(graph, &[]).unwrap();
    let mut blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    blob.bytes().unwrap().to_vec()
}

#[test]
fn missing_runtime_and_wrong_setting_are_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let words = format!("{:?}", host(folder.path(), &[]).refusals());
    for part in ["libneural_network_runtime.so", "NNRT_LIB_DIR", "HarmonyOS"] {
        assert!(words.contains(part), "{words} does not say {part}");
    }
    let _runtime = Runtime::new();
    let wrong = host(emulator().parent().unwrap(), &[("performance", "fast")]);
    let words = format!("{:?}", wrong.refusals());
    assert!(words.contains("fast") && words.contains("extreme"), "{words}");
}

#[test]
fn npu_of_the_runtime_is_chosen_and_marked_emulated() {
    let _runtime = Runtime::new();
    let library = polychip_sys::nnrt::Library::open(emulator().parent()).unwrap();
    assert!(library.says_it_emulates());
    let (host, device) = device(&[]);
    assert_eq!(host.devices().len(), 1);
    let info = device.info();
    assert!(
        info.emulated && info.driver.contains("NPU (emulated)"),
        "{}",
        info.driver
    );
    assert!(info.name.ends_with("NPU, emulated"), "{}", info.name);
    assert!(info.imports_memory_files);
    let executable = load(&device, &relu_of_sum());
    let mut submission = Submission::new(&executable, 0);
    let _held = buffers(&device, &executable, &mut submission);
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence.wait(PATIENCE).unwrap();
    assert_eq!(fence.timing().unwrap().span_ns, None);
}

#[test]
fn warm_run_makes_no_tensor_and_follows_changed_bindings() {
    let runtime = Runtime::new();
    let (_host, device) = device(&[]);
    let executable = load(&device, &relu_of_sum());
    let mut submission = Submission::new(&executable, 0);
    let held = buffers(&device, &executable, &mut submission);
    let tensors = || runtime.live()[4];
    let mut warm = 0;
    for (number, x) in [1.0f32, 2.0, -9.0].into_iter().enumerate() {
        write(&held[0], &floats(&[x; 4]));
        let fence = executable.execute(&mut submission, &[]).unwrap();
        fence.wait(PATIENCE).unwrap();
        assert_eq!(numbers(&read(&held[1], 16))[0], (x + 1.0).max(0.0));
        if number == 0 {
            warm = tensors();
        }
        assert_eq!(tensors(), warm);
    }
    // other memory at the same ports
    assert_eq!(run(&device, &executable, [4.0; 4]).unwrap()[0], 5.0);
    assert!(tensors() > warm);
}

#[test]
fn cached_bytes_load_and_runtime_without_export_rebuilds() {
    let runtime = Runtime::new();
    let (_host, device) = device(&[]);
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let bytes = compiled(&device, &graph);
    device.load_bytes(bytes.clone().into(), &flat, 1).unwrap();
    for at in [0, 20, bytes.len() / 2, bytes.len() - 1] {
        let mut torn = bytes.clone();
        torn[at] ^= 1;
        let refused = device.load_bytes(torn.into(), &flat, 1).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BadBlob, "byte {at}");
    }
    // as drivers of other chips do: unsupported
    runtime.faults("export:*=10");
    let kept = compiled(&device, &graph);
    runtime.faults("import:*=1");
    let loaded = device.load_bytes(kept.into(), &flat, 1).unwrap();
    assert_eq!(run(&device, &loaded, [1.0; 4]).unwrap(), [2.0, 0.0, 1.5, 0.0]);
    let refused = device.load_bytes(bytes.into(), &flat, 1).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadBlob);
    runtime.faults("");
}

#[test]
fn refusal_of_the_runtime_is_reported_in_its_name() {
    let runtime = Runtime::new();
    let (_host, device) = device(&[]);
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    runtime.faults("available:op=1=error:1");
    let answers = device.query_support(&flat).unwrap();
    runtime.faults("");
    // the sum, not the Relu
    assert_eq!(
        (answers[0].reason, answers[1].reason),
        (13, 0),
        "{}",
        answers[0].detail
    );
    assert!(answers[0].detail.contains("says no"), "{}", answers[0].detail);
}

#[test]
fn runtime_without_verdicts_is_probed_by_trial_builds() {
    let runtime = Runtime::new();
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let reasons = |faults: &str| {
        runtime.faults(faults);
        let (_host, device) = device(&[]);
        let answers = device.query_support(&flat).unwrap();
        runtime.faults("");
        answers
            .iter()
            .map(|answer| (answer.reason, answer.detail.to_string()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        reasons("available:*=wrong"),
        reasons(""),
        "what builds is supported"
    );

    // the model of both operations does not build, nor does the sum alone
    let refused = reasons("available:*=wrong;build:op=1=error:1");
    assert_eq!((refused[0].0, refused[1].0), (13, 0), "{refused:?}");
    assert!(refused[0].1.contains("a trial build fails"), "{refused:?}");

    runtime.faults("available:*=wrong");
    let (_host, device) = device(&[]);
    let executable = load(&device, &graph);
    assert_eq!(run(&device, &executable, [3.0; 4]).unwrap(), [4.0, 2.0, 3.5, 0.0]);
    runtime.faults("");
}

#[test]
fn library_faults_have_the_right_kind_and_leak_nothing() {
    let runtime = Runtime::new();
    let before = runtime.live();
    {
        let (_host, device) = device(&[]);
        let graph = relu_of_sum();
        let flat = FlatGraph::new(&graph, &[]).unwrap();
        let (x, right) = ([3.0; 4], vec![4.0, 2.0, 3.5, 0.0]);
        let executable = load(&device, &graph);
        assert_eq!(run(&device, &executable, x).as_ref(), Ok(&right));

        // a compiler that refuses what it said yes to
        runtime.faults("build:1=1");
        let refused = device.compile(&flat, &CompileOptions::default()).map(drop);
        let refused = refused.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.vendor_code()),
            (ErrorKind::Unsupported, 1)
        );
        assert!(
            refused.to_string().contains("OH_NNCompilation_Build"),
            "{refused}"
        );

        // a run that fails leaves the device as it was, and so does memory that is not mapped
        for rule in ["run:1=1", "tensor:1=3"] {
            let fresh = load(&device, &graph);
            runtime.faults(rule);
            assert!(run(&device, &fresh, x).is_err(), "{rule}");
            assert_eq!(run(&device, &fresh, x).as_ref(), Ok(&right), "{rule}");
        }

        // the chip is lost: everything is made anew
        runtime.faults("run:1=lost");
        assert_eq!(run(&device, &executable, x), Err(ErrorKind::DeviceLost));
        device.reset().unwrap();
        assert_eq!(run(&device, &load(&device, &graph), x).as_ref(), Ok(&right));

        // a run that hangs is left behind
        let executable = load(&device, &graph);
        runtime.faults("run:1=hang");
        let mut submission = Submission::new(&executable, 0);
        let _held = buffers(&device, &executable, &mut submission);
        let fence = executable.execute(&mut submission, &[]).unwrap();
        let late = fence.wait(Duration::from_millis(100)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Timeout);
        device.reset().unwrap();
        assert!(fence.wait(Duration::from_secs(10)).is_err());
        runtime.faults("");
        assert_eq!(run(&device, &load(&device, &graph), x).as_ref(), Ok(&right));
    }
    // the run that hung ends in its own time
    for _ in 0..100 {
        if runtime.live() == before {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(runtime.live(), before);
}
