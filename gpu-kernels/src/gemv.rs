//! Products of a few rows with constant weights in quantised blocks, as in decoding: a team of threads reads each
//! row of weights once, in order, and sums in registers. RMS normalisation of the rows may come before the product,
//! and a second product of the same rows may gate the first.
//!
//! Why: at one row a product is as fast as memory gives the weights, so each thread reads 8 or more bytes that lie
//! beside its neighbour's; and a launch that waits for another costs more than the arithmetic of either.
//!
//! Invariants:
//! 1. Bindings are a, the normalisation's scale if any, b, the second b if any, the epilogue's operands, the output.
//! 2. Sums are in f32, whatever the storage.
//! 3. Weights are read as the file has them, so that other products of the same weights share the memory.
//!
//! Not here: products of many rows ([`crate::Gemm`]).

mod expand;
mod lanes;

use std::fmt::Write as _;

use half::f16;
use serde::{Deserialize, Serialize};

use crate::reduction::Reduction;
use crate::{
    Access, Epilogue, Error, Expression, Generate, Kernel, Limits, Quants, Result, Sample, Scalar, Values,
    WgslBuilder, element,
};
pub use expand::ExpandBlocks;
use lanes::WEIGHTS;

/// RMS normalisation of a product's rows, with a scale per column.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RmsScale {
    /// Added to the mean square.
    pub epsilon: f32,
    /// How the scale is bound; its type is that of a.
    pub access: Access,
}

/// How the threads of a workgroup share its outputs: teams of `lanes` threads with `columns` columns each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Teams {
    /// Threads of a team, a power of two.
    pub lanes: u32,
    /// Teams of a workgroup, a power of two.
    pub teams: u32,
    /// Columns of a team.
    pub columns: u32,
}

/// `a [m, k]` times the transpose of `b [n, k]`, whose rows are whole blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gemv {
    /// Rows of a and of the output, at most [`Gemv::MOST`].
    pub m: u32,
    /// Columns of the output.
    pub n: u32,
    /// Length of the sums.
    pub k: u32,
    /// Blocks of the weights.
    pub quants: Quants,
    /// Storage of a: f32 or f16.
    pub scalar: Scalar,
    /// Normalisation of a's rows before the product.
    pub norm: Option<RmsScale>,
    /// If set, there is a second product with other weights, and this expression of both sums (operands 0 and 1) is
    /// what the epilogue sees.
    pub gate: Option<Expression>,
    /// Applied to each sum before it is stored.
    pub epilogue: Epilogue,
    /// How threads share the work, of [`Gemv::candidates`].
    pub teams: Teams,
}

impl Gemv {
    /// Most rows.
    pub const MOST: u32 = 8;

    /// Ways to share the work that the device can hold, best first.
    #[must_use]
    pub fn candidates(&self, limits: &Limits) -> Vec<Teams> {
        let parts = self.k / WEIGHTS;
        let mut ways = Vec::new();
        // a thread reads about four pieces of a row, so that several reads are under way and few threads sum
        let fitting = (parts / 4).max(1).next_power_of_two().clamp(32, 128);
        for lanes in [fitting, 32, 64, 128] {
            let teams = 128 / lanes;
            let least = (4 / teams).max(1);
            let many = if self.n >= 4096 { 2 } else { 1 };
            let columns = if self.m == 1 { least.max(many) } else { least };
            let way = Teams {
                lanes,
                teams,
                columns,
            };
            let fits = self.m == 1 || columns == 1;
            if fits && !ways.contains(&way) && self.with(way).kernel(limits).is_ok() {
                ways.push(way);
            }
        }
        ways
    }

    /// The same with the work shared otherwise.
    #[must_use]
    pub fn with(&self, teams: Teams) -> Gemv {
        Gemv {
            teams,
            ..self.clone()
        }
    }

    /// Multiply-adds of the launch.
    #[must_use]
    pub fn work(&self) -> u64 {
        let products = 1 + u64::from(self.gate.is_some());
        u64::from(self.m) * u64::from(self.n) * u64::from(self.k) * products
    }

    fn variant(&self) -> String {
        let Teams {
            lanes,
            teams,
            columns,
        } = self.teams;
        format!(
            "gemv-{}-{}-{}-{lanes}x{teams}x{columns}{}{}{}",
            self.scalar.name(),
            self.quants.name(),
            self.m,
            if self.norm.is_some() { "-norm" } else { "" },
            if self.gate.is_some() { "-gate" } else { "" },
            self.epilogue.name()
        )
    }

