//! A finalized graph: its nodes in an order in which they can run, each with its computation.
//!
//! Invariants:
//! 1. All nodes of a plan are valid. A run fails only because of values, such as an index out of
//!    range.
//! 2. A run does not change the plan, so several threads may run it.
//!
//! Not here: memory of the app (`ffi`), which nodes are accepted (`support`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use polychip_emulator_qnn_format::{Dtype, Graph, Kind, Linear, Node, Tensor as Spec};
use polychip_ops::DType;
use polychip_reference::Tensor;

use crate::code::{Code, Result};
use crate::fast::Product;
use crate::lower;
use crate::real;
use crate::recipe::Recipe;
use crate::soc::Soc;
use crate::support;
use crate::view::{Refusal, View};

/// A finalized graph.
pub(crate) struct Plan {
    steps: Vec<Step>,
    /// Descriptions of the graph's inputs and outputs.
    ports: Vec<Spec>,
    ops: BTreeSet<String>,
    macs: u64,
    bytes: u64,
}

struct Step {
    compute: Compute,
    inputs: Vec<u32>,
    outputs: Vec<Spec>,
    /// Not needed after this step.
    dead: Vec<u32>,
}

enum Compute {
    Oracle {
        recipe: Recipe,
        real: DType,
        half: bool,
        /// Descriptions of the inputs, and the values of constant ones.
        inputs: Vec<Option<(Spec, Option<Tensor>)>>,
    },
    Product(Box<Product>),
    /// The output for each number of the input; its first number and bytes per element.
    Table {
        dtype: Dtype,
        spec: Box<Spec>,
        least: i64,
        width: usize,
        entries: Vec<u8>,
    },
}

/// Values by tensor id while a graph runs.
pub(crate) type Values = BTreeMap<u32, Arc<[u8]>>;

impl Plan {
    /// Prepares a graph for a SoC.
    ///
    /// # Errors
    /// Returns the code, and a text that names the node and the mistake.
    pub(crate) fn new(graph: &Graph, soc: Soc) -> std::result::Result<Plan, (Code, String)> {
        let mut ready: BTreeMap<u32, ()> = graph
            .tensors
            .iter()
            .filter(|tensor| matches!(tensor.kind, Kind::AppWrite | Kind::AppReadWrite | Kind::Static))
            .map(|tensor| (tensor.id, ()))
            .collect();
        let mut waiting: Vec<&Node> = graph.nodes.iter().collect();
        let mut steps = Vec::new();
        let mut macs = 0;
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut later = Vec::new();
            for node in waiting {
                let known = |&id: &u32| {
                    id == 0
                        || ready.contains_key(&id)
                        || graph.tensor(id).is_some_and(|tensor| tensor.kind == Kind::Null)
                };
                if !node.inputs.iter().all(known) {
                    later.push(node);
                    continue;
                }
                let step = Step::new(graph, node, soc)
                    .map_err(|(code, why)| (code, format!("node {:?}: {why}", node.name)))?;
                if let Compute::Product(product) = &step.compute {
                    macs += product.macs();
                }
                for tensor in &step.outputs {
                    if ready.insert(tensor.id, ()).is_some() && tensor.kind != Kind::AppReadWrite {
                        let why = format!("tensor {:?} is written twice", tensor.name);
                        return Err((Code::GRAPH_NODES, why));
                    }
                }
                steps.push(step);
            }
            if later.len() == before {
                let why = format!("node {:?} waits for a tensor that nothing makes", later[0].name);
                return Err((Code::GRAPH_NODES, why));
            }
            waiting = later;
        }
        for tensor in graph.outputs() {
            if !ready.contains_key(&tensor.id) {
                let why = format!("output {:?} is made by no node", tensor.name);
                return Err((Code::GRAPH_NODES, why));
            }
        }
        mark_dead(&mut steps, graph);
        let bytes = graph
            .tensors
            .iter()
            .filter_map(Spec::byte_len)
            .map(|bytes| bytes as u64)
            .sum();
        let ports = graph
            .tensors
            .iter()
            .filter(|tensor| tensor.kind.is_input() || tensor.kind.is_output())
            .cloned()
            .collect();
        let ops = graph.nodes.iter().map(|node| node.op.clone()).collect();
        Ok(Plan {
            steps,
            ports,
            ops,
            macs,
            bytes,
        })
    }

    /// The input or output of this id.
    pub(crate) fn port(&self, id: u32) -> Option<&Spec> {
        let at = self.ports.binary_search_by_key(&id, |tensor| tensor.id).ok()?;
        Some(&self.ports[at])
    }

    /// The tensors that the app gives at each execute.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Spec> {
        self.ports.iter().filter(|tensor| tensor.kind.is_input())
    }

    /// Whether a node has this op.
    pub(crate) fn has_op(&self, op: &str) -> bool {
        self.ops.contains(op)
    }

    /// Multiplications and additions of the products, and bytes of all tensors.
    pub(crate) fn size(&self) -> (u64, u64) {
        (self.macs, self.bytes)
    }

    /// Runs all nodes over the values of the inputs, and adds the values of the outputs.
    ///
    /// # Errors
    /// A node cannot compute its values.
    pub(crate) fn run(&self, values: &mut Values) -> Result<()> {
        for step in &self.steps {
            step.run(values).map_err(|_| Code::EXECUTE)?;
            for id in &step.dead {
                values.remove(id);
            }
        }
        Ok(())
    }
}

