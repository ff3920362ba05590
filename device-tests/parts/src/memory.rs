//! A part loaded, and memory of the host at its ports.

use std::sync::Arc;

use polychip_graph::Graph;
use polychip_host::{Access, Buffer, CompileOptions, Device, Executable, FlatGraph, Memory, Submission};

/// Compiles and loads a part.
///
/// # Panics
/// The device refuses it.
#[must_use]
pub fn load(device: &Device, graph: &Graph) -> Executable {
    let flat = FlatGraph::new(graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    device.load(blob, &flat, 1).unwrap()
}

/// A buffer for each port, bound to it.
///
/// # Panics
/// The device neither imports memory of the host nor makes any.
pub fn buffers(device: &Device, executable: &Executable, submission: &mut Submission) -> Vec<Arc<Buffer>> {
    let mut buffers = Vec::new();
    for (number, port) in (0..).zip(executable.ports()) {
        let buffer = if device.info().imports_memory() {
            device.import_buffer(&Memory::for_devices(port.bytes, [device.info()]).unwrap())
        } else {
            device.create_buffer(port.bytes, 64)
        };
        let buffer = Arc::new(buffer.unwrap());
        submission.bind(number, &buffer, 0).unwrap();
        buffers.push(buffer);
    }
    buffers
}

/// Writes the first bytes of a buffer.
///
/// # Panics
/// The buffer is smaller, or cannot be opened.
pub fn write(buffer: &Buffer, bytes: &[u8]) {
    let mut access = buffer.access(Access::Write, 0, bytes.len() as u64).unwrap();
    access.copy_from_slice(bytes);
}

/// The first bytes of a buffer.
///
/// # Panics
/// The buffer is smaller, or cannot be opened.
#[must_use]
pub fn read(buffer: &Buffer, bytes: usize) -> Vec<u8> {
    buffer.access(Access::Read, 0, bytes as u64).unwrap().to_vec()
}
