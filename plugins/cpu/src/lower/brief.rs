//! Values kept as bf16 where reduced precision is allowed: which they are, and the conversions at the borders.
//!
//! Invariants:
//! 1. Only plain f32 tensors are kept as bf16; ports, encodings and whatever the reference evaluates see f32.
//! 2. A family that knows nothing of bf16 asks for f32 and gets it: the conversion is made once, where it is asked for.
//! 3. An elementwise function of several tensors is computed in bf16 only where all of them are held so; constants
//!    keep their precision.
//! 4. Where more bits would show in the result and cost little to keep, a tensor stays f32 ([`Precision`]): behind the
//!    last product, and in the sums that are normalised over rows, which a whole encoder adds up into. So do products
//!    that are too small to gain ([`matmul::worth_bf16`]).
//!
//! Not here: the kernels, which take either element type by themselves.

use polychip_cpu_kernels::Unary;
use polychip_cpu_kernels::gemm::Elements;
use polychip_cpu_kernels::transpose::TransposePlan;
use polychip_ops::{DType, Op};
use polychip_sdk::{Layout, Result};

use super::{
    Form, Lowering, attention, bytes_of, channels_last, conv, elementwise, image, is_trivial, kernel_error,
    matmul,
};
use crate::part::{Node, Part, TensorIndex};
use crate::step::{Home, ValueId};

/// What reduced precision leaves alone.
pub(super) struct Precision {
    /// The tensor stays f32.
    wide: Vec<bool>,
    /// A product reads the tensor, as bf16.
    multiplied: Vec<bool>,
}

impl Precision {
    /// Looks through a part, or, where precision is not reduced, at nothing.
    pub(super) fn new(part: &Part, reduced: bool) -> Self {
        let nothing = || vec![false; part.tensors.len()];
        let (mut wide, mut multiplied, mut before) = (nothing(), nothing(), nothing());
        if !reduced {
            return Self { wide, multiplied };
        }
        // whoever reads what a node makes comes later
        for node in part.nodes.iter().rev() {
            let is_product = is_product(part, node);
            let leads = is_product || node.outputs.iter().flatten().any(|&t| before[t]);
            for t in node.reads() {
                before[t] |= leads;
                multiplied[t] |= is_product;
            }
            let terms = match node.op {
                Op::LayerNormalization | Op::RMSNormalization => 1,
                Op::Identity | Op::Reshape if node.output(0).is_some_and(|sum| wide[sum]) => 1,
                Op::Add | Op::Sub if node.output(0).is_some_and(|sum| wide[sum]) => 2,
                _ => 0,
            };
            for &term in node.inputs.iter().take(terms).flatten() {
                wide[term] = true;
            }
        }
        for &t in part.nodes.iter().flat_map(|node| &node.outputs).flatten() {
            wide[t] |= !before[t];
        }
        Self { wide, multiplied }
    }

    /// Whether a tensor stays f32.
    pub(super) fn is_wide(&self, tensor: TensorIndex) -> bool {
        self.wide[tensor]
    }

    /// Whether a tensor is wanted as f32 and as bf16.
    pub(super) fn is_both(&self, tensor: TensorIndex) -> bool {
        self.wide[tensor] && self.multiplied[tensor]
    }
}

/// Whether a node multiplies in bf16 where that is allowed.
fn is_product(part: &Part, node: &Node) -> bool {
    conv::covers(part, node)
        || matmul::covers(part, node) && matmul::worth_bf16(part, node)
        || attention::covers(part, node)
}

