//! What is done about outputs that reduced precision made infinite: the nodes are found, and run elsewhere.
//!
//! Not here: which runs are looked at (`watch`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use polychip_graph::{Graph, TensorId};
use polychip_host::DeviceKind;
use polychip_ops::DType;
use polychip_partitioner::DeviceIndex;

use super::{OverflowState, suspects};
use crate::error::Result;
use crate::event::{Event, EventKind};
use crate::planned::Planned;
use crate::policy::{Learn, Policy, Precision};
use crate::replan;
use crate::session::compile::Loaded;
use crate::session::learn::shadow::{self, OutputSnapshot, Sample};
use crate::session::loaded::LoadedPlan;
use crate::session::specialization_state::Inner;
use crate::session::wiring::OutputSource;

/// The largest finite 16-bit float.
const LARGEST: f64 = 65_504.0;
/// Bytes of internal tensors that one run in full precision keeps.
const BATCH_BYTES: u64 = 64 << 20;
/// How long such a run may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nodes that a message names.
const NAMED: usize = 3;

/// What is to be done about an output.
pub(super) struct Job {
    pub(super) inner: Arc<Inner>,
    pub(super) plan: Arc<LoadedPlan>,
    pub(super) sample: Option<Sample>,
    pub(super) output: usize,
    pub(super) run: u64,
    pub(super) has_moved: bool,
}

/// What a run in full precision shows.
enum Finding {
    /// The outputs are not finite in full precision either.
    ModelsOwn,
    /// Nodes with a value beyond the range of 16-bit floats, and the largest one.
    Nodes(Vec<(DeviceIndex, u32)>, f64),
}

impl Job {
    /// Does it; blocks.
    pub(super) fn act(self) {
        let next = self.acted().unwrap_or_else(|error| {
            tracing::warn!("{}; no other plan can be made: {error}", self.words());
            OverflowState::OVER
        });
        self.inner.overflow.0.store(next, Ordering::Release);
    }

    /// The output, and where it was computed.
    fn words(&self) -> String {
        let output = &self.plan.wiring.outputs[self.output];
        let place = match output.source {
            OutputSource::Part(part, _) => {
                let part = &self.plan.wiring.parts[part];
                format!(" of part {} on {}", part.id, part.handle.name())
            }
            _ => String::new(),
        };
        format!(
            "reduced precision: output {:?}{place} is infinite or NaN in run {}, with finite inputs",
            output.spec.name, self.run
        )
    }

    fn acted(&self) -> Result<u8> {
        let found = match &self.sample {
            Some(sample) if !self.has_moved => self.diagnose(sample)?,
            _ => Finding::Nodes(Vec::new(), 0.0),
        };
        let Finding::Nodes(nodes, largest) = found else {
            return Ok(OverflowState::OVER);
        };
        let named = self.named(&nodes);
        let words = match &*named {
            "" => self.words(),
            named => format!(
                "{}; values up to {largest:.3e} exceed the 65,504 of a 16-bit float in {named}",
                self.words()
            ),
        };
        tracing::warn!("{words}");
        let inner = &self.inner;
        // plans of governed and admitted sessions are chosen by others
        let may_change = inner.policy.may_replan()
            && !self.plan.planned.is_locked()
            && inner.governing.is_none()
            && inner
                .standby
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_empty();
        if !may_change {
            inner.tell(Event::new(EventKind::Overflowed, "", nodes.len(), words));
            return Ok(OverflowState::OVER);
        }
        let _one = inner.recovery.lock().unwrap_or_else(PoisonError::into_inner);
        if !nodes.is_empty() {
            match self.without(&nodes, &words) {
                Ok(()) => {
                    let done = format!("{words}; they run elsewhere from now on");
                    inner.tell(Event::new(EventKind::Overflowed, "", nodes.len(), done));
                    return Ok(OverflowState::MOVED);
                }
                Err(error) => tracing::info!("{named} cannot run elsewhere: {error}"),
            }
        }
        let exact = inner.policy.clone().precision(Precision::Exact);
        let planned = Planned::new(&inner.shared, self.plan.planned.model(), &exact, &|_| {})?;
        // nothing that was loaded with the other precision
        self.put_in_place(planned, exact, Loaded::default())?;
        let done = format!("{words}; the session computes in full precision from now on");
        inner.tell(Event::new(EventKind::Overflowed, "", nodes.len(), done));
        Ok(OverflowState::OVER)
    }

    /// Makes a plan in which these nodes run on other devices.
    fn without(&self, nodes: &[(DeviceIndex, u32)], words: &str) -> Result<()> {
        let policy = Arc::clone(&self.inner.current().policy);
        let planned = &self.plan.planned;
        let next = planned.again(&self.inner.shared, policy.settings(), |targets| {
            for (device, node) in nodes {
                let target = &mut targets[device.index()];
                polychip_profile::refusal::mark(target, *device, &[*node], words, &BTreeMap::new());
            }
        })?;
        self.put_in_place(next, (*policy).clone(), self.plan.reusable())
    }

