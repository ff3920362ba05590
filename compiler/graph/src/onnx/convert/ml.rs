//! Classical machine learning, ONNX's domain `ai.onnx.ml`, said in ops of ONNX as far as they say it: features here, models
//! in the files beside this one.
//!
//! What has no such form is an op of its own: LabelEncoder, TreeEnsemble, TreeEnsembleRegressor. Attributes of older
//! versions (lists for each type of key, trees of a classifier) become those of the present ones.
//!
//! Invariants:
//! 1. A node that says more than is expressed here is left as it is, and then known to no device.
//! 2. Scores are in the order of the class labels; maps are not carried: ZipMap gives the scores themselves.
//!
//! Source: the ops' documentation (ONNX, `docs/Operators-ml.md`); where it is silent, what ONNX Runtime 1.31 does.

use polychip_ops::{Attr, AttrValue, Attributes, DType, Literal, Op};

use super::foreign::Foreign;
use super::rewrite::Rewrite;
use crate::onnx::target::Target;
use crate::{Container, Error, Node, TensorId};

mod coupling;
mod labels;
mod linear;
mod scores;
mod svm;
mod trees;

/// Adds what says in ONNX what the node says; `false` where it is not expressed here, and nothing was added.
pub(super) fn expand(target: &mut Target<'_>, node: &Node) -> Result<bool, Error> {
    let mut ml = Foreign(Rewrite {
        target,
        node: node.clone(),
        version: 0,
    });
    let map = "maps are not carried; export the model with what comes before it as an output (skl2onnx: zipmap=False)";
    if node.input(0).is_none() {
        return Ok(false);
    }
    match &*node.op_name {
        "ArrayFeatureExtractor" => ml.extract(),
        "Binarizer" => ml.binarise(),
        "CastMap" | "DictVectorizer" => Err(ml.0.unsupported(&format!("{} ({map})", node.op_name))),
        "CategoryMapper" => ml.categories(),
        "FeatureVectorizer" => ml.features(),
        "Imputer" => ml.impute(),
        "LabelEncoder" => ml.encode(),
        "LinearClassifier" => ml.linear_classes(),
        "LinearRegressor" => ml.linear(),
        "Normalizer" => ml.normalise(),
        "OneHotEncoder" => ml.one_hot(),
        "SVMClassifier" => ml.svm_classes(),
        "SVMRegressor" => ml.svm(),
        "Scaler" => ml.scale(),
        "TreeEnsemble" => ml.trees(Op::TreeEnsemble),
        "TreeEnsembleClassifier" => ml.tree_classes(),
        "TreeEnsembleRegressor" => ml.trees(Op::TreeEnsembleRegressor),
        "ZipMap" => ml.columns(),
        _ => Ok(false),
    }
}

impl Foreign<'_, '_> {
    /// The input as f32, which these ops compute in.
    fn real(&mut self, x: TensorId, role: &str) -> Result<TensorId, Error> {
        if self.dtype(x) == Some(DType::F32) {
            return Ok(x);
        }
        self.cast(x, DType::F32, role)
    }

    fn cast(&mut self, x: TensorId, dtype: DType, role: &str) -> Result<TensorId, Error> {
        let to = Attributes::new().with_int(Attr::To, dtype.code().into());
        self.0.step(Op::Cast, &[x], role, to)
    }

    /// A constant list of f32.
    fn numbers(&mut self, values: &[f32], role: &str) -> TensorId {
        self.0.constant(role, &Literal::f32s(values))
    }

    /// The size of the last axis, where it is known.
    fn width(&self, x: TensorId) -> Option<usize> {
        self.0.target.ty(x)?.shape.as_ref()?.last()?.known()
    }

    /// Gives the node's output `index`.
    fn give(
        &mut self,
        index: usize,
        op: Op,
        inputs: &[TensorId],
        attributes: Attributes,
    ) -> Result<(), Error> {
        let Some(output) = self.0.node.output(index) else {
            return Ok(());
        };
        let name = if index == 0 {
            self.0.node.name.clone()
        } else {
            self.0.name(&format!("output.{index}"))
        };
        self.0.emit(op, inputs, output, &name, attributes)
    }

