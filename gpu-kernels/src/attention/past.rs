//! The KV cache of earlier positions: finds how much of it is visible, and copies the visible part
//! into device memory.
//!
//! Why: a cache has room for thousands of positions but holds few at first, and positions that the
//! mask hides need not be read.

use serde::{Deserialize, Serialize};

use crate::{
    Access, Error, Generate, Kernel, Limits, Number, Result, Sample, Scalar, Values, WgslBuilder, element,
};

/// The KV cache of earlier positions, which come before the others: `[batch, kv_heads, capacity, depth]` and
/// `[batch, kv_heads, capacity, value_depth]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Past {
    /// Type: `f32` or `f16`.
    pub scalar: Scalar,
    /// Capacity in positions.
    pub capacity: u64,
    /// Count of the numbers that [`VisiblePast`] writes; the largest of them is the number of visible positions.
    pub partials: u64,
}

/// Threads per workgroup.
const THREADS: u32 = 256;

/// Most workgroups that look at a mask.
const MOST: u64 = 32;

/// Statements that name `past_end`, the position behind the last one that may be seen, in all threads; the text declares
/// `visible`, and `ends` in the memory of the workgroup.
pub(super) fn end(past: Past) -> String {
    format!(
        "    if thread == 0u {{
        var most = 0u;
        for (var i = 0u; i < {}u; i++) {{ most = max(most, visible[i]); }}
        ends[0] = min(most, {}u);
    }}
    workgroupBarrier();
    let past_end = ends[0];\n",
        past.partials, past.capacity
    )
}

/// Declares what [`end`] needs of a workgroup's memory.
pub(super) fn declare_end(text: &mut WgslBuilder) {
    text.shared("ends", "u32", 4, 1);
}

/// Values of `visible` whose largest is `shown`.
pub(super) fn partials(past: Past, shown: u64) -> Values {
    let numbers: Vec<Number> = (0..past.partials)
        .map(|i| {
            Number::U32(if i + 1 == past.partials {
                shown
            } else {
                shown / (2 + i)
            } as u32)
        })
        .collect();
    Values::of_numbers(Scalar::U32, &numbers)
}

/// Computes how many positions of the past any row of a boolean mask sees. Each workgroup writes
/// the last position that its rows see, plus one. Bindings: mask `[rows, width]`, whose first
/// columns are the past; output `[partials]`, words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VisiblePast {
    /// Rows.
    pub rows: u64,
    /// Columns of the past.
    pub capacity: u64,
    /// All columns.
    pub width: u64,
    /// How the mask is bound.
    pub access: Access,
}

impl VisiblePast {
    /// Number of output words.
    #[must_use]
    pub fn partials(&self) -> u64 {
        self.rows.clamp(1, MOST)
    }
}

impl Generate for VisiblePast {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let VisiblePast {
            rows,
            capacity,
            width,
            ..
        } = *self;
        let count = element::count("visible past", &[rows, width])?;
        if count == 0 || capacity > width {
            return Err(Error::new(format!("visible past: {self:?}")));
        }
        let groups = self.partials();
        let mut text = WgslBuilder::new();
        element::declare(&mut text, "mask", self.access, Scalar::Bool, count);
        text.binding("out", Access::Write, Scalar::U32, 1, groups);
        text.shared("most_of", "u32", 4, THREADS);
        let seen = element::load("mask", Scalar::Bool, &format!("row * {width}u + column"));
        let body = format!(
            "    var most = 0u;
    for (var row = group.x; row < {rows}u; row += {groups}u) {{
        for (var column = thread; column < {capacity}u; column += {THREADS}u) {{
            if {seen} {{ most = max(most, column + 1u); }}
        }}
    }}
    most_of[thread] = most;
    workgroupBarrier();
    for (var step = {}u; step > 0u; step >>= 1u) {{
        if thread < step {{ most_of[thread] = max(most_of[thread], most_of[thread + step]); }}
        workgroupBarrier();
    }}
    if thread == 0u {{ out[group.x] = most_of[0]; }}\n",
            THREADS / 2
        );
        let groups = [groups as u32, 1, 1];
        text.kernel("visiblepast", [THREADS, 1, 1], groups, count, &body, limits)
    }

    fn sample(&self) -> Sample {
        let groups = self.partials() as usize;
        let (rows, width, capacity) = (self.rows as usize, self.width as usize, self.capacity as usize);
        let mut mask = vec![0u8; rows * width];
        let mut most = vec![0u32; groups];
        for (row, seen) in mask.chunks_exact_mut(width).enumerate() {
            // a row in three sees nothing of the past
            let shown = if row % 3 == 1 {
                0
            } else {
                capacity * (row % 5 + 1) / 6
            };
            seen[..shown].fill(1);
            seen[capacity..].fill(1);
            most[row % groups] = most[row % groups].max(shown as u32);
        }
        let most: Vec<Number> = most.into_iter().map(Number::U32).collect();
        Sample {
            before: vec![Values::U8(mask), Values::zeros(Scalar::U32, groups)],
            after: vec![None, Some(Values::of_numbers(Scalar::U32, &most))],
            tolerance: 0.0,
        }
    }
}

