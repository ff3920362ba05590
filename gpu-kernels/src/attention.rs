//! Scaled dot-product attention in one kernel: no matrix of scores reaches memory.
//!
//! Invariants:
//! 1. Products, exponentials and sums are in f32, whatever the storage.
//! 2. A query that sees no key gives zeros.

use serde::{Deserialize, Serialize};

use crate::{
    Access, Error, Generate, Kernel, Limits, Number, Result, Sample, Scalar, Text, Type, Values, element,
};

/// A mask that is added to the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mask {
    /// Elements from one batch to the next, head, query; 0 where it is broadcast. Keys lie side by side.
    pub strides: [u64; 3],
    /// How it is bound.
    pub access: Access,
}

/// `softmax(scale * q k' + mask) v`. Bindings: q `[batch, heads, queries, depth]`, k `[batch, kv_heads, keys,
/// depth]`, v `[batch, kv_heads, keys, value_depth]`, the mask if any, output `[batch, heads, queries,
/// value_depth]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// Type of all: `f32` or `f16`.
    pub scalar: Scalar,
    /// Batches.
    pub batch: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values, a divisor of `heads`.
    pub kv_heads: u64,
    /// Queries.
    pub queries: u64,
    /// Keys.
    pub keys: u64,
    /// Values of a query and of a key.
    pub depth: u64,
    /// Values of a value.
    pub value_depth: u64,
    /// Factor of the scores.
    pub scale: f32,
    /// Query `i` sees keys up to `i` and this many more only: 0 for ONNX `is_causal`.
    pub causal: Option<i64>,
    /// Mask.
    pub mask: Option<Mask>,
    /// Whether heads lie inside the sequence, `[batch, queries, heads, depth]` and so on, in all tensors.
    pub heads_inside: bool,
}

/// Sizes of a kernel.
struct Tiles {
    /// Queries of a workgroup.
    queries: u64,
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
        }
        if self.causal.is_some_and(|shift| shift.unsigned_abs() >= 1 << 30) {
            return Err(Error::new(format!("attention: {self:?}")));
        }
        Ok(())
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
        let queries = self.queries.next_power_of_two().min(most);
        let threads = if queries >= 8 { 8 } else { 32 };
        let four = self.depth.is_multiple_of(4) && self.value_depth.is_multiple_of(4);
        let width = if four { 4 } else { 1 };
        // one more: neighbouring keys lie in different banks
        let pitch = self.depth.max(self.value_depth) / width + 1;
        let mut keys = 32;
        loop {
            let shared = 4 * (queries * self.depth + keys * pitch * width + queries * (keys + threads));
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
            threads,
            keys,
            width,
            pitch,
        })
    }
}

impl Mask {
    /// Elements that it reaches.
    fn count(&self, of: &Attention) -> u64 {
        let dims = [of.batch, of.heads, of.queries];
        let reach = self.strides.iter().zip(dims);
        reach.fold(of.keys, |sum, (stride, dim)| {
            sum.saturating_add(stride.saturating_mul(dim - 1))
        })
    }
}

