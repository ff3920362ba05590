//! Garbage graphs: cycles, dangling tensors, shapes that do not fit, arrays at no address.
//!
//! Invariant: each is one edit of a graph that the device supports.

use std::ptr::null;

use polychip_abi as abi;

use crate::bench::Bench;
use crate::case::Case;
use crate::plugin::{RawGraph, status_name};
use crate::verdict::{Judgement, check, fail};

/// What makes a graph wrong.
type Edit = fn(&mut RawGraph);

pub(super) fn cases(cases: &mut Vec<Case>) {
    for (list, demand) in [(EDITS, Demand::Refused), (MISFITS, Demand::Ends)] {
        for (name, edit) in list {
            let run = move |bench: &Bench| {
                let graph = RawGraph::of(&bench.carrier()?.flat).edited(edit);
                wrong(bench, name, &graph, demand)
            };
            cases.push(Case::new("errors", &format!("graph/{name}"), run).basic().alone());
        }
    }
    for (list, demand) in [(TEARS, Demand::Refused), (WORDS, Demand::Survived)] {
        for (name, tear) in list {
            let run = move |bench: &Bench| {
                let graph = RawGraph::of(&bench.carrier()?.flat).torn(tear);
                wrong(bench, name, &graph, demand)
            };
            cases.push(Case::new("errors", &format!("graph/{name}"), run).basic().alone());
        }
    }
}

/// Graphs whose arrays are whole and whose contents are wrong.
const EDITS: &[(&str, Edit)] = &[
    ("node-reads-no-such-tensor", |graph| {
        graph.node_inputs[0][0] = 1_000
    }),
    ("node-writes-no-such-tensor", |graph| {
        graph.node_outputs[0][0] = 1_000
    }),
    ("input-is-no-tensor", |graph| graph.inputs[0] = 1_000),
    ("output-is-no-tensor", |graph| graph.outputs[0] = 1_000_000),
    ("output-left-out", |graph| {
        graph.outputs[0] = abi::POLYCHIP_NO_INDEX
    }),
    ("tensor-written-twice", |graph| {
        let first = graph.node_outputs[0].clone();
        let at = graph.node_outputs.len() - 1;
        let (node, inputs) = (graph.nodes[at], graph.node_inputs[at].clone());
        graph.nodes.push(node);
        graph.node_inputs.push(inputs);
        graph.node_outputs.push(first);
    }),
    ("node-writes-an-input", |graph| {
        graph.node_outputs[0][0] = graph.inputs[0]
    }),
    ("node-reads-itself", |graph| {
        graph.node_inputs[0][0] = graph.node_outputs[0][0]
    }),
    ("output-of-no-node", |graph| {
        let tensor = graph.tensors[0];
        graph.tensors.push(tensor);
        graph.dims.push(vec![4]);
        graph.outputs[0] = graph.tensors.len() as u32 - 1;
    }),
    ("cycle", |graph| {
        // the first node reads what the last one writes
        let last = graph.node_outputs[graph.nodes.len() - 1][0];
        graph.node_inputs[0][0] = last;
    }),
    ("negative-extent", |graph| graph.dims[0] = vec![-7; 4]),
    ("endless-extents", |graph| {
        graph.dims.iter_mut().for_each(|dims| *dims = vec![i64::MAX; 4])
    }),
    ("extents-that-overflow", |graph| {
        graph
            .dims
            .iter_mut()
            .for_each(|dims| *dims = vec![1 << 31, 1 << 31, 4]);
    }),
    ("constant-without-data", |graph| {
        let tensor = graph.inputs[0] as usize;
        graph.tensors[tensor].flags |= abi::POLYCHIP_TENSOR_CONSTANT;
        graph.inputs.remove(0);
    }),
    ("no-outputs-of-a-node", |graph| graph.node_outputs[0].clear()),
];

/// Graphs whose nodes break a rule of their op. The plugin may report it from compile, load or the run.
const MISFITS: &[(&str, Edit)] = &[
    ("rank-beyond-ports", |graph| {
        graph.dims.iter_mut().for_each(|dims| *dims = vec![1; 40])
    }),
    ("shapes-that-do-not-fit", |graph| {
        let last = graph.outputs[0] as usize;
        graph.dims[last] = vec![11, 13];
    }),
    ("types-that-do-not-fit", |graph| {
        let last = graph.outputs[0] as usize;
        graph.tensors[last].dtype = 7;
    }),
    ("no-inputs-to-a-node", |graph| graph.node_inputs[0].clear()),
    ("inputs-left-out", |graph| {
        graph.node_inputs[0].fill(abi::POLYCHIP_NO_INDEX)
    }),
    ("too-many-inputs", |graph| {
        let input = graph.node_inputs[0][0];
        graph.node_inputs[0].resize(1000, input);
    }),
];

