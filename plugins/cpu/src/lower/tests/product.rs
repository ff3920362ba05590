//! Matrix products and attention.

use super::*;

#[test]
fn an_encoder_layer_has_no_reference_step() {
    let (seq, d, heads) = (6, 16, 2);
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, seq, d]);
    let mask = net.input(DType::F32, &[1, 1, 1, seq]);
    let linear = |net: &mut Net, x: usize, from: usize, to: usize| {
        let w = net.weights(&[from, to]);
        let b = net.weights(&[to]);
        let product = net.plain(Op::MatMul, &[x, w]);
        net.plain(Op::Add, &[b, product])
    };
    let split = |net: &mut Net, x: usize, perm: &[i64]| {
        let shape = net.ints(&[1, seq as i64, heads, (d as i64) / heads]);
        let x = net.plain(Op::Reshape, &[x, shape]);
        net.node(Op::Transpose, Attributes::new().with_ints(Attr::Perm, perm), &[x])
    };
    let (q, k, v) = (
        linear(&mut net, x, d, d),
        linear(&mut net, x, d, d),
        linear(&mut net, x, d, d),
    );
    let q = split(&mut net, q, &[0, 2, 1, 3]);
    let k = split(&mut net, k, &[0, 2, 3, 1]);
    let v = split(&mut net, v, &[0, 2, 1, 3]);
    let scores = net.plain(Op::MatMul, &[q, k]);
    let root = net.scalar(8f64.sqrt());
    let scores = net.plain(Op::Div, &[scores, root]);
    let scores = net.plain(Op::Add, &[scores, mask]);
    let weights = net.node(Op::Softmax, Attributes::new().with_int(Attr::Axis, -1), &[scores]);
    let c = net.plain(Op::MatMul, &[weights, v]);
    let c = net.node(
        Op::Transpose,
        Attributes::new().with_ints(Attr::Perm, &[0, 2, 1, 3]),
        &[c],
    );
    let shape = net.ints(&[1, seq as i64, d as i64]);
    let c = net.plain(Op::Reshape, &[c, shape]);
    let c = linear(&mut net, c, d, d);
    let c = net.plain(Op::Add, &[c, x]);
    let (scale, bias) = (net.weights(&[d]), net.weights(&[d]));
    let c = net.node(
        Op::LayerNormalization,
        Attributes::new().with_int(Attr::Axis, -1),
        &[c, scale, bias],
    );
    let h = linear(&mut net, c, d, 3 * d);
    let h = net.plain(Op::Gelu, &[h]);
    let h = linear(&mut net, h, 3 * d, d);
    let y = net.plain(Op::Add, &[h, c]);
    net.output(y);
    let steps = net.check(2e-5);
    let count = |name: &str| steps.iter().filter(|&&step| step == name).count();
    assert_eq!(
        (count("gemm"), count("matmul"), count("softmax"), count("norm")),
        (6, 2, 1, 1),
        "{steps:?}"
    );
    assert_eq!((count("unary"), count("binary")), (0, 1), "{steps:?}");
}

#[test]
fn products_of_every_orientation() {
    for (ta, tb) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for constant in [true, false] {
            let mut net = Net::default();
            let (m, k, n) = (5, 7, 9);
            let a = net.input(DType::F32, &if ta == 1 { [k, m] } else { [m, k] });
            let shape = if tb == 1 { [n, k] } else { [k, n] };
            let b = if constant {
                net.weights(&shape)
            } else {
                net.input(DType::F32, &shape)
            };
            let c = if constant {
                net.weights(&[n])
            } else {
                net.input(DType::F32, &[m, 1])
            };
            let attributes = Attributes::new()
                .with_int(Attr::TransA, ta)
                .with_int(Attr::TransB, tb)
                .with_float(Attr::Alpha, 0.5)
                .with_float(Attr::Beta, 2.0);
            let y = net.node(Op::Gemm, attributes, &[a, b, c]);
            let y = net.plain(Op::Relu, &[y]);
            net.output(y);
            let steps = net.check(1e-5);
            assert_eq!(steps[0], if constant { "gemm" } else { "matmul" });
        }
    }
    let mut net = Net::default();
    let a = net.input(DType::F32, &[2, 1, 3, 4]);
    let b = net.input(DType::F32, &[5, 4, 6]);
    let y = net.plain(Op::MatMul, &[a, b]);
    net.output(y);
    let v = net.input(DType::F32, &[4]);
    let y = net.plain(Op::MatMul, &[a, v]);
    net.output(y);
    let w = net.input(DType::F32, &[3]);
    let y = net.plain(Op::MatMul, &[w, a]);
    net.output(y);
    net.check(1e-5);
}

