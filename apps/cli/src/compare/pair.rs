//! Pairs the tensors of two models.
//!
//! Invariants:
//! 1. A tensor is in at most one pair, and pairs follow the execution order of the first graph.
//! 2. Tensors independent of the inputs are in no pair: they are folded, and no layer computes them.
//! 3. Results of QLinear ops are compared as dequantised reals. If a tensor is quantised immediately, the pair uses
//!    the dequantised tensor, which the model continues with: requesting the other one would undo the fusion of the
//!    integer kernels.
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
    /// One is quantised and has the name of what the other one's activation reads, and no such activation: its integers clamp as
    /// that does, so that the activation's result is what is the same.
    Clamped,
}

/// How integers of a QLinear op stand for reals: `scale · (stored − zero)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    scale: f64,
    zero: f64,
}

impl Scale {
    /// The real that a stored integer stands for.
    pub(super) fn real(self, stored: f64) -> f64 {
        self.scale * (stored - self.zero)
    }
}

/// A result of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Layer {
    /// Who gives it.
    pub(super) node: NodeId,
    /// The result.
    pub(super) tensor: TensorId,
    /// What is read for it: the result, or what it is dequantised to.
    pub(super) value: TensorId,
    /// What is read holds integers, which stand for reals.
    pub(super) scale: Option<Scale>,
}

/// Two that are the same.
#[derive(Debug, Clone, Copy, PartialEq)]
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

/// What quantisers add to the name of a tensor that holds integers from then on.
const QUANTISED: &str = "_quantized";

/// The name by which a tensor is looked for in another model.
pub(super) fn sought<'g>(graph: &'g Graph, layer: &Layer) -> &'g str {
    let name = &*graph.tensor(layer.tensor).name;
    match scale_of(graph, graph.node(layer.node)) {
        Some(_) => name.strip_suffix(QUANTISED).unwrap_or(name),
        None => name,
    }
}

/// How the integers that a QLinear op gives stand for reals; none where that differs by channel, or for other ops.
fn scale_of(graph: &Graph, node: &Node) -> Option<Scale> {
    if !matches!(node.op, Op::QLinearConv | Op::QLinearMatMul) {
        return None;
    }
    let constant = |input: usize| {
        let tensor = graph.tensor(node.input(input)?);
        tensor.data.as_ref()?.to_literal(&tensor.ty)?.scalar_as_f64()
    };
    Some(Scale {
        scale: constant(6)?,
        zero: constant(7)?,
    })
}

