//! Small networks, run by the GPU's plugin and by the CPU's, which is judged by the reference elsewhere.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use polychip_graph::{Constant, Encoding, Graph, Node, Tensor, TensorId, infer};
use polychip_host::{Access, Buffer, CompileOptions, Device, FlatGraph, Host, Layout, Memory, Submission};
use polychip_ops::{Attributes, DType, Op, TensorType};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// The first GPU, which may be a software one, or the reason why none was found.
fn found() -> &'static Result<Device, String> {
    static DEVICE: OnceLock<Result<Device, String>> = OnceLock::new();
    DEVICE.get_or_init(|| {
        let host = Host::builder().linked(polychip_gpu::query).build();
        let device = host.devices().first().cloned();
        device.ok_or_else(|| format!("no GPU: {:?}", host.refusals()))
    })
}

/// Why nothing can be judged here, if so.
pub(crate) fn missing() -> Option<String> {
    found().as_ref().err().cloned()
}

/// The first GPU, a software one too.
pub(crate) fn gpu() -> Device {
    found().clone().unwrap()
}

/// The same where a kernel binds 8 KiB of a tensor at most.
pub(crate) fn narrow() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE
        .get_or_init(|| {
            let host = Host::builder().linked(polychip_gpu::query);
            let host = host.configure("gpu", "binding_bytes", "8192").build();
            host.devices()[0].clone()
        })
        .clone()
}

/// The same taken for one behind a link, so that ports are carried.
pub(crate) fn behind_a_link() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE
        .get_or_init(|| {
            let host = Host::builder().linked(polychip_gpu::query);
            let host = host.configure("gpu", "carry", "on").build();
            host.devices()[0].clone()
        })
        .clone()
}

fn cpu() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE
        .get_or_init(|| Host::builder().linked(polychip_cpu::query).build().devices()[0].clone())
        .clone()
}

/// A network under construction, with the bytes of its inputs.
pub(crate) struct Net {
    pub(crate) graph: Graph,
    pub(crate) fed: Vec<Vec<u8>>,
    random: ChaCha8Rng,
}

/// How a network is compiled and judged.
#[derive(Clone, Copy)]
pub(crate) struct Judge {
    /// Largest difference of floats, relative to the largest value there is, at least 1.
    pub(crate) relative: f64,
    /// Largest difference of integers.
    pub(crate) steps: i64,
    pub(crate) reduced: bool,
    pub(crate) channels_last: bool,
}

pub(crate) const EXACT: Judge = Judge {
    relative: 2e-5,
    steps: 0,
    reduced: false,
    channels_last: false,
};

impl Net {
    pub(crate) fn new() -> Net {
        Net {
            graph: Graph::new("net"),
            fed: Vec::new(),
            random: ChaCha8Rng::seed_from_u64(7),
        }
    }

