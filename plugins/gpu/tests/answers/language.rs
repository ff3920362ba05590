//! What language models are made of: products with weights in blocks, rotated positions, attention over a past.

use polychip_graph::{Encoding, TensorId};
use polychip_host::Device;
use polychip_ops::{Attr, Attributes, BlockLayout, DType, Op};

use crate::net::{EXACT, Judge, Net, behind_a_link, gpu};
use crate::{Test, tests};

/// What is judged here.
pub(crate) const TESTS: &[Test] = &tests![
    weights_in_blocks_of_every_layout,
    blocks_in_reduced_precision_stay_near,
    positions_are_rotated,
    a_layer_over_a_past,
    a_layer_of_one_token_over_a_past,
    a_layer_behind_a_link,
    past_with_other_readers,
    a_block_of_few_tokens,
    a_block_of_few_tokens_behind_a_link,
    a_block_in_reduced_precision_stays_near,
    intermediate_results_of_a_block_are_outputs_too,
];

/// ONNX's codes of types.
const F32: i64 = 1;
const F16: i64 = 10;

/// Weights `[rows, depth]` in blocks of arbitrary bytes, whose scales are small.
fn blocks(net: &mut Net, layout: BlockLayout, rows: usize, depth: usize) -> TensorId {
    let (size, count) = (layout.bytes(), rows * depth / layout.elements());
    let scales: &[usize] = match layout {
        BlockLayout::Q4_0 | BlockLayout::Q8_0 | BlockLayout::Q5_0 => &[0],
        BlockLayout::IQ4_NL | BlockLayout::IQ4_XS => &[0],
        BlockLayout::Q4_1 | BlockLayout::Q5_1 | BlockLayout::Q4_K | BlockLayout::Q5_K => &[0, 2],
        BlockLayout::Q2_K => &[80, 82],
        BlockLayout::Q3_K => &[108],
        BlockLayout::Q6_K => &[208],
        BlockLayout::MXFP4 => &[],
    };
    let mut bytes: Vec<u8> = (0..size * count)
        .map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    for (index, block) in bytes.chunks_exact_mut(size).enumerate() {
        for &at in scales {
            let scale = half::f16::from_f32(0.001 + 0.0001 * (index % 9) as f32);
            block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
        if layout == BlockLayout::MXFP4 {
            // 2^-8 to 2^-6
            block[0] = 120 + (index % 3) as u8;
        }
    }
    let weights = net.constant(DType::U8, &[rows, depth], bytes);
    net.encode(weights, Encoding::blocks(layout));
    weights
}

fn linear(net: &mut Net, x: TensorId, weights: TensorId) -> TensorId {
    net.node(
        Op::Gemm,
        Attributes::new().with_int(Attr::TransB, 1),
        &[x, weights],
    )
}

fn products(judge: Judge) {
    for layout in BlockLayout::ALL {
        for rows in [1, 3, 11] {
            let mut net = Net::new();
            let x = net.input(&[rows, 512]);
            let weights = blocks(&mut net, layout, 37, 512);
            let product = linear(&mut net, x, weights);
            let (bias, residual) = (net.weights(&[37]), net.input(&[rows, 37]));
            let sum = net.plain(Op::Add, &[product, bias]);
            let sum = net.plain(Op::Add, &[sum, residual]);
            let out = net.plain(Op::Swish, &[sum]);
            net.output(out);
            net.check_as(judge);
        }
    }
}

fn weights_in_blocks_of_every_layout() {
    // the CPU rounds what it multiplies with a block to 16 bits
    products(Judge {
        relative: 2e-4,
        ..EXACT
    });
}

fn blocks_in_reduced_precision_stay_near() {
    products(Judge {
        relative: 1e-2,
        reduced: true,
        ..EXACT
    });
}

fn positions_are_rotated() {
    for (interleaved, rotated) in [(0, 0), (1, 0), (0, 8), (1, 4)] {
        let mut net = Net::new();
        let half = if rotated == 0 { 6 } else { rotated / 2 };
        let x = net.input(&[1, 5, 36]);
        let (cosines, sines) = (net.weights(&[9, half]), net.weights(&[9, half]));
        let positions: Vec<u8> = [3i64, 4, 0, 8, 1]
            .iter()
            .flat_map(|at| at.to_le_bytes())
            .collect();
        let positions = net.fed(DType::I64, &[1, 5], positions);
        let attributes = Attributes::new()
            .with_int(Attr::NumHeads, 3)
            .with_int(Attr::Interleaved, interleaved)
            .with_int(Attr::RotaryEmbeddingDim, rotated as i64);
        let out = net.node(Op::RotaryEmbedding, attributes, &[x, cosines, sines, positions]);
        net.output(out);
        // heads of their own, and angles of each row
        let x = net.input(&[2, 3, 4, 2 * half]);
        let (cosines, sines) = (net.input(&[2, 4, half]), net.input(&[2, 4, half]));
        let attributes = Attributes::new().with_int(Attr::Interleaved, interleaved);
        let out = net.node(Op::RotaryEmbedding, attributes, &[x, cosines, sines]);
        net.output(out);
        net.check();
    }
}

/// Attention of `rows` new tokens over a KV cache with `seen` visible positions. The new keys and the new values are
/// f16 outputs.
fn layer(rows: usize, seen: usize, shared: bool) -> Net {
    let (heads, kv_heads, size, capacity) = (6, 2, 16, 50);
    let mut net = Net::new();
    let x = net.input(&[rows, 64]);
    let [q, k, v] = [heads, kv_heads, kv_heads].map(|count| {
        let weights = blocks(&mut net, BlockLayout::Q4_0, count * size, 64);
        let shape = net.ints(&[1, rows as i64, (count * size) as i64]);
        let product = linear(&mut net, x, weights);
        net.plain(Op::Reshape, &[product, shape])
    });
    let [k, v] = [k, v].map(|x| {
        let half = net.node(Op::Cast, Attributes::new().with_int(Attr::To, F16), &[x]);
        net.output(half);
        net.node(Op::Cast, Attributes::new().with_int(Attr::To, F32), &[half])
    });
    let past = [1, kv_heads, capacity, size];
    let [past_k, past_v] = [0, 1].map(|_| {
        let stored = net.input_of(DType::F16, &past);
        net.node(Op::Cast, Attributes::new().with_int(Attr::To, F32), &[stored])
    });
    let mask: Vec<u8> = (0..rows)
        .flat_map(|row| {
            let past = (0..capacity).map(move |at| u8::from(at < seen && (at != 3 || row != 1)));
            past.chain((0..rows).map(move |at| u8::from(at <= row)))
        })
        .collect();
    let mask = net.fed(DType::Bool, &[rows, capacity + rows], mask);
    let attributes = Attributes::new()
        .with_int(Attr::QNumHeads, heads as i64)
        .with_int(Attr::KvNumHeads, kv_heads as i64);
    let out = net.node(
        Op::Attention,
        attributes.clone(),
        &[q, k, v, mask, past_k, past_v],
    );
    net.output(out);
    // a second layer over the same mask
    let out = net.node(Op::Attention, attributes, &[out, k, v, mask, past_v, past_k]);
    net.output(out);
    if shared {
        let sum = net.plain(Op::Add, &[past_k, past_v]);
        net.output(sum);
    }
    net
}

fn over_a_past(on: &Device, rows: usize, shared: bool) {
    let near = Judge {
        relative: 1e-3,
        ..EXACT
    };
    for seen in [0, 1, 33, 50] {
        layer(rows, seen, shared).check_on(on, near);
    }
}

fn a_layer_over_a_past() {
    over_a_past(&gpu(), 7, false);
}

fn a_layer_of_one_token_over_a_past() {
    over_a_past(&gpu(), 1, false);
}

fn a_layer_behind_a_link() {
    over_a_past(&behind_a_link(), 7, false);
    over_a_past(&behind_a_link(), 1, false);
}

fn past_with_other_readers() {
    over_a_past(&gpu(), 3, true);
}

/// What a block is like besides its sizes.
#[derive(Clone, Copy, Default)]
struct Ways {
    interleaved: bool,
    /// Biases of queries, keys and values.
    biases: bool,
    /// Whether results that kernels of the block hide are outputs too.
    shown: bool,
}

/// A block of attention and feed-forward over a KV cache with `seen` visible positions, as decoders have it.
fn block(layout: BlockLayout, rows: usize, seen: usize, ways: Ways) -> Net {
    let (heads, kv_heads, size, capacity, width, inner) = (4, 2, 64, 40, 256, 512);
    let mut net = Net::new();
    let x = net.input(&[rows, width]);
    let positions: Vec<u8> = (0..rows)
        .flat_map(|row| ((seen + row) as i64).to_le_bytes())
        .collect();
    let positions = net.fed(DType::I64, &[1, rows], positions);
    let mask: Vec<u8> = (0..rows)
        .flat_map(|row| {
            let past = (0..capacity).map(move |at| u8::from(at < seen));
            past.chain((0..rows).map(move |at| u8::from(at <= row)))
        })
        .collect();
    let mask = net.fed(DType::Bool, &[rows, capacity + rows], mask);
    let (cosines, sines) = (net.weights(&[64, size / 2]), net.weights(&[64, size / 2]));
    let mut shown = Vec::new();
    let norm = |net: &mut Net, x| {
        let scale = net.weights(&[width]);
        let attributes = Attributes::new()
            .with_int(Attr::Axis, -1)
            .with_float(Attr::Epsilon, 1e-5);
        net.node(Op::RMSNormalization, attributes, &[x, scale])
    };
    let normed = norm(&mut net, x);
    shown.push(normed);
    let [q, k, v] = [heads, kv_heads, kv_heads].map(|count| {
        let weights = blocks(&mut net, layout, count * size, width);
        let shape = net.ints(&[1, rows as i64, (count * size) as i64]);
        let product = if ways.biases {
            let bias = net.weights(&[count * size]);
            let attributes = Attributes::new().with_int(Attr::TransB, 1);
            net.node(Op::Gemm, attributes, &[normed, weights, bias])
        } else {
            linear(&mut net, normed, weights)
        };
        net.plain(Op::Reshape, &[product, shape])
    });
    let [q, k] = [(q, heads), (k, kv_heads)].map(|(x, count)| {
        let attributes = Attributes::new()
            .with_int(Attr::NumHeads, count as i64)
            .with_int(Attr::Interleaved, i64::from(ways.interleaved));
        net.node(Op::RotaryEmbedding, attributes, &[x, cosines, sines, positions])
    });
    shown.extend([q, k]);
    let [k, v] = [k, v].map(|x| {
        let half = net.node(Op::Cast, Attributes::new().with_int(Attr::To, F16), &[x]);
        net.output(half);
        net.node(Op::Cast, Attributes::new().with_int(Attr::To, F32), &[half])
    });
    shown.extend([k, v]);
    let past = [1, kv_heads, capacity, size];
    let [past_k, past_v] = [0, 1].map(|_| {
        let stored = net.input_of(DType::F16, &past);
        net.node(Op::Cast, Attributes::new().with_int(Attr::To, F32), &[stored])
    });
    let attributes = Attributes::new()
        .with_int(Attr::QNumHeads, heads as i64)
        .with_int(Attr::KvNumHeads, kv_heads as i64);
    let attended = net.node(Op::Attention, attributes, &[q, k, v, mask, past_k, past_v]);
    let shape = net.ints(&[rows as i64, (heads * size) as i64]);
    let attended = net.plain(Op::Reshape, &[attended, shape]);
    let weights = blocks(&mut net, layout, width, heads * size);
    let product = linear(&mut net, attended, weights);
    let x = net.plain(Op::Add, &[x, product]);
    let normed = norm(&mut net, x);
    let [gate, up] = [0, 1].map(|_| {
        let weights = blocks(&mut net, layout, inner, width);
        linear(&mut net, normed, weights)
    });
    shown.push(up);
    let gate = net.plain(Op::Swish, &[gate]);
    let gated = net.plain(Op::Mul, &[gate, up]);
    let weights = blocks(&mut net, layout, width, inner);
    let product = linear(&mut net, gated, weights);
    let out = net.plain(Op::Add, &[x, product]);
    net.output(out);
    if ways.shown {
        shown.into_iter().for_each(|tensor| net.output(tensor));
    }
    net
}

const NEAR: Judge = Judge {
    relative: 1e-3,
    ..EXACT
};

fn blocks_on(on: &Device, judge: Judge) {
    let interleaved = Ways {
        interleaved: true,
        ..Ways::default()
    };
    let biases = Ways {
        biases: true,
        ..Ways::default()
    };
    for (layout, rows, seen, ways) in [
        (BlockLayout::Q4_K, 1, 33, Ways::default()),
        (BlockLayout::Q4_K, 1, 0, interleaved),
        (BlockLayout::Q6_K, 1, 40, interleaved),
        (BlockLayout::Q5_K, 1, 7, biases),
        (BlockLayout::Q4_0, 1, 1, Ways::default()),
        (BlockLayout::Q8_0, 4, 20, interleaved),
        (BlockLayout::Q4_K, 3, 33, biases),
        // attention of many queries, products of few rows
        (BlockLayout::Q4_K, 6, 33, Ways::default()),
        (BlockLayout::Q4_K, 17, 33, Ways::default()),
    ] {
        block(layout, rows, seen, ways).check_on(on, judge);
    }
}

fn a_block_of_few_tokens() {
    blocks_on(&gpu(), NEAR);
}

fn a_block_of_few_tokens_behind_a_link() {
    blocks_on(&behind_a_link(), NEAR);
}

fn a_block_in_reduced_precision_stays_near() {
    let reduced = Judge {
        relative: 2e-2,
        reduced: true,
        ..EXACT
    };
    blocks_on(&gpu(), reduced);
}

fn intermediate_results_of_a_block_are_outputs_too() {
    let shown = Ways {
        shown: true,
        ..Ways::default()
    };
    for on in [gpu(), behind_a_link()] {
        block(BlockLayout::Q4_K, 1, 33, shown).check_on(&on, NEAR);
    }
}
