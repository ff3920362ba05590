//! Structures made by rule: Llama decoder, Stable Diffusion U-Net, HRNet, BiFPN, random wiring.
//!
//! Invariants: the same arguments give the same structure on every host; sizes are those of f16 activations and
//! weights (two bytes) of the published networks, rounded where a network has several variants.
//! Deliberately not here: networks read from files (`corpus`).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::structure::Structure;

/// The generator of a name, `llama_32` or `wiring_300`; none for an unknown one.
pub(crate) fn by_name(name: &str) -> Option<Structure> {
    let (kind, number) = match name.split_once('_') {
        Some((kind, number)) => (kind, number.parse().ok()?),
        None => (name, 0),
    };
    match kind {
        "llama" => Some(llama(number)),
        "unet" => Some(unet()),
        "hrnet" => Some(hrnet()),
        "bifpn" => Some(bifpn()),
        "wiring" => Some(wiring(number, 0)),
        _ => None,
    }
}

/// A decoder of the Llama 1B class over 128 tokens, about 54 ops a layer; the mask and both rotary tables are
/// read by every layer (hubs).
pub(crate) fn llama(layers: usize) -> Structure {
    const ROWS: u64 = 128;
    const WIDTH: u64 = 2048;
    const HIDDEN: u64 = 8192;
    const HEADS: u64 = 32;
    let act = 2 * ROWS * WIDTH;
    let mut s = Structure::new(format!("llama_{layers}"));
    let (tokens, positions) = (s.input(8 * ROWS), s.input(8 * ROWS));
    let angles = s.op("Mul", ROWS * 32, &[positions], 2 * ROWS * 32);
    let cos = s.op("Cos", ROWS * 64, &[angles], 2 * ROWS * 64);
    let sin = s.op("Sin", ROWS * 64, &[angles], 2 * ROWS * 64);
    let mask = s.op("Where", ROWS * ROWS, &[positions], 2 * ROWS * ROWS);
    let table = s.weight(2 * 128_256 * WIDTH);
    let mut x = s.op("Gather", ROWS * WIDTH, &[table, tokens], act);
    let norm = |s: &mut Structure, x: usize| {
        let square = s.op("Pow", ROWS * WIDTH, &[x], act);
        let mean = s.op("ReduceMean", ROWS * WIDTH, &[square], 2 * ROWS);
        let shifted = s.op("Add", ROWS, &[mean], 2 * ROWS);
        let root = s.op("Sqrt", ROWS, &[shifted], 2 * ROWS);
        let scaled = s.op("Div", ROWS * WIDTH, &[x, root], act);
        let gain = s.weight(2 * WIDTH);
        s.op("Mul", ROWS * WIDTH, &[scaled, gain], act)
    };
    let linear = |s: &mut Structure, x: usize, from: u64, to: u64| {
        let weight = s.weight(2 * from * to);
        s.op("MatMul", ROWS * from * to, &[x, weight], 2 * ROWS * to)
    };
    let rotate = |s: &mut Structure, x: usize, bytes: u64| {
        let (low, high) = (
            s.op("Slice", bytes / 4, &[x], bytes / 2),
            s.op("Slice", bytes / 4, &[x], bytes / 2),
        );
        let negated = s.op("Neg", bytes / 4, &[high], bytes / 2);
        let rotated = s.op("Concat", bytes / 2, &[negated, low], bytes);
        let straight = s.op("Mul", bytes / 2, &[x, cos], bytes);
        let rotated = s.op("Mul", bytes / 2, &[rotated, sin], bytes);
        s.op("Add", bytes / 2, &[straight, rotated], bytes)
    };
    for _ in 0..layers {
        let h = norm(&mut s, x);
        let mut heads = Vec::with_capacity(3);
        for to in [WIDTH, WIDTH / 4, WIDTH / 4] {
            let flat = linear(&mut s, h, WIDTH, to);
            let split = s.op("Reshape", ROWS * to, &[flat], 2 * ROWS * to);
            heads.push(s.op("Transpose", ROWS * to, &[split], 2 * ROWS * to));
        }
        let q = rotate(&mut s, heads[0], act);
        let k = rotate(&mut s, heads[1], act / 4);
        let k = s.op("Expand", ROWS * WIDTH, &[k], act);
        let k = s.op("Transpose", ROWS * WIDTH, &[k], act);
        let v = s.op("Expand", ROWS * WIDTH, &[heads[2]], act);
        let square = 2 * HEADS * ROWS * ROWS;
        let scores = s.op("MatMul", ROWS * ROWS * WIDTH, &[q, k], square);
        let scores = s.op("Mul", square / 2, &[scores], square);
        let scores = s.op("Add", square / 2, &[scores, mask], square);
        let scores = s.op("Softmax", square / 2, &[scores], square);
        let mixed = s.op("MatMul", ROWS * ROWS * WIDTH, &[scores, v], act);
        let mixed = s.op("Transpose", ROWS * WIDTH, &[mixed], act);
        let mixed = s.op("Reshape", ROWS * WIDTH, &[mixed], act);
        let mixed = linear(&mut s, mixed, WIDTH, WIDTH);
        x = s.op("Add", ROWS * WIDTH, &[x, mixed], act);
        let h = norm(&mut s, x);
        let gate = linear(&mut s, h, WIDTH, HIDDEN);
        let up = linear(&mut s, h, WIDTH, HIDDEN);
        let open = s.op("Sigmoid", ROWS * HIDDEN, &[gate], 2 * ROWS * HIDDEN);
        let open = s.op("Mul", ROWS * HIDDEN, &[gate, open], 2 * ROWS * HIDDEN);
        let h = s.op("Mul", ROWS * HIDDEN, &[open, up], 2 * ROWS * HIDDEN);
        let h = linear(&mut s, h, HIDDEN, WIDTH);
        x = s.op("Add", ROWS * WIDTH, &[x, h], act);
    }
    let x = norm(&mut s, x);
    linear(&mut s, x, WIDTH, 128_256);
    s
}

