//! Probabilities of classes from probabilities of pairs of classes: the second method of Wu, Lin and Weng (*Probability
//! Estimates for Multi-class Classification by Pairwise Coupling*, 2004), as LIBSVM iterates it.
//!
//! LIBSVM ends the iteration early, and the classifier's data were trained with that: the result is that of its
//! iteration, not of the limit. Rows whose iteration has ended keep their values while that of others continues.

use polychip_ops::{Attr, Attributes, DType, Literal, Op, TensorType};

use crate::onnx::convert::foreign::Foreign;
use crate::{Body, Capture, Constant, Error, Graph, Node, Tensor, TensorId};

/// The most classes for which the iteration is written: its body has some ten nodes for each.
pub(super) const MOST_CLASSES: usize = 64;

/// Probabilities keep this distance from 0 and 1.
const LEAST: f32 = 1e-7;

/// Both classes of each pair, in the order of the pairs' scores.
fn pairs(classes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..classes).flat_map(move |i| (i + 1..classes).map(move |j| (i, j)))
}

impl Foreign<'_, '_> {
    /// `[n, pairs]`: the probability of the first class of each pair, from its score.
    pub(super) fn pair_probabilities(
        &mut self,
        scores: TensorId,
        slopes: &[f32],
        offsets: &[f32],
    ) -> Result<TensorId, Error> {
        let (slopes, offsets) = (
            self.numbers(slopes, "pair.slopes"),
            self.numbers(offsets, "pair.offsets"),
        );
        let scaled = self.step(Op::Mul, &[scores, slopes], "pair.scaled")?;
        let moved = self.step(Op::Add, &[scaled, offsets], "pair.moved")?;
        let other = self.step(Op::Neg, &[moved], "pair.negative")?;
        let first = self.step(Op::Sigmoid, &[other], "pair.sigmoid")?;
        let least = self.0.scalar_like("pair.least", LEAST, first)?;
        let most = self.0.scalar_like("pair.most", 1.0 - LEAST, first)?;
        self.step(Op::Clip, &[first, least, most], "pair.first")
    }

    /// `[n, classes]`: the probabilities of classes from those of pairs.
    pub(super) fn coupled(&mut self, first: TensorId, classes: usize) -> Result<TensorId, Error> {
        let matrix = self.coupling_matrix(first, classes)?;
        let one = self.0.scalar_like("coupling.one", 1.0, first)?;
        let mean = vec![1.0 / classes as f32; classes];
        let mean = self.numbers(&mean, "coupling.mean");
        // as many rows as there are
        let column = self.0.constant("coupling.column", &Literal::i64s(&[0]));
        let along = Attributes::new().with_int(Attr::Axis, 1);
        let rows = self
            .0
            .step(Op::Gather, &[first, column], "coupling.rows", along)?;
        let zeros = self.step(Op::Sub, &[rows, rows], "coupling.zeros")?;
        let start = self.step(Op::Add, &[zeros, mean], "coupling.start")?;
        let trips = classes.max(100) as i64;
        let trips = self.0.constant("coupling.trips", &Literal::scalar_i64(trips));
        let go_on = self.step(Op::Equal, &[one, one], "coupling.go_on")?;
        let (graph, inner) = iteration(classes);
        let name = self.0.name("coupled");
        let output = self.0.target.fresh(name.clone());
        let mut node = Node::new(
            Op::Loop,
            vec![Some(trips), Some(go_on), Some(start)],
            vec![Some(output)],
        );
        node.bodies = vec![Body {
            attr: Attr::Body,
            graph,
            captures: vec![Capture { outer: matrix, inner }],
        }];
        self.0.target.add(node.named(name))?;
        Ok(output)
    }

