//! Supported nodes: the library's verdict on each node by itself, minus known errors of the
//! library.
//!
//! A node is queried as a separate model. The library's reader accepts or refuses it, and its
//! result must have the type and shape that the graph states; for a GPU or NPU it is also compiled.
//! Verdicts are cached by node content (the model without large constants), in memory and in the
//! host's store.
//!
//! Invariants:
//! 1. A supported node compiles, loads, runs, and yields correct results: a result known to be
//!    wrong is a refusal.
//! 2. The same node gets the same verdict from the same library, device and build.

mod wrong;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use polychip_abi::POLYCHIP_MAX_RANK;
use polychip_ops::{DType, Op};
use polychip_sdk::onnx::{self, Options, Weights};
use polychip_sdk::{
    ErrorKind, GraphView, HostServices, LogLevel, NodeView, Reason, Result, Support, TensorView,
};

use crate::shared::Shared;
use crate::{api, model};

type Hash = [u8; 32];

/// Verdicts of this session.
#[derive(Default)]
pub(crate) struct SupportCache {
    known: BTreeMap<Hash, Support>,
}

/// Support of all nodes of a graph.
pub(crate) fn support(
    shared: &Shared,
    host: &HostServices,
    answers: &Mutex<SupportCache>,
    graph: &GraphView<'_>,
) -> Result<Vec<Support>> {
    let mut questions = Vec::with_capacity(graph.node_count());
    let mut all = blake3::Hasher::new();
    for node in graph.nodes() {
        let question = match ours(graph, &node) {
            Support::Yes => question(graph, &node),
            no => Err(no),
        };
        if let Ok(hash) = &question {
            all.update(hash);
        }
        questions.push(question);
    }
    let key = format!("support {} {}", shared.made_by, all.finalize().to_hex());
    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    let mut asked = false;
    let new = |answers: &SupportCache| {
        let mut hashes = questions.iter().flatten();
        hashes.any(|hash| !answers.known.contains_key(hash))
    };
    if new(&answers)
        && let Ok(Some(stored)) = host.store_read(&key)
    {
        answers.known.extend(parse(&stored));
    }
    let mut result = Vec::with_capacity(questions.len());
    for (node, question) in graph.nodes().zip(&questions) {
        result.push(match question {
            Err(no) => no.clone(),
            Ok(hash) => match answers.known.get(hash) {
                Some(known) => known.clone(),
                None => {
                    asked = true;
                    let answer = ask(shared, graph, &node)?;
                    answers.known.insert(*hash, answer.clone());
                    answer
                }
            },
        });
    }
    if asked {
        let mut bytes = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for hash in questions.iter().flatten() {
            if let (true, Some(answer)) = (seen.insert(hash), answers.known.get(hash)) {
                print(&mut bytes, hash, answer);
            }
        }
        if let Err(error) = host.store_write(&key, &bytes)
            && error.kind() != ErrorKind::Unsupported
        {
            host.log(LogLevel::Warn, &format!("answers are not kept: {error}"));
        }
    }
    Ok(result)
}

/// A line per answer: hash, reason code or 0, words.
fn print(bytes: &mut Vec<u8>, hash: &Hash, answer: &Support) {
    let (code, words) = match answer {
        Support::Yes => (0, ""),
        Support::No { reason, detail } => (*reason as u32, &**detail),
    };
    let hex = blake3::Hash::from_bytes(*hash).to_hex();
    bytes.extend(format!("{hex} {code} {}\n", words.replace('\n', " ")).bytes());
}

/// Verdicts of valid lines; others are queried again.
fn parse(bytes: &[u8]) -> Vec<(Hash, Support)> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Vec::new();
    };
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let hash = blake3::Hash::from_hex(words.next()?).ok()?;
        let code: u32 = words.next()?.parse().ok()?;
        let detail = words.next().unwrap_or_default().to_owned();
        let reason = [
            Reason::Vendor,
            Reason::DType,
            Reason::Shape,
            Reason::DynamicShape,
            Reason::Encoding,
            Reason::Op,
        ];
        let answer = match code {
            0 => Support::Yes,
            code => Support::no(reason.into_iter().find(|reason| *reason as u32 == code)?, detail),
        };
        Some((*hash.as_bytes(), answer))
    };
    text.lines().filter_map(line).collect()
}

fn question(graph: &GraphView<'_>, node: &NodeView<'_>) -> std::result::Result<Hash, Support> {
    let options = Options {
        weights: Weights::Placeholder(model::LARGE),
        decompose: &model::decompose,
        ..Options::default()
    };
    match onnx::write_node(graph, node, &options) {
        Ok(model) => Ok(*blake3::hash(&model.bytes).as_bytes()),
        Err(error) => Err(Support::no(Reason::Op, error.to_string())),
    }
}

