//! Tensors with an encoding.

use super::*;

fn encoding(kind: EncodingKind, scales: &[f32], zero_points: &[i32]) -> Encoding {
    Encoding {
        kind,
        scales: scales.to_vec(),
        zero_points: zero_points.to_vec(),
        real_dtype: DType::F32,
    }
}

#[test]
fn quantised_op_equals_dequantise_op_quantise() {
    let per_tensor = |scale: f32, zero: i32| encoding(EncodingKind::PerTensor, &[scale], &[zero]);
    let mut net = Net::default();
    let x = net.input(DType::U8, &[1, 3, 5, 5]);
    net.part.tensors[x].encoding = Some(per_tensor(0.02, 7));
    let weights = net.boxed(DType::I8, &[4, 3, 3, 3]);
    let w = net.constant(&weights);
    net.part.tensors[w].encoding = Some(encoding(
        EncodingKind::PerAxis { axis: 0 },
        &[0.01, 0.02, 0.03, 0.005],
        &[],
    ));
    let y = net.tensor(DType::U8, Some(vec![1, 4, 3, 3]));
    net.part.tensors[y].encoding = Some(per_tensor(0.05, 100));
    net.part.nodes.push(Node::new(Op::Conv, &[x, w], &[y]));
    let z = net.tensor(DType::U8, Some(vec![1, 4, 3, 3]));
    net.part.tensors[z].encoding = Some(per_tensor(0.05, 100));
    net.part.nodes.push(Node::new(Op::Relu, &[y], &[z]));
    net.output(z);

    // the same by hand, on plain tensors
    let mut plain = Net::default();
    let fed = plain.feed(net.fed[0].clone());
    let constant = |net: &mut Net, dtype: DType, shape: &[usize], values: &[f64]| {
        let element = polychip_reference::element(dtype);
        let value = if dtype.is_float() {
            Boxed::from_f64s(element, shape.to_vec(), values).unwrap()
        } else {
            let values: Vec<i128> = values.iter().map(|&value| value as i128).collect();
            Boxed::from_i128s(element, shape.to_vec(), &values).unwrap()
        };
        net.constant(&value)
    };
    let (s, zp) = (
        constant(&mut plain, DType::F32, &[], &[0.02]),
        constant(&mut plain, DType::U8, &[], &[7.0]),
    );
    let x = plain.plain(Op::DequantizeLinear, &[fed, s, zp]);
    let w = plain.constant(&weights);
    let s = constant(&mut plain, DType::F32, &[4], &[0.01, 0.02, 0.03, 0.005]);
    let w = plain.node(
        Op::DequantizeLinear,
        Attributes::new().with_int(Attr::Axis, 0),
        &[w, s],
    );
    let y = plain.plain(Op::Conv, &[x, w]);
    let (s, zp) = (
        constant(&mut plain, DType::F32, &[], &[0.05]),
        constant(&mut plain, DType::U8, &[], &[100.0]),
    );
    let y = plain.plain(Op::QuantizeLinear, &[y, s, zp]);
    let y = plain.plain(Op::DequantizeLinear, &[y, s, zp]);
    let y = plain.plain(Op::Relu, &[y]);
    let y = plain.plain(Op::QuantizeLinear, &[y, s, zp]);
    plain.output(y);
    let want = evaluate(&plain.part, &plain.fed);

    let pool = ThreadPool::new(1);
    let program = net.lower(&[Layout::RowMajor; 2], false, &pool);
    let have = run(&program, &pool, &net.fed);
    let (have, want) = (have[0].to_i64s().unwrap(), want[0].to_i64s().unwrap());
    // a value at the middle between two integers may round either way
    assert!(
        have.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 1),
        "{have:?} {want:?}"
    );
    assert!(have.iter().zip(&want).filter(|(a, b)| a != b).count() <= 1);
}

/// A net whose tensors are quantised, and its equivalent with explicit conversions on plain tensors.
struct NetPair {
    /// Tensors with encodings.
    short: Net,
    /// DequantizeLinear, op, QuantizeLinear.
    long: Net,
}

/// A tensor in both: encoded in the one, f32 in the other.
#[derive(Clone, Copy)]
struct Both(usize, usize);

impl NetPair {
    fn new(seed: u64) -> Self {
        let net = |seed| Net {
            random: ChaCha8Rng::seed_from_u64(seed),
            ..Net::default()
        };
        Self {
            short: net(seed),
            long: net(seed),
        }
    }

    fn stated(&mut self, dtype: DType, scale: f32, zero: i32) -> [usize; 2] {
        let scale = self.long.scalar(f64::from(scale));
        let zero =
            Boxed::from_i128s(polychip_reference::element(dtype), vec![], &[i128::from(zero)]).unwrap();
        [scale, self.long.constant(&zero)]
    }

