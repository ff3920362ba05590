//! Writing the text form.
//!
//! Invariants:
//! 1. The text depends on the graph alone, never on the order of a hash.
//! 2. Tensors are numbered in the order in which the text declares them; in a sorted graph that is the
//!    order of their ids.

use std::fmt::Write;

use polychip_ops::{AttrValue, DType, Dim, Literal, TensorType};

use super::lex::{is_word, quote};
use super::values;
use crate::{Container, Encoding, EncodingAxis, Graph, Node, Tensor, TensorId};

pub(super) fn print(graph: &Graph, full: bool) -> String {
    let mut printer = Printer {
        out: String::new(),
        depth: 0,
        full,
    };
    printer.graph("graph ", graph);
    printer.out
}

struct Printer {
    out: String,
    depth: usize,
    full: bool,
}

impl Printer {
    fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn graph(&mut self, head: &str, graph: &Graph) {
        self.line(&format!("{head}{} {{", quote(&graph.name)));
        self.depth += 1;
        let mut names = Names {
            numbers: vec![None; graph.tensor_count()],
            next: 0,
        };
        for &id in &graph.inputs {
            let text = names.declare(id, graph.tensor(id));
            self.line(&format!("input {text}"));
        }
        let mut numbers = vec![0; graph.node_bound()];
        for (number, (id, node)) in graph.nodes().enumerate() {
            numbers[id.index()] = number;
            for read in node.reads().collect::<Vec<_>>() {
                self.source(graph, read, &mut names);
            }
            self.node(graph, node, &mut names);
        }
        for (id, _) in graph.tensors() {
            if graph.is_output(id) || graph.tensor(id).is_constant() {
                self.source(graph, id, &mut names);
            }
        }
        for id in &graph.outputs {
            self.line(&format!("output {}", names.of(*id)));
        }
        for state in &graph.states {
            self.line(&format!(
                "state {} -> {}",
                names.of(state.input),
                names.of(state.output)
            ));
        }
        for group in &graph.groups {
            let nodes: Vec<String> = group
                .nodes
                .iter()
                .map(|id| format!("n{}", numbers[id.index()]))
                .collect();
            self.line(&format!("group {} [{}]", group.kind.name(), nodes.join(", ")));
        }
        self.depth -= 1;
        self.line("}");
    }

    /// A tensor that no node makes, once, before its first use.
    fn source(&mut self, graph: &Graph, id: TensorId, names: &mut Names) {
        if graph.producer(id).is_some() || names.numbers[id.index()].is_some() {
            return;
        }
        let tensor = graph.tensor(id);
        let text = names.declare(id, tensor);
        match &tensor.data {
            Some(data) => {
                let value = self.elements(&tensor.ty, &data.bytes);
                self.line(&format!("const {text} = {value}"));
            }
            None => self.line(&format!("missing {text}")),
        }
    }

    /// The elements of a constant.
    fn elements(&self, ty: &TensorType, bytes: &[u8]) -> String {
        let count = ty.elements().unwrap_or(usize::MAX);
        if count <= values::INLINE
            && let Some(list) = ty
                .sizes()
                .and_then(|sizes| Literal::new(ty.dtype, sizes, bytes))
                .and_then(|literal| values::list(&literal))
        {
            return format!("[{}]", list.join(", "));
        }
        if !self.full
            && count > values::INLINE
            && let Some(seed) = values::seed(ty.dtype, bytes)
        {
            return format!("seed {seed:#010x}");
        }
        let mut hex = String::with_capacity(bytes.len() * 2 + 6);
        hex.push_str("hex \"");
        for byte in bytes {
            let _ = write!(hex, "{byte:02x}");
        }
        hex.push('"');
        hex
    }

    fn node(&mut self, graph: &Graph, node: &Node, names: &mut Names) {
        let mut text = String::new();
        for (index, output) in node.outputs.iter().enumerate() {
            if index > 0 {
                text.push_str(", ");
            }
            match output {
                Some(id) => text.push_str(&names.declare(*id, graph.tensor(*id))),
                None => text.push('_'),
            }
        }
        let custom = node.op == polychip_ops::Op::Custom;
        let op = if custom {
            format!("custom {} {}", quote(&node.domain), quote(&node.op_name))
        } else {
            node.op.name().to_owned()
        };
        let inputs: Vec<String> = node
            .inputs
            .iter()
            .map(|input| input.map_or("_".to_owned(), |id| names.of(id)))
            .collect();
        let _ = write!(text, " = {op} {}({})", quote(&node.name), inputs.join(", "));
        if !node.attributes.is_empty() {
            let attributes: Vec<String> = node
                .attributes
                .iter()
                .map(|(key, value)| format!("{}: {}", name(key.name()), self.attribute(value)))
                .collect();
            let _ = write!(text, " {{{}}}", attributes.join(", "));
        }
        self.line(&text);
        self.depth += 1;
        for body in &node.bodies {
            let captures = body.captures.iter().enumerate().map(|(index, capture)| {
                format!("{} -> t{}", names.of(capture.outer), body.formals().len() + index)
            });
            let captures: Vec<String> = captures.collect();
            self.graph(
                &format!("body {}({}) ", body.attr.name(), captures.join(", ")),
                &body.graph,
            );
        }
        if let Some(inner) = &node.decomposition {
            self.graph("decomposition ", inner);
        }
        self.depth -= 1;
    }

