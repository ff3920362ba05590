//! The model of a package: its description, and the program's one function `main`.
//!
//! Numbers of fields and codes of types are those of Core ML's published format.
//!
//! Invariant: every argument is bound by name to an earlier value, and constants are operations of their own. An
//! operation that makes a constant holds its arguments itself, as readers of this version require.

use polychip_sdk::protobuf::Message;

use super::weights;
use crate::program::{Arg, Operation, Program, Type, Value};

/// Constants of this many bytes or fewer are in the model itself.
pub(super) const SMALL: usize = 64;

/// What readers of iOS 17 and macOS 14 know.
const SPECIFICATION: u64 = 8;
const OPSET: &str = "CoreML7";
const WEIGHTS: &str = "@model_path/weights/weight.bin";

const BOOL: u64 = 1;
const STRING: u64 = 2;

/// Code of a type in a program.
const fn code(ty: Type) -> u64 {
    match ty {
        Type::I8 => 21,
        Type::U8 => 31,
        Type::F16 => 10,
        Type::F32 => 11,
        Type::I32 => 23,
    }
}

/// Code of a type in a description, where bytes are widened.
const fn array_code(ty: Type) -> u64 {
    match ty {
        Type::F16 | Type::I8 | Type::U8 => 65552,
        Type::F32 => 65568,
        Type::I32 => 131_104,
    }
}

/// The bytes of `model.mlmodel`; large constants go to the weights.
pub(super) fn bytes(program: &Program, weights: &mut weights::Writer) -> Vec<u8> {
    let mut description = Message::new();
    for (field, ids) in [(1, &program.inputs), (10, &program.outputs)] {
        for &id in ids {
            description = description.message(field, &feature(&program.values[id]));
        }
    }
    let mut block = Message::new();
    for &id in &program.outputs {
        block = block.text(2, &program.values[id].name);
    }
    let mut made = vec![false; program.values.len()];
    for (number, operation) in program.operations.iter().enumerate() {
        for id in operation.reads().filter(|_| !operation.is_constant()) {
            let value = &program.values[id];
            if let (Some(data), false) = (&value.data, std::mem::replace(&mut made[id], true)) {
                block = block.message(3, &constant(value, data, weights));
            }
        }
        block = if operation.is_constant() {
            block.message(3, &constexpr(program, operation, number, weights))
        } else {
            operate(block, program, operation, number)
        };
    }
    let mut function = Message::new();
    for &id in &program.inputs {
        function = function.message(1, &named(&program.values[id]));
    }
    function = function.text(2, OPSET).entry(3, OPSET, &block);
    let whole = Message::new().number(1, 1).entry(2, "main", &function);
    Message::new()
        .number(1, SPECIFICATION)
        .message(2, &description)
        .message(502, &whole)
        .into_bytes()
}

/// A port in the description.
fn feature(value: &Value) -> Message {
    let array = Message::new()
        .packed(1, value.dims.iter().map(|&dim| dim as u64))
        .number(2, array_code(value.ty));
    Message::new()
        .text(1, &value.name)
        .message(3, &Message::new().message(5, &array))
}

/// The type of a tensor.
fn tensor(code: u64, dims: &[usize]) -> Message {
    let mut tensor = Message::new().number(1, code).number(2, dims.len() as u64);
    for &dim in dims {
        let size = Message::new().number(1, dim as u64);
        tensor = tensor.message(3, &Message::new().message(1, &size));
    }
    Message::new().message(1, &tensor)
}

fn named(value: &Value) -> Message {
    Message::new()
        .text(1, &value.name)
        .message(2, &tensor(code(value.ty), &value.dims))
}

/// A value with its elements, `field` of a tensor's value.
fn immediate(ty: &Message, field: u32, elements: &Message) -> Message {
    let values = Message::new().message(field, elements);
    Message::new()
        .message(2, ty)
        .message(3, &Message::new().message(1, &values))
}

fn text_value(text: &str) -> Message {
    immediate(&tensor(STRING, &[]), 4, &Message::new().text(1, text))
}

