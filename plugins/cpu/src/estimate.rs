//! What a part is expected to cost: arithmetic and memory traffic over rates measured once on this machine.
//!
//! Invariants:
//! 1. Rates are measured when the device is first opened, kept in the host's store, and never during `estimate`.
//! 2. An estimate says so: it carries the error that the roofline is known to have.

use std::time::{Duration, Instant};

use polychip_cpu_kernels::conv::{ConvParams, Window};
use polychip_cpu_kernels::gemm::{GemmPlan, Matrix};
use polychip_cpu_kernels::quantised::{Codes, ConvPlan, Output, Target, Weights};
use polychip_cpu_kernels::{AlignedVec, Epilogue, Isa, ThreadPool};
use polychip_ops::Op;
use polychip_sdk::{Cost, HostServices};

use crate::lower::{is_fast, multiplies_bytes};
use crate::part::{Node, Part, TensorIndex};

/// Rates of one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peaks {
    /// Multiply-adds of f32 per second.
    pub(crate) macs_per_s: u64,
    /// Multiply-adds of bytes per second.
    pub(crate) byte_macs_per_s: u64,
    /// Bytes moved per second.
    pub(crate) bytes_per_s: u64,
}

/// Share of the peak that whole models reach (facts section 4: 66 to 91 %).
const REACHED: f64 = 0.75;
/// Error of a roofline against measured models, in thousandths.
const ERROR_PERMILLE: u32 = 400;
/// Time that a kernel call costs beside its work, in nanoseconds.
const STEP_NS: f64 = 300.0;
/// Elements per second of the reference evaluator: tens of nanoseconds each.
const REFERENCE_NS_PER_ELEMENT: f64 = 40.0;
/// Power of one busy core, in milliwatts: the sustained share per core of common parts (a server or desktop
/// x86 part of 10 to 20 W, a phone's big core of 1 to 2 W). No sensor, so an energy made of it is an estimate.
const CORE_MW: u64 = if cfg!(target_arch = "x86_64") {
    12_000
} else {
    1_500
};
/// Time from `execute` to the first step, in nanoseconds.
const LAUNCH_NS: u64 = 5_000;

impl Peaks {
    /// The rates in the host's store, or measured now and stored.
    pub(crate) fn known_or_measured(host: &HostServices, isa: Isa) -> Self {
        let key = format!("peaks {} {}", isa.name(), isa.bytes_name());
        if let Ok(Some(bytes)) = host.store_read(&key)
            && let Ok(words) = <[u8; 24]>::try_from(&bytes[..])
        {
            let rates = [0, 8, 16].map(|at| u64::from_le_bytes(std::array::from_fn(|i| words[at + i])));
            if !rates.contains(&0) {
                let [macs_per_s, byte_macs_per_s, bytes_per_s] = rates;
                return Self {
                    macs_per_s,
                    byte_macs_per_s,
                    bytes_per_s,
                };
            }
        }
        let peaks = Self::measure(isa);
        let rates = [peaks.macs_per_s, peaks.byte_macs_per_s, peaks.bytes_per_s];
        // a host without a store measures again next time
        let _ = host.store_write(&key, rates.map(u64::to_le_bytes).as_flattened());
        peaks
    }

