//! The nodes of a graph that are claimed, and the reasons against the others.
//!
//! Invariants:
//! 1. A node with bodies is claimed with all of them or not at all; its bodies then claim nothing
//!    separately.
//! 2. A node without bodies is claimed only if some device supports it. If sizes are known, the
//!    devices are asked about the node itself. If sizes or ranks are open, they are asked about
//!    nodes with sample sizes, and a node that no sample fits is left to other providers. The run's
//!    own sizes may still be refused; a warning and the run's error then report it (`fused`).

use std::collections::{BTreeMap, BTreeSet};

use polychip::{Model, Policy, Runtime};
use polychip_graph::onnx::messages;
use polychip_ops::Op;

use crate::api::Api;
use crate::compiled;
use crate::failure::Result;
use crate::ort::{Graph, Info, Node, Type};
use crate::read::{Captured, Constants, Reader, imported, ranked, unranked};
use crate::sets::{self, Kind, Touches};
use crate::surroundings::Surroundings;

/// Trial values for open sizes when devices are asked, tried in turn until one breaks no rule of
/// the nodes. The sizes that the nodes themselves name follow.
const STAND_INS: [usize; 4] = [1, 8, 64, 256];

/// So many sizes of the nodes are tried, up to this one.
const TRIED: usize = 32;
const LARGEST_TRIED: usize = 1 << 16;

/// Trial values for an unknown rank, in the order in which they are tried.
const RANKS: std::ops::RangeInclusive<usize> = 0..=5;

/// ONNX Runtime's codes of the element types that a node of a compiled model takes and gives: floats of 16, 32 and 64 bits,
/// integers of 8 to 64, truth values.
const COMPILED_TYPES: [i32; 13] = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16];

/// Verdict of the devices on nodes with such sizes.
enum DeviceVerdict {
    Run,
    Refused(String),
    /// The sizes violate a rule of the nodes; no device was asked.
    Unfit(String),
}

/// The claimed nodes of a graph.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    /// Sets of nodes to be fused, by their indices in the graph.
    pub(crate) sets: Vec<Vec<usize>>,
    /// Nodes that are not claimed: op with its domain, and the reason.
    pub(crate) refused: Vec<(String, String)>,
    /// All nodes of the graph.
    pub(crate) nodes: usize,
}

/// Runtime and policy by which nodes are claimed.
pub(crate) struct Asked<'a> {
    pub(crate) api: Api,
    pub(crate) runtime: &'a Runtime,
    pub(crate) policy: &'a Policy,
    pub(crate) surroundings: &'a Surroundings,
    /// Claimed nodes go into a compiled model.
    pub(crate) compiles: bool,
}