/// Copies the visible part of a KV cache. Bindings: keys `[batch, kv_heads, capacity, depth]`, values `[batch,
/// kv_heads, capacity, value_depth]`, the numbers of [`VisiblePast`], both outputs. Their other positions are not
/// written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PastCopy {
    /// The KV cache.
    pub past: Past,
    /// Batches times KV heads.
    pub heads: u64,
    /// Values of a key.
    pub depth: u64,
    /// Values of a value.
    pub value_depth: u64,
}

impl Generate for PastCopy {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        let PastCopy {
            past,
            heads,
            depth,
            value_depth,
        } = *self;
        let counts = [depth, value_depth].map(|depth| element::count("past", &[heads, past.capacity, depth]));
        let [keys, values] = counts;
        let (keys, values) = (keys?, values?);
        if [heads, depth, value_depth, past.capacity, past.partials].contains(&0) {
            return Err(Error::new(format!("past: {self:?}")));
        }
        let four = depth.is_multiple_of(4) && value_depth.is_multiple_of(4);
        let width = if four { 4u64 } else { 1 };
        let mut text = WgslBuilder::new();
        let w = width as u32;
        text.binding("past_key", Access::Read, past.scalar, w, keys);
        text.binding("past_value", Access::Read, past.scalar, w, values);
        text.binding("visible", Access::Read, Scalar::U32, 1, past.partials);
        text.binding("out_key", Access::Write, past.scalar, w, keys);
        text.binding("out_value", Access::Write, past.scalar, w, values);
        declare_end(&mut text);
        let (keys, values) = (keys / width, values / width);
        let (size, groups, index) = element::flat(keys + values, limits);
        let move_one = |name: &str, at: &str, depth: u64| {
            format!(
                "if {at} / {depth}u % {}u < past_end {{ out_{name}[{at}] = past_{name}[{at}]; }}",
                past.capacity
            )
        };
        let body = format!(
            "{}    let i = {index};
    if i < {keys}u {{ {} }}
    let j = i - {keys}u;
    if i >= {keys}u && j < {values}u {{ {} }}\n",
            end(past),
            move_one("key", "i", depth / width),
            move_one("value", "j", value_depth / width),
        );
        let variant = format!("pastcopy-{}-x{width}", past.scalar.name());
        text.kernel(variant, [size, 1, 1], groups, keys + values, &body, limits)
    }

    fn sample(&self) -> Sample {
        let Past { scalar, capacity, .. } = self.past;
        let shown = capacity * 2 / 3;
        let mut before = Vec::new();
        let mut outputs = Vec::new();
        for (seed, depth) in [(1, self.depth), (2, self.value_depth)] {
            let shape = [self.heads, capacity, depth];
            let values = Values::some(scalar, seed, element::size(&shape));
            let copied: Vec<Number> = (0..values.len())
                .map(|i| {
                    if element::unravel(i, &shape)[1] < shown as usize {
                        values.number(scalar, i)
                    } else {
                        Number::F32(0.0)
                    }
                })
                .collect();
            outputs.push(Values::of_numbers(scalar, &copied));
            before.push(values);
        }
        before.push(partials(self.past, shown));
        before.extend(outputs.iter().map(|values| Values::zeros(scalar, values.len())));
        let mut after = vec![None; 3];
        after.extend(outputs.into_iter().map(Some));
        Sample {
            before,
            after,
            tolerance: 0.0,
        }
    }
}