    /// Some milliseconds of products in cache and of copies beyond it.
    fn measure(isa: Isa) -> Self {
        let fallback = Self {
            macs_per_s: 10_000_000_000,
            byte_macs_per_s: 10_000_000_000,
            bytes_per_s: 5_000_000_000,
        };
        let (m, k, n) = (96, 256, 256);
        let Ok(plan) = GemmPlan::new(isa, k, n) else {
            return fallback;
        };
        let pool = ThreadPool::new(1);
        let b = vec![1.0; k * n];
        let mut packed = AlignedVec::zeroed(plan.packed_len());
        plan.pack(Matrix::rows(&b, n), None, &mut packed);
        let a = AlignedVec::zeroed(m * k);
        let mut c = AlignedVec::zeroed(m * n);
        let mut scratch = AlignedVec::zeroed(plan.scratch_len(m, &pool));
        let product = best(|| {
            plan.run(
                &pool,
                m,
                Matrix::rows(&a, k),
                &packed,
                None,
                Epilogue::NONE,
                &mut c,
                n,
                &mut scratch,
            );
        });
        let window = Window::new_2d([1, m], [1, m], [1, 1], [1, 1], [1, 1], [0, 0]);
        let Ok(plan) = ConvPlan::new(isa, ConvParams::dense(1, k, n, 1, window), Target::Codes) else {
            return fallback;
        };
        let weights = Weights {
            values: &vec![1; k * n],
            input_zero: 0,
            bias: &vec![0; n],
            factor: &vec![0.01; n],
            shift: &vec![0.0; n],
        };
        let mut packed = AlignedVec::zeroed(plan.packed_len());
        plan.pack(&weights, &mut packed);
        let (a, mut c) = (vec![1; m * k], vec![0; m * n]);
        let mut scratch = AlignedVec::zeroed(plan.scratch_len(&pool));
        let byte_product = best(|| {
            let output = Output::Codes(&mut c, Codes::all(0));
            plan.run(&pool, &packed, &a, 0, None, output, &mut scratch);
        });
        let words = 1 << 20;
        let source = AlignedVec::zeroed(words);
        let mut target = AlignedVec::zeroed(words);
        let copy = best(|| target.copy_from_slice(&source));
        let rate = |work: usize, time: Duration| (work as f64 / time.as_secs_f64().max(1e-9)) as u64;
        Self {
            macs_per_s: rate(m * k * n, product).max(1),
            byte_macs_per_s: rate(m * k * n, byte_product).max(1),
            bytes_per_s: rate(8 * words, copy).max(1),
        }
    }

    /// The expected cost of nodes run as one part.
    pub(crate) fn estimate(&self, part: &Part, nodes: &[u32], threads: usize) -> Cost {
        let uses = part.uses();
        let mut time = 0.0;
        let mut memory = 0u64;
        for &index in nodes {
            let Some(node) = part.nodes.get(index as usize) else {
                continue;
            };
            time += self.node_ns(part, node, threads);
            for output in node.outputs.iter().flatten() {
                if uses[*output] > 0 {
                    memory = memory.max(bytes(part, *output));
                }
            }
            for input in node.inputs.iter().flatten() {
                if part.tensors[*input].constant.is_some() {
                    memory = memory.saturating_add(bytes(part, *input));
                }
            }
        }
        let power_mw = CORE_MW * threads.max(1) as u64;
        Cost {
            time_ns: Some(time as u64),
            launch_ns: Some(LAUNCH_NS),
            // milliwatts times nanoseconds are picojoules
            energy_uj: Some((time * power_mw as f64 / 1e6).ceil() as u64),
            power_mw: Some(power_mw),
            memory_bytes: Some(memory),
            error_permille: Some(ERROR_PERMILLE),
            ..Cost::default()
        }
    }

    fn node_ns(&self, part: &Part, node: &Node, threads: usize) -> f64 {
        let is_view = matches!(
            node.op,
            Op::Reshape
                | Op::Flatten
                | Op::Squeeze
                | Op::Unsqueeze
                | Op::Identity
                | Op::Dropout
                | Op::Constant
        );
        if is_view {
            return 0.0;
        }
        let moved: u64 = node
            .reads()
            .chain(node.outputs.iter().copied().flatten())
            .map(|t| bytes(part, t))
            .sum();
        let elements: u64 = node.outputs.iter().flatten().map(|&t| elements(part, t)).sum();
        let macs = macs(part, node) as f64;
        let slow = !node.bodies.is_empty()
            || !(is_fast(part, node) || node.outputs.iter().flatten().all(|&t| part.plain_f32(t)));
        if slow {
            return STEP_NS + REFERENCE_NS_PER_ELEMENT * (elements as f64 + macs);
        }
        let rate = if multiplies_bytes(part, node) {
            self.byte_macs_per_s
        } else {
            self.macs_per_s
        };
        let arithmetic = macs / (rate as f64 * REACHED * threads.max(1) as f64);
        let traffic = moved as f64 / self.bytes_per_s as f64;
        STEP_NS + 1e9 * arithmetic.max(traffic)
    }
}

