//! The specialisations of a session: one where the model's sizes are all known, else one for each sizes that were run.
//!
//! Invariants:
//! 1. A run finds its specialisation by the shapes of its inputs, and allocates nothing where it is there.
//! 2. Sizes are planned for by one caller; others that need them meanwhile wait for it.
//! 3. What is kept stays below the policy's bytes: those that were used longest ago go first, and are whole until
//!    their last run has ended.
//!
//! Not here: one specialisation with its plan and runs (`inner`), the memory of inputs (`tensor`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use polychip_ops::Dim;
use schemars::JsonSchema;
use serde::Serialize;
use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;
use crate::planned::{self, Planned};
use crate::policy::Policy;
use crate::session::flights::Flights;
use crate::session::govern::watch::Watch;
use crate::session::inner::Inner;
use crate::session::state::States;
use crate::shared::Shared;
use crate::tensor::{Input, Owner, TensorMemory, TensorSpec};

/// Plan numbers that one specialisation may use: more than it will.
const PLANS: u64 = 1 << 32;

/// What a specialisation takes beside tensors and constants, per node: its graph, prices and steps.
const NODE_BYTES: u64 = 4 << 10;

/// Sizes of the open dimensions, in the order of their names.
type Sizes = SmallVec<[usize; 8]>;

/// What the clones of a session share.
#[derive(Debug)]
pub(crate) struct Shapes {
    /// Tells sessions apart, so that an input of another one is refused.
    pub(crate) id: usize,
    pub(crate) policy: Policy,
    pub(crate) inputs: Vec<TensorSpec>,
    pub(crate) outputs: Vec<TensorSpec>,
    pub(crate) flights: Arc<Flights>,
    pub(crate) states: Arc<States>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Known(Special),
    Open(Open),
}

/// One specialisation.
#[derive(Debug)]
pub(crate) struct Special {
    pub(crate) inner: Arc<Inner>,
    /// Its thread ends with the last clone of the session.
    pub(crate) _watch: Option<Arc<Watch>>,
}

/// The specialisations of a model with open sizes.
#[derive(Debug)]
struct Open {
    shared: Arc<Shared>,
    model: Model,
    /// Names of the open dimensions.
    names: Vec<String>,
    /// By input: its axes with an open size, and the place of the name.
    axes: Vec<Vec<(usize, usize)>>,
    kept: Mutex<Kept>,
    /// A specialisation was made, or could not be.
    made: Condvar,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    all: Vec<Specialised>,
    making: Vec<Sizes>,
    /// Counts uses and specialisations.
    used: u64,
    number: u64,
    dropped: u64,
}

#[derive(Debug)]
struct Specialised {
    sizes: Sizes,
    special: Special,
    used: u64,
    bytes: u64,
    planning_ns: u64,
}

/// What a session with open sizes keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShapesReport {
    /// Runs whose sizes had been planned for.
    pub hits: u64,
    /// Runs whose sizes were planned for first.
    pub misses: u64,
    /// Specialisations that were let go of to stay below the limit.
    pub dropped: u64,
    /// What is kept, in bytes: tensors between parts, outputs, constants that are not shared, plans.
    pub bytes: u64,
    /// The most that is kept, in bytes.
    pub limit_bytes: u64,
    /// What is kept, used last first.
    pub kept: Vec<SpecialisationReport>,
}

/// A specialisation of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SpecialisationReport {
    /// Sizes of the open dimensions.
    pub sizes: BTreeMap<String, usize>,
    /// Runs.
    pub runs: u64,
    /// What it takes, in bytes.
    pub bytes: u64,
    /// Time to plan, compile and load it, in nanoseconds.
    pub planning_ns: u64,
}

impl Shapes {
    /// A session whose one specialisation is there.
    pub(crate) fn known(id: usize, policy: Policy, flights: Arc<Flights>, special: Special) -> Shapes {
        let inner = &special.inner;
        Shapes {
            id,
            inputs: inner.inputs.clone(),
            outputs: inner.outputs.clone(),
            states: Arc::default(),
            kind: Kind::Known(special),
            policy,
            flights,
        }
    }

