//! What nodes are expected to cost: a part is lowered for what it says alone, and each step's work is priced at the
//! rates of its cores.
//!
//! Invariants:
//! 1. What is priced is what would run: the steps are those of `lower`, the reference evaluator's among them.
//! 2. Nothing is measured here: rates are given (`rates`).
//! 3. An estimate says so: it carries the error that prices are known to have.
//!
//! Not here: how often loops turn (`work`), how steps come about (`lower`), the prices themselves (`estimate/price`).

mod price;

use polychip_cpu_kernels::{Isa, ThreadPool};
use polychip_sdk::{Cost, GraphView, Layout, Result};

use crate::lower::{self, DryRun, Options};
use crate::part::{self, Part, Programs, TensorIndex};
use crate::rates::Peaks;
use crate::tune::Choices;
use crate::work::{self, Work};

/// Error of the prices on the op benchmark (`cargo xtask ops`), in thousandths: the median case is within it.
const ERROR_PERMILLE: u32 = 400;
/// Power of one busy core, in milliwatts: the sustained share per core of common parts (a server or desktop
/// x86 part of 10 to 20 W, a phone's big core of 1 to 2 W). No sensor, so an energy made of it is an estimate.
const CORE_MW: u64 = if cfg!(target_arch = "x86_64") {
    12_000
} else {
    1_500
};
/// Time from `execute` to the first step, in nanoseconds.
const LAUNCH_NS: u64 = 5_000;

/// What a step of a lowered graph does, for programs that look into estimates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepWork {
    /// Node of the graph.
    pub node: u32,
    /// Name of the step.
    pub name: &'static str,
    /// Class of its loops, which has a price of its own.
    pub class: String,
    /// Whether the reference evaluator computes it.
    pub reference: bool,
    /// How often the loops turn.
    pub units: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Elements that are boxed and unboxed.
    pub boxed: u64,
    /// Those of them that are floats of 16 bits and fewer, rounded on their way out.
    pub halves_given: u64,
    /// What it would take one thread of the machine that the prices were taken on, in nanoseconds: the same on every host.
    pub reference_ns: u64,
}

/// What the CPU would do for a graph, step by step.
///
/// # Errors
/// The graph is malformed.
pub fn work(graph: &GraphView<'_>) -> Result<Vec<StepWork>> {
    let (part, programs) = part::read(graph)?;
    let dry = dry_run(&part, &programs, Isa::detect());
    let steps = dry.steps.iter().flat_map(|step| {
        let (own, within) = (step_work(step.node, step.name, &step.work, 1), step.within.iter());
        let within = within.map(|inner| step_work(step.node, inner.name, &inner.work, inner.times));
        std::iter::once(own).chain(within)
    });
    Ok(steps.collect())
}

fn step_work(node: u32, name: &'static str, work: &Work, times: u64) -> StepWork {
    StepWork {
        node,
        name,
        class: work.class.name(),
        reference: work.class.is_reference(),
        units: work.units.saturating_mul(times),
        bytes: work.bytes.saturating_mul(times),
        boxed: work.boxed.all().saturating_mul(times),
        halves_given: work.boxed.halves_given.saturating_mul(times),
        reference_ns: reference_ns(work).saturating_mul(times),
    }
}

/// What a step would take one thread of the machine that the prices were taken on, in nanoseconds.
pub(crate) fn reference_ns(work: &Work) -> u64 {
    price::REFERENCE.step_ns(work, 1) as u64
}

/// A part lowered for its steps alone, with ports in ONNX order.
pub(crate) fn dry_run(part: &Part, programs: &Programs, isa: Isa) -> DryRun {
    let layouts = vec![Layout::RowMajor; part.inputs.len() + part.outputs.len()];
    let options = Options {
        programs,
        isa,
        // what threads share is priced, not lowered
        pool: &ThreadPool::new(1),
        layouts: &layouts,
        reduced: false,
        choices: Choices::Rule,
    };
    lower::dry_run(part, &options)
}

/// What each node of a dry-run part takes, so that parts of it are priced in time that grows with them alone.
pub(crate) struct Priced<'a> {
    part: &'a Part,
    node_ns: Vec<f64>,
    /// How often each tensor is used.
    uses: Vec<usize>,
    threads: usize,
}