    fn encode(&mut self, tensor: usize, scale: f32, zero: i32) {
        self.short.part.tensors[tensor].encoding = Some(encoding(EncodingKind::PerTensor, &[scale], &[zero]));
    }

    fn input(&mut self, dtype: DType, shape: &[usize], scale: f32, zero: i32) -> Both {
        let scale = uneven(scale);
        let short = self.short.input(dtype, shape);
        self.encode(short, scale, zero);
        let fed = self.long.feed(self.short.fed.last().unwrap().clone());
        let [s, z] = self.stated(dtype, scale, zero);
        Both(short, self.long.plain(Op::DequantizeLinear, &[fed, s, z]))
    }

    /// Weights with a scale for each index of `axis`.
    fn weights(&mut self, dtype: DType, shape: &[usize], axis: usize) -> Both {
        let values = self.short.boxed(dtype, shape);
        let scales: Vec<f32> = (0..shape[axis])
            .map(|i| 0.004 + 0.0013 * (i % 5) as f32)
            .collect();
        let short = self.short.constant(&values);
        self.short.part.tensors[short].encoding =
            Some(encoding(EncodingKind::PerAxis { axis }, &scales, &[]));
        let wide: Vec<f64> = scales.iter().map(|&scale| f64::from(scale)).collect();
        let element = polychip_reference::element(DType::F32);
        let s = self
            .long
            .constant(&Boxed::from_f64s(element, vec![scales.len()], &wide).unwrap());
        let w = self.long.constant(&values);
        let axis = Attributes::new().with_int(Attr::Axis, axis as i64);
        Both(short, self.long.node(Op::DequantizeLinear, axis, &[w, s]))
    }

    fn floats(&mut self, shape: &[usize]) -> Both {
        let values = self.short.boxed(DType::F32, shape);
        Both(self.short.constant(&values), self.long.constant(&values))
    }

    fn op(
        &mut self,
        op: Op,
        attributes: Attributes,
        inputs: &[Both],
        dtype: DType,
        scale: f32,
        zero: i32,
    ) -> Both {
        let scale = uneven(scale);
        let long: Vec<usize> = inputs.iter().map(|both| both.1).collect();
        let y = self.long.node(op, attributes.clone(), &long);
        let dims = self.long.part.tensors[y].dims.clone();
        let [s, z] = self.stated(dtype, scale, zero);
        let q = self.long.plain(Op::QuantizeLinear, &[y, s, z]);
        let long = self.long.plain(Op::DequantizeLinear, &[q, s, z]);
        let short = self.short.tensor(dtype, dims);
        self.encode(short, scale, zero);
        let mut node = Node::new(op, &[], &[short]);
        node.attributes = attributes;
        node.inputs = inputs.iter().map(|both| Some(both.0)).collect();
        self.short.part.nodes.push(node);
        Both(short, long)
    }

    /// Runs both; gives the names of the steps of the short one.
    fn check(mut self, output: Both, isa: Isa) -> Vec<&'static str> {
        self.short.output(output.0);
        let t = self.short.part.tensors[output.0].clone();
        let encoding = t.encoding.unwrap();
        let [s, z] = self.stated(t.dtype, encoding.scales[0], encoding.zero_points[0]);
        let q = self.long.plain(Op::QuantizeLinear, &[output.1, s, z]);
        self.long.output(q);
        let want = evaluate(&self.long.part, &self.long.fed)[0].to_i64s().unwrap();
        let pool = ThreadPool::new(2);
        let ports = self.short.part.inputs.len() + 1;
        let options = Options {
            programs: &Programs::default(),
            choices: crate::tune::Choices::Rule,
            isa,
            pool: &pool,
            layouts: &vec![Layout::RowMajor; ports],
            reduced: false,
        };
        let program = lower(&self.short.part, &options).unwrap();
        let have = run(&program, &pool, &self.short.fed)[0].to_i64s().unwrap();
        let names: Vec<_> = program.steps.iter().map(|step| step.name).collect();
        assert_eq!(have.len(), want.len());
        let most = have
            .iter()
            .zip(&want)
            .map(|(a, b)| (a - b).abs())
            .max()
            .unwrap_or(0);
        let apart = have.iter().zip(&want).filter(|(a, b)| a != b).count();
        assert!(
            most <= 1,
            "{isa:?}: {most} codes apart: {have:?} {want:?}, {names:?}"
        );
        assert!(
            apart * 8 <= have.len() + 16,
            "{isa:?}: {apart} of {} differ, {names:?}",
            have.len()
        );
        names
    }
}

/// A scale that has no simple ratio to others, so that few values lie in the middle between two codes, where either
/// neighbour is right.
fn uneven(scale: f32) -> f32 {
    scale.powf(1.0173)
}

