//! The coreml plugin on the emulated Core ML: devices, answers, what goes wrong below, and what is left behind.
//!
//! Invariant: faults and counts are the process's, so each test holds the system for itself.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_graph::Graph;
use polychip_host::{CompileOptions, Device, DeviceKind, ErrorKind, Executable, FlatGraph, Host, Submission};
use polychip_ops::{DType, Op};
use polychip_parts::{
    binary, buffers, constant, floats, load, node, numbers, read, relu_of_sum, tensor, write,
};
use polychip_test_requirements::libraries;

static TURN: Mutex<()> = Mutex::new(());

/// The emulated system, held by one test at a time.
struct System {
    library: libloading::Library,
    _turn: MutexGuard<'static, ()>,
}

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = libraries::library("polychip-emulator-coreml", "CoreML").unwrap();
    path.parent().unwrap().to_owned()
});

impl System {
    fn new() -> System {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!(
            "{}CoreML{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        );
        // SAFETY: the emulator has no initialisers.
        let library = unsafe { libloading::Library::new(FOLDER.join(name)) }.unwrap();
        let system = System { library, _turn: turn };
        system.faults("");
        system
    }

    fn faults(&self, rules: &str) {
        let rules = CString::new(rules).unwrap();
        // SAFETY: the emulator's own export has this type; the text ends in zero.
        let set = unsafe {
            self.library
                .get::<unsafe extern "C" fn(*const c_char) -> i32>(b"polychip_coreml_set_faults")
                .unwrap()(rules.as_ptr())
        };
        assert!(set >= 0);
    }

    fn count(&self, name: &[u8]) -> usize {
        // SAFETY: the emulator's own exports have this type.
        unsafe { self.library.get::<extern "C" fn() -> usize>(name).unwrap()() }
    }

    fn live(&self) -> usize {
        self.count(b"polychip_coreml_live")
    }

    fn folders(&self) -> usize {
        self.count(b"polychip_coreml_folders")
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.faults("");
    }
}

fn host(precision: &str) -> Host {
    Host::builder()
        .configure("coreml", "lib_dir", FOLDER.display().to_string())
        .configure("coreml", "precision", precision)
        .linked(polychip_coreml::query)
        .build()
}

fn device(host: &Host, kind: DeviceKind) -> Device {
    let found = host.devices().iter().find(|device| device.info().kind == kind);
    found.unwrap_or_else(|| panic!("{:?}", host.refusals())).clone()
}

/// Runs [`relu_of_sum`].
fn sum(device: &Device, executable: &Executable, x: [f32; 4]) -> Result<Vec<f32>, ErrorKind> {
    let mut submission = Submission::new(executable, 1);
    let buffers = buffers(device, executable, &mut submission);
    write(&buffers[0], &floats(&x));
    let fence = executable
        .execute(&mut submission, &[])
        .map_err(|error| error.kind())?;
    fence
        .wait(Duration::from_secs(60))
        .map_err(|error| error.kind())?;
    Ok(numbers(&read(&buffers[1], 16)))
}

fn refusal(device: &Device, graph: &Graph) -> String {
    let flat = FlatGraph::new(graph, &[]).unwrap();
    let support = device.query_support(&flat).unwrap()[0].clone();
    format!("{} {}", support.reason, support.detail)
}

const X: [f32; 4] = [1.0, 0.5, -0.25, 9.0];
const Y: [f32; 4] = [2.0, 0.0, 0.25, 1.0];

#[test]
fn both_units_are_devices_and_the_ane_requires_reduced_precision() {
    let _system = System::new();
    let host = host("exact");
    let (npu, gpu) = (device(&host, DeviceKind::Npu), device(&host, DeviceKind::Gpu));
    for device in [&npu, &gpu] {
        let info = device.info();
        assert!(info.emulated && info.shares_host_memory, "{info:?}");
        assert!(
            info.name.contains("A17 Pro") && info.name.contains("emulated"),
            "{}",
            info.name
        );
    }
    assert!(npu.info().name.contains("16 cores"), "{}", npu.info().name);
    let executable = load(&gpu, &relu_of_sum());
    assert_eq!(sum(&gpu, &executable, X), Ok(Y.to_vec()));
    assert_eq!(
        sum(&gpu, &executable, [-2.0, 3.0, 0.0, 8.0]),
        Ok(vec![0.0, 2.0, 0.5, 0.0])
    );
    let words = refusal(&npu, &relu_of_sum());
    assert!(words.starts_with("2 ") && words.contains("reduced"), "{words}");
    let reduced = self::host("reduced");
    let npu = device(&reduced, DeviceKind::Npu);
    let executable = load(&npu, &relu_of_sum());
    assert_eq!(sum(&npu, &executable, X), Ok(Y.to_vec()));
    // a third is rounded to 16 bits
    let third = sum(&npu, &executable, [1.0 / 3.0; 4]).unwrap();
    assert!(
        (third[0] - 4.0 / 3.0).abs() > 1e-5 && (third[0] - 4.0 / 3.0).abs() < 1e-3,
        "{third:?}"
    );
}

#[test]
fn types_without_an_array_are_refused() {
    let _system = System::new();
    let host = host("exact");
    let gpu = device(&host, DeviceKind::Gpu);
    for (op, dtype, shape, words) in [
        (Op::Add, DType::I64, &[2usize, 2][..], "2 "),
        (Op::Div, DType::I32, &[2, 2], "2 "),
        (Op::BitShift, DType::U8, &[2, 2], "1 "),
        (Op::Add, DType::F32, &[1, 1, 1, 1, 1, 2], "4 "),
    ] {
        let graph = binary(op, dtype, [shape, shape]);
        let answer = refusal(&gpu, &graph);
        assert!(answer.starts_with(words), "{op:?}: {answer}");
    }
}

#[test]
fn library_faults_have_the_right_kind_and_a_reset_recovers() {
    let system = System::new();
    let host = host("reduced");
    let npu = device(&host, DeviceKind::Npu);
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let compile = || npu.compile(&flat, &CompileOptions::default());
    for call in ["compile", "load"] {
        system.faults(&format!("{call}:1=42"));
        let error = compile().map(drop).unwrap_err();
        assert_eq!((error.kind(), error.vendor_code()), (ErrorKind::Unsupported, 42));
        assert!(error.to_string().contains("com.apple.CoreML"), "{error}");
        assert!(compile().is_ok());
    }

    // a node that the Neural Engine would leave to the processor is refused by name
    system.faults("plan:op=relu=1");
    let error = compile().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("relu on the processor"), "{error}");
    system.faults("");