impl Peaks {
    /// Prices the nodes of a dry-run part.
    pub(crate) fn priced<'a>(&self, part: &'a Part, dry: &DryRun, threads: usize) -> Priced<'a> {
        let mut node_ns = vec![0.0; part.nodes.len()];
        for step in &dry.steps {
            let within = step
                .within
                .iter()
                .map(|inner| inner.times as f64 * self.step_ns(&inner.work, threads));
            node_ns[step.node as usize] += self.step_ns(&step.work, threads) + within.sum::<f64>();
        }
        Priced {
            part,
            node_ns,
            uses: part.uses(),
            threads,
        }
    }
}

impl Priced<'_> {
    /// The expected cost of nodes run together.
    pub(crate) fn estimate(&self, nodes: &[u32]) -> Cost {
        let time: f64 = nodes
            .iter()
            .filter_map(|&node| self.node_ns.get(node as usize))
            .sum();
        let power_mw = CORE_MW * self.threads.max(1) as u64;
        Cost {
            time_ns: Some(time as u64),
            launch_ns: Some(LAUNCH_NS),
            // milliwatts times nanoseconds are picojoules
            energy_uj: Some((time * power_mw as f64 / 1e6).ceil() as u64),
            power_mw: Some(power_mw),
            memory_bytes: Some(self.memory(nodes)),
            error_permille: Some(ERROR_PERMILLE),
            ..Cost::default()
        }
    }

    /// Memory that nodes need as one part: their constants, and the largest tensor between them.
    fn memory(&self, nodes: &[u32]) -> u64 {
        let part = self.part;
        let (mut largest, mut constants) = (0u64, 0u64);
        for node in nodes.iter().filter_map(|&index| part.nodes.get(index as usize)) {
            for &output in node.outputs.iter().flatten().filter(|&&t| self.uses[t] > 0) {
                largest = largest.max(bytes(part, output));
            }
            for &input in node.inputs.iter().flatten() {
                if part.tensors[input].constant.is_some() {
                    constants = constants.saturating_add(bytes(part, input));
                }
            }
        }
        largest.saturating_add(constants)
    }
}

fn elements(part: &Part, tensor: TensorIndex) -> u64 {
    part.tensors[tensor].bounds.as_deref().map_or(0, work::product)
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
    use crate::part::{Encoding, EncodingKind, Node, Tensor};
    use polychip_ops::{DType, Op};
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
        (part.inputs, part.outputs) = (vec![0], vec![2]);
        part
    }

    #[test]
    fn byte_products_have_their_own_rate() {
        let time = |byte_macs_per_s, dtype| {
            let peaks = Peaks {
                macs_per_s: 1_000_000_000,
                byte_macs_per_s,
                bytes_per_s: 1_000_000_000_000,
                additions_per_s: 750_000_000,
            };
            let part = pointwise(dtype);
            let dry = dry_run(&part, &Programs::default(), Isa::detect());
            assert!(dry.refused.iter().all(Option::is_none), "{:?}", dry.refused);
            peaks.priced(&part, &dry, 1).estimate(&[0]).time_ns.unwrap()
        };
        let times = |dtype| [1, 2, 4].map(|rate| time(rate * 1_000_000_000, dtype));
        let [slow, faster, fastest] = times(DType::I8);
        // whatever else the steps do drops out; what is left is cut to whole nanoseconds
        assert!(
            (slow - faster).abs_diff(2 * (faster - fastest)) <= 3,
            "{slow}, {faster}, {fastest}"
        );
        assert!(faster > fastest);
        let [one, two, four] = times(DType::F32);
        assert_eq!((one, two), (two, four));
    }

    #[test]
    fn elements_beyond_64_bits_saturate() {
        let mut part = Part::default();
        part.tensors
            .push(Tensor::new(DType::F32, Some(vec![1 << 40, 1 << 40])));
        assert_eq!((elements(&part, 0), bytes(&part, 0)), (u64::MAX, u64::MAX / 8));
    }
}