    /// A session of a model with open sizes.
    pub(crate) fn open(id: usize, shared: Arc<Shared>, model: &Model, policy: Policy) -> Result<Shapes> {
        let refuse = |kind: ErrorKind, words: &str| {
            let names = model.open_dims().join(", ");
            let words = format!(
                "{}: {words}; give a size to {names} (Model::bind)",
                model.path().display()
            );
            Err(Error::new(kind, words))
        };
        if policy.governing().is_some() {
            return refuse(ErrorKind::BadInput, "a governed session takes one shape");
        }
        planned::choose_devices(&shared, &policy)?;
        let names = model.open_dims();
        let specs = |ids: &[polychip_graph::TensorId]| -> Vec<TensorSpec> {
            ids.iter()
                .map(|id| open_spec(model.graph().tensor(*id)))
                .collect()
        };
        let graph = model.graph();
        if let Some(id) = graph
            .inputs
            .iter()
            .find(|id| graph.tensor(**id).ty.shape.is_none())
        {
            let words = format!("input {:?} has no known rank", graph.tensor(*id).name);
            return refuse(ErrorKind::BadInput, &words);
        }
        let inputs = specs(&graph.inputs);
        let place = |name: &String| names.iter().position(|other| other == name);
        let axes = |spec: &TensorSpec| {
            let open = spec.open.iter();
            open.filter_map(|(axis, name)| Some((*axis, place(name)?)))
                .collect()
        };
        Ok(Shapes {
            id,
            outputs: specs(&graph.outputs),
            states: Arc::default(),
            flights: Arc::new(Flights::new(policy.runs_in_flight())),
            kind: Kind::Open(Open {
                shared,
                model: model.clone(),
                axes: inputs.iter().map(axes).collect(),
                names,
                kept: Mutex::default(),
                made: Condvar::new(),
                hits: AtomicU64::new(0),
                misses: AtomicU64::new(0),
            }),
            inputs,
            policy,
        })
    }

    /// The specialisation that was used last; none before the first run of a model with open sizes.
    pub(crate) fn latest(&self) -> Option<Arc<Inner>> {
        match &self.kind {
            Kind::Known(special) => Some(Arc::clone(&special.inner)),
            Kind::Open(open) => {
                let kept = open.lock();
                let latest = kept.all.iter().max_by_key(|one| one.used);
                latest.map(|one| Arc::clone(&one.special.inner))
            }
        }
    }

    /// All specialisations.
    pub(crate) fn all(&self) -> Vec<Arc<Inner>> {
        match &self.kind {
            Kind::Known(special) => vec![Arc::clone(&special.inner)],
            Kind::Open(open) => {
                let kept = open.lock();
                kept.all
                    .iter()
                    .map(|one| Arc::clone(&one.special.inner))
                    .collect()
            }
        }
    }

    /// The specialisation for these inputs, made where it is not there.
    pub(crate) fn of(&self, inputs: &[&Input]) -> Result<Arc<Inner>> {
        match &self.kind {
            Kind::Known(special) => Ok(Arc::clone(&special.inner)),
            Kind::Open(open) => {
                let shapes = inputs.iter().map(|input| {
                    input.check_sized()?;
                    Ok((input.index, input.shape()))
                });
                let sizes = self.sizes(open, shapes)?;
                self.specialised(open, &sizes)
            }
        }
    }

    /// Plans for inputs of these shapes, if that was not done.
    pub(crate) fn prepare(&self, shapes: &[(usize, &[usize])]) -> Result<Arc<Inner>> {
        for (index, shape) in shapes {
            self.inputs[*index].check(shape)?;
        }
        match &self.kind {
            Kind::Known(special) => Ok(Arc::clone(&special.inner)),
            Kind::Open(open) => {
                let sizes = self.sizes(open, shapes.iter().map(|shape| Ok(*shape)))?;
                self.specialised(open, &sizes)
            }
        }
    }

