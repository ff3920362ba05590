//! Each family against the reference evaluator, node by node and in small networks.
#![allow(unsafe_code)]

use polychip_cpu_kernels::{AlignedVec, Isa, ThreadPool};
use polychip_ops::{Attr, AttrValue, Attributes, DType, InferInput, Op, TensorType, Value, infer};
use polychip_reference::Tensor as Boxed;
use polychip_sdk::{AlignedBytes, Constant, Encoding, EncodingKind, Layout};
use proptest::prelude::*;

use super::{Options, lower};
use crate::part::{Node, Part, Tensor};
use crate::step::{Home, Memory, Operands, Program, tensor_from_bytes};

/// A part under construction, with the values of its inputs.
#[derive(Default)]
struct Net {
    part: Part,
    fed: Vec<Boxed>,
    seed: u64,
}

impl Net {
    /// Numbers between -1 and 1 that look random.
    fn numbers(&mut self, count: usize) -> Vec<f64> {
        (0..count)
            .map(|_| {
                self.seed = self
                    .seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                ((self.seed >> 40) as f64 / f64::from(1 << 23)) - 1.0
            })
            .collect()
    }

    fn boxed(&mut self, dtype: DType, shape: &[usize]) -> Boxed {
        let count = shape.iter().product();
        let mut values = self.numbers(count);
        if !dtype.is_float() {
            values
                .iter_mut()
                .for_each(|value| *value = (*value * 40.0).round());
        }
        if dtype == DType::Bool {
            values
                .iter_mut()
                .for_each(|value| *value = f64::from(*value > 0.0));
            let bytes: Vec<u8> = values.iter().map(|&value| value as u8).collect();
            return tensor_from_bytes(dtype, shape, &bytes).unwrap();
        }
        if dtype.is_float() {
            Boxed::from_f64s(polychip_reference::element(dtype), shape.to_vec(), &values).unwrap()
        } else {
            let values: Vec<i128> = values.iter().map(|&value| value as i128).collect();
            Boxed::from_i128s(polychip_reference::element(dtype), shape.to_vec(), &values).unwrap()
        }
    }

    fn tensor(&mut self, dtype: DType, dims: Option<Vec<usize>>) -> usize {
        self.part.tensors.push(Tensor::new(dtype, dims));
        self.part.tensors.len() - 1
    }

    fn input(&mut self, dtype: DType, shape: &[usize]) -> usize {
        let value = self.boxed(dtype, shape);
        self.feed(value)
    }

    fn feed(&mut self, value: Boxed) -> usize {
        let tensor = self.tensor(
            polychip_reference::dtype(value.element()),
            Some(value.shape().to_vec()),
        );
        self.part.inputs.push(tensor);
        self.fed.push(value);
        tensor
    }

    fn constant(&mut self, value: &Boxed) -> usize {
        let bytes: &'static [u8] = value.to_bytes().leak();
        let tensor = self.tensor(
            polychip_reference::dtype(value.element()),
            Some(value.shape().to_vec()),
        );
        self.part.tensors[tensor].constant = Some(Constant::of_static(bytes));
        tensor
    }

    fn weights(&mut self, shape: &[usize]) -> usize {
        let value = self.boxed(DType::F32, shape);
        self.constant(&value)
    }

    fn ints(&mut self, values: &[i64]) -> usize {
        self.constant(&Boxed::from_i64s(vec![values.len()], values.to_vec()).unwrap())
    }

    fn scalar(&mut self, value: f64) -> usize {
        let element = polychip_reference::element(DType::F32);
        self.constant(&Boxed::from_f64s(element, vec![], &[value]).unwrap())
    }

