//! ONNX Runtime's own ops by their values: what ONNX Runtime 1.32 answers, or the values of the op's description where it has no
//! kernel for the CPU.
//!
//! `cases.txt` has one case after another: `case NAME OP TOLERANCE`, the attributes (`int`, `ints`, `float`, `floats`, `text`), the
//! inputs (`in`, `const`, or `none` where one is left out) and the outputs (`out`, `skip`), each with its type and shape.
//! Inputs are numbers, or come from a seed (`Numbers`).

mod table;

use bytes::Bytes;
use polychip_graph::onnx::messages::{
    Attribute, Dimension, DimensionValue, Graph, Model, Node, OperatorSetId, Shape, Tensor, TensorKind, Type,
    TypeValue, ValueInfo, attribute_type as kind,
};
use polychip_graph::onnx::{NoExternalData, Options, import_model};
use polychip_graph::{Error, Graph as Imported};
use polychip_ops::{DType, Literal, Op};
use polychip_reference::{Tensor as Value, evaluate, tensor_from_literal};

/// The committed cases.
const CASES: &str = include_str!("cases.txt");

fn attribute(name: &str, kind: i32) -> Attribute {
    Attribute {
        name: name.to_owned(),
        r#type: kind,
        ..Attribute::default()
    }
}

fn int(name: &str, value: i64) -> Attribute {
    Attribute {
        i: Some(value),
        ..attribute(name, kind::INT)
    }
}

/// A value of which no more than this is declared.
fn value(name: &str, declared: Option<(DType, Vec<DimensionValue>)>) -> ValueInfo {
    let ty = declared.map(|(dtype, dims)| {
        let dim = |value| Dimension { value: Some(value) };
        let shape = Shape {
            dim: dims.into_iter().map(dim).collect(),
        };
        Type {
            value: Some(TypeValue::Tensor(TensorKind {
                elem_type: dtype.code() as i32,
                shape: Some(shape),
            })),
        }
    });
    ValueInfo {
        name: name.to_owned(),
        r#type: ty,
    }
}

/// A model of opset 17 with a domain of ONNX Runtime.
fn model(graph: Graph, domain: &str) -> Model {
    let opset = |domain: &str, version: i64| OperatorSetId {
        domain: domain.to_owned(),
        version,
    };
    Model {
        ir_version: Some(8),
        graph: Some(graph),
        opset_import: vec![opset("", 17), opset(domain, 1)],
        ..Model::default()
    }
}

/// A model of one node over a picture.
fn one_node(domain: &str, op: &str) -> Result<Imported, Error> {
    let dims = [1, 2, 4, 4].map(DimensionValue::Value);
    let graph = Graph {
        name: "g".to_owned(),
        node: vec![Node {
            op_type: op.to_owned(),
            domain: domain.to_owned(),
            name: "first".to_owned(),
            attribute: vec![int("num_heads", 1)],
            input: vec!["x".to_owned(); 4],
            output: vec!["y".to_owned()],
            ..Node::default()
        }],
        input: vec![value("x", Some((DType::F32, dims.to_vec())))],
        output: vec![value("y", None)],
        ..Graph::default()
    };
    import_model(model(graph, domain), &NoExternalData, &Options::default())
}

/// The outputs of a graph, node by node.
fn run(graph: &Imported, inputs: &[Value]) -> Result<Vec<Value>, String> {
    let mut values: Vec<Option<Value>> = vec![None; graph.tensor_count()];
    for (id, tensor) in graph.tensors() {
        if let Some(data) = &tensor.data {
            let literal = data.to_literal(&tensor.ty).unwrap();
            values[id.index()] = Some(tensor_from_literal(&literal).unwrap());
        }
    }
    for (id, value) in graph.inputs.iter().zip(inputs) {
        values[id.index()] = Some(value.clone());
    }
    for (_, node) in graph.nodes() {
        let inputs: Vec<Option<&Value>> = node
            .inputs
            .iter()
            .map(|id| id.and_then(|id| values[id.index()].as_ref()))
            .collect();
        let outputs = evaluate(node.op, &node.attributes, &inputs, node.outputs.len())
            .map_err(|error| format!("node {}: {error}", node.label()))?;
        for (id, output) in node.outputs.iter().zip(outputs) {
            if let Some(id) = id {
                values[id.index()] = Some(output);
            }
        }
    }
    let output = |id: &polychip_graph::TensorId| {
        values[id.index()]
            .clone()
            .ok_or_else(|| format!("{id} has no value"))
    };
    graph.outputs.iter().map(output).collect()
}

/// Numbers of a seed: Knuth's linear congruential generator of MMIX, its upper 31 bits. Not `rand`: the stored outputs
/// were computed, in Python, of these numbers.
struct Numbers(u64);

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Some(self.0 >> 33)
    }
}

