//! Running sums, triangles and one-hot rows.

use super::{CumSum, OneHot, Trilu, gather, map};
use crate::{
    Access, Error, Generate, Kernel, Limits, Number, Result, Sample, Scalar, Values, WgslBuilder, element,
};

impl Generate for CumSum {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let CumSum {
            scalar,
            outer,
            count,
            inner,
            ..
        } = *self;
        if !matches!(scalar, Scalar::F32 | Scalar::F16 | Scalar::I32 | Scalar::I64) {
            return Err(Error::new(format!("cumsum: of {}", scalar.name())));
        }
        let total = element::count("cumsum", &[outer, count, inner])?;
        let mut text = WgslBuilder::new();
        element::declare(&mut text, "in0", Access::Read, scalar, total);
        element::declare(&mut text, "out", Access::Write, scalar, total);
        let rows = outer * inner;
        let (threads, groups, index) = element::flat(rows, limits);
        let place = if self.reverse {
            format!("({count}u - 1u - k)")
        } else {
            "k".to_owned()
        };
        let add = format!("sum += {};", element::load("in0", scalar, "at"));
        let store = format!("out[at] = {};", element::pack(scalar, "sum"));
        // an exclusive sum reads before it writes too: both may be one tensor
        let step = if self.exclusive {
            format!(
                "let before = sum; {add} out[at] = {};",
                element::pack(scalar, "before")
            )
        } else {
            format!("{add} {store}")
        };
        let body = format!(
            "    let row = {index};
    if row >= {rows}u {{ return; }}
    let start = (row / {inner}u) * {}u + row % {inner}u;
    var sum = {}(0);
    for (var k = 0u; k < {count}u; k++) {{
        let at = start + {place} * {inner}u;
        {step}
    }}",
            count * inner,
            scalar.computed().text(1),
        );
        let variant = format!("cumsum-{}", scalar.name());
        text.kernel(variant, [threads, 1, 1], groups, total, &body, limits)
    }

    fn sample(&self) -> Sample {
        let shape = [self.outer, self.count, self.inner];
        let input = Values::some(self.scalar, 1, element::size(&shape));
        let mut numbers = vec![Number::F32(0.0); input.len()];
        let count = self.count as usize;
        for row in 0..self.outer as usize {
            for column in 0..self.inner as usize {
                let mut sum = 0.0;
                for k in 0..count {
                    let k = if self.reverse { count - 1 - k } else { k };
                    let at = element::ravel(&[row, k, column], &shape);
                    let before = sum;
                    sum += input.number(self.scalar, at).to_f64();
                    let shown = if self.exclusive { before } else { sum };
                    numbers[at] = match self.scalar {
                        Scalar::I32 | Scalar::I64 => Number::I64(shown as i64),
                        _ => Number::F32(shown as f32),
                    };
                }
            }
        }
        Sample {
            before: vec![input.clone(), Values::zeros(self.scalar, input.len())],
            after: vec![None, Some(Values::of_numbers(self.scalar, &numbers))],
            tolerance: if self.scalar == Scalar::F16 { 1e-3 } else { 1e-5 },
        }
    }
}

impl Generate for Trilu {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let [.., rows, columns] = self.shape[..] else {
            return Err(Error::new(format!(
                "trilu: shape {:?} has no two axes",
                self.shape
            )));
        };
        let total = element::count("trilu", &self.shape)?;
        let outer = self.shape[..self.shape.len() - 2].iter().product();
        let unit = self.scalar.bytes();
        let mut text = WgslBuilder::new();
        map::source(&mut text, 0, unit, total);
        let diagonal = self.diagonal.clamp(-(1 << 30), 1 << 30);
        let sign = if self.upper { ">=" } else { "<=" };
        let fetch = format!(
            "    if i32(c2) - i32(c1) {sign} {diagonal} {{ return take0(i); }}
    return {}();",
            map::register(unit)
        );
        map::kernel(
            text,
            "trilu".into(),
            unit,
            &[outer, rows, columns],
            &fetch,
            limits,
        )
    }

    fn sample(&self) -> Sample {
        let input = Values::some(self.scalar, 1, element::size(&self.shape));
        let last = self.shape.len() - 1;
        let places: Vec<Option<usize>> = (0..input.len())
            .map(|flat| {
                let at = element::unravel(flat, &self.shape);
                let above = at[last] as i64 - at[last - 1] as i64 - self.diagonal;
                let stays = if self.upper { above >= 0 } else { above <= 0 };
                stays.then_some(flat)
            })
            .collect();
        let output = map::pick(self.scalar, &input, &places, Number::F32(0.0));
        Sample {
            before: vec![input.clone(), Values::zeros(self.scalar, input.len())],
            after: vec![None, Some(output)],
            tolerance: 0.0,
        }
    }
}

impl Generate for OneHot {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        gather::check("one hot", self.index, &[self.depth])?;
        let unit = self.scalar.bytes();
        let (depth, inner) = (self.depth, self.inner);
        let shape = [self.outer, depth, inner];
        element::count("one hot", &shape)?;
        let mut text = WgslBuilder::new();
        map::indices(&mut text, self.index, self.outer * inner, None);
        map::source(&mut text, 0, unit, 2);
        let fetch = format!(
            "    var s = signed_index(c0 * {inner}u + c2);
    s = select(s, s + {depth}, s < 0);
    return take0(select(0u, 1u, s == i32(c1)));"
        );
        map::kernel(text, "onehot".into(), unit, &shape, &fetch, limits)
    }

    fn sample(&self) -> Sample {
        let count = (self.outer * self.inner) as usize;
        let indices = map::some_indices(self.index, 1, count, self.depth);
        let values = Values::some(self.scalar, 2, 2);
        let shape = [self.outer, self.depth, self.inner];
        let places: Vec<Option<usize>> = (0..element::size(&shape))
            .map(|flat| {
                let at = element::unravel(flat, &shape);
                let index = at[0] * self.inner as usize + at[2];
                Some(usize::from(
                    map::place(&indices, self.index, index, self.depth) == at[1],
                ))
            })
            .collect();
        let output = map::pick(self.scalar, &values, &places, Number::F32(0.0));
        Sample {
            before: vec![indices, values, Values::zeros(self.scalar, places.len())],
            after: vec![None, None, Some(output)],
            tolerance: 0.0,
        }
    }
}