    /// Adds a node whose output shapes are inferred.
    fn nodes(
        &mut self,
        op: Op,
        attributes: Attributes,
        inputs: &[Option<usize>],
        outputs: usize,
    ) -> Vec<usize> {
        let known: Vec<_> = inputs
            .iter()
            .map(|input| {
                input.map(|t| {
                    let t = &self.part.tensors[t];
                    let ty = TensorType::known(t.dtype, t.dims.as_ref().expect("a known shape"));
                    let value = t.constant.as_ref().and_then(|constant| {
                        polychip_ops::Literal::new(t.dtype, t.dims.clone().unwrap(), constant.bytes())
                    });
                    (ty, value.map(Value::Literal))
                })
            })
            .collect();
        let given: Vec<_> = known
            .iter()
            .map(|known| {
                known.as_ref().map(|(ty, value)| InferInput {
                    ty,
                    value: value.as_ref(),
                })
            })
            .collect();
        let inferred = infer(op, &attributes, &given, outputs).unwrap();
        let results: Vec<usize> = inferred
            .iter()
            .map(|inferred| {
                self.tensor(
                    inferred.ty.dtype,
                    Some(inferred.ty.sizes().expect("a known result")),
                )
            })
            .collect();
        let mut node = Node::new(op, &[], &results);
        node.attributes = attributes;
        node.inputs = inputs.to_vec();
        self.part.nodes.push(node);
        results
    }

    fn node(&mut self, op: Op, attributes: Attributes, inputs: &[usize]) -> usize {
        let inputs: Vec<_> = inputs.iter().map(|&t| Some(t)).collect();
        self.nodes(op, attributes, &inputs, 1)[0]
    }

    fn plain(&mut self, op: Op, inputs: &[usize]) -> usize {
        self.node(op, Attributes::new(), inputs)
    }

    fn conv(&mut self, x: usize, out: usize, kernel: usize, stride: i64, groups: usize) -> usize {
        let channels = self.part.tensors[x].dims.as_ref().unwrap()[1];
        let w = self.weights(&[out, channels / groups, kernel, kernel]);
        let b = self.weights(&[out]);
        let pad = (kernel as i64 - 1) / 2;
        let attributes = Attributes::new()
            .with_ints(Attr::Pads, &[pad, pad, pad, pad])
            .with_ints(Attr::Strides, &[stride, stride])
            .with_int(Attr::Group, groups as i64);
        self.node(Op::Conv, attributes, &[x, w, b])
    }

    fn output(&mut self, tensor: usize) {
        self.part.outputs.push(tensor);
    }

    fn lower(&self, layouts: &[Layout], pool: &ThreadPool) -> Program {
        let options = Options {
            isa: Isa::detect(),
            pool,
            layouts,
        };
        lower(&self.part, &options).unwrap()
    }

    /// Lowers, runs and compares with the reference; gives the names of the steps.
    fn check(&self, tolerance: f64) -> Vec<&'static str> {
        let ports = self.part.inputs.len() + self.part.outputs.len();
        self.check_with(tolerance, &vec![Layout::RowMajor; ports])
    }

    fn check_with(&self, tolerance: f64, layouts: &[Layout]) -> Vec<&'static str> {
        let pool = ThreadPool::new(2);
        let program = self.lower(layouts, &pool);
        let expected = evaluate(&self.part, &self.fed);
        let computed = run(&program, &pool, &self.fed);
        // a second run over dirty memory must not differ
        assert_eq!(computed.len(), expected.len());
        for (port, (have, want)) in computed.iter().zip(&expected).enumerate() {
            close(
                have,
                want,
                tolerance,
                &format!("output {port} of {:?}", program.steps),
            );
        }
        program.steps.iter().map(|step| step.name).collect()
    }
}