/// A 3 by 3 or 1 by 1 convolution on a square map.
fn convolution(s: &mut Structure, x: usize, side: u64, from: u64, to: u64, kernel: u64) -> usize {
    let weight = s.weight(2 * from * to * kernel * kernel);
    let pixels = side * side;
    s.op(
        "Conv",
        pixels * from * to * kernel * kernel,
        &[x, weight],
        2 * pixels * to,
    )
}

/// An element by element op on a square map.
fn pointwise(s: &mut Structure, op: &str, reads: &[usize], side: u64, channels: u64) -> usize {
    s.op(op, side * side * channels, reads, 2 * side * side * channels)
}

/// The U-Net of Stable Diffusion 1 over a 64 by 64 latent: time embedding and text are read by every block (hubs),
/// and each level's maps by its mirror (long skips).
pub(crate) fn unet() -> Structure {
    let mut s = Structure::new("unet");
    let (latent, time, text) = (s.input(2 * 4 * 64 * 64), s.input(2 * 320), s.input(2 * 77 * 768));
    let mut embedding = time;
    for _ in 0..2 {
        let weight = s.weight(2 * 1280 * 1280);
        embedding = s.op("Gemm", 1280 * 1280, &[embedding, weight], 2 * 1280);
        embedding = s.op("Mul", 1280, &[embedding], 2 * 1280);
    }
    let norm = |s: &mut Structure, x: usize, side: u64, channels: u64| {
        let x = pointwise(s, "InstanceNormalization", &[x], side, channels);
        let x = pointwise(s, "Mul", &[x], side, channels);
        let x = pointwise(s, "Add", &[x], side, channels);
        let gate = pointwise(s, "Sigmoid", &[x], side, channels);
        pointwise(s, "Mul", &[x, gate], side, channels)
    };
    let residual = |s: &mut Structure, x: usize, side: u64, from: u64, to: u64| {
        let h = norm(s, x, side, from);
        let h = convolution(s, h, side, from, to, 3);
        let weight = s.weight(2 * 1280 * to);
        let shift = s.op("Gemm", 1280 * to, &[embedding, weight], 2 * to);
        let h = pointwise(s, "Add", &[h, shift], side, to);
        let h = norm(s, h, side, to);
        let h = convolution(s, h, side, to, to, 3);
        let x = if from == to {
            x
        } else {
            convolution(s, x, side, from, to, 1)
        };
        pointwise(s, "Add", &[x, h], side, to)
    };
    let attend = |s: &mut Structure, x: usize, side: u64, width: u64| {
        let rows = side * side;
        let bytes = 2 * rows * width;
        let mut x = pointwise(s, "Reshape", &[x], side, width);
        for cross in [false, true] {
            let h = s.op("LayerNormalization", rows * width, &[x], bytes);
            let (source, keys, deep) = if cross { (text, 77, 768) } else { (h, rows, width) };
            let project = |s: &mut Structure, from: usize, count: u64, deep: u64| {
                let weight = s.weight(2 * deep * width);
                s.op("MatMul", count * deep * width, &[from, weight], 2 * count * width)
            };
            let q = project(s, h, rows, width);
            let k = project(s, source, keys, deep);
            let v = project(s, source, keys, deep);
            let k = s.op("Transpose", keys * width, &[k], 2 * keys * width);
            let scores = s.op("MatMul", rows * keys * width, &[q, k], 2 * 8 * rows * keys);
            let scores = s.op("Softmax", 8 * rows * keys, &[scores], 2 * 8 * rows * keys);
            let mixed = s.op("MatMul", rows * keys * width, &[scores, v], bytes);
            let weight = s.weight(2 * width * width);
            let mixed = s.op("MatMul", rows * width * width, &[mixed, weight], bytes);
            x = s.op("Add", rows * width, &[x, mixed], bytes);
        }
        let h = s.op("LayerNormalization", rows * width, &[x], bytes);
        let weight = s.weight(2 * 8 * width * width);
        let h = s.op("MatMul", rows * width * 8 * width, &[h, weight], 8 * bytes);
        let left = s.op("Slice", rows * 4 * width, &[h], 4 * bytes);
        let right = s.op("Slice", rows * 4 * width, &[h], 4 * bytes);
        let right = s.op("Gelu", rows * 4 * width, &[right], 4 * bytes);
        let h = s.op("Mul", rows * 4 * width, &[left, right], 4 * bytes);
        let weight = s.weight(2 * 4 * width * width);
        let h = s.op("MatMul", rows * 4 * width * width, &[h, weight], bytes);
        let x = s.op("Add", rows * width, &[x, h], bytes);
        pointwise(s, "Reshape", &[x], side, width)
    };
    let levels = [
        (64, 320, true),
        (32, 640, true),
        (16, 1280, true),
        (8, 1280, false),
    ];
    let mut x = convolution(&mut s, latent, 64, 4, 320, 3);
    let mut skips = vec![(x, 320)];
    let mut from = 320;
    for (level, &(side, width, attention)) in levels.iter().enumerate() {
        for _ in 0..2 {
            x = residual(&mut s, x, side, from, width);
            if attention {
                x = attend(&mut s, x, side, width);
            }
            from = width;
            skips.push((x, width));
        }
        if level < 3 {
            x = convolution(&mut s, x, side / 2, width, width, 3);
            skips.push((x, width));
        }
    }
    x = residual(&mut s, x, 8, 1280, 1280);
    x = attend(&mut s, x, 8, 1280);
    x = residual(&mut s, x, 8, 1280, 1280);
    for (level, &(side, width, attention)) in levels.iter().enumerate().rev() {
        for _ in 0..3 {
            let (skip, channels) = skips.pop().expect("as many skips as mirrors");
            x = pointwise(&mut s, "Concat", &[x, skip], side, from + channels);
            x = residual(&mut s, x, side, from + channels, width);
            if attention {
                x = attend(&mut s, x, side, width);
            }
            from = width;
        }
        if level > 0 {
            x = pointwise(&mut s, "Resize", &[x], side * 2, width);
            x = convolution(&mut s, x, side * 2, width, width, 3);
        }
    }
    let x = norm(&mut s, x, 64, 320);
    convolution(&mut s, x, 64, 320, 4, 3);
    s
}

