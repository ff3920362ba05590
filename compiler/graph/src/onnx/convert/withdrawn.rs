//! Ops that stood in ONNX's first opsets as experiments and were withdrawn, said in ops of opset 28: converters of Core ML,
//! CNTK and Caffe2 wrote them until 2019.
//!
//! Source: ONNX 1.2's `docs/Operators.md`, the experimental ops; and ONNX Runtime, which still runs them.
//!
//! Invariant: an op that is not here is left as it is, and then known to no device.

use polychip_ops::{Attributes, Literal, Op};

use super::foreign::Foreign;
use super::rewrite::Rewrite;
use crate::onnx::target::Target;
use crate::{Error, Node};

/// Adds what says in opset 28 what the node says; `false` where it is not expressed here, and nothing was added.
pub(super) fn expand(target: &mut Target<'_>, node: &Node) -> Result<bool, Error> {
    let mut old = Foreign(Rewrite {
        target,
        node: node.clone(),
        version: 0,
    });
    if node.output(0).is_none() || node.input(0).is_none() {
        return Ok(false);
    }
    match &*node.op_name {
        "Affine" => old.affine(),
        "Crop" => old.crop(),
        "ImageScaler" => old.image(),
        "ParametricSoftplus" => old.around(Op::Softplus),
        "Scale" => old.rescale(),
        "ScaledTanh" => old.around(Op::Tanh),
        _ => Ok(false),
    }
}

impl Foreign<'_, '_> {
    /// `alpha * x + beta`.
    fn affine(&mut self) -> Result<bool, Error> {
        let x = self.0.input(0)?;
        let scaled = self.scaled(x, self.float("alpha").unwrap_or(1.0), "scaled")?;
        let shift = self
            .0
            .scalar_like("beta", self.float("beta").unwrap_or(0.0), scaled)?;
        self.last(Op::Add, vec![Some(scaled), Some(shift)], Attributes::new())
    }

    /// `scale * x`.
    fn rescale(&mut self) -> Result<bool, Error> {
        let x = self.0.input(0)?;
        let factor = self
            .0
            .scalar_like("scale", self.float("scale").unwrap_or(1.0), x)?;
        self.last(Op::Mul, vec![Some(x), Some(factor)], Attributes::new())
    }

    /// `alpha * f(beta * x)`.
    fn around(&mut self, op: Op) -> Result<bool, Error> {
        let (Some(alpha), Some(beta)) = (self.float("alpha"), self.float("beta")) else {
            return Ok(false);
        };
        let x = self.0.input(0)?;
        let inside = self.scaled(x, beta, "inside")?;
        let y = self.step(op, &[inside], "inner")?;
        let alpha = self.0.scalar_like("alpha", alpha, y)?;
        self.last(Op::Mul, vec![Some(y), Some(alpha)], Attributes::new())
    }

    /// Images `[n, c, h, w]` scaled, with a bias per channel.
    fn image(&mut self) -> Result<bool, Error> {
        let bias = self.floats("bias");
        if bias.is_empty() {
            return Ok(false);
        }
        let x = self.0.input(0)?;
        let scaled = self.scaled(x, self.float("scale").unwrap_or(1.0), "scaled")?;
        let literal = Literal {
            shape: vec![bias.len(), 1, 1],
            ..Literal::f32s(&bias)
        };
        let bias = self.0.constant("bias", &literal);
        let bias = self.step(Op::CastLike, &[bias, scaled], "bias.like")?;
        self.last(Op::Add, vec![Some(scaled), Some(bias)], Attributes::new())
    }

    /// Images `[n, c, h, w]` without a border of left, top, right and bottom; or of one size from left and top on.
    fn crop(&mut self) -> Result<bool, Error> {
        let (border, size) = (self.ints("border"), self.ints("scale"));
        let &[left, top, right, bottom] = border.as_slice() else {
            return Ok(false);
        };
        if border.iter().any(|&side| side < 0) {
            return Ok(false);
        }
        let end = |cut: i64| if cut == 0 { i64::MAX } else { -cut };
        let ends = match size[..] {
            [] => [end(bottom), end(right)],
            [height, width] => [top + height, left + width],
            _ => return Ok(false),
        };
        let x = self.0.input(0)?;
        let mut inputs = vec![Some(x)];
        for (role, values) in [("starts", [top, left]), ("ends", ends), ("axes", [2, 3])] {
            inputs.push(Some(self.0.constant(role, &Literal::i64s(&values))));
        }
        self.last(Op::Slice, inputs, Attributes::new())
    }
}