    fn attribute(&self, value: &AttrValue) -> String {
        let floats = |values: &[f32]| values.iter().map(|v| float(*v)).collect::<Vec<_>>().join(", ");
        match value {
            AttrValue::Int(value) => value.to_string(),
            AttrValue::Float(value) => float(*value),
            AttrValue::String(value) => quote(value),
            AttrValue::Ints(values) => {
                let values: Vec<String> = values.iter().map(i64::to_string).collect();
                format!("ints [{}]", values.join(", "))
            }
            AttrValue::Floats(values) => format!("floats [{}]", floats(values)),
            AttrValue::Strings(values) => {
                let values: Vec<String> = values.iter().map(|value| quote(value)).collect();
                format!("strings [{}]", values.join(", "))
            }
            AttrValue::Tensor(value) => {
                // an attribute is part of the structure: never a stand-in
                let full = Printer {
                    out: String::new(),
                    depth: 0,
                    full: true,
                };
                format!(
                    "{} = {}",
                    value.ty_text(),
                    full.elements(&value.ty(), &value.bytes)
                )
            }
        }
    }
}

/// A float with a point or exponent, so that it is told from an integer; odd NaNs by their bits.
fn float(value: f32) -> String {
    values::float(value.into(), DType::F32, value.to_bits().into())
        .unwrap_or_else(|| format!("bits {:#010x}", value.to_bits()))
}

trait TypeText {
    fn ty_text(&self) -> String;
}

impl TypeText for Literal {
    fn ty_text(&self) -> String {
        ty(&self.ty())
    }
}

/// A name, in quotes where it is not a word.
fn name(text: &str) -> String {
    if is_word(text) {
        text.to_owned()
    } else {
        quote(text)
    }
}

fn ty(ty: &TensorType) -> String {
    let dims = match &ty.shape {
        None => "..".to_owned(),
        Some(dims) => {
            let dims: Vec<String> = dims
                .iter()
                .map(|dim| match dim {
                    Dim::Known(size) => size.to_string(),
                    Dim::Symbol(symbol) => name(symbol),
                    Dim::Unknown => "?".to_owned(),
                })
                .collect();
            dims.join(", ")
        }
    };
    format!("{}[{dims}]", ty.dtype.name())
}

/// The numbers of the tensors of one graph in its text.
struct Names {
    numbers: Vec<Option<usize>>,
    next: usize,
}

impl Names {
    /// A tensor that was declared; one that nothing declares keeps a number that nothing has.
    fn of(&self, id: TensorId) -> String {
        let number = self.numbers.get(id.index()).copied().flatten();
        number.map_or_else(
            || format!("t{}", self.numbers.len() + id.index()),
            |number| format!("t{number}"),
        )
    }

    /// The declaration of a tensor: number, name, type and whatever else is known.
    fn declare(&mut self, id: TensorId, tensor: &Tensor) -> String {
        self.numbers[id.index()] = Some(self.next);
        self.next += 1;
        declared(self.next - 1, tensor)
    }
}

fn declared(number: usize, tensor: &Tensor) -> String {
    let mut text = format!("t{number} {}: ", quote(&tensor.name));
    if tensor.container != Container::Tensor {
        text.push_str(tensor.container.name());
        text.push(' ');
    }
    text.push_str(&if tensor.typed {
        ty(&tensor.ty)
    } else {
        "untyped".to_owned()
    });
    if tensor.upper_bound {
        text.push_str(" bound");
    }
    if let Some(encoding) = &tensor.encoding {
        text.push_str(&self::encoding(encoding));
    }
    text
}

fn encoding(encoding: &Encoding) -> String {
    let axis = match encoding.axis {
        EncodingAxis::PerTensor => "tensor".to_owned(),
        EncodingAxis::PerAxis(axis) => format!("axis {axis}"),
        EncodingAxis::PerBlock { axis, block } => format!("block {axis} {block}"),
        EncodingAxis::Blocks(layout) => format!("blocks {layout}"),
    };
    let scales: Vec<String> = encoding.scales.iter().map(|scale| float(*scale)).collect();
    let zeros: Vec<String> = encoding.zero_points.iter().map(i32::to_string).collect();
    format!(
        " encoded {} per {axis} [{}] [{}]",
        encoding.real.name(),
        scales.join(", "),
        zeros.join(", ")
    )
}