    /// `[n, classes, classes]`: on the diagonal the sums of the squared probabilities of all other classes, each beside
    /// this one; elsewhere the negative products of both probabilities of the pair.
    fn coupling_matrix(&mut self, first: TensorId, classes: usize) -> Result<TensorId, Error> {
        let count = classes * (classes - 1) / 2;
        let one = self.0.scalar_like("coupling.whole", 1.0, first)?;
        let second = self.step(Op::Sub, &[one, first], "pair.second")?;
        let both = self.step(Op::Mul, &[first, second], "pair.both")?;
        let both = self.step(Op::Neg, &[both], "pair.off_diagonal")?;
        let mut of_pair = vec![0i64; classes * classes];
        let mut sums = vec![0.0f32; classes * 2 * count];
        for (pair, (i, j)) in pairs(classes).enumerate() {
            of_pair[i * classes + j] = pair as i64;
            of_pair[j * classes + i] = pair as i64;
            // beside class i, class j has the second probability
            sums[i * 2 * count + count + pair] = 1.0;
            sums[j * 2 * count + pair] = 1.0;
        }
        let along = || Attributes::new().with_int(Attr::Axis, 1);
        let of_pair = Literal::new(
            DType::I64,
            vec![classes, classes],
            of_pair
                .iter()
                .flat_map(|pair| pair.to_le_bytes())
                .collect::<Vec<_>>(),
        )
        .expect("invariant: as many elements as the shape has");
        let of_pair = self.0.constant("coupling.pairs", &of_pair);
        let around = self
            .0
            .step(Op::Gather, &[both, of_pair], "coupling.around", along())?;
        let all = self.0.step(Op::Concat, &[first, second], "pair.all", along())?;
        let squares = self.step(Op::Mul, &[all, all], "pair.squares")?;
        let diagonal = self.product(squares, &sums, classes, &[], "coupling.diagonal")?;
        let axes = self.0.constant("coupling.axes", &Literal::i64s(&[2]));
        let diagonal = self.step(Op::Unsqueeze, &[diagonal, axes], "coupling.column_of_sums")?;
        let is_diagonal: Vec<u8> = (0..classes * classes)
            .map(|at| u8::from(at % (classes + 1) == 0))
            .collect();
        let is_diagonal = Literal::new(DType::Bool, vec![classes, classes], is_diagonal)
            .expect("invariant: as many elements as the shape has");
        let is_diagonal = self.0.constant("coupling.is_diagonal", &is_diagonal);
        self.step(Op::Where, &[is_diagonal, diagonal, around], "coupling.matrix")
    }
}