#[test]
fn attention_of_both_ranks() {
    for flat in [false, true] {
        let mut net = Net::default();
        let shape = |rows: usize| {
            if flat {
                vec![2, rows, 12]
            } else {
                vec![2, 3, rows, 4]
            }
        };
        let q = net.input(DType::F32, &shape(5));
        let k = net.input(DType::F32, &shape(7));
        let v = net.input(DType::F32, &shape(7));
        let mask = net.input(DType::F32, &[2, 1, 1, 7]);
        let mut attributes = Attributes::new();
        if flat {
            attributes = attributes
                .with_int(Attr::QNumHeads, 3)
                .with_int(Attr::KvNumHeads, 3);
        }
        let y = net.node(Op::Attention, attributes, &[q, k, v, mask]);
        net.output(y);
        assert_eq!(net.check(1e-5), ["attention"]);
    }
}

#[test]
fn attention_with_a_boolean_mask() {
    for shape in [&[5, 7][..], &[2, 1, 5, 7], &[1, 1, 1, 7], &[2, 3, 5, 7]] {
        let mut net = Net::default();
        let [q, k, v] = [5, 7, 7].map(|rows| net.input(DType::F32, &[2, 3, rows, 4]));
        let mask = net.input(DType::Bool, shape);
        for causal in [0, 1] {
            let attributes = Attributes::new().with_int(Attr::IsCausal, causal);
            let y = net.node(Op::Attention, attributes, &[q, k, v, mask]);
            net.output(y);
        }
        // what is added is made once
        assert_eq!(net.check(1e-5), ["mask", "attention", "attention"]);
    }
}

#[test]
fn attention_with_a_past() {
    const JOIN: &str = "keys or values behind a past";
    for (flat, shared, presents) in [
        (false, false, true),
        (true, false, true),
        (true, true, true),
        (false, true, false),
    ] {
        for (before, new, truth) in [(6, 1, true), (6, 4, false), (0, 3, true), (3, 0, true)] {
            let mut net = Net::default();
            let heads = if shared { 2 } else { 4 };
            let shape = |heads: usize, rows: usize, size: usize| {
                if flat {
                    vec![2, rows, heads * size]
                } else {
                    vec![2, heads, rows, size]
                }
            };
            let q = net.input(DType::F32, &shape(4, 3, 8));
            let k = net.input(DType::F32, &shape(heads, new, 8));
            let v = net.input(DType::F32, &shape(heads, new, 5));
            let past_k = net.input(DType::F32, &[2, heads, before, 8]);
            let past_v = net.input(DType::F32, &[2, heads, before, 5]);
            let dtype = if truth { DType::Bool } else { DType::F32 };
            let mask = net.input(dtype, &[3, before + new]);
            for causal in [0, 1] {
                let mut attributes = Attributes::new().with_int(Attr::IsCausal, causal);
                if flat {
                    attributes = attributes
                        .with_int(Attr::QNumHeads, 4)
                        .with_int(Attr::KvNumHeads, heads as i64);
                }
                let inputs = [q, k, v, mask, past_k, past_v].map(Some);
                let outputs = if presents { 3 } else { 1 };
                let outputs = net.nodes(Op::Attention, attributes, &inputs, outputs);
                outputs.into_iter().for_each(|output| net.output(output));
            }
            let steps = net.check(1e-5);
            assert_eq!(steps.iter().filter(|step| **step == JOIN).count(), 4, "{steps:?}");
            assert!(!steps.contains(&"Attention"), "{steps:?}");
        }
    }
}

