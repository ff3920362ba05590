//! Matrix products, Einstein sums and determinants.
//!
//! Invariant: each result element is one sum in `f64` (or exact), rounded once.

use super::error::{Result, refuse, require};
use super::{Tensor, Wide, index};

/// A number in which products are summed.
pub trait Number: Copy + PartialEq {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// `self + a * b`.
    #[must_use]
    fn add_product(self, a: Self, b: Self) -> Self;
}

impl Number for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn add_product(self, a: Self, b: Self) -> Self {
        self + a * b
    }
}

impl Number for i128 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    fn add_product(self, a: Self, b: Self) -> Self {
        self.wrapping_add(a.wrapping_mul(b))
    }
}

impl Number for i64 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    fn add_product(self, a: Self, b: Self) -> Self {
        self.wrapping_add(a.wrapping_mul(b))
    }
}

/// `[…, m, k] × […, k, n]` with numpy's rules for vectors and leading dims: shape and elements.
///
/// # Errors
/// If the shapes do not fit.
pub fn product<T: Number>(
    a: &[T],
    a_shape: &[usize],
    b: &[T],
    b_shape: &[usize],
) -> Result<(Vec<usize>, Vec<T>)> {
    require!(
        !a_shape.is_empty() && !b_shape.is_empty(),
        "a matrix product needs no scalars: {a_shape:?}, {b_shape:?}"
    );
    let (mut sa, mut sb) = (a_shape.to_vec(), b_shape.to_vec());
    if sa.len() == 1 {
        sa.insert(0, 1);
    }
    if sb.len() == 1 {
        sb.push(1);
    }
    let (la, lb) = (sa.len() - 2, sb.len() - 2);
    let (m, k, n) = (sa[la], sa[la + 1], sb[lb + 1]);
    require!(
        sb[lb] == k,
        "matrix product of {a_shape:?} and {b_shape:?}: {k} meets {}",
        sb[lb]
    );
    let batch = index::broadcast(&[&sa[..la], &sb[..lb]])?;
    let ia = index::broadcast_index(&sa[..la], &batch)?;
    let ib = index::broadcast_index(&sb[..lb], &batch)?;
    let mut out = vec![T::ZERO; super::tensor::elements(&[ia.len(), m, n])?];
    for (g, (&ga, &gb)) in ia.iter().zip(&ib).enumerate() {
        for i in 0..m {
            for p in 0..k {
                let left = a[(ga * m + i) * k + p];
                let row = &mut out[(g * m + i) * n..][..n];
                for (to, &right) in row.iter_mut().zip(&b[(gb * k + p) * n..][..n]) {
                    *to = to.add_product(left, right);
                }
            }
        }
    }
    let mut shape = batch;
    if a_shape.len() > 1 {
        shape.push(m);
    }
    if b_shape.len() > 1 {
        shape.push(n);
    }
    Ok((shape, out))
}

/// The matrix product of two tensors of one element type.
///
/// # Errors
/// If shapes or types do not fit.
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (shape, wide) = match (a.wide(), b.wide()) {
        (Wide::Float(x), Wide::Float(y)) => {
            let (shape, v) = product(&x, a.shape(), &y, b.shape())?;
            (shape, Wide::Float(v))
        }
        (Wide::Int(x), Wide::Int(y)) => {
            let (shape, v) = product(&x, a.shape(), &y, b.shape())?;
            (shape, Wide::Int(v))
        }
        _ => refuse!("a matrix product of {:?} and {:?}", a.element(), b.element()),
    };
    Tensor::from_wide(a.element(), shape, wide)
}

/// The last two dims of a matrix exchanged.
///
/// # Errors
/// If `x` is no matrix.
pub fn transposed(x: &Tensor) -> Result<Tensor> {
    let &[r, c] = x.shape() else {
        refuse!("a matrix wanted, shape {:?} seen", x.shape());
    };
    x.select(vec![c, r], &index::strided(&[c, r], &[1, c], 0))
}