/// The part's outputs, node by node on the reference evaluator.
fn evaluate(part: &Part, fed: &[Boxed]) -> Vec<Boxed> {
    let mut values: Vec<Option<Boxed>> = part
        .tensors
        .iter()
        .map(|t| {
            let constant = t.constant.as_ref()?;
            Some(tensor_from_bytes(t.dtype, t.dims.as_ref()?, constant.bytes()).unwrap())
        })
        .collect();
    for (&input, value) in part.inputs.iter().zip(fed) {
        values[input] = Some(value.clone());
    }
    for node in &part.nodes {
        let inputs: Vec<_> = node
            .inputs
            .iter()
            .map(|t| t.map(|t| values[t].as_ref().unwrap()))
            .collect();
        let results =
            polychip_reference::evaluate(node.op, &node.attributes, &inputs, node.outputs.len()).unwrap();
        for (output, result) in node.outputs.iter().zip(results) {
            if let Some(output) = *output {
                values[output] = Some(result);
            }
        }
    }
    part.outputs.iter().map(|&t| values[t].clone().unwrap()).collect()
}

fn close(have: &Boxed, want: &Boxed, tolerance: f64, what: &str) {
    assert_eq!(have.shape(), want.shape(), "{what}");
    assert_eq!(have.element(), want.element(), "{what}");
    if !polychip_reference::dtype(want.element()).is_float() {
        assert_eq!(have, want, "{what}");
        return;
    }
    let (have, want) = (have.to_f64s().unwrap(), want.to_f64s().unwrap());
    let largest = want
        .iter()
        .filter(|value| value.is_finite())
        .fold(1e-3f64, |largest, value| largest.max(value.abs()));
    for (i, (have, want)) in have.iter().zip(&want).enumerate() {
        let same = have == want || (have.is_nan() && want.is_nan());
        assert!(
            same || (have - want).abs() <= tolerance * largest,
            "{what}: element {i} is {have}, not {want}"
        );
    }
}

/// Runs a program twice over the same arena and gives the second run's outputs, in ONNX order.
fn run(program: &Program, pool: &ThreadPool, fed: &[Boxed]) -> Vec<Boxed> {
    let mut packed = AlignedVec::zeroed(program.packed_len);
    program.pack(&mut packed).unwrap();
    let mut arena = AlignedVec::zeroed(program.arena_bytes.div_ceil(4));
    let mut ports: Vec<AlignedBytes> = program
        .ports
        .iter()
        .map(|port| AlignedBytes::zeroed(program.values[port.value.0 as usize].bytes, 64).unwrap())
        .collect();
    let mut memory = Memory {
        arena: arena.as_mut_ptr().cast(),
        packed: packed.as_ptr(),
        ports: ports
            .iter_mut()
            .map(|port| (port.as_mut_ptr(), port.len()))
            .collect(),
    };
    let slot = |value: crate::step::ValueId| {
        let storage = program.values[value.0 as usize].storage;
        match program.storages[storage.0 as usize].home {
            Home::Slot(slot) => slot,
            _ => panic!("not boxed"),
        }
    };
    let mut slots = vec![None; program.slots];
    for _ in 0..2 {
        for (port, value) in fed.iter().enumerate() {
            if program.ports[port].boxed {
                slots[slot(program.ports[port].value)] = Some(value.clone());
            } else {
                ports[port].copy_from_slice(&value.to_bytes());
            }
        }
        memory.ports = ports
            .iter_mut()
            .map(|port| (port.as_mut_ptr(), port.len()))
            .collect();
        for step in &program.steps {
            // SAFETY: all memory is as large as the program says and used by this thread alone.
            let mut operands = unsafe { Operands::new(program, step, &memory, &mut slots, pool) };
            (step.run)(&mut operands).unwrap();
        }
        arena.fill(f32::NAN);
    }
    (fed.len()..program.ports.len())
        .map(|port| {
            let port_use = &program.ports[port];
            let value = &program.values[port_use.value.0 as usize];
            if port_use.boxed {
                return slots[slot(port_use.value)].clone().unwrap();
            }
            tensor_from_bytes(value.dtype, value.shape.as_ref().unwrap(), &ports[port]).unwrap()
        })
        .collect()
}

