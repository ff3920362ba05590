//! Products of integers and f64 (MatMul), and of two computed operands of bytes (MatMulInteger).
//!
//! Not here: products of f32 (`matmul`), of codes with constant weights (`integers`).

use polychip_cpu_kernels::gemm_int::{self as kernel, Byte, Extents};
use polychip_ops::{DType, Op, broadcast};
use polychip_sdk::Result;

use super::builder::Lowering;
use crate::part::{Node, TensorIndex};
use crate::step::{Operands, Plain};
use crate::work::Class;

/// The extents of a product of matrices, whose result has this shape; `None` where they do not fit it.
fn extents(a: &[usize], b: &[usize], y: &[usize]) -> Option<Extents> {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    if a.len() == 1 {
        a.insert(0, 1);
    }
    if b.len() == 1 {
        b.push(1);
    }
    let ([of_a @ .., m, k], [of_b @ .., depth, n]) = (&a[..], &b[..]) else {
        return None;
    };
    let whole = broadcast::shapes(&[of_a, of_b])?;
    let count: usize = whole.iter().product();
    if k != depth || y.iter().product::<usize>() != count * m * n || count > 1 << 20 {
        return None;
    }
    let (a_strides, b_strides) = (
        broadcast::strides(of_a, &whole)?,
        broadcast::strides(of_b, &whole)?,
    );
    let batches = (0..count).map(|mut batch| {
        let mut at = [0, 0];
        for (i, &size) in whole.iter().enumerate().rev() {
            let index = batch % size;
            batch /= size;
            at[0] += index * a_strides[i];
            at[1] += index * b_strides[i];
        }
        at
    });
    Some(Extents {
        m: *m,
        k: *k,
        n: *n,
        batches: batches.collect(),
    })
}

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(a), Some(b), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    let plain = |t: TensorIndex| l.part.tensors[t].encoding.is_none();
    if !node.reads().chain([y]).all(plain) {
        return Ok(false);
    }
    let Some(extents) = extents(l.shape(a)?, l.shape(b)?, l.shape(y)?) else {
        return Ok(false);
    };
    match node.op {
        Op::MatMul => numbers(l, extents, [a, b, y]),
        Op::MatMulInteger => bytes(l, node, extents, [a, b, y]),
        _ => Ok(false),
    }
}

fn numbers(l: &mut Lowering<'_>, extents: Extents, [a, b, y]: [TensorIndex; 3]) -> Result<bool> {
    fn run<T: Plain + kernel::Number>(
        o: &mut Operands<'_>,
        isa: polychip_cpu_kernels::Isa,
        extents: &Extents,
    ) {
        kernel::product::<T>(isa, o.pool, extents, o.read(0), o.read(1), o.write(0));
    }
    let run = match l.dtype(a) {
        DType::I32 => run::<i32>,
        DType::I64 => run::<i64>,
        DType::U32 => run::<u32>,
        DType::U64 => run::<u64>,
        DType::F64 => run::<f64>,
        _ => return Ok(false),
    };
    let isa = l.isa;
    let products = extents.batches.len() * extents.m * extents.k * extents.n;
    let (a, b, y) = (l.rows(a)?, l.rows(b)?, l.write_rows(y)?);
    l.step(
        "MatMul",
        &[a, b],
        &[y],
        None,
        Box::new(move |o| {
            run(o, isa, &extents);
            Ok(())
        }),
    )
    .does(Class::ProductPlain, products);
    Ok(true)
}

/// Bytes less their zeros, which are one for each operand and may be computed.
fn bytes(l: &mut Lowering<'_>, node: &Node, extents: Extents, [a, b, y]: [TensorIndex; 3]) -> Result<bool> {
    let zeros = [node.input(2), node.input(3)];
    for (zero, of) in zeros.into_iter().zip([a, b]) {
        let fits = |zero| -> Result<bool> {
            Ok(l.shape(zero)?.iter().product::<usize>() == 1 && l.dtype(zero) == l.dtype(of))
        };
        if !zero.map_or(Ok(true), fits)? {
            return Ok(false);
        }
    }
    let isa = l.isa;
    let places = zeros.map(|zero| zero.is_some());
    fn run<A: Plain + Byte + Default, B: Plain + Byte + Default>(
        o: &mut Operands<'_>,
        isa: polychip_cpu_kernels::Isa,
        extents: &Extents,
        zeros: [bool; 2],
    ) {
        let left = if zeros[0] { o.read::<A>(2)[0] } else { A::default() };
        let right = if zeros[1] {
            o.read::<B>(2 + usize::from(zeros[0]))[0]
        } else {
            B::default()
        };
        let (y, pairs) = (o.write(0), o.write(1));
        let (a, b) = (o.read::<A>(0), o.read::<B>(1));
        kernel::product_of_bytes(isa, o.pool, extents, (a, left), (b, right), pairs, y);
    }
    let run = match (l.dtype(a), l.dtype(b)) {
        (DType::U8, DType::U8) => run::<u8, u8>,
        (DType::U8, DType::I8) => run::<u8, i8>,
        (DType::I8, DType::U8) => run::<i8, u8>,
        (DType::I8, DType::I8) => run::<i8, i8>,
        _ => return Ok(false),
    };
    let mut reads = vec![l.rows(a)?, l.rows(b)?];
    for zero in zeros.into_iter().flatten() {
        reads.push(l.rows(zero)?);
    }
    let products = extents.batches.len() * extents.m * extents.k * extents.n;
    let y = l.write_rows(y)?;
    let pairs = l.fresh(DType::I32, vec![kernel::pairs_len(extents.k, extents.n)])?;
    l.step(
        "MatMulInteger",
        &reads,
        &[y, pairs],
        None,
        Box::new(move |o| {
            run(o, isa, &extents, places);
            Ok(())
        }),
    )
    .does(Class::ProductPlain, products / 2);
    Ok(true)
}