/// The results of a graph's nodes that can be compared, in the order of the graph: floats that depend on the inputs, integers of
/// QLinear ops, and outputs of any type of number.
pub(super) fn layers(graph: &Graph) -> Vec<Layer> {
    let varies = varying(graph);
    let mut layers = Vec::new();
    let mut values = BTreeSet::new();
    for (id, node) in graph.nodes() {
        let scale = scale_of(graph, node);
        for tensor in node.writes() {
            let is_shown = graph.is_output(tensor) || is_float(graph, tensor) || scale.is_some();
            if !varies[tensor.index()] || !is_shown || values.contains(&tensor) {
                continue;
            }
            let value = match scale {
                Some(_) => dequantised(graph, tensor).unwrap_or(tensor),
                None => settled(graph, tensor),
            };
            values.insert(value);
            layers.push(Layer {
                node: id,
                tensor,
                value,
                scale: scale.filter(|_| value == tensor),
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
    let mut found = None;
    for node in readers.iter().map(|id| graph.node(*id)) {
        if node.op != Op::QuantizeLinear || node.input(0) != Some(tensor) {
            return tensor;
        }
        found = found.or_else(|| dequantised(graph, node.output(0)?));
    }
    found.unwrap_or(tensor)
}

/// What integers are dequantised to; none where no node does.
fn dequantised(graph: &Graph, stored: TensorId) -> Option<TensorId> {
    let readers = graph.consumers(stored).iter().map(|id| graph.node(*id));
    let mut back = readers.filter(|node| node.op == Op::DequantizeLinear && node.input(0) == Some(stored));
    back.find_map(|node| node.output(0))
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
    let by_name: BTreeMap<&str, Layer> = layers_b.iter().map(|layer| (sought(b, layer), *layer)).collect();
    for layer in &layers_a {
        let same = by_name.get(sought(a, layer));
        let Some(other) = same.filter(|other| may_be_same(a, layer, b, other)) else {
            continue;
        };
        let names_a = |name: &str| layers_a.iter().any(|layer| sought(a, layer) == name);
        let (one, other, matched) = if let Some(id) =
            clamped(a, layer, other, |name| by_name.contains_key(name))
            && let Some(behind) = layers_a.iter().find(|layer| layer.tensor == id)
        {
            (behind, other, Matched::Clamped)
        } else if let Some(id) = clamped(b, other, layer, names_a)
            && let Some(behind) = layers_b.iter().find(|layer| layer.tensor == id)
        {
            (layer, behind, Matched::Clamped)
        } else {
            (layer, other, Matched::Name)
        };
        taken.insert(other.tensor);
        found.insert(one.tensor, (*other, matched));
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

/// The result of the activation that alone reads a layer, where the other model's layer of this name is quantised and that model
/// has no such activation.
fn clamped(graph: &Graph, layer: &Layer, other: &Layer, has: impl Fn(&str) -> bool) -> Option<TensorId> {
    let is_quantised = |layer: &Layer| layer.scale.is_some() || layer.value != layer.tensor;
    if is_quantised(layer) || !is_quantised(other) || graph.is_output(layer.tensor) {
        return None;
    }
    let reader = graph.node(graph.only_consumer(layer.tensor)?);
    let result = reader.output(0)?;
    let is_clamp = matches!(reader.op, Op::Relu | Op::Clip) && reader.input(0) == Some(layer.tensor);
    (is_clamp && !has(&graph.tensor(result).name)).then_some(result)
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
    fn tensors_pair_by_name_in_graph_order() {
        let (pairs, a, b) = of(PLAIN, PLAIN);
        assert_eq!(pairs, ["m m Name", "n n Name", "s s Name", "y y Name"]);
        assert_eq!((a, b), (0, 0));
    }

    #[test]
    fn renamed_tensors_pair_by_their_producer() {
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
    fn extra_node_is_unpaired_and_later_nodes_pair_by_name() {
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
    fn folded_and_shape_only_tensors_are_not_layers() {
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

    #[test]
    fn qlinear_integers_pair_by_name_and_are_dequantised() {
        let text = r#"graph "b" {
  input t0 "x": f32[2, 4]
  const t1 "w": u8[4, 4] = seed 0x1
  const t8 "scale": f32[] = [0.5]
  const t9 "zero": u8[] = [3]
  t10 "x_q": u8[2, 4] = QuantizeLinear "q"(t0, t8, t9)
  t3 "m_quantized": u8[2, 4] = QLinearMatMul "m_quant"(t10, t8, t9, t1, t8, t9, t8, t9)
  t4 "n_quantized": u8[2, 4] = QLinearMatMul "n_quant"(t3, t8, t9, t1, t8, t9, t8, t9)
  t5 "n": f32[2, 4] = DequantizeLinear "back"(t4, t8, t9)
  t6 "y": f32[2, 4] = Relu "y"(t5)
  output t6
}
"#;
        let plain = PLAIN.replace("MatMul \"n\"(t0", "MatMul \"n\"(t3");
        let (pairs, ..) = of(&plain, text);
        assert_eq!(pairs, ["m m_quantized Name", "n n Name", "y y Name"]);
        let graph = text::parse(text).unwrap();
        let layers = layers(&graph);
        assert_eq!(layers[0].scale.unwrap().real(5.0), 1.0);
        // a node dequantises the other one: that is read
        assert_eq!(layers[1].scale, None);
    }

    #[test]
    fn clamping_integers_replace_a_missing_activation() {
        let plain = r#"graph "a" {
  input t0 "x": f32[2, 4]
  const t1 "w": f32[4, 4] = seed 0x1
  t3 "m": f32[2, 4] = MatMul "m"(t0, t1)
  t4 "r": f32[2, 4] = Relu "r"(t3)
  t6 "y": f32[2, 4] = Neg "y"(t4)
  output t6
}
"#;
        let quantised = r#"graph "b" {
  input t0 "x": f32[2, 4]
  const t1 "w": u8[4, 4] = seed 0x1
  const t8 "scale": f32[] = [0.5]
  const t9 "zero": u8[] = [0]
  t10 "x_q": u8[2, 4] = QuantizeLinear "q"(t0, t8, t9)
  t3 "m_quantized": u8[2, 4] = QLinearMatMul "m_quant"(t10, t8, t9, t1, t8, t9, t8, t9)
  t5 "back": f32[2, 4] = DequantizeLinear "back"(t3, t8, t9)
  t6 "y": f32[2, 4] = Neg "y"(t5)
  output t6
}
"#;
        let (pairs, alone_a, alone_b) = of(plain, quantised);
        assert_eq!(pairs, ["r back Clamped", "y y Name"]);
        assert_eq!((alone_a, alone_b), (1, 0));
        let (pairs, alone_a, alone_b) = of(quantised, plain);
        assert_eq!(pairs, ["back r Clamped", "y y Name"]);
        assert_eq!((alone_a, alone_b), (0, 1));
    }
}
