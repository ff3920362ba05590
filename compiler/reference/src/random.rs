//! Random numbers: RandomNormal, RandomUniform and the like, Bernoulli, Multinomial, Dropout in training.
//!
//! Invariant: a node's numbers follow from its seed, its two inputs that say which run and which node
//! it is, and nothing else. ONNX fixes no generator: these are ours, the same on every device.
//!
//! Not here: who gives a node those inputs (`polychip_graph::random`), the generator (the kernel).

use polychip_cpu_kernels::reference::random::{self as kernel, Stream};
use polychip_cpu_kernels::reference::{Element, Result, Tensor};
use polychip_ops::operator::{
    Bernoulli, Dropout, Multinomial, RandomNormal, RandomNormalLike, RandomUniform, RandomUniformLike,
};
use polychip_ops::{DType, DTypes, Op};

use crate::call::{Call, Outputs, bad, one, sizes};
use crate::literal::element;
use crate::row::{ANY, BOOL, FLOATS, Row};

const I64: DTypes = DTypes::of(&[DType::I64]);

/// Nodes with a seed of their own have streams apart from those without.
const SEEDED: u64 = 1 << 63;

pub(crate) fn row(op: Op) -> Option<Row> {
    let (takes, run): (&'static [DTypes], fn(&Call<'_>) -> Outputs) = match op {
        Op::RandomNormal => (&[I64], normal),
        Op::RandomUniform => (&[I64], uniform),
        Op::RandomNormalLike => (&[ANY, I64], normal_like),
        Op::RandomUniformLike => (&[ANY, I64], uniform_like),
        Op::Bernoulli => (&[FLOATS, I64], bernoulli),
        Op::Multinomial => (&[FLOATS, I64], multinomial),
        Op::Dropout => (&[FLOATS, FLOATS, BOOL, I64], dropout),
        _ => return None,
    };
    Some(Row { takes, run })
}

/// The stream of a node whose inputs from `first` on say the session's seed and run, and the node.
fn stream(c: &Call<'_>, first: usize, seed: Option<u64>) -> Result<Stream> {
    let (Some(run), Some(node)) = (c.optional(first), c.optional(first + 1)) else {
        return bad("its random numbers have no run: only a session gives them");
    };
    let (&[session, run], &[node]) = (&run.to_i64s()?[..], &node.to_i64s()?[..]) else {
        return bad("a seed, a run and a node are wanted");
    };
    Ok(match seed {
        Some(seed) => Stream::new(seed, SEEDED, run.cast_unsigned()),
        None => Stream::new(session.cast_unsigned(), node.cast_unsigned(), run.cast_unsigned()),
    })
}

fn bits(seed: Option<f32>) -> Option<u64> {
    seed.map(|seed| u64::from(seed.to_bits()))
}

/// The type of a result that is like an input, unless an attribute says another.
fn like(c: &Call<'_>, dtype: Option<DType>) -> Result<Element> {
    let made = dtype.map_or(c.input(0)?.element(), element);
    match made {
        Element::F16 | Element::BF16 | Element::F32 | Element::F64 => Ok(made),
        _ => bad(format!(
            "random numbers of type {made:?} are not offered; set dtype"
        )),
    }
}

fn normal(c: &Call<'_>) -> Outputs {
    let node: RandomNormal = c.typed()?;
    let stream = stream(c, 0, bits(node.seed))?;
    let shape = sizes(&node.shape)?;
    one(kernel::normal(
        stream,
        element(node.dtype),
        &shape,
        node.mean,
        node.scale,
    ))
}

fn normal_like(c: &Call<'_>) -> Outputs {
    let node: RandomNormalLike = c.typed()?;
    let stream = stream(c, 1, bits(node.seed))?;
    let made = like(c, node.dtype)?;
    one(kernel::normal(
        stream,
        made,
        c.input(0)?.shape(),
        node.mean,
        node.scale,
    ))
}

fn uniform(c: &Call<'_>) -> Outputs {
    let node: RandomUniform = c.typed()?;
    let stream = stream(c, 0, bits(node.seed))?;
    let shape = sizes(&node.shape)?;
    one(kernel::uniform(
        stream,
        element(node.dtype),
        &shape,
        node.low,
        node.high,
    ))
}