/// HRNet-W32's body over 256 by 192 (as 224 by 224): up to four branches that all exchange after every module.
pub(crate) fn hrnet() -> Structure {
    let mut s = Structure::new("hrnet");
    let image = s.input(2 * 3 * 224 * 224);
    let x = convolution(&mut s, image, 112, 3, 64, 3);
    let mut x = convolution(&mut s, x, 56, 64, 64, 3);
    for _ in 0..4 {
        let h = convolution(&mut s, x, 56, 64, 64, 3);
        let h = pointwise(&mut s, "Relu", &[h], 56, 64);
        let h = convolution(&mut s, h, 56, 64, 64, 3);
        x = pointwise(&mut s, "Add", &[x, h], 56, 64);
    }
    let size = |branch: usize| (56 >> branch, 32 << branch);
    let mut branches = vec![convolution(&mut s, x, 56, 64, 32, 3)];
    for (stage, modules) in [(2, 1), (3, 4), (4, 3)] {
        let last = *branches.last().expect("there is always a branch");
        let ((side, channels), (_, before)) = (size(stage - 1), size(stage - 2));
        branches.push(convolution(&mut s, last, side, before, channels, 3));
        for _ in 0..modules {
            for (branch, x) in branches.iter_mut().enumerate() {
                let (side, channels) = size(branch);
                for _ in 0..4 {
                    let h = convolution(&mut s, *x, side, channels, channels, 3);
                    let h = pointwise(&mut s, "Relu", &[h], side, channels);
                    let h = convolution(&mut s, h, side, channels, channels, 3);
                    let h = pointwise(&mut s, "Add", &[*x, h], side, channels);
                    *x = pointwise(&mut s, "Relu", &[h], side, channels);
                }
            }
            let old = branches.clone();
            for (to, x) in branches.iter_mut().enumerate() {
                let (side, channels) = size(to);
                for (from, &other) in old.iter().enumerate().filter(|&(from, _)| from != to) {
                    let mut h = other;
                    if from > to {
                        h = convolution(&mut s, h, size(from).0, size(from).1, channels, 1);
                        h = pointwise(&mut s, "Resize", &[h], side, channels);
                    } else {
                        for step in from + 1..=to {
                            let wide = if step == to { channels } else { size(from).1 };
                            h = convolution(&mut s, h, size(step).0, size(from).1, wide, 3);
                        }
                    }
                    *x = pointwise(&mut s, "Add", &[*x, h], side, channels);
                }
                *x = pointwise(&mut s, "Relu", &[*x], side, channels);
            }
        }
    }
    let (side, mut all) = (56, vec![branches[0]]);
    for (branch, &x) in branches.iter().enumerate().skip(1) {
        all.push(pointwise(&mut s, "Resize", &[x], side, size(branch).1));
    }
    let x = pointwise(&mut s, "Concat", &all, side, 480);
    convolution(&mut s, x, side, 480, 17, 1);
    s
}

