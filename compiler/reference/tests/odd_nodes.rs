//! Nodes of every op with odd attributes, types, shapes and values: each is computed or refused, none panics,
//! and what `supported` accepts is never refused for its types.
//!
//! Invariant: the nodes are drawn from a fixed sequence, so that a failure names a seed that repeats.

use std::panic::{AssertUnwindSafe, catch_unwind};

use polychip_ops::{AttrKind, AttrValue, Attributes, DType, Literal, Op};
use polychip_reference::{ErrorKind, Tensor, element, evaluate, supported, tensor_to_literal};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Random numbers of a seed.
struct Draw(ChaCha8Rng);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0.next_u32() as usize % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn int(&mut self) -> i64 {
        match self.below(40) {
            0 => i64::MAX,
            1 => i64::MIN,
            2 => 1 << 40,
            _ => self.below(7) as i64 - 2,
        }
    }

    fn float(&mut self) -> f64 {
        match self.below(30) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -1e30,
            _ => self.below(33) as f64 / 8.0 - 1.0,
        }
    }

    fn tensor(&mut self, dtype: DType) -> Tensor {
        let shape: Vec<usize> = (0..self.below(5))
            .map(|_| self.pick(&[1, 2, 3, 4, 2, 1, 0]))
            .collect();
        let n = shape.iter().product();
        let e = element(dtype);
        if dtype == DType::String {
            let words = ["", "a b", "3.5", "nan", "x"];
            let mut bytes = Vec::new();
            for _ in 0..n {
                let word = self.pick(&words);
                bytes.extend((word.len() as u32).to_le_bytes());
                bytes.extend(word.bytes());
            }
            return Tensor::from_bytes(e, shape, &bytes).unwrap();
        }
        if e.is_int() {
            let v: Vec<i128> = (0..n).map(|_| i128::from(self.int())).collect();
            return Tensor::from_i128s(e, shape, &v).unwrap();
        }
        let v: Vec<f64> = (0..n).map(|_| self.float()).collect();
        Tensor::from_f64s(e, shape, &v).unwrap()
    }

    fn attribute(&mut self, kind: AttrKind) -> Option<AttrValue> {
        const WORDS: [&str; 24] = [
            "SAME_UPPER",
            "SAME_LOWER",
            "VALID",
            "LEFT",
            "RIGHT",
            "linear",
            "cubic",
            "nearest",
            "reflect",
            "wrap",
            "edge",
            "add",
            "max",
            "sum",
            "none",
            "align_corners",
            "tf_crop_and_resize",
            "CRD",
            "circular",
            "bidirectional",
            "reverse",
            "ij,jk->ik",
            "...i,i...",
            "TFIDF",
        ];
        let count = self.below(5);
        Some(match kind {
            AttrKind::Int => AttrValue::Int(self.int()),
            AttrKind::Float => AttrValue::Float(self.float() as f32),
            AttrKind::String => AttrValue::String(self.pick(&WORDS).into()),
            AttrKind::Ints => AttrValue::Ints((0..count).map(|_| self.int()).collect()),
            AttrKind::Floats => AttrValue::Floats((0..count).map(|_| self.float() as f32).collect()),
            AttrKind::Strings => AttrValue::Strings(
                (0..count)
                    .map(|_| self.pick(&["Tanh", "Relu", "a", ""]).into())
                    .collect(),
            ),
            AttrKind::Tensor => {
                let literal: Literal = tensor_to_literal(&self.tensor(DType::F32)).unwrap();
                AttrValue::Tensor(literal)
            }
            _ => return None,
        })
    }
}

#[test]
fn no_node_panics_and_support_is_exact() {
    const USUAL: [DType; 4] = [DType::F32, DType::I64, DType::I32, DType::U8];
    let mut computed = std::collections::BTreeSet::new();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut failures = Vec::new();
    for &op in Op::ALL {
        for seed in 0..1_500u64 {
            let mut draw = Draw(ChaCha8Rng::seed_from_u64(
                seed.wrapping_mul(977) ^ u64::from(op.code()) << 32,
            ));
            let mut attributes = Attributes::new();
            for spec in op.spec().attributes {
                if draw.below(3) == 0
                    && let Some(value) = draw.attribute(spec.kind)
                {
                    attributes.set(spec.attr, value);
                }
            }
            let first = if seed % 2 == 0 {
                DType::F32
            } else {
                draw.pick(&DType::ALL)
            };
            let tensors: Vec<Option<Tensor>> = (0..draw.below(8))
                .map(|i| {
                    let dtype = match draw.below(4) {
                        0 => draw.pick(&USUAL),
                        1 if i > 0 => DType::I64,
                        2 if i > 1 => draw.pick(&DType::ALL),
                        _ => first,
                    };
                    (draw.below(9) > 0).then(|| draw.tensor(dtype))
                })
                .collect();
            let inputs: Vec<Option<&Tensor>> = tensors.iter().map(Option::as_ref).collect();
            let dtypes: Vec<Option<DType>> = inputs
                .iter()
                .map(|t| t.map(|t| polychip_reference::dtype(t.element())))
                .collect();
            let accepted = supported(op, &attributes, &dtypes).is_ok();
            let outputs = 1 + draw.below(4);
            match catch_unwind(AssertUnwindSafe(|| evaluate(op, &attributes, &inputs, outputs))) {
                Err(_) => failures.push(format!("{} seed {seed} panics", op.name())),
                Ok(Ok(_)) if accepted => {
                    computed.insert(op.name());
                }
                Ok(Err(e)) if accepted == (e.kind() == ErrorKind::BadInput) => {}
                Ok(other) => {
                    failures.push(format!(
                        "{} seed {seed}: accepted {accepted}, {other:?}",
                        op.name()
                    ));
                }
            }
        }
    }
    std::panic::set_hook(quiet);
    assert!(
        failures.is_empty(),
        "{} failures: {:#?}",
        failures.len(),
        &failures[..failures.len().min(40)]
    );
    // most ops are really computed by chance, or the test would prove little
    assert!(
        computed.len() >= 110,
        "only {} ops were computed: {computed:?}",
        computed.len()
    );
}
