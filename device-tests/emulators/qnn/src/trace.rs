//! The trace of clients' calls, one line of JSON each: `POLYCHIP_QNN_TRACE=FILE`.
//!
//! The trace has `validate`, `addNode`, `finalize` and `getBinary`. A line for a node contains its
//! parameters and operands in full. Two clients' nodes can therefore be compared, although the
//! clients number their tensors differently.
//!
//! Invariants:
//! 1. Each line is written at once, so the trace of a client that crashes is complete up to the
//!    crash.
//! 2. Long constants are replaced by a checksum, so that the trace of a trained model stays small.

use std::fs::File;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};

use polychip_emulator_qnn_format::{Encoding, Graph, Kind, Linear, Node, Param, Scalar, Tensor};
use serde_json::{Map, Value, json};

use crate::code::Result;
use crate::real;

/// Names the file; it is added to.
const VARIABLE: &str = "POLYCHIP_QNN_TRACE";
/// The most values of a constant in a line.
const MOST_VALUES: usize = 64;

static TRACE: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty())?;
    match File::options().create(true).append(true).open(&path) {
        Ok(file) => Some(Mutex::new(file)),
        Err(error) => {
            eprintln!("{VARIABLE}: {}: {error}; no call is written", path.display());
            None
        }
    }
});

fn line(value: impl FnOnce() -> Value) {
    if let Some(file) = &*TRACE {
        let text = format!("{}\n", value());
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(text.as_bytes()) {
            eprintln!("{VARIABLE}: {error}");
        }
    }
}

/// The code of a call's end.
fn code(result: &Result<()>) -> u64 {
    result.as_ref().err().map_or(0, |code| code.0)
}

/// An op that was asked about.
pub(crate) fn validated(op: &str, result: &Result<()>) {
    line(|| json!({ "call": "validate", "op": op, "code": code(result) }));
}

/// A node that was added.
pub(crate) fn added(graph: &Graph, node: &Node) {
    line(|| {
        let operands = |ids: &[u32]| -> Vec<Value> {
            ids.iter()
                .map(|&id| graph.tensor(id).map_or(Value::Null, tensor))
                .collect()
        };
        let params: Map<String, Value> = node
            .params
            .iter()
            .map(|(name, value)| (name.clone(), param(value)))
            .collect();
        json!({
            "call": "addNode",
            "graph": graph.name,
            "op": node.op,
            "package": node.package,
            "params": params,
            "inputs": operands(&node.inputs),
            "outputs": operands(&node.outputs),
        })
    });
}

/// A graph that was finalized, or not.
pub(crate) fn finalized(graph: &Graph, result: &Result<()>) {
    line(|| {
        let ports = |which: fn(Kind) -> bool| -> Vec<Value> {
            let ports = graph.tensors.iter().filter(|tensor| which(tensor.kind));
            ports.map(tensor).collect()
        };
        json!({
            "call": "finalize",
            "graph": graph.name,
            "nodes": graph.nodes.len(),
            "inputs": ports(Kind::is_input),
            "outputs": ports(Kind::is_output),
            "code": code(result),
        })
    });
}

/// A context whose binary was taken.
pub(crate) fn serialised(bytes: usize) {
    line(|| json!({ "call": "getBinary", "bytes": bytes }));
}

fn tensor(tensor: &Tensor) -> Value {
    let dtype = match tensor.known_dtype() {
        Some(dtype) => format!("{dtype:?}"),
        None => format!("{:#06x}", tensor.dtype),
    };
    let mut value = json!({
        "id": tensor.id,
        "name": tensor.name,
        "kind": format!("{:?}", tensor.kind),
        "format": tensor.format,
        "dtype": dtype,
        "dims": tensor.dims,
        "encoding": encoding(&tensor.encoding),
    });
    if tensor.kind == Kind::Static {
        value["values"] = values(tensor);
    }
    value
}

/// The stored values of a constant, or their checksum if there are many.
fn values(tensor: &Tensor) -> Value {
    let few = tensor.elements().is_some_and(|count| count <= MOST_VALUES);
    if few
        && tensor
            .known_dtype()
            .is_some_and(|dtype| dtype.bits() == 32 && dtype.is_float())
    {
        let words = tensor.data.as_chunks::<4>().0;
        return words.iter().map(|word| f32::from_le_bytes(*word)).collect();
    }
    match real::numbers(tensor, &tensor.data) {
        Ok(numbers) if few => numbers.into(),
        _ => Value::String(format!(
            "fnv {:016x}",
            polychip_emulator_qnn_format::sum(&tensor.data)
        )),
    }
}

fn param(param: &Param) -> Value {
    match param {
        Param::Scalar(scalar) => scalar_value(*scalar),
        Param::Tensor(given) => tensor(given),
    }
}

fn scalar_value(scalar: Scalar) -> Value {
    let dtype = polychip_emulator_qnn_format::Dtype::from_code(scalar.dtype);
    let value = match (scalar.int(), scalar.float()) {
        (Some(int), _) => Value::from(int),
        (None, Some(float)) => Value::from(float),
        (None, None) => Value::Null,
    };
    let dtype = dtype.map_or_else(|| format!("{:#06x}", scalar.dtype), |dtype| format!("{dtype:?}"));
    json!({ "dtype": dtype, "value": value })
}

fn encoding(encoding: &Encoding) -> Value {
    let pair = |step: &Linear| json!([step.scale, step.offset]);
    match encoding {
        Encoding::None => Value::Null,
        Encoding::PerTensor(step) => json!({ "scale": step.scale, "offset": step.offset }),
        Encoding::BitsPerTensor { bits, step } => {
            json!({ "bits": bits, "scale": step.scale, "offset": step.offset })
        }
        Encoding::PerAxis { axis, steps } => {
            json!({ "axis": axis, "steps": steps.iter().map(pair).collect::<Vec<_>>() })
        }
        Encoding::BitsPerAxis { bits, axis, steps } => {
            json!({ "bits": bits, "axis": axis, "steps": steps.iter().map(pair).collect::<Vec<_>>() })
        }
        Encoding::Other(code) => json!({ "code": code }),
    }
}

#[cfg(test)]
mod tests {
    use polychip_emulator_qnn_format::Dtype;

    use super::*;

    fn constant(dtype: Dtype, dims: &[u32], data: &[u8]) -> Tensor {
        Tensor {
            id: 7,
            name: "w".into(),
            kind: Kind::Static,
            format: 0,
            dtype: dtype.code(),
            encoding: Encoding::PerTensor(Linear {
                scale: 0.5,
                offset: -3,
            }),
            dims: dims.to_vec(),
            data: data.into(),
        }
    }

    #[test]
    fn short_constants_stand_whole_and_long_ones_by_their_sum() {
        let short = tensor(&constant(Dtype::Sfixed8, &[2], &[255, 4]));
        assert_eq!(short["values"], json!([-1, 4]));
        assert_eq!(short["encoding"], json!({ "scale": 0.5, "offset": -3 }));
        assert_eq!(
            (&short["dtype"], &short["kind"]),
            (&json!("Sfixed8"), &json!("Static"))
        );
        let float = tensor(&constant(Dtype::Float32, &[1], &1.5f32.to_le_bytes()));
        assert_eq!(float["values"], json!([1.5]));
        let long = |last: u8| {
            let mut data = [1; 65];
            data[64] = last;
            tensor(&constant(Dtype::Ufixed8, &[65], &data))["values"].clone()
        };
        assert_eq!(long(1), long(1));
        assert_ne!(long(1), long(2));
    }
}