    /// Numbers between -1 and 1.
    fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.random.random_range(-1.0..1.0)).collect()
    }

    fn bytes(&mut self, dtype: DType, count: usize) -> Vec<u8> {
        let values = self.numbers(count);
        bytes_of(
            dtype,
            &values
                .iter()
                .map(|&v| if dtype.is_float() { v } else { v * 40.0 })
                .collect::<Vec<_>>(),
        )
    }

    /// A constant of these bytes.
    pub(crate) fn constant(&mut self, dtype: DType, sizes: &[usize], bytes: Vec<u8>) -> TensorId {
        self.add(dtype, sizes, Some(bytes))
    }

    fn add(&mut self, dtype: DType, sizes: &[usize], bytes: Option<Vec<u8>>) -> TensorId {
        let name = format!("t{}", self.graph.tensor_count());
        let ty = TensorType::known(dtype, sizes);
        match bytes {
            None => self.graph.add_tensor(Tensor::new(&name, ty)),
            Some(bytes) => {
                let data = Constant {
                    bytes: bytes.into(),
                    file: None,
                };
                self.graph.add_tensor(Tensor::constant(&name, ty, data))
            }
        }
    }

    pub(crate) fn input_of(&mut self, dtype: DType, sizes: &[usize]) -> TensorId {
        let bytes = self.bytes(dtype, sizes.iter().product());
        self.fed(dtype, sizes, bytes)
    }

    pub(crate) fn fed(&mut self, dtype: DType, sizes: &[usize], bytes: Vec<u8>) -> TensorId {
        let tensor = self.add(dtype, sizes, None);
        self.graph.inputs.push(tensor);
        self.fed.push(bytes);
        tensor
    }

    pub(crate) fn input(&mut self, sizes: &[usize]) -> TensorId {
        self.input_of(DType::F32, sizes)
    }

    pub(crate) fn weights(&mut self, sizes: &[usize]) -> TensorId {
        let bytes = self.bytes(DType::F32, sizes.iter().product());
        self.add(DType::F32, sizes, Some(bytes))
    }

    pub(crate) fn weights_of(&mut self, dtype: DType, sizes: &[usize]) -> TensorId {
        let bytes = self.bytes(dtype, sizes.iter().product());
        self.add(dtype, sizes, Some(bytes))
    }

    pub(crate) fn floats(&mut self, sizes: &[usize], values: &[f32]) -> TensorId {
        self.add(DType::F32, sizes, Some(bytes_of(DType::F32, values)))
    }

    pub(crate) fn ints(&mut self, values: &[i64]) -> TensorId {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.add(DType::I64, &[values.len()], Some(bytes))
    }

    pub(crate) fn encode(&mut self, tensor: TensorId, encoding: Encoding) {
        self.graph.tensor_mut(tensor).encoding = Some(encoding);
    }

    pub(crate) fn nodes(
        &mut self,
        op: Op,
        attributes: Attributes,
        inputs: &[Option<TensorId>],
        outputs: usize,
    ) -> Vec<TensorId> {
        let results: Vec<TensorId> = (0..outputs)
            .map(|_| {
                let name = format!("t{}", self.graph.tensor_count());
                self.graph.add_tensor(Tensor::untyped(&name))
            })
            .collect();
        let node = Node::new(op, inputs.to_vec(), results.iter().copied().map(Some).collect());
        self.graph.add_node(node.with(attributes));
        results
    }

    pub(crate) fn node(&mut self, op: Op, attributes: Attributes, inputs: &[TensorId]) -> TensorId {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.nodes(op, attributes, &inputs, 1)[0]
    }

    pub(crate) fn plain(&mut self, op: Op, inputs: &[TensorId]) -> TensorId {
        self.node(op, Attributes::new(), inputs)
    }

    pub(crate) fn output(&mut self, tensor: TensorId) {
        self.graph.outputs.push(tensor);
    }

    /// Compares the plugins' answers.
    pub(crate) fn check(mut self) {
        self.check_as(EXACT);
    }

    pub(crate) fn check_as(&mut self, judge: Judge) {
        self.check_on(&gpu(), judge);
    }

    /// The same on a GPU of other settings.
    pub(crate) fn check_on(&mut self, gpu: &Device, judge: Judge) {
        // one network at a time: software drivers are slow and share the processor
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        infer(&mut self.graph).unwrap();
        let expected = run(
            &cpu(),
            self,
            Judge {
                reduced: false,
                channels_last: false,
                ..judge
            },
        );
        let flat = FlatGraph::new(&self.graph, &[]).unwrap();
        for (node, support) in self.graph.nodes().zip(gpu.query_support(&flat).unwrap()) {
            assert_eq!(support.reason, 0, "{:?}: {support:?}", node.1.op);
        }
        let answers = run(gpu, self, judge);
        for ((&output, expected), got) in self.graph.outputs.iter().zip(&expected).zip(&answers) {
            let dtype = self.graph.tensor(output).ty.dtype;
            let (a, b) = (numbers(dtype, expected), numbers(dtype, got));
            let most = a
                .iter()
                .filter(|x| x.is_finite())
                .fold(1.0f64, |most, x| most.max(x.abs()));
            let limit = if dtype.is_float() {
                most * judge.relative
            } else {
                judge.steps as f64
            };
            for (i, (a, b)) in a.iter().zip(&b).enumerate() {
                let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= limit;
                assert!(
                    same,
                    "output {output:?}[{i}]: {b}, the CPU says {a} (limit {limit})"
                );
            }
        }
    }
}

