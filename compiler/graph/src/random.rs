//! Random numbers: [`number`] gives the nodes that draw them the inputs which say what they draw.
//!
//! A node of ONNX's random ops keeps no state here. It has two inputs more than in ONNX, after its own:
//!
//! - `run`: `i64[2]`, the session's seed and the number of the run. It is one hidden input of the graph
//!   ([`RUN`], always the last), which the session writes before each run. In the body of a loop the
//!   round is mixed into it, so that each round draws anew.
//! - `stream`: `i64[1]`, a constant that tells the nodes of a model apart.
//!
//! Invariants:
//! 1. Random nodes are pure functions of their inputs, for every device and split of the graph.
//! 2. The run is an input: nothing folds a random node, and no result of one run replaces another's.
//! 3. A second call changes nothing.
//!
//! Not here: the numbers (`cpu-kernels`), who writes the input (`scheduler`).

use polychip_ops::{DType, Literal, Op, TensorType};

use crate::{Capture, Constant, Error, Graph, Node, NodeId, Tensor, TensorId};

/// Name of the hidden graph input.
pub const RUN: &str = "polychip.run";

/// The run's number is multiplied by this before the round of a loop is added: odd, without a pattern,
/// from Knuth's generator MMIX.
const SPREAD: i64 = 6_364_136_223_846_793_005;

/// Number of inputs that the op has in ONNX, for an op that draws random numbers.
pub(crate) fn own_inputs(op: Op) -> Option<usize> {
    match op {
        Op::RandomNormal | Op::RandomUniform => Some(0),
        Op::Bernoulli | Op::Multinomial | Op::RandomNormalLike | Op::RandomUniformLike => Some(1),
        Op::Dropout => Some(3),
        _ => None,
    }
}

/// The hidden input of a graph whose nodes draw random numbers.
pub fn run_input(graph: &Graph) -> Option<TensorId> {
    let last = graph.inputs.last().copied();
    let is_run = |tensor: &Tensor| tensor.name == RUN && tensor.ty == TensorType::known(DType::I64, &[2]);
    last.filter(|id| is_run(graph.tensor(*id)))
}

/// Gives the nodes that draw random numbers their run and stream. The graph has the hidden input afterwards
/// where there are such nodes.
///
/// # Errors
/// If the body of a SequenceMap draws random numbers, which has no number of a round.
pub fn number(graph: &mut Graph) -> Result<(), Error> {
    let mut next = 0;
    if !lacks(graph) {
        return Ok(());
    }
    let run = graph.add_tensor(Tensor::new(RUN, TensorType::known(DType::I64, &[2])));
    graph.inputs.push(run);
    nodes(graph, run, &mut next)?;
    graph.sort()?;
    if cfg!(debug_assertions) {
        crate::verify(graph).unwrap_or_else(|error| panic!("invariant: graphs stay well formed: {error}"));
    }
    Ok(())
}

/// Whether a node draws random numbers and does not know of which run.
fn draws(graph: &Graph, node: &Node) -> bool {
    let Some(own) = own_inputs(node.op) else {
        return false;
    };
    let is_off = |id: TensorId| {
        let tensor = graph.tensor(id);
        let data = tensor.data.as_ref();
        data.is_some_and(|data| data.bytes.iter().all(|byte| *byte == 0))
    };
    // a Dropout outside training draws nothing
    let trains = node.op != Op::Dropout || node.input(2).is_some_and(|id| !is_off(id));
    trains && node.inputs.len() <= own
}

fn lacks(graph: &Graph) -> bool {
    graph
        .nodes()
        .any(|(_, node)| draws(graph, node) || node.bodies.iter().any(|body| lacks(&body.graph)))
}

fn nodes(graph: &mut Graph, run: TensorId, next: &mut u64) -> Result<(), Error> {
    for id in graph.node_ids() {
        let node = graph.node(id);
        if draws(graph, node) {
            let own = own_inputs(node.op).expect("invariant: it draws");
            let stream = stream(graph, node, *next);
            let stream = constant(graph, &format!("polychip.stream.{next}"), &[stream]);
            *next += 1;
            graph.edit_node(id, |node| {
                node.inputs.resize(own, None);
                node.inputs.extend([Some(run), Some(stream)]);
            });
        } else if node.bodies.iter().any(|body| lacks(&body.graph)) {
            if node.op == Op::SequenceMap {
                let words = format!(
                    "node {}: random numbers in the body of a SequenceMap are not supported",
                    graph.describe(node)
                );
                return Err(Error::unsupported(words));
            }
            if node.op == Op::Scan {
                count_rounds(graph, id);
            }
            graph.edit_node(id, |node| bodies(node, run, next))?;
        }
    }
    Ok(())
}

/// The bodies of a node capture the run, and mix the round into it.
fn bodies(node: &mut Node, run: TensorId, next: &mut u64) -> Result<(), Error> {
    let op = node.op;
    for body in &mut node.bodies {
        if !lacks(&body.graph) {
            continue;
        }
        let graph = &mut body.graph;
        let ty = TensorType::known(DType::I64, &[2]);
        let inner = graph.add_tensor(Tensor::new(RUN, ty));
        graph.inputs.push(inner);
        body.captures.push(Capture { outer: run, inner });
        let run = match (op, graph.inputs[0]) {
            (Op::Loop | Op::Scan, round) => mixed(graph, inner, round),
            _ => inner,
        };
        nodes(graph, run, next)?;
    }
    Ok(())
}

