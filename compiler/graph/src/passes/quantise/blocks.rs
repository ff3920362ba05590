//! Products with constant matrices that are dequantised in blocks, where the codes do not lie as the product reads
//! them, or encode floats of 16 bits.
//!
//! Exporters write `codes [columns, depth] → DequantizeLinear → Transpose → MatMul`, and so does the importer for `MatMulNBits`. Folded, that would be a matrix
//! of floats; and a Transpose of the codes would copy them. A Gemm reads them as they lie. Of floats of 16 bits the product is one of `f32` between two Casts,
//! because encodings represent `f32` only.
//!
//! Invariants:
//! 1. The codes keep their memory, whatever their size.
//! 2. Other readers of the dequantised or transposed tensor still read the same values.
//!
//! Not here: codes of a matrix of `f32` that lie as the product reads them (`super::weights`).

use std::collections::BTreeMap;

use polychip_ops::operator::{Gemm, Transpose};
use polychip_ops::{Attr, AttrValue, Attributes, DType, Dim, Literal, Op, TensorType};

use super::scale;
use crate::passes::pattern;
use crate::{Constant, Encoding, EncodingAxis, Error, Graph, Node, NodeId, Tensor, TensorId};

/// Runs the pass; returns the number of products that were changed.
pub(in crate::passes) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut known = Known::default();
    let mut changes = 0;
    for id in graph.node_ids() {
        // a sum that went into a product is no more
        let found = graph.find_node(id).and_then(|node| product(graph, node));
        if let Some(product) = found {
            product.commit(graph, id, &mut known);
            changes += 1;
        }
    }
    Ok(changes)
}

/// What products share.
#[derive(Default)]
struct Known {
    /// Codes with their encoding, by the node that dequantises them.
    codes: BTreeMap<NodeId, TensorId>,
    /// Rows of `f32` as a Gemm or a MatMul reads them: products of the same rows read the same tensor, so that devices can take them together.
    rows: BTreeMap<(TensorId, bool), TensorId>,
}

/// A product that is to read codes.
struct Product {
    /// What dequantises its right operand.
    dequantise: NodeId,
    encoding: Encoding,
    /// The type of all floats that it reads and gives.
    real: DType,
    /// The right operand is transposed before the product.
    transposed: bool,
    depth: usize,
    columns: usize,
}

fn product(graph: &Graph, node: &Node) -> Option<Product> {
    if !matches!(node.op, Op::MatMul | Op::Gemm) {
        return None;
    }
    let right = node.input(1)?;
    let (transposed, real) = match pattern::made_by(graph, right, Op::Transpose) {
        Some((_, transpose)) => {
            let order = transpose.typed::<Transpose>().ok()?.perm;
            let swaps = order.is_none_or(|order| {
                polychip_ops::axis::normalise_all(&order, 2).is_some_and(|order| order == [1, 0])
            });
            (true, transpose.input(0).filter(|_| swaps)?)
        }
        None => (false, right),
    };
    let (dequantise, below) = pattern::made_by(graph, real, Op::DequantizeLinear)?;
    let codes = graph.tensor(below.input(0)?);
    let &[first, second] = &codes.ty.sizes()?[..] else {
        return None;
    };
    let encoding = scale::weights(graph, below)?;
    let real = encoding.real;
    // what needs neither is folded onto the codes where they are (`super::weights`)
    let wanted = codes.is_constant()
        && codes.encoding.is_none()
        && matches!(encoding.axis, EncodingAxis::PerBlock { .. })
        && (transposed || real != DType::F32);
    let turned = trans_b(node);
    let (columns, depth) = if transposed != turned {
        (first, second)
    } else {
        (second, first)
    };
    let plain = |id: TensorId| {
        let tensor = graph.tensor(id);
        let (typed, own) = (tensor.typed && tensor.is_tensor(), tensor.encoding.is_none());
        typed && own && !tensor.upper_bound && tensor.ty.dtype == real
    };
    let left = graph.tensor(node.input(0)?).ty.shape.as_deref()?;
    // of no rows at all there is nothing to gain, and zeros in shapes mean something else
    let some = depth > 0 && columns > 0 && !left.contains(&Dim::Known(0));
    let fits = node.reads().chain(node.writes()).all(plain)
        && node.input(0) != Some(right)
        && (node.op == Op::Gemm || left.last() == Some(&Dim::Known(depth)));
    (wanted && some && fits).then_some(Product {
        dequantise,
        encoding: Encoding {
            real: DType::F32,
            ..encoding
        },
        real,
        transposed,
        depth,
        columns,
    })
}