    let executable = load(&npu, &graph);
    system.faults("predict:1=7");
    assert_eq!(sum(&npu, &executable, X), Err(ErrorKind::DeviceLost));
    system.faults("");
    npu.reset().unwrap();
    assert_eq!(sum(&npu, &executable, X), Err(ErrorKind::DeviceLost));
    let executable = load(&npu, &graph);
    assert_eq!(sum(&npu, &executable, X), Ok(Y.to_vec()));

    // the chip restarts: what was loaded before is void
    system.faults("predict:1=lost");
    assert_eq!(sum(&npu, &executable, X), Err(ErrorKind::DeviceLost));
    npu.reset().unwrap();
    assert_eq!(sum(&npu, &load(&npu, &graph), X), Ok(Y.to_vec()));

    // a run that never comes back is left behind
    let executable = load(&npu, &graph);
    system.faults("predict:1=hang");
    let mut submission = Submission::new(&executable, 1);
    let _buffers = buffers(&npu, &executable, &mut submission);
    let fence = executable.execute(&mut submission, &[]).unwrap();
    let timeout = fence.wait(Duration::from_millis(200)).unwrap_err();
    assert_eq!(timeout.kind(), ErrorKind::Timeout);
    npu.reset().unwrap();
    assert_eq!(
        fence.wait(Duration::from_secs(10)).unwrap_err().kind(),
        ErrorKind::DeviceLost
    );
    assert_eq!(sum(&npu, &load(&npu, &graph), X), Ok(Y.to_vec()));
}

