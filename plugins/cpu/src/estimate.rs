//! What a part is expected to cost: arithmetic and memory traffic over the rates of its cores.
//!
//! Invariants:
//! 1. Nothing is measured here: rates are given (`rates`).
//! 2. An estimate says so: it carries the error that the roofline is known to have.

use polychip_ops::Op;
use polychip_sdk::Cost;

use crate::lower::{is_fast, multiplies_bytes};
use crate::part::{Node, Part, TensorIndex};
use crate::rates::Peaks;

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
            additions_per_s: 750_000_000,
        };
        let time = |dtype| peaks.estimate(&pointwise(dtype), &[0], 1).time_ns.unwrap() as f64;
        let ratio = time(DType::F32) / time(DType::I8);
        assert!((3.99..4.01).contains(&ratio), "{ratio}");
    }
}