#[test]
fn a_residual_block_becomes_four_steps() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 8, 9, 7]);
    let a = net.conv(x, 16, 3, 1, 1);
    let a = net.plain(Op::Relu, &[a]);
    let b = net.conv(a, 8, 1, 1, 1);
    let sum = net.plain(Op::Add, &[x, b]);
    let y = net.plain(Op::Relu, &[sum]);
    let pooled = net.plain(Op::GlobalAveragePool, &[y]);
    net.output(pooled);
    assert_eq!(net.check(1e-5), ["to channels last", "conv", "conv", "pool"]);
}

#[test]
fn a_shortcut_that_is_computed_later_still_joins() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 4, 6, 6]);
    let a = net.conv(x, 12, 3, 2, 1);
    let shortcut = net.conv(x, 12, 1, 2, 1);
    let sum = net.plain(Op::Add, &[a, shortcut]);
    let y = net.plain(Op::Relu, &[sum]);
    net.output(y);
    assert_eq!(
        net.check(1e-5),
        ["to channels last", "conv", "conv", "to row-major"]
    );
}

#[test]
fn a_residual_behind_the_activation_is_added_there() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 16, 5, 5]);
    let a = net.conv(x, 16, 3, 1, 1);
    let a = net.plain(Op::HardSwish, &[a]);
    let y = net.plain(Op::Add, &[a, x]);
    net.output(y);
    assert_eq!(net.check(1e-5), ["to channels last", "conv", "to row-major"]);
}

#[test]
fn an_intermediate_that_is_also_an_output_is_not_fused_away() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 3, 6, 5]);
    let a = net.conv(x, 5, 3, 1, 1);
    let b = net.plain(Op::Relu, &[a]);
    let c = net.plain(Op::Add, &[b, a]);
    net.output(a);
    net.output(c);
    net.output(b);
    net.check(1e-5);
}

#[test]
fn depthwise_grouped_dilated_and_one_or_three_dimensional_convolutions() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 12, 9, 8]);
    let low = net.scalar(0.0);
    let high = net.scalar(6.0);
    let a = net.conv(x, 12, 3, 2, 12);
    let a = net.plain(Op::Clip, &[a, low, high]);
    let b = net.conv(a, 6, 1, 1, 3);
    net.output(b);
    let w = net.weights(&[4, 12, 2, 3]);
    let dilated = Attributes::new()
        .with_ints(Attr::Dilations, &[2, 3])
        .with_str(Attr::AutoPad, "SAME_UPPER");
    let c = net.node(Op::Conv, dilated, &[x, w]);
    net.output(c);
    net.check(1e-5);

    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 3, 11]);
    let w = net.weights(&[7, 3, 4]);
    let y = net.plain(Op::Conv, &[x, w]);
    net.output(y);
    let x = net.input(DType::F32, &[1, 2, 4, 5, 6]);
    let w = net.weights(&[3, 2, 3, 2, 2]);
    let y = net.node(
        Op::Conv,
        Attributes::new().with_ints(Attr::Strides, &[1, 2, 1]),
        &[x, w],
    );
    net.output(y);
    net.check(1e-5);
}

#[test]
fn ports_may_lie_channels_last() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 1, 6, 5]);
    let y = net.conv(x, 4, 3, 1, 1);
    let flat = net.plain(Op::GlobalMaxPool, &[y]);
    net.output(flat);
    // with one channel, or one pixel, both layouts are the same bytes
    let steps = net.check_with(1e-5, &[Layout::ChannelsLast, Layout::RowMajor]);
    assert_eq!(steps, ["conv", "pool"]);
}

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
        let steps = net.check(1e-5);
        assert_eq!(steps[0], "matmul");
    }
}

#[test]
fn attention_that_hides_keys() {
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
    for side in [Attr::LeftWindowSize, Attr::RightWindowSize] {
        let y = net.node(Op::Attention, Attributes::new().with_int(side, 1), &[q, k, v]);
        net.output(y);
    }
    let steps = net.check(1e-5);
    assert_eq!(steps[0], "matmul");
}