impl Generate for Attention {
    fn small(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.check()?;
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
        let (w, pitch, bq, bk, tq) = (t.width, t.pitch, t.queries, t.keys, t.threads);
        let (depth, value_depth) = (self.depth / w, self.value_depth / w);
        let all = bq * tq;
        let kind = Type::F32.text(w as u32);
        let mut text = Text::new();
        for (name, shape) in ["query", "key", "value"].iter().zip(self.shapes()) {
            text.binding(name, Access::Read, scalar, w as u32, shape.iter().product());
        }
        if let Some(mask) = self.mask {
            element::declare(&mut text, "mask", mask.access, scalar, mask.count(self));
        }
        let total = self.shapes()[3].iter().product();
        text.binding("out", Access::Write, scalar, w as u32, total);
        text.shared("qs", &kind, 4 * w as u32, (bq * depth) as u32);
        text.shared("kv", &kind, 4 * w as u32, (bk * pitch) as u32);
        text.shared("ps", "f32", 4, (bq * bk) as u32);
        text.shared("part", "f32", 4, all as u32);
        // element (vector) of a head's position, heads being outside or inside the sequence
        let place = |head: &str, heads: u64, position: &str, length: u64, depth: u64| match self.heads_inside
        {
            true => format!("((b * {length}u + {position}) * {heads}u + {head}) * {depth}u"),
            false => format!("((b * {heads}u + {head}) * {length}u + {position}) * {depth}u"),
        };
        let tiles = queries.div_ceil(bq);
        let (groups, number) = element::spread(tiles * batch * heads, limits);
        let scores = bk / tq;
        let columns = value_depth.div_ceil(tq);
        let dot = if w == 4 { "dot(a, KEY)" } else { "a * KEY" };
        let load = |name: &str, depth: u64| {
            format!(
                "        for (var i = thread; i < {}u; i += {all}u) {{
            let at = k0 + i / {depth}u;
            var v = {kind}(0.0);
            if at < {keys}u {{ v = {kind}({name}[{} + i % {depth}u]); }}
            kv[(i / {depth}u) * {pitch}u + i % {depth}u] = v;
        }}\n",
                bk * depth,
                place("g", kv_heads, "at", keys, depth)
            )
        };
        let mut body = format!(
            "    let number = {number};
    let q0 = (number % {tiles}u) * {bq}u;
    let b = number / {}u;
    let h = (number / {tiles}u) % {heads}u;
    let g = h / {}u;
    let r = thread / {tq}u;
    let l = thread % {tq}u;
    let row = q0 + r;
    for (var i = thread; i < {}u; i += {all}u) {{
        let at = q0 + i / {depth}u;
        var v = {kind}(0.0);
        if at < {queries}u {{ v = {kind}(query[{} + i % {depth}u]) * f32({:?}); }}
        qs[i] = v;
    }}
    let none = px_bits1(4286578688u);
    var top = -3.4028234e38;
    var sum = 0.0;\n",
            tiles * heads,
            heads / kv_heads,
            bq * depth,
            place("h", heads, "at", queries, depth),
            self.scale,
        );
        for m in 0..columns {
            body.push_str(&format!("    var o{m} = {kind}(0.0);\n"));
        }
        let end = match self.causal {
            Some(shift) => format!("u32(clamp(i32(q0) + {} + ({shift}), 0, {keys}))", bq),
            None => format!("{keys}u"),
        };
        body.push_str(&format!(
            "    let end = {end};\n    for (var k0 = 0u; k0 < end; k0 += {bk}u) {{\n"
        ));
        body.push_str("        workgroupBarrier();\n");
        body.push_str(&load("key", depth));
        body.push_str("        workgroupBarrier();\n");
        for m in 0..scores {
            body.push_str(&format!("        var s{m} = 0.0;\n"));
        }
        body.push_str(&format!(
            "        for (var c = 0u; c < {depth}u; c++) {{\n            let a = qs[r * {depth}u + c];\n"
        ));
        for m in 0..scores {
            let key = format!("kv[(l + {}u) * {pitch}u + c]", m * tq);
            body.push_str(&format!("            s{m} += {};\n", dot.replace("KEY", &key)));
        }
        body.push_str("        }\n");
        for m in 0..scores {
            let at = format!("(k0 + l + {}u)", m * tq);
            if let Some(mask) = self.mask {
                let [sb, sh, sq] = mask.strides;
                body.push_str(&format!(
                    "        s{m} += f32(mask[b * {sb}u + h * {sh}u + min(row, {}u) * {sq}u + min({at}, {}u)]);\n",
                    queries - 1,
                    keys - 1
                ));
            }
            let unseen = match self.causal {
                Some(shift) => format!(" || i32({at}) > i32(row) + ({shift})"),
                None => String::new(),
            };
            body.push_str(&format!(
                "        if {at} >= {keys}u{unseen} {{ s{m} = none; }}\n"
            ));
        }
        let largest = (1..scores).fold("s0".to_owned(), |all, m| format!("max({all}, s{m})"));
        body.push_str(&format!(
            "        part[thread] = {largest};
        workgroupBarrier();
        var peak = top;
        for (var i = 0u; i < {tq}u; i++) {{ peak = max(peak, part[r * {tq}u + i]); }}
        let fade = exp(top - peak);
        top = peak;
        sum *= fade;\n"
        ));
        for m in 0..scores {
            body.push_str(&format!(
                "        s{m} = exp(s{m} - peak);\n        sum += s{m};\n        ps[r * {bk}u + l + {}u] = s{m};\n",
                m * tq
            ));
        }
        body.push_str(&load("value", value_depth));
        body.push_str("        workgroupBarrier();\n");
        for m in 0..columns {
            body.push_str(&format!("        o{m} *= fade;\n"));
        }
        body.push_str(&format!(
            "        for (var k = 0u; k < {bk}u; k++) {{\n            let p = ps[r * {bk}u + k];\n"
        ));
        for m in 0..columns {
            // a column beyond the last reads another key's, or the row's spare place, and is not stored
            let column = format!("min(l + {}u, {}u)", m * tq, value_depth - 1);
            body.push_str(&format!("            o{m} += p * kv[k * {pitch}u + {column}];\n"));
        }
        body.push_str(&format!(
            "        }}
    }}
    part[thread] = sum;
    workgroupBarrier();
    var total = 0.0;
    for (var i = 0u; i < {tq}u; i++) {{ total += part[r * {tq}u + i]; }}
    let factor = select(1.0 / total, 0.0, total == 0.0);
    if row >= {queries}u {{ return; }}
    let target0 = {};\n",
            place("h", heads, "row", queries, value_depth)
        ));
        for m in 0..columns {
            let column = format!("l + {}u", m * tq);
            let value = format!("o{m} * factor");
            let value = match (scalar, w) {
                (Scalar::F16, 1) => format!("f16({value})"),
                (Scalar::F16, _) => format!("vec4<f16>({value})"),
                _ => value,
            };
            body.push_str(&format!(
                "    if {column} < {value_depth}u {{ out[target0 + {column}] = {value}; }}\n"
            ));
        }
        let causal = if self.causal.is_some() { "-causal" } else { "" };
        let mask = if self.mask.is_some() { "-mask" } else { "" };
        let variant = format!("attention{causal}{mask}-{}-{bq}x{bk}x{w}", scalar.name());
        let work = batch * heads * queries * keys * (self.depth + self.value_depth);
        text.kernel(variant, [all as u32, 1, 1], groups, work, &body, limits)
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
        let mask = self.mask.map(|mask| {
            let count = mask.count(self) as usize;
            (mask.strides, Values::spread(scalar, 4, count, -3.0, 0.0))
        });
        let at = |shape: &[u64; 4], [b, h, s, d]: [usize; 4]| match self.heads_inside {
            true => element::ravel(&[b, s, h, d], &[shape[0], shape[2], shape[1], shape[3]]),
            false => element::ravel(&[b, h, s, d], shape),
        };
        let read = |tensor: usize, place: [usize; 4]| {
            inputs[tensor].number(scalar, at(&shapes[tensor], place)).to_f64()
        };
        let mut numbers = vec![Number::F32(0.0); element::size(&shapes[3])];
        for row in 0..(self.batch * self.heads * queries) as usize {
            let places = element::unravel(row, &shapes[3][..3]);
            let (b, h, q) = (places[0], places[1], places[2]);
            let g = h / (self.heads / self.kv_heads) as usize;
            let scores: Vec<f64> = (0..keys as usize)
                .map(|k| {
                    if self.causal.is_some_and(|shift| k as i64 > q as i64 + shift) {
                        return f64::NEG_INFINITY;
                    }
                    let product: f64 = (0..depth as usize)
                        .map(|d| read(0, [b, h, q, d]) * read(1, [b, g, k, d]))
                        .sum();
                    let masked = mask.as_ref().map_or(0.0, |([sb, sh, sq], values)| {
                        let at = b as u64 * sb + h as u64 * sh + q as u64 * sq + k as u64;
                        values.number(scalar, at as usize).to_f64()
                    });
                    product * f64::from(self.scale) + masked
                })
                .collect();
            let top = scores.iter().copied().fold(f64::MIN, f64::max);
            let shares: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
            let sum: f64 = shares.iter().sum();
            for d in 0..value_depth as usize {
                let mixed = shares.iter().enumerate().map(|(k, p)| p * read(2, [b, g, k, d]));
                let mixed: f64 = mixed.sum();
                let value = if sum == 0.0 { 0.0 } else { mixed / sum };
                numbers[at(&shapes[3], [b, h, q, d])] = Number::F32(value as f32);
            }
        }
        let mut before = inputs;
        before.extend(mask.map(|(_, values)| values));
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
