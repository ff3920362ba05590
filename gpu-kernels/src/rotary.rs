//! Rotary embedding: pairs of features rotated by the angles of their position (Su et al., RoFormer, 2021).
//!
//! Invariant: products are in f32, whatever the storage.

use serde::{Deserialize, Serialize};

use crate::{
    Access, Error, Generate, Kernel, Limits, Number, Result, Sample, Scalar, Values, WgslBuilder, element,
};

/// `RotaryEmbedding`. Bindings: input, cosines and sines `[cached, rotated / 2]`, positions `[batch, rows]` if any, output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rotary {
    /// Type of all but positions and output: `f32` or `f16`.
    pub scalar: Scalar,
    /// Type of the output: `f32` or `f16`.
    pub output: Scalar,
    /// Batches.
    pub batch: u64,
    /// Heads.
    pub heads: u64,
    /// Rows of a head.
    pub rows: u64,
    /// Features of a row.
    pub size: u64,
    /// The number of leading features that are rotated; an even number.
    pub rotated: u64,
    /// Whether the features of a pair are neighbours; if not, they are half of the rotated features
    /// apart.
    pub interleaved: bool,
    /// Whether the order is `[batch, rows, heads, size]`, else `[batch, heads, rows, size]`.
    pub heads_inside: bool,
    /// Rows of cosines and sines.
    pub cached: u64,
    /// Type of the positions: `i32` or `i64`. Without them there are cosines and sines of each row of each batch.
    pub positions: Option<Scalar>,
    /// How cosines and sines are bound.
    pub access: Access,
}

impl Rotary {
    fn shape(&self) -> [u64; 4] {
        if self.heads_inside {
            [self.batch, self.rows, self.heads, self.size]
        } else {
            [self.batch, self.heads, self.rows, self.size]
        }
    }

    fn check(&self) -> Result<u64> {
        let total = element::count("rotary", &self.shape())?;
        element::count("rotary", &[self.cached, self.rotated])?;
        let whole = total > 0
            && self.rotated > 0
            && self.rotated.is_multiple_of(2)
            && self.rotated <= self.size
            && self.cached > 0
            && (self.positions.is_some() || self.cached == self.batch * self.rows)
            && self
                .positions
                .is_none_or(|scalar| matches!(scalar, Scalar::I32 | Scalar::I64))
            && [self.scalar, self.output]
                .iter()
                .all(|scalar| matches!(scalar, Scalar::F32 | Scalar::F16));
        if whole {
            Ok(total)
        } else {
            Err(Error::new(format!("rotary: {self:?}")))
        }
    }

    /// The other feature of a pair, the pair's number, and whether a feature is the second of its pair.
    fn pair(&self, feature: usize) -> (usize, usize, bool) {
        let half = self.rotated as usize / 2;
        match self.interleaved {
            true => (feature ^ 1, feature / 2, feature % 2 == 1),
            false if feature < half => (feature + half, feature, false),
            false => (feature - half, feature - half, true),
        }
    }
}

impl Generate for Rotary {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let total = self.check()?;
        let half = self.rotated / 2;
        let mut text = WgslBuilder::new();
        element::declare(&mut text, "in0", Access::Read, self.scalar, total);
        for name in ["cosines", "sines"] {
            element::declare(&mut text, name, self.access, self.scalar, self.cached * half);
        }
        let row = "(c0 * ROWSu + row)".replace("ROWS", &self.rows.to_string());
        let position = match self.positions {
            None => row,
            Some(scalar) => {
                let count = self.batch * self.rows;
                let value = if scalar == Scalar::I64 {
                    // the low word: a position of the tables fits it
                    text.binding("positions", Access::Read, Scalar::U32, 2, count * 2);
                    format!("positions[{row}].x")
                } else {
                    text.binding("positions", Access::Read, Scalar::U32, 1, count);
                    format!("positions[{row}]")
                };
                format!("min({value}, {}u)", self.cached - 1)
            }
        };
        element::declare(&mut text, "out", Access::Write, self.output, total);
        let (size, groups, index) = element::flat(total, limits);
        let pair = if self.interleaved {
            "    let other = i - c3 + (c3 ^ 1u);
    let pair = c3 / 2u;
    let second = (c3 & 1u) == 1u;\n"
                .to_owned()
        } else {
            format!(
                "    let second = c3 >= {half}u;
    let other = select(i + {half}u, i - {half}u, second);
    let pair = select(c3, c3 - {half}u, second);\n"
            )
        };
        let value = |at: &str| element::load("in0", self.scalar, at);
        let angle = |name: &str| element::load(name, self.scalar, &format!("position * {half}u + pair"));
        let body = format!(
            "    let i = {index};
    if i >= {total}u {{ return; }}
{}    let row = {};
    if c3 >= {}u {{ out[i] = {}; return; }}
    let position = {position};
{pair}    let across = select(-1.0, 1.0, second) * {} * {};
    let turned = {} * {} + across;
    out[i] = {};\n",
            element::places("i", &self.shape(), "c"),
            if self.heads_inside { "c1" } else { "c2" },
            self.rotated,
            element::pack(self.output, &value("i")),
            value("other"),
            angle("sines"),
            value("i"),
            angle("cosines"),
            element::pack(self.output, "turned"),
        );
        let ways = [
            if self.interleaved { "-interleaved" } else { "" },
            if self.positions.is_some() {
                "-positions"
            } else {
                ""
            },
        ];
        let to = if self.output == self.scalar {
            String::new()
        } else {
            format!("-to-{}", self.output.name())
        };
        let variant = format!("rotary{}-{}{to}", ways.concat(), self.scalar.name());
        text.kernel(variant, [size, 1, 1], groups, total, &body, limits)
    }

    fn sample(&self) -> Sample {
        let shape = self.shape();
        let half = self.rotated as usize / 2;
        let input = Values::some(self.scalar, 1, element::size(&shape));
        let tables = [2, 3].map(|seed| Values::some(self.scalar, seed, self.cached as usize * half));
        let count = (self.batch * self.rows) as usize;
        let positions: Vec<Number> = Values::floats(4, count)
            .into_iter()
            .map(|x| Number::I64(((f64::from(x) + 1.0) * 0.5 * self.cached as f64) as i64))
            .collect();
        let read = |values: &Values, at: usize| values.number(self.scalar, at).to_f64();
        let numbers: Vec<Number> = (0..input.len())
            .map(|i| {
                let at = element::unravel(i, &shape);
                let row = if self.heads_inside { at[1] } else { at[2] };
                let row = at[0] * self.rows as usize + row;
                if at[3] >= self.rotated as usize {
                    return Number::F32(read(&input, i) as f32);
                }
                let position = match self.positions {
                    Some(_) => positions[row].to_f64() as usize,
                    None => row,
                };
                let (other, pair, second) = self.pair(at[3]);
                let other = read(&input, i - at[3] + other);
                let [cosine, sine] = [0, 1].map(|t| read(&tables[t], position * half + pair));
                let across = if second { other * sine } else { -other * sine };
                Number::F32((read(&input, i) * cosine + across) as f32)
            })
            .collect();
        let [cosines, sines] = tables;
        let mut before = vec![input, cosines, sines];
        before.extend(
            self.positions
                .map(|scalar| Values::of_numbers(scalar, &positions)),
        );
        let mut after = vec![None; before.len()];
        before.push(Values::zeros(self.output, numbers.len()));
        after.push(Some(Values::of_numbers(self.output, &numbers)));
        Sample {
            before,
            after,
            tolerance: if [self.scalar, self.output].contains(&Scalar::F16) {
                2e-3
            } else {
                1e-5
            },
        }
    }
}
