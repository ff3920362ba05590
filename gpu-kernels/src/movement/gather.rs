//! Gather ops.

use super::{Gather, GatherElements, GatherNd, map};
use crate::{Error, Generate, Kernel, Limits, Number, Result, Sample, Scalar, Values, WgslBuilder, element};

/// Refuses types that are not index types, and indexed axes without elements.
pub(super) fn check(op: &str, index: Scalar, dims: &[u64]) -> Result<()> {
    if !matches!(index, Scalar::I32 | Scalar::I64) {
        return Err(Error::new(format!("{op}: indices of {}", index.name())));
    }
    if dims.contains(&0) {
        return Err(Error::new(format!("{op}: an indexed axis is empty")));
    }
    Ok(())
}

impl Generate for Gather {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let dim = *self
            .shape
            .get(self.axis)
            .ok_or_else(|| Error::new(format!("gather: axis {} of {:?}", self.axis, self.shape)))?;
        check("gather", self.index, &[dim])?;
        let total = element::count("gather", &self.shape)?;
        let outer: u64 = self.shape[..self.axis].iter().product();
        let inner: u64 = self.shape[self.axis + 1..].iter().product();
        let unit = map::unit(self.scalar, &[inner]);
        let lump = unit / self.scalar.bytes();
        let inner = inner / lump;
        let mut text = WgslBuilder::new();
        map::source(&mut text, 0, unit, total / lump);
        map::indices(&mut text, self.index, self.indices, Some(dim));
        let fetch = format!("    return take0((c0 * {dim}u + index(c1)) * {inner}u + c2);");
        map::kernel(
            text,
            "gather".into(),
            unit,
            &[outer, self.indices, inner],
            &fetch,
            limits,
        )
    }

    fn sample(&self) -> Sample {
        let input = Values::some(self.scalar, 1, element::size(&self.shape));
        let dim = self.shape[self.axis];
        let indices = map::some_indices(self.index, 2, self.indices as usize, dim);
        let shape = [
            self.shape[..self.axis].iter().product(),
            self.indices,
            self.shape[self.axis + 1..].iter().product(),
        ];
        let places: Vec<Option<usize>> = (0..element::size(&shape))
            .map(|flat| {
                let mut at = element::unravel(flat, &shape);
                at[1] = map::place(&indices, self.index, at[1], dim);
                Some(element::ravel(&at, &[shape[0], dim, shape[2]]))
            })
            .collect();
        picked(self.scalar, input, indices, &places)
    }
}

impl Generate for GatherElements {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let fits = self.axis < self.shape.len()
            && self.indices.len() == self.shape.len()
            && (0..self.shape.len()).all(|i| i == self.axis || self.indices[i] <= self.shape[i]);
        if !fits {
            return Err(Error::new(format!(
                "gather elements: indices {:?} along axis {} of {:?}",
                self.indices, self.axis, self.shape
            )));
        }
        let dim = self.shape[self.axis];
        check("gather elements", self.index, &[dim])?;
        let count = element::count("gather elements", &self.indices)?;
        let unit = self.scalar.bytes();
        let mut text = WgslBuilder::new();
        map::source(
            &mut text,
            0,
            unit,
            element::count("gather elements", &self.shape)?,
        );
        map::indices(&mut text, self.index, count, Some(dim));
        let terms: Vec<String> = element::strides(&self.shape)
            .iter()
            .enumerate()
            .map(|(axis, stride)| match axis {
                _ if axis == self.axis => format!("index(i) * {stride}u"),
                _ => format!("c{axis} * {stride}u"),
            })
            .collect();
        let fetch = format!("    return take0({});", terms.join(" + "));
        map::kernel(text, "gatherelements".into(), unit, &self.indices, &fetch, limits)
    }

    fn sample(&self) -> Sample {
        let input = Values::some(self.scalar, 1, element::size(&self.shape));
        let count = element::size(&self.indices);
        let dim = self.shape[self.axis];
        let indices = map::some_indices(self.index, 2, count, dim);
        let places: Vec<Option<usize>> = (0..count)
            .map(|flat| {
                let mut at = element::unravel(flat, &self.indices);
                at[self.axis] = map::place(&indices, self.index, flat, dim);
                Some(element::ravel(&at, &self.shape))
            })
            .collect();
        picked(self.scalar, input, indices, &places)
    }
}