#[test]
fn attention_of_shared_heads_with_limits() {
    let mut net = Net::default();
    let q = net.input(DType::F32, &[2, 6, 5, 4]);
    let k = net.input(DType::F32, &[2, 3, 7, 4]);
    let v = net.input(DType::F32, &[2, 3, 7, 3]);
    let windows = |left, right| {
        Attributes::new()
            .with_int(Attr::LeftWindowSize, left)
            .with_int(Attr::RightWindowSize, right)
    };
    for attributes in [
        Attributes::new().with_int(Attr::IsCausal, 1),
        windows(1, 2).with_float(Attr::Scale, 2.0),
        windows(-1, 0).with_float(Attr::Softcap, 0.5),
        windows(0, -1).with_int(Attr::IsCausal, 1),
    ] {
        let y = net.node(Op::Attention, attributes, &[q, k, v]);
        net.output(y);
    }
    assert_eq!(net.check(1e-5), ["attention"; 4]);
}

#[test]
fn heads_are_transposed_by_strides() {
    let mut net = Net::default();
    let transpose = |net: &mut Net, x: usize| {
        let order = Attributes::new().with_ints(Attr::Perm, &[0, 2, 1, 3]);
        net.node(Op::Transpose, order, &[x])
    };
    let [q, k, v] = [5, 7, 7].map(|rows| net.input(DType::F32, &[2, rows, 3, 4]));
    let operands = [q, k, v].map(|x| transpose(&mut net, x));
    let y = net.node(Op::Attention, Attributes::new(), &operands);
    let y = transpose(&mut net, y);
    net.output(y);
    assert_eq!(net.check(1e-5), ["attention"]);
    // what others read, or is read twice, or is transposed otherwise, is computed
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 3, 3, 4]);
    let (shared, read) = (transpose(&mut net, x), transpose(&mut net, x));
    let other = net.node(
        Op::Transpose,
        Attributes::new().with_ints(Attr::Perm, &[0, 1, 2, 3]),
        &[x],
    );
    let y = net.node(Op::Attention, Attributes::new(), &[shared, shared, other]);
    net.output(y);
    let transposed = transpose(&mut net, y);
    net.output(transposed);
    let y = net.node(Op::Attention, Attributes::new(), &[read, x, x]);
    net.output(y);
    net.output(read);
    let steps = net.check(1e-5);
    let transposes = steps.iter().filter(|&&step| step == "transpose").count();
    assert_eq!(transposes, 3, "{steps:?}");
}

#[test]
fn transpose_between_attentions_fuses_with_one() {
    let mut net = Net::default();
    let [q, k, v] = [4, 5, 5].map(|rows| net.input(DType::F32, &[2, 3, rows, 4]));
    let first = net.node(Op::Attention, Attributes::new(), &[q, k, v]);
    let order = Attributes::new().with_ints(Attr::Perm, &[0, 2, 1, 3]);
    let permuted = net.node(Op::Transpose, order, &[first]);
    let [k, v] = [6, 6].map(|rows| net.input(DType::F32, &[2, 4, rows, 4]));
    let second = net.node(Op::Attention, Attributes::new(), &[permuted, k, v]);
    net.output(second);
    assert_eq!(net.check(1e-5), ["attention"; 2]);
}