/// Multiply-adds of a node; 0 where it has none to speak of.
fn macs(part: &Part, node: &Node) -> u64 {
    let dims = |i: usize| node.input(i).and_then(|t| part.tensors[t].bounds.as_deref());
    let result = node.output(0).map_or(0, |t| elements(part, t));
    let per_element = match node.op {
        Op::Conv | Op::ConvInteger => dims(1).map(|w| w.iter().skip(1).product::<usize>()),
        Op::ConvTranspose => {
            dims(1).map(|w| w.iter().skip(2).product::<usize>() * w.first().copied().unwrap_or(1))
        }
        Op::QLinearConv => dims(3).map(|w| w.iter().skip(1).product::<usize>()),
        Op::MatMul | Op::MatMulInteger | Op::QLinearMatMul | Op::Gemm => dims(0).and_then(|a| {
            let transposed = node.attributes.int(polychip_ops::Attr::TransA).unwrap_or(0) != 0;
            if transposed {
                a.first().copied()
            } else {
                a.last().copied()
            }
        }),
        _ => None,
    };
    result.saturating_mul(per_element.unwrap_or(0) as u64)
}

fn elements(part: &Part, tensor: TensorIndex) -> u64 {
    part.tensors[tensor]
        .bounds
        .as_ref()
        .map_or(0, |dims| dims.iter().product::<usize>() as u64)
}

fn bytes(part: &Part, tensor: TensorIndex) -> u64 {
    let t = &part.tensors[tensor];
    t.dtype
        .bits()
        .map_or(0, |bits| elements(part, tensor).saturating_mul(bits as u64) / 8)
}

/// The shortest of some repetitions.
fn best(mut f: impl FnMut()) -> Duration {
    let start = Instant::now();
    let mut best = Duration::MAX;
    for round in 0..50 {
        let begin = Instant::now();
        f();
        best = best.min(begin.elapsed());
        if round >= 3 && start.elapsed() > Duration::from_millis(4) {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::{Encoding, EncodingKind, Tensor};
    use polychip_ops::DType;
    use polychip_sdk::Constant;

    /// A 1x1 convolution of 64 channels, of floats or of bytes.
    fn pointwise(dtype: DType) -> Part {
        let mut part = Part::default();
        for dims in [[1, 64, 56, 56], [64, 64, 1, 1], [1, 64, 56, 56]] {
            let mut tensor = Tensor::new(dtype, Some(dims.to_vec()));
            if dtype != DType::F32 {
                tensor.encoding = Some(Encoding {
                    kind: EncodingKind::PerTensor,
                    scales: vec![0.1],
                    zero_points: Vec::new(),
                    real_dtype: DType::F32,
                });
            }
            part.tensors.push(tensor);
        }
        part.tensors[1].constant = Some(Constant::of_static(&[0; 64 * 64 * 4]));
        part.nodes.push(Node::new(Op::Conv, &[0, 1], &[2]));
        part
    }

    #[test]
    fn products_of_bytes_take_their_own_rate() {
        let peaks = Peaks {
            macs_per_s: 1_000_000_000,
            byte_macs_per_s: 4_000_000_000,
            bytes_per_s: 1_000_000_000_000,
        };
        let time = |dtype| peaks.estimate(&pointwise(dtype), &[0], 1).time_ns.unwrap() as f64;
        let ratio = time(DType::F32) / time(DType::I8);
        assert!((3.99..4.01).contains(&ratio), "{ratio}");
    }
}