/// `alpha · a · b + beta · c`; `c` broadcasts to the product.
///
/// # Errors
/// If shapes or types do not fit.
pub fn gemm(a: &Tensor, b: &Tensor, c: Option<&Tensor>, alpha: f64, beta: f64) -> Result<Tensor> {
    require!(
        a.rank() == 2 && b.rank() == 2,
        "matrices wanted, shapes {:?} and {:?} seen",
        a.shape(),
        b.shape()
    );
    // C is not read where beta is zero, so that nothing comes of what is not finite there
    let bias = match c.filter(|_| beta != 0.0) {
        None => None,
        Some(c) => Some((
            c,
            index::broadcast_index(c.shape(), &[a.shape()[0], b.shape()[1]])?,
        )),
    };
    let (shape, wide) = match (a.wide(), b.wide()) {
        (Wide::Int(x), Wide::Int(y)) if alpha == 1.0 && beta == 1.0 => {
            let (shape, mut v) = product(&x, a.shape(), &y, b.shape())?;
            if let Some((c, at)) = bias {
                let c = c.to_i128s()?;
                v.iter_mut().zip(at).for_each(|(v, i)| *v = v.wrapping_add(c[i]));
            }
            (shape, Wide::Int(v))
        }
        _ => {
            let (shape, mut v) = product(&a.to_f64s()?, a.shape(), &b.to_f64s()?, b.shape())?;
            v.iter_mut().for_each(|v| *v *= alpha);
            if let Some((c, at)) = bias {
                let c = c.to_f64s()?;
                v.iter_mut().zip(at).for_each(|(v, i)| *v += beta * c[i]);
            }
            (shape, Wide::Float(v))
        }
    };
    Tensor::from_wide(a.element(), shape, wide)
}

/// One dimension of an Einstein sum: a letter, or a place in the ellipsis counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

fn labels(term: &str, ellipsis: usize) -> Result<Vec<Label>> {
    let mut out = Vec::new();
    let mut rest = term;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("...") {
            out.extend((0..ellipsis).rev().map(Label::Ellipsis));
            rest = after;
        } else {
            require!(c.is_ascii_alphabetic(), "{c:?} is no label of an einstein sum");
            out.push(Label::Letter(c));
            rest = &rest[c.len_utf8()..];
        }
    }
    Ok(out)
}

