//! Rows reduced by a workgroup: several threads per row, whose results are combined by a tree in
//! workgroup memory.
//!
//! Invariant: every thread reaches every barrier; a thread without a row reads and writes nothing.

use crate::{Access, Error, Limits, Result, Scalar, Type, WgslBuilder, element};

/// How rows are shared out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    rows: u64,
    /// Steps of a row.
    count: u64,
    /// Rows per workgroup.
    x: u64,
    /// Threads of a row, a power of two.
    y: u64,
    /// Whether neighbouring threads see neighbouring rows, else neighbouring steps of a row.
    adjacent: bool,
}

impl Rows {
    /// Shares out `rows` of `count` steps; `adjacent` where the same step of neighbouring rows lies side by side.
    pub(crate) fn new(rows: u64, count: u64, adjacent: bool) -> Rows {
        let power = |n: u64| n.max(1).next_power_of_two();
        let (x, y) = if adjacent {
            let x = power(rows).min(32);
            (x, power(count).min(256 / x).min(32))
        } else {
            // a few steps for each thread: fewer leave a tree only, more leave a device idle
            let y = (power(count) / 2).clamp(1, 256);
            ((64 / y).max(1), y)
        };
        Rows {
            rows,
            count,
            x,
            y,
            adjacent,
        }
    }

    /// Threads per workgroup.
    pub(crate) fn threads(&self) -> u32 {
        (self.x * self.y) as u32
    }

    /// Workgroups, and text of the names `x`, `y`, `slot`, `row` and `live`.
    pub(crate) fn head(&self, limits: &Limits) -> ([u32; 3], String) {
        let Rows { rows, x, y, .. } = *self;
        let (groups, number) = element::spread(rows.div_ceil(x), limits);
        let places = if self.adjacent {
            format!("let x = thread % {x}u;\n    let y = thread / {x}u;")
        } else {
            format!("let x = thread / {y}u;\n    let y = thread % {y}u;")
        };
        let text = format!(
            "    {places}
    let slot = y * {x}u + x;
    let row = {number} * {x}u + x;
    let live = row < {rows}u;\n"
        );
        (groups, text)
    }

    /// Text that does `body` for each step `k` of this thread.
    pub(crate) fn each(&self, body: &str) -> String {
        format!(
            "    if live {{
        for (var k = y; k < {}u; k += {}u) {{
            {body}
        }}
    }}\n",
            self.count, self.y
        )
    }

    /// Text that makes one of the values named `value` of a row's threads, in the shared array `array` (which has
    /// [`Rows::threads`] elements), and calls it `result`.
    pub(crate) fn tree(
        &self,
        array: &str,
        value: &str,
        result: &str,
        combine: impl Fn(&str, &str) -> String,
    ) -> String {
        let mut text = format!("    {array}[slot] = {value};\n    workgroupBarrier();\n");
        let mut half = self.y / 2;
        while half > 0 {
            let other = format!("{array}[slot + {}u]", half * self.x);
            text.push_str(&format!(
                "    if y < {half}u {{ {array}[slot] = {}; }}\n    workgroupBarrier();\n",
                combine(&format!("{array}[slot]"), &other)
            ));
            half /= 2;
        }
        text.push_str(&format!(
            "    let {result} = {array}[x];\n    workgroupBarrier();\n"
        ));
        text
    }

    /// Text that finds the pair that `beats` all others, among the values named `value` of a row's threads, each
    /// paired with its entry in the shared array `places`. The result is in element `x` of both arrays.
    pub(crate) fn pairs(&self, array: &str, places: &str, value: &str) -> String {
        let mut text = format!("    {array}[slot] = {value};\n    workgroupBarrier();\n");
        let mut half = self.y / 2;
        while half > 0 {
            let other = half * self.x;
            text.push_str(&format!(
                "    if y < {half}u {{
        let i = slot + {other}u;
        if beats({array}[i], {places}[i], {array}[slot], {places}[slot]) {{
            {array}[slot] = {array}[i];
            {places}[slot] = {places}[i];
        }}
    }}
    workgroupBarrier();\n"
            ));
            half /= 2;
        }
        text
    }
}

/// Tensors `[outer, count, inner]` whose rows run along `count`, read and written four at a time where rows lie
/// dense and are a multiple of four.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines {
    pub(crate) rows: Rows,
    /// Values of a step: 1 or 4.
    pub(crate) width: u32,
    scalar: Scalar,
    total: u64,
    count: u64,
    inner: u64,
}

impl Lines {
    /// # Errors
    /// Where the type is no float, or there are no values.
    pub(crate) fn new(what: &str, scalar: Scalar, [outer, count, inner]: [u64; 3]) -> Result<Lines> {
        let total = element::count(what, &[outer, count, inner])?;
        if total == 0 || !matches!(scalar, Scalar::F32 | Scalar::F16) {
            return Err(Error::new(format!(
                "{what}: {} of shape [{outer}, {count}, {inner}]",
                scalar.name()
            )));
        }
        let width = if inner == 1 && count.is_multiple_of(4) {
            4
        } else {
            1
        };
        Ok(Lines {
            rows: Rows::new(outer * inner, count / u64::from(width), inner > 1),
            width,
            scalar,
            total,
            count,
            inner,
        })
    }

    /// The same, one value at a time.
    pub(crate) fn narrow(self) -> Lines {
        let (rows, adjacent) = (self.rows.rows, self.inner > 1);
        Lines {
            rows: Rows::new(rows, self.count, adjacent),
            width: 1,
            ..self
        }
    }

    /// Type of a step's values in a register.
    pub(crate) fn kind(&self) -> String {
        Type::F32.text(self.width)
    }

    /// Declares a tensor of this shape.
    pub(crate) fn bind(&self, text: &mut WgslBuilder, name: &str, access: Access) {
        text.binding(name, access, self.scalar, self.width, self.total);
    }

    /// Declares a tensor of a row's values or of other values of which a step reads as many.
    pub(crate) fn bind_row(&self, text: &mut WgslBuilder, name: &str, access: Access, count: u64) {
        text.binding(name, access, self.scalar, self.width, count);
    }

    /// Text of the place of step `k` of `row`.
    pub(crate) fn place(&self) -> String {
        match self.inner {
            1 => format!("row * {}u + k", self.count / u64::from(self.width)),
            inner => format!(
                "(row / {inner}u) * {}u + row % {inner}u + k * {inner}u",
                self.count * inner
            ),
        }
    }

    /// Text of a step's values at a place.
    pub(crate) fn load(&self, name: &str, place: &str) -> String {
        format!("{}({name}[{place}])", self.kind())
    }

    /// Text that writes a step's values to a place.
    pub(crate) fn store(&self, name: &str, place: &str, value: &str) -> String {
        match (self.scalar, self.width) {
            (Scalar::F16, 1) => format!("{name}[{place}] = f16({value});"),
            (Scalar::F16, _) => format!("{name}[{place}] = vec4<f16>({value});"),
            _ => format!("{name}[{place}] = {value};"),
        }
    }

    /// Text of the sum of a step's values.
    pub(crate) fn sum(&self, value: &str) -> String {
        match self.width {
            1 => value.to_owned(),
            _ => format!("dot({value}, vec4<f32>(1.0))"),
        }
    }

    /// Text of the largest of a step's values.
    pub(crate) fn largest(&self, value: &str) -> String {
        match self.width {
            1 => value.to_owned(),
            _ => format!("max(max({value}.x, {value}.y), max({value}.z, {value}.w))"),
        }
    }
}