#[test]
fn pools_with_every_padding() {
    for (op, attributes) in [
        (
            Op::MaxPool,
            Attributes::new().with_ints(Attr::Pads, &[1, 0, 1, 1]),
        ),
        (
            Op::MaxPool,
            Attributes::new()
                .with_int(Attr::CeilMode, 1)
                .with_ints(Attr::Strides, &[2, 2]),
        ),
        (Op::MaxPool, Attributes::new().with_ints(Attr::Dilations, &[2, 1])),
        (
            Op::AveragePool,
            Attributes::new().with_ints(Attr::Pads, &[1, 1, 0, 1]),
        ),
        (
            Op::AveragePool,
            Attributes::new()
                .with_ints(Attr::Pads, &[1, 1, 1, 1])
                .with_int(Attr::CountIncludePad, 1)
                .with_int(Attr::CeilMode, 1)
                .with_ints(Attr::Strides, &[2, 3]),
        ),
        (
            Op::AveragePool,
            Attributes::new().with_str(Attr::AutoPad, "SAME_LOWER"),
        ),
    ] {
        let mut net = Net::default();
        let x = net.input(DType::F32, &[2, 5, 8, 7]);
        let y = net.node(op, attributes.with_ints(Attr::KernelShape, &[3, 2]), &[x]);
        net.output(y);
        assert!(net.check(1e-5).contains(&"pool"));
    }
}

#[test]
fn normalisations() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 6, 4, 5]);
    let statistics: Vec<usize> = (0..3).map(|_| net.weights(&[6])).collect();
    let variance = net.constant(
        &Boxed::from_f64s(
            polychip_reference::element(DType::F32),
            vec![6],
            &[0.5, 1.0, 2.0, 0.1, 3.0, 1.5],
        )
        .unwrap(),
    );
    let y = net.plain(
        Op::BatchNormalization,
        &[x, statistics[0], statistics[1], statistics[2], variance],
    );
    net.output(y);
    let y = net.plain(Op::InstanceNormalization, &[x, statistics[0], statistics[1]]);
    net.output(y);
    let groups = Attributes::new().with_int(Attr::NumGroups, 3);
    let y = net.node(Op::GroupNormalization, groups, &[x, statistics[0], statistics[1]]);
    net.output(y);
    for size in [1, 3, 4, 15] {
        let y = net.node(
            Op::LRN,
            Attributes::new()
                .with_int(Attr::Size, size)
                .with_float(Attr::Alpha, 0.3)
                .with_float(Attr::Bias, 2.0),
            &[x],
        );
        net.output(y);
    }
    let scale = net.weights(&[4, 5]);
    let y = net.node(
        Op::LayerNormalization,
        Attributes::new().with_int(Attr::Axis, 2),
        &[x, scale],
    );
    net.output(y);
    let scale = net.weights(&[5]);
    let y = net.node(
        Op::RMSNormalization,
        Attributes::new().with_int(Attr::Axis, -1),
        &[x, scale],
    );
    net.output(y);
    let steps = net.check(1e-5);
    assert!(
        steps.iter().all(|name| !name.contains("Norm") && *name != "LRN"),
        "{steps:?}"
    );
}