/// A tensor as a line states it.
struct Stated {
    dtype: DType,
    dims: Vec<usize>,
    values: Vec<f64>,
    /// The same numbers where they are whole.
    whole: Vec<i64>,
}

impl Stated {
    fn parse(line: &str) -> Stated {
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let dtype = DType::from_name(words.next().unwrap()).unwrap();
        let dims: Vec<usize> = match words.next().unwrap() {
            "-" => Vec::new(),
            dims => dims.split('x').map(|dim| dim.parse().unwrap()).collect(),
        };
        let count = dims.iter().product();
        let words: Vec<&str> = words.collect();
        let (values, whole) = match words[..] {
            ["seed", seed, most, ref scale @ ..] => {
                let most: u64 = most.parse().unwrap();
                let numbers: Vec<i64> = Numbers(seed.parse().unwrap())
                    .take(count)
                    .map(|number| (number % most) as i64)
                    .collect();
                let scale: f64 = scale.first().map_or(1.0, |scale| scale.parse().unwrap());
                let of = |&number: &i64| match (dtype.is_float(), most) {
                    (true, 4001) => (number - 2000) as f64 / 1000.0 * scale,
                    (true, _) => (number + 1) as f64 / 1000.0 * scale,
                    _ if dtype == DType::I8 => (number - 128) as f64,
                    _ => number as f64,
                };
                let values: Vec<f64> = numbers.iter().map(of).collect();
                let whole = values.iter().map(|&value| value as i64).collect();
                (values, whole)
            }
            _ => {
                let value = |word: &&str| match *word {
                    "inf" => f64::INFINITY,
                    word => word.parse().unwrap(),
                };
                let whole = words.iter().map(|word| word.parse().unwrap_or(0)).collect();
                (words.iter().map(value).collect(), whole)
            }
        };
        assert_eq!(values.len(), count, "{line}");
        Stated {
            dtype,
            dims,
            values,
            whole,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let floats = self.values.iter();
        match self.dtype {
            DType::F32 => floats.flat_map(|&value| (value as f32).to_le_bytes()).collect(),
            DType::F64 => floats.flat_map(|&value| value.to_le_bytes()).collect(),
            dtype => {
                let width = dtype.byte_width().unwrap();
                let whole = self.whole.iter();
                whole
                    .flat_map(|value| value.to_le_bytes()[..width].to_vec())
                    .collect()
            }
        }
    }

    fn tensor(&self, name: &str) -> Tensor {
        Tensor {
            name: name.to_owned(),
            data_type: self.dtype.code() as i32,
            dims: self.dims.iter().map(|&dim| dim as i64).collect(),
            raw_data: Some(Bytes::from(self.bytes())),
            ..Tensor::default()
        }
    }
}

/// One case.
struct Case {
    name: String,
    op: String,
    tolerance: f64,
    attributes: Vec<Attribute>,
    /// Each with whether it is a constant.
    inputs: Vec<Option<(bool, Stated)>>,
    outputs: Vec<Option<Stated>>,
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in CASES.lines() {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split(' ').collect();
        if kind == "case" {
            cases.push(Case {
                name: words[0].to_owned(),
                op: words[1].to_owned(),
                tolerance: words[2].parse().unwrap(),
                attributes: Vec::new(),
                inputs: Vec::new(),
                outputs: Vec::new(),
            });
            continue;
        }
        let case = cases.last_mut().unwrap();
        match kind {
            "int" => case.attributes.push(int(words[0], words[1].parse().unwrap())),
            "float" => case.attributes.push(Attribute {
                f: Some(words[1].parse().unwrap()),
                ..attribute(words[0], kind::FLOAT)
            }),
            "text" => case.attributes.push(Attribute {
                s: Some(Bytes::copy_from_slice(words[1].as_bytes())),
                ..attribute(words[0], kind::STRING)
            }),
            "ints" => case.attributes.push(Attribute {
                ints: words[1..].iter().map(|word| word.parse().unwrap()).collect(),
                ..attribute(words[0], kind::INTS)
            }),
            "floats" => case.attributes.push(Attribute {
                floats: words[1..].iter().map(|word| word.parse().unwrap()).collect(),
                ..attribute(words[0], kind::FLOATS)
            }),
            "in" | "const" => case.inputs.push(Some((kind == "const", Stated::parse(rest)))),
            "none" => case.inputs.push(None),
            "out" => case.outputs.push(Some(Stated::parse(rest))),
            "skip" => case.outputs.push(None),
            _ => panic!("{line}"),
        }
    }
    cases
}

impl Case {
    /// The model of the one node; with `open`, no size of an input is stated.
    fn model(&self, open: bool) -> Model {
        let name = |index: usize, there: bool, of: &str| {
            if there {
                format!("{of}{index}")
            } else {
                String::new()
            }
        };
        let mut graph = Graph {
            name: "g".to_owned(),
            ..Graph::default()
        };
        for (index, input) in self.inputs.iter().enumerate() {
            let name = format!("i{index}");
            match input {
                Some((true, stated)) => graph.initializer.push(stated.tensor(&name)),
                Some((false, stated)) => {
                    let dim = |(axis, &dim): (usize, &usize)| {
                        if open {
                            DimensionValue::Param(format!("{name}_{axis}"))
                        } else {
                            DimensionValue::Value(dim as i64)
                        }
                    };
                    let dims = stated.dims.iter().enumerate().map(dim).collect();
                    graph.input.push(value(&name, Some((stated.dtype, dims))));
                }
                None => {}
            }
        }
        for (index, output) in self.outputs.iter().enumerate() {
            if output.is_some() {
                graph.output.push(value(&format!("o{index}"), None));
            }
        }
        graph.node.push(Node {
            op_type: self.op.clone(),
            domain: "com.microsoft".to_owned(),
            attribute: self.attributes.clone(),
            input: (0..self.inputs.len())
                .map(|index| name(index, self.inputs[index].is_some(), "i"))
                .collect(),
            output: (0..self.outputs.len())
                .map(|index| name(index, self.outputs[index].is_some(), "o"))
                .collect(),
            ..Node::default()
        });
        model(graph, "com.microsoft")
    }