/// One step of the iteration over the probabilities `p`, and the matrix that its body captures.
fn iteration(classes: usize) -> (Graph, TensorId) {
    let mut graph = Graph::new("coupling");
    let mut add = |name: &str| graph.add_tensor(Tensor::untyped(name));
    let (index, go_on, start, matrix) = (add("iteration"), add("go_on"), add("start"), add("matrix"));
    graph.inputs = vec![index, go_on, start, matrix];
    let mut steps = Steps(&mut graph);
    let keep = || Attributes::new().with_int(Attr::Keepdims, 1);
    let along = || Attributes::new().with_int(Attr::Axis, 1);
    let (last, rows) = (steps.integers("last", &[2]), steps.integers("rows", &[1]));

    let column = steps.node(Op::Unsqueeze, &[start, last], "column");
    let product = steps.node(Op::MatMul, &[matrix, column], "product");
    let mut product = steps.node(Op::Squeeze, &[product, last], "product.flat");
    let weighted = steps.node(Op::Mul, &[start, product], "weighted");
    let mut whole = steps.with(Op::ReduceSum, &[weighted, rows], "whole", keep());
    let apart = steps.node(Op::Sub, &[product, whole], "apart");
    let apart = steps.node(Op::Abs, &[apart], "apart.size");
    let most = steps.with(Op::ReduceMax, &[apart, rows], "apart.most", keep());
    let limit = steps.float("limit", 0.005 / classes as f32);
    let active = steps.node(Op::GreaterOrEqual, &[most, limit], "active");
    let to = Attributes::new().with_int(Attr::To, DType::F32.code().into());
    let active = steps.with(Op::Cast, &[active], "active.one", to);
    let one = steps.float("one", 1.0);
    let two = steps.float("two", 2.0);
    let mut p = start;
    for class in 0..classes {
        let name = |role: &str| format!("{class}.{role}");
        let at = steps.integers(&name("at"), &[class as i64]);
        let at_one = steps.integer(&name("at.one"), class as i64);
        let unit: Vec<f32> = (0..classes)
            .map(|other| f32::from(u8::from(other == class)))
            .collect();
        let unit = steps.floats(&name("unit"), &unit);
        let row = steps.with(Op::Gather, &[matrix, at_one], &name("row"), along());
        let own = steps.with(Op::Gather, &[row, at], &name("own"), along());
        let here = steps.with(Op::Gather, &[product, at], &name("here"), along());
        let step = steps.node(Op::Sub, &[whole, here], &name("gap"));
        let step = steps.node(Op::Div, &[step, own], &name("step"));
        let step = steps.node(Op::Mul, &[step, active], &name("step.active"));
        let scale = steps.node(Op::Add, &[step, one], &name("scale"));
        // the probabilities
        let moved = steps.node(Op::Mul, &[step, unit], &name("moved"));
        let moved = steps.node(Op::Add, &[p, moved], &name("p.moved"));
        p = steps.node(Op::Div, &[moved, scale], &name("p"));
        // what depends on them
        let twice = steps.node(Op::Mul, &[here, two], &name("twice"));
        let added = steps.node(Op::Mul, &[step, own], &name("step.own"));
        let added = steps.node(Op::Add, &[added, twice], &name("whole.rate"));
        let added = steps.node(Op::Mul, &[added, step], &name("whole.added"));
        whole = steps.node(Op::Add, &[whole, added], &name("whole.sum"));
        whole = steps.node(Op::Div, &[whole, scale], &name("whole.once"));
        whole = steps.node(Op::Div, &[whole, scale], &name("whole"));
        let added = steps.node(Op::Mul, &[row, step], &name("product.added"));
        let added = steps.node(Op::Add, &[product, added], &name("product.sum"));
        product = steps.node(Op::Div, &[added, scale], &name("product"));
    }
    let any = steps.with(
        Op::ReduceMax,
        &[active],
        "any",
        Attributes::new().with_int(Attr::Keepdims, 0),
    );
    let to = Attributes::new().with_int(Attr::To, DType::Bool.code().into());
    let any = steps.with(Op::Cast, &[any], "any.active", to);
    graph.outputs = vec![any, p];
    (graph, matrix)
}

/// Nodes of the body.
struct Steps<'g>(&'g mut Graph);

impl Steps<'_> {
    fn constant(&mut self, name: &str, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> TensorId {
        let ty = TensorType::known(dtype, shape);
        self.0
            .add_tensor(Tensor::constant(name, ty, Constant::new(bytes)))
    }

    fn integer(&mut self, name: &str, value: i64) -> TensorId {
        self.constant(name, DType::I64, &[], value.to_le_bytes().to_vec())
    }

    fn integers(&mut self, name: &str, values: &[i64]) -> TensorId {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, DType::I64, &[values.len()], bytes)
    }

    fn float(&mut self, name: &str, value: f32) -> TensorId {
        self.constant(name, DType::F32, &[], value.to_le_bytes().to_vec())
    }

    fn floats(&mut self, name: &str, values: &[f32]) -> TensorId {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, DType::F32, &[values.len()], bytes)
    }

    fn node(&mut self, op: Op, reads: &[TensorId], name: &str) -> TensorId {
        self.with(op, reads, name, Attributes::new())
    }

    fn with(&mut self, op: Op, reads: &[TensorId], name: &str, attributes: Attributes) -> TensorId {
        let made = self.0.add_tensor(Tensor::untyped(name));
        let mut node = Node::new(op, reads.iter().copied().map(Some).collect(), vec![Some(made)]);
        node.attributes = attributes;
        self.0.add_node(node);
        made
    }
}
