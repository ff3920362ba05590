//! The emulated toolkit: reads a request, compiles the model, prints the table of layers, and
//! writes the answer.
//!
//! It refuses models, and puts layers on the CPU, as release 2.5.0 of the vendor's toolkit is
//! documented to: Erf, Exp, Log, Floor and Mish run on the CPU, except an Erf inside a Gelu in
//! primitive ops. A normalisation without epsilon raises an exception.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use polychip_emulator_chip::fault::{Effect, Faults};
use polychip_emulator_chip::file;
use polychip_emulator_chip::model::{self, Model};
use polychip_graph::{Graph, Node, NodeId};
use polychip_ops::{Attr, Op};
use serde::{Deserialize, Serialize};

use crate::board::{self, Description, MAGIC, NEWEST, TARGET};

/// The release that it reports; it cannot be mistaken for the vendor's.
const VERSION: &str = "2.5.0-emulated";

static FAULTS: Faults = Faults::new(&["version", "compile"]);

#[derive(Deserialize)]
struct Request {
    ask: String,
    model: PathBuf,
    blob: PathBuf,
    result: PathBuf,
    target_platform: String,
    quantized_dtype: Option<String>,
    custom_string: String,
}

#[derive(Serialize)]
struct Answer<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    toolkit: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    stage: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
}

/// Serves the request in a file, and returns the log of the compilation.
///
/// # Errors
/// The request cannot be read or answered. The refusal of a model is an answer, not an error.
pub fn serve(request: &Path) -> Result<String, String> {
    FAULTS.set_from("POLYCHIP_RKNN_TOOLKIT_FAULTS");
    let words = |error: std::io::Error| error.to_string();
    let text = std::fs::read(request).map_err(words)?;
    let request: Request = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let mut log = String::new();
    let done = if request.ask == "compile" {
        compile(&request, &mut log)
    } else {
        injected("version", |_| false)
    };
    let answer = match &done {
        Ok(()) => Answer {
            ok: true,
            toolkit: VERSION,
            kind: "",
            stage: "",
            error: "",
        },
        Err(Refused::Words(stage, words)) => Answer {
            ok: false,
            toolkit: "",
            kind: "toolkit",
            stage,
            error: words,
        },
        Err(Refused::Nonsense) => {
            std::fs::write(&request.result, "{\"ok\": tru").map_err(words)?;
            return Ok(log);
        }
    };
    let json = serde_json::to_vec(&answer).map_err(|error| error.to_string())?;
    std::fs::write(&request.result, json).map_err(words)?;
    Ok(log)
}