#[test]
fn attention_with_masked_keys() {
    let mut net = Net::default();
    let q = net.input(DType::F32, &[1, 2, 3, 4]);
    let k = net.input(DType::F32, &[1, 2, 5, 4]);
    let v = net.input(DType::F32, &[1, 2, 5, 4]);
    // the second query sees no key, the third all but one
    let mut hidden = vec![0.0; 15];
    hidden[5..10].fill(f64::NEG_INFINITY);
    hidden[12] = f64::NEG_INFINITY;
    let mask =
        net.feed(Boxed::from_f64s(polychip_reference::element(DType::F32), vec![3, 5], &hidden).unwrap());
    let y = net.node(Op::Attention, Attributes::new(), &[q, k, v, mask]);
    net.output(y);
    // a mask of one key of five
    let short = net.input(DType::F32, &[3, 1]);
    let y = net.node(Op::Attention, Attributes::new(), &[q, k, v, short]);
    net.output(y);
    let steps = net.check(1e-5);
    assert_eq!(steps[0], "attention");
}

#[test]
fn reduced_precision_keeps_f32_where_sums_grow_and_behind_products() {
    let mut net = Net::default();
    let d = 32;
    let x = net.input(DType::F32, &[1, 40, d]);
    let along = || Attributes::new().with_int(Attr::Axis, -1);
    let layer = |net: &mut Net, x: usize| {
        let (w, b, v) = (
            net.weights(&[d, 2 * d]),
            net.weights(&[2 * d]),
            net.weights(&[2 * d, d]),
        );
        let h = net.plain(Op::MatMul, &[x, w]);
        let h = net.plain(Op::Add, &[h, b]);
        let h = net.plain(Op::Gelu, &[h]);
        net.plain(Op::MatMul, &[h, v])
    };
    let norm = |net: &mut Net, x: usize| {
        let (scale, bias) = (net.weights(&[d]), net.weights(&[d]));
        net.node(Op::LayerNormalization, along(), &[x, scale, bias])
    };
    // normalised behind each sum, as BERT does, then before each layer, as GPT does
    let mut x = norm(&mut net, x);
    for _ in 0..2 {
        let h = layer(&mut net, x);
        let sum = net.plain(Op::Add, &[h, x]);
        x = norm(&mut net, sum);
    }
    for _ in 0..2 {
        let h = norm(&mut net, x);
        let h = layer(&mut net, h);
        x = net.plain(Op::Add, &[x, h]);
    }
    let y = net.plain(Op::Relu, &[x]);
    net.output(y);
    net.check(1e-4);
    if !Isa::detect().has_bf16() {
        return;
    }
    let pool = ThreadPool::new(1);
    let program = net.lower(&[Layout::RowMajor; 2], true, &pool);
    let dtype = |value: &crate::step::ValueId| program.values[value.0 as usize].dtype;
    let steps: Vec<_> = program
        .steps
        .iter()
        .map(|step| {
            (
                step.name,
                dtype(&step.reads[0]),
                dtype(&step.writes[0]),
                step.writes.len(),
            )
        })
        .collect();
    let (wide, bf16) = (DType::F32, DType::BF16);
    let product = [("gemm", bf16, bf16, 2), ("gemm", bf16, wide, 2)];
    let both = ("norm", wide, wide, 2);
    let mut want = vec![both];
    for _ in 0..2 {
        want.extend(product);
        want.push(both);
    }
    // the last norm behind a sum is read by a norm and a sum, not by a product
    want.pop();
    want.push(("norm", wide, wide, 1));
    want.push(("norm", wide, bf16, 1));
    want.extend(product);
    // the sum is kept for the next one
    want.push(("norm", wide, bf16, 2));
    want.extend(product);
    want.extend([("binary", wide, wide, 1), ("unary", wide, wide, 1)]);
    assert_eq!(steps, want);
}