#[test]
fn movements_keep_every_element() {
    for dtype in [DType::F32, DType::I64, DType::U8, DType::F16] {
        let mut net = Net::default();
        let x = net.input(dtype, &[2, 8, 3, 4]);
        let transposed = net.node(
            Op::Transpose,
            Attributes::new().with_ints(Attr::Perm, &[0, 2, 3, 1]),
            &[x],
        );
        net.output(transposed);
        let back = net.node(
            Op::Transpose,
            Attributes::new().with_ints(Attr::Perm, &[0, 3, 1, 2]),
            &[transposed],
        );
        net.output(back);
        let starts = net.ints(&[-1, 1]);
        let ends = net.ints(&[-100, 3]);
        let axes = net.ints(&[1, 3]);
        let steps = net.ints(&[-2, 1]);
        let y = net.plain(Op::Slice, &[x, starts, ends, axes, steps]);
        net.output(y);
        let first = net.ints(&[1]);
        let last = net.ints(&[2]);
        let y = net.plain(Op::Slice, &[x, first, last]);
        let flat = net.plain(Op::Flatten, &[y]);
        net.output(flat);
        let sizes = net.ints(&[3, 5]);
        let parts = net.nodes(
            Op::Split,
            Attributes::new().with_int(Attr::Axis, 1),
            &[Some(x), Some(sizes)],
            2,
        );
        let joined = net.node(
            Op::Concat,
            Attributes::new().with_int(Attr::Axis, 1),
            &[parts[1], parts[0], x],
        );
        net.output(joined);
        let y = net.node(
            Op::SpaceToDepth,
            Attributes::new().with_int(Attr::Blocksize, 1),
            &[x],
        );
        net.output(y);
        for mode in ["DCR", "CRD"] {
            let attributes = Attributes::new()
                .with_int(Attr::Blocksize, 2)
                .with_str(Attr::Mode, mode);
            let even = net.input(dtype, &[1, 3, 4, 6]);
            let y = net.node(Op::SpaceToDepth, attributes, &[even]);
            net.output(y);
            let attributes = Attributes::new()
                .with_int(Attr::Blocksize, 2)
                .with_str(Attr::Mode, mode);
            let y = net.node(Op::DepthToSpace, attributes, &[x]);
            net.output(y);
        }
        let shape = net.ints(&[3, 2, 8, 3, 4]);
        let y = net.plain(Op::Expand, &[x, shape]);
        net.output(y);
        let pads = net.ints(&[0, 1, 0, 2, 1, 0, 0, 3]);
        let y = net.plain(Op::Pad, &[x, pads]);
        net.output(y);
        let indices = net.ints(&[2, -1, 0]);
        let y = net.node(
            Op::Gather,
            Attributes::new().with_int(Attr::Axis, 2),
            &[x, indices],
        );
        net.output(y);
        net.output(x);
        let steps = net.check(0.0);
        assert!(
            steps.iter().all(|name| name.starts_with(char::is_lowercase)),
            "{dtype:?}: {steps:?}"
        );
    }
}

#[test]
fn channels_last_tensors_keep_their_form_through_a_network() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 3, 8, 8]);
    let a = net.conv(x, 8, 3, 1, 1);
    let a = net.plain(Op::Sigmoid, &[a]);
    let sizes = net.ints(&[2, 6]);
    let parts = net.nodes(
        Op::Split,
        Attributes::new().with_int(Attr::Axis, 1),
        &[Some(a), Some(sizes)],
        2,
    );
    let scale = net.weights(&[6, 1, 1]);
    let b = net.plain(Op::Mul, &[parts[1], scale]);
    let b = net.plain(Op::Add, &[b, b]);
    let joined = net.node(
        Op::Concat,
        Attributes::new().with_int(Attr::Axis, 1),
        &[b, parts[0], a],
    );
    let scales = net.constant(
        &Boxed::from_f64s(
            polychip_reference::element(DType::F32),
            vec![4],
            &[1.0, 1.0, 2.0, 2.0],
        )
        .unwrap(),
    );
    let resize = Attributes::new()
        .with_str(Attr::Mode, "nearest")
        .with_str(Attr::CoordinateTransformationMode, "asymmetric")
        .with_str(Attr::NearestMode, "floor");
    let up = net.nodes(Op::Resize, resize, &[Some(joined), None, Some(scales)], 1)[0];
    let up2 = net.nodes(
        Op::Resize,
        Attributes::new().with_str(Attr::Mode, "linear"),
        &[Some(joined), None, Some(scales)],
        1,
    )[0];
    let up = net.plain(Op::Add, &[up, up2]);
    let axes = net.ints(&[2, 3]);
    let mean = net.node(
        Op::ReduceMean,
        Attributes::new().with_int(Attr::Keepdims, 0),
        &[up, axes],
    );
    net.output(mean);
    let soft = net.node(Op::Softmax, Attributes::new().with_int(Attr::Axis, 1), &[up]);
    let axes = net.ints(&[1]);
    let most = net.node(
        Op::ReduceMax,
        Attributes::new().with_int(Attr::Keepdims, 0),
        &[soft, axes],
    );
    net.output(most);
    let steps = net.check(1e-5);
    assert_eq!(
        steps.iter().filter(|&&name| name.starts_with("to ")).count(),
        1,
        "{steps:?}"
    );
}

