//! The epilogue of a product or a convolution: an expression over the sum and other tensors, computed in registers
//! and stored once.
//!
//! The output counts as `[rows, columns]`: for a product, its own rows with batches folded in; for
//! a convolution, pixels and channels. Columns are contiguous in memory.
//!
//! Invariants:
//! 1. The expression computes in f32; operand 0 is the sum, operand `i + 1` is `operands[i]`.
//! 2. An output of bytes or 32-bit integers is rounded half to even and saturated.
//! 3. The text and [`Epilogue::value`] mean the same.

use half::f16;
use serde::{Deserialize, Serialize};

use crate::{Access, Error, Expression, Limits, Result, Scalar, Values, WgslBuilder};

/// How an operand broadcasts to the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Broadcast {
    /// One element per element of the output, `[rows, columns]`.
    Same,
    /// One element per column or channel, `[columns]`.
    Column,
    /// One element per row, `[rows]`.
    Row,
    /// A single element, `[1]`.
    Single,
}

impl Broadcast {
    /// Number of elements for an output of this size.
    #[must_use]
    pub fn count(self, rows: u64, columns: u64) -> u64 {
        match self {
            Broadcast::Same => rows.saturating_mul(columns),
            Broadcast::Column => columns,
            Broadcast::Row => rows,
            Broadcast::Single => 1,
        }
    }

    /// Index of the element at a row and column.
    #[must_use]
    pub fn index(self, row: u64, column: u64, columns: u64) -> u64 {
        match self {
            Broadcast::Same => row * columns + column,
            Broadcast::Column => column,
            Broadcast::Row => row,
            Broadcast::Single => 0,
        }
    }
}

/// A tensor that an epilogue reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EpilogueOperand {
    /// Type in memory: a float, a byte or a 32-bit integer.
    pub scalar: Scalar,
    /// How it broadcasts to the output.
    pub broadcast: Broadcast,
    /// [`Access::Constant`] for packed weights, [`Access::Read`] for tensors that may be in the
    /// arena.
    pub access: Access,
}

/// The columns that one launch computes of a wider output; other launches write the rest of the
/// same output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Columns {
    /// The first one in the output; a multiple of four.
    pub first: u32,
    /// Columns of the output.
    pub all: u32,
}

/// The epilogue of a product or a convolution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epilogue {
    /// The stored value, as a function of the sum and the operands.
    pub expression: Expression,
    /// Operands after the sum, each a binding, in order, before the output's.
    pub operands: Vec<EpilogueOperand>,
    /// Type of the output in memory: a float, a byte or a signed 32-bit integer.
    pub output: Scalar,
    /// The range of columns, if the launch computes only a part of them. Operands and output are
    /// bound whole; every launch but the last computes a multiple of four columns.
    pub columns: Option<Columns>,
}

impl Epilogue {
    /// The sum itself.
    #[must_use]
    pub fn sum(output: Scalar) -> Epilogue {
        Epilogue {
            expression: Expression::Operand(0),
            operands: Vec::new(),
            output,
            columns: None,
        }
    }

