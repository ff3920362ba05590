//! What a part is expected to cost: its launches over the device's rates.
//!
//! Invariants:
//! 1. Nothing is measured here; the cost carries the error that such an estimate is known to have.
//! 2. A device behind a bus pays for it where the whole graph begins and ends. What passes between two parts crosses it
//!    only where they are on two devices, which the host charges beside the parts.
//! 3. Nor does a tensor change its order of axes there: a part that is priced alone may have its inner ports in the order
//!    that is cheaper for it, as a plan that gives the device its neighbours too would.

use polychip_gpu_kernels::Access;
use polychip_lowering::{Extract, Part};
use polychip_sdk::{Cost, GraphView, Result};

use crate::blob::Lowered;
use crate::lower::lower_dry;
use crate::program::Home;
use crate::target::Target;

/// Share of the device's multiply-adds that products and convolutions of common sizes reach (H200, f32: tiles of
/// 4096 cubed reach 0.56 of the datasheet, layers at batch 1 far less).
const REACHED: f64 = 0.4;
/// Error of a roofline against measured networks, in thousandths.
const ERROR_PERMILLE: u32 = 500;

/// Expected cost of each of some parts of a graph; without figures for one that is not lowered.
///
/// # Errors
/// Where a part cannot be lowered for another reason than that it is not supported.
pub fn estimate(
    graph: &GraphView<'_>,
    parts: &[&[u32]],
    target: &Target,
    emulated: bool,
) -> Result<Vec<Cost>> {
    costs(&Part::of(graph, |_| true), parts, target, emulated)
}

/// Expected cost of each of some parts of a graph.
fn costs(whole: &Part, parts: &[&[u32]], target: &Target, emulated: bool) -> Result<Vec<Cost>> {
    let mut of_graph = vec![false; whole.tensors.len()];
    for &tensor in whole.inputs.iter().chain(&whole.outputs) {
        of_graph[tensor] = true;
    }
    // a port that another part of the device feeds or reads is no place to copy from or to
    let within = Target {
        discrete: false,
        ..target.clone()
    };
    let mut extract = Extract::new(whole);
    let estimate = |nodes: &&[u32]| {
        let (part, ports) = extract.nodes_of(nodes);
        let far: Vec<bool> = ports
            .iter()
            .map(|&tensor| target.discrete && of_graph[tensor])
            .collect();
        let target = if far.contains(&true) { target } else { &within };
        let inner = (0..).zip(&ports).filter(|&(_, &tensor)| !of_graph[tensor]);
        let inner: Vec<u32> = inner.map(|(port, _)| port).collect();
        let lowered = |part, channels_last: &[u32]| {
            lower_dry(part, channels_last, target).map(|lowered| cost(&lowered, target, &far, emulated))
        };
        let rows = if inner.is_empty() {
            return lowered(part, &[]).or_else(Cost::unknown);
        } else {
            lowered(part.clone(), &[])
        };
        match (rows, lowered(part, &inner)) {
            (Ok(rows), Ok(last)) if last.time_ns < rows.time_ns => Ok(last),
            (rows, _) => rows.or_else(Cost::unknown),
        }
    };
    parts.iter().map(estimate).collect()
}

/// Expected cost of one run of a lowered part, of whose ports some lie in memory behind the bus.
fn cost(lowered: &Lowered, target: &Target, far: &[bool], emulated: bool) -> Cost {
    let rates = &target.rates;
    let per = |amount: u64, rate: u64| amount as f64 / rate.max(1) as f64 * 1e9;
    let mut time_ns = 0.0;
    for step in &lowered.program.steps {
        let kernel = &lowered.program.kernels[step.kernel as usize];
        let (mut memory, mut link) = (0u64, 0u64);
        for (binding, &value) in kernel.bindings.iter().zip(&step.operands) {
            let is_far = match lowered.program.values[value as usize].home {
                Home::Port(port, _) => far[port as usize],
                Home::Arena(_) | Home::Constants(_) => false,
            };
            // a table of constants is read in places, not from end to end
            let bytes = match binding.access {
                Access::Constant => binding.bytes,
                Access::Read | Access::Write => binding.bytes.min(kernel.work.saturating_mul(64)),
            };
            if is_far {
                link += bytes;
            } else {
                memory += bytes;
            }
        }
        let macs = if kernel.variant.contains("i8") || kernel.variant.contains("u8") {
            rates.i8_macs
        } else if kernel.variant.contains("f16") {
            rates.f16_macs
        } else {
            rates.f32_macs
        };
        let computed = per(kernel.work, macs) / REACHED;
        let moved = per(memory, rates.memory_bytes) + per(link, rates.link_bytes);
        time_ns += computed.max(moved) + rates.launch_ns as f64;
    }
    let ports: u64 = lowered.ports.iter().map(|port| port.bytes).sum();
    Cost {
        time_ns: Some(time_ns as u64),
        launch_ns: Some(rates.submit_ns),
        memory_bytes: Some(lowered.program.arena_bytes + lowered.constants.own_bytes() + ports),
        error_permille: Some(ERROR_PERMILLE),
        emulated,
        ..Cost::default()
    }
}