impl Asked<'_> {
    /// The claimed nodes of a graph or a body.
    pub(crate) fn claim(&self, graph: Graph<'_>) -> Result<Claim> {
        let nodes = graph.nodes()?;
        let is_taken = if self.api.has_shapes {
            self.is_claimed_around(graph)?
        } else {
            looks_like_body(graph, &nodes)?
        };
        if nodes.is_empty() || is_taken {
            return Ok(Claim::default());
        }
        if let Some(claim) = compiled_claim(&nodes)? {
            return Ok(claim);
        }
        if self.compiles && graph.parent()?.is_some() {
            return left_to_others(&nodes, "a compiled model has no parts within bodies");
        }
        let opsets = graph.opsets()?;
        let (mut values, mut touches, mut refusals) =
            (Values::of(graph, self.compiles)?, Vec::new(), Vec::new());
        for node in &nodes {
            touches.push(values.touched(*node)?);
        }
        // mostly everything is run, and one question tells
        let is_all = self
            .reader()
            .whole(graph)
            .is_ok_and(|model| self.refusal(model).is_none());
        for node in &nodes {
            refusals.push(match node.provider()? {
                // a set with a node that another has is not taken
                provider if !provider.is_empty() => Some(format!("{provider} has it")),
                _ if is_all => None,
                _ => self.node(*node, &opsets),
            });
        }
        let mut claimed: Vec<bool> = refusals.iter().map(Option::is_none).collect();
        let sets = sets::sets(&touches, &values.kinds, &mut claimed, self.api.hands_captures);
        let mut refused = Vec::new();
        for ((node, refusal), is_claimed) in nodes.iter().zip(refusals).zip(&claimed) {
            if !is_claimed {
                let why = refusal.unwrap_or_else(|| {
                    if self.compiles { "its inputs or outputs include a type that compiled models do not support: strings, a sequence or an optional" } else { "its inputs or outputs include values that this ONNX Runtime does not pass: a sequence, an optional, or a value that a body reads" }
                    .to_owned()
                });
                refused.push((words_of(*node)?, why));
            }
        }
        Ok(Claim {
            sets,
            refused,
            nodes: nodes.len(),
        })
    }

    fn reader(&self) -> Reader<'_> {
        static NONE: Captured = Captured::new();
        Reader {
            api: self.api,
            constants: Constants::InPlace,
            captured: &NONE,
            source: None,
        }
    }

    /// Whether the node around a body is claimed, and the body with it. One further out is only where this one is.
    fn is_claimed_around(&self, body: Graph<'_>) -> Result<bool> {
        let Some(node) = body.parent()? else {
            return Ok(false);
        };
        if compiled::is_compiled(node).unwrap_or(false) {
            return Ok(false);
        }
        let Ok(model) = self.reader().alone(node, body.opsets()?) else {
            return Ok(false);
        };
        let ask = || self.refusal_alone(model.clone()).is_none();
        Ok(self.surroundings.is_claimed(&model, ask))
    }

    /// The reason why a node is not claimed, if any.
    fn node(&self, node: Node<'_>, opsets: &[(String, i64)]) -> Option<String> {
        if compiled::is_compiled(node).unwrap_or(false) {
            return Some("it holds what another provider compiled".to_owned());
        }
        let alone = self.reader().alone(node, opsets.to_vec());
        match alone {
            Ok(model) => self.refusal_alone(model),
            Err(failure) => Some(failure.words),
        }
    }

    /// The reason why a node that was read alone is not claimed, if any.
    fn refusal_alone(&self, model: messages::Model) -> Option<String> {
        if has_bodies(&model) {
            self.refusal_with_bodies(model)
        } else {
            self.refusal(model)
        }
    }

    /// The reason why no device runs some node of a model, if any.
    fn refusal(&self, model: messages::Model) -> Option<String> {
        let unranked = unranked(&model);
        let graph = match known(model.clone()) {
            Ok(graph) => graph,
            Err(words) => return Some(words),
        };
        if unranked.is_empty() {
            return match self.answer(graph) {
                DeviceVerdict::Run => None,
                DeviceVerdict::Refused(words) | DeviceVerdict::Unfit(words) => Some(words),
            };
        }
        let mut refused = None;
        let mut unfit = String::new();
        for rank in RANKS {
            let ranked = known(ranked(&model, unranked.iter().map(|place| (*place, rank))));
            match ranked.map(|graph| self.answer(graph)) {
                Ok(DeviceVerdict::Run) => return None,
                Ok(DeviceVerdict::Refused(words)) => refused = refused.or(Some(words)),
                Ok(DeviceVerdict::Unfit(words)) | Err(words) => unfit = words,
            }
        }
        let untold = || {
            format!(
                "how many sizes its inputs have is not known before a run, and none of {} to {} fits: {unfit}",
                RANKS.start(),
                RANKS.end()
            )
        };
        Some(refused.unwrap_or_else(untold))
    }

    /// As [`Asked::refusal`], for a node with bodies. If no trial size fits, or ranks are open, the
    /// node is claimed all the same: sizes within its bodies are not inputs, so they cannot be
    /// bound. A claim by a body alone would be smaller, and wrong if the model misstates its sizes.
    fn refusal_with_bodies(&self, model: messages::Model) -> Option<String> {
        let is_ranked = unranked(&model).is_empty();
        match known(model) {
            Err(words) => Some(words),
            Ok(_) if !is_ranked => None,
            Ok(graph) => match self.answer(graph) {
                DeviceVerdict::Refused(words) => Some(words),
                DeviceVerdict::Run | DeviceVerdict::Unfit(_) => None,
            },
        }
    }

    fn answer(&self, graph: polychip_graph::Graph) -> DeviceVerdict {
        let own = sizes_of(&graph);
        let model = self.runtime.load_graph("what ONNX Runtime asks about", graph);
        let open = model.open_dims();
        if open.is_empty() {
            return self.by_devices(&model);
        }
        let mut unfit = String::new();
        for size in STAND_INS.into_iter().chain(own) {
            match model.bind(open.iter().map(|name| (name.clone(), size))) {
                Ok(model) => return self.by_devices(&model),
                Err(error) => unfit = error.to_string(),
            }
        }
        DeviceVerdict::Unfit(format!(
            "its sizes ({}) are not known before a run, and none of those tried fits: {unfit}",
            open.join(", ")
        ))
    }

    fn by_devices(&self, model: &Model) -> DeviceVerdict {
        let support = match self.runtime.support(model, self.policy) {
            Ok(support) => support,
            Err(error) => return DeviceVerdict::Refused(error.to_string()),
        };
        let refused = (0..support.graph().node_count()).find(|node| {
            support
                .targets()
                .iter()
                .all(|target| target.refusals[*node].is_some())
        });
        let Some(refused) = refused else {
            return DeviceVerdict::Run;
        };
        let reasons = support.targets().iter().filter_map(|target| {
            let refusal = target.refusals[refused].as_ref()?;
            Some(format!("{}: {}", target.name, refusal.words))
        });
        DeviceVerdict::Refused(reasons.collect::<Vec<_>>().join("; "))
    }
}

