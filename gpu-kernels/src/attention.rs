//! Scaled dot-product attention in one kernel: no matrix of scores reaches memory. The keys
//! and the values may come from two sources: the new positions, and a KV cache of earlier positions, of which the
//! kernel reads only those that the mask leaves visible.
//!
//! Invariants:
//! 1. Products, exponentials and sums are in f32, whatever the storage.
//! 2. A query that sees no key gives zeros.
//! 3. A few queries over a KV cache read each key only once, so they read it directly from memory
//!    ([`step`]); other shapes use tiles in workgroup memory.

mod new_rows;
mod past;
mod problem;
mod step;

use crate::{
    Access, Error, Generate, Kernel, Limits, Number, Result, Sample, Scalar, Type, Values, WgslBuilder,
    element,
};

use new_rows::NewRowsSample;
pub use past::{Past, PastCopy, VisiblePast};
use problem::Source;
pub use problem::{Attention, Mask, NewRows, RotaryTables};

/// Sizes of a kernel.
struct Tiles {
    /// Queries of a workgroup.
    queries: u64,
    /// Queries of a thread.
    each: u64,
    /// Threads of a query.
    threads: u64,
    /// Keys of a tile.
    keys: u64,
    /// Values of a vector.
    width: u64,
    /// Vectors from one key of a tile to the next.
    pitch: u64,
}

impl Attention {
    fn check(&self) -> Result<()> {
        let Attention {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            depth,
            value_depth,
            ..
        } = *self;
        if [batch, heads, kv_heads, queries, keys, depth, value_depth].contains(&0)
            || !heads.is_multiple_of(kv_heads)
            || !self.scale.is_finite()
            || !matches!(self.scalar, Scalar::F32 | Scalar::F16)
        {
            return Err(Error::new(format!("attention: {self:?}")));
        }
        for shape in self.shapes() {
            element::count("attention", &shape)?;
        }
        if let Some(mask) = self.mask {
            element::count("attention", &[mask.count(self)])?;
            if mask.scalar != self.scalar && mask.scalar != Scalar::Bool {
                return Err(Error::new(format!("attention: {self:?}")));
            }
        }
        if let Some(past) = self.past {
            for depth in [depth, value_depth] {
                element::count("attention", &[batch, kv_heads, past.capacity, depth])?;
            }
            let floats = matches!(past.scalar, Scalar::F32 | Scalar::F16);
            if !floats || past.capacity == 0 || past.partials == 0 || self.causal.is_some() {
                return Err(Error::new(format!("attention: {self:?}")));
            }
        }
        if let Some(rows) = self.new_rows {
            let fits = |tables: RotaryTables| {
                tables.rotated > 0
                    && tables.rotated.is_multiple_of(2)
                    && tables.rotated <= depth
                    && tables.cached > 0
                    && matches!(tables.positions, Scalar::I32 | Scalar::I64)
            };
            let half = self.past.is_some_and(|past| past.scalar == Scalar::F16);
            if !self.is_step() || !rows.rotary.is_none_or(fits) || rows.rounded && !half || keys != queries {
                return Err(Error::new(format!("attention: {self:?}")));
            }
        }
        if self.causal.is_some_and(|shift| shift.unsigned_abs() >= 1 << 30) {
            return Err(Error::new(format!("attention: {self:?}")));
        }
        Ok(())
    }

    /// Whether a workgroup computes one query of one head.
    fn is_step(&self) -> bool {
        self.past.is_some() && self.queries <= step::MOST && step::fits(self)
    }

    /// Shapes of query, key, value and output, heads outside.
    fn shapes(&self) -> [[u64; 4]; 4] {
        let Attention {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            depth,
            value_depth,
            ..
        } = *self;
        [
            [batch, heads, queries, depth],
            [batch, kv_heads, keys, depth],
            [batch, kv_heads, keys, value_depth],
            [batch, heads, queries, value_depth],
        ]
    }

