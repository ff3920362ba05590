//! Which tensor of one model is which of another.
//!
//! Invariants:
//! 1. A tensor stands in one pair at most, and pairs stand in the order of the first graph, which is one of execution.
//! 2. What does not depend on the inputs is in no pair: it is folded, and no layer computes it.
//! 3. Where a tensor is quantised at once, the pair reads the dequantised one, which is what the model goes on with: asking for
//!    the other one would undo the fusion of the integer kernels.
//!
//! Not here: bodies of If, Loop and Scan, whose tensors exist once an iteration.

use std::collections::{BTreeMap, BTreeSet};

use polychip_graph::{Graph, Node, NodeId, TensorId};
use polychip_ops::{DType, Op};

/// How two tensors were found to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Matched {
    /// Both have this name.
    Name,
    /// Nodes of the same op give them from inputs that are the same.
    Structure,
}

/// A result of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layer {
    /// Who gives it.
    pub(super) node: NodeId,
    /// The result.
    pub(super) tensor: TensorId,
    /// What is read for it: the result, or what it is dequantised to.
    pub(super) value: TensorId,
}

/// Two that are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) a: Layer,
    pub(super) b: Layer,
    pub(super) matched: Matched,
}

/// All pairs, and what has none.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) pairs: Vec<Pair>,
    pub(super) alone_a: Vec<Layer>,
    pub(super) alone_b: Vec<Layer>,
}

/// What a layer is called: by its node, or by its tensor where the node has no name.
pub(super) fn name_of(graph: &Graph, layer: &Layer) -> String {
    match &*graph.node(layer.node).name {
        "" => graph.tensor(layer.tensor).name.clone(),
        name => name.to_owned(),
    }
}

/// The results of a graph's nodes that can be compared, in the order of the graph: floats that depend on the inputs, and
/// outputs of any type of number.
pub(super) fn layers(graph: &Graph) -> Vec<Layer> {
    let varies = varying(graph);
    let mut layers = Vec::new();
    let mut values = BTreeSet::new();
    for (id, node) in graph.nodes() {
        for tensor in node.writes() {
            let is_shown = graph.is_output(tensor) || is_float(graph, tensor);
            if !varies[tensor.index()] || !is_shown || values.contains(&tensor) {
                continue;
            }
            let value = settled(graph, tensor);
            values.insert(value);
            layers.push(Layer {
                node: id,
                tensor,
                value,
            });
        }
    }
    layers
}

fn is_float(graph: &Graph, id: TensorId) -> bool {
    let tensor = graph.tensor(id);
    tensor.typed
        && tensor.is_tensor()
        && matches!(
            tensor.ty.dtype,
            DType::F32 | DType::F64 | DType::F16 | DType::BF16
        )
}

/// Which tensors depend on the values of inputs: sizes alone do not count.
fn varying(graph: &Graph) -> Vec<bool> {
    let mut varies = vec![false; graph.tensor_count()];
    for input in &graph.inputs {
        varies[input.index()] = true;
    }
    for (_, node) in graph.nodes() {
        let is_source = matches!(
            node.op,
            Op::RandomNormal | Op::RandomUniform | Op::RandomNormalLike | Op::RandomUniformLike
        );
        let reads = !matches!(node.op, Op::Shape | Op::Size) && node.reads().any(|id| varies[id.index()]);
        for id in node.writes() {
            varies[id.index()] = is_source || reads;
        }
    }
    varies
}

/// What a model goes on with in place of a tensor: where all its readers quantise it, what that is dequantised to.
fn settled(graph: &Graph, tensor: TensorId) -> TensorId {
    let readers = graph.consumers(tensor);
    if graph.is_output(tensor) || readers.is_empty() {
        return tensor;
    }
    let quantised = readers.iter().map(|id| graph.node(*id));
    let mut dequantised = None;
    for node in quantised {
        if node.op != Op::QuantizeLinear || node.input(0) != Some(tensor) {
            return tensor;
        }
        let stored = node.output(0).map(|id| graph.consumers(id)).unwrap_or_default();
        let back = stored.iter().map(|id| graph.node(*id));
        let mut back = back.filter(|node| node.op == Op::DequantizeLinear);
        dequantised = dequantised.or_else(|| back.find_map(|node| node.output(0)));
    }
    dequantised.unwrap_or(tensor)
}

/// Ops that give what they read, but for its type.
fn is_passing(node: &Node) -> bool {
    matches!(
        node.op,
        Op::Identity | Op::Cast | Op::QuantizeLinear | Op::DequantizeLinear
    )
}

/// The tensor whose values a tensor has, but for its type.
fn root(graph: &Graph, mut id: TensorId) -> TensorId {
    while let Some(node) = graph.producer(id).map(|node| graph.node(node))
        && is_passing(node)
        && let Some(input) = node.input(0)
    {
        id = input;
    }
    id
}