/// Whether the weights of a Gemm stand transposed; those of a MatMul never do.
fn trans_b(node: &Node) -> bool {
    node.typed::<Gemm>().is_ok_and(|gemm| gemm.trans_b)
}

impl Product {
    fn commit(self, graph: &mut Graph, id: NodeId, known: &mut Known) {
        let as_gemm = graph.node(id).op == Op::Gemm || self.transposed;
        let codes = self.codes(graph, known);
        let (op, y) = (graph.node(id).op, graph.node(id).output(0));
        let (Some(x), Some(mut y)) = (graph.node(id).input(0), y) else {
            unreachable!("invariant: a product has two operands and a result")
        };
        let flat = op == Op::MatMul && as_gemm && graph.tensor(x).ty.rank() != Some(2);
        let rows = match known.rows.get(&(x, flat)) {
            Some(&rows) => rows,
            None => {
                let rows = self.rows(graph, x, flat);
                known.rows.insert((x, flat), rows);
                rows
            }
        };
        let mut inputs = vec![Some(rows), Some(codes)];
        let mut bias = graph.node(id).input(2);
        if let Some((add, summand)) = self.bias(graph, y).filter(|_| op == Op::MatMul && as_gemm) {
            let behind = graph.remove_node(add);
            y = behind.output(0).expect("invariant: a sum has a result");
            bias = Some(summand);
        }
        if let Some(bias) = bias {
            inputs.push(Some(self.single(graph, bias)));
        }
        let mut node = graph.remove_node(id);
        let mut result = y;
        if self.real != DType::F32 {
            let shape = if flat {
                Some(self.shape_of(graph, rows))
            } else {
                graph.tensor(y).ty.shape.clone()
            };
            result = add(graph, y, "wide", DType::F32, shape);
        } else if flat {
            let shape = self.shape_of(graph, rows);
            result = add(graph, y, "rows", DType::F32, Some(shape));
        }
        (node.inputs, node.outputs) = (inputs, vec![Some(result)]);
        if as_gemm && op == Op::MatMul {
            let by_columns = Attributes::new().with_int(Attr::TransB, 1);
            let gemm = Node::new(Op::Gemm, node.inputs, node.outputs).with(by_columns);
            node = gemm.named(node.name);
        } else if self.transposed {
            let turned = trans_b(&node);
            node.attributes
                .set(Attr::TransB, AttrValue::Int(i64::from(!turned)));
        }
        graph.add_node(node);
        if self.real != DType::F32 {
            let narrow = if flat {
                let shape = self.shape_of(graph, rows);
                add(graph, y, "rows", self.real, Some(shape))
            } else {
                y
            };
            cast(graph, result, narrow);
            result = narrow;
        }
        if flat {
            let shape = self.result_shape(graph, x);
            let inputs = vec![Some(result), Some(shape)];
            let mut node = Node::new(Op::Reshape, inputs, vec![Some(y)]);
            if !graph.tensor(shape).is_constant() {
                // a size that is zero at run time means zero
                node.attributes.set(Attr::Allowzero, AttrValue::Int(1));
            }
            graph.add_node(node);
        }
    }

    /// The codes with their encoding, in a tensor of their own: who dequantises them still may.
    fn codes(&self, graph: &mut Graph, known: &mut Known) -> TensorId {
        if let Some(&codes) = known.codes.get(&self.dequantise) {
            return codes;
        }
        let stored = graph.node(self.dequantise).input(0);
        let stored = stored.expect("invariant: a dequantise reads codes");
        let mut codes = graph.tensor(stored).clone();
        codes.encoding = Some(self.encoding.clone());
        let codes = graph.add_tensor(codes);
        known.codes.insert(self.dequantise, codes);
        codes
    }

