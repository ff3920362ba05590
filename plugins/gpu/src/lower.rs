//! Lowering: a part as launches of kernels over values in memory.
//!
//! So far Identity, Relu and Add on f32 of one shape.

use polychip_gpu_kernels::{Access, Scalar, Text};
use polychip_ops::{DType, Op};
use polychip_sdk::{CompileOptions, Error, GraphView, Port, Result, Support};

pub(crate) use crate::blob::Lowered;
use crate::caps;
use crate::program::{ALIGN, Home, Program, Step, Value};
use crate::target::Target;

/// Lowers a part.
pub(crate) fn lower(graph: &GraphView<'_>, _options: &CompileOptions, target: &Target) -> Result<Lowered> {
    let mut program = Program {
        kernels: Vec::new(),
        values: Vec::new(),
        steps: Vec::new(),
        arena_bytes: 0,
        ports: Vec::new(),
    };
    let mut constants = Vec::new();
    let mut ports = Vec::new();
    let of_ports: Vec<u32> = graph.inputs().iter().chain(graph.outputs()).copied().collect();
    for tensor in graph.tensors() {
        let shape = tensor
            .shape()
            .ok_or_else(|| Error::unsupported("a tensor of unknown shape"))?;
        let bytes = (4 * caps::elements(&shape).unwrap_or(0)) as u64;
        let port = of_ports.iter().position(|&port| port == tensor.index());
        let home = match (tensor.constant(), port) {
            (Some(constant), _) => {
                let at = constants.len() as u64;
                constants.extend_from_slice(constant.bytes());
                constants.resize(constants.len().next_multiple_of(ALIGN as usize), 0);
                Home::Constants(at)
            }
            (None, Some(port)) => Home::Port(port as u32),
            (None, None) => {
                let at = program.arena_bytes;
                program.arena_bytes += bytes.next_multiple_of(ALIGN);
                Home::Arena(at)
            }
        };
        program.values.push(Value { home, bytes });
    }
    for (number, &tensor) in of_ports.iter().enumerate() {
        let shape = graph.tensor(tensor).shape().unwrap_or_default();
        ports.push(Port::dense(number >= graph.inputs().len(), DType::F32, &shape)?);
        program.ports.push(tensor);
    }
    for node in graph.nodes() {
        if let Support::No { reason, detail } = caps::support(graph, &node) {
            let what = format!("{} {}: {reason:?}: {detail}", node.op_name(), node.name());
            return Err(Error::unsupported(what).at_node(node.index()));
        }
        let operands: Vec<u32> = node.inputs().chain(node.outputs()).flatten().collect();
        let count = program.values[operands[0] as usize].bytes / 4;
        let mut text = Text::new();
        let names = ["a", "b", "c"];
        for (name, &operand) in names.iter().zip(&operands) {
            let access = match program.values[operand as usize].home {
                Home::Constants(_) => Access::Constant,
                _ => Access::Read,
            };
            text.binding(name, access, Scalar::F32, 1, count);
        }
        let (value, to) = match node.op() {
            Op::Identity => ("a[i]", "b"),
            Op::Relu => ("max(a[i], 0.0)", "b"),
            _ => ("a[i] + b[i]", "c"),
        };
        let body = format!("let i = group.x * 64u + thread; if i < {count}u {{ {to}[i] = {value}; }}");
        let groups = [count.div_ceil(64) as u32, 1, 1];
        let kernel = text
            .kernel("plain", [64, 1, 1], groups, count, &body, &target.limits)
            .map_err(|error| Error::unsupported(error.to_string()))?;
        program.steps.push(Step {
            node: node.index(),
            kernel: program.kernels.len() as u32,
            operands,
        });
        program.kernels.push(kernel);
    }
    Ok(Lowered {
        program,
        constants,
        ports,
    })
}
