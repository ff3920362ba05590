//! Models of several architectures, and each with one weight tensor or attribute of one node changed.

use bytes::Bytes;
use polychip_graph::onnx::messages::{
    Attribute, Dimension, DimensionValue, Graph, Model, Node, OperatorSetId, Shape, Tensor, TensorKind, Type,
    TypeValue, ValueInfo, attribute_type as kind,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// What [`architecture`] knows: the model that ships, and small ones of the usual sorts.
pub(super) const ARCHITECTURES: [&str; 5] = ["shapes", "residual", "transformer", "recurrent", "perceptron"];

/// A model of an architecture.
pub(super) fn architecture(name: &str) -> Model {
    let mut net = Net::new(name);
    match name {
        "shapes" => return super::shipped(),
        "residual" => net.residual(),
        "transformer" => net.transformer(),
        "recurrent" => net.recurrent(),
        _ => net.perceptron(),
    }
    net.model()
}

/// A number from 0 to 1.
fn unit(source: &mut ChaCha8Rng) -> f32 {
    (source.next_u32() >> 8) as f32 / (1 << 24) as f32
}

/// A model with a change, and the name of the node that computes something else since.
pub(super) fn mutated(model: &Model, seed: u64) -> (Model, String) {
    let mut source = ChaCha8Rng::seed_from_u64(seed);
    let mut model = model.clone();
    let graph = model.graph.as_mut().unwrap();
    let count = graph.node.len() as u32;
    loop {
        let place = (source.next_u32() % count) as usize;
        let wants_weight = source.next_u32().is_multiple_of(2);
        let changed = if wants_weight {
            change_weight(graph, place, &mut source)
        } else {
            change_attribute(&mut graph.node[place])
        };
        if changed {
            return (model.clone(), model.graph.unwrap().node[place].name.clone());
        }
    }
}

/// Moves the values of one of a node's weights by a tenth of the largest.
fn change_weight(graph: &mut Graph, place: usize, source: &mut ChaCha8Rng) -> bool {
    let readers = |name: &String| graph.node.iter().filter(|node| node.input.contains(name)).count();
    let own: Vec<usize> = (0..graph.initializer.len())
        .filter(|at| {
            let tensor = &graph.initializer[*at];
            tensor.data_type == 1
                && readers(&tensor.name) == 1
                && graph.node[place].input.contains(&tensor.name)
        })
        .collect();
    if own.is_empty() {
        return false;
    }
    let tensor = &mut graph.initializer[own[source.next_u32() as usize % own.len()]];
    let mut values: Vec<f32> = match &tensor.raw_data {
        Some(bytes) => bytes
            .chunks_exact(4)
            .map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect(),
        None => std::mem::take(&mut tensor.float_data),
    };
    let largest = values.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let by = 0.1 * if largest > 0.0 { largest } else { 1.0 };
    values.iter_mut().for_each(|value| *value += by);
    tensor.raw_data = Some(raw(&values));
    true
}

/// Changes an attribute that no shape depends on.
fn change_attribute(node: &mut Node) -> bool {
    let op = node.op_type.clone();
    for attribute in &mut node.attribute {
        match (&*op, &*attribute.name) {
            ("LeakyRelu" | "Elu" | "Gemm", "alpha") => {
                attribute.f = attribute.f.map(|alpha| 1.5 * alpha);
                return true;
            }
            ("Softmax", "axis") => {
                attribute.i = attribute.i.map(|axis| i64::from(axis != 1));
                return true;
            }
            ("AveragePool", "count_include_pad") | ("GRU", "linear_before_reset") => {
                attribute.i = attribute.i.map(|flag| 1 - flag);
                return true;
            }
            _ => {}
        }
    }
    false
}

fn raw(values: &[f32]) -> Bytes {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Bytes::from(bytes)
}

fn integers(name: &str, values: &[i64]) -> Attribute {
    Attribute {
        name: name.to_owned(),
        ints: values.to_vec(),
        r#type: kind::INTS,
        ..Attribute::default()
    }
}

fn integer(name: &str, value: i64) -> Attribute {
    Attribute {
        name: name.to_owned(),
        i: Some(value),
        r#type: kind::INT,
        ..Attribute::default()
    }
}

fn float(name: &str, value: f32) -> Attribute {
    Attribute {
        name: name.to_owned(),
        f: Some(value),
        r#type: kind::FLOAT,
        ..Attribute::default()
    }
}

/// A model in the making, whose weights are drawn from a seed.
struct Net {
    graph: Graph,
    source: ChaCha8Rng,
    /// The newest tensor.
    last: String,
}

impl Net {
    fn new(name: &str) -> Net {
        let graph = Graph {
            name: name.to_owned(),
            ..Graph::default()
        };
        Net {
            graph,
            source: ChaCha8Rng::seed_from_u64(9),
            last: "x".to_owned(),
        }
    }

    fn port(name: &str, dims: &[i64]) -> ValueInfo {
        let dim = |size: &i64| Dimension {
            value: Some(DimensionValue::Value(*size)),
        };
        let shape = Shape {
            dim: dims.iter().map(dim).collect(),
        };
        let kind = TensorKind {
            elem_type: 1,
            shape: Some(shape),
        };
        ValueInfo {
            name: name.to_owned(),
            r#type: Some(Type {
                value: Some(TypeValue::Tensor(kind)),
            }),
        }
    }

    fn input(&mut self, dims: &[i64]) {
        self.graph.input.push(Net::port("x", dims));
    }

    fn output(&mut self, dims: &[i64]) {
        let last = self.last.clone();
        self.graph.output.push(Net::port(&last, dims));
    }

    /// A weight between `least` and one more.
    fn weight(&mut self, dims: &[i64], least: f32) -> String {
        let count: i64 = dims.iter().product();
        let values: Vec<f32> = (0..count).map(|_| least + unit(&mut self.source)).collect();
        let name = format!("w{}", self.graph.initializer.len());
        self.graph.initializer.push(Tensor {
            dims: dims.to_vec(),
            data_type: 1,
            name: name.clone(),
            raw_data: Some(raw(&values)),
            ..Tensor::default()
        });
        name
    }

    fn sizes(&mut self, values: &[i64]) -> String {
        let name = format!("sizes{}", self.graph.initializer.len());
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.graph.initializer.push(Tensor {
            dims: vec![values.len() as i64],
            data_type: 7,
            name: name.clone(),
            raw_data: Some(Bytes::from(bytes)),
            ..Tensor::default()
        });
        name
    }

    /// Adds a node, and gives its first output.
    fn node(&mut self, op: &str, inputs: &[&str], attributes: Vec<Attribute>) -> String {
        let at = self.graph.node.len();
        self.last = format!("t{at}");
        self.graph.node.push(Node {
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            output: vec![self.last.clone()],
            name: format!("{op}_{at}"),
            op_type: op.to_owned(),
            attribute: attributes,
            ..Node::default()
        });
        self.last.clone()
    }

    fn conv(&mut self, x: &str, from: i64, to: i64) -> String {
        let (w, b) = (self.weight(&[to, from, 3, 3], -0.5), self.weight(&[to], -0.5));
        let pads = integers("pads", &[1, 1, 1, 1]);
        self.node("Conv", &[x, &w, &b], vec![pads])
    }

    fn normalised(&mut self, x: &str, channels: i64) -> String {
        let least = [0.5, -0.5, -0.5, 0.5];
        let names: Vec<String> = least
            .iter()
            .map(|least| self.weight(&[channels], *least))
            .collect();
        self.node(
            "BatchNormalization",
            &[x, &names[0], &names[1], &names[2], &names[3]],
            vec![],
        )
    }

    fn linear(&mut self, x: &str, from: i64, to: i64) -> String {
        let (w, b) = (self.weight(&[from, to], -0.5), self.weight(&[to], -0.5));
        let y = self.node("MatMul", &[x, &w], vec![]);
        self.node("Add", &[&y, &b], vec![])
    }

    /// Convolutions with batch normalisation, a residual sum and pools.
    fn residual(&mut self) {
        self.input(&[1, 3, 12, 12]);
        let mut x = self.conv("x", 3, 8);
        for _ in 0..2 {
            let y = self.conv(&x, 8, 8);
            let y = self.normalised(&y, 8);
            let y = self.node("LeakyRelu", &[&y], vec![float("alpha", 0.1)]);
            let y = self.conv(&y, 8, 8);
            let y = self.normalised(&y, 8);
            let y = self.node("Add", &[&x, &y], vec![]);
            let y = self.node("Relu", &[&y], vec![]);
            let pool = vec![
                integers("kernel_shape", &[3, 3]),
                integers("pads", &[1, 1, 1, 1]),
                integer("count_include_pad", 0),
            ];
            x = self.node("AveragePool", &[&y], pool);
        }
        let y = self.node("GlobalAveragePool", &[&x], vec![]);
        let y = self.node("Flatten", &[&y], vec![]);
        let (w, b) = (self.weight(&[8, 5], -0.5), self.weight(&[5], -0.5));
        self.node("Gemm", &[&y, &w, &b], vec![float("alpha", 0.5)]);
        self.output(&[1, 5]);
    }

    /// Attention of one head, and what stands behind it, twice.
    fn transformer(&mut self) {
        self.input(&[1, 6, 16]);
        let mut x = "x".to_owned();
        for _ in 0..2 {
            let (scale, bias) = (self.weight(&[16], 0.5), self.weight(&[16], -0.5));
            let axis = vec![integer("axis", -1)];
            let h = self.node("LayerNormalization", &[&x, &scale, &bias], axis);
            let (q, k, v) = (
                self.linear(&h, 16, 16),
                self.linear(&h, 16, 16),
                self.linear(&h, 16, 16),
            );
            let k = self.node("Transpose", &[&k], vec![integers("perm", &[0, 2, 1])]);
            let scores = self.node("MatMul", &[&q, &k], vec![]);
            let scale = self.weight(&[1], 0.0);
            let scores = self.node("Mul", &[&scores, &scale], vec![]);
            let weights = self.node("Softmax", &[&scores], vec![integer("axis", -1)]);
            let mixed = self.node("MatMul", &[&weights, &v], vec![]);
            let mixed = self.linear(&mixed, 16, 16);
            let sum = self.node("Add", &[&x, &mixed], vec![]);
            let wide = self.linear(&sum, 16, 32);
            let wide = self.node("Elu", &[&wide], vec![float("alpha", 0.7)]);
            let narrow = self.linear(&wide, 32, 16);
            x = self.node("Add", &[&sum, &narrow], vec![]);
        }
        self.output(&[1, 6, 16]);
    }

    /// A GRU and an LSTM.
    fn recurrent(&mut self) {
        self.input(&[5, 1, 6]);
        let gru = [[1, 24, 6], [1, 24, 8]].map(|dims| self.weight(&dims, -0.5));
        let bias = self.weight(&[1, 48], -0.5);
        let settings = vec![integer("hidden_size", 8), integer("linear_before_reset", 0)];
        let y = self.node("GRU", &["x", &gru[0], &gru[1], &bias], settings);
        let axes = self.sizes(&[1]);
        let y = self.node("Squeeze", &[&y, &axes], vec![]);
        let lstm = [[1, 32, 8], [1, 32, 8]].map(|dims| self.weight(&dims, -0.5));
        let bias = self.weight(&[1, 64], -0.5);
        let y = self.node(
            "LSTM",
            &[&y, &lstm[0], &lstm[1], &bias],
            vec![integer("hidden_size", 8)],
        );
        let y = self.node("Squeeze", &[&y, &axes], vec![]);
        self.linear(&y, 8, 4);
        self.output(&[5, 1, 4]);
    }

    /// Matrix products with activations.
    fn perceptron(&mut self) {
        self.input(&[3, 10]);
        let mut x = "x".to_owned();
        for (from, to) in [(10, 20), (20, 20), (20, 7)] {
            let (w, b) = (self.weight(&[from, to], -0.5), self.weight(&[to], -0.5));
            let y = self.node("Gemm", &[&x, &w, &b], vec![float("alpha", 0.8)]);
            let y = self.node("LeakyRelu", &[&y], vec![float("alpha", 0.2)]);
            let scale = self.weight(&[to], 0.5);
            x = self.node("Mul", &[&y, &scale], vec![]);
        }
        self.node("Softmax", &[&x], vec![integer("axis", 1)]);
        self.output(&[3, 7]);
    }

    fn model(self) -> Model {
        Model {
            ir_version: Some(8),
            graph: Some(self.graph),
            opset_import: vec![OperatorSetId {
                domain: String::new(),
                version: 17,
            }],
            ..Model::default()
        }
    }
}