#[test]
fn reduced_precision_keeps_bf16_between_products_and_f32_at_ports() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 3, 12, 12]);
    let a = net.conv(x, 8, 3, 2, 1);
    let a = net.plain(Op::Relu, &[a]);
    let b = net.conv(a, 8, 3, 1, 8);
    let b = net.conv(b, 8, 1, 1, 1);
    let b = net.plain(Op::Add, &[b, a]);
    let c = net.conv(a, 5, 1, 1, 1);
    let c = net.node(Op::Concat, Attributes::new().with_int(Attr::Axis, 1), &[c, b]);
    let pooled = net.plain(Op::GlobalAveragePool, &[c]);
    let flat = net.node(Op::Flatten, Attributes::new(), &[pooled]);
    let w = net.weights(&[13, 7]);
    let y = net.plain(Op::MatMul, &[flat, w]);
    net.output(y);
    net.output(c);
    let steps = net.check(1e-5);
    let pool = ThreadPool::new(1);
    let program = net.lower(&[Layout::RowMajor; 3], true, &pool);
    let dtype = |value: &crate::step::ValueId| program.values[value.0 as usize].dtype;
    for port in &program.ports {
        assert_eq!(dtype(&port.value), DType::F32);
    }
    let exact = |step: &&crate::step::Step| dtype(&step.writes[0]) == DType::F32;
    let wide: Vec<_> = program.steps.iter().filter(exact).map(|step| step.name).collect();
    if Isa::detect().has_bf16() {
        // the image is read as it came, the classifier is too small for bf16 and has f32 before it, and the other
        // output is widened
        let want = ["unary", "pool", "gemm", "unary"];
        assert_eq!(wide, want, "{:?}", program.steps);
    } else {
        assert_eq!(program.steps.len(), steps.len());
    }
}

#[test]
fn einsum_lowers_to_products() {
    for (equation, shapes, by_kernel) in [
        ("ij,jk->ik", &[&[5, 7][..], &[7, 3]][..], true),
        ("ij,jk", &[&[5, 7], &[7, 3]], true),
        ("ij,jk->ki", &[&[5, 7], &[7, 3]], true),
        ("bqhd,bkhd->bhqk", &[&[2, 3, 4, 5], &[2, 6, 4, 5]], true),
        ("bhqk,bkhd->bqhd", &[&[2, 4, 3, 6], &[2, 6, 4, 5]], true),
        ("bnc, cde -> bnde", &[&[2, 3, 4], &[4, 5, 6]], true),
        ("abc,bcd->ad", &[&[2, 3, 4], &[3, 4, 5]], true),
        ("abc,cbd->ad", &[&[2, 3, 4], &[4, 3, 5]], true),
        ("abc,cbd->da", &[&[2, 3, 4], &[4, 3, 5]], true),
        ("i,j->ij", &[&[5], &[4]], true),
        ("i,i->", &[&[5], &[5]], true),
        ("ij,ij->ij", &[&[3, 4], &[3, 4]], true),
        ("ij,ij->ji", &[&[3, 4], &[3, 4]], true),
        ("ia,ja->aij", &[&[3, 4], &[5, 4]], true),
        ("abcd,abcd->dcba", &[&[2, 3, 2, 4], &[2, 3, 2, 4]], true),
        ("abx,yab->xby", &[&[2, 3, 4], &[5, 2, 3]], true),
        ("ij,k->ijk", &[&[3, 4], &[1]], true),
        ("ij->ji", &[&[3, 4]], true),
        ("abc->cab", &[&[3, 4, 5]], true),
        ("ii->i", &[&[3, 3]], false),
        ("ij->i", &[&[3, 4]], false),
        ("ij,kl->ik", &[&[3, 4], &[2, 5]], false),
        ("...i,ij->...j", &[&[2, 3, 4], &[4, 5]], false),
        ("a,ab,b->a", &[&[3], &[3, 4], &[4]], false),
    ] {
        for dtype in [DType::F32, DType::F16] {
            let mut net = Net::default();
            let inputs: Vec<usize> = shapes.iter().map(|shape| net.input(dtype, shape)).collect();
            let y = net.node(
                Op::Einsum,
                Attributes::new().with_str(Attr::Equation, equation),
                &inputs,
            );
            net.output(y);
            let steps = net.check(if dtype == DType::F32 { 1e-5 } else { 3e-3 });
            assert_eq!(!steps.contains(&"Einsum"), by_kernel, "{equation}: {steps:?}");
        }
    }
}