enum Refused {
    Words(&'static str, String),
    /// An invalid answer.
    Nonsense,
}

/// The fault that is wished for at a question.
fn injected(call: &str, concerns: impl Fn(&str) -> bool) -> Result<(), Refused> {
    match FAULTS.at(call, concerns) {
        None => Ok(()),
        Some(Effect::Wait(time)) => {
            FAULTS.wait(time);
            Ok(())
        }
        Some(Effect::Crash) => std::process::abort(),
        Some(Effect::Wrong) => Err(Refused::Nonsense),
        Some(Effect::Fail(code)) => Err(Refused::Words("build", format!("injected failure {code}"))),
        Some(Effect::Lost) => Err(Refused::Words("build", "injected loss".to_owned())),
    }
}

fn compile(request: &Request, log: &mut String) -> Result<(), Refused> {
    let at = |stage: &'static str| move |words: String| Refused::Words(stage, words);
    let bytes = std::fs::read(&request.model).map_err(|error| Refused::Words("load", error.to_string()))?;
    if request.target_platform != TARGET {
        let words = format!(
            "this emulator compiles for {TARGET}, not for {}",
            request.target_platform
        );
        return Err(Refused::Words("config", words));
    }
    if let Some(dtype) = &request.quantized_dtype {
        return Err(Refused::Words("build", format!("{dtype} is not emulated")));
    }
    let graph = model::graph(bytes.clone(), NEWEST).map_err(at("load"))?;
    injected("compile", |op| {
        graph.nodes().any(|(_, node)| &*node.op_name == op)
    })?;
    for (_, node) in graph.nodes() {
        let epsilon = node.attributes.get(Attr::Epsilon);
        if node.op == Op::LayerNormalization && epsilon.is_none() {
            return Err(Refused::Words("build", "KeyError: 'epsilon'".to_owned()));
        }
    }
    Model::new(&graph, String::new()).map_err(at("build"))?;
    table(&graph, log).map_err(at("build"))?;
    let description = Description {
        target_platform: TARGET.to_owned(),
        version: VERSION.to_owned(),
        custom_string: request.custom_string.clone(),
    };
    let file = file::write(MAGIC, &bytes, &description).map_err(at("export"))?;
    std::fs::write(&request.blob, file).map_err(|error| Refused::Words("export", error.to_string()))
}

/// Whether an Erf is part of a written-out Gelu: a division or product before it, a sum and a product behind it.
fn is_of_gelu(graph: &Graph, node: &Node) -> bool {
    let before = node
        .inputs
        .first()
        .copied()
        .flatten()
        .and_then(|input| graph.producer(input));
    let scaled = before.is_some_and(|id| matches!(graph.node(id).op, Op::Div | Op::Mul));
    let next = |id: NodeId| {
        let output = graph.node(id).outputs.first().copied().flatten()?;
        graph.only_consumer(output)
    };
    let output = node.outputs.first().copied().flatten();
    let sum = output.and_then(|output| graph.only_consumer(output));
    let sum = sum.filter(|&id| graph.node(id).op == Op::Add);
    scaled && sum.and_then(next).is_some_and(|id| graph.node(id).op == Op::Mul)
}

/// The table of layers, in the form of the vendor's log.
fn table(graph: &Graph, log: &mut String) -> Result<(), String> {
    let mut rows: Vec<[String; 7]> = Vec::new();
    let shapes = |ids: &mut dyn Iterator<Item = polychip_graph::TensorId>| -> Result<String, String> {
        let text = ids.map(|id| {
            let extents = model::shape(graph, id)?;
            let extents: Vec<String> = extents.iter().map(ToString::to_string).collect();
            Ok(format!("({})", extents.join(",")))
        });
        Ok(text.collect::<Result<Vec<_>, String>>()?.join(","))
    };
    let mut fused: Vec<NodeId> = Vec::new();
    for (id, node) in graph.nodes() {
        if fused.contains(&id) || matches!(node.op, Op::QuantizeLinear | Op::DequantizeLinear) {
            // fake quantisation is no layer
            continue;
        }
        let integers = node.input(0).is_some_and(|id| model::is_dequantised(graph, id));
        let output = node
            .outputs
            .first()
            .copied()
            .flatten()
            .ok_or("a node without a result")?;
        let mut name = node.op_name.to_string();
        let next = graph
            .only_consumer(output)
            .filter(|&next| graph.node(next).op == Op::Relu);
        if let Some(next) = next.filter(|_| node.op == Op::Conv && !graph.is_output(output)) {
            fused.push(next);
            name.push_str("Relu");
        }
        let fallen = match node.op {
            Op::Exp | Op::Log | Op::Floor | Op::Mish => true,
            Op::Erf => !is_of_gelu(graph, node),
            _ => false,
        };
        let mut bytes = 0u64;
        for tensor in node.inputs.iter().chain(&node.outputs).flatten() {
            let width = if integers { 1 } else { 2 };
            bytes += width * model::shape(graph, *tensor)?.iter().product::<usize>() as u64;
        }
        let (memory, arithmetic) = match macs(graph, node)? {
            0 => (0, 0),
            macs => board::cycles(macs, bytes, integers),
        };
        rows.push([
            name,
            if integers { "INT8" } else { "FLOAT16" }.to_owned(),
            if fallen { "CPU" } else { "NPU" }.to_owned(),
            format!(
                "{}    {}",
                shapes(&mut node.inputs.iter().flatten().copied())?,
                shapes(&mut node.outputs.iter().flatten().copied())?
            ),
            format!("{memory}/{arithmetic}/{}", memory.max(arithmetic)),
            bytes.div_ceil(1024).to_string(),
            format!("{}:{}", node.op_name, node.name),
        ]);
    }
    let heading = "ID   OpType           DataType Target InputShape   OutputShape   Cycles(DDR/NPU/Total)    RW(KB)       FullName";
    let mut line = |text: String| {
        // text grows in memory only
        let _ = writeln!(log, "D RKNN: [00:00:00.000] {text}");
    };
    line(heading.to_owned());
    line("0    InputOperator    FLOAT16  CPU    \\    (1)    0/0/0    0    InputOperator:i0".to_owned());
    for (number, [op, dtype, target, shapes, cycles, kilobytes, name]) in rows.iter().enumerate() {
        let number = number + 1;
        line(format!(
            "{number:<4} {op:<16} {dtype:<8} {target:<6} {shapes}    {cycles:<24} {kilobytes:<12} {name}"
        ));
    }
    let _ = writeln!(log, "Unkown op target: 0");
    Ok(())
}

/// Multiply-adds of a product or convolution.
fn macs(graph: &Graph, node: &Node) -> Result<u64, String> {
    let shape = |list: &[Option<polychip_graph::TensorId>], at: usize| match list.get(at).copied().flatten() {
        Some(id) => model::shape(graph, id),
        None => Ok(Vec::new()),
    };
    let (x, w, y) = (
        shape(&node.inputs, 0)?,
        shape(&node.inputs, 1)?,
        shape(&node.outputs, 0)?,
    );
    let all = |shape: &[usize]| shape.iter().product::<usize>() as u64;
    Ok(match node.op {
        Op::Conv => all(&y) * all(w.get(1..).unwrap_or(&[])),
        Op::ConvTranspose => all(&x) * all(w.get(1..).unwrap_or(&[])),
        Op::MatMul | Op::Gemm => all(&y) * x.last().copied().unwrap_or(1) as u64,
        _ => 0,
    })
}