    /// Its part of a variant's name.
    pub(crate) fn name(&self) -> &'static str {
        if self.columns.is_some() { "-columns" } else { "" }
    }

    /// The columns of the output of which a launch gives `columns`.
    fn within(&self, columns: u64) -> Columns64 {
        match self.columns {
            Some(part) => Columns64 {
                first: part.first.into(),
                all: part.all.into(),
            },
            None => Columns64 {
                first: 0,
                all: columns,
            },
        }
    }

    /// The same for a launch of fewer columns with the same remainder by four.
    pub(crate) fn fewer(&self, columns: u32, fewer: u32) -> Epilogue {
        let part = self.columns.map(|part| {
            let first = part.first.min(8);
            let rest = part.all.saturating_sub(part.first).saturating_sub(columns);
            Columns {
                first,
                all: first + fewer + if rest < 8 { rest } else { 4 + rest % 4 },
            }
        });
        Epilogue {
            columns: part,
            ..self.clone()
        }
    }

    /// Declares the operands and then the output (`output`) as the next bindings, for a launch of so many columns.
    ///
    /// # Errors
    /// If an epilogue cannot read or write a type, or the part of the columns is invalid.
    pub fn declare(&self, text: &mut WgslBuilder, rows: u64, columns: u64) -> Result<DeclaredEpilogue<'_>> {
        let Columns64 { first, all } = self.within(columns);
        let end = first.saturating_add(columns);
        if end > all || !first.is_multiple_of(4) || (end < all && !columns.is_multiple_of(4)) {
            return Err(Error::new(format!(
                "an epilogue of {columns} columns from {first} on, of {all}"
            )));
        }
        let width = if all.is_multiple_of(4) { 4 } else { 1 };
        for (i, operand) in self.operands.iter().enumerate() {
            if matches!(operand.scalar, Scalar::I64 | Scalar::U32) || operand.access == Access::Write {
                return Err(Error::new(format!(
                    "operand {i} of an epilogue is {}, {:?}",
                    operand.scalar.name(),
                    operand.access
                )));
            }
            let width = match operand.broadcast {
                Broadcast::Same | Broadcast::Column if !is_byte(operand.scalar) => width,
                _ => 1,
            };
            let count = operand.broadcast.count(rows, all);
            text.binding(&name(i), operand.access, operand.scalar, width, count);
        }
        let count = rows.saturating_mul(all);
        match self.output {
            Scalar::F32 | Scalar::F16 | Scalar::I32 => {
                text.binding("output", Access::Write, self.output, width, count);
            }
            Scalar::I8 | Scalar::U8 if width == 4 => {
                text.binding("output", Access::Write, self.output, 1, count);
            }
            Scalar::I8 | Scalar::U8 => {
                text.atomic("output", count.div_ceil(4));
            }
            other => {
                return Err(Error::new(format!("an epilogue does not write {}", other.name())));
            }
        }
        Ok(DeclaredEpilogue {
            epilogue: self,
            columns,
            first,
            all,
            width,
        })
    }

    /// The value stored at a row and column of an output of so many columns, before it is rounded to its type.
    #[must_use]
    pub fn value(&self, sum: f32, row: u64, column: u64, columns: u64, operands: &[Vec<f64>]) -> f32 {
        let mut all = vec![sum];
        all.extend(
            self.operands.iter().zip(operands).map(|(operand, values)| {
                values[operand.broadcast.index(row, column, columns) as usize] as f32
            }),
        );
        self.expression.value(&all)
    }

    /// As [`Epilogue::sample`] for sums in i32.
    #[must_use]
    pub fn sample_integers(&self, sums: &[i32], rows: u64, columns: u64) -> (Vec<Values>, Values) {
        if self.expression == Expression::Operand(0) && self.output == Scalar::I32 && self.columns.is_none() {
            return (Vec::new(), Values::I32(sums.to_vec()));
        }
        let sums: Vec<f32> = sums.iter().map(|&x| x as f32).collect();
        self.sample(&sums, rows, columns)
    }

    /// Sample operands, and what the whole output must be for these sums, `[rows, columns]`: zero where other
    /// launches give the columns.
    #[must_use]
    pub fn sample(&self, sums: &[f32], rows: u64, columns: u64) -> (Vec<Values>, Values) {
        let Columns64 { first, all } = self.within(columns);
        let operands: Vec<Values> = (100..)
            .zip(&self.operands)
            .map(|(seed, operand)| {
                let count = operand.broadcast.count(rows, all) as usize;
                values_of(operand.scalar, &Values::floats(seed, count), 100.0)
            })
            .collect();
        let read: Vec<Vec<f64>> = operands.iter().map(Values::to_f64).collect();
        let mut after = vec![0.0; (rows * all) as usize];
        for row in 0..rows {
            for column in 0..columns {
                let sum = sums[(row * columns + column) as usize];
                let place = first + column;
                after[(row * all + place) as usize] = self.value(sum, row, place, all, &read);
            }
        }
        (operands, values_of(self.output, &after, 1.0))
    }

    /// Whether a device can compute it, in the words of its limits; for callers that choose a tile first.
    ///
    /// # Errors
    /// Names what is missing.
    pub fn check(&self, rows: u64, columns: u64, limits: &Limits) -> Result<()> {
        let mut text = WgslBuilder::new();
        self.declare(&mut text, rows, columns)?;
        text.kernel("epilogue", [1; 3], [1; 3], 0, "", limits).map(|_| ())
    }
}