/// Marks values that no later step reads and the app does not take.
fn mark_dead(steps: &mut [Step], graph: &Graph) {
    let mut last: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        for &id in &step.inputs {
            last.insert(id, at);
        }
    }
    for (id, at) in last {
        if graph.tensor(id).is_some_and(|tensor| tensor.kind == Kind::Native) {
            steps[at].dead.push(id);
        }
    }
}

impl Step {
    fn new(graph: &Graph, node: &Node, soc: Soc) -> std::result::Result<Step, (Code, String)> {
        let get = |&id: &u32| graph.tensor(id).filter(|tensor| tensor.kind != Kind::Null);
        let mut inputs: Vec<Option<&Spec>> = node.inputs.iter().map(get).collect();
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        let outputs: Vec<Option<&Spec>> = node.outputs.iter().map(get).collect();
        let view = View {
            op: &node.op,
            params: &node.params,
            inputs: &inputs,
            outputs: &outputs,
        };
        let wrong = |refusal: Refusal| match refusal {
            Refusal::Unknown => (Code::GRAPH_NODES, format!("op {:?} is not known", node.op)),
            Refusal::Rule(why) => (Code::GRAPH_NODES, why),
            Refusal::NoValues => (Code::GRAPH_NODES, "a parameter has no values".to_owned()),
        };
        if support::refuses_late(&view, soc) {
            return Err((Code::MEMORY, format!("{} of f32 cannot be prepared", node.op)));
        }
        support::validate(&view, &node.package, soc).map_err(wrong)?;
        let half = graph.half || soc.halves();
        let mut written: Vec<Spec> = outputs.iter().flatten().map(|tensor| (*tensor).clone()).collect();
        if support::forced_softmax(&view) {
            force_zero_point(&mut written);
        }
        let bias = lower::scaled_bias(&view);
        let mut given = inputs.clone();
        if let (Some(bias), Some(place)) = (&bias, given.get_mut(2)) {
            *place = Some(bias);
        }
        let view = View {
            inputs: &given,
            ..view
        };
        let compute = compute(&view, &written, half).map_err(wrong)?;
        Ok(Step {
            compute,
            inputs: node.inputs.clone(),
            outputs: written,
            dead: Vec::new(),
        })
    }

