//! Quantised ops that ONNX has no counterpart of, between DequantizeLinear and QuantizeLinear; channels that come last.
//!
//! Source: ContribOperators.md and ONNX Runtime 1.32's answers.
//!
//! Invariant: codes differ from ONNX Runtime's by one step at most; its tables round twice.

use polychip_ops::{Attr, Attributes, DType, Op};

use crate::onnx::convert::foreign::Foreign;
use crate::{Error, TensorId};

impl Foreign<'_, '_> {
    pub(super) fn quantised_softmax(&mut self) -> Result<bool, Error> {
        if !self.has(&[0, 1, 3]) {
            return Ok(false);
        }
        let x = self.dequantised([0, 1, 2], None, "x")?;
        let axis = self.int("axis").unwrap_or(-1);
        let flat = self.int("opset").unwrap_or(13) < 13;
        let real = if flat {
            // all dimensions from the axis on
            let shape = self.with(Op::Shape, &[x], Attributes::new(), "shape")?;
            let along = Attributes::new().with_int(Attr::Axis, axis);
            let matrix = self.with(Op::Flatten, &[x], along, "matrix")?;
            let last = Attributes::new().with_int(Attr::Axis, -1);
            let rows = self.with(Op::Softmax, &[matrix], last, "rows")?;
            self.step(Op::Reshape, &[rows, shape], "real")?
        } else {
            let along = Attributes::new().with_int(Attr::Axis, axis);
            self.with(Op::Softmax, &[x], along, "real")?
        };
        self.quantised(real, 3, 4, 0)
    }

    pub(super) fn quantised_mean(&mut self) -> Result<bool, Error> {
        if !self.has(&[0, 1, 3]) {
            return Ok(false);
        }
        let x = self.dequantised([0, 1, 2], None, "x")?;
        let keep = self.int("keepdims").unwrap_or(1) != 0;
        let real = match self.ints("axes")[..] {
            [] => {
                let keep = Attributes::new().with_int(Attr::Keepdims, keep.into());
                self.with(Op::ReduceMean, &[x], keep, "real")?
            }
            ref axes => self.reduced(Op::ReduceMean, x, axes, keep, "real")?,
        };
        self.quantised(real, 3, 4, 0)
    }

    pub(super) fn quantised_where(&mut self) -> Result<bool, Error> {
        if !self.has(&[0, 1, 2, 4, 5, 7]) {
            return Ok(false);
        }
        let x = self.dequantised([1, 2, 3], None, "x")?;
        let y = self.dequantised([4, 5, 6], None, "y")?;
        let real = self.step(Op::Where, &[self.0.input(0)?, x, y], "real")?;
        self.quantised(real, 7, 8, 1)
    }

    pub(super) fn quantised_conv(&mut self) -> Result<bool, Error> {
        let Some((x, rank)) = self.input(0).and_then(|x| Some((x, self.rank(x)?))) else {
            return Ok(false);
        };
        let attributes = self.kept(super::CONVOLUTION);
        let mut inputs = self.0.node.inputs.clone();
        if self.int("channels_last").unwrap_or(0) == 0 {
            return self.last(Op::QLinearConv, inputs, attributes);
        }
        let Some(x) = self.channels_first(x, "x.first")? else {
            return Ok(false);
        };
        inputs[0] = Some(x);
        let y = self.node(Op::QLinearConv, inputs, "product", attributes)?;
        self.last_channels_last(y, rank)
    }

    /// Codes as whole numbers above their zero point.
    fn centred(&mut self, codes: usize, zero: Option<usize>, role: &str) -> Result<TensorId, Error> {
        let codes = self.as_type(self.0.input(codes)?, DType::I32, &format!("{role}.codes"))?;
        match zero.and_then(|zero| self.input(zero)) {
            None => Ok(codes),
            Some(zero) => {
                let zero = self.as_type(zero, DType::I32, &format!("{role}.zero"))?;
                self.step(Op::Sub, &[codes, zero], role)
            }
        }
    }

    pub(super) fn whole_product(&mut self) -> Result<bool, Error> {
        if !self.has(&[0, 2]) {
            return Ok(false);
        }
        let a = self.centred(0, Some(1), "a")?;
        let b = self.centred(2, Some(3), "b")?;
        self.last(Op::Mul, vec![Some(a), Some(b)], Attributes::new())
    }

    pub(super) fn whole_matmul(&mut self) -> Result<bool, Error> {
        let (Some(a), Some(b)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        let to = if self.dtype(a) == Some(DType::U16) && self.dtype(b) == Some(DType::U16) {
            DType::U32
        } else {
            DType::I32
        };
        let a = self.as_type(a, to, "a")?;
        let b = self.as_type(b, to, "b")?;
        self.last(Op::MatMul, vec![Some(a), Some(b)], Attributes::new())
    }

    pub(super) fn whole_sum(&mut self) -> Result<bool, Error> {
        if !self.has(&[0]) {
            return Ok(false);
        }
        let to = match self.dtype(self.0.input(0)?) {
            Some(DType::U8) => DType::U32,
            Some(DType::I8) => DType::I32,
            _ => return Ok(false),
        };
        let x = self.as_type(self.0.input(0)?, to, "wide")?;
        let axes = self.list(&self.ints("axes"), "axes");
        let keep = Attributes::new().with_int(Attr::Keepdims, self.int("keepdims").unwrap_or(1));
        self.last(Op::ReduceSum, vec![Some(x), Some(axes)], keep)
    }
}