/// Finds the pairs of two graphs: by name, and where a name is in one graph only, by what gives it.
pub(super) fn pairs(a: &Graph, b: &Graph) -> Pairs {
    let (layers_a, layers_b) = (layers(a), layers(b));
    let mut found: BTreeMap<TensorId, (Layer, Matched)> = BTreeMap::new();
    let mut taken: BTreeSet<TensorId> = BTreeSet::new();
    let by_name: BTreeMap<&str, Layer> = layers_b
        .iter()
        .map(|layer| (&*b.tensor(layer.tensor).name, *layer))
        .collect();
    for layer in &layers_a {
        let same = by_name.get(&*a.tensor(layer.tensor).name);
        if let Some(other) = same.filter(|other| may_be_same(a, layer, b, other)) {
            taken.insert(other.tensor);
            found.insert(layer.tensor, (*other, Matched::Name));
        }
    }
    by_structure(a, b, &layers_a, &layers_b, &mut found, &mut taken);
    let mut pairs = Pairs::default();
    for layer in layers_a {
        match found.remove(&layer.tensor) {
            Some((other, matched)) => pairs.pairs.push(Pair {
                a: layer,
                b: other,
                matched,
            }),
            None => pairs.alone_a.push(layer),
        }
    }
    let alone = layers_b.into_iter();
    pairs.alone_b = alone.filter(|layer| !taken.contains(&layer.tensor)).collect();
    pairs
}

/// Whether two tensors of one name may be the same: another shape is a difference where the same op gives it, and says that
/// the name means something else where not.
fn may_be_same(a: &Graph, one: &Layer, b: &Graph, other: &Layer) -> bool {
    let (x, y) = (a.tensor(one.tensor), b.tensor(other.tensor));
    x.ty.sizes() == y.ty.sizes() || a.node(one.node).label() == b.node(other.node).label()
}

/// Adds pairs of nodes of one op whose inputs are pairs: from the inputs on, in the order of the second graph.
fn by_structure(
    a: &Graph,
    b: &Graph,
    layers_a: &[Layer],
    layers_b: &[Layer],
    found: &mut BTreeMap<TensorId, (Layer, Matched)>,
    taken: &mut BTreeSet<TensorId>,
) {
    // of roots of the second graph, those of the first that they are
    let mut images: BTreeMap<TensorId, TensorId> = BTreeMap::new();
    for (place, input) in b.inputs.iter().enumerate() {
        let named = a.input_named(&b.tensor(*input).name);
        if let Some(image) = named.or_else(|| a.inputs.get(place).copied()) {
            images.insert(*input, image);
        }
    }
    for (tensor, (other, _)) in found.iter() {
        images.insert(root(b, other.tensor), root(a, *tensor));
    }
    let (varies_a, varies_b) = (varying(a), varying(b));
    // nodes of the first graph without a pair, by their op and the first of their inputs that varies
    let mut free: BTreeMap<(String, TensorId), Vec<Layer>> = BTreeMap::new();
    let first = |graph: &Graph, varies: &[bool], node: &Node| {
        let mut inputs = node.inputs.iter().flatten();
        let input = inputs.find(|id| varies[id.index()]);
        input.map(|id| root(graph, *id))
    };
    for layer in layers_a {
        let node = a.node(layer.node);
        let is_first = node.writes().next() == Some(layer.tensor);
        if let Some(input) = first(a, &varies_a, node)
            && is_first
            && !found.contains_key(&layer.tensor)
            && !is_passing(node)
        {
            let key = (node.label(), input);
            free.entry(key).or_default().push(*layer);
        }
    }
    for layer in layers_b {
        let node = b.node(layer.node);
        let is_first = node.writes().next() == Some(layer.tensor);
        if taken.contains(&layer.tensor) || is_passing(node) || !is_first {
            continue;
        }
        let image = first(b, &varies_b, node).and_then(|input| images.get(&input).copied());
        let Some(candidates) = image.and_then(|image| free.get_mut(&(node.label(), image))) else {
            continue;
        };
        let shape = b.tensor(layer.tensor).ty.sizes();
        let reads_same = |other: &Layer| {
            let inputs = &a.node(other.node).inputs;
            inputs.len() == node.inputs.len()
                && inputs.iter().zip(&node.inputs).all(|pair| match pair {
                    (Some(x), Some(y)) if varies_a[x.index()] && varies_b[y.index()] => {
                        images.get(&root(b, *y)) == Some(&root(a, *x))
                    }
                    (Some(x), Some(y)) => varies_a[x.index()] == varies_b[y.index()],
                    (x, y) => x.is_none() && y.is_none(),
                })
        };
        let is_same = |other: &Layer| a.tensor(other.tensor).ty.sizes() == shape && reads_same(other);
        if let Some(place) = candidates.iter().position(is_same) {
            let other = candidates.remove(place);
            images.insert(root(b, layer.tensor), root(a, other.tensor));
            taken.insert(layer.tensor);
            found.insert(other.tensor, (*layer, Matched::Structure));
        }
    }
}

