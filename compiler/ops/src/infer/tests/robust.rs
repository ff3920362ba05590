//! No node panics, however odd: random types, values and attributes for every op.
//!
//! Invariant: the cases come from a fixed seed, so that a failure repeats.
//! Not here: what the shapes are.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{AttrKind, AttrValue};

/// Random numbers that a seed repeats.
struct Numbers(ChaCha8Rng);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0.random_range(0..limit)
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    fn int(&mut self) -> i64 {
        let odd = [
            0,
            1,
            -1,
            2,
            3,
            4,
            -2,
            5,
            i64::MAX,
            i64::MIN,
            i64::from(i32::MAX),
            1 << 40,
        ];
        // Mostly small ones, so that many cases get past the first check.
        if self.below(8) == 0 {
            self.pick(&odd)
        } else {
            self.pick(&odd[..8])
        }
    }

    fn dim(&mut self) -> Dim {
        match self.below(12) {
            0 => Dim::Unknown,
            1 => Dim::symbol("n"),
            2 => Dim::symbol("m"),
            3 => Dim::Known(0),
            4 => Dim::Known(usize::MAX),
            size => Dim::Known(size - 4),
        }
    }

    fn value(&mut self, ty: &TensorType) -> Option<Value> {
        let count = ty.elements().filter(|count| *count <= 64)?;
        if ty.dtype.is_float() {
            let odd = [0.0, 1.0, 2.5, -1.0, f32::NAN, f32::INFINITY, 1e30, 0.5];
            let floats: Vec<f32> = (0..count).map(|_| self.pick(&odd)).collect();
            let literal = Literal {
                shape: ty.sizes()?,
                ..Literal::f32s(&floats)
            };
            return (ty.dtype == DType::F32).then_some(Value::Literal(literal));
        }
        let elements: Vec<Element> = (0..count)
            .map(|_| match self.below(6) {
                0 => Element::Symbol("n".into()),
                1 => Element::Unknown,
                _ => Element::Int(self.int()),
            })
            .collect();
        if self.below(2) == 0 && ty.rank()? <= 1 {
            return Some(Value::Dims(elements, ty.dtype));
        }
        let ints: Vec<i64> = elements.iter().map(|e| e.int().unwrap_or(1)).collect();
        Literal::from_ints(ty.dtype, ty.sizes()?, &ints).map(Value::Literal)
    }

    fn attribute(&mut self, kind: AttrKind, count: usize) -> Option<AttrValue> {
        let words = [
            "NOTSET",
            "SAME_UPPER",
            "none",
            "linear",
            "ij,jk->ik",
            "...a,b",
            "x",
            "",
        ];
        Some(match kind {
            AttrKind::Int => AttrValue::Int(self.int()),
            AttrKind::Float => AttrValue::Float(0.5),
            AttrKind::String => AttrValue::String(self.pick(&words).into()),
            AttrKind::Ints => AttrValue::Ints((0..count).map(|_| self.int()).collect()),
            AttrKind::Floats => AttrValue::Floats(vec![0.5; count]),
            AttrKind::Strings => AttrValue::Strings(vec!["x".into(); count]),
            AttrKind::Tensor => AttrValue::Tensor(Literal::i64s(&vec![3; count])),
            AttrKind::SparseTensor | AttrKind::Graph | AttrKind::Type => return None,
        })
    }
}

#[test]
fn odd_nodes_are_errors_or_shapes() {
    let mut numbers = Numbers(ChaCha8Rng::seed_from_u64(2026));
    let mut inferred = 0;
    for &op in Op::ALL {
        let spec = op.spec();
        for _ in 0..400 {
            let rank = numbers.below(6);
            let (least, most) = spec.input_arity();
            let count = least + numbers.below(most.unwrap_or(least + 3) - least + 1);
            let dtype = numbers.below(3);
            let inputs: Vec<(TensorType, Option<Value>)> = (0..count)
                .map(|index| {
                    let allowed = spec.allowed(spec.input(index).unwrap()).dtypes;
                    let dtypes: Vec<DType> = allowed.iter().collect();
                    let dtype = dtypes[dtype.min(dtypes.len() - 1)];
                    let rank = if numbers.below(3) == 0 {
                        numbers.below(3)
                    } else {
                        rank
                    };
                    let shape = (0..rank).map(|_| numbers.dim()).collect();
                    let unranked = numbers.below(12) == 0;
                    let ty = TensorType {
                        dtype,
                        shape: (!unranked).then_some(shape),
                    };
                    let value = if numbers.below(3) > 0 {
                        numbers.value(&ty)
                    } else {
                        None
                    };
                    (ty, value)
                })
                .collect();
            let inputs: Vec<_> = inputs
                .iter()
                .map(|(ty, value)| {
                    Some(InferInput {
                        ty,
                        value: value.as_ref(),
                    })
                })
                .collect();
            let mut attributes = none();
            for attr in spec.attributes {
                if attr.required || numbers.below(3) == 0 {
                    let length = numbers.below(6);
                    if let Some(value) = numbers.attribute(attr.kind, length) {
                        attributes.set(attr.attr, value);
                    }
                }
            }
            let (fewest, most) = spec.output_arity();
            let outputs = most.unwrap_or(fewest + numbers.below(3));
            if let Ok(outs) = infer(op, &attributes, &inputs, outputs) {
                assert_eq!(outs.len(), outputs, "{op}");
                inferred += 1;
                for out in outs {
                    let held = out.value.as_ref().and_then(Value::elements).map(|e| e.len());
                    if let (Some(held), Some(count)) = (held, out.ty.elements()) {
                        assert_eq!(held, count, "{op}: {}", out.ty);
                    }
                }
            }
        }
    }
    // Enough cases must be right for the wrong ones to be near misses.
    assert!(inferred > 10_000, "only {inferred} nodes were inferred");
}