    fn tiles(&self, limits: &Limits) -> Result<Tiles> {
        let rows = self.batch * self.heads;
        // as many queries as leave a workgroup for each of a large device's units
        let most = if rows * self.queries.div_ceil(16) >= 128 {
            16
        } else {
            8
        };
        let mut queries = self.queries.next_power_of_two().min(most);
        let threads = if queries >= 8 { 8 } else { 32 };
        let four = self.depth.is_multiple_of(4) && self.value_depth.is_multiple_of(4);
        let width = if four { 4 } else { 1 };
        // one more: neighbouring keys lie in different banks
        let pitch = self.depth.max(self.value_depth) / width + 1;
        // two queries of a thread read a key of the tile once, where that leaves as many workgroups
        let shared = |queries: u64, keys: u64| {
            4 * (queries * self.depth + keys * pitch * width + queries * (keys + threads) + 2)
        };
        let mut each = 1;
        if rows * self.queries.div_ceil(32) >= 128 && shared(32, 32) <= u64::from(limits.shared_bytes) {
            (queries, each) = (32, 2);
        }
        let mut keys = 32;
        loop {
            let shared = shared(queries, keys);
            if shared <= u64::from(limits.shared_bytes) {
                break;
            }
            keys /= 2;
            if keys < threads {
                return Err(Error::new(format!(
                    "attention: heads of depth {} and {} need {shared} bytes of a workgroup's memory, the \
                     device's limit is {}",
                    self.depth, self.value_depth, limits.shared_bytes
                )));
            }
        }
        Ok(Tiles {
            queries,
            each,
            threads,
            keys,
            width,
            pitch,
        })
    }

    /// Declares what all forms bind, in order.
    fn declare(&self, text: &mut WgslBuilder, width: u64) {
        let w = width as u32;
        let shapes = self.shapes();
        for (name, shape) in ["query", "key", "value"].iter().zip(shapes) {
            text.binding(name, Access::Read, self.scalar, w, shape.iter().product());
        }
        if let Some(past) = self.past {
            for (name, depth) in [("past_key", self.depth), ("past_value", self.value_depth)] {
                let count = self.batch * self.kv_heads * past.capacity * depth;
                text.binding(name, Access::Read, past.scalar, w, count);
            }
            text.binding("visible", Access::Read, Scalar::U32, 1, past.partials);
        }
        if let Some(mask) = self.mask {
            element::declare(text, "mask", mask.access, mask.scalar, mask.count(self));
        }
        if let Some(tables) = self.new_rows.and_then(|rows| rows.rotary) {
            for name in ["cosines", "sines"] {
                let count = tables.cached * (tables.rotated / 2);
                element::declare(text, name, tables.access, self.scalar, count);
            }
            // the low word of 64 bits: a position of the tables fits it
            let words = tables.positions.bytes() as u32 / 4;
            let count = self.batch * self.queries * u64::from(words);
            text.binding("positions", Access::Read, Scalar::U32, words, count);
        }
        text.binding("out", Access::Write, self.scalar, w, shapes[3].iter().product());
    }

    /// Text that applies the mask to a score of the query `row` and a column of the mask.
    fn masked(&self, score: &str, row: &str, column: &str) -> String {
        let Some(mask) = self.mask else {
            return String::new();
        };
        let value = self.mask_at(mask, row, column);
        match mask.scalar {
            Scalar::Bool => format!("        if !{value} {{ {score} = none; }}\n"),
            _ => format!("        {score} += {value};\n"),
        }
    }

    /// Text of the mask's value for a query and a column.
    fn mask_at(&self, mask: Mask, row: &str, column: &str) -> String {
        let [sb, sh, sq] = mask.strides;
        let at = format!(
            "b * {sb}u + h * {sh}u + min({row}, {}u) * {sq}u + {column}",
            self.queries - 1
        );
        element::load("mask", mask.scalar, &at)
    }

    /// The part of the variant's name about keys and masks.
    fn ways(&self) -> String {
        let causal = if self.causal.is_some() { "-causal" } else { "" };
        let mask = match self.mask {
            Some(mask) if mask.scalar == Scalar::Bool => "-boolmask",
            Some(_) => "-mask",
            None => "",
        };
        let past = self
            .past
            .map_or(String::new(), |past| format!("-past{}", past.scalar.name()));
        let rows = self
            .new_rows
            .map_or("", |rows| match (rows.rotary, rows.rounded) {
                (None, _) => "-rounded",
                (Some(tables), _) if tables.interleaved => "-interleaved",
                (Some(_), _) => "-rotated",
            });
        format!("{causal}{mask}{past}{rows}-{}", self.scalar.name())
    }

