//! Proofs of random graphs and of chosen ones, held against what the oracle computes of them at both sizes.

use std::collections::BTreeMap;

use polychip_ops::{Attr, Attributes, DType, Dim, Literal, Op, TensorType};
use polychip_reference::Tensor as Array;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use super::{TrueShapes, true_shapes};
use crate::passes::tests::execute;
use crate::{Constant, Error, ErrorKind, Graph, Node, Tensor, TensorId, infer, text};

fn sizes(names: &[(&str, usize)]) -> BTreeMap<String, usize> {
    names
        .iter()
        .map(|(name, size)| ((*name).to_owned(), *size))
        .collect()
}

/// A proof for `n` padded from 3 to 5.
fn prove(body: &str) -> Result<TrueShapes, Error> {
    let graph = text::parse(&format!("graph \"g\" {{ {body} }}")).unwrap();
    true_shapes(&graph, &sizes(&[("n", 5)]), &sizes(&[("n", 3)]))
}

/// Why there is no such proof.
fn refused(body: &str) -> String {
    let error = prove(body).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mixed, "{error}");
    error.to_string()
}

#[test]
fn batches_are_independent_and_what_is_kept_is_stated() {
    let proved = prove(
        "input t0 \"x\": f32[n, 4, 6]\n\
         const t1 \"w\": f32[6, 2] = seed 0x7\n\
         t2 \"h\": f32[n, 4, 2] = MatMul \"rows\"(t0, t1) {}\n\
         t3 \"s\": f32[n, 4, 2] = Softmax \"soft\"(t2) {axis: -1}\n\
         output t3",
    )
    .unwrap();
    assert_eq!(proved.inputs, [Some(vec![3, 4, 6])]);
    assert_eq!(proved.outputs, [Some(vec![3, 4, 2])]);
}

#[test]
fn the_first_node_that_mixes_is_named() {
    let conv = refused(
        "input t0 \"x\": f32[1, 2, n]\n\
         const t1 \"w\": f32[2, 2, 3] = seed 0x7\n\
         t2 \"r\": f32[1, 2, n] = Relu \"relu\"(t0) {}\n\
         t3 \"y\": f32[1, 2, ?] = Conv \"conv1\"(t2, t1) {pads: ints [1, 1]}\n\
         t4 \"z\": f32[1, 2, ?] = Softmax \"later\"(t3) {axis: -1}\n\
         output t4",
    );
    assert_eq!(conv, "Conv \"conv1\" mixes positions of \"n\"");
    let sum = refused(
        "input t0 \"x\": f32[n, 2]\n\
         t1 \"y\": f32[n, 2] = Softmax \"\"(t0) {axis: 0}\n\
         output t1",
    );
    assert_eq!(sum, "Softmax \"y\" mixes positions of \"n\"");
}

#[test]
fn a_size_is_a_shape_but_no_number_to_compute_with() {
    let by_shape = prove(
        "input t0 \"x\": f32[n, 2, 3]\n\
         t1 \"s\": i64[3] = Shape \"shape\"(t0) {}\n\
         const t2 \"zero\": i64[1] = [0]\n\
         t3 \"b\": i64[1] = Gather \"first\"(t1, t2) {axis: 0}\n\
         const t4 \"six\": i64[1] = [6]\n\
         t5 \"to\": i64[2] = Concat \"target\"(t3, t4) {axis: 0}\n\
         t6 \"y\": f32[?, ?] = Reshape \"flat\"(t0, t5) {}\n\
         output t6",
    )
    .unwrap();
    assert_eq!(by_shape.outputs, [Some(vec![3, 6])]);
    let as_number = refused(
        "input t0 \"x\": f32[n, 2]\n\
         t1 \"s\": i64[] = Size \"count\"(t0) {}\n\
         t2 \"f\": f32[] = Cast \"cast\"(t1) {to: 1}\n\
         t3 \"y\": f32[n, 2] = Div \"mean\"(t0, t2) {}\n\
         output t3",
    );
    assert_eq!(as_number, "Size \"count\" makes values of the size of \"n\"");
}

#[test]
fn padding_brings_no_index_and_no_divisor_of_its_own() {
    let table = "input t0 \"ids\": i64[n]\nconst t1 \"table\": f32[9, 2] = seed 0x7\n";
    prove(&format!(
        "{table} t2 \"y\": f32[n, 2] = Gather \"look\"(t1, t0) {{axis: 0}}\noutput t2"
    ))
    .unwrap();
    let moved = refused(&format!(
        "{table} const t2 \"nine\": i64[] = [9]\n\
         t3 \"off\": i64[n] = Sub \"off\"(t2, t0) {{}}\n\
         t4 \"y\": f32[n, 2] = Gather \"look\"(t1, t3) {{axis: 0}}\noutput t4"
    ));
    assert!(moved.starts_with("Gather \"look\" mixes"), "{moved}");
    let divided = refused(&format!(
        "{table} const t2 \"nine\": i64[] = [9]\n\
         t3 \"q\": i64[n] = Div \"share\"(t2, t0) {{}}\noutput t3"
    ));
    assert!(divided.starts_with("Div \"share\" mixes"), "{divided}");
}

