//! Tensors as 8-bit codes: which ones may be, and their forms.
//!
//! Invariants:
//! 1. A tensor with a [`Grid`] is rounded to its codes behind the node that computes it, and lives as codes; the f32
//!    values are made of them where a node wants those.
//! 2. Codes are unsigned. Signed bytes are flipped to them and back at ports and where a node wants the stored bytes.

use polychip_cpu_kernels::quantised::{self, Codes};
use polychip_cpu_kernels::transpose::TransposePlan;
use polychip_ops::DType;
use polychip_sdk::Result;

use super::{Form, Lowering, channels_last, image, is_trivial, kernel_error};
use crate::part::{EncodingKind, Part, TensorIndex};
use crate::step::ValueId;
use crate::work::Class;

/// One scale and one zero for 8-bit codes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Grid {
    /// The step.
    pub(super) scale: f32,
    /// The code of zero.
    pub(super) zero: u8,
}

impl Grid {
    /// A step of this grid in steps of another.
    pub(super) fn over(self, other: Grid) -> f32 {
        self.scale / other.scale
    }

    /// All codes.
    pub(super) fn codes(self) -> Codes {
        Codes::all(self.zero)
    }
}

/// The grid of a tensor of 8-bit codes that stand for f32, where it has one for all elements.
pub(super) fn grid(part: &Part, tensor: TensorIndex) -> Option<Grid> {
    let t = &part.tensors[tensor];
    let encoding = t.encoding.as_ref()?;
    let top = match t.dtype {
        DType::U8 => 0,
        DType::I8 => 128,
        _ => return None,
    };
    let zero = encoding.zero_points.first().copied().unwrap_or(0);
    let zero = u8::try_from(zero.checked_add(top)?).ok()?;
    let scale = *encoding.scales.first()?;
    let one = encoding.kind == EncodingKind::PerTensor && encoding.real_dtype == DType::F32;
    (one && scale.is_normal() && scale > 0.0 && t.dims.is_some()).then_some(Grid { scale, zero })
}

