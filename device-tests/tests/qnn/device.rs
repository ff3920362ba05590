//! The devices of the tests, and running a graph on one.
//!
//! Invariant: the emulator's libraries are built from the sources as they are, and are the only ones opened.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use half::f16;
use polychip_device_tests::libraries;
use polychip_graph::Graph;
use polychip_host::{
    Access, Buffer, CompileOptions, Device, ErrorKind, Executable, FlatGraph, Host, Memory, Submission,
};
use polychip_ops::DType;

use super::net::feeds;

/// The folder of the emulator's two libraries, built from the sources as they are.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        libraries::library("polychip-emulator-qnn-system", "QnnSystem").unwrap();
        let htp = libraries::library("polychip-emulator-qnn", "QnnHtp").unwrap();
        htp.parent().unwrap().to_owned()
    })
}

pub(crate) fn host(soc: &str, keys: &[(&str, &str)]) -> Host {
    let mut host = Host::builder()
        .linked(polychip_qnn::query)
        .configure("qnn", "lib_dir", folder().to_str().unwrap())
        .configure("qnn", "soc", soc);
    for (key, value) in keys {
        host = host.configure("qnn", key, *value);
    }
    host.build()
}

pub(crate) fn device(soc: &str) -> Device {
    let host = host(soc, &[]);
    assert_eq!(host.refusals(), []);
    host.devices()[0].clone()
}

pub(crate) fn cpu() -> Device {
    let host = Host::builder().linked(polychip_cpu::query).build();
    assert_eq!(host.refusals(), []);
    host.devices()[0].clone()
}

/// Runs a loaded part on these inputs.
pub(crate) fn run(
    device: &Device,
    executable: &Executable,
    feeds: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, ErrorKind> {
    let mut submission = Submission::new(executable, 4);
    let mut buffers: Vec<Arc<Buffer>> = Vec::new();
    for (number, port) in executable.ports().iter().enumerate() {
        let buffer = Arc::new(device.import_buffer(&Memory::new(port.bytes).unwrap()).unwrap());
        if let Some(feed) = feeds.get(number) {
            buffer
                .access(Access::Write, 0, port.bytes)
                .unwrap()
                .copy_from_slice(feed);
        }
        submission.bind(number as u32, &buffer, 0).unwrap();
        buffers.push(buffer);
    }
    let fence = executable
        .execute(&mut submission, &[])
        .map_err(|error| error.kind())?;
    fence
        .wait(Duration::from_secs(60))
        .map_err(|error| error.kind())?;
    Ok(buffers[feeds.len()..]
        .iter()
        .map(|buffer| buffer.access(Access::Read, 0, buffer.bytes()).unwrap().to_vec())
        .collect())
}

pub(crate) fn compute(device: &Device, graph: &Graph) -> Vec<Vec<u8>> {
    let flat = FlatGraph::new(graph, &[]).unwrap();
    let blob = device
        .compile(&flat, &CompileOptions::default())
        .unwrap_or_else(|error| panic!("{} of {}: {error}", device.name(), graph.name));
    let executable = device.load(blob, &flat, 1).unwrap();
    run(device, &executable, &feeds(graph)).unwrap()
}

/// Stored elements as numbers: steps of their encoding, or reals.
pub(crate) fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let pairs = || bytes.as_chunks::<2>().0.iter();
    match dtype {
        DType::U8 | DType::Bool => bytes.iter().map(|&value| f64::from(value)).collect(),
        DType::I8 => bytes.iter().map(|&value| f64::from(value as i8)).collect(),
        DType::U16 => pairs().map(|pair| f64::from(u16::from_le_bytes(*pair))).collect(),
        DType::I16 => pairs().map(|pair| f64::from(i16::from_le_bytes(*pair))).collect(),
        DType::F16 => pairs().map(|pair| f64::from(f16::from_le_bytes(*pair))).collect(),
        DType::F32 => bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| f64::from(f32::from_le_bytes(*word)))
            .collect(),
        DType::I64 => bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| i64::from_le_bytes(*word) as f64)
            .collect(),
        other => panic!("{other} is not compared"),
    }
}

/// Largest difference of outputs, in steps of the encoding; of 16-bit floats in thousandths of what is there.
pub(crate) fn difference(graph: &Graph, left: &[Vec<u8>], right: &[Vec<u8>]) -> f64 {
    let mut most = 0.0f64;
    for (output, (left, right)) in graph.outputs.iter().zip(left.iter().zip(right)) {
        let dtype = graph.tensor(*output).ty.dtype;
        for (left, right) in numbers(dtype, left).into_iter().zip(numbers(dtype, right)) {
            let apart = (left - right).abs();
            let apart = match dtype {
                DType::F16 | DType::F32 => 1000.0 * apart / right.abs().max(1.0),
                _ => apart,
            };
            most = most.max(if apart.is_nan() { f64::INFINITY } else { apart });
        }
    }
    most
}