/// The Einstein sum `equation` (as `ij,jk->ik`, with ellipses) of the operands.
///
/// # Errors
/// If the equation is not one, or the shapes do not fit it.
pub fn einsum(equation: &str, operands: &[&Tensor]) -> Result<Tensor> {
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left.to_owned(), Some(right.to_owned())),
        None => (equation, None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    require!(
        terms.len() == operands.len(),
        "{} terms for {} operands",
        terms.len(),
        operands.len()
    );
    let mut inputs = Vec::new();
    let mut widest = 0;
    for (term, t) in terms.iter().zip(operands) {
        let letters = term.chars().filter(|c| c.is_ascii_alphabetic()).count();
        let ellipsis = if term.contains("...") {
            t.rank().saturating_sub(letters)
        } else {
            0
        };
        widest = widest.max(ellipsis);
        let l = labels(term, ellipsis)?;
        require!(
            l.len() == t.rank(),
            "term {term:?} does not fit shape {:?}",
            t.shape()
        );
        inputs.push(l);
    }
    let output =
        match &right {
            Some(right) => labels(right, widest)?,
            None => {
                // implicit: the ellipsis, then the letters that appear once, in alphabetical order
                let mut all: Vec<Label> = inputs.iter().flatten().copied().collect();
                all.sort_unstable();
                let mut out: Vec<Label> = (0..widest).rev().map(Label::Ellipsis).collect();
                out.extend(all.iter().copied().filter(|l| {
                    matches!(l, Label::Letter(_)) && all.iter().filter(|m| *m == l).count() == 1
                }));
                out
            }
        };
    // the extents of all labels: outputs first, then those that are summed
    let mut names = output.clone();
    for l in inputs.iter().flatten() {
        if !names.contains(l) {
            names.push(*l);
        }
    }
    let mut extents = vec![1usize; names.len()];
    for (l, t) in inputs.iter().zip(operands) {
        for (label, &d) in l.iter().zip(t.shape()) {
            let at = names.iter().position(|n| n == label).unwrap_or(0);
            if extents[at] == 1 {
                extents[at] = d;
            } else {
                require!(
                    d == 1 || d == extents[at],
                    "label {label:?} is {d} and {}",
                    extents[at]
                );
            }
        }
    }
    let mut steps = Vec::new();
    for (l, t) in inputs.iter().zip(operands) {
        let strides = index::strides(t.shape());
        let mut step = vec![0; names.len()];
        for ((label, &d), s) in l.iter().zip(t.shape()).zip(strides) {
            let at = names.iter().position(|n| n == label).unwrap_or(0);
            if d != 1 {
                step[at] += s;
            }
        }
        steps.push(step);
    }
    let out_rank = output.len();
    let (shape, summed) = (extents[..out_rank].to_vec(), extents[out_rank..].to_vec());
    let bases: Vec<Vec<usize>> = steps
        .iter()
        .map(|s| index::strided(&shape, &s[..out_rank], 0))
        .collect();
    let offsets: Vec<Vec<usize>> = steps
        .iter()
        .map(|s| index::strided(&summed, &s[out_rank..], 0))
        .collect();
    fn total<T: Number>(
        values: &[Vec<T>],
        bases: &[Vec<usize>],
        offsets: &[Vec<usize>],
        n: usize,
        sums: usize,
    ) -> Vec<T> {
        (0..n)
            .map(|o| {
                (0..sums).fold(T::ZERO, |sum, s| {
                    let mut term = T::ONE;
                    for ((v, b), f) in values.iter().zip(bases).zip(offsets) {
                        term = T::ZERO.add_product(term, v[b[o] + f[s]]);
                    }
                    sum.add_product(term, T::ONE)
                })
            })
            .collect()
    }
    let Some(first) = operands.first() else {
        refuse!("an einstein sum needs an operand");
    };
    let (n, sums) = (
        super::tensor::elements(&shape)?,
        super::tensor::elements(&summed)?,
    );
    let wide = if first.element().is_int() {
        let values: Vec<Vec<i128>> = operands.iter().map(|t| t.to_i128s()).collect::<Result<_>>()?;
        Wide::Int(total(&values, &bases, &offsets, n, sums))
    } else {
        let values: Vec<Vec<f64>> = operands.iter().map(|t| t.to_f64s()).collect::<Result<_>>()?;
        Wide::Float(total(&values, &bases, &offsets, n, sums))
    };
    Tensor::from_wide(first.element(), shape, wide)
}

/// The determinant of each matrix of `[…, n, n]`.
///
/// # Errors
/// If the matrices are not square.
pub fn det(x: &Tensor) -> Result<Tensor> {
    let (batch, n) = match x.shape() {
        [batch @ .., m, n] if m == n => (batch.to_vec(), *n),
        other => refuse!("square matrices wanted, shape {other:?} seen"),
    };
    let v = x.to_f64s()?;
    let one = |mut a: Vec<f64>| -> f64 {
        let mut det = 1.0;
        for col in 0..n {
            let pivot = (col..n)
                .max_by(|&i, &j| a[i * n + col].abs().total_cmp(&a[j * n + col].abs()))
                .unwrap_or(col);
            if a[pivot * n + col] == 0.0 {
                return 0.0;
            }
            if pivot != col {
                for j in 0..n {
                    a.swap(pivot * n + j, col * n + j);
                }
                det = -det;
            }
            det *= a[col * n + col];
            for i in col + 1..n {
                let factor = a[i * n + col] / a[col * n + col];
                for j in col..n {
                    a[i * n + j] -= factor * a[col * n + j];
                }
            }
        }
        det
    };
    let dets: Vec<f64> = (0..index::product(&batch))
        .map(|b| one(v[b * n * n..(b + 1) * n * n].to_vec()))
        .collect();
    Tensor::from_f64s(x.element(), batch, &dets)
}