    /// A kernel that stages tiles of keys and their values.
    fn tiled(&self, limits: &Limits) -> Result<Kernel> {
        let t = self.tiles(limits)?;
        let Attention {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            scalar,
            ..
        } = *self;
        let (w, pitch, bq, bk, tq, each) = (t.width, t.pitch, t.queries, t.keys, t.threads, t.each);
        let (depth, value_depth) = (self.depth / w, self.value_depth / w);
        let all = bq / each * tq;
        let kind = Type::F32.text(w as u32);
        let mut text = WgslBuilder::new();
        self.declare(&mut text, w);
        text.shared("qs", &kind, 4 * w as u32, (bq * depth) as u32);
        text.shared("kv", &kind, 4 * w as u32, (bk * pitch) as u32);
        text.shared("ps", "f32", 4, (bq * bk) as u32);
        text.shared("part", "f32", 4, (all * each) as u32);
        if self.past.is_some() {
            past::declare_end(&mut text);
        }
        let seen = self.mask.filter(|mask| mask.scalar == Scalar::Bool);
        if seen.is_some() {
            text.shared("seen_ends", "u32", 4, 1);
        }
        // element (vector) of a head's position, heads being outside or inside the sequence
        let place = |head: &str, heads: u64, position: &str, length: u64, depth: u64| {
            if self.heads_inside {
                format!("((b * {length}u + {position}) * {heads}u + {head}) * {depth}u")
            } else {
                format!("((b * {heads}u + {head}) * {length}u + {position}) * {depth}u")
            }
        };
        let tiles = queries.div_ceil(bq);
        let (groups, number) = element::spread(tiles * batch * heads, limits);
        let scores = bk / tq;
        let columns = value_depth.div_ceil(tq);
        let dot = |i: u64, m: u64| {
            if w == 4 {
                format!("dot(a{i}, k{m})")
            } else {
                format!("a{i} * k{m}")
            }
        };
        let load = |from: &Source<'_>, which: usize| {
            let depth = [depth, value_depth][which];
            let place = if from.heads_inside {
                format!("((b * {}u + at) * {kv_heads}u + g) * {depth}u", from.length)
            } else {
                format!("((b * {kv_heads}u + g) * {}u + at) * {depth}u", from.length)
            };
            format!(
                "        for (var i = thread; i < {}u; i += {all}u) {{
            let at = k0 + i / {depth}u;
            var v = {kind}(0.0);
            if at < {} {{ v = {kind}({}[{place} + i % {depth}u]); }}
            kv[(i / {depth}u) * {pitch}u + i % {depth}u] = v;
        }}\n",
                bk * depth,
                from.bound,
                from.names[which],
            )
        };
        let mut body = format!(
            "    let number = {number};
    let q0 = (number % {tiles}u) * {bq}u;
    let b = number / {}u;
    let h = (number / {tiles}u) % {heads}u;
    let g = h / {}u;
    let r = thread / {tq}u * {each}u;
    let l = thread % {tq}u;
    for (var i = thread; i < {}u; i += {all}u) {{
        let at = q0 + i / {depth}u;
        var v = {kind}(0.0);
        if at < {queries}u {{ v = {kind}(query[{} + i % {depth}u]) * f32({:?}); }}
        qs[i] = v;
    }}
    let none = px_bits1(4286578688u);\n",
            tiles * heads,
            heads / kv_heads,
            bq * depth,
            place("h", heads, "at", queries, depth),
            self.scale,
        );
        for i in 0..each {
            body.push_str(&format!(
                "    let row{i} = q0 + r + {i}u;\n    var top{i} = -3.4028234e38;\n    var sum{i} = 0.0;\n"
            ));
            for m in 0..columns {
                body.push_str(&format!("    var o{i}_{m} = {kind}(0.0);\n"));
            }
        }
        let mut sources = Vec::new();
        if let Some(past) = self.past {
            body.push_str(&past::end(past));
            sources.push(Source {
                names: ["past_key", "past_value"],
                heads_inside: false,
                length: past.capacity,
                end: "past_end".to_owned(),
                bound: "past_end".to_owned(),
                column: 0,
                causal: None,
            });
        }
        let end = match (self.causal, seen) {
            (Some(shift), _) => format!("u32(clamp(i32(q0) + {bq} + ({shift}), 0, {keys}))"),
            (None, Some(mask)) => {
                // keys behind the last one that a query of the tile sees are not read
                let first = self.past.map_or(0, |past| past.capacity);
                let visible = self.mask_at(mask, "(q0 + i / KEYSu)", &format!("{first}u + i % KEYSu"));
                body.push_str(
                    &format!(
                        "    {{ var most = 0u;
    for (var i = thread; i < {}u; i += {all}u) {{
        if {visible} {{ most = max(most, i % KEYSu + 1u); }}
    }}
    part[thread] = f32(most);
    workgroupBarrier();
    if thread == 0u {{
        var last = 0.0;
        for (var i = 0u; i < {all}u; i++) {{ last = max(last, part[i]); }}
        seen_ends[0] = u32(last);
    }}
    workgroupBarrier(); }}
    let seen_end = seen_ends[0];\n",
                        bq * keys
                    )
                    .replace("KEYS", &keys.to_string()),
                );
                "seen_end".to_owned()
            }
            (None, None) => format!("{keys}u"),
        };
        sources.push(Source {
            names: ["key", "value"],
            heads_inside: self.heads_inside,
            length: keys,
            end,
            bound: format!("{keys}u"),
            column: self.past.map_or(0, |past| past.capacity),
            causal: self.causal,
        });
        for from in &sources {
            let bound = &from.bound;
            body.push_str(&format!(
                "    {{ let end = {};\n    for (var k0 = 0u; k0 < end; k0 += {bk}u) {{\n",
                from.end
            ));
            body.push_str("        workgroupBarrier();\n");
            body.push_str(&load(from, 0));
            body.push_str("        workgroupBarrier();\n");
            let pairs = || (0..each).flat_map(|i| (0..scores).map(move |m| (i, m)));
            for (i, m) in pairs() {
                body.push_str(&format!("        var s{i}_{m} = 0.0;\n"));
            }
            body.push_str(&format!("        for (var c = 0u; c < {depth}u; c++) {{\n"));
            for i in 0..each {
                body.push_str(&format!(
                    "            let a{i} = qs[(r + {i}u) * {depth}u + c];\n"
                ));
            }
            for m in 0..scores {
                body.push_str(&format!(
                    "            let k{m} = kv[(l + {}u) * {pitch}u + c];\n",
                    m * tq
                ));
            }
            for (i, m) in pairs() {
                body.push_str(&format!("            s{i}_{m} += {};\n", dot(i, m)));
            }
            body.push_str("        }\n");
            for (i, m) in pairs() {
                let at = format!("(k0 + l + {}u)", m * tq);
                let row = format!("row{i}");
                let column = format!("{}u + min({at}, {}u)", from.column, from.length - 1);
                body.push_str(&self.masked(&format!("s{i}_{m}"), &row, &column));
                let unseen = match from.causal {
                    Some(shift) => format!(" || i32({at}) > i32({row}) + ({shift})"),
                    None => String::new(),
                };
                body.push_str(&format!(
                    "        if {at} >= {bound}{unseen} {{ s{i}_{m} = none; }}\n"
                ));
            }
            for i in 0..each {
                let largest = (1..scores).fold(format!("s{i}_0"), |all, m| format!("max({all}, s{i}_{m})"));
                body.push_str(&format!("        part[{}u + thread] = {largest};\n", i * all));
            }
            body.push_str("        workgroupBarrier();\n");
            for i in 0..each {
                body.push_str(&format!(
                    "        var peak{i} = top{i};
        for (var i = 0u; i < {tq}u; i++) {{ peak{i} = max(peak{i}, part[{}u + thread / {tq}u * {tq}u + i]); }}
        let fade{i} = exp(top{i} - peak{i});
        top{i} = peak{i};
        sum{i} *= fade{i};\n",
                    i * all
                ));
            }
            for (i, m) in pairs() {
                body.push_str(&format!(
                    "        s{i}_{m} = exp(s{i}_{m} - peak{i});\n        sum{i} += s{i}_{m};\n        ps[(r + {i}u) * {bk}u + l + {}u] = s{i}_{m};\n",
                    m * tq
                ));
            }
            body.push_str(&load(from, 1));
            body.push_str("        workgroupBarrier();\n");
            for i in 0..each {
                for m in 0..columns {
                    body.push_str(&format!("        o{i}_{m} *= fade{i};\n"));
                }
            }
            body.push_str(&format!("        for (var k = 0u; k < {bk}u; k++) {{\n"));
            for i in 0..each {
                body.push_str(&format!("            let p{i} = ps[(r + {i}u) * {bk}u + k];\n"));
            }
            for m in 0..columns {
                // a column beyond the last reads another key's, or the row's spare place, and is not stored
                let column = format!("min(l + {}u, {}u)", m * tq, value_depth - 1);
                body.push_str(&format!("            {{ let v = kv[k * {pitch}u + {column}];"));
                for i in 0..each {
                    body.push_str(&format!(" o{i}_{m} += p{i} * v;"));
                }
                body.push_str(" }\n");
            }
            body.push_str("        }\n    } }\n");
        }
        for i in 0..each {
            body.push_str(&format!("    part[{}u + thread] = sum{i};\n", i * all));
        }
        body.push_str("    workgroupBarrier();\n");
        for i in 0..each {
            body.push_str(&format!(
                "    {{ var total = 0.0;
    for (var i = 0u; i < {tq}u; i++) {{ total += part[{}u + thread / {tq}u * {tq}u + i]; }}
    let factor = select(1.0 / total, 0.0, total == 0.0);
    if row{i} < {queries}u {{
    let target0 = {};\n",
                i * all,
                place("h", heads, &format!("row{i}"), queries, value_depth)
            ));
            for m in 0..columns {
                let column = format!("l + {}u", m * tq);
                let value = format!("o{i}_{m} * factor");
                let value = match (scalar, w) {
                    (Scalar::F16, 1) => format!("f16({value})"),
                    (Scalar::F16, _) => format!("vec4<f16>({value})"),
                    _ => value,
                };
                body.push_str(&format!(
                    "    if {column} < {value_depth}u {{ out[target0 + {column}] = {value}; }}\n"
                ));
            }
            body.push_str("    } }\n");
        }
        let variant = format!("attention{}-{bq}x{bk}x{w}x{each}", self.ways());
        let work = self.work();
        text.kernel(variant, [all as u32, 1, 1], groups, work, &body, limits)
    }

    /// Multiply-adds, where half of the past is seen.
    fn work(&self) -> u64 {
        let past = self.past.map_or(0, |past| past.capacity / 2);
        self.batch * self.heads * self.queries * (self.keys + past) * (self.depth + self.value_depth)
    }
}