#[test]
fn outputs_in_system_memory_are_copied() {
    let system = System::new();
    let host = host("exact");
    let gpu = device(&host, DeviceKind::Gpu);
    let executable = load(&gpu, &relu_of_sum());
    system.faults("backing:*=1");
    assert_eq!(sum(&gpu, &executable, X), Ok(Y.to_vec()));
}

#[test]
fn nothing_leaks() {
    let system = System::new();
    let (objects, folders) = (system.live(), system.folders());
    let packages = || {
        let entries = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        // others may run at the same time
        let own = format!("polychip-{}-", std::process::id());
        let ours = |name: &str| name.starts_with(&own) && name.ends_with(".mlpackage");
        entries
            .filter(|entry| ours(&entry.file_name().to_string_lossy()))
            .count()
    };
    let before = packages();
    {
        let host = host("exact");
        let gpu = device(&host, DeviceKind::Gpu);
        for _ in 0..3 {
            let executable = load(&gpu, &relu_of_sum());
            for _ in 0..5 {
                assert_eq!(sum(&gpu, &executable, X), Ok(Y.to_vec()));
            }
            assert!(system.live() > objects && system.folders() > folders);
        }
        system.faults("load:1=3");
        let graph = relu_of_sum();
        let flat = FlatGraph::new(&graph, &[]).unwrap();
        assert!(gpu.compile(&flat, &CompileOptions::default()).is_err());
    }
    assert_eq!((system.live(), system.folders()), (objects, folders));
    assert!(packages() <= before);
}

#[test]
fn warm_run_makes_no_array() {
    let system = System::new();
    let host = host("exact");
    let gpu = device(&host, DeviceKind::Gpu);
    let executable = load(&gpu, &relu_of_sum());
    let mut submission = Submission::new(&executable, 1);
    let buffers = buffers(&gpu, &executable, &mut submission);
    write(&buffers[0], &floats(&X));
    let mut run = || {
        let fence = executable.execute(&mut submission, &[]).unwrap();
        fence.wait(Duration::from_secs(60)).unwrap();
        system.live()
    };
    let first = run();
    assert!((0..10).all(|_| run() == first));
    assert_eq!(numbers(&read(&buffers[1], 16)), Y);
}

#[test]
fn large_constants_go_to_the_weights_file() {
    let _system = System::new();
    let host = host("exact");
    let gpu = device(&host, DeviceKind::Gpu);
    let mut graph = Graph::new("product");
    let x = tensor(&mut graph, "x", DType::F32, &[1, 4]);
    let values: Vec<f32> = (0..4 * 64).map(|i| i as f32).collect();
    let w = constant(&mut graph, "w", DType::F32, &[4, 64], floats(&values));
    let y = tensor(&mut graph, "y", DType::F32, &[1, 64]);
    node(&mut graph, Op::MatMul, &[x, w], y);
    (graph.inputs, graph.outputs) = (vec![x], vec![y]);
    let executable = load(&gpu, &graph);
    let mut submission = Submission::new(&executable, 1);
    let buffers = buffers(&gpu, &executable, &mut submission);
    write(&buffers[0], &floats(&[0.0, 1.0, 0.0, 2.0]));
    executable
        .execute(&mut submission, &[])
        .unwrap()
        .wait(Duration::from_secs(60))
        .unwrap();
    let expected: Vec<f32> = (0..64)
        .map(|i| (64 + i) as f32 + 2.0 * (192 + i) as f32)
        .collect();
    assert_eq!(numbers(&read(&buffers[1], 256)), expected);
}