#[cfg(test)]
mod tests {
    use polychip_gpu_kernels::Limits;
    use polychip_lowering::{Node, Tensor};
    use polychip_ops::{DType, Op};

    use super::*;
    use crate::target::Rates;

    const ELEMENTS: usize = 1 << 20;
    const LINK: u64 = 1_000_000_000;

    fn target(discrete: bool) -> Target {
        Target {
            limits: Limits::LEAST,
            discrete,
            rates: Rates {
                f32_macs: 1 << 42,
                f16_macs: 1 << 42,
                i8_macs: 1 << 42,
                memory_bytes: 1_000_000_000_000,
                link_bytes: LINK,
                launch_ns: 1_000,
                submit_ns: 10_000,
            },
            guard: None,
            tuner: None,
        }
    }

    /// Four functions of a value, one behind the other.
    fn chain() -> Part {
        let ops = [Op::Relu, Op::Neg, Op::Abs, Op::Relu];
        Part {
            nodes: (0..ops.len())
                .map(|i| Node::new(ops[i], &[i], &[i + 1]))
                .collect(),
            tensors: (0..=ops.len())
                .map(|_| Tensor::new(DType::F32, Some(vec![ELEMENTS])))
                .collect(),
            inputs: vec![0],
            outputs: vec![ops.len()],
            states: Vec::new(),
        }
    }

    /// Three convolutions of an image, one behind the other.
    fn images() -> Part {
        let image = |channels| Tensor::new(DType::F32, Some(vec![1, channels, 28, 28]));
        let filter = || {
            let zeros: &'static [u8] = Box::leak(vec![0u8; 4 * 64 * 64].into_boxed_slice());
            let mut filter = Tensor::new(DType::F32, Some(vec![64, 64, 1, 1]));
            filter.constant = Some(polychip_sdk::Constant::of_static(zeros));
            filter
        };
        let nodes = (0..3).map(|i| Node {
            index: i as u32,
            ..Node::new(Op::Conv, &[i, 4 + i], &[i + 1])
        });
        Part {
            nodes: nodes.collect(),
            tensors: (0..4)
                .map(|_| image(64))
                .chain((0..3).map(|_| filter()))
                .collect(),
            inputs: vec![0],
            outputs: vec![3],
            states: Vec::new(),
        }
    }

    #[test]
    fn layout_change_cost_is_charged_at_graph_inputs_and_outputs() {
        let parts: [&[u32]; 4] = [&[0], &[1], &[2], &[0, 1, 2]];
        let costs = costs(&images(), &parts, &target(true), false).unwrap();
        let times: Vec<u64> = costs.iter().map(|cost| cost.time_ns.unwrap()).collect();
        let summed: u64 = times[..3].iter().sum();
        assert!(
            summed < times[3] * 11 / 10 && times[3] < summed * 11 / 10,
            "{times:?}"
        );
        // of the outer ones one port, of the inner one none
        let crossing = 4 * 64 * 28 * 28 * 1_000_000_000 / LINK;
        assert!(times[1] + 1_000 < times[0] - crossing, "{times:?}");
    }

    #[test]
    fn bus_cost_is_charged_at_graph_inputs_and_outputs() {
        let parts: [&[u32]; 5] = [&[0], &[1], &[2], &[3], &[0, 1, 2, 3]];
        let times = |discrete| -> Vec<u64> {
            let costs = costs(&chain(), &parts, &target(discrete), false).unwrap();
            costs.iter().map(|cost| cost.time_ns.unwrap()).collect()
        };
        let crossing = 4 * ELEMENTS as u64 * 1_000_000_000 / LINK;
        let (own, shared) = (times(true), times(false));
        assert!(own[0] > crossing && own[3] > crossing, "{own:?}");
        assert_eq!(own[1..3], shared[1..3], "no bus within the device");
        assert!(own[1] < crossing / 10, "{own:?}");
        assert!((2 * crossing..3 * crossing).contains(&own[4]), "{own:?}");
        // a plan that gives the device everything is priced node by node, and must come to about the same
        let summed: u64 = own[..4].iter().sum();
        assert!(summed < own[4] * 11 / 10 && own[4] < summed * 11 / 10, "{own:?}");
    }
}