    /// The sizes of the open dimensions by the shapes of inputs.
    fn sizes<'a>(
        &self,
        open: &Open,
        shapes: impl Iterator<Item = Result<(usize, &'a [usize])>>,
    ) -> Result<Sizes> {
        // who said so first, by name
        let mut sizes: SmallVec<[Option<(usize, usize)>; 8]> = smallvec::smallvec![None; open.names.len()];
        for shape in shapes {
            let (index, shape) = shape?;
            for &(axis, name) in &open.axes[index] {
                let (size, by) = *sizes[name].get_or_insert((shape[axis], index));
                if size != shape[axis] {
                    let words = format!(
                        "dimension {:?} is {size} by input {:?} and {} by input {:?}",
                        open.names[name], self.inputs[by].name, shape[axis], self.inputs[index].name
                    );
                    return Err(Error::new(ErrorKind::BadInput, words));
                }
            }
        }
        for (index, axes) in open.axes.iter().enumerate() {
            for &(axis, name) in axes {
                if sizes[name].is_none()
                    && let Some(shape) = self.states.shape(index)
                {
                    sizes[name] = Some((shape[axis], index));
                }
            }
        }
        let size = |(name, size): (usize, &Option<(usize, usize)>)| match size {
            Some((size, _)) => Ok(*size),
            None => {
                let name = &open.names[name];
                let words = format!("no input says how large dimension {name:?} is");
                Err(Error::new(ErrorKind::BadInput, words))
            }
        };
        sizes.iter().enumerate().map(size).collect()
    }

    fn specialised(&self, open: &Open, sizes: &Sizes) -> Result<Arc<Inner>> {
        let mut kept = open.lock();
        loop {
            if let Some(inner) = kept.find(sizes) {
                open.hits.fetch_add(1, Ordering::Relaxed);
                return Ok(inner);
            }
            if !kept.making.contains(sizes) {
                break;
            }
            kept = open.made.wait(kept).unwrap_or_else(PoisonError::into_inner);
        }
        kept.making.push(sizes.clone());
        let number = kept.number;
        kept.number += 1;
        drop(kept);
        open.misses.fetch_add(1, Ordering::Relaxed);
        let start = Instant::now();
        let made = self.make(open, sizes, number);
        let mut kept = open.lock();
        kept.making.retain(|other| other != sizes);
        let mut dropped = Vec::new();
        let result = made.map(|special| {
            let inner = Arc::clone(&special.inner);
            let bytes = inner.bytes();
            let planning_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            kept.used += 1;
            let used = kept.used;
            kept.all.push(Specialised {
                sizes: sizes.clone(),
                special,
                used,
                bytes,
                planning_ns,
            });
            dropped = kept.shrink(self.policy.most_kept_bytes());
            inner
        });
        drop(kept);
        open.made.notify_all();
        // without the lock: what is let go of waits for its last runs
        drop(dropped);
        result
    }

    fn make(&self, open: &Open, sizes: &Sizes, number: u64) -> Result<Special> {
        let named = open.names.iter().cloned().zip(sizes.iter().copied()).collect();
        let canonical = || planned::canonical(&open.shared, &open.model);
        let model = open.model.specialised(&named, canonical)?;
        let planned = Planned::new(&open.shared, &model, &self.policy, &|_| {})?;
        Special::new(
            self.id,
            &open.shared,
            planned,
            self.policy.clone(),
            number * PLANS,
        )
    }