    /// Columns by their indices.
    fn extract(&mut self) -> Result<bool, Error> {
        let (Some(x), Some(indices)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        let Some(rank) = self.rank(x).filter(|&rank| rank > 0) else {
            return Ok(false);
        };
        let flat = self.0.constant("flat", &Literal::i64s(&[-1]));
        let indices = self.step(Op::Reshape, &[indices, flat], "indices")?;
        let axis = Attributes::new().with_int(Attr::Axis, -1);
        if rank > 1 {
            return self.last(Op::Gather, vec![Some(x), Some(indices)], axis);
        }
        let row = self.0.step(Op::Gather, &[x, indices], "row", axis)?;
        let first = self.0.constant("first", &Literal::i64s(&[0]));
        self.last(Op::Unsqueeze, vec![Some(row), Some(first)], Attributes::new())
    }

    fn binarise(&mut self) -> Result<bool, Error> {
        let (x, threshold) = (self.0.input(0)?, self.float("threshold").unwrap_or(0.0));
        let Some(dtype) = self.dtype(x) else {
            return Ok(false);
        };
        // integers are compared as the numbers they are
        let real = if matches!(dtype, DType::F32 | DType::F64) {
            x
        } else {
            self.cast(x, DType::F64, "real")?
        };
        let threshold = self.0.scalar_like("threshold", threshold, real)?;
        let above = self.step(Op::Greater, &[real, threshold], "above")?;
        let to = Attributes::new().with_int(Attr::To, dtype.code().into());
        self.last(Op::Cast, vec![Some(above)], to)
    }

    /// `(x - offset) * scale`, by column or for all.
    fn scale(&mut self) -> Result<bool, Error> {
        let x = self.0.input(0)?;
        let (offset, scale) = (self.floats("offset"), self.floats("scale"));
        if offset.is_empty() || scale.is_empty() {
            return Ok(false);
        }
        let x = self.real(x, "real")?;
        let offset = self.numbers(&offset, "offset");
        let scale = self.numbers(&scale, "scale");
        let centred = self.step(Op::Sub, &[x, offset], "centred")?;
        self.last(Op::Mul, vec![Some(centred), Some(scale)], Attributes::new())
    }

    /// Rows divided by their norm; a row of zeros stays.
    fn normalise(&mut self) -> Result<bool, Error> {
        let op = match self.text("norm").as_deref() {
            None | Some("MAX") => Op::ReduceMax,
            Some("L1") => Op::ReduceL1,
            Some("L2") => Op::ReduceL2,
            _ => return Ok(false),
        };
        let x = self.0.input(0)?;
        let x = self.real(x, "real")?;
        let axes = self.0.constant("axes", &Literal::i64s(&[-1]));
        let norm = self.step(op, &[x, axes], "norm")?;
        // of absolute values a norm is zero, or no less than the least number there is
        let norm = if op == Op::ReduceMax {
            let zero = self.0.scalar_like("zero", 0.0, norm)?;
            let one = self.0.scalar_like("one", 1.0, norm)?;
            let none = self.step(Op::Equal, &[norm, zero], "none")?;
            self.step(Op::Where, &[none, one, norm], "divisor")?
        } else {
            let least = self.0.scalar_like("least", f32::from_bits(1), norm)?;
            self.step(Op::Max, &[norm, least], "divisor")?
        };
        self.last(Op::Div, vec![Some(x), Some(norm)], Attributes::new())
    }

    /// Other values for those that are missing.
    fn impute(&mut self) -> Result<bool, Error> {
        let x = self.0.input(0)?;
        let (floats, ints) = (
            self.floats("imputed_value_floats"),
            self.ints("imputed_value_int64s"),
        );
        let (missing, values) = match self.dtype(x) {
            Some(DType::F32 | DType::F64) if !floats.is_empty() => {
                let replaced = self.float("replaced_value_float").unwrap_or(0.0);
                let missing = if replaced.is_nan() {
                    self.step(Op::IsNaN, &[x], "missing")?
                } else {
                    let replaced = self.0.scalar_like("replaced", replaced, x)?;
                    self.step(Op::Equal, &[x, replaced], "missing")?
                };
                let values = self.numbers(&floats, "values");
                let values = match self.dtype(x) {
                    Some(DType::F64) => self.cast(values, DType::F64, "values.wide")?,
                    _ => values,
                };
                (missing, values)
            }
            Some(DType::I64) if !ints.is_empty() => {
                let replaced = self.int("replaced_value_int64").unwrap_or(0);
                let replaced = self.0.constant("replaced", &Literal::scalar_i64(replaced));
                let missing = self.step(Op::Equal, &[x, replaced], "missing")?;
                (missing, self.0.constant("values", &Literal::i64s(&ints)))
            }
            _ => return Ok(false),
        };
        self.last(
            Op::Where,
            vec![Some(missing), Some(values), Some(x)],
            Attributes::new(),
        )
    }

    /// Columns of several tensors beside each other, as f32.
    fn features(&mut self) -> Result<bool, Error> {
        let widths = self.ints("inputdimensions");
        let inputs = self.0.node.inputs.clone();
        let found: Option<Vec<(TensorId, usize)>> = inputs
            .iter()
            .map(|&input| input.and_then(|input| Some((input, self.rank(input)?))))
            .collect();
        let Some(found) = found.filter(|found| found.len() == widths.len()) else {
            return Ok(false);
        };
        // a narrower or wider input is filled up or cut off, which exporters do not ask for
        let fits = |&((input, rank), &width): &((TensorId, usize), &i64)| {
            (rank == 1 || rank == 2) && self.width(input).and_then(|w| i64::try_from(w).ok()) == Some(width)
        };
        if !found.iter().copied().zip(&widths).all(|pair| fits(&pair)) {
            return Ok(false);
        }
        let mut parts = Vec::new();
        for (index, (input, rank)) in found.into_iter().enumerate() {
            let mut part = self.real(input, &format!("part.{index}"))?;
            if rank == 1 {
                let first = self.0.constant(&format!("first.{index}"), &Literal::i64s(&[0]));
                part = self.step(Op::Unsqueeze, &[part, first], &format!("row.{index}"))?;
            }
            parts.push(Some(part));
        }
        self.last(Op::Concat, parts, Attributes::new().with_int(Attr::Axis, 1))
    }

    /// A row of zeros and a one for each category.
    fn one_hot(&mut self) -> Result<bool, Error> {
        let x = self.0.input(0)?;
        let (ints, texts) = (self.ints("cats_int64s"), self.texts("cats_strings"));
        let count = ints.len().max(texts.len());
        let (keys, x) = if texts.is_empty() {
            let x = match self.dtype(x) {
                Some(DType::I64) => x,
                Some(DType::String) | None => return Ok(false),
                _ => self.cast(x, DType::I64, "whole")?,
            };
            (Some(Literal::i64s(&ints)), x)
        } else {
            (Literal::from_strings(&texts), x)
        };
        let Some(keys) = keys.filter(|_| count > 0) else {
            return Ok(false);
        };
        let whole = i64::try_from(count).expect("invariant: lists fit memory");
        let places: Vec<i64> = (0..whole).collect();
        let index = self.looked_up(x, keys, Literal::i64s(&places), Literal::i64s(&[whole]), "index")?;
        if self.int("zeros").unwrap_or(1) != 0 {
            let depth = self.0.constant("depth", &Literal::scalar_i64(whole));
            let values = self.numbers(&[0.0, 1.0], "values");
            return self.last(
                Op::OneHot,
                vec![Some(index), Some(depth), Some(values)],
                Attributes::new(),
            );
        }
        // an unknown category is an error: there is no row for it
        let mut rows = vec![0.0; count * count];
        (0..count).for_each(|at| rows[at * count + at] = 1.0);
        let rows = self.0.constant(
            "rows",
            &Literal {
                shape: vec![count; 2],
                ..Literal::f32s(&rows)
            },
        );
        self.last(
            Op::Gather,
            vec![Some(rows), Some(index)],
            Attributes::new().with_int(Attr::Axis, 0),
        )
    }

    /// ZipMap: the scores, whose columns are in the order of its labels.
    fn columns(&mut self) -> Result<bool, Error> {
        let (x, Some(output)) = (self.0.input(0)?, self.0.node.output(0)) else {
            return Ok(false);
        };
        let tensor = self.0.target.graph.tensor_mut(output);
        tensor.container = Container::Tensor;
        tensor.typed = false;
        self.last(Op::Identity, vec![Some(x)], Attributes::new())
    }
}

/// An attribute that is a list or a tensor, as a tensor of one axis.
fn listed(ml: &Foreign<'_, '_>, names: [&str; 4]) -> Option<Literal> {
    let [strings, ints, floats, tensor] = names;
    let attribute = |name: &str| {
        let key = polychip_ops::AttrKey::from_name(name);
        ml.0.node.attributes.get_key(&key)
    };
    if let Some(literal) = ml.tensor(tensor) {
        return Some(Literal {
            shape: vec![literal.elements()?],
            ..literal
        });
    }
    match (attribute(strings), attribute(ints), attribute(floats)) {
        (Some(AttrValue::Strings(texts)), ..) => Literal::from_strings(texts),
        (_, Some(AttrValue::Ints(ints)), _) => Some(Literal::i64s(ints)),
        (.., Some(AttrValue::Floats(floats))) => Some(Literal::f32s(floats)),
        _ => None,
    }
}