fn uniform_like(c: &Call<'_>) -> Outputs {
    let node: RandomUniformLike = c.typed()?;
    let stream = stream(c, 1, bits(node.seed))?;
    let made = like(c, node.dtype)?;
    one(kernel::uniform(
        stream,
        made,
        c.input(0)?.shape(),
        node.low,
        node.high,
    ))
}

fn bernoulli(c: &Call<'_>) -> Outputs {
    let node: Bernoulli = c.typed()?;
    let x = c.input(0)?;
    let made = node.dtype.map_or(x.element(), element);
    one(kernel::bernoulli(stream(c, 1, bits(node.seed))?, made, x))
}

fn multinomial(c: &Call<'_>) -> Outputs {
    let node: Multinomial = c.typed()?;
    let stream = stream(c, 1, bits(node.seed))?;
    one(kernel::multinomial(
        stream,
        element(node.dtype),
        c.input(0)?,
        node.samples,
    ))
}

fn dropout(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let training = match c.optional(2) {
        Some(t) => t.to_bools()?.first().copied().unwrap_or(false),
        None => false,
    };
    let ratio = match c.optional(1) {
        Some(t) => t.to_f64s()?.first().copied().unwrap_or(0.5),
        None => 0.5,
    };
    if training && ratio != 0.0 {
        let node: Dropout = c.typed()?;
        let seed = node.seed.map(i64::cast_unsigned);
        let (output, mask) = kernel::dropout(stream(c, 3, seed)?, x, ratio)?;
        return Ok(vec![output, mask]);
    }
    let mask = Tensor::from_bools(x.shape().to_vec(), vec![true; x.len()])?;
    Ok(vec![x.clone(), mask])
}

#[cfg(test)]
mod tests {
    use polychip_ops::{Attr, AttrValue, Attributes};

    use super::*;
    use crate::evaluate;

    fn run(
        op: Op,
        attributes: &Attributes,
        inputs: &[Option<&Tensor>],
        session: i64,
        run: i64,
        node: i64,
    ) -> Vec<f64> {
        let run = Tensor::from_i64s(vec![2], vec![session, run]).unwrap();
        let node = Tensor::from_i64s(vec![1], vec![node]).unwrap();
        let mut inputs = inputs.to_vec();
        inputs.extend([Some(&run), Some(&node)]);
        evaluate(op, attributes, &inputs, 1).unwrap()[0]
            .to_f64s()
            .unwrap()
    }

    fn seeded(seed: f32) -> Attributes {
        Attributes::new().with(Attr::Seed, AttrValue::Float(seed))
    }

    #[test]
    fn numbers_follow_from_seed_run_and_node() {
        let x = Tensor::zeros(Element::F32, vec![2, 5]).unwrap();
        let like = |attributes: &Attributes, session, round, node| {
            run(
                Op::RandomNormalLike,
                attributes,
                &[Some(&x)],
                session,
                round,
                node,
            )
        };
        let (none, one) = (Attributes::new(), seeded(1.0));
        let first = like(&none, 0, 1, 0);
        assert_eq!((first.len(), &first), (10, &like(&none, 0, 1, 0)));
        for other in [like(&none, 1, 1, 0), like(&none, 0, 2, 0), like(&none, 0, 1, 1)] {
            assert_ne!(first, other);
        }
        // a seed of its own counts, whatever the session's
        assert_eq!(like(&one, 0, 1, 0), like(&one, 9, 1, 4));
        assert_ne!(like(&one, 0, 1, 0), like(&one, 0, 2, 0));
        assert_ne!(like(&one, 0, 1, 0), like(&seeded(2.0), 0, 1, 0));
    }

    #[test]
    fn without_a_run_there_are_no_random_numbers() {
        let x = Tensor::zeros(Element::F32, vec![2]).unwrap();
        let error = evaluate(Op::RandomUniformLike, &Attributes::new(), &[Some(&x)], 1).unwrap_err();
        assert!(
            error.to_string().contains("its random numbers have no run"),
            "{error}"
        );
        let error = evaluate(Op::Bernoulli, &Attributes::new(), &[Some(&x)], 1);
        assert!(error.is_err());
    }
}
