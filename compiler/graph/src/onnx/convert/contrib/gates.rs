//! Products with gates, and what else ONNX Runtime fuses around them.
//!
//! Source: ContribOperators.md and ONNX Runtime 1.32's answers; what has no kernel for the CPU there by its description.

use polychip_ops::{Attr, Attributes, DType, Op};

use crate::onnx::convert::foreign::Foreign;
use crate::{Error, TensorId};

impl Foreign<'_, '_> {
    /// `gate * sigmoid(alpha * gate) * (up + beta)`, both within a limit; both in one tensor, where there is one.
    pub(super) fn swiglu(&mut self) -> Result<bool, Error> {
        let Some(gate) = self.input(0) else {
            return Ok(false);
        };
        let (gate, up) = match self.input(1) {
            Some(up) => (gate, up),
            None => {
                let halves = Attributes::new()
                    .with_int(Attr::Axis, -1)
                    .with_int(Attr::NumOutputs, 2);
                let parts = self.several(Op::Split, vec![Some(gate)], halves, &["gate.half", "up.half"])?;
                (parts[0], parts[1])
            }
        };
        let limit = self.float("limit").filter(|&limit| limit > 0.0);
        let y = self.gated(gate, up, limit)?;
        self.last(Op::Identity, vec![Some(y)], Attributes::new())
    }

    /// `x + y * gate`.
    pub(super) fn gated_add(&mut self) -> Result<bool, Error> {
        // a projection of the gate rounds to bf16 at each step
        if !self.has(&[0, 1, 2]) || self.input(3).is_some() {
            return Ok(false);
        }
        let product = self.step(Op::Mul, &[self.0.input(1)?, self.0.input(2)?], "product")?;
        self.last(Op::Add, vec![self.input(0), Some(product)], Attributes::new())
    }

    /// Normalised groups of the last axis, each as long as the scale, times a function of a gate.
    pub(super) fn gated_norm(&mut self) -> Result<bool, Error> {
        let (Some(x), Some(scale), Some(gate)) = (self.input(0), self.input(1), self.input(2)) else {
            return Ok(false);
        };
        let silu = match self.text("activation").as_deref() {
            None | Some("silu" | "swish") => true,
            Some("sigmoid") => false,
            _ => return Ok(false),
        };
        let (Some(rank), Some(width)) = (self.rank(x), self.size(scale, 0)) else {
            return Ok(false);
        };
        let mut shape = vec![0; rank - 1];
        shape.extend([-1, width]);
        let wide = self.as_type(x, DType::F32, "x.wide")?;
        let scale = self.as_type(scale, DType::F32, "scale.wide")?;
        let gate = self.as_type(gate, DType::F32, "gate.wide")?;
        let groups = self.reshaped(wide, &shape, "groups")?;
        let attributes = Attributes::new()
            .with_int(Attr::Axis, -1)
            .with_float(Attr::Epsilon, self.float("epsilon").unwrap_or(1e-5));
        let normal = self.with(
            Op::RMSNormalization,
            &[groups, scale],
            attributes,
            "normal.groups",
        )?;
        let mut shape = vec![0; rank - 1];
        shape.push(-1);
        let normal = self.reshaped(normal, &shape, "normal")?;
        let mut open = self.step(Op::Sigmoid, &[gate], "open")?;
        if silu {
            open = self.step(Op::Mul, &[gate, open], "open.silu")?;
        }
        let y = self.step(Op::Mul, &[normal, open], "gated")?;
        self.last(Op::CastLike, vec![Some(y), Some(x)], Attributes::new())
    }

    /// Query and key turned by the sines and cosines of angles; their halves are given turned.
    pub(super) fn turned_pair(&mut self) -> Result<bool, Error> {
        if !self.has(&[0, 1, 2, 3, 4]) {
            return Ok(false);
        }
        let angles = self.0.input(0)?;
        let mut parts = Vec::new();
        for (op, role) in [(Op::Cos, "cos"), (Op::Sin, "sin")] {
            let x = self.step(op, &[angles], &format!("{role}.wide"))?;
            let x = self.step(Op::CastLike, &[x, self.0.input(1)?], &format!("{role}.like"))?;
            parts.push(self.unsqueezed(x, &[1], role)?);
        }
        for (slot, role) in [(3, "k"), (1, "q")] {
            let (x, turned) = (self.0.input(slot)?, self.0.input(slot + 1)?);
            let x = self.step(Op::Mul, &[x, parts[0]], &format!("{role}.cos"))?;
            let turned = self.step(Op::Mul, &[turned, parts[1]], &format!("{role}.sin"))?;
            if slot == 3 {
                let k = self.step(Op::Add, &[x, turned], "k")?;
                self.give_output(1, k)?;
                continue;
            }
            return self.last(Op::Add, vec![Some(x), Some(turned)], Attributes::new());
        }
        Ok(false)
    }

    /// `gate * sigmoid(alpha * gate) * (linear + beta)`, both within a limit.
    pub(super) fn gated(
        &mut self,
        gate: TensorId,
        linear: TensorId,
        limit: Option<f32>,
    ) -> Result<TensorId, Error> {
        let (mut gate, mut linear) = (gate, linear);
        if let Some(limit) = limit {
            let high = self.number(limit, gate, "limit.high")?;
            let low = self.number(-limit, gate, "limit.low")?;
            gate = self.step(Op::Min, &[gate, high], "gate.limited")?;
            linear = self.step(Op::Clip, &[linear, low, high], "linear.limited")?;
        }
        let inside = self.scaled(gate, self.float("activation_alpha").unwrap_or(1.0), "gate.scaled")?;
        let open = self.step(Op::Sigmoid, &[inside], "gate.open")?;
        let gate = self.step(Op::Mul, &[gate, open], "gate.value")?;
        let beta = self.float("activation_beta").unwrap_or(0.0);
        if beta != 0.0 {
            linear = self.by(Op::Add, linear, beta, "linear.moved")?;
        }
        self.step(Op::Mul, &[gate, linear], "gated")
    }
}