fn padded(pad: i64, stride: i64, group: i64) -> Attributes {
    Attributes::new()
        .with_ints(Attr::Pads, &[pad; 4])
        .with_ints(Attr::Strides, &[stride, stride])
        .with_int(Attr::Group, group)
}

/// A block of a network in codes of one type, down to its classifier.
fn network(isa: Isa, dtype: DType, seed: u64) -> Vec<&'static str> {
    let shift = if dtype == DType::I8 { -128 } else { 0 };
    let mut t = NetPair::new(seed);
    let x = t.input(dtype, &[1, 3, 9, 11], 0.03, 130 + shift);
    let (w, b) = (t.weights(DType::I8, &[20, 3, 3, 3], 0), t.floats(&[20]));
    let x = t.op(Op::Conv, padded(1, 1, 1), &[x, w, b], dtype, 0.04, 90 + shift);
    let w = t.weights(DType::I8, &[20, 1, 3, 3], 0);
    let y = t.op(Op::Conv, padded(1, 1, 20), &[x, w], dtype, 0.02, 100 + shift);
    let w = t.weights(DType::I8, &[20, 20, 1, 1], 0);
    let y = t.op(Op::Conv, padded(0, 1, 1), &[y, w], dtype, 0.015, 120 + shift);
    let y = t.op(Op::Add, Attributes::new(), &[y, x], dtype, 0.05, 110 + shift);
    let window = Attributes::new()
        .with_ints(Attr::Pads, &[1; 4])
        .with_ints(Attr::Strides, &[2, 2])
        .with_ints(Attr::KernelShape, &[3, 3]);
    let window = || window.clone();
    let y = t.op(Op::MaxPool, window(), &[y], dtype, 0.05, 110 + shift);
    let z = t.op(Op::Sigmoid, Attributes::new(), &[y], dtype, 1.0 / 255.0, shift);
    let y = t.op(Op::Mul, Attributes::new(), &[y, z], dtype, 0.03, 60 + shift);
    let w = t.weights(DType::I8, &[6, 20, 1, 1], 0);
    let z = t.op(Op::Conv, padded(0, 1, 1), &[y, w], dtype, 0.03, 60 + shift);
    let axis = Attributes::new().with_int(Attr::Axis, 1);
    let y = t.op(Op::Concat, axis, &[y, z], dtype, 0.03, 60 + shift);
    let z = t.op(Op::Sub, Attributes::new(), &[y, y], dtype, 0.01, 128 + shift);
    let y = t.op(Op::Add, Attributes::new(), &[y, z], dtype, 0.03, 60 + shift);
    let y = t.op(Op::AveragePool, window(), &[y], dtype, 0.02, 70 + shift);
    let y = t.op(
        Op::GlobalAveragePool,
        Attributes::new(),
        &[y],
        dtype,
        0.01,
        50 + shift,
    );
    let y = t.op(Op::Flatten, Attributes::new(), &[y], dtype, 0.01, 50 + shift);
    let (w, b) = (t.weights(DType::I8, &[7, 26], 0), t.floats(&[7]));
    let gemm = Attributes::new().with_int(Attr::TransB, 1);
    let y = t.op(Op::Gemm, gemm, &[y, w, b], dtype, 0.02, 128 + shift);
    let w = t.weights(DType::I8, &[7, 33], 1);
    let y = t.op(Op::MatMul, Attributes::new(), &[y, w], dtype, 0.01, 128 + shift);
    t.check(y, isa)
}

#[test]
fn int8_network_computes_in_integers() {
    for isa in Isa::available() {
        for (dtype, seed) in [(DType::U8, 1), (DType::I8, 2), (DType::U8, 3)] {
            let names = network(isa, dtype, seed);
            let floats = [
                "quantise",
                "dequantise",
                "round to encoding",
                "conv",
                "gemm",
                "binary",
                "unary",
                "pool",
            ];
            assert!(!names.iter().any(|name| floats.contains(name)), "{names:?}");
            // a sum behind a product is one step with it
            assert_eq!(
                names.iter().filter(|&&name| name == "sum of codes").count(),
                2,
                "{names:?}"
            );
        }
    }
}

#[test]
fn int8_tensors_feed_float_ops() {
    for isa in Isa::available() {
        let mut t = NetPair::new(5);
        let x = t.input(DType::U8, &[2, 5, 4, 3], 0.02, 128);
        let w = t.weights(DType::I8, &[8, 5, 1, 1], 0);
        let x = t.op(Op::Conv, padded(0, 1, 1), &[x, w], DType::I8, 0.01, 3);
        let axis = Attributes::new().with_int(Attr::Axis, 1);
        let y = t.op(Op::Softmax, axis, &[x], DType::U8, 1.0 / 255.0, 0);
        let other = t.op(
            Op::Transpose,
            Attributes::new().with_ints(Attr::Perm, &[0, 1, 3, 2]),
            &[x],
            DType::I8,
            0.01,
            3,
        );
        let y = t.op(Op::MatMul, Attributes::new(), &[y, other], DType::U8, 0.01, 128);
        let names = t.check(y, isa);
        assert!(
            names.contains(&"conv of codes") && names.contains(&"dequantise"),
            "{names:?}"
        );
    }
}