/// EfficientDet-D2's neck over 768 by 768: five levels, top-down and bottom-up with weighted sums, five times.
pub(crate) fn bifpn() -> Structure {
    const WIDTH: u64 = 112;
    let mut s = Structure::new("bifpn");
    let image = s.input(2 * 3 * 768 * 768);
    let mut x = convolution(&mut s, image, 384, 3, 32, 3);
    let mut levels = Vec::new();
    for (step, to) in [24u64, 48, 88, 208, 352].into_iter().enumerate() {
        let side = 192 >> step;
        x = convolution(&mut s, x, side, to, to, 3);
        x = pointwise(&mut s, "Relu", &[x], side, to);
        levels.push(convolution(&mut s, x, side, to, WIDTH, 1));
    }
    let side = |level: usize| 192u64 >> level;
    let merge = |s: &mut Structure, inputs: &[usize], side: u64| {
        let weighted: Vec<usize> = inputs
            .iter()
            .map(|&x| pointwise(s, "Mul", &[x], side, WIDTH))
            .collect();
        let mut sum = weighted[0];
        for &next in &weighted[1..] {
            sum = pointwise(s, "Add", &[sum, next], side, WIDTH);
        }
        let gate = pointwise(s, "Sigmoid", &[sum], side, WIDTH);
        let swish = pointwise(s, "Mul", &[sum, gate], side, WIDTH);
        let weight = s.weight(2 * 9 * WIDTH);
        let deep = s.op(
            "Conv",
            side * side * WIDTH * 9,
            &[swish, weight],
            2 * side * side * WIDTH,
        );
        convolution(s, deep, side, WIDTH, WIDTH, 1)
    };
    for _ in 0..5 {
        let mut down = levels.clone();
        for level in (0..4).rev() {
            let above = pointwise(&mut s, "Resize", &[down[level + 1]], side(level), WIDTH);
            down[level] = merge(&mut s, &[levels[level], above], side(level));
        }
        let mut up = down.clone();
        for level in 1..5 {
            let below = pointwise(&mut s, "MaxPool", &[up[level - 1]], side(level), WIDTH);
            let mut inputs = vec![levels[level], below];
            if level < 4 {
                inputs.insert(1, down[level]);
            }
            up[level] = merge(&mut s, &inputs, side(level));
        }
        levels = up;
    }
    let mut all = Vec::new();
    for (level, &x) in levels.iter().enumerate() {
        let head = convolution(&mut s, x, side(level), WIDTH, 36, 3);
        all.push(pointwise(&mut s, "Reshape", &[head], side(level), 36));
    }
    s.op("Concat", 1_767_744, &all, 2 * 1_767_744);
    s
}

/// Each node reads one or two of the twenty before it, or now and then any before it: the hard case.
pub(crate) fn wiring(nodes: usize, seed: u64) -> Structure {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |limit: u64| random.next_u64() % limit.max(1);
    let mut s = Structure::new(format!("wiring_{nodes}"));
    let mut outputs = vec![s.input(1 << 16)];
    for _ in 0..nodes {
        let mut reads = Vec::new();
        for _ in 0..1 + below(2) {
            let reach = if below(50) == 0 {
                outputs.len() as u64
            } else {
                20.min(outputs.len() as u64)
            };
            reads.push(outputs[outputs.len() - 1 - below(reach) as usize]);
        }
        reads.sort_unstable();
        reads.dedup();
        let op = ["Conv", "MatMul", "Add", "Relu", "Concat"][below(5) as usize];
        let macs = match op {
            "Conv" | "MatMul" => 1_000_000 * (1 + below(200)),
            _ => 10_000 * (1 + below(50)),
        };
        outputs.push(s.op(op, macs, &reads, 4096 * (1 + below(128))));
    }
    s
}
