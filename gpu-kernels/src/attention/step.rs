//! A few queries over a KV cache, as in decoding: a workgroup computes one query of one head, and
//! each of its threads reads one key directly from memory, since no other query of the head reads
//! that key.

use super::past::{self, Past};
use super::problem::{Attention, Source};
use crate::{Kernel, Limits, Result, Scalar, Type, WgslBuilder, element};

/// Most queries that are computed so.
pub(super) const MOST: u64 = 4;

/// Threads of a workgroup, and keys of a tile.
const THREADS: u64 = 256;

/// Whether a workgroup has a thread for each column of a value.
pub(super) fn fits(of: &Attention) -> bool {
    of.value_depth <= THREADS
}

pub(super) fn kernel(of: &Attention, memory: Past, limits: &Limits) -> Result<Kernel> {
    let Attention {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        scalar,
        ..
    } = *of;
    let four = of.depth.is_multiple_of(4) && of.value_depth.is_multiple_of(4);
    let w = if four { 4u64 } else { 1 };
    let (depth, columns) = (of.depth / w, of.value_depth / w);
    // teams of threads that share the keys of a tile, one thread a column
    let teams = THREADS / columns.max(1);
    let kind = Type::F32.text(w as u32);
    let mut text = WgslBuilder::new();
    of.declare(&mut text, w);
    text.shared("qs", &kind, 4 * w as u32, depth as u32);
    text.shared("ps", "f32", 4, THREADS as u32);
    text.shared("part", "f32", 4, THREADS as u32);
    text.shared("mixed", &kind, 4 * w as u32, THREADS as u32);
    past::declare_end(&mut text);
    let (groups, number) = element::spread(queries * batch * heads, limits);
    let place = |inside: bool, heads: u64, head: &str, length: u64, position: &str, depth: u64| {
        if inside {
            format!("((b * {length}u + {position}) * {heads}u + {head}) * {depth}u")
        } else {
            format!("((b * {heads}u + {head}) * {length}u + {position}) * {depth}u")
        }
    };
    let mut body = format!(
        "    let number = {number};
    let row = number % {queries}u;
    let b = number / {}u;
    let h = (number / {queries}u) % {heads}u;
    let g = h / {}u;
    for (var c = thread; c < {depth}u; c += {THREADS}u) {{
        qs[c] = {kind}(query[{} + c]) * f32({:?});
    }}
    let none = px_bits1(4286578688u);
    var top = -3.4028234e38;
    var sum = 0.0;
    var o = {kind}(0.0);
    let team = thread / {columns}u;
    let column = thread % {columns}u;\n",
        queries * heads,
        heads / kv_heads,
        place(of.heads_inside, heads, "h", queries, "row", depth),
        of.scale,
    );
    // passes a barrier, behind which `qs` is there
    body.push_str(&past::end(memory));
    let sources = [
        Source {
            names: ["past_key", "past_value"],
            heads_inside: false,
            length: memory.capacity,
            end: "past_end".to_owned(),
            bound: "past_end".to_owned(),
            column: 0,
            causal: None,
        },
        Source {
            names: ["key", "value"],
            heads_inside: of.heads_inside,
            length: keys,
            end: format!("{keys}u"),
            bound: format!("{keys}u"),
            column: memory.capacity,
            causal: None,
        },
    ];
    let tree = |combine: &str| {
        format!(
            "        workgroupBarrier();
        for (var step = {}u; step > 0u; step >>= 1u) {{
            if thread < step {{ part[thread] = {combine}; }}
            workgroupBarrier();
        }}\n",
            THREADS / 2
        )
    };
    let dot = if w == 4 { "dot(qs[c], k)" } else { "qs[c] * k" };
    for from in &sources {
        let [key, value] = from.names;
        let at = |depth| place(from.heads_inside, kv_heads, "g", from.length, "at", depth);
        body.push_str(&format!(
            "    {{ let end = {};
    for (var k0 = 0u; k0 < end; k0 += {THREADS}u) {{
        var score = none;
        if k0 + thread < end {{
            let at = k0 + thread;
            let first = {};
            score = 0.0;
            for (var c = 0u; c < {depth}u; c++) {{
                let k = {kind}({key}[first + c]);
                score += {dot};
            }}
    {}        }}
        part[thread] = score;\n",
            from.end,
            at(depth),
            of.masked("score", &format!("{}u + at", from.column)),
        ));
        body.push_str(&tree("max(part[thread], part[thread + step])"));
        body.push_str(&format!(
            "        let peak = max(top, part[0]);
        let fade = exp(top - peak);
        top = peak;
        let share = exp(score - peak);
        sum = sum * fade + share;
        ps[thread] = share;
        workgroupBarrier();
        o *= fade;
        let count = min({THREADS}u, end - k0);
        if team < {teams}u {{
            for (var k = team; k < count; k += {teams}u) {{
                let at = k0 + k;
                o += ps[k] * {kind}({value}[{} + column]);
            }}
        }}
        workgroupBarrier();
    }} }}\n",
            at(columns)
        ));
    }
    body.push_str("    part[thread] = sum;\n    mixed[thread] = o;\n");
    body.push_str(&tree("part[thread] + part[thread + step]"));
    let result = match (scalar, w) {
        (Scalar::F16, 1) => "f16(all * factor)",
        (Scalar::F16, _) => "vec4<f16>(all * factor)",
        _ => "all * factor",
    };
    body.push_str(&format!(
        "    let total = part[0];
    let factor = select(1.0 / total, 0.0, total == 0.0);
    if thread >= {columns}u {{ return; }}
    var all = mixed[thread];
    for (var s = 1u; s < {teams}u; s++) {{ all += mixed[s * {columns}u + thread]; }}
    out[{} + thread] = {result};\n",
        place(of.heads_inside, heads, "h", queries, "row", columns)
    ));
    let variant = format!("attention{}-step-x{w}", of.ways());
    text.kernel(variant, [THREADS as u32, 1, 1], groups, of.work(), &body, limits)
}