    /// What is kept; none where all sizes are known.
    pub(crate) fn report(&self) -> Option<ShapesReport> {
        let Kind::Open(open) = &self.kind else {
            return None;
        };
        let kept = open.lock();
        let mut all: Vec<&Specialised> = kept.all.iter().collect();
        all.sort_unstable_by_key(|one| std::cmp::Reverse(one.used));
        let one = |one: &&Specialised| SpecialisationReport {
            sizes: open
                .names
                .iter()
                .cloned()
                .zip(one.sizes.iter().copied())
                .collect(),
            runs: one.special.inner.runs.load(Ordering::Relaxed),
            bytes: one.bytes,
            planning_ns: one.planning_ns,
        };
        Some(ShapesReport {
            hits: open.hits.load(Ordering::Relaxed),
            misses: open.misses.load(Ordering::Relaxed),
            dropped: kept.dropped,
            bytes: kept.bytes(),
            limit_bytes: self.policy.most_kept_bytes(),
            kept: all.iter().map(one).collect(),
        })
    }

    /// Time on the runtime's clock, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        match &self.kind {
            Kind::Known(special) => special.inner.now_ns(),
            Kind::Open(open) => open.shared.host.clock().now_ns(),
        }
    }

    /// The model, where it has open sizes.
    pub(crate) fn model(&self) -> Option<&Model> {
        match &self.kind {
            Kind::Known(_) => None,
            Kind::Open(open) => Some(&open.model),
        }
    }
}

impl Owner for Shapes {
    fn reap_ended(&self) {
        self.all().iter().for_each(|inner| inner.reap_ended());
    }

    fn take_back(&self, memory: &TensorMemory) -> Result<()> {
        self.latest().map_or(Ok(()), |inner| inner.take_back(memory))
    }
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// The specialisation for these sizes, which is used now.
    fn find(&mut self, sizes: &Sizes) -> Option<Arc<Inner>> {
        self.used += 1;
        let used = self.used;
        let found = self.all.iter_mut().find(|one| one.sizes == *sizes)?;
        found.used = used;
        Some(Arc::clone(&found.special.inner))
    }

    fn bytes(&self) -> u64 {
        self.all.iter().map(|one| one.bytes).sum()
    }

    /// Takes out what was used longest ago until the rest is small enough; what is used now stays.
    fn shrink(&mut self, limit: u64) -> Vec<Specialised> {
        let mut dropped = Vec::new();
        while self.all.len() > 1 && self.bytes() > limit {
            let oldest = (0..self.all.len()).min_by_key(|index| self.all[*index].used);
            dropped.extend(oldest.map(|index| self.all.swap_remove(index)));
        }
        self.dropped += dropped.len() as u64;
        dropped
    }
}

impl Inner {
    /// What it takes, in bytes, beside what it shares with others.
    fn bytes(&self) -> u64 {
        let current = self.current();
        let nodes = current.planned.graph().node_count() as u64 * NODE_BYTES;
        let plan = current.plan.as_ref().map_or(0, |plan| plan.bytes());
        nodes + plan
    }
}

/// A tensor at the edge of a model whose sizes may be open.
fn open_spec(tensor: &polychip_graph::Tensor) -> TensorSpec {
    let dims = tensor.ty.shape.as_deref().unwrap_or_default();
    let open = |(axis, dim): (usize, &Dim)| match dim {
        Dim::Known(_) => None,
        Dim::Symbol(name) => Some((axis, name.to_string())),
        Dim::Unknown => Some((axis, "?".to_owned())),
    };
    let open: Vec<(usize, String)> = dims.iter().enumerate().filter_map(open).collect();
    let shape: Vec<usize> = dims.iter().map(|dim| dim.known().unwrap_or(0)).collect();
    let bytes = polychip_ops::axis::product(&shape).and_then(|elements| tensor.ty.dtype.byte_len(elements));
    TensorSpec {
        name: tensor.name.clone(),
        dtype: tensor.ty.dtype,
        bytes: if open.is_empty() {
            bytes.unwrap_or(0) as u64
        } else {
            0
        },
        shape,
        open,
        upper_bound: tensor.upper_bound,
        packed: tensor.is_packed(),
    }
}