    fn put_in_place(&self, planned: Planned, policy: Policy, have: Loaded) -> Result<()> {
        let inner = &self.inner;
        let (planned, parts) = replan::compile(&inner.shared, planned, &policy, have)?;
        let (number, id) = (inner.next_number(), inner.id);
        let plan = LoadedPlan::new(&inner.shared, number, id, planned, parts, &policy)?;
        inner.put_in_place(&Arc::new(plan), &Arc::new(policy));
        Ok(())
    }

    /// Runs the model on the CPU in full precision with the suspect nodes' tensors as outputs.
    fn diagnose(&self, sample: &Sample) -> Result<Finding> {
        let planned = &self.plan.planned;
        let graph = planned.graph();
        let suspects: Vec<(DeviceIndex, u32)> = suspects(planned).collect();
        let cpu = planned
            .devices()
            .iter()
            .chain(self.inner.shared.host.devices())
            .find(|device| device.info().kind == DeviceKind::Cpu && !device.info().emulated);
        let Some(cpu) = cpu else {
            return Ok(Finding::Nodes(Vec::new(), 0.0));
        };
        let policy = self
            .inner
            .policy
            .for_devices(vec![cpu.name().to_owned()], Precision::Exact);
        let policy = policy.without_pins().learn(Learn::No).replicas(false);
        let mut largest_of: BTreeMap<TensorId, f64> = BTreeMap::new();
        let mut left = &suspects[..];
        let mut is_first = true;
        while is_first || !left.is_empty() {
            let (ids, count) = batch(graph, left);
            left = &left[count..];
            let answers = self.answers(&ids, &policy, sample)?;
            let (own, inside) = answers.split_at(graph.outputs.len().min(answers.len()));
            if is_first && own.iter().any(|output| !output.largest().is_finite()) {
                return Ok(Finding::ModelsOwn);
            }
            largest_of.extend(
                ids.iter()
                    .copied()
                    .zip(inside.iter().map(OutputSnapshot::largest)),
            );
            is_first = false;
        }
        for (id, input) in graph.inputs.iter().zip(sample.largest_inputs(graph.inputs.len())) {
            largest_of.insert(*id, input);
        }
        let exceeds = |id: TensorId| largest_of.get(&id).is_some_and(|largest| *largest > LARGEST);
        let overflows = |node: u32| {
            let node = graph.node(polychip_graph::NodeId::new(node as usize));
            let reads = node.inputs.iter().flatten().copied();
            node.writes().chain(reads).any(exceeds)
        };
        let nodes: Vec<(DeviceIndex, u32)> = suspects
            .into_iter()
            .filter(|(_, node)| overflows(*node))
            .collect();
        let all = largest_of.values().copied().filter(|largest| largest.is_finite());
        Ok(Finding::Nodes(nodes, all.fold(0.0, f64::max)))
    }

    /// The outputs of the model in full precision, and then these tensors.
    fn answers(&self, ids: &[TensorId], policy: &Policy, sample: &Sample) -> Result<Vec<OutputSnapshot>> {
        let (inner, planned) = (&self.inner, &self.plan.planned);
        let mut graph = planned.graph().clone();
        graph.outputs.extend(ids);
        let model = planned.model().part("overflow", graph);
        let exact = Planned::new(&inner.shared, &model, policy, &|_| {})?;
        let (exact, parts) = replan::compile(&inner.shared, exact, policy, Loaded::default())?;
        let (number, id) = (inner.next_number(), inner.id);
        let plan = LoadedPlan::new(&inner.shared, number, id, exact, parts, policy)?;
        let shadowed = shadow::run(&Arc::new(plan), sample, PATIENCE)?;
        Ok(shadowed.map(|shadowed| shadowed.answers).unwrap_or_default())
    }

    /// The names of some of these nodes.
    fn named(&self, nodes: &[(DeviceIndex, u32)]) -> String {
        let graph = self.plan.planned.graph();
        let name = |(_, node): &(DeviceIndex, u32)| {
            graph.describe(graph.node(polychip_graph::NodeId::new(*node as usize)))
        };
        let names: Vec<String> = nodes.iter().take(NAMED).map(name).collect();
        match nodes.len().saturating_sub(NAMED) {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        }
    }
}

/// Float tensors that the first of these nodes write, up to [`BATCH_BYTES`], and the number of these nodes.
fn batch(graph: &Graph, nodes: &[(DeviceIndex, u32)]) -> (Vec<TensorId>, usize) {
    let known: BTreeSet<TensorId> = graph.outputs.iter().copied().collect();
    let (mut ids, mut bytes) = (Vec::new(), 0);
    for (count, (_, node)) in nodes.iter().enumerate() {
        let written = graph.node(polychip_graph::NodeId::new(*node as usize)).writes();
        for id in written.filter(|id| !known.contains(id)) {
            let tensor = graph.tensor(id);
            let is_float = matches!(
                tensor.ty.dtype,
                DType::F32 | DType::F16 | DType::BF16 | DType::F64
            );
            let size = tensor.memory_bytes().filter(|_| is_float && !tensor.upper_bound);
            let Some(size) = size.map(|size| size as u64) else {
                continue;
            };
            if bytes + size > BATCH_BYTES && !ids.is_empty() {
                return (ids, count);
            }
            bytes += size;
            ids.push(id);
        }
    }
    (ids, nodes.len())
}
