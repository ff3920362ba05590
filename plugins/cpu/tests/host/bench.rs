//! A graph on the linked plugin, with memory at its ports.

use std::sync::Arc;
use std::time::Duration;

use polychip_graph::Graph;
use polychip_host::{
    Access, Buffer, CompileOptions, Device, Executable, FlatGraph, Host, Memory, Submission,
};

pub(crate) fn linked() -> Host {
    let host = Host::builder().linked(polychip_cpu::query).build();
    assert_eq!(host.refusals(), []);
    host
}

pub(crate) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(crate) fn to_floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect()
}

pub(crate) struct Bench {
    pub(crate) executable: Executable,
    pub(crate) buffers: Vec<Arc<Buffer>>,
    pub(crate) submission: Submission,
}

impl Bench {
    pub(crate) fn new(device: &Device, graph: &Graph) -> Bench {
        let flat = FlatGraph::new(graph, &[]).unwrap();
        let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
        Bench::of(device, device.load(blob, &flat, 2).unwrap())
    }

    pub(crate) fn of(device: &Device, executable: Executable) -> Bench {
        let mut submission = Submission::new(&executable, 4);
        let mut buffers = Vec::new();
        for (number, port) in executable.ports().iter().enumerate() {
            let buffer = Arc::new(device.import_buffer(&Memory::new(port.bytes).unwrap()).unwrap());
            submission.bind(number as u32, &buffer, 0).unwrap();
            buffers.push(buffer);
        }
        Bench {
            executable,
            buffers,
            submission,
        }
    }

    pub(crate) fn write(&self, port: usize, bytes: &[u8]) {
        let mut access = self.buffers[port]
            .access(Access::Write, 0, bytes.len() as u64)
            .unwrap();
        access.copy_from_slice(bytes);
    }

    pub(crate) fn read(&self, port: usize) -> Vec<u8> {
        let bytes = self.executable.ports()[port].bytes;
        self.buffers[port]
            .access(Access::Read, 0, bytes)
            .unwrap()
            .to_vec()
    }

    pub(crate) fn run(&mut self, inputs: &[Vec<u8>]) -> polychip_host::Fence {
        for (port, bytes) in inputs.iter().enumerate() {
            self.write(port, bytes);
        }
        let fence = self.executable.execute(&mut self.submission, &[]).unwrap();
        fence.wait(Duration::from_secs(60)).unwrap();
        fence
    }
}