/// Floats as values of a type; integers are scaled first, then rounded half to even and saturated.
fn values_of(scalar: Scalar, floats: &[f32], scale: f32) -> Values {
    let whole = |x: f32| (x * scale).round_ties_even();
    match scalar {
        Scalar::F16 => Values::F16(floats.iter().map(|&x| f16::from_f32(x)).collect()),
        Scalar::I8 => Values::I8(floats.iter().map(|&x| whole(x) as i8).collect()),
        Scalar::U8 | Scalar::Bool => Values::U8(floats.iter().map(|&x| whole(x) as u8).collect()),
        Scalar::I32 => Values::I32(floats.iter().map(|&x| whole(x) as i32).collect()),
        _ => Values::F32(floats.to_vec()),
    }
}

fn is_byte(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::I8 | Scalar::U8 | Scalar::Bool)
}

fn name(operand: usize) -> String {
    format!("operand{operand}")
}

/// [`Columns`] in the arithmetic of sizes.
struct Columns64 {
    first: u64,
    all: u64,
}

/// An epilogue whose bindings are declared: it writes the statements that store.
#[derive(Debug)]
pub struct DeclaredEpilogue<'a> {
    epilogue: &'a Epilogue,
    /// Columns of the launch.
    columns: u64,
    /// The first of them in the output.
    first: u64,
    /// Columns of the output.
    all: u64,
    width: u32,
}