impl Lowering<'_> {
    /// Whether a tensor's codes exist channels last but not row-major.
    pub(super) fn has_channel_codes(&self, tensor: TensorIndex) -> bool {
        let [rows, channels] = self.forms[tensor].codes;
        channels.is_some() && rows.is_none()
    }

    /// Whether a tensor's codes or what they are made of exist channels last only.
    pub(super) fn code_form(&self, tensor: TensorIndex) -> Form {
        if self.has_channel_codes(tensor) || self.is_channels_only(tensor) {
            Form::Channels
        } else {
            Form::Rows
        }
    }

    /// A new value for the codes that a node computes.
    pub(super) fn code_result(&mut self, tensor: TensorIndex, form: Form) -> Result<ValueId> {
        let dims = self.shape(tensor)?;
        let shape = if form == Form::Channels {
            channels_last(dims)
        } else {
            dims.to_vec()
        };
        let value = self.fresh(DType::U8, shape)?;
        self.forms[tensor].codes[form as usize] = Some(value);
        Ok(value)
    }

    /// The codes of a tensor that has a grid.
    pub(super) fn codes(&mut self, tensor: TensorIndex, form: Form) -> Result<ValueId> {
        if let Some(value) = self.forms[tensor].codes[form as usize] {
            return Ok(value);
        }
        let dims = self.shape(tensor)?;
        let other = if form == Form::Rows {
            Form::Channels
        } else {
            Form::Rows
        };
        let value = if let Some(from) = self.forms[tensor].codes[other as usize] {
            let shape = if form == Form::Channels {
                channels_last(dims)
            } else {
                dims.to_vec()
            };
            if is_trivial(dims) {
                self.view(from, shape)
            } else {
                let [n, c, spatial] = image(dims)?;
                let (name, plan) = if form == Form::Rows {
                    ("codes to row-major", TransposePlan::channels_first(n, c, spatial))
                } else {
                    (
                        "codes to channels last",
                        TransposePlan::channels_last(n, c, spatial),
                    )
                };
                let result = self.fresh(DType::U8, shape)?;
                self.transpose(name, plan.map_err(kernel_error)?, from, result);
                result
            }
        } else if self.code_source(tensor) == Some(other) {
            self.codes(tensor, other)?;
            return self.codes(tensor, form);
        } else {
            self.first_codes(tensor, form)?
        };
        self.forms[tensor].codes[form as usize] = Some(value);
        Ok(value)
    }

    /// The form in which something exists that codes can be made of.
    fn code_source(&self, tensor: TensorIndex) -> Option<Form> {
        let forms = &self.forms[tensor];
        let rows = forms.stored.is_some() || forms.rows.is_some() || self.part.tensors[tensor].is_constant();
        match (rows, forms.channels.is_some()) {
            (true, _) => Some(Form::Rows),
            (false, true) => Some(Form::Channels),
            (false, false) => None,
        }
    }

    /// Codes made of stored bytes or of f32 values, which exist in this form.
    fn first_codes(&mut self, tensor: TensorIndex, form: Form) -> Result<ValueId> {
        let part = self.part;
        let t = &part.tensors[tensor];
        let grid = grid(part, tensor).ok_or_else(|| self.not_computed(tensor))?;
        if form == Form::Rows && (self.forms[tensor].stored.is_some() || t.constant.is_some()) {
            let stored = match self.forms[tensor].stored {
                Some(stored) => stored,
                None => self.constant(tensor)?,
            };
            if t.dtype == DType::U8 {
                return Ok(stored);
            }
            let result = self.code_result(tensor, form)?;
            self.flip(stored, result);
            return Ok(result);
        }
        let real = match form {
            Form::Rows => self.forms[tensor].rows,
            Form::Channels => self.forms[tensor].channels,
        };
        let real = real.ok_or_else(|| self.not_computed(tensor))?;
        let result = self.code_result(tensor, form)?;
        let isa = self.isa;
        self.step(
            "quantise",
            &[real],
            &[result],
            None,
            Box::new(move |o| {
                quantised::quantise(isa, o.pool, o.read(0), grid.scale, grid.codes(), o.write(0));
                Ok(())
            }),
        )
        .is(Class::Codes);
        Ok(result)
    }

    /// Adds a step between codes and signed bytes.
    pub(super) fn flip(&mut self, from: ValueId, to: ValueId) {
        self.step(
            "flip signs",
            &[from],
            &[to],
            None,
            Box::new(|o| {
                quantised::flip(o.pool, o.read(0), o.write(0));
                Ok(())
            }),
        )
        .is(Class::Codes);
    }

    /// The f32 values of a tensor whose codes exist or can be made in this form; nothing otherwise.
    pub(super) fn decoded_codes(&mut self, tensor: TensorIndex, form: Form) -> Result<Option<ValueId>> {
        let Some(grid) = grid(self.part, tensor) else {
            return Ok(None);
        };
        let exist =
            self.forms[tensor].codes.iter().any(Option::is_some) || self.forms[tensor].stored.is_some();
        if !exist {
            return Ok(None);
        }
        let codes = self.codes(tensor, form)?;
        let shape = self.value_shape(codes).to_vec();
        let result = self.fresh(DType::F32, shape)?;
        let isa = self.isa;
        self.step(
            "dequantise",
            &[codes],
            &[result],
            None,
            Box::new(move |o| {
                quantised::dequantise(isa, o.pool, o.read(0), grid.scale, grid.zero, o.write(0));
                Ok(())
            }),
        )
        .is(Class::Codes);
        Ok(Some(result))
    }

    /// Rounds what a node computed in f32 to codes, which take its place.
    pub(super) fn round_to_codes(&mut self, tensor: TensorIndex) -> Result<()> {
        if self.forms[tensor].codes.iter().all(Option::is_none) {
            if self.code_source(tensor).is_none() {
                return Ok(());
            }
            let form = if self.is_channels_only(tensor) {
                Form::Channels
            } else {
                Form::Rows
            };
            self.codes(tensor, form)?;
        }
        self.forms[tensor].rows = None;
        self.forms[tensor].channels = None;
        Ok(())
    }
}