/// Names are for messages only: a plugin need not look at them.
const WORDS: &[(&str, Edit)] = &[
    ("name-that-is-no-text", |graph| {
        static NO_TEXT: [u8; 4] = [0xFF, 0xFE, 0x80, 0xC0];
        graph.nodes[0].op_name = abi::polychip_text {
            data: NO_TEXT.as_ptr(),
            len: 4,
        };
    }),
    ("name-at-no-address", |graph| {
        graph.graph.name = abi::polychip_text { data: null(), len: 4 };
    }),
];

/// Graphs whose arrays themselves are wrong.
const TEARS: &[(&str, Edit)] = &[
    ("nodes-at-no-address", |graph| graph.graph.nodes = null()),
    ("tensors-at-no-address", |graph| graph.graph.tensors = null()),
    ("inputs-at-no-address", |graph| graph.graph.inputs = null()),
    ("extents-at-no-address", |graph| graph.tensors[0].dims = null()),
    ("node-inputs-at-no-address", |graph| {
        graph.nodes[0].inputs = null()
    }),
    ("node-of-no-size", |graph| graph.nodes[0].struct_size = 0),
    ("tensor-of-no-size", |graph| graph.tensors[0].struct_size = 0),
    ("attributes-at-no-address", |graph| {
        graph.nodes[0].attributes = null();
        graph.nodes[0].attribute_count = 3;
    }),
    ("endless-node-inputs", |graph| {
        graph.nodes[0].input_count = u64::MAX
    }),
    ("endless-attributes", |graph| {
        graph.nodes[0].attribute_count = u64::MAX
    }),
];

/// The outcome that a wrong graph must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// It does not compile.
    Refused,
    /// The run is not reported as successful.
    Ends,
    /// The device still works.
    Survived,
}

/// A graph that no host may send: answered with an error or a refusal.
fn wrong(bench: &Bench, name: &str, graph: &RawGraph, demand: Demand) -> Judgement {
    match graph.support(&bench.device) {
        Ok(answers) => {
            let codes = answers
                .iter()
                .all(|answer| answer.reason <= abi::POLYCHIP_SUPPORT_VENDOR);
            check!(codes, "{name}: unknown reasons");
        }
        Err(failure) => check!(
            matches!(
                failure.status,
                abi::POLYCHIP_STATUS_BAD_ARGUMENT | abi::POLYCHIP_STATUS_UNSUPPORTED
            ),
            "{name}: query_support returns {}",
            status_name(failure.status)
        ),
    }
    match graph.compile(&bench.device) {
        Ok(()) if demand == Demand::Refused => return fail(format!("{name}: it compiles")),
        Ok(()) if demand == Demand::Ends => runs_not(bench, name, graph)?,
        Ok(()) => {}
        Err(failure) => {
            check!(
                matches!(
                    failure.status,
                    abi::POLYCHIP_STATUS_BAD_ARGUMENT
                        | abi::POLYCHIP_STATUS_UNSUPPORTED
                        | abi::POLYCHIP_STATUS_OUT_OF_MEMORY
                ),
                "{name}: compile returns {}",
                status_name(failure.status)
            );
            check!(
                !failure.words.is_empty(),
                "{name}: compile fails without a message"
            );
        }
    }
    bench.works()
}

/// A wrong graph that compiled must fail when it is loaded or run.
fn runs_not(bench: &Bench, name: &str, graph: &RawGraph) -> Judgement {
    let Ok(executable) = graph.load_as_it_is(&bench.device) else {
        return Ok(());
    };
    let buffers = executable.buffers()?;
    for buffer in &buffers {
        buffer.write(0, &vec![0; buffer.bytes() as usize])?;
    }
    match executable.execute(&buffers, &[]).and_then(|fence| fence.wait()) {
        Ok(()) => fail(format!("{name}: it compiles, loads and runs")),
        Err(_) => Ok(()),
    }
}