    fn run(&self, values: &mut Values) -> std::result::Result<(), String> {
        let bytes = |at: usize, values: &Values| -> std::result::Result<Arc<[u8]>, String> {
            self.inputs
                .get(at)
                .and_then(|id| values.get(id))
                .cloned()
                .ok_or_else(|| format!("input {at} has no value"))
        };
        match &self.compute {
            Compute::Product(product) => {
                let x = bytes(0, values)?;
                values.insert(self.outputs[0].id, product.run(&x).into());
            }
            Compute::Table {
                dtype,
                spec,
                least,
                width,
                entries,
            } => {
                let x = bytes(0, values)?;
                let mut out = Vec::with_capacity(x.len() / (dtype.bits() / 8) * width);
                real::each(spec, *dtype, &x, |q| {
                    let at = (q - least) as usize * width;
                    out.extend_from_slice(&entries[at..at + width]);
                });
                values.insert(self.outputs[0].id, out.into());
            }
            Compute::Oracle {
                recipe,
                real,
                half,
                inputs,
            } => {
                let mut loaded = Vec::with_capacity(inputs.len());
                for (at, input) in inputs.iter().enumerate() {
                    loaded.push(match input {
                        Some((spec, None)) => Some(real::load(spec, &bytes(at, values)?, *real, *half)?),
                        _ => None,
                    });
                }
                let refs: Vec<Option<&Tensor>> = inputs
                    .iter()
                    .zip(&loaded)
                    .map(|(input, loaded)| match input {
                        Some((_, Some(constant))) => Some(constant),
                        _ => loaded.as_ref(),
                    })
                    .collect();
                let results = recipe.run(&refs)?;
                for (spec, result) in self.outputs.iter().zip(&results) {
                    values.insert(spec.id, real::store(result, spec, *half)?.into());
                }
            }
        }
        Ok(())
    }
}

/// The zero point becomes -128, the scale stays.
fn force_zero_point(outputs: &mut [Spec]) {
    for spec in outputs {
        if let Some(step) = real::one_step(spec) {
            spec.encoding = polychip_emulator_qnn_format::Encoding::PerTensor(Linear { offset: 128, ..step });
        }
    }
}

fn compute(view: &View<'_>, written: &[Spec], half: bool) -> std::result::Result<Compute, Refusal> {
    if let Some(product) = Product::new(view) {
        return Ok(Compute::Product(Box::new(product)));
    }
    let recipe = lower::lower(view)?;
    let real = view.real();
    let half = half && real == DType::F32;
    if recipe.pointwise
        && let Some(table) = table(view, written, &recipe, half)
    {
        return Ok(table);
    }
    let mut inputs = Vec::with_capacity(view.inputs.len());
    for input in view.inputs {
        inputs.push(match input {
            None => None,
            Some(spec) => {
                let mut description = (*spec).clone();
                let values = if spec.kind == Kind::Static {
                    Some(real::load(spec, &spec.data, real, half).map_err(Refusal::Rule)?)
                } else {
                    None
                };
                description.data = Vec::new().into();
                Some((description, values))
            }
        });
    }
    Ok(Compute::Oracle {
        recipe,
        real,
        half,
        inputs,
    })
}

/// All results of an elementwise node with one input, if there are at most 65,536.
fn table(view: &View<'_>, written: &[Spec], recipe: &Recipe, half: bool) -> Option<Compute> {
    let (x, y) = (view.input(0).ok()?, written.first()?);
    let (dtype, y_type) = (x.known_dtype()?, y.known_dtype()?);
    real::one_step(x)?;
    if !dtype.is_fixed() || !matches!(dtype.bits(), 8 | 16) || y_type.bits() < 8 {
        return None;
    }
    let (least, most) = dtype.range();
    let count = (most - least + 1) as u32;
    let all = Spec {
        dims: vec![count],
        ..x.clone()
    };
    let mut bytes = Vec::new();
    real::pack(dtype, least..=most, &mut bytes);
    let values = real::load(&all, &bytes, view.real(), half).ok()?;
    let results = recipe.run(&[Some(&values)]).ok()?;
    let answers = Spec {
        dims: vec![count],
        ..y.clone()
    };
    let entries = real::store(results.first()?, &answers, half).ok()?;
    Some(Compute::Table {
        dtype,
        spec: Box::new(Spec {
            data: Vec::new().into(),
            ..x.clone()
        }),
        least,
        width: y_type.bits() / 8,
        entries,
    })
}

#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;
