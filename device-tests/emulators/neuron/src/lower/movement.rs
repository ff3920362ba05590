//! Operations that move elements, and those between types.

use polychip_emulator_chip::program::Id;
use polychip_ops::{Attr, Attributes, DType, Literal, Op};
use polychip_sys::neuron::bindings as sys;

use super::{Lower, Outcome, from_front, is_float, is_quantised};

impl Lower<'_> {
    /// Refuses truth values: the library moves none.
    fn movable(&self) -> Outcome<()> {
        match self.operand(0)?.ty {
            sys::NEURON_TENSOR_BOOL8 => Err("truth values are not moved".to_owned()),
            _ => self.alike(0),
        }
    }

    pub(super) fn reshape(&mut self) -> Outcome<()> {
        self.movable()?;
        let wanted = self.out().shape();
        if self.shape(0)?.iter().product::<usize>() != wanted.iter().product::<usize>() {
            return Err(format!("{:?} as {wanted:?}", self.shape(0)?));
        }
        let list: Vec<i64> = wanted.iter().map(|&extent| extent as i64).collect();
        let (from, list) = (self.value(0)?, self.known(&list)?);
        let result = self.step(Op::Reshape, Attributes::new(), &[from, list]);
        self.give(result, 0)
    }

    pub(super) fn transpose(&mut self) -> Outcome<()> {
        self.movable()?;
        let shape = self.shape(0)?;
        let perm = match self.inputs.len() {
            1 => (0..shape.len()).rev().map(|axis| axis as i64).collect(),
            _ => self.list(1)?,
        };
        let places =
            polychip_ops::axis::normalise_all(&perm, shape.len()).filter(|perm| perm.len() == shape.len());
        let perm = places.ok_or_else(|| format!("permutation {perm:?} of {shape:?}"))?;
        let wanted: Vec<usize> = perm.iter().map(|&axis| shape[axis]).collect();
        self.fits(&wanted)?;
        let from = self.value(0)?;
        let result = self.builder.transpose(from, &perm);
        self.give(result, 0)
    }

    pub(super) fn concat(&mut self) -> Outcome<()> {
        let last = self.inputs.len().checked_sub(1).ok_or("nothing to join")?;
        let rank = self.out().dims.len();
        let axis = from_front(self.int(last)?, rank)?;
        let mut wanted = self.out().shape();
        wanted[axis] = 0;
        let mut sides: Vec<Id> = Vec::new();
        for place in 0..last {
            if self.operand(place)?.ty != self.out().ty || self.operand(place)?.ty == sys::NEURON_TENSOR_BOOL8
            {
                return Err("pieces of other types than the whole, or truth values".to_owned());
            }
            let shape = self.shape(place)?;
            if shape.len() != rank || (0..rank).any(|at| at != axis && shape[at] != wanted[at]) {
                return Err(format!("a piece of {shape:?} in {:?}", self.out().shape()));
            }
            wanted[axis] += shape[axis];
            sides.push(self.value(place)?);
        }
        self.fits(&wanted)?;
        let attributes = Attributes::new().with_int(Attr::Axis, axis as i64);
        let result = self.step(Op::Concat, attributes, &sides);
        self.give(result, 0)
    }

    pub(super) fn pad(&mut self) -> Outcome<()> {
        self.movable()?;
        let shape = self.shape(0)?;
        let pads = self.list(1)?;
        if pads.len() != 2 * shape.len() || pads.iter().any(|&pad| pad < 0) {
            return Err(format!("pads {pads:?} of {shape:?}"));
        }
        let wanted: Vec<usize> = shape
            .iter()
            .enumerate()
            .map(|(axis, &extent)| extent + (pads[2 * axis] + pads[2 * axis + 1]) as usize)
            .collect();
        self.fits(&wanted)?;
        let operand = self.operand(0)?;
        let (ty, scale, zero) = (operand.ty, operand.scale, operand.zero);
        let value = match (self.inputs.len(), ty) {
            (2, sys::NEURON_TENSOR_INT32) => Literal::from_ints(DType::I32, vec![], &[0]),
            (2, _) => Some(Literal::scalar_f32(0.0)),
            (_, sys::NEURON_TENSOR_INT32) => Literal::from_ints(DType::I32, vec![], &[self.int(2)?]),
            (_, _) if is_float(operand) => Some(Literal::scalar_f32(self.real(2)?)),
            _ => Some(Literal::scalar_f32(
                (self.int(2)? - i64::from(zero)) as f32 * scale,
            )),
        };
        let value = self.builder.literal(&value.ok_or("no such value")?)?;
        let (before, behind): (Vec<i64>, Vec<i64>) =
            pads.as_chunks::<2>().0.iter().map(|&[a, b]| (a, b)).unzip();
        let list = self.known(&[before, behind].concat())?;
        let from = self.value(0)?;
        let result = self.step(Op::Pad, Attributes::new(), &[from, list, value]);
        self.give(result, 0)
    }

    fn cut(&mut self, begin: &[i64], end: &[i64], steps: &[i64]) -> Outcome<()> {
        let axes: Vec<i64> = (0..begin.len() as i64).collect();
        let from = self.value(0)?;
        let mut inputs = vec![from];
        for list in [begin, end, &axes, steps] {
            inputs.push(self.known(list)?);
        }
        let result = self.step(Op::Slice, Attributes::new(), &inputs);
        self.give(result, 0)
    }

    pub(super) fn slice(&mut self) -> Outcome<()> {
        self.movable()?;
        let (shape, begin, size) = (self.shape(0)?, self.list(1)?, self.list(2)?);
        if begin.len() != shape.len() || size.len() != shape.len() {
            return Err(format!("a box of {begin:?}, {size:?} in {shape:?}"));
        }
        let mut end = Vec::new();
        for (axis, &extent) in shape.iter().enumerate() {
            let extent = extent as i64;
            let stop = if size[axis] == -1 {
                extent
            } else {
                begin[axis] + size[axis]
            };
            if begin[axis] < 0 || stop > extent || stop <= begin[axis] {
                return Err(format!("a box of {begin:?}, {size:?} in {shape:?}"));
            }
            end.push(stop);
        }
        let wanted: Vec<usize> = begin
            .iter()
            .zip(&end)
            .map(|(begin, end)| (end - begin) as usize)
            .collect();
        self.fits(&wanted)?;
        self.cut(&begin, &end, &vec![1; shape.len()])
    }

    pub(super) fn strided_slice(&mut self) -> Outcome<()> {
        self.movable()?;
        let shape = self.shape(0)?;
        let (mut begin, mut end, steps) = (self.list(1)?, self.list(2)?, self.list(3)?);
        let masks = [self.int(4)?, self.int(5)?, self.int(6)?];
        if [&begin, &end, &steps]
            .iter()
            .any(|list| list.len() != shape.len())
            || steps.iter().any(|&step| step < 1)
        {
            return Err(format!("{begin:?} to {end:?} by {steps:?} of {shape:?}"));
        }
        let mut wanted = Vec::new();
        for (axis, &extent) in shape.iter().enumerate() {
            let extent = extent as i64;
            let masked = |mask: i64| mask >> axis & 1 == 1;
            let clamp = |at: i64| (if at < 0 { at + extent } else { at }).clamp(0, extent);
            begin[axis] = if masked(masks[0]) { 0 } else { clamp(begin[axis]) };
            end[axis] = if masked(masks[1]) {
                extent
            } else {
                clamp(end[axis])
            };
            if masked(masks[2]) {
                end[axis] = begin[axis] + 1;
            } else {
                wanted.push(
                    (end[axis] - begin[axis]).max(0).div_euclid(steps[axis]) as usize
                        + usize::from((end[axis] - begin[axis]).rem_euclid(steps[axis]) != 0),
                );
            }
        }
        self.fits(if wanted.is_empty() { &[1] } else { &wanted })?;
        self.cut(&begin, &end, &steps)
    }

    pub(super) fn split(&mut self) -> Outcome<()> {
        self.movable()?;
        let shape = self.shape(0)?;
        let (axis, pieces) = (from_front(self.int(1)?, shape.len())?, self.size(2)?);
        if pieces == 0 || pieces != self.outputs.len() || !shape[axis].is_multiple_of(pieces) {
            return Err(format!("{pieces} pieces of {shape:?}"));
        }
        let mut wanted = shape.clone();
        wanted[axis] /= pieces;
        self.fits(&wanted)?;
        let from = self.value(0)?;
        let list = self.known(&vec![wanted[axis] as i64; pieces])?;
        let attributes = Attributes::new().with_int(Attr::Axis, axis as i64);
        let outs: Vec<Id> = (0..pieces).map(|_| self.builder.between()).collect();
        self.builder
            .step_to(Op::Split, attributes, &[Some(from), Some(list)], &outs);
        for (place, out) in outs.into_iter().enumerate() {
            self.give(out, place)?;
        }
        Ok(())
    }

    pub(super) fn tile(&mut self) -> Outcome<()> {
        self.movable()?;
        let (shape, times) = (self.shape(0)?, self.list(1)?);
        if times.len() != shape.len() || times.iter().any(|&times| times < 1) {
            return Err(format!("{times:?} times {shape:?}"));
        }
        let wanted: Vec<usize> = shape
            .iter()
            .zip(&times)
            .map(|(&extent, &times)| extent * times as usize)
            .collect();
        self.fits(&wanted)?;
        let (from, list) = (self.value(0)?, self.known(&times)?);
        let result = self.step(Op::Tile, Attributes::new(), &[from, list]);
        self.give(result, 0)
    }

    pub(super) fn gather(&mut self) -> Outcome<()> {
        self.movable()?;
        let shape = self.shape(0)?;
        let axis = from_front(self.int(1)?, shape.len())?;
        if self.operand(2)?.ty != sys::NEURON_TENSOR_INT32 {
            return Err("indices that are no whole numbers".to_owned());
        }
        if let Ok(indices) = self.list(2)
            && indices
                .iter()
                .any(|&index| index < 0 || index as usize >= shape[axis])
        {
            return Err(format!("indices {indices:?} of an axis of {}", shape[axis]));
        }
        let wanted = [&shape[..axis], &self.shape(2)?, &shape[axis + 1..]].concat();
        self.fits(&wanted)?;
        let (from, indices) = (self.value(0)?, self.value(2)?);
        let attributes = Attributes::new().with_int(Attr::Axis, axis as i64);
        let result = self.step(Op::Gather, attributes, &[from, indices]);
        self.give(result, 0)
    }

    pub(super) fn convert(&mut self, code: u32) -> Outcome<()> {
        self.fits(&self.shape(0)?)?;
        let (from, to) = (self.operand(0)?, self.out());
        let plain = |ty| {
            matches!(
                ty,
                sys::NEURON_TENSOR_FLOAT32 | sys::NEURON_TENSOR_FLOAT16 | sys::NEURON_TENSOR_INT32
            )
        };
        let fits = match code {
            sys::NEURON_QUANTIZE => is_float(from) && is_quantised(to),
            // 16-bit floats too: so constants of a model are stored (seen)
            sys::NEURON_DEQUANTIZE => {
                let stored = [
                    sys::NEURON_TENSOR_FLOAT16,
                    sys::NEURON_TENSOR_QUANT8_SYMM,
                    sys::NEURON_TENSOR_QUANT8_SYMM_PER_CHANNEL,
                ];
                is_float(to) && (is_quantised(from) || stored.contains(&from.ty))
            }
            _ => plain(from.ty) && plain(to.ty),
        };
        if !fits {
            return Err(format!("type {} to {}", from.ty, to.ty));
        }
        let from = self.value(0)?;
        self.give(from, 0)
    }

    pub(super) fn select(&mut self) -> Outcome<()> {
        let shape = self.out().shape();
        for place in 0..3 {
            let operand = self.operand(place)?;
            let ty = if place == 0 {
                sys::NEURON_TENSOR_BOOL8
            } else {
                self.out().ty
            };
            if operand.shape() != shape || operand.ty != ty || ty != sys::NEURON_TENSOR_BOOL8 && place == 0 {
                return Err("operands of other shapes or types".to_owned());
            }
        }
        let inputs = [self.value(0)?, self.value(1)?, self.value(2)?];
        let result = self.step(Op::Where, Attributes::new(), &inputs);
        self.give(result, 0)
    }
}