impl Mask {
    /// Elements that it reaches.
    fn count(&self, of: &Attention) -> u64 {
        let dims = [of.batch, of.heads, of.queries];
        let reach = self.strides.iter().zip(dims);
        let columns = of.keys + of.past.map_or(0, |past| past.capacity);
        reach.fold(columns, |sum, (stride, dim)| {
            sum.saturating_add(stride.saturating_mul(dim - 1))
        })
    }
}

impl Generate for Attention {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.check()?;
        match self.past {
            Some(past) if self.is_step() => step::kernel(self, past, limits),
            _ => self.tiled(limits),
        }
    }

    fn sample(&self) -> Sample {
        let shapes = self.shapes();
        let Attention {
            queries,
            keys,
            depth,
            value_depth,
            scalar,
            ..
        } = *self;
        let tensor = |seed: u32, shape: &[u64; 4]| Values::some(scalar, seed, element::size(shape));
        let inputs: Vec<Values> = (1..)
            .zip(&shapes[..3])
            .map(|(seed, shape)| tensor(seed, shape))
            .collect();
        let capacity = self.past.map_or(0, |past| past.capacity);
        let shown = capacity * 2 / 3;
        let columns = (capacity + keys) as usize;
        let mask = self.mask.map(|mask| {
            let count = mask.count(self) as usize;
            let values = match mask.scalar {
                // all rows hide the end of the past, each some others
                Scalar::Bool => Values::U8(
                    Values::floats(4, count)
                        .iter()
                        .enumerate()
                        .map(|(i, x)| {
                            let column = (i % columns) as u64;
                            u8::from(*x > -0.5 && (column < shown || column >= capacity))
                        })
                        .collect(),
                ),
                scalar => Values::spread(scalar, 4, count, -3.0, 0.0),
            };
            (mask, values)
        });
        let past: Vec<Values> = self.past.map_or(Vec::new(), |past| {
            let count = |depth| element::size(&[self.batch, self.kv_heads, capacity, depth]);
            vec![
                Values::some(past.scalar, 5, count(self.depth)),
                Values::some(past.scalar, 6, count(self.value_depth)),
                past::partials(past, shown),
            ]
        });
        let at = |shape: &[u64; 4], [b, h, s, d]: [usize; 4]| {
            if self.heads_inside {
                element::ravel(&[b, s, h, d], &[shape[0], shape[2], shape[1], shape[3]])
            } else {
                element::ravel(&[b, h, s, d], shape)
            }
        };
        let raw = |tensor: usize, place: [usize; 4]| {
            inputs[tensor].number(scalar, at(&shapes[tensor], place)).to_f64()
        };
        let rows = self.new_rows.map(|rows| NewRowsSample::new(self, rows));
        let read = |tensor: usize, place: [usize; 4]| match &rows {
            Some(rows) => rows.value(tensor, place, &raw),
            None => raw(tensor, place),
        };
        let mut numbers = vec![Number::F32(0.0); element::size(&shapes[3])];
        for row in 0..(self.batch * self.heads * queries) as usize {
            let places = element::unravel(row, &shapes[3][..3]);
            let (b, h, q) = (places[0], places[1], places[2]);
            let g = h / (self.heads / self.kv_heads) as usize;
            // a column is a position of the past, or a key
            let operand = |which: usize, column: usize, d: usize| match self.past {
                Some(memory) if column < memory.capacity as usize => {
                    let depth = [self.depth, self.value_depth][which];
                    let shape = [self.batch, self.kv_heads, memory.capacity, depth];
                    let at = element::ravel(&[b, g, column, d], &shape);
                    past[which].number(memory.scalar, at).to_f64()
                }
                _ => read(1 + which, [b, g, column - capacity as usize, d]),
            };
            let scores: Vec<f64> = (0..columns)
                .map(|k| {
                    let hidden = k as u64 >= shown && (k as u64) < capacity;
                    if hidden || self.causal.is_some_and(|shift| k as i64 > q as i64 + shift) {
                        return f64::NEG_INFINITY;
                    }
                    let product: f64 = (0..depth as usize)
                        .map(|d| read(0, [b, h, q, d]) * operand(0, k, d))
                        .sum();
                    let masked = mask.as_ref().map_or(0.0, |(mask, values)| {
                        let [sb, sh, sq] = mask.strides;
                        let at = b as u64 * sb + h as u64 * sh + q as u64 * sq + k as u64;
                        match (mask.scalar, values.number(mask.scalar, at as usize)) {
                            (Scalar::Bool, Number::Bool(true)) => 0.0,
                            (Scalar::Bool, _) => f64::NEG_INFINITY,
                            (_, number) => number.to_f64(),
                        }
                    });
                    product * f64::from(self.scale) + masked
                })
                .collect();
            let top = scores.iter().copied().fold(f64::MIN, f64::max);
            let shares: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
            let sum: f64 = shares.iter().sum();
            for d in 0..value_depth as usize {
                let mixed = shares.iter().enumerate().map(|(k, p)| p * operand(1, k, d));
                let mixed: f64 = mixed.sum();
                let value = if sum == 0.0 { 0.0 } else { mixed / sum };
                numbers[at(&shapes[3], [b, h, q, d])] = Number::F32(value as f32);
            }
        }
        let mut before = inputs;
        before.extend(past);
        before.extend(mask.map(|(_, values)| values));
        before.extend(rows.into_iter().flat_map(|rows| rows.operands));
        let mut after = vec![None; before.len()];
        before.push(Values::zeros(scalar, numbers.len()));
        after.push(Some(Values::of_numbers(scalar, &numbers)));
        Sample {
            before,
            after,
            tolerance: if scalar == Scalar::F16 { 2e-3 } else { 1e-5 },
        }
    }
}