#[test]
fn a_size_of_one_that_is_repeated_is_a_mix() {
    // at true size 1 the first input is repeated over the second; padded it is not
    let graph = text::parse(
        "graph \"g\" { input t0 \"x\": f32[n, 2]\ninput t1 \"y\": f32[4, 2]\n\
         t2 \"z\": f32[4, 2] = Add \"sum\"(t0, t1) {}\noutput t2 }",
    )
    .unwrap();
    let error = true_shapes(&graph, &sizes(&[("n", 4)]), &sizes(&[("n", 1)])).unwrap_err();
    assert_eq!(error.to_string(), "Add \"sum\" mixes positions of \"n\"");
}

#[test]
fn what_nothing_is_known_of_proves_nothing() {
    for (dtype, node) in [
        ("f32", "custom \"test\" \"Mystery\" \"odd\"(t0)"),
        ("i64", "NonZero \"where\"(t0)"),
        ("f32", "RandomNormalLike \"noise\"(t0)"),
    ] {
        let words = refused(&format!(
            "input t0 \"x\": f32[n, 2]\nt1 \"y\": {dtype}[?, ?] = {node} {{}}\noutput t1"
        ));
        assert!(words.contains("mixes positions of \"n\""), "{words}");
    }
}

/// One node to be: the op, the tensors that it reads, and what else it needs.
type Gene = (u8, [u16; 2], u8);

fn genes() -> impl Strategy<Value = Vec<Gene>> {
    prop::collection::vec((any::<u8>(), any::<[u16; 2]>(), any::<u8>()), 1..8)
}

struct Builder {
    graph: Graph,
    values: Vec<TensorId>,
}

impl Builder {
    fn new() -> Builder {
        let mut graph = Graph::new("random");
        let n = || Dim::symbol("n");
        let inputs = [
            ("x", DType::F32, vec![n(), 4.into(), 2.into()]),
            ("y", DType::F32, vec![3.into(), n()]),
            ("z", DType::F32, vec![4.into(), 2.into()]),
            ("ids", DType::I64, vec![n()]),
        ];
        for (name, dtype, dims) in inputs {
            let id = graph.add_tensor(Tensor::new(name, TensorType::new(dtype, dims)));
            graph.inputs.push(id);
        }
        let values = graph.inputs.clone();
        Builder { graph, values }
    }

    fn ints(&mut self, values: &[i64]) -> Option<TensorId> {
        let literal = Literal::i64s(values);
        let tensor = Tensor::constant("", literal.ty(), Constant::from_literal(&literal));
        Some(self.graph.add_tensor(tensor))
    }