    /// Why an answer is not the expected one.
    fn fails(&self, open: bool) -> Option<String> {
        let graph = match import_model(self.model(open), &NoExternalData, &Options::default()) {
            Ok(graph) => graph,
            Err(error) => return Some(error.to_string()),
        };
        if graph.nodes().any(|(_, node)| node.op == Op::Custom) {
            return Some("is left as it is".to_owned());
        }
        let inputs = self.inputs.iter().flatten().filter(|(constant, _)| !constant);
        let inputs: Vec<_> = inputs
            .map(|(_, stated)| {
                let bytes = stated.bytes();
                let literal = Literal::new(stated.dtype, stated.dims.clone(), bytes).unwrap();
                tensor_from_literal(&literal).unwrap()
            })
            .collect();
        let outputs = match run(&graph, &inputs) {
            Ok(outputs) => outputs,
            Err(error) => return Some(error),
        };
        for (expected, got) in self.outputs.iter().flatten().zip(outputs) {
            if got.shape() != expected.dims {
                return Some(format!("shape {:?}, not {:?}", got.shape(), expected.dims));
            }
            if polychip_reference::dtype(got.element()) != expected.dtype {
                return Some(format!("type {:?}, not {}", got.element(), expected.dtype.name()));
            }
            let got: Vec<f64> = match expected.dtype {
                DType::Bool => got.to_bools().unwrap().into_iter().map(f64::from).collect(),
                dtype if dtype.is_float() => got.to_f64s().unwrap(),
                _ => got
                    .to_i128s()
                    .unwrap()
                    .into_iter()
                    .map(|value| value as f64)
                    .collect(),
            };
            let most = expected
                .values
                .iter()
                .fold(0.0f64, |most, value| most.max(value.abs()));
            // six digits are written down
            let slack = if expected.dtype.is_float() {
                (self.tolerance + 1e-5) * most.max(1e-6)
            } else {
                self.tolerance
            };
            for (at, (&got, &expected)) in got.iter().zip(&expected.values).enumerate() {
                let off = (got - expected).abs();
                if off > slack || off.is_nan() {
                    return Some(format!("{got} at {at}, not {expected}"));
                }
            }
        }
        None
    }
}

#[test]
fn answers_are_those_of_onnx_runtime() {
    let wrong: Vec<String> = cases()
        .iter()
        .filter_map(|case| Some(format!("{}: {}", case.name, case.fails(false)?)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sizes_may_come_while_running() {
    // sizes that the expansion needs: of groups, of matrices, of heads, of windows
    let needs = [
        "GatedRMSNorm",
        "GatedRelativePositionBias",
        "Inverse",
        "RotaryEmbedding",
        "UnfoldTensor",
    ];
    let wrong: Vec<String> = cases()
        .iter()
        .filter(|case| !needs.contains(&&*case.op))
        .filter_map(|case| Some(format!("{}: {}", case.name, case.fails(true)?)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_list_of_positions_holds_the_first_one_alone() {
    let mut case = cases()
        .into_iter()
        .find(|case| case.name == "rotary_start4")
        .unwrap();
    assert_eq!(case.fails(true), None, "sizes are open");
    case.inputs[1] = Some((false, Stated::parse("i64 3 2 3 4")));
    assert_eq!(case.fails(false).as_deref(), Some("is left as it is"));
    let words = case.fails(true).unwrap();
    assert!(words.starts_with("node "), "{words}");
}

#[test]
fn files_for_one_cpu_say_how_to_save_them() {
    let words = one_node("com.microsoft.nchwc", "ReorderInput")
        .unwrap_err()
        .to_string();
    for part in ["\"first\"", "for one CPU", "EXTENDED"] {
        assert!(words.contains(part), "{words}");
    }
}