    fn check(&self) -> Result<()> {
        let Teams {
            lanes,
            teams,
            columns,
        } = self.teams;
        let bytes = self.quants.bytes(self.k.into()).saturating_mul(self.n.into());
        let whole = (1..=Gemv::MOST).contains(&self.m)
            && self.n > 0
            && self.k > 0
            && u64::from(self.k).is_multiple_of(self.quants.elements())
            && lanes.is_power_of_two()
            && teams.is_power_of_two()
            && columns > 0
            && (columns == 1 || self.m == 1)
            && (teams * columns).is_multiple_of(4)
            && self.norm.is_none_or(|norm| norm.epsilon.is_finite())
            && matches!(self.scalar, Scalar::F32 | Scalar::F16);
        // places of bytes are 32-bit
        if whole && bytes <= u64::from(u32::MAX) {
            Ok(())
        } else {
            Err(Error::new(format!(
                "{}: n {}, k {}",
                self.variant(),
                self.n,
                self.k
            )))
        }
    }

    /// Names of the weights' bindings.
    fn sides(&self) -> &'static [&'static str] {
        if self.gate.is_some() { &["b", "c"] } else { &["b"] }
    }

    /// Statements of one step of a thread: its part of a block, of each row of a and each column of the team.
    fn step(&self) -> String {
        let (quants, columns) = (self.quants, self.teams.columns);
        let mut text = format!(
            "        let block = item / {per}u;
        let part = item % {per}u;
        let near = {};\n",
            lanes::first_four(quants),
            per = quants.elements() as u32 / WEIGHTS,
        );
        let offsets = lanes::fours(quants);
        let scale = |j: usize| format!("vec4<f32>(scale[near + {}u])", offsets[j]);
        let load = |row: u32| {
            let mut text = String::new();
            for (j, offset) in offsets.iter().enumerate() {
                let at = row * (self.k / 4) + offset;
                let _ = writeln!(text, "        var x{j} = vec4<f32>(a[near + {at}u]);");
            }
            if self.norm.is_some() {
                let _ = writeln!(
                    text,
                    "        square{row} += dot(x0, x0) + dot(x1, x1) + dot(x2, x2) + dot(x3, x3);"
                );
                for j in 0..4 {
                    let _ = writeln!(text, "        x{j} *= {};", scale(j));
                }
            }
            text
        };
        let sum = |side: &str, column: u32, row: u32| {
            format!(
                "            sum_{side}{column}_{row} += dot(x0, w0) + dot(x1, w1) + dot(x2, w2) + dot(x3, w3);\n"
            )
        };
        if self.m == 1 {
            text += &load(0);
            for side in self.sides() {
                for column in 0..columns {
                    text += &lanes::weights(quants, side, &format!("row{column}"), self.k);
                    text += &sum(side, column, 0);
                    text += "        }\n";
                }
            }
            return text;
        }
        // the weights of all sides stay in registers, the rows pass
        for side in self.sides() {
            for j in 0..4 {
                let _ = writeln!(text, "        var w{j}_{side} = vec4<f32>();");
            }
            text += &lanes::weights(quants, side, "row0", self.k);
            for j in 0..4 {
                let _ = writeln!(text, "            w{j}_{side} = w{j};");
            }
            text += "        }\n";
        }
        for row in 0..self.m {
            text += "        {\n";
            text += &load(row);
            for side in self.sides() {
                let _ = writeln!(
                    text,
                    "            sum_{side}0_{row} += dot(x0, w0_{side}) + dot(x1, w1_{side}) + dot(x2, w2_{side}) + \
                     dot(x3, w3_{side});"
                );
            }
            text += "        }\n";
        }
        text
    }
}

impl Generate for Gemv {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.check()?;
        let Gemv { m, n, k, quants, .. } = *self;
        let Teams {
            lanes,
            teams,
            columns,
        } = self.teams;
        let threads = lanes * teams;
        let mut text = WgslBuilder::new();
        text.binding("a", Access::Read, self.scalar, 4, u64::from(m) * u64::from(k));
        if let Some(norm) = self.norm {
            text.binding("scale", norm.access, self.scalar, 4, k.into());
        }
        for side in self.sides() {
            lanes::declare(quants, &mut text, side, n, k);
        }
        lanes::declare_functions(&mut text);
        let epilogue = self.epilogue.declare(&mut text, m.into(), n.into())?;
        let own = teams * columns;
        let (groups, number) = element::spread(u64::from(n.div_ceil(own)), limits);