#[test]
fn convolutions_compute_into_their_place_of_a_concatenation() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 3, 6, 5]);
    let a = net.conv(x, 4, 1, 1, 1);
    let a = net.plain(Op::Relu, &[a]);
    let b = net.conv(x, 7, 3, 1, 1);
    let c = net.conv(x, 5, 3, 1, 1);
    let d = net.plain(Op::Tanh, &[c]);
    let pooled = net.plain(Op::GlobalAveragePool, &[c]);
    let joined = net.node(
        Op::Concat,
        Attributes::new().with_int(Attr::Axis, 1),
        &[a, x, b, d],
    );
    net.output(joined);
    net.output(pooled);
    let steps = net.check(1e-5);
    assert_eq!(
        steps.iter().filter(|&&name| name == "concat").count(),
        2,
        "{steps:?}"
    );
}

#[test]
fn filled_tensors_are_constants() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[3, 4]);
    let shape = net.ints(&[4, 5]);
    let value = polychip_ops::Literal::f32s(&[0.25]);
    let w = net.node(
        Op::ConstantOfShape,
        Attributes::new().with(Attr::Value, AttrValue::Tensor(value)),
        &[shape],
    );
    let y = net.plain(Op::MatMul, &[x, w]);
    net.output(y);
    net.output(w);
    net.part.find_fills();
    assert_eq!(net.check(1e-6), ["gemm", "to port"]);
}

#[test]
fn what_has_no_fast_kernel_runs_on_the_reference() {
    let mut net = Net::default();
    let x = net.input(DType::F64, &[3, 4]);
    let y = net.plain(Op::Tanh, &[x]);
    net.output(y);
    let i = net.input(DType::I32, &[3, 4]);
    let j = net.plain(Op::Mul, &[i, i]);
    net.output(j);
    let mask = net.plain(Op::Greater, &[j, i]);
    let chosen = net.plain(Op::Where, &[mask, i, j]);
    net.output(chosen);
    let to = Attributes::new().with(Attr::To, AttrValue::Int(i64::from(DType::F32.code())));
    let f = net.node(Op::Cast, to, &[chosen]);
    net.output(f);
    assert_eq!(net.check(0.0), ["Tanh", "Mul", "Greater", "where", "cast"]);
}

#[test]
fn tensors_of_unknown_shape_are_boxed() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[3, 4]);
    let relu = net.plain(Op::Relu, &[x]);
    let places = net.tensor(DType::I64, None);
    net.part.nodes.push(Node::new(Op::NonZero, &[relu], &[places]));
    let doubled = net.tensor(DType::I64, None);
    net.part
        .nodes
        .push(Node::new(Op::Add, &[places, places], &[doubled]));
    net.output(doubled);
    assert_eq!(net.check(0.0), ["unary", "NonZero", "Add"]);
}

fn encoding(kind: EncodingKind, scales: &[f32], zero_points: &[i32]) -> Encoding {
    Encoding {
        kind,
        scales: scales.to_vec(),
        zero_points: zero_points.to_vec(),
        real_dtype: DType::F32,
    }
}

