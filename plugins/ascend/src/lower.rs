//! Compiling and loading: the part as an ONNX model of opset 18, which the vendor's compiler turns
//! into an `.om` file.
//!
//! A blob holds the `.om` file and the part's hash, so that the file of another part is detected.
//!
//! Invariant: a loaded model has the graph's inputs and outputs, in number, extents, type and
//! bytes; a port whose extents are known only to a run is refused.
//!
//! Not here: the compiler's process (`atc`).

use std::sync::Arc;

use polychip_lowering::vendor_compiler;
use polychip_sdk::onnx::Release;
use polychip_sdk::{
    AlignedBytes, BlobReader, BlobWriter, CompileOptions, Constant, Error, GraphView, LoadSource, LoadedFrom,
    MemoryKind, MemoryKinds, Port, Result,
};

use crate::atc::MAGIC;
use crate::caps;
use crate::driver::{Model, Opening, Seen};
use crate::shared::Common;

const MODEL: u32 = 1;
const HASH: u32 = 2;

/// What the compiler reads at most.
const READ: Release = Release {
    opset: 18,
    ir_version: 8,
};

/// Contents of a loaded blob.
pub(crate) struct Part {
    pub(crate) model: Model,
    pub(crate) ports: Vec<Port>,
    pub(crate) inputs: usize,
}

/// Makes the blob of a part.
pub(crate) fn compile(
    common: &Common,
    graph: &GraphView<'_>,
    options: &CompileOptions,
) -> Result<AlignedBytes> {
    caps::admit(common, graph, options)?;
    let atc = common
        .atc
        .as_ref()
        .map_err(|why| Error::unsupported(why.clone()))?;
    let model = vendor_compiler::model(graph, READ)?;
    let om = atc.compile(graph, &model, &common.soc)?;
    drop(model);
    BlobWriter::new(&common.made_by)
        .section(MODEL, &om)
        .section(HASH, &vendor_compiler::hash(graph, READ)?)
        .finish()
}

/// Makes a part ready to run.
pub(crate) fn load(
    common: &Common,
    opening: &Arc<Opening>,
    source: LoadSource<'_, AlignedBytes>,
) -> Result<Part> {
    let Some(graph) = source.graph else {
        let what = "a blob of the board is loaded beside the part it was compiled from";
        return Err(Error::bad_argument(what));
    };
    match source.from {
        LoadedFrom::Blob(bytes) => open(common, opening, &bytes, &graph),
        LoadedFrom::Bytes(bytes) => open(common, opening, Constant::bytes(&bytes), &graph),
    }
}

fn open(common: &Common, opening: &Arc<Opening>, bytes: &[u8], graph: &GraphView<'_>) -> Result<Part> {
    let blob = BlobReader::open(bytes, &common.made_by)?;
    if blob.section(HASH)? != vendor_compiler::hash(graph, READ)? {
        return Err(Error::bad_blob("it was compiled from another part"));
    }
    let om = blob.section(MODEL)?;
    if !om.starts_with(MAGIC) {
        return Err(Error::bad_blob("it holds no .om file"));
    }
    let ports = Port::of_graph(graph, MemoryKinds::of(&[MemoryKind::Host]))?;
    let inputs = graph.inputs().len();
    let model = Model::open(opening, om)?;
    let wanted = (inputs, ports.len() - inputs);
    if model.counts() != wanted {
        let found = model.counts();
        return Err(Error::unsupported(format!(
            "the compiler made {} inputs and {} outputs of {} and {}",
            found.0, found.1, wanted.0, wanted.1
        )));
    }
    for (number, port) in ports.iter().enumerate() {
        let (output, index) = match number.checked_sub(inputs) {
            None => (false, number),
            Some(index) => (true, index),
        };
        agrees(&model.port(output, index)?, port).map_err(|what| {
            let side = if output { "output" } else { "input" };
            Error::unsupported(format!("the compiler made of {side} {index} {what}"))
        })?;
    }
    Ok(Part { model, ports, inputs })
}

/// Whether the library's view of a port is ours, else words on what it is.
fn agrees(seen: &Seen, port: &Port) -> std::result::Result<(), String> {
    if seen.extents.iter().any(|&extent| extent < 0) {
        return Err(format!(
            "one of a dynamic shape, {:?}, which is not run",
            seen.extents
        ));
    }
    let wanted: Vec<i64> = port.dims.iter().map(|&extent| extent as i64).collect();
    if seen.extents != wanted {
        return Err(format!("one of {:?}, not of {wanted:?}", seen.extents));
    }
    if !seen.is_f32 {
        return Err("one of another element type than f32".to_owned());
    }
    if seen.bytes as u64 != port.bytes {
        return Err(format!("one of {} bytes, not of {}", seen.bytes, port.bytes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use polychip_ops::DType;

    use super::*;

    #[test]
    fn port_mismatch_names_the_difference() {
        let port = Port::dense(false, DType::F32, &[2, 3]).unwrap();
        let seen = |extents: &[i64], is_f32, bytes| Seen {
            extents: extents.to_vec(),
            is_f32,
            bytes,
        };
        assert_eq!(agrees(&seen(&[2, 3], true, 24), &port), Ok(()));
        for (other, word) in [
            (seen(&[-1, 3], true, 24), "dynamic shape"),
            (seen(&[3, 2], true, 24), "[3, 2]"),
            (seen(&[2, 3], false, 24), "element type"),
            (seen(&[2, 3], true, 32), "32 bytes"),
        ] {
            let words = agrees(&other, &port).unwrap_err();
            assert!(words.contains(word), "{words}");
        }
    }
}