/// The library's verdict on a node.
fn ask(shared: &Shared, graph: &GraphView<'_>, node: &NodeView<'_>) -> Result<Support> {
    let options = Options {
        weights: model::weights(&shared.vendor),
        decompose: &model::decompose,
        ..Options::default()
    };
    let refused = |error: polychip_sdk::Error| match error.kind() {
        ErrorKind::OutOfMemory | ErrorKind::DeviceLost | ErrorKind::Transient => Err(error),
        _ => Ok(Support::no(Reason::Vendor, one_line(&error.to_string()))),
    };
    let written = match onnx::write_node(graph, node, &options) {
        Ok(written) => written,
        Err(error) => return refused(error),
    };
    let read = match shared.vendor.core.read(&written.bytes) {
        Ok(read) => read,
        Err(error) => return refused(error),
    };
    for (tensors, ports) in [
        (&written.inputs, read.inputs()?),
        (&written.outputs, read.outputs()?),
    ] {
        if tensors.len() != ports.len() {
            let what = format!("OpenVINO makes {} ports of {}", ports.len(), tensors.len());
            return Ok(Support::no(Reason::Vendor, what));
        }
        for (&tensor, port) in tensors.iter().zip(&ports) {
            if port.dims.is_none() {
                let what = format!(
                    "OpenVINO cannot say the shape of tensor {} before the run",
                    graph.tensor(tensor).name()
                );
                return Ok(Support::no(Reason::DynamicShape, one_line(&what)));
            }
            if let Err(error) = model::agrees(graph, tensor, port) {
                return refused(error);
            }
        }
    }
    if !shared.is_cpu {
        let properties = model::properties(shared, polychip_sdk::Precision::Exact, shared.threads);
        if let Err(error) = shared.vendor.core.compile(&read, &shared.name, &properties) {
            return refused(error);
        }
    }
    Ok(Support::Yes)
}

/// The library's words as `explain` prints them and as they are kept.
fn one_line(words: &str) -> String {
    words.replace('\n', " ")
}

/// What a compilation may be given: a node that we refuse ourselves, whatever the library says.
pub(crate) fn promised(graph: &GraphView<'_>, node: &NodeView<'_>) -> Result<()> {
    match ours(graph, node) {
        Support::Yes => Ok(()),
        Support::No { reason, detail } => {
            let what = format!("{} {}: {reason:?}: {detail}", node.op_name(), node.name());
            Err(polychip_sdk::Error::unsupported(what).at_node(node.index()))
        }
    }
}

/// Rules that need no query of the library.
fn ours(graph: &GraphView<'_>, node: &NodeView<'_>) -> Support {
    if node.op() == Op::Custom {
        let what = format!("{}.{}", node.domain(), node.op_name());
        return Support::no(Reason::Op, what);
    }
    if node.bodies().len() > 0 {
        return Support::no(Reason::Body, "bodies are not handed over");
    }
    for tensor in node.inputs().chain(node.outputs()).flatten() {
        let tensor = graph.tensor(tensor);
        let name = tensor.name();
        if !tensor.is_plain() {
            return Support::no(Reason::DType, format!("tensor {name} is no plain tensor"));
        }
        let dtype = tensor.dtype();
        if api::element(dtype).is_none() || matches!(dtype, DType::F64 | DType::U32 | DType::U64) {
            return Support::no(Reason::DType, format!("tensor {name} is of {dtype}"));
        }
        let rank = tensor.dims().map_or(0, <[i64]>::len);
        if rank > POLYCHIP_MAX_RANK {
            let what = format!("rank {rank}; the limit is {POLYCHIP_MAX_RANK}");
            return Support::no(Reason::Rank, what);
        }
        let Some(shape) = tensor.shape().filter(|_| !tensor.is_upper_bound()) else {
            let what = format!("the shape of tensor {name} is known only after the run");
            return Support::no(Reason::DynamicShape, what);
        };
        if !tensor.is_constant() && shape.contains(&0) {
            return Support::no(Reason::Shape, format!("tensor {name} has no elements"));
        }
        if dtype == DType::I64 && !fits_32_bits(&tensor) {
            let what = format!("constant {name} holds what does not fit 32 bits, in which i64 is computed");
            return Support::no(Reason::DType, what);
        }
    }
    wrong::known(graph, node).unwrap_or(Support::Yes)
}

/// Whether i64 elements of a constant fit the 32 bits that the library computes in. The marks for "to the end" that
/// Slice knows are read as such.
fn fits_32_bits(tensor: &TensorView<'_>) -> bool {
    let Some(constant) = tensor.constant() else {
        return true;
    };
    let values = constant.bytes().as_chunks::<8>().0;
    values.iter().all(|&bytes| {
        let value = i64::from_le_bytes(bytes);
        i32::try_from(value).is_ok() || value == i64::MAX || value == i64::MIN || value == i64::MIN + 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_stored_as_lines_and_torn_ones_queried_again() {
        let answers = [
            (*blake3::hash(b"a").as_bytes(), Support::Yes),
            (
                *blake3::hash(b"b").as_bytes(),
                Support::no(Reason::Vendor, "no, two\nlines"),
            ),
        ];
        let mut bytes = Vec::new();
        for (hash, answer) in &answers {
            print(&mut bytes, hash, answer);
        }
        bytes.extend(b"0badc0de 0 \nrubbish\n");
        let back = parse(&bytes);
        assert_eq!(back.len(), 2);
        assert_eq!(back[0], answers[0]);
        assert_eq!(back[1].1, Support::no(Reason::Vendor, "no, two lines"));
    }
}