#[test]
fn an_op_on_quantised_tensors_means_dequantise_op_quantise() {
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
    let program = net.lower(&[Layout::RowMajor; 2], &pool);
    let have = run(&program, &pool, &net.fed);
    let (have, want) = (have[0].to_i64s().unwrap(), want[0].to_i64s().unwrap());
    // a value at the middle between two integers may round either way
    assert!(
        have.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 1),
        "{have:?} {want:?}"
    );
    assert!(have.iter().zip(&want).filter(|(a, b)| a != b).count() <= 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn binary_ops_broadcast_as_the_reference_does(
        dims in prop::collection::vec((1usize..5, any::<bool>(), any::<bool>()), 0..5),
        cut in 0usize..3,
        op in prop::sample::select(vec![Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Min, Op::Max]),
    ) {
        let mut net = Net { seed: cut as u64, ..Net::default() };
        let a: Vec<usize> = dims.iter().map(|&(size, one, _)| if one { 1 } else { size }).collect();
        let b: Vec<usize> = dims.iter().map(|&(size, _, one)| if one { 1 } else { size }).collect();
        let b = b[cut.min(b.len())..].to_vec();
        let (x, y) = (net.input(DType::F32, &a), net.input(DType::F32, &b));
        let z = net.plain(op, &[x, y]);
        net.output(z);
        net.check(1e-6);
    }

    #[test]
    fn convolutions_of_odd_shapes(
        (n, groups, per_group, out_per_group) in (1usize..3, 1usize..4, 1usize..6, 1usize..20),
        (h, w, kh, kw) in (3usize..9, 3usize..12, 1usize..4, 1usize..4),
        (stride, pad) in (1i64..3, 0i64..2),
    ) {
        let mut net = Net::default();
        let x = net.input(DType::F32, &[n, groups * per_group, h, w]);
        let weights = net.weights(&[groups * out_per_group, per_group, kh, kw]);
        let attributes = Attributes::new()
            .with_int(Attr::Group, groups as i64)
            .with_ints(Attr::Strides, &[stride, 1])
            .with_ints(Attr::Pads, &[pad, 0, 0, pad]);
        let y = net.node(Op::Conv, attributes, &[x, weights]);
        let y = net.plain(Op::LeakyRelu, &[y]);
        net.output(y);
        net.check(1e-5);
    }

    #[test]
    fn reductions_over_any_axes(
        shape in prop::collection::vec(1usize..5, 1..5),
        mask in prop::collection::vec(any::<bool>(), 5),
        keeps in 0i64..2,
        op in prop::sample::select(vec![
            Op::ReduceSum, Op::ReduceMean, Op::ReduceMax, Op::ReduceMin, Op::ReduceProd, Op::ReduceL1,
            Op::ReduceL2, Op::ReduceSumSquare,
        ]),
    ) {
        let axes: Vec<i64> = (0..shape.len() as i64).filter(|&axis| mask[axis as usize]).collect();
        prop_assume!(!axes.is_empty());
        let mut net = Net::default();
        let x = net.input(DType::F32, &shape);
        let axes = net.ints(&axes);
        let y = net.node(op, Attributes::new().with_int(Attr::Keepdims, keeps), &[x, axes]);
        net.output(y);
        net.check(1e-5);
    }

    #[test]
    fn unary_functions_match(
        op in prop::sample::select(vec![
            Op::Abs, Op::Neg, Op::Relu, Op::Exp, Op::Erf, Op::Tanh, Op::Sigmoid, Op::Gelu, Op::HardSigmoid,
            Op::HardSwish, Op::Elu, Op::Selu, Op::Celu, Op::Softplus, Op::Softsign, Op::Mish, Op::Floor, Op::Ceil,
            Op::Round, Op::Sign, Op::Sin, Op::Cos, Op::LeakyRelu, Op::ThresholdedRelu, Op::Swish,
        ]),
        len in 1usize..70,
    ) {
        let mut net = Net { seed: len as u64, ..Net::default() };
        let x = net.input(DType::F32, &[len]);
        let y = net.plain(op, &[x]);
        net.output(y);
        let steps = net.check(2e-6);
        prop_assert!(steps.len() == 1);
    }
}