#[cfg(test)]
mod tests {
    use polychip_graph::text;

    use super::*;

    /// Pairs of two graphs in the text form, as words.
    fn of(a: &str, b: &str) -> (Vec<String>, usize, usize) {
        let (a, b) = (text::parse(a).unwrap(), text::parse(b).unwrap());
        let pairs = pairs(&a, &b);
        let words = pairs.pairs.iter().map(|pair| {
            let name = |graph: &Graph, id| graph.tensor(id).name.clone();
            let (x, y) = (name(&a, pair.a.value), name(&b, pair.b.value));
            format!("{x} {y} {:?}", pair.matched)
        });
        (words.collect(), pairs.alone_a.len(), pairs.alone_b.len())
    }

    const PLAIN: &str = r#"graph "a" {
  input t0 "x": f32[2, 4]
  const t1 "w": f32[4, 4] = seed 0x1
  const t2 "v": f32[4, 4] = seed 0x2
  t3 "m": f32[2, 4] = MatMul "m"(t0, t1)
  t4 "n": f32[2, 4] = MatMul "n"(t0, t2)
  t5 "s": f32[2, 4] = Add "s"(t3, t4)
  t6 "y": f32[2, 4] = Relu "y"(t5)
  output t6
}
"#;

    #[test]
    fn tensors_of_one_name_are_pairs_in_the_order_of_the_graph() {
        let (pairs, a, b) = of(PLAIN, PLAIN);
        assert_eq!(pairs, ["m m Name", "n n Name", "s s Name", "y y Name"]);
        assert_eq!((a, b), (0, 0));
    }

    #[test]
    fn other_names_are_found_by_what_gives_them() {
        let other = PLAIN
            .replace("\"m\"", "\"1\"")
            .replace("\"n\"", "\"2\"")
            .replace("\"s\"", "\"3\"")
            .replace("\"x\"", "\"in\"");
        let (pairs, a, b) = of(PLAIN, &other);
        assert_eq!(
            pairs,
            ["m 1 Structure", "n 2 Structure", "s 3 Structure", "y y Name"]
        );
        assert_eq!((a, b), (0, 0));
    }

    #[test]
    fn a_node_more_has_no_pair_and_those_behind_it_are_found_by_name_alone() {
        let other = PLAIN
            .replace(
                "t5 \"s\"",
                "t7 \"abs\": f32[2, 4] = Abs \"abs\"(t4)\n  t5 \"other\"",
            )
            .replace("(t3, t4)", "(t3, t7)");
        let (pairs, a, b) = of(PLAIN, &other);
        assert_eq!(pairs, ["m m Name", "n n Name", "y y Name"]);
        assert_eq!((a, b), (1, 2));
    }

    #[test]
    fn quantised_tensors_are_read_where_they_are_dequantised() {
        let quantised = r#"graph "b" {
  input t0 "x": f32[2, 4]
  const t1 "w": f32[4, 4] = seed 0x1
  const t2 "v": f32[4, 4] = seed 0x2
  const t8 "scale": f32[] = [0.5]
  const t9 "zero": u8[] = [0]
  t3 "m": f32[2, 4] = MatMul "m"(t0, t1)
  t10 "m_q": u8[2, 4] = QuantizeLinear "q"(t3, t8, t9)
  t11 "m_dq": f32[2, 4] = DequantizeLinear "dq"(t10, t8, t9)
  t4 "k": f32[2, 4] = MatMul "n"(t0, t2)
  t5 "s": f32[2, 4] = Add "s"(t11, t4)
  t6 "y": f32[2, 4] = Relu "y"(t5)
  output t6
}
"#;
        let (pairs, a, b) = of(PLAIN, quantised);
        assert_eq!(pairs, ["m m_dq Name", "n k Structure", "s s Name", "y y Name"]);
        assert_eq!((a, b), (0, 0));
    }

    #[test]
    fn what_is_folded_and_what_only_sizes_decide_is_no_layer() {
        let text = r#"graph "a" {
  input t0 "x": f32[2, 4]
  const t1 "w": f32[4] = seed 0x1
  t2 "folded": f32[4] = Neg "folded"(t1)
  t3 "sizes": i64[2] = Shape "sizes"(t0)
  t4 "floats": f32[2] = Cast "floats"(t3) {to: 1}
  t5 "sum": f32[2, 4] = Add "sum"(t0, t2)
  t6 "best": i64[2, 1] = ArgMax "best"(t5) {axis: 1}
  output t6
}
"#;
        let graph = text::parse(text).unwrap();
        let names: Vec<String> = layers(&graph)
            .iter()
            .map(|layer| name_of(&graph, layer))
            .collect();
        assert_eq!(names, ["sum", "best"]);
    }
}