/// What is claimed of a compiled model: each node that holds what this provider compiled, by itself. The others were left to
/// others when it was compiled. None of a model that has no such node.
fn compiled_claim(nodes: &[Node<'_>]) -> Result<Option<Claim>> {
    let mut claim = Claim {
        nodes: nodes.len(),
        ..Claim::default()
    };
    for (place, node) in nodes.iter().enumerate() {
        if node.provider()?.is_empty() && compiled::is_ours(*node)? {
            claim.sets.push(vec![place]);
        } else {
            let why = "it was left to others when the model was compiled";
            claim.refused.push((words_of(*node)?, why.to_owned()));
        }
    }
    Ok((!claim.sets.is_empty()).then_some(claim))
}

/// Claims none of these nodes.
fn left_to_others(nodes: &[Node<'_>], why: &str) -> Result<Claim> {
    let refused = nodes.iter().map(|node| Ok((words_of(*node)?, why.to_owned())));
    Ok(Claim {
        refused: refused.collect::<Result<_>>()?,
        nodes: nodes.len(),
        sets: Vec::new(),
    })
}

/// The graph of a model whose ops are known.
///
/// # Errors
/// A message that names an unknown op.
fn known(model: messages::Model) -> std::result::Result<polychip_graph::Graph, String> {
    let graph = imported(model).map_err(|failure| failure.words)?;
    match unknown(&graph) {
        Some(words) => Err(words),
        None => Ok(graph),
    }
}

fn has_bodies(model: &messages::Model) -> bool {
    let nodes = model.graph.iter().flat_map(|graph| &graph.node);
    nodes
        .flat_map(|node| &node.attribute)
        .any(|attribute| attribute.g.is_some())
}

/// Sizes that a graph names, smallest first, without those in `STAND_INS`.
fn sizes_of(graph: &polychip_graph::Graph) -> BTreeSet<usize> {
    let tensors = graph
        .tensors()
        .filter_map(|(_, tensor)| tensor.ty.shape.as_deref());
    let known = tensors.flatten().filter_map(polychip_ops::Dim::known);
    let tried = known.filter(|size| (2..=LARGEST_TRIED).contains(size) && !STAND_INS.contains(size));
    let all: BTreeSet<usize> = tried.collect();
    all.into_iter().take(TRIED).collect()
}

/// Whether a graph is a body, as far as it can be told by what it reads and takes. Release 1.23 does not say it, and takes a
/// graph for wrong in whose bodies nodes are fused.
fn looks_like_body(graph: Graph<'_>, nodes: &[Node<'_>]) -> Result<bool> {
    let inputs = graph.inputs()?;
    let is_loops = match inputs.as_slice() {
        // a branch, or a model that gives the same whatever happens
        [] => true,
        [trip, condition, ..] => {
            const I64: i32 = 7;
            const BOOL: i32 = 9;
            // bodies of functions that were inlined have no types yet
            matches!(
                (trip.ty()?, condition.ty()?),
                (
                    Type::Tensor(I64, _) | Type::Other,
                    Type::Tensor(BOOL, _) | Type::Other
                )
            )
        }
        _ => false,
    };
    if is_loops {
        return Ok(true);
    }
    for node in nodes {
        for info in node.inputs()?.into_iter().flatten() {
            if info.is_outer()? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Reason why no device of ours runs a graph or a body of its nodes, whatever their types.
fn unknown(graph: &polychip_graph::Graph) -> Option<String> {
    graph.nodes().find_map(|(_, node)| {
        if node.op == Op::Custom {
            return Some("the op is not known here".to_owned());
        }
        node.bodies.iter().find_map(|body| unknown(&body.graph))
    })
}

/// Op and domain of a node.
pub(crate) fn words_of(node: Node<'_>) -> Result<String> {
    let (op, domain) = (node.op()?, node.domain()?);
    Ok(if domain.is_empty() {
        op.to_owned()
    } else {
        format!("{domain}.{op}")
    })
}

/// The values of a graph, by their names.
struct Values {
    /// Values at the edge of a set must suit a node of a compiled model.
    compiles: bool,
    numbers: BTreeMap<String, usize>,
    kinds: Vec<Kind>,
}

impl Values {
    fn of(graph: Graph<'_>, compiles: bool) -> Result<Values> {
        let mut values = Values {
            compiles,
            numbers: BTreeMap::new(),
            kinds: Vec::new(),
        };
        for info in graph.inputs()?.into_iter().chain(graph.outputs()?) {
            if let Some(number) = values.number(info)? {
                values.kinds[number].is_outer = true;
            }
        }
        Ok(values)
    }

    /// The number of a value; none of one without a name.
    fn number(&mut self, info: Info<'_>) -> Result<Option<usize>> {
        let name = info.name()?;
        if name.is_empty() {
            return Ok(None);
        }
        if let Some(number) = self.numbers.get(name) {
            return Ok(Some(*number));
        }
        let number = self.kinds.len();
        self.numbers.insert(name.to_owned(), number);
        self.kinds.push(Kind {
            is_tensor: match info.ty()? {
                Type::Tensor(code, _) => !self.compiles || COMPILED_TYPES.contains(&code),
                _ => false,
            },
            is_outer: false,
        });
        Ok(Some(number))
    }

    /// The number of a value that is read.
    fn read(&mut self, info: Info<'_>) -> Result<Option<usize>> {
        let before = self.kinds.len();
        let number = self.number(info)?;
        if number == Some(before) {
            // what no node before wrote comes from outside
            self.kinds[before].is_outer = true;
        }
        Ok(number)
    }

    fn touched(&mut self, node: Node<'_>) -> Result<Touches> {
        let mut touches = Touches::default();
        for info in node.inputs()?.into_iter().flatten() {
            touches.reads.extend(self.read(info)?);
        }
        for info in node.captures()? {
            if !info.is_constant()? {
                touches.captures.extend(self.read(info)?);
            }
        }
        for info in node.outputs()?.into_iter().flatten() {
            touches.writes.extend(self.number(info)?);
        }
        Ok(touches)
    }
}