/// Elements of a type, as the field of a tensor's value that holds them.
fn elements(ty: Type, dims: &[usize], data: &[u8]) -> Message {
    let field = match ty {
        Type::F32 => 1,
        Type::I32 => {
            let words = data
                .as_chunks()
                .0
                .iter()
                .map(|&word| i64::from(i32::from_le_bytes(word)) as u64);
            return immediate(&tensor(code(ty), dims), 2, &Message::new().packed(1, words));
        }
        Type::F16 | Type::I8 | Type::U8 => 7,
    };
    immediate(&tensor(code(ty), dims), field, &Message::new().bytes(1, data))
}

/// An operation that makes a constant.
fn making(name: &str, ty: &Message, value: &Message) -> Message {
    Message::new()
        .text(1, "const")
        .message(3, &Message::new().text(1, name).message(2, ty))
        .entry(5, "name", &text_value(name))
        .entry(5, "val", value)
}

fn constant(value: &Value, data: &[u8], weights: &mut weights::Writer) -> Message {
    let ty = tensor(code(value.ty), &value.dims);
    making(&value.name, &ty, &content(value, data, weights))
}

/// The elements of a constant: here, or where they lie.
fn content(value: &Value, data: &[u8], weights: &mut weights::Writer) -> Message {
    let ty = tensor(code(value.ty), &value.dims);
    if data.len() <= SMALL {
        elements(value.ty, &value.dims, data)
    } else {
        let file = Message::new()
            .text(1, WEIGHTS)
            .number(2, weights.add(value.ty, data));
        Message::new().message(2, &ty).message(5, &file)
    }
}

/// An operation that makes a constant of constants.
fn constexpr(
    program: &Program,
    operation: &Operation,
    number: usize,
    weights: &mut weights::Writer,
) -> Message {
    let mut message = Message::new().text(1, operation.kind);
    for &id in &operation.outputs {
        message = message.message(3, &named(&program.values[id]));
    }
    message = message.entry(5, "name", &text_value(&format!("op{number}")));
    for (parameter, arg) in &operation.args {
        let given = match arg {
            Arg::Value(id) => {
                let value = &program.values[*id];
                content(value, value.data.as_deref().unwrap_or_default(), weights)
            }
            Arg::Int(value) => elements(Type::I32, &[], &value.to_le_bytes()),
            // no operation that makes a constant has others
            _ => continue,
        };
        message = message.entry(5, parameter, &given);
    }
    message
}

/// Adds an operation, behind the constants that its parameters are.
fn operate(mut block: Message, program: &Program, operation: &Operation, number: usize) -> Message {
    let name = |id: usize| &*program.values[id].name;
    let mut inputs = Vec::new();
    for (parameter, arg) in &operation.args {
        let own = format!("op{number}_{parameter}");
        let ints = |values: &[i32]| {
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect::<Vec<u8>>()
        };
        let (ty, value) = match arg {
            Arg::Value(id) => {
                inputs.push((parameter, vec![name(*id).to_owned()]));
                continue;
            }
            Arg::Values(ids) => {
                inputs.push((parameter, ids.iter().map(|&id| name(id).to_owned()).collect()));
                continue;
            }
            Arg::Int(value) => (
                tensor(code(Type::I32), &[]),
                elements(Type::I32, &[], &value.to_le_bytes()),
            ),
            Arg::Ints(values) => (
                tensor(code(Type::I32), &[values.len()]),
                elements(Type::I32, &[values.len()], &ints(values)),
            ),
            Arg::Real(ty, value) => (tensor(code(*ty), &[]), elements(*ty, &[], &ty.store(&[*value]))),
            Arg::Bool(value) => {
                let ty = tensor(BOOL, &[]);
                let value = immediate(&ty, 3, &Message::new().packed(1, [u64::from(*value)]));
                (ty, value)
            }
            Arg::Text(text) => (tensor(STRING, &[]), text_value(text)),
        };
        block = block.message(3, &making(&own, &ty, &value));
        inputs.push((parameter, vec![own]));
    }
    let mut message = Message::new().text(1, operation.kind);
    for (parameter, names) in inputs {
        let mut argument = Message::new();
        for name in names {
            argument = argument.message(1, &Message::new().text(1, &name));
        }
        message = message.entry(2, parameter, &argument);
    }
    for &id in &operation.outputs {
        message = message.message(3, &named(&program.values[id]));
    }
    message = message.entry(5, "name", &text_value(&format!("op{number}")));
    block.message(3, &message)
}