    /// What is multiplied, as `f32`; where `flat` as a matrix.
    fn rows(&self, graph: &mut Graph, x: TensorId, flat: bool) -> TensorId {
        let mut rows = x;
        if flat {
            let sizes = graph.tensor(x).ty.sizes();
            let count = sizes.map(|sizes| sizes[..sizes.len() - 1].iter().product::<usize>());
            let (count, dim) = match count {
                Some(count) => (count as i64, Dim::Known(count)),
                None => (-1, Dim::Unknown),
            };
            let shape = Literal::i64s(&[count, self.depth as i64]);
            let shape = constant(graph, x, "rows.shape", &shape);
            let dims = Some(vec![dim, Dim::Known(self.depth)]);
            rows = add(graph, x, "rows", self.real, dims);
            let inputs = vec![Some(x), Some(shape)];
            graph.add_node(Node::new(Op::Reshape, inputs, vec![Some(rows)]));
        }
        self.single(graph, rows)
    }

    /// A tensor as `f32`.
    fn single(&self, graph: &mut Graph, id: TensorId) -> TensorId {
        if self.real == DType::F32 {
            return id;
        }
        let shape = graph.tensor(id).ty.shape.clone();
        let wide = add(graph, id, "wide", DType::F32, shape);
        cast(graph, id, wide);
        wide
    }

    /// The shape of what a Gemm gives of these rows.
    fn shape_of(&self, graph: &Graph, rows: TensorId) -> Vec<Dim> {
        let shape = graph.tensor(rows).ty.shape.as_deref();
        let rows = shape.and_then(<[Dim]>::first).cloned();
        vec![rows.unwrap_or(Dim::Unknown), Dim::Known(self.columns)]
    }

    /// The shape of the whole product, as a tensor: that of `x` with the columns in the place of the depth.
    fn result_shape(&self, graph: &mut Graph, x: TensorId) -> TensorId {
        let columns = self.columns as i64;
        if let Some(sizes) = graph.tensor(x).ty.sizes() {
            let before = sizes[..sizes.len() - 1].iter().map(|&size| size as i64);
            let shape: Vec<i64> = before.chain([columns]).collect();
            return constant(graph, x, "product.shape", &Literal::i64s(&shape));
        }
        let rank = graph.tensor(x).ty.rank().unwrap_or(1);
        let list = |len: usize| Some(vec![Dim::Known(len)]);
        let before = add(graph, x, "before", DType::I64, list(rank - 1));
        let shape = Node::new(Op::Shape, vec![Some(x)], vec![Some(before)]);
        graph.add_node(shape.with(Attributes::new().with_int(Attr::End, -1)));
        let columns = constant(graph, x, "columns", &Literal::i64s(&[columns]));
        let whole = add(graph, x, "product.shape", DType::I64, list(rank));
        let concat = Node::new(Op::Concat, vec![Some(before), Some(columns)], vec![Some(whole)]);
        graph.add_node(concat.with(Attributes::new().with_int(Attr::Axis, 0)));
        whole
    }

    /// A constant with a value for each column that alone is added to a product, and the node that adds it.
    fn bias(&self, graph: &Graph, y: TensorId) -> Option<(NodeId, TensorId)> {
        let add = graph.only_consumer(y)?;
        let node = graph.node(add);
        let bias = pattern::other(node, y).filter(|_| node.op == Op::Add)?;
        let tensor = graph.tensor(bias);
        let fits = tensor.is_constant()
            && tensor.encoding.is_none()
            && tensor.ty.dtype == self.real
            && tensor.ty.sizes()? == [self.columns];
        fits.then_some((add, bias))
    }
}

/// A tensor beside another one of the model.
fn add(graph: &mut Graph, beside: TensorId, role: &str, dtype: DType, shape: Option<Vec<Dim>>) -> TensorId {
    let name = format!("{}.{role}", graph.tensor(beside).name);
    graph.add_tensor(Tensor::new(name, TensorType { dtype, shape }))
}

fn constant(graph: &mut Graph, beside: TensorId, role: &str, literal: &Literal) -> TensorId {
    let name = format!("{}.{role}", graph.tensor(beside).name);
    graph.add_tensor(Tensor::constant(
        name,
        literal.ty(),
        Constant::from_literal(literal),
    ))
}

fn cast(graph: &mut Graph, from: TensorId, to: TensorId) {
    let to_dtype = i64::from(graph.tensor(to).ty.dtype.code());
    let node = Node::new(Op::Cast, vec![Some(from)], vec![Some(to)]);
    graph.add_node(node.with(Attributes::new().with_int(Attr::To, to_dtype)));
}