/// A product with weights of 4 bits, and the same with the decoded weights.
/// A product with codes in blocks, by the step of this name; `centred` codes have their zero in the middle, and scales of 16 bits.
fn in_blocks(
    (dtype, centred): (DType, bool),
    rows: usize,
    [depth, columns]: [usize; 2],
    block: usize,
    transposed: bool,
    (name, tolerance): (&str, f64),
) {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, rows, depth][usize::from(transposed)..]);
    let (low, many) = match dtype {
        DType::I4 => (-8, 16),
        DType::U4 => (0, 16),
        DType::I8 => (-128, 256),
        _ => (0, 256),
    };
    let codes: Vec<i128> = (0..depth * columns)
        .map(|i| low + (i * 7 % many) as i128)
        .collect();
    let shape = if transposed {
        [columns, depth]
    } else {
        [depth, columns]
    };
    let element = polychip_reference::element(dtype);
    let w = net.constant(&Boxed::from_i128s(element, shape.to_vec(), &codes).unwrap());
    let count = depth.div_ceil(block) * columns;
    let own = encoding(
        EncodingKind::PerBlock {
            axis: usize::from(transposed),
            block,
        },
        &(0..count)
            .map(|i| {
                if centred {
                    // a sign is a scale's, too
                    0.0078125 * (i as f32 % 9.0 - 4.0)
                } else {
                    0.01 * (1 + i % 9) as f32
                }
            })
            .collect::<Vec<_>>(),
        &(0..count as i32)
            .map(|i| {
                if centred {
                    (low + many as i128 / 2) as i32
                } else {
                    i % 5
                }
            })
            .collect::<Vec<_>>(),
    );
    net.part.tensors[w].encoding = Some(own.clone());
    let (op, attributes) = if transposed {
        (Op::Gemm, Attributes::new().with_int(Attr::TransB, 1))
    } else {
        (Op::MatMul, Attributes::new())
    };
    let mut out = net.part.tensors[x].dims.clone().unwrap();
    *out.last_mut().unwrap() = columns;
    let y = net.tensor(DType::F32, Some(out));
    let mut node = Node::new(op, &[x, w], &[y]);
    node.attributes = attributes.clone();
    net.part.nodes.push(node);
    net.output(y);

    let mut plain = Net::default();
    let x = plain.feed(net.fed[0].clone());
    let blocks = depth.div_ceil(block);
    let decoded: Vec<f64> = (0..depth * columns)
        .map(|i| {
            let at = if transposed {
                i / depth * blocks + i % depth / block
            } else {
                i / columns / block * columns + i % columns
            };
            f64::from(own.scales[at]) * (codes[i] as f64 - f64::from(own.zero_points[at]))
        })
        .collect();
    let element = polychip_reference::element(DType::F32);
    let w = plain.constant(&Boxed::from_f64s(element, shape.to_vec(), &decoded).unwrap());
    let y = plain.node(op, attributes, &[x, w]);
    plain.output(y);
    let want = evaluate(&plain.part, &plain.fed);
    let pool = ThreadPool::new(2);
    let program = net.lower(&[Layout::RowMajor; 2], false, &pool);
    let names: Vec<_> = program.steps.iter().map(|step| step.name).collect();
    assert_eq!(names, [name]);
    let case = format!("{dtype:?} {centred} {rows} {block} {transposed}");
    close(&run(&program, &pool, &net.fed)[0], &want[0], tolerance, &case);
}

#[test]
fn int4_weights_are_not_widened() {
    let own = ("gemm of 4-bit weights", 2e-6);
    for dtype in [DType::U4, DType::I4] {
        for transposed in [false, true] {
            in_blocks((dtype, false), 1, [64, 40], 16, transposed, own);
            in_blocks((dtype, false), 5, [70, 19], 16, transposed, own);
            in_blocks((dtype, false), 9, [13, 3], 16, transposed, own);
        }
    }
}

#[test]
fn codes_in_blocks_of_32_are_multiplied_as_blocks() {
    // rows are rounded to 16 bits
    let blocks = ("products with blocks", 1e-4);
    for dtype in [DType::U4, DType::I4, DType::U8, DType::I8] {
        for (transposed, centred) in [(false, false), (false, true), (true, false), (true, true)] {
            in_blocks((dtype, centred), 1, [64, 40], 32, transposed, blocks);
            in_blocks((dtype, centred), 5, [96, 19], 64, transposed, blocks);
            in_blocks((dtype, centred), 9, [32, 3], 128, transposed, blocks);
        }
    }
}
