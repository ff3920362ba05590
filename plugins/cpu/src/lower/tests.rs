//! Each op class against the reference evaluator, node by node and in small networks.
#![allow(unsafe_code)]

mod convolution;
mod data_dependent;
mod dynamic_shapes;
mod elementwise;
#[cfg(feature = "fourier")]
mod fourier;
mod groups;
mod half;
mod integers;
mod movement;
mod nbits;
mod product;
mod quantised;
mod recurrent;
mod reduction;
mod regions;
mod sampling;
mod work;

use polychip_cpu_kernels::{AlignedVec, Isa, ThreadPool};
use polychip_ops::{Attr, AttrValue, Attributes, DType, InferInput, Op, TensorType, Value, infer};
use polychip_reference::Tensor as Boxed;
use polychip_sdk::{AlignedBytes, Constant, Encoding, EncodingKind, Layout};
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::{Options, dry_run, lower};
use crate::part::{Node, Part, Programs, Tensor};
use crate::step::{Context, Home, Memory, Program, Step, tensor_from_bytes};
use crate::weights::Weights;

/// A part under construction, with the values of its inputs.
struct Net {
    part: Part,
    fed: Vec<Boxed>,
    random: ChaCha8Rng,
}

impl Default for Net {
    fn default() -> Net {
        Net {
            part: Part::default(),
            fed: Vec::new(),
            random: ChaCha8Rng::seed_from_u64(0),
        }
    }
}

impl Net {
    /// Random numbers between -1 and 1, which f32 holds.
    fn numbers(&mut self, count: usize) -> Vec<f64> {
        (0..count)
            .map(|_| f64::from(self.random.random_range(-1.0f32..1.0)))
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

    /// Random numbers of which products and sums are exact in f32, whatever their order.
    fn sixtyfourths(&mut self, shape: &[usize]) -> Boxed {
        let numbers = self.numbers(shape.iter().product());
        let values: Vec<f64> = numbers.iter().map(|x| (x * 64.0).round() / 64.0).collect();
        Boxed::from_f64s(polychip_reference::element(DType::F32), shape.to_vec(), &values).unwrap()
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

    fn lower(&self, layouts: &[Layout], reduced: bool, pool: &ThreadPool) -> Program {
        let options = Options {
            programs: &Programs::default(),
            choices: crate::tune::Choices::Rule,
            isa: Isa::detect(),
            pool,
            layouts,
            reduced,
        };
        lower(&self.part, &options).unwrap()
    }

    /// A dry run, from which support and estimates come, has the steps of the lowered part.
    fn check_dry_run(&self, layouts: &[Layout], program: &Program) {
        let options = Options {
            programs: &Programs::default(),
            choices: crate::tune::Choices::Rule,
            isa: Isa::detect(),
            pool: &ThreadPool::new(1),
            layouts,
            reduced: false,
        };
        let dry = dry_run(&self.part, &options);
        let told = |steps: &[Step]| -> Vec<_> {
            let told = steps.iter().map(|step| (step.node, step.name, step.work));
            told.collect()
        };
        assert_eq!(told(&dry.steps), told(&program.steps));
        assert!(dry.refused.iter().all(Option::is_none));
    }

    /// Lowers, runs and compares with the reference; gives the names of the steps.
    fn check(&self, tolerance: f64) -> Vec<&'static str> {
        let ports = self.part.inputs.len() + self.part.outputs.len();
        self.check_with(tolerance, &vec![Layout::RowMajor; ports])
    }

    fn check_with(&self, tolerance: f64, layouts: &[Layout]) -> Vec<&'static str> {
        let pool = ThreadPool::new(2);
        let expected = evaluate(&self.part, &self.fed);
        // bf16 has 8 bits; what a rounding may turn from one integer to another says nothing
        let reduced = self.lower(layouts, true, &pool);
        let computed = run(&reduced, &pool, &self.fed);
        for (port, (have, want)) in computed.iter().zip(&expected).enumerate() {
            if polychip_reference::dtype(want.element()).is_float() {
                let what = format!("reduced, output {port} of {:?}", reduced.steps);
                close(have, want, tolerance.max(0.04), &what);
            }
        }
        let program = self.lower(layouts, false, &pool);
        self.check_dry_run(layouts, &program);
        check_members(&program);
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
        self.check_dynamic_shapes(tolerance, &expected);
        program.steps.iter().map(|step| step.name).collect()
    }