    fn floats(&mut self, shape: &[usize]) -> Option<TensorId> {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|i| (i * 7 % 5) as f32 - 1.5).collect();
        let data = Constant::from_literal(&Literal::f32s(&values));
        let tensor = Tensor::constant("", TensorType::known(DType::F32, shape), data);
        Some(self.graph.add_tensor(tensor))
    }

    fn node(&mut self, op: Op, inputs: &[Option<TensorId>], attributes: Attributes) -> Option<TensorId> {
        let out = self
            .graph
            .add_tensor(Tensor::untyped(format!("t{}", self.graph.tensor_count())));
        let node = Node::new(op, inputs.to_vec(), vec![Some(out)]).with(attributes);
        self.graph
            .add_node(node.named(format!("{}{}", op.name(), out.index())));
        Some(out)
    }

    /// Adds what a gene says, where it fits.
    fn grow(&mut self, (op, reads, extra): Gene) {
        let before = self.graph.clone();
        let [a, b] = reads.map(|read| self.values[usize::from(read) % self.values.len()]);
        let made = self.made(op, a, b, extra);
        let rank = |graph: &Graph, id: TensorId| graph.tensor(id).ty.rank();
        match made {
            Some(out) if infer(&mut self.graph).is_ok() && rank(&self.graph, out).is_some_and(|r| r < 5) => {
                self.values.push(out);
            }
            _ => self.graph = before,
        }
    }

    fn made(&mut self, op: u8, a: TensorId, b: TensorId, extra: u8) -> Option<TensorId> {
        let dims = self.graph.tensor(a).ty.shape.clone()?;
        let rank = dims.len();
        let along = usize::from(extra) % rank.max(1);
        let axis = Attributes::new().with_int(Attr::Axis, along as i64);
        let none = Attributes::new;
        let is_float = self.graph.tensor(a).ty.dtype == DType::F32;
        let (a, b) = (Some(a), Some(b));
        if !is_float && !matches!(op % 30, 1 | 9..=11 | 15 | 17..=20 | 22 | 24 | 26) {
            return None;
        }
        let last = dims.last().and_then(Dim::known);
        match op % 30 {
            0 => self.node(Op::Relu, &[a], none()),
            1 => self.node(Op::Neg, &[a], none()),
            2 => self.node(Op::Reciprocal, &[a], none()),
            3 => self.node(Op::Exp, &[a], none()),
            4 => self.node(Op::Add, &[a, b], none()),
            5 => self.node(Op::Mul, &[a, b], none()),
            6 => self.node(Op::Softmax, &[a], axis),
            7 => {
                let axes = self.ints(&[along as i64]);
                let kept = none().with_int(Attr::Keepdims, i64::from(extra / 16 % 2));
                self.node(Op::ReduceSum, &[a, axes], kept)
            }
            8 => {
                let axes = self.ints(&[along as i64]);
                self.node(Op::ReduceMax, &[a, axes], none())
            }
            9 => {
                let mut perm: Vec<i64> = (0..rank as i64).collect();
                perm.rotate_left(along);
                self.node(Op::Transpose, &[a], none().with_ints(Attr::Perm, &perm))
            }
            10 => {
                let to = match (extra / 16 % 3, last) {
                    (0, Some(last)) => self.ints(&[-1, last as i64]),
                    (1, _) if rank > 1 => self.ints(&[0, -1]),
                    _ => self.ints(&[-1]),
                };
                self.node(Op::Reshape, &[a, to], none())
            }
            11 => self.node(Op::Concat, &[a, if extra > 128 { a } else { b }], axis),
            12 => {
                let (starts, ends, axes) = (
                    self.ints(&[i64::from(extra / 16 % 3) - 1]),
                    self.ints(&[if extra > 128 { i64::MAX } else { 2 }]),
                    self.ints(&[along as i64]),
                );
                self.node(Op::Slice, &[a, starts, ends, axes], none())
            }
            13 => {
                let indices = self.ints(&[0, i64::from(extra / 64) - 1]);
                self.node(Op::Gather, &[a, indices], axis)
            }
            14 => {
                let weights = self.floats(&[last?, 3]);
                self.node(Op::MatMul, &[a, weights], none())
            }
            15 => {
                let at = self.ints(&[along as i64]);
                self.node(Op::Unsqueeze, &[a, at], none())
            }
            16 => {
                let at = self.ints(&[along as i64]);
                let backwards = none().with_int(Attr::Reverse, i64::from(extra / 128));
                self.node(Op::CumSum, &[a, at], backwards)
            }
            17 => {
                let shape = self.node(Op::Shape, &[a], none());
                let at = self.ints(&[along as i64]);
                let size = self.node(Op::Gather, &[shape, at], none());
                self.node(Op::Cast, &[size], none().with_int(Attr::To, 1))
            }
            18 => {
                let mut pads = vec![0; 2 * rank];
                *pads.get_mut(along)? = i64::from(extra / 16 % 2);
                pads[rank + along] = i64::from(extra / 32 % 2);
                let pads = self.ints(&pads);
                self.node(Op::Pad, &[a, pads], none())
            }
            19 => self.node(Op::Flatten, &[a], axis),
            20 => {
                let shape = self.node(Op::Shape, &[b], none());
                self.node(Op::Expand, &[a, shape], none())
            }
            21 => self.node(Op::ArgMax, &[a], axis),
            22 => {
                let mut repeats = vec![1; rank];
                *repeats.get_mut(along)? = 2;
                let repeats = self.ints(&repeats);
                self.node(Op::Tile, &[a, repeats], none())
            }
            23 => {
                let scale = self.floats(&[last?]);
                self.node(Op::LayerNormalization, &[a, scale], none())
            }
            24 => self.node(Op::Trilu, &[a], none()),
            25 => {
                let table = self.floats(&[3, 2]);
                let ids = Some(self.graph.inputs[3]);
                let moved = match extra % 2 {
                    0 => ids,
                    _ => self.node(Op::Neg, &[ids], none()),
                };
                self.node(Op::Gather, &[table, moved], none())
            }
            26 => {
                let (zero, one) = (Literal::scalar_i64(0), Literal::scalar_i64(1));
                let scalar =
                    |literal: &Literal| Tensor::constant("", literal.ty(), Constant::from_literal(literal));
                let (start, step) = (scalar(&zero), scalar(&one));
                let (start, step) = (self.graph.add_tensor(start), self.graph.add_tensor(step));
                let shape = self.node(Op::Shape, &[a], none());
                let at = self.graph.add_tensor(scalar(&zero));
                let size = self.node(Op::Gather, &[shape, Some(at)], none());
                let range = self.node(Op::Range, &[Some(start), size, Some(step)], none());
                self.node(Op::Cast, &[range], none().with_int(Attr::To, 1))
            }
            27 => {
                let channels = dims.get(1).and_then(Dim::known).filter(|_| rank == 3)?;
                let weights = self.floats(&[2, channels, 1 + usize::from(extra % 2)]);
                self.node(Op::Conv, &[a, weights], none())
            }
            28 => self.node(Op::MatMul, &[a, b], none()),
            _ => {
                let equation = ["ab,ab->a", "abc,dc->abd", "ab,cb->ac"][usize::from(extra) % 3];
                self.node(Op::Einsum, &[a, b], none().with_str(Attr::Equation, equation))
            }
        }
    }

    /// Every tensor that nothing reads is an output.
    fn finish(mut self) -> Graph {
        let made = |id: &TensorId| self.graph.producer(*id).is_some() && self.graph.consumers(*id).is_empty();
        self.graph.outputs = self.values.iter().copied().filter(made).collect();
        self.graph.sort().unwrap();
        self.graph
    }
}