impl DeclaredEpilogue<'_> {
    /// Columns per element of the output's binding: 4 if the number of output columns is a multiple
    /// of four, else 1.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Statements that end the sums of four neighbouring columns and store those that exist. `sum` is a
    /// `vec4<f32>`; `row` and `column` are `u32`, `column` a multiple of four. The caller has made sure that
    /// the row exists.
    #[must_use]
    pub fn four(&self, sum: &str, row: &str, column: &str) -> String {
        let columns = self.columns;
        if self.width == 1 {
            let mut text = format!("{{ let sums = {sum}; let row_ = {row}; let column_ = {column};\n");
            for i in 0..4 {
                let one = self.one(&format!("sums[{i}]"), "row_", &format!("(column_ + {i}u)"));
                text += &format!("if column_ + {i}u < {columns}u {one}\n");
            }
            return text + "}";
        }
        let operands: Vec<String> = self
            .epilogue
            .operands
            .iter()
            .enumerate()
            .map(|(i, operand)| {
                let name = name(i);
                let element = match operand.broadcast {
                    Broadcast::Same => format!("{name}[at]"),
                    Broadcast::Column => format!("{name}[column_ / 4u]"),
                    Broadcast::Row => return splat(&self.read_one(i)),
                    Broadcast::Single => return splat(&self.read_one(i)),
                };
                match operand.scalar {
                    Scalar::F32 => element,
                    Scalar::I8 => format!("vec4<f32>(unpack4xI8({element}))"),
                    Scalar::U8 | Scalar::Bool => format!("vec4<f32>(unpack4xU8({element}))"),
                    _ => format!("vec4<f32>({element})"),
                }
            })
            .collect();
        let value = self.expression("sum_", &operands, 4);
        let stored = match self.epilogue.output {
            Scalar::F16 => "vec4<f16>(value)",
            Scalar::I32 => "vec4<i32>(round(value))",
            Scalar::I8 => "pack4xI8(vec4<i32>(clamp(round(value), vec4<f32>(-128.0), vec4<f32>(127.0))))",
            Scalar::U8 => "pack4xU8(vec4<u32>(clamp(round(value), vec4<f32>(0.0), vec4<f32>(255.0))))",
            _ => "value",
        };
        let place = self.place(column);
        format!(
            "{{ let sum_ = {sum}; let row_ = {row}; let column_ = {place};
if column_ < {end}u {{
let at = row_ * {quads}u + column_ / 4u;
let value = {value};
output[at] = {stored};
}} }}",
            quads = self.all / 4,
            end = self.first + columns,
        )
    }

    /// A column of the launch as one of the output.
    fn place(&self, column: &str) -> String {
        match self.first {
            0 => column.to_owned(),
            first => format!("({column} + {first}u)"),
        }
    }

    /// As [`DeclaredEpilogue::four`] for a `vec4<i32>`, which is stored unrounded where the output is the sum itself as i32.
    #[must_use]
    pub fn four_integers(&self, sum: &str, row: &str, column: &str) -> String {
        let itself = self.epilogue.expression == Expression::Operand(0);
        if !itself || self.epilogue.output != Scalar::I32 {
            return self.four(&format!("vec4<f32>({sum})"), row, column);
        }
        let (all, end) = (self.all, self.first + self.columns);
        let store = if self.width == 4 {
            format!("if column_ < {end}u {{ output[(row_ * {all}u + column_) / 4u] = sums; }}")
        } else {
            (0..4)
                .map(|i| {
                    format!(
                        "if column_ + {i}u < {end}u {{ output[row_ * {all}u + column_ + {i}u] = sums[{i}]; }}\n"
                    )
                })
                .collect()
        };
        let column = self.place(column);
        format!("{{ let sums = {sum}; let row_ = {row}; let column_ = {column};\n{store} }}")
    }

    /// As [`DeclaredEpilogue::four`] for one column, which exists, with `sum` an `f32`. Only where [`DeclaredEpilogue::width`] is 1.
    #[must_use]
    pub fn one(&self, sum: &str, row: &str, column: &str) -> String {
        debug_assert_eq!(self.width, 1, "single values into vectors");
        let (columns, column) = (self.all, self.place(column));
        let operands: Vec<String> = (0..self.epilogue.operands.len())
            .map(|i| self.read_one(i))
            .collect();
        let value = self.expression("sum1", &operands, 1);
        let byte = |clamped: &str| {
            format!(
                "let byte_ = {clamped} & 255u; let shift_ = (at % 4u) * 8u;
atomicAnd(&output[at / 4u], ~(255u << shift_)); atomicOr(&output[at / 4u], byte_ << shift_);"
            )
        };
        let store = match self.epilogue.output {
            Scalar::F16 => "output[at] = f16(value);".to_owned(),
            Scalar::I32 => "output[at] = i32(round(value));".to_owned(),
            Scalar::I8 => byte("bitcast<u32>(i32(clamp(round(value), -128.0, 127.0)))"),
            Scalar::U8 => byte("u32(clamp(round(value), 0.0, 255.0))"),
            _ => "output[at] = value;".to_owned(),
        };
        format!(
            "{{ let sum1 = {sum}; let row_ = {row}; let column_ = {column};
let at = row_ * {columns}u + column_;
let value = {value};
{store} }}"
        )
    }

    fn expression(&self, sum: &str, operands: &[String], width: u32) -> String {
        let mut names = vec![sum];
        names.extend(operands.iter().map(String::as_str));
        self.epilogue.expression.text(&names, width)
    }

    /// One element of an operand as `f32`, at `row_` and `column_`; of vectors only those of width 1.
    fn read_one(&self, i: usize) -> String {
        let operand = &self.epilogue.operands[i];
        let index = match operand.broadcast {
            Broadcast::Same => format!("(row_ * {}u + column_)", self.all),
            Broadcast::Column => "column_".to_owned(),
            Broadcast::Row => "row_".to_owned(),
            Broadcast::Single => "0u".to_owned(),
        };
        let name = name(i);
        match operand.scalar {
            Scalar::F32 => format!("{name}[{index}]"),
            Scalar::I8 => format!("f32(unpack4xI8({name}[{index} / 4u])[{index} % 4u])"),
            Scalar::U8 | Scalar::Bool => format!("f32(unpack4xU8({name}[{index} / 4u])[{index} % 4u])"),
            _ => format!("f32({name}[{index}])"),
        }
    }
}

fn splat(one: &str) -> String {
    format!("vec4<f32>({one})")
}