    /// The same where no size is known before the run: the first run is the evaluator's, the second one by kernels, as far
    /// as there are any. Gives how many nodes were.
    fn check_dynamic_shapes(&self, tolerance: f64, expected: &[Boxed]) -> usize {
        let mut part = self.part.clone();
        let open =
            |t: &Tensor| t.encoding.is_none() && t.plain && t.fill.is_none() && t.dtype != DType::String;
        if !part.tensors.iter().all(open) || !part.states.is_empty() {
            return 0;
        }
        for t in part.tensors.iter_mut().filter(|t| !t.is_constant()) {
            (t.dims, t.bounds) = (None, None);
        }
        let pool = ThreadPool::new(2);
        let net = Net {
            part,
            fed: self.fed.clone(),
            random: ChaCha8Rng::seed_from_u64(0),
        };
        let layouts = vec![Layout::RowMajor; net.part.inputs.len() + net.part.outputs.len()];
        let program = net.lower(&layouts, false, &pool);
        net.check_dry_run(&layouts, &program);
        let before = super::dynamic_shapes::CALLS.get();
        let computed = run(&program, &pool, &net.fed);
        for (port, (have, want)) in computed.iter().zip(expected).enumerate() {
            let what = format!("dynamic shapes, output {port} of {:?}", program.steps);
            close(have, want, tolerance, &what);
        }
        super::dynamic_shapes::CALLS.get() - before
    }
}

/// Each step names the nodes that it computes (none brings an input to an output): its own among them, and no node is in two groups of several.
fn check_members(program: &Program) {
    let among = |some: &[u32], all: &[u32]| some.iter().all(|node| all.contains(node));
    for step in &program.steps {
        assert!(step.nodes.is_sorted(), "{step:?}: {:?}", step.nodes);
        assert!(
            step.nodes.is_empty() || step.nodes.contains(&step.node),
            "{step:?}: {:?} without {}",
            step.nodes,
            step.node
        );
        for other in &program.steps {
            let (a, b) = (&step.nodes[..], &other.nodes[..]);
            // a step that moves an output to its port is attributed to the node that makes it
            let apart = !a.iter().any(|node| b.contains(node));
            let one_of = |a: &[u32], b: &[u32]| a.len() == 1 && among(a, b);
            assert!(
                apart || a == b || one_of(a, b) || one_of(b, a),
                "{step:?} {a:?} and {other:?} {b:?}"
            );
        }
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
    try_run(program, pool, fed).unwrap()
}

/// As [`run`], with the error of a step.
fn try_run(program: &Program, pool: &ThreadPool, fed: &[Boxed]) -> polychip_sdk::Result<Vec<Boxed>> {
    let packed = Weights::default().pack(&program.packers, pool).unwrap();
    let mut arena = AlignedVec::zeroed(program.arena_bytes.div_ceil(4));
    let mut ports: Vec<AlignedBytes> = program
        .ports
        .iter()
        .map(|port| AlignedBytes::zeroed(program.values[port.value.0 as usize].bytes, 64).unwrap())
        .collect();
    let mut memory = Memory {
        arena: arena.as_mut_ptr().cast(),
        packed: packed.table().as_ptr(),
        ports: ports
            .iter_mut()
            .map(|port| (port.as_mut_ptr(), port.len()))
            .collect(),
    };
    let slot = |value: crate::step::ValueId| {
        let allocation = program.values[value.0 as usize].allocation;
        match program.allocations[allocation.0 as usize].home {
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
        let context = Context {
            node: &Some,
            clock: None,
            once: true,
        };
        // SAFETY: all memory is as large as the program says and used by this thread alone.
        unsafe { program.run_steps(&memory, &mut slots, pool, &|| false, &context)? };
        arena.fill(f32::NAN);
    }
    let outputs = (fed.len()..program.ports.len()).map(|port| {
        let port_use = &program.ports[port];
        let value = &program.values[port_use.value.0 as usize];
        if port_use.boxed {
            return slots[slot(port_use.value)].clone().unwrap();
        }
        tensor_from_bytes(value.dtype, value.shape.as_ref().unwrap(), &ports[port]).unwrap()
    });
    Ok(outputs.collect())
}