        let mut body = format!(
            "    let team = thread / {lanes}u;
    let place = thread % {lanes}u;
    let first = {number} * {own}u;\n"
        );
        let mut sums = Vec::new();
        for column in 0..columns {
            let _ = writeln!(
                body,
                "    let row{column} = min(first + team * {columns}u + {column}u, {}u);",
                n - 1
            );
        }
        for side in self.sides() {
            for column in 0..columns {
                for row in 0..m {
                    sums.push(format!("sum_{side}{column}_{row}"));
                }
            }
        }
        if self.norm.is_some() {
            sums.extend((0..m).map(|row| format!("square{row}")));
        }
        for sum in &sums {
            let _ = writeln!(body, "    var {sum} = 0.0;");
        }
        let items = k / WEIGHTS;
        let steps = items.div_ceil(lanes);
        let guard = if items.is_multiple_of(lanes) {
            String::new()
        } else {
            format!("        if item >= {items}u {{ break; }}\n")
        };
        let _ = writeln!(
            body,
            "    for (var step = 0u; step < {steps}u; step++) {{
        let item = step * {lanes}u + place;
{guard}{}    }}",
            self.step()
        );
        let reduction = Reduction {
            threads,
            lanes,
            limits,
        };
        let sums: Vec<&str> = sums.iter().map(String::as_str).collect();
        reduction.declare(&mut text, sums.len() as u32);
        body += &reduction.sums(&sums);
        // the first thread of a team has the sums
        for side in self.sides() {
            text.shared(&format!("totals_{side}"), "f32", 4, own * m);
        }
        body += "    if place == 0u {\n";
        for row in 0..m {
            let factor = match self.norm {
                Some(norm) => format!(
                    " * inverseSqrt(square{row} * f32({:?}) + f32({:?}))",
                    1.0 / f64::from(k),
                    norm.epsilon
                ),
                None => String::new(),
            };
            for side in self.sides() {
                for column in 0..columns {
                    let _ = writeln!(
                        body,
                        "        totals_{side}[{}u + team * {columns}u + {column}u] = sum_{side}{column}_{row}{factor};",
                        row * own
                    );
                }
            }
        }
        let four = |side: &str| {
            let each: Vec<String> = (0..4).map(|i| format!("totals_{side}[at + {i}u]")).collect();
            format!("vec4<f32>({})", each.join(", "))
        };
        let _ = writeln!(
            body,
            "    }}
    workgroupBarrier();
    if thread < {}u {{
        let at = thread * 4u;",
            own * m / 4
        );
        let value = match &self.gate {
            None => four("b"),
            Some(gate) => {
                let _ = writeln!(
                    body,
                    "        let gated = {};\n        let factors = {};",
                    four("b"),
                    four("c")
                );
                gate.text(&["gated", "factors"], 4)
            }
        };
        let _ = writeln!(body, "        let four = {value};");
        let store = epilogue.four(
            "four",
            &format!("(thread / {}u)", own / 4),
            &format!("(first + thread % {}u * 4u)", own / 4),
        );
        let _ = writeln!(body, "        {store}\n    }}");
        text.kernel(
            self.variant(),
            [threads, 1, 1],
            groups,
            self.work(),
            &body,
            limits,
        )
    }

    fn sample(&self) -> Sample {
        let (m, n, k) = (self.m as usize, self.n as usize, self.k as usize);
        let floats = |seed: u32, count: usize| {
            let values = Values::floats(seed, count);
            match self.scalar {
                Scalar::F16 => Values::F16(values.into_iter().map(f16::from_f32).collect()),
                _ => Values::F32(values),
            }
        };
        let a = floats(1, m * k);
        let scale = self.norm.map(|_| floats(3, k));
        let (rows, scales) = (a.to_f64(), scale.as_ref().map(Values::to_f64));
        let sides: Vec<(Vec<u8>, Vec<f32>)> = (0..self.sides().len() as u32)
            .map(|side| self.quants.sample(2 + 7 * side, n * k))
            .collect();
        let mut sums = Vec::with_capacity(m * n);
        for row in rows.chunks_exact(k) {
            let factor = self.norm.map_or(1.0, |norm| {
                let square: f64 = row.iter().map(|x| x * x).sum();
                1.0 / (square / k as f64 + f64::from(norm.epsilon)).sqrt()
            });
            let x: Vec<f64> = row
                .iter()
                .enumerate()
                .map(|(i, x)| x * scales.as_ref().map_or(1.0, |scales| scales[i]))
                .collect();
            for column in 0..n {
                let products: Vec<f32> = sides
                    .iter()
                    .map(|(_, weights)| {
                        let weights = &weights[column * k..][..k];
                        let sum: f64 = x.iter().zip(weights).map(|(x, &w)| x * f64::from(w)).sum();
                        (sum * factor) as f32
                    })
                    .collect();
                sums.push(match &self.gate {
                    None => products[0],
                    Some(gate) => gate.value(&products),
                });
            }
        }
        let (operands, after) = self.epilogue.sample(&sums, m as u64, n as u64);
        let mut before = vec![a];
        before.extend(scale);
        before.extend(sides.into_iter().map(|(blocks, _)| Values::U8(blocks)));
        before.extend(operands);
        let mut right = vec![None; before.len()];
        before.push(Values::zeros(self.epilogue.output, after.len()));
        right.push(Some(after));
        Sample {
            before,
            after: right,
            tolerance: match self.epilogue.output {
                Scalar::F16 => 1.0 / 1024.0,
                _ => 1e-5,
            },
        }
    }
}