/// The run of a round: its number spread, plus the round.
fn mixed(graph: &mut Graph, run: TensorId, round: TensorId) -> TensorId {
    let spread = constant(graph, "polychip.spread", &[1, SPREAD]);
    let second = constant(graph, "polychip.second", &[0, 1]);
    let mut step = |op, name: &str, [a, b]: [TensorId; 2]| {
        let made = graph.add_tensor(Tensor::new(name, TensorType::known(DType::I64, &[2])));
        graph.add_node(Node::new(op, vec![Some(a), Some(b)], vec![Some(made)]));
        made
    };
    let wide = step(Op::Mul, "polychip.run.wide", [run, spread]);
    let offset = step(Op::Mul, "polychip.run.round", [round, second]);
    step(Op::Add, "polychip.run.mixed", [wide, offset])
}

/// Gives a Scan a state that counts its rounds, before its others.
fn count_rounds(graph: &mut Graph, id: NodeId) {
    let scalar = || TensorType::known(DType::I64, &[]);
    // a graph may hold several such nodes
    let number = graph.tensor_count();
    let start = scalar_constant(graph, &format!("polychip.round.first.{number}"), 0);
    let end = graph.add_tensor(Tensor::new(format!("polychip.rounds.{number}"), scalar()));
    graph.edit_node(id, |node| {
        let inner = &mut node.bodies[0].graph;
        let round = inner.add_tensor(Tensor::new("polychip.round", scalar()));
        let one = scalar_constant(inner, "polychip.one", 1);
        let following = inner.add_tensor(Tensor::new("polychip.round.next", scalar()));
        inner.add_node(Node::new(
            Op::Add,
            vec![Some(round), Some(one)],
            vec![Some(following)],
        ));
        inner.inputs.insert(0, round);
        inner.outputs.insert(0, following);
        node.inputs.insert(0, Some(start));
        node.outputs.insert(0, Some(end));
    });
}

/// The number of a node's stream: by its place among the random nodes, and by the name of its result, which differs
/// where parts of a model are models of their own. Not negative.
fn stream(graph: &Graph, node: &Node, place: u64) -> i64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&place.to_le_bytes());
    if let Some(result) = node.output(0) {
        hasher.update(graph.tensor(result).name.as_bytes());
    }
    let mut number = [0; 8];
    hasher.finalize_xof().fill(&mut number);
    i64::from_le_bytes(number) & i64::MAX
}

fn constant(graph: &mut Graph, name: &str, values: &[i64]) -> TensorId {
    let literal = Literal::i64s(values);
    graph.add_tensor(Tensor::constant(
        name,
        literal.ty(),
        Constant::from_literal(&literal),
    ))
}

fn scalar_constant(graph: &mut Graph, name: &str, value: i64) -> TensorId {
    let literal = Literal::scalar_i64(value);
    graph.add_tensor(Tensor::constant(
        name,
        literal.ty(),
        Constant::from_literal(&literal),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{parse, print};

    fn numbered(text: &str) -> Graph {
        let mut graph = parse(text).unwrap();
        crate::infer(&mut graph).unwrap();
        number(&mut graph).unwrap();
        graph
    }

    #[test]
    fn each_random_node_has_the_run_and_a_stream_of_its_own() {
        let mut graph = numbered(
            "graph \"g\" {\n\
               input t0 \"x\": f32[2]\n\
               t1 \"a\": f32[2] = RandomNormalLike \"a\"(t0)\n\
               t2 \"b\": f32[2] = RandomNormalLike \"b\"(t0)\n\
               t3 \"y\": f32[2] = Add \"\"(t1, t2)\n\
               output t3\n\
             }\n",
        );
        assert_eq!(graph.inputs.len(), 2);
        let run = run_input(&graph).unwrap();
        assert_eq!(graph.tensor(run).ty, TensorType::known(DType::I64, &[2]));
        let mut streams = Vec::new();
        for (_, node) in graph.nodes().filter(|(_, node)| node.op == Op::RandomNormalLike) {
            assert_eq!((node.inputs.len(), node.input(1)), (3, Some(run)));
            let stream = graph.tensor(node.input(2).unwrap());
            streams.push(stream.data.as_ref().unwrap().bytes.to_vec());
        }
        assert_ne!(streams[0], streams[1]);
        let before = print(&graph);
        number(&mut graph).unwrap();
        assert_eq!(print(&graph), before, "a second call changes nothing");
    }

    #[test]
    fn graphs_without_random_numbers_stay_as_they_are() {
        for node in ["Relu \"\"(t0)", "Dropout \"\"(t0)"] {
            let text = format!(
                "graph \"g\" {{\n  input t0 \"x\": f32[2]\n  t1 \"y\": f32[2] = {node}\n  output t1\n}}\n"
            );
            let graph = numbered(&text);
            assert!(run_input(&graph).is_none(), "{node}");
            assert_eq!(graph.inputs.len(), 1);
        }
    }
}
