//! Outputs whose elements are at regular strides in the input: slices, expansions, repetitions,
//! transposes.

use super::{Slice, Tile, map};
use crate::{Error, Generate, Kernel, Limits, Number, Result, Sample, Scalar, Values, WgslBuilder, element};

/// Output element `c` is input element `offset + sum(c[i] * strides[i])`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Strided {
    pub(super) scalar: Scalar,
    pub(super) shape: Vec<u64>,
    pub(super) strides: Vec<i64>,
    pub(super) offset: u64,
    /// Elements of the input.
    pub(super) input: u64,
}

impl Strided {
    /// The same with axes of size 1 gone and axes behind each other as one.
    pub(super) fn merged(&self) -> Strided {
        let (mut shape, mut strides): (Vec<u64>, Vec<i64>) = (Vec::new(), Vec::new());
        for (&dim, &stride) in self.shape.iter().zip(&self.strides) {
            if dim == 1 {
                continue;
            }
            match (shape.last_mut(), strides.last_mut()) {
                (Some(outer), Some(last)) if *last == stride * dim as i64 => {
                    *outer *= dim;
                    *last = stride;
                }
                _ => {
                    shape.push(dim);
                    strides.push(stride);
                }
            }
        }
        if shape.is_empty() {
            shape.push(1);
            strides.push(1);
        }
        Strided {
            scalar: self.scalar,
            shape,
            strides,
            offset: self.offset,
            input: self.input,
        }
    }

    pub(super) fn kernel(&self, op: &str, limits: &Limits) -> Result<Kernel> {
        element::count(op, &self.shape)?;
        element::count(op, &[self.input])?;
        let mut merged = self.merged();
        let last = merged.shape.len() - 1;
        let mut runs = vec![self.offset, self.input];
        if merged.strides[last] == 1 {
            runs.push(merged.shape[last]);
            runs.extend(merged.strides[..last].iter().map(|stride| stride.unsigned_abs()));
        } else {
            runs = vec![1];
        }
        let unit = map::unit(self.scalar, &runs);
        let lump = unit / self.scalar.bytes();
        if lump > 1 {
            merged.shape[last] /= lump;
            merged.offset /= lump;
            for stride in &mut merged.strides[..last] {
                *stride /= lump as i64;
            }
        }
        let mut text = WgslBuilder::new();
        map::source(&mut text, 0, unit, self.input / lump);
        let mut terms = vec![format!("{}u", merged.offset)];
        for (axis, stride) in merged
            .strides
            .iter()
            .enumerate()
            .filter(|(_, stride)| **stride != 0)
        {
            // two's complement: a place that exists wraps back to itself
            terms.push(format!("c{axis} * {}u", *stride as u32));
        }
        let fetch = format!("    return take0({});", terms.join(" + "));
        map::kernel(text, op.to_owned(), unit, &merged.shape, &fetch, limits)
    }

    pub(super) fn sample(&self) -> Sample {
        let input = Values::some(self.scalar, 1, self.input as usize);
        let total = element::size(&self.shape);
        let places: Vec<Option<usize>> = (0..total)
            .map(|flat| {
                let places = element::unravel(flat, &self.shape);
                let at = places.iter().zip(&self.strides);
                Some(at.fold(self.offset as i64, |at, (&place, stride)| {
                    at + place as i64 * stride
                }) as usize)
            })
            .collect();
        let output = map::pick(self.scalar, &input, &places, Number::F32(0.0));
        Sample {
            before: vec![input, Values::zeros(self.scalar, total)],
            after: vec![None, Some(output)],
            tolerance: 0.0,
        }
    }
}

impl Slice {
    fn strided(&self) -> Result<Strided> {
        let rank = self.shape.len();
        let mut slice = Strided {
            scalar: self.scalar,
            shape: self.counts.clone(),
            strides: Vec::with_capacity(rank),
            offset: 0,
            input: element::count("slice", &self.shape)?,
        };
        if [self.starts.len(), self.steps.len(), self.counts.len()] != [rank; 3] {
            return Err(Error::new(format!("slice: {self:?} is not of one rank")));
        }
        for (axis, stride) in element::strides(&self.shape).into_iter().enumerate() {
            let (start, step, count) = (self.starts[axis], self.steps[axis], self.counts[axis]);
            let end = i128::from(start) + i128::from(step) * (i128::from(count) - 1);
            let inside = |at: i128| (0..i128::from(self.shape[axis])).contains(&at);
            if step == 0 || count == 0 || !inside(start.into()) || !inside(end) {
                return Err(Error::new(format!(
                    "slice: axis {axis} of size {} has no {count} elements from {start} by {step}",
                    self.shape[axis]
                )));
            }
            slice.strides.push(step * stride as i64);
            slice.offset += start * stride;
        }
        Ok(slice)
    }
}

impl Generate for Slice {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.strided()?.kernel("slice", limits)
    }

    fn sample(&self) -> Sample {
        self.strided()
            .map_or_else(|_| Sample::empty(), |strided| strided.sample())
    }
}

impl Tile {
    fn strided(&self) -> Result<Strided> {
        let fits = self.shape.len() == self.to.len()
            && self
                .shape
                .iter()
                .zip(&self.to)
                .all(|(&from, &to)| from > 0 && to > 0 && to.is_multiple_of(from));
        if !fits {
            return Err(Error::new(format!(
                "tile: {:?} does not repeat to {:?}",
                self.shape, self.to
            )));
        }
        let mut tile = Strided {
            scalar: self.scalar,
            shape: Vec::new(),
            strides: Vec::new(),
            offset: 0,
            input: element::count("tile", &self.shape)?,
        };
        for ((&from, &to), stride) in self.shape.iter().zip(&self.to).zip(element::strides(&self.shape)) {
            tile.shape.extend([to / from, from]);
            tile.strides.extend([0, stride as i64]);
        }
        Ok(tile)
    }
}

impl Generate for Tile {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.strided()?.kernel("tile", limits)
    }

    fn sample(&self) -> Sample {
        self.strided()
            .map_or_else(|_| Sample::empty(), |strided| strided.sample())
    }
}
