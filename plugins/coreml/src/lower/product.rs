//! Matrix products.

use polychip_lowering::{Node, Outcome, Refusal};
use polychip_ops::operator::Gemm;

use super::builder::Lower;
use crate::program::{Arg, ValueId};

impl Lower<'_> {
    fn product(&mut self, x: ValueId, y: ValueId, transposed: (bool, bool), dims: &[usize]) -> ValueId {
        let args = vec![
            ("x", Arg::Value(x)),
            ("y", Arg::Value(y)),
            ("transpose_x", Arg::Bool(transposed.0)),
            ("transpose_y", Arg::Bool(transposed.1)),
        ];
        let ty = self.ty_of(x);
        self.op("matmul", args, ty, dims)
    }

    pub(super) fn gemm(&mut self, node: &Node) -> Outcome<()> {
        let (left, right, output) = (self.input(node, 0)?, self.input(node, 1)?, self.output(node)?);
        let ty = self.floats(left)?;
        let gemm: Gemm = node.typed()?;
        let (alpha, beta) = (gemm.alpha, gemm.beta);
        let (turn_x, turn_y) = (gemm.trans_a, gemm.trans_b);
        let dims = self.dims(output)?;
        let sum = node.input(2);
        let row = |l: &Self, tensor| {
            let shape = l.shape(tensor).unwrap_or_default();
            l.view(tensor).is_constant() && matches!(shape, [n] | [1, n] if *n == dims[1])
        };
        let x = self.read(left)?;
        let constant = self.view(right).is_constant();
        if constant
            && turn_y
            && !turn_x
            && (alpha, beta) == (1.0, 1.0)
            && sum.is_none_or(|sum| row(self, sum))
        {
            let shape = self.shape(right)?.to_vec();
            let [factor, of_bias] = self.factors(left, output)?;
            let weight = self.filters(right, &shape, factor)?;
            let mut args = vec![("x", Arg::Value(x)), ("weight", Arg::Value(weight))];
            if let Some(sum) = sum {
                let bias = self.multiplied(sum, &[dims[1]], of_bias)?;
                args.push(("bias", Arg::Value(bias)));
            }
            let out = self.op("linear", args, ty, &dims);
            return self.settle(output, out);
        }
        let y = self.read(right)?;
        let mut out = self.product(x, y, (turn_x, turn_y), &dims);
        if alpha != 1.0 {
            let alpha = self.scalar(ty, alpha);
            out = self.two("mul", out, alpha)?;
        }
        if let Some(sum) = sum {
            let mut sum = self.read(sum)?;
            if beta != 1.0 {
                let beta = self.scalar(ty, beta);
                sum = self.two("mul", sum, beta)?;
            }
            out = self.two("add", out, sum)?;
        }
        self.settle(output, out)
    }

    pub(super) fn matmul(&mut self, node: &Node) -> Outcome<()> {
        let (left, right, output) = (self.input(node, 0)?, self.input(node, 1)?, self.output(node)?);
        self.floats(left)?;
        let (mut x, mut y) = (self.read(left)?, self.read(right)?);
        let (a, b) = (self.dims_of(x).to_vec(), self.dims_of(y).to_vec());
        if a.len() == 1 {
            x = self.reshaped(x, &[1, a[0]]);
        }
        if b.len() == 1 {
            y = self.reshaped(y, &[b[0], 1]);
        }
        let rank = self.dims_of(x).len().max(self.dims_of(y).len());
        // operands of as many axes: Core ML's rules for others have exceptions
        for id in [&mut x, &mut y] {
            let mut dims = self.dims_of(*id).to_vec();
            while dims.len() < rank {
                dims.insert(0, 1);
            }
            *id = self.reshaped(*id, &dims);
        }
        let (a, b) = (self.dims_of(x), self.dims_of(y));
        let mut dims: Vec<usize> = a[..rank - 2]
            .iter()
            .zip(&b[..rank - 2])
            .map(|(&a, &b)| a.max(b))
            .collect();
        dims.extend([a[rank - 2], b[rank - 1]]);
        if a[rank - 1] != b[rank - 2] {
            return Err(Refusal::shape(format!("a product of {a:?} and {b:?}")));
        }
        let out = self.product(x, y, (false, false), &dims);
        self.settle(output, out)
    }
}