impl Lowering<'_> {
    /// Whether a tensor exists as bf16 and not, or not only, as f32.
    pub(super) fn is_brief(&self, tensor: TensorIndex) -> bool {
        let forms = &self.forms[tensor];
        forms.brief_rows.is_some()
            || forms.brief_channels.is_some()
            || forms.within.is_some_and(|within| within.brief)
    }

    /// Whether a tensor may be kept as bf16.
    pub(super) fn may_be_brief(&self, tensor: TensorIndex) -> bool {
        self.reduced && self.part.plain_f32(tensor) && !self.precision.is_wide(tensor)
    }

    /// The elements of a product that reads and writes these tensors.
    pub(super) fn elements(&self, tensors: &[TensorIndex]) -> Elements {
        if self.reduced && tensors.iter().all(|&t| self.part.plain_f32(t)) {
            Elements::Bf16
        } else {
            Elements::F32
        }
    }

    /// Whether a node that only moves `x`, or computes on it value by value, does so in bf16.
    pub(super) fn stays_brief(&self, x: TensorIndex, outputs: &[Option<TensorIndex>]) -> bool {
        self.is_brief(x) && outputs.iter().flatten().all(|&y| self.may_be_brief(y))
    }

    /// The tensor in a form, as bf16 where `brief`.
    pub(super) fn form_as(&mut self, tensor: TensorIndex, form: Form, brief: bool) -> Result<ValueId> {
        if brief {
            self.brief(tensor, form)
        } else {
            self.form(tensor, form)
        }
    }

    /// The tensor as bf16.
    pub(super) fn brief(&mut self, tensor: TensorIndex, form: Form) -> Result<ValueId> {
        if let Some(value) = *self.forms[tensor].at(form, true) {
            return Ok(value);
        }
        self.settle(tensor)?;
        if let Some(value) = *self.forms[tensor].at(form, true) {
            return Ok(value);
        }
        let dims = self.shape(tensor)?;
        let (other, shape) = match form {
            Form::Rows => (Form::Channels, dims.to_vec()),
            Form::Channels => (Form::Rows, channels_last(dims)),
        };
        let value = if let Some(wide) = *self.forms[tensor].at(form, false) {
            narrow(self, wide, shape)?
        } else if self.forms[tensor].at(other, true).is_some() || !self.part.tensors[tensor].is_constant() {
            // moved as bf16, which is half as much
            let from = match *self.forms[tensor].at(other, true) {
                Some(from) => from,
                None => match *self.forms[tensor].at(other, false) {
                    Some(wide) => {
                        let shape = self.value_shape(wide).to_vec();
                        let from = narrow(self, wide, shape)?;
                        *self.forms[tensor].at(other, true) = Some(from);
                        from
                    }
                    None => return Err(self.not_computed(tensor)),
                },
            };
            if is_trivial(dims) {
                self.view(from, shape)
            } else {
                let [n, c, spatial] = image(dims)?;
                let (name, plan) = match form {
                    Form::Rows => ("to row-major", TransposePlan::channels_first(n, c, spatial)),
                    Form::Channels => ("to channels last", TransposePlan::channels_last(n, c, spatial)),
                };
                let result = self.fresh(DType::BF16, shape)?;
                self.transpose(name, plan.map_err(kernel_error)?, from, result);
                result
            }
        } else {
            let wide = self.form(tensor, form)?;
            narrow(self, wide, shape)?
        };
        *self.forms[tensor].at(form, true) = Some(value);
        Ok(value)
    }

    /// The value in which a node computes a tensor, as bf16 where `brief`; a port's memory holds f32 only.
    pub(super) fn result_as(&mut self, tensor: TensorIndex, form: Form, brief: bool) -> Result<ValueId> {
        if !brief {
            return self.result(tensor, form);
        }
        let dims = self.shape(tensor)?;
        let shape = match form {
            Form::Rows => dims.to_vec(),
            Form::Channels => channels_last(dims),
        };
        let value = self.fresh(DType::BF16, shape)?;
        *self.forms[tensor].at(form, true) = Some(value);
        Ok(value)
    }

    /// As [`result_as`](Self::result_as) for a kernel that may write f32 of bf16: it does at a port, and what is to stay
    /// f32.
    pub(super) fn result_near(&mut self, tensor: TensorIndex, form: Form, brief: bool) -> Result<ValueId> {
        let layout = match form {
            Form::Rows => Layout::RowMajor,
            Form::Channels => Layout::ChannelsLast,
        };
        let at_port = self.wishes[tensor].is_some_and(|port| self.layouts[port] == layout);
        self.result_as(tensor, form, brief && !at_port && self.may_be_brief(tensor))
    }

    /// States that a value is a tensor in a form.
    pub(super) fn give(&mut self, tensor: TensorIndex, form: Form, value: ValueId, brief: bool) {
        *self.forms[tensor].at(form, brief) = Some(value);
    }
}

/// Adds a step that rounds to bf16.
fn narrow(l: &mut Lowering<'_>, wide: ValueId, shape: Vec<usize>) -> Result<ValueId> {
    let result = l.fresh(DType::BF16, shape)?;
    elementwise::apply(l, Unary::Identity, wide, result);
    Ok(result)
}

/// Adds a step that makes f32 of bf16, in the memory of the tensor's output port where that wants this form.
pub(super) fn widen(l: &mut Lowering<'_>, tensor: TensorIndex, form: Form) -> Result<ValueId> {
    let from = l.brief(tensor, form)?;
    let shape = l.value_shape(from).to_vec();
    let layout = match form {
        Form::Rows => Layout::RowMajor,
        Form::Channels => Layout::ChannelsLast,
    };
    let result = match l.wishes[tensor] {
        Some(port) if l.layouts[port] == layout => {
            let bytes = bytes_of(DType::F32, &shape)?;
            let storage = l.storage(bytes, Home::Port(port));
            l.value(DType::F32, shape, bytes, storage)
        }
        _ => l.fresh(DType::F32, shape)?,
    };
    elementwise::apply(l, Unary::Identity, from, result);
    Ok(result)
}