fn bytes_of(dtype: DType, values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|&v| match dtype {
            DType::F32 => v.to_le_bytes().to_vec(),
            DType::F16 => half::f16::from_f32(v).to_le_bytes().to_vec(),
            DType::I64 => (v.round() as i64).to_le_bytes().to_vec(),
            DType::I32 => (v.round() as i32).to_le_bytes().to_vec(),
            DType::U32 => (v.abs().round() as u32).to_le_bytes().to_vec(),
            DType::I8 => (v.round() as i8).to_le_bytes().to_vec(),
            DType::U8 => ((v + 128.0).round() as u8).to_le_bytes().to_vec(),
            DType::Bool => vec![u8::from(v > 0.0)],
            other => panic!("no sample of {other}"),
        })
        .collect()
}

fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let width = dtype.byte_width().unwrap();
    bytes
        .chunks_exact(width)
        .map(|b| match dtype {
            DType::F32 => f64::from(f32::from_le_bytes(b.try_into().unwrap())),
            DType::F16 => half::f16::from_le_bytes(b.try_into().unwrap()).to_f64(),
            DType::I64 => i64::from_le_bytes(b.try_into().unwrap()) as f64,
            DType::I32 => f64::from(i32::from_le_bytes(b.try_into().unwrap())),
            DType::U32 => f64::from(u32::from_le_bytes(b.try_into().unwrap())),
            DType::I8 => f64::from(b[0] as i8),
            DType::U8 | DType::Bool => f64::from(b[0]),
            other => panic!("no numbers of {other}"),
        })
        .collect()
}

/// Channels last of `[n, c, spatial...]` bytes, or back.
fn moved(bytes: &[u8], dims: &[usize], width: usize, to_last: bool) -> Vec<u8> {
    let (n, c) = (dims[0], dims[1]);
    let s: usize = dims[2..].iter().product();
    let mut out = vec![0; bytes.len()];
    for i in 0..n {
        for ch in 0..c {
            for p in 0..s {
                let (first, last) = ((i * c + ch) * s + p, (i * s + p) * c + ch);
                let (from, to) = if to_last { (first, last) } else { (last, first) };
                out[to * width..][..width].copy_from_slice(&bytes[from * width..][..width]);
            }
        }
    }
    out
}

fn run(device: &Device, net: &Net, judge: Judge) -> Vec<Vec<u8>> {
    let flat = FlatGraph::new(&net.graph, &[]).unwrap();
    let count = net.graph.inputs.len() + net.graph.outputs.len();
    let options = CompileOptions {
        reduced_precision: judge.reduced,
        layouts: if judge.channels_last {
            (0..count as u32)
                .map(|port| (port, Layout::ChannelsLast))
                .collect()
        } else {
            Vec::new()
        },
        ..CompileOptions::default()
    };
    let blob = device.compile(&flat, &options).unwrap();
    let executable = device.load(blob, &flat, 1).unwrap();
    let mut submission = Submission::new(&executable, 4);
    let mut buffers: Vec<Arc<Buffer>> = Vec::new();
    for (number, port) in executable.ports().iter().enumerate() {
        let buffer = Arc::new(
            device
                .import_buffer(&Memory::new(port.bytes.max(1)).unwrap())
                .unwrap(),
        );
        submission.bind(number as u32, &buffer, 0).unwrap();
        if let Some(fed) = net.fed.get(number)
            && !fed.is_empty()
        {
            let last = port.layout == Layout::ChannelsLast;
            let dims: Vec<usize> = port.dims.iter().map(|&dim| dim as usize).collect();
            let width = fed.len() / dims.iter().product::<usize>();
            let bytes = if last {
                moved(fed, &dims, width, true)
            } else {
                fed.clone()
            };
            let mut access = buffer.access(Access::Write, 0, fed.len() as u64).unwrap();
            access.copy_from_slice(&bytes);
        }
        buffers.push(buffer);
    }
    // twice: the second run sees what the first left behind
    for _ in 0..2 {
        let fence = executable.execute(&mut submission, &[]).unwrap();
        fence.wait(Duration::from_secs(60)).unwrap();
    }
    let inputs = net.graph.inputs.len();
    executable.ports()[inputs..]
        .iter()
        .zip(&buffers[inputs..])
        .map(|(port, buffer)| {
            let bytes = buffer.access(Access::Read, 0, port.bytes).unwrap().to_vec();
            if port.layout == Layout::ChannelsLast {
                let dims: Vec<usize> = port.dims.iter().map(|&dim| dim as usize).collect();
                let width = bytes.len() / dims.iter().product::<usize>().max(1);
                moved(&bytes, &dims, width, false)
            } else {
                bytes
            }
        })
        .collect()
}