/// Flat places of the first elements along each axis of a larger shape.
fn places(shape: &[usize], within: &[usize]) -> Vec<usize> {
    let mut places = vec![0];
    for (&size, &of) in shape.iter().zip(within) {
        places = places
            .iter()
            .flat_map(|place| (0..size).map(move |index| place * of + index))
            .collect();
    }
    places
}

fn padded(array: &Array, into: &[usize]) -> Array {
    let mut wide = Array::zeros(array.element(), into.to_vec()).unwrap();
    for (from, at) in places(array.shape(), into).into_iter().enumerate() {
        wide.copy_run(at, array, from, 1).unwrap();
    }
    wide
}

/// Runs a graph at both sizes, and asserts that the true outputs are what a proof says of the padded ones.
fn holds(
    graph: &Graph,
    proved: &TrueShapes,
    small: &BTreeMap<String, usize>,
    large: &BTreeMap<String, usize>,
) {
    let bound = |sizes| {
        let mut graph = graph.clone();
        crate::bind_dims(&mut graph, sizes).unwrap();
        graph
    };
    let (short, long) = (bound(small), bound(large));
    let inputs = execute::inputs(&short, 7);
    // what is not computed at true sizes need not be at padded ones
    let Ok(wanted) = execute::try_run(&short, &inputs, false) else {
        return;
    };
    let shapes = long.inputs.iter().map(|id| long.tensor(*id).ty.sizes().unwrap());
    let wide: Vec<Array> = inputs
        .iter()
        .zip(shapes)
        .map(|(input, shape)| padded(input, &shape))
        .collect();
    let have = execute::try_run(&long, &wide, false).unwrap();
    for ((have, wanted), shape) in have.iter().zip(&wanted).zip(&proved.outputs) {
        let cut = match shape {
            Some(shape) => have.select(shape.clone(), &places(shape, have.shape())).unwrap(),
            None => have.clone(),
        };
        assert_eq!(cut.shape(), wanted.shape(), "{}", text::print_full(graph));
        assert_eq!(cut.to_bytes(), wanted.to_bytes(), "{}", text::print_full(graph));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_proved_is_computed(genes in genes(), true_size in 1usize..5, more in 1usize..4) {
        let mut builder = Builder::new();
        genes.into_iter().for_each(|gene| builder.grow(gene));
        let graph = builder.finish();
        let (small, large) = (sizes(&[("n", true_size)]), sizes(&[("n", true_size + more)]));
        if let Ok(proved) = true_shapes(&graph, &large, &small) {
            holds(&graph, &proved, &small, &large);
        }
    }
}

#[test]
fn many_graphs_are_proved_and_many_are_not() {
    // the property above would hold of an analysis that proves nothing
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut proved, mut refused) = (0, 0);
    for _ in 0..400 {
        let genes = genes().new_tree(&mut runner).unwrap().current();
        let mut builder = Builder::new();
        genes.into_iter().for_each(|gene| builder.grow(gene));
        let graph = builder.finish();
        match true_shapes(&graph, &sizes(&[("n", 5)]), &sizes(&[("n", 3)])) {
            Ok(shapes) if shapes.outputs.iter().any(Option::is_some) => proved += 1,
            Ok(_) => {}
            Err(_) => refused += 1,
        }
    }
    assert!(proved > 80 && refused > 80, "{proved} proved, {refused} refused");
}
