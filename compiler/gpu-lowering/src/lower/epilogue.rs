//! What ends a product or a convolution: bias, scales and the element-wise nodes behind, as one expression.
//!
//! Invariant: operand 0 is the sum; what the anchor itself adds stands before what its chain adds.

use polychip_gpu_kernels::{Broadcast, Epilogue, EpilogueOperand, Expression};
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage, TensorIndex};

use super::builder::Lowering;
use super::elementwise::{self, Chain};
use super::encoding;
use super::values::{ValueId, is_float};

/// How an output is seen as rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sheet {
    /// Rows are pixels, columns channels; memory is channels last.
    Image,
    /// Columns are the last axis.
    Matrix,
}

impl Sheet {
    pub(super) fn layout(self) -> Layout {
        match self {
            Sheet::Image => Layout::ChannelsLast,
            Sheet::Matrix => Layout::RowMajor,
        }
    }

    /// Where the elements of an operand stand to those of an output of shape `out`.
    pub(super) fn broadcast(self, dims: &[usize], out: &[usize]) -> Option<Broadcast> {
        if dims.iter().product::<usize>() == 1 {
            return Some(Broadcast::Single);
        }
        if dims.len() > out.len() {
            return None;
        }
        let mut aligned = vec![1; out.len() - dims.len()];
        aligned.extend_from_slice(dims);
        let axis = match self {
            Sheet::Image => 1,
            Sheet::Matrix => out.len() - 1,
        };
        let others = |f: &dyn Fn(usize) -> bool| (0..out.len()).filter(|&i| i != axis).all(f);
        if aligned == out {
            Some(Broadcast::Same)
        } else if aligned.get(axis) == out.get(axis) && others(&|i| aligned[i] == 1) {
            Some(Broadcast::Column)
        } else if aligned.get(axis) == Some(&1) && others(&|i| aligned[i] == out[i]) {
            Some(Broadcast::Row)
        } else {
            None
        }
    }
}

/// Whether a tensor can be read by the end of such an anchor.
pub(super) fn admits(
    l: &Lowering<'_>,
    tensor: TensorIndex,
    sheet: Sheet,
    dims: &[usize],
    out: &[usize],
) -> bool {
    is_float(l.part.real(tensor)) && sheet.broadcast(dims, out).is_some()
}

/// An end in the making.
pub(super) struct EpilogueBuilder {
    expression: Expression,
    operands: Vec<EpilogueOperand>,
    values: Vec<ValueId>,
}

impl EpilogueBuilder {
    /// The sum itself.
    pub(super) fn new() -> EpilogueBuilder {
        EpilogueBuilder {
            expression: Expression::Operand(0),
            operands: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Changes the expression so far.
    pub(super) fn change(&mut self, change: impl FnOnce(Expression) -> Expression) {
        let so_far = std::mem::replace(&mut self.expression, Expression::Operand(0));
        self.expression = change(so_far);
    }

    /// Adds a value to the operands; it is read as a float.
    pub(super) fn operand(&mut self, l: &Lowering<'_>, value: ValueId, broadcast: Broadcast) -> Expression {
        self.operands.push(EpilogueOperand {
            scalar: l.stored(value).scalar,
            broadcast,
            access: l.access(value),
        });
        self.values.push(value);
        Expression::Operand(self.values.len() as u32)
    }

    /// Adds a tensor of the anchor or its chain to the operands, and gives its real value.
    pub(super) fn tensor(
        &mut self,
        l: &mut Lowering<'_>,
        tensor: TensorIndex,
        sheet: Sheet,
        out: &[usize],
    ) -> Outcome<Expression> {
        if let Some(number) = elementwise::number(l, tensor) {
            return Ok(number);
        }
        let dims = l.dims(tensor)?;
        let broadcast = sheet
            .broadcast(dims, out)
            .ok_or_else(|| Refusal::shape(format!("{dims:?} does not stand beside {out:?}")))?;
        if !is_float(l.part.real(tensor)) {
            return Err(Refusal::dtype("an operand that is no float"));
        }
        let layout = if broadcast == Broadcast::Same && !Layout::is_same(out) {
            sheet.layout()
        } else {
            Layout::RowMajor
        };
        // integers with one scale are decoded where they are read
        let real = [Layout::RowMajor, Layout::ChannelsLast]
            .iter()
            .any(|&layout| l.forms[tensor].get(layout, Storage::Real).is_some());
        if let Some((scale, zero)) =
            encoding::single(l, tensor).filter(|_| !real && !l.part.is_constant(tensor))
        {
            let value = l.get(tensor, layout, Storage::Stored)?;
            let stored = self.operand(l, value, broadcast);
            return Ok(encoding::real(stored, scale, zero));
        }
        let value = l.get(tensor, layout, Storage::Real)?;
        Ok(self.operand(l, value, broadcast))
    }

    /// Puts the nodes of a group behind, and gives the epilogue, its operands and the place of the result.
    pub(super) fn finish(
        mut self,
        l: &mut Lowering<'_>,
        members: &[usize],
        sum: TensorIndex,
        output: TensorIndex,
        sheet: Sheet,
    ) -> Outcome<(Epilogue, Vec<ValueId>, ValueId)> {
        let part = l.part;
        let out = l.dims(output)?;
        if !is_float(part.real(output)) || l.dims(sum)? != out {
            return Err(Refusal::dtype("an end that gives no floats of the sum's shape"));
        }
        let nodes: Vec<&Node> = members.iter().map(|&index| &part.nodes[index]).collect();
        if !nodes.is_empty() {
            let Some(Chain { expression, operands }) = elementwise::chain(l, &nodes, Some(sum), output)?
            else {
                return Err(Refusal::op("a chain of other than element-wise nodes"));
            };
            let mut reads = vec![self.expression.clone()];
            for tensor in operands {
                reads.push(self.tensor(l, tensor, sheet, out)?);
            }
            self.expression = elementwise::rewrite(&expression, &|index| reads[index as usize].clone());
        }
        let layout = sheet.layout();
        let target = if let Some((scale, zero)) = encoding::single(l, output)
            && matches!(l.stored_scalar(output)?.bytes(), 1)
        {
            self.change(|real| encoding::steps(real, scale, zero));
            let (_, target) = l.destination(output, layout, Storage::Stored)?;
            l.define(output, layout, Storage::Stored, target)?;
            target
        } else {
            l.result(output, layout)?
        };
        let epilogue = Epilogue {
            expression: self.expression,
            operands: self.operands,
            output: l.stored(target).scalar,
            columns: None,
        };
        Ok((epilogue, self.values, target))
    }
}