impl GatherNd {
    /// Tuples, values of a tuple, elements behind each, and tuples of a batch.
    fn sizes(&self) -> Result<(u64, usize, u64, u64)> {
        let wrong = || {
            Error::new(format!(
                "gather nd: indices {:?} of {:?}, {} axes shared",
                self.indices, self.shape, self.batch
            ))
        };
        let (&tuple, outer) = self.indices.split_last().ok_or_else(wrong)?;
        let tuple = usize::try_from(tuple).map_err(|_| wrong())?;
        let end = tuple
            .checked_add(self.batch)
            .filter(|end| *end <= self.shape.len());
        let end = end.filter(|_| tuple > 0).ok_or_else(wrong)?;
        if outer.len() < self.batch || outer[..self.batch] != self.shape[..self.batch] {
            return Err(wrong());
        }
        check("gather nd", self.index, &self.shape[..end])?;
        let rows = element::count("gather nd", outer)?;
        let inner = element::count("gather nd", &self.shape[end..])?;
        Ok((rows, tuple, inner, outer[self.batch..].iter().product()))
    }
}

impl Generate for GatherNd {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let (rows, tuple, inner, each) = self.sizes()?;
        let total = element::count("gather nd", &self.shape)?;
        let unit = map::unit(self.scalar, &[inner]);
        let lump = unit / self.scalar.bytes();
        let strides = element::strides(&self.shape);
        let mut text = WgslBuilder::new();
        map::source(&mut text, 0, unit, total / lump);
        map::indices(&mut text, self.index, rows * tuple as u64, None);
        let mut fetch = String::from("    var at = c1;\n");
        if self.batch > 0 {
            let stride = strides[self.batch - 1] / lump;
            fetch.push_str(&format!("    at += (c0 / {}u) * {stride}u;\n", each.max(1)));
        }
        for k in 0..tuple {
            let dim = self.shape[self.batch + k];
            fetch.push_str(&format!(
                "    let s{k} = signed_index(c0 * {tuple}u + {k}u);
    at += u32(clamp(select(s{k}, s{k} + {dim}, s{k} < 0), 0, {})) * {}u;\n",
                dim - 1,
                strides[self.batch + k] / lump
            ));
        }
        fetch.push_str("    return take0(at);");
        map::kernel(
            text,
            "gathernd".into(),
            unit,
            &[rows, inner / lump],
            &fetch,
            limits,
        )
    }

    fn sample(&self) -> Sample {
        let Ok((rows, tuple, inner, each)) = self.sizes() else {
            return Sample::empty();
        };
        let input = Values::some(self.scalar, 1, element::size(&self.shape));
        // inside the smallest of the indexed axes
        let dims = &self.shape[self.batch..self.batch + tuple];
        let least = dims.iter().copied().min().unwrap_or(1);
        let indices = map::some_indices(self.index, 2, rows as usize * tuple, least);
        let strides = element::strides(&self.shape);
        let mut places = Vec::new();
        for row in 0..rows as usize {
            let mut at = match self.batch {
                0 => 0,
                batch => row / each as usize * strides[batch - 1] as usize,
            };
            for (k, &dim) in dims.iter().enumerate() {
                at +=
                    map::place(&indices, self.index, row * tuple + k, dim) * strides[self.batch + k] as usize;
            }
            places.extend((0..inner as usize).map(|i| Some(at + i)));
        }
        picked(self.scalar, input, indices, &places)
    }
}

fn picked(scalar: Scalar, input: Values, indices: Values, places: &[Option<usize>]) -> Sample {
    let output = map::pick(scalar, &input, places, Number::F32(0.0));
    Sample {
        before: vec![input, indices, Values::zeros(scalar, places.len())],
        after: vec![None, None, Some(output)],
        tolerance: 0.0,
    }
}
