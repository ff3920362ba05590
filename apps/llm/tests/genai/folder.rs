//! Folders as an exporter writes them, of a tiny model's weights: MatMulNBits or MatMul, GroupQueryAttention, a head.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use polychip_graph::onnx::messages::{
    Attribute, Dimension, DimensionValue, EXTERNAL, Graph, Model, Node, OperatorSetId, Shape, StringPair,
    Tensor, TensorKind, Type, TypeValue, ValueInfo, attribute_type,
};
use polychip_llm::gguf::{Gguf, TensorType};
use polychip_llm::testing::{TinyModel, tokenizer_json};
use polychip_llm::{Architecture, Config};
use prost::Message as _;
use serde_json::{Value, json};

const F32: i32 = 1;
const U8: i32 = 2;
const I32: i32 = 6;
const I64: i32 = 7;
const F16: i32 = 10;

/// Values of a block.
const BLOCK: usize = 32;

/// How matrices are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weights {
    /// As the file has them: blocks of Q4_0 and Q8_0 as MatMulNBits, floats as MatMul.
    Stored,
    /// Rounded to codes of so many bits, with zero points and scales of their own.
    Codes(usize),
    /// The values of those codes, as floats.
    Decoded(usize),
}

/// How the last row is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pruned {
    Not,
    /// By a Gather before the head.
    Gathered,
    /// By a Slice before the head.
    Sliced,
    /// By a Gather before the last norm.
    BeforeNorm,
    /// By a Gather of the logits.
    Logits,
}

/// What an exporter may choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) weights: Weights,
    /// Queries, keys and values are one tensor.
    pub(crate) packed: bool,
    /// Where and how the graph chooses the last row itself.
    pub(crate) pruned: Pruned,
    /// Rotation is of nodes of its own, which read an input of positions.
    pub(crate) rotated_apart: bool,
    /// The embedding is in blocks.
    pub(crate) embedded_in_blocks: bool,
    /// Weights lie in a file beside the graph.
    pub(crate) external: bool,
}

pub(crate) const FORM: Form = Form {
    weights: Weights::Stored,
    packed: false,
    pruned: Pruned::Not,
    rotated_apart: false,
    embedded_in_blocks: false,
    external: true,
};

/// A value of a node's attribute.
#[derive(Clone, Debug)]
pub(crate) enum Set {
    Int(i64),
    Float(f32),
    Text(&'static str),
}

pub(crate) fn attribute(name: &str, set: Set) -> Attribute {
    let mut attribute = Attribute {
        name: name.to_owned(),
        ..Attribute::default()
    };
    match set {
        Set::Int(value) => {
            attribute.i = Some(value);
            attribute.r#type = attribute_type::INT;
        }
        Set::Float(value) => {
            attribute.f = Some(value);
            attribute.r#type = attribute_type::FLOAT;
        }
        Set::Text(value) => {
            attribute.s = Some(Bytes::from_static(value.as_bytes()));
            attribute.r#type = attribute_type::STRING;
        }
    }
    attribute
}

struct Writer<'a> {
    file: &'a Gguf,
    config: Config,
    form: Form,
    nodes: Vec<Node>,
    constants: BTreeMap<String, (i32, Vec<i64>, Vec<u8>)>,
}

fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Codes, scales and zero points of rows of whole blocks.
struct Rounded {
    codes: Vec<u8>,
    scales: Vec<f32>,
    zeros: Vec<u8>,
}

fn rounded(values: &[f32], bits: usize) -> Rounded {
    let most = ((1 << bits) - 1) as f32;
    let (mut codes, mut scales, mut zeros) = (Vec::new(), Vec::new(), Vec::new());
    for block in values.chunks(BLOCK) {
        let low = block.iter().fold(0.0f32, |low, x| low.min(*x));
        let high = block.iter().fold(0.0f32, |high, x| high.max(*x));
        let scale = ((high - low) / most).max(1e-6);
        let zero = (-low / scale).round();
        codes.extend(
            block
                .iter()
                .map(|x| (x / scale + zero).round().clamp(0.0, most) as u8),
        );
        scales.push(scale);
        zeros.push(zero as u8);
    }
    Rounded { codes, scales, zeros }
}

/// Codes of so many bits, each row from a byte on, low bits first.
fn packed(codes: &[u8], row: usize, bits: usize) -> Vec<u8> {
    if bits == 8 {
        return codes.to_vec();
    }
    codes
        .chunks(row)
        .flat_map(|row| {
            let pairs = row.chunks(2);
            pairs.map(|pair| pair[0] | pair.get(1).copied().unwrap_or(0) << 4)
        })
        .collect()
}

impl Writer<'_> {
    fn constant(&mut self, name: &str, kind: i32, dims: &[usize], bytes: Vec<u8>) -> String {
        let dims = dims.iter().map(|&dim| dim as i64).collect();
        self.constants.insert(name.to_owned(), (kind, dims, bytes));
        name.to_owned()
    }

    fn node(&mut self, op: &str, domain: &str, inputs: &[&str], outputs: &[&str], set: &[(&str, Set)]) {
        self.nodes.push(Node {
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: outputs.iter().map(|&name| name.to_owned()).collect(),
            name: format!("node of {}", outputs[0]),
            op_type: op.to_owned(),
            attribute: set
                .iter()
                .map(|(name, set)| attribute(name, set.clone()))
                .collect(),
            domain: domain.to_owned(),
            ..Node::default()
        });
    }

    /// A node of one output, which has its name.
    fn one(&mut self, op: &str, inputs: &[&str], name: &str, set: &[(&str, Set)]) -> String {
        self.node(op, "", inputs, &[name], set);
        name.to_owned()
    }

    fn values(&self, name: &str) -> (Vec<f32>, Vec<usize>) {
        let tensor = self.file.tensor(name).unwrap();
        let mut values = vec![0.0; tensor.len()];
        tensor.dequantize(0, &mut values);
        (
            values,
            tensor.dims().iter().rev().map(|&dim| dim as usize).collect(),
        )
    }

    fn vector(&mut self, name: &str) -> String {
        let (values, dims) = self.values(name);
        self.constant(name, F32, &dims, f32_bytes(&values))
    }

    /// The codes of a matrix of the file, and their bits.
    fn codes(&self, name: &str) -> Option<(Rounded, usize, bool)> {
        let tensor = self.file.tensor(name).unwrap();
        if let Weights::Codes(bits) | Weights::Decoded(bits) = self.form.weights {
            return Some((rounded(&self.values(name).0, bits), bits, true));
        }
        let (bits, zero) = match tensor.kind() {
            TensorType::Q4_0 => (4, 8),
            TensorType::Q8_0 => (8, 128),
            _ => return None,
        };
        let mut all = Rounded {
            codes: Vec::new(),
            scales: Vec::new(),
            zeros: Vec::new(),
        };
        for block in tensor.bytes().chunks(tensor.kind().block_bytes()) {
            all.scales
                .push(half::f16::from_le_bytes([block[0], block[1]]).to_f32());
            all.zeros.push(zero);
            let values = &block[2..];
            match bits {
                4 => {
                    all.codes.extend(values.iter().map(|byte| byte & 15));
                    all.codes.extend(values.iter().map(|byte| byte >> 4));
                }
                _ => all.codes.extend(values.iter().map(|byte| byte ^ 0x80)),
            }
        }
        Some((all, bits, false))
    }

    /// `x` times a matrix of the file, transposed.
    fn linear(&mut self, x: &str, weight: &str, bias: Option<&str>, name: &str) -> String {
        let (values, dims) = self.values(weight);
        let (columns, depth) = (dims[0], dims[1]);
        let product = match bias {
            Some(_) => format!("{name}.product"),
            None => name.to_owned(),
        };
        match self.codes(weight) {
            Some((codes, bits, with_zeros)) if !matches!(self.form.weights, Weights::Decoded(_)) => {
                let blocks = depth / BLOCK;
                let stored = packed(&codes.codes, depth, bits);
                let shape = [columns, blocks, BLOCK * bits / 8];
                let data = self.constant(&format!("{weight}.codes"), U8, &shape, stored);
                let scales = f32_bytes(&codes.scales);
                let scales = self.constant(&format!("{weight}.scales"), F32, &[columns * blocks], scales);
                let mut inputs = vec![x.to_owned(), data, scales];
                if with_zeros {
                    let zeros = packed(&codes.zeros, blocks, bits);
                    let shape = [zeros.len()];
                    inputs.push(self.constant(&format!("{weight}.zeros"), U8, &shape, zeros));
                }
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                let set = [
                    ("K", Set::Int(depth as i64)),
                    ("N", Set::Int(columns as i64)),
                    ("bits", Set::Int(bits as i64)),
                    ("block_size", Set::Int(BLOCK as i64)),
                    ("accuracy_level", Set::Int(4)),
                ];
                self.node("MatMulNBits", "com.microsoft", &inputs, &[&product], &set);
            }
            codes => {
                let values = match codes {
                    Some((codes, ..)) => (0..values.len())
                        .map(|i| {
                            let block = i / BLOCK;
                            (f32::from(codes.codes[i]) - f32::from(codes.zeros[block])) * codes.scales[block]
                        })
                        .collect(),
                    None => values,
                };
                let transposed: Vec<f32> = (0..values.len())
                    .map(|i| values[i % columns * depth + i / columns])
                    .collect();
                let weight = self.constant(weight, F32, &[depth, columns], f32_bytes(&transposed));
                self.one("MatMul", &[x, &weight], &product, &[]);
            }
        }
        match bias {
            Some(bias) => {
                let bias = self.vector(bias);
                self.one("Add", &[&product, &bias], name, &[])
            }
            None => product,
        }
    }

    fn norm(&mut self, x: &str, weight: &str, name: &str) -> String {
        let weight = self.vector(weight);
        let epsilon = self.config.norm_epsilon;
        let set = [("epsilon", Set::Float(epsilon)), ("axis", Set::Int(-1))];
        self.one("SimplifiedLayerNormalization", &[x, &weight], name, &set)
    }

    fn i64s(&mut self, name: &str, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, I64, &[values.len()], bytes)
    }

    fn embedding(&mut self) -> String {
        let (values, dims) = self.values("token_embd.weight");
        let (rows, width) = (dims[0], dims[1]);
        if !self.form.embedded_in_blocks {
            let table = self.constant("table", F32, &dims, f32_bytes(&values));
            return self.one("Gather", &[&table, "input_ids"], "x", &[]);
        }
        let (codes, bits, _) = self.codes("token_embd.weight").unwrap();
        let flat = width * bits / 8;
        let stored = packed(&codes.codes, width, bits);
        let data = self.constant("table", U8, &[rows, width / BLOCK, BLOCK * bits / 8], stored);
        let shape = self.i64s("table.shape", &[rows as i64, flat as i64]);
        let data = self.one("Reshape", &[&data, &shape], "flat table", &[]);
        let scales = self.constant(
            "table.scales",
            F32,
            &[rows, width / BLOCK],
            f32_bytes(&codes.scales),
        );
        let zeros = packed(&codes.zeros, width / BLOCK, bits);
        let zeros = self.constant("table.zeros", U8, &[rows, zeros.len() / rows], zeros);
        let set = [
            ("bits", Set::Int(bits as i64)),
            ("block_size", Set::Int(BLOCK as i64)),
            ("gather_axis", Set::Int(0)),
            ("quantize_axis", Set::Int(1)),
        ];
        let inputs = [&*data, "input_ids", &scales, &zeros];
        self.node("GatherBlockQuantized", "com.microsoft", &inputs, &["x"], &set);
        "x".to_owned()
    }

    /// What an exporter makes of the mask: how much was seen, and how much there is in all.
    fn lengths(&mut self) {
        let axis = self.i64s("one", &[1]);
        let total = self.one("ReduceSum", &["attention_mask", &axis], "total", &[]);
        let seen = self.one("Sub", &[&total, &axis], "seen", &[]);
        self.one("Cast", &[&seen], "seqlens", &[("to", Set::Int(I32.into()))]);
        let shape = self.one("Shape", &["attention_mask"], "mask shape", &[]);
        let second = self.constant("second", I64, &[], 1i64.to_le_bytes().to_vec());
        let length = self.one("Gather", &[&shape, &second], "length", &[("axis", Set::Int(0))]);
        self.one("Cast", &[&length], "all", &[("to", Set::Int(I32.into()))]);
    }

    fn angles(&mut self) {
        let config = &self.config;
        let (context, half) = (config.context as usize, config.rope_dims as usize / 2);
        let base = f64::from(config.rope_base);
        let angles: Vec<f64> = (0..context * half)
            .map(|i| (i / half) as f64 * base.powf(-((i % half) as f64) / half as f64))
            .collect();
        let cosines: Vec<f32> = angles.iter().map(|angle| angle.cos() as f32).collect();
        let sines: Vec<f32> = angles.iter().map(|angle| angle.sin() as f32).collect();
        self.constant("cosines", F32, &[context, half], f32_bytes(&cosines));
        self.constant("sines", F32, &[context, half], f32_bytes(&sines));
    }

    fn layer(&mut self, layer: u32, x: &str) -> String {
        let part = |part: &str| format!("blk.{layer}.{part}");
        let y = self.norm(x, &part("attn_norm.weight"), &part("normed"));
        let [q, k, v] = ["q", "k", "v"].map(|which| {
            let bias = part(&format!("attn_{which}.bias"));
            let bias = self.config.qkv_bias.then_some(&*bias);
            self.linear(&y, &part(&format!("attn_{which}.weight")), bias, &part(which))
        });
        let interleaved = Set::Int((self.config.architecture == Architecture::Llama).into());
        let [q, k] = if self.form.rotated_apart {
            [(q, "q", self.config.heads), (k, "k", self.config.kv_heads)].map(|(x, which, heads)| {
                let rotated = part(&format!("{which} rotated"));
                let set = [
                    ("num_heads", Set::Int(heads.into())),
                    ("interleaved", interleaved.clone()),
                ];
                let inputs = [&*x, "position_ids", "cosines", "sines"];
                self.node("RotaryEmbedding", "com.microsoft", &inputs, &[&rotated], &set);
                rotated
            })
        } else {
            [q, k]
        };
        let mut inputs = if self.form.packed {
            let all = self.one("Concat", &[&q, &k, &v], &part("qkv"), &[("axis", Set::Int(-1))]);
            vec![all, String::new(), String::new()]
        } else {
            vec![q, k, v]
        };
        for which in ["key", "value"] {
            inputs.push(format!("past_key_values.{layer}.{which}"));
        }
        inputs.extend(["seqlens", "all"].map(str::to_owned));
        inputs.extend(if self.form.rotated_apart {
            [String::new(), String::new()]
        } else {
            ["cosines", "sines"].map(str::to_owned)
        });
        if self.config.qk_norm.is_some() {
            let norms = ["q", "k"].map(|which| self.vector(&part(&format!("attn_{which}_norm.weight"))));
            inputs.extend(vec![String::new(); 5]);
            inputs.extend(norms);
        }
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let outputs = [
            part("attended"),
            format!("present.{layer}.key"),
            format!("present.{layer}.value"),
        ];
        let set = [
            ("num_heads", Set::Int(self.config.heads.into())),
            ("kv_num_heads", Set::Int(self.config.kv_heads.into())),
            ("do_rotary", Set::Int((!self.form.rotated_apart).into())),
            ("rotary_interleaved", interleaved),
            ("qk_norm_epsilon", Set::Float(self.config.norm_epsilon)),
        ];
        self.node(
            "GroupQueryAttention",
            "com.microsoft",
            &inputs,
            &[&outputs[0], &outputs[1], &outputs[2]],
            &set,
        );
        let attended = self.linear(&outputs[0], &part("attn_output.weight"), None, &part("projected"));
        let norm = self.vector(&part("ffn_norm.weight"));
        let (y, sum) = (part("ffn_normed"), part("sum"));
        let set = [("epsilon", Set::Float(self.config.norm_epsilon))];
        self.node(
            "SkipSimplifiedLayerNormalization",
            "com.microsoft",
            &[x, &attended, &norm],
            &[&y, "", "", &sum],
            &set,
        );
        let gate = self.linear(&y, &part("ffn_gate.weight"), None, &part("gate"));
        let up = self.linear(&y, &part("ffn_up.weight"), None, &part("up"));
        let sigmoid = self.one("Sigmoid", &[&gate], &part("sigmoid"), &[]);
        let swish = self.one("Mul", &[&gate, &sigmoid], &part("swish"), &[]);
        let gated = self.one("Mul", &[&swish, &up], &part("gated"), &[]);
        let down = self.linear(&gated, &part("ffn_down.weight"), None, &part("down"));
        self.one("Add", &[&sum, &down], &part("out"), &[])
    }

    fn whole(&mut self) {
        self.lengths();
        self.angles();
        let mut x = self.embedding();
        for layer in 0..self.config.layers {
            x = self.layer(layer, &x);
        }
        let last = self.i64s("last", &[-1]);
        let axis = [("axis", Set::Int(1))];
        if self.form.pruned == Pruned::BeforeNorm {
            x = self.one("Gather", &[&x, &last], "last row", &axis);
        }
        let mut y = self.norm(&x, "output_norm.weight", "final");
        match self.form.pruned {
            Pruned::Gathered => y = self.one("Gather", &[&y, &last], "last row", &axis),
            Pruned::Sliced => {
                let end = self.i64s("end", &[i64::MAX]);
                let rows = self.i64s("axis of rows", &[1]);
                y = self.one("Slice", &[&y, &last, &end, &rows], "last row", &[]);
            }
            _ => {}
        }
        let head = if self.config.tied {
            "token_embd.weight"
        } else {
            "output.weight"
        };
        if self.form.pruned == Pruned::Logits {
            let all = self.linear(&y, head, None, "logits of all");
            self.one("Gather", &[&all, &last], "logits", &axis);
            return;
        }
        self.linear(&y, head, None, "logits");
    }
}

fn info(name: &str, kind: i32, dims: &[&str]) -> ValueInfo {
    let dim = |dim: &&str| Dimension {
        value: Some(match dim.parse() {
            Ok(size) => DimensionValue::Value(size),
            Err(_) => DimensionValue::Param((*dim).to_owned()),
        }),
    };
    let shape = Shape {
        dim: dims.iter().map(dim).collect(),
    };
    ValueInfo {
        name: name.to_owned(),
        r#type: Some(Type {
            value: Some(TypeValue::Tensor(TensorKind {
                elem_type: kind,
                shape: Some(shape),
            })),
        }),
    }
}

fn settings(config: &Config) -> Value {
    let last = config.vocabulary - 1;
    json!({
        "model": {
            "type": config.architecture.name(),
            "bos_token_id": last - 1,
            "eos_token_id": [last],
            "pad_token_id": last,
            "context_length": config.context,
            "vocab_size": config.vocabulary,
            "decoder": {
                "filename": "model.onnx",
                "head_size": config.head_size,
                "hidden_size": config.embedding,
                "num_attention_heads": config.heads,
                "num_hidden_layers": config.layers,
                "num_key_value_heads": config.kv_heads,
                "inputs": {
                    "input_ids": "input_ids",
                    "attention_mask": "attention_mask",
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
        },
        "search": { "max_length": config.context, "past_present_share_buffer": true },
    })
}

/// Writes a tiny model as a folder; `change` may change the graph and the configuration before.
pub(crate) fn write(
    folder: &Path,
    model: &TinyModel,
    form: Form,
    change: impl FnOnce(&mut Graph, &mut Value),
) {
    let file = Gguf::read(model.writer().finish().into()).unwrap();
    let config = model.config();
    let mut writer = Writer {
        file: &file,
        config: config.clone(),
        form,
        nodes: Vec::new(),
        constants: BTreeMap::new(),
    };
    writer.whole();
    let (kv, size) = (config.kv_heads.to_string(), config.head_size.to_string());
    let vocabulary = config.vocabulary.to_string();
    let mut graph = Graph {
        name: "model".to_owned(),
        node: writer.nodes,
        input: vec![
            info("input_ids", I64, &["batch", "rows"]),
            info("attention_mask", I64, &["batch", "all_rows"]),
        ],
        output: vec![info("logits", F32, &["batch", "chosen", &vocabulary])],
        ..Graph::default()
    };
    if form.rotated_apart {
        graph.input.push(info("position_ids", I64, &["batch", "rows"]));
        let width = (config.heads * config.head_size).to_string();
        for layer in 0..config.layers {
            // what is behind an op that importers know nothing of
            let attended = format!("blk.{layer}.attended");
            graph
                .value_info
                .push(info(&attended, F32, &["batch", "rows", &width]));
        }
    }
    for layer in 0..config.layers {
        for which in ["key", "value"] {
            let past = format!("past_key_values.{layer}.{which}");
            graph.input.push(info(&past, F32, &["batch", &kv, "past", &size]));
            let present = format!("present.{layer}.{which}");
            graph
                .output
                .push(info(&present, F32, &["batch", &kv, "all_rows", &size]));
        }
    }
    let mut data = Vec::new();
    for (name, (kind, dims, bytes)) in writer.constants {
        let mut tensor = Tensor {
            name,
            dims,
            data_type: kind,
            ..Tensor::default()
        };
        if form.external && bytes.len() > 64 {
            let pair = |key: &str, value: String| StringPair {
                key: key.to_owned(),
                value,
            };
            tensor.data_location = EXTERNAL;
            tensor.external_data = vec![
                pair("location", "model.onnx.data".to_owned()),
                pair("offset", data.len().to_string()),
                pair("length", bytes.len().to_string()),
            ];
            data.extend(&bytes);
            data.resize(data.len().next_multiple_of(64), 0);
        } else {
            tensor.raw_data = Some(bytes.into());
        }
        graph.initializer.push(tensor);
    }
    let mut settings = settings(&config);
    change(&mut graph, &mut settings);
    let opset = |domain: &str, version: i64| OperatorSetId {
        domain: domain.to_owned(),
        version,
    };
    let whole = Model {
        ir_version: Some(10),
        graph: Some(graph),
        opset_import: vec![opset("", 21), opset("com.microsoft", 1), opset("my.ops", 1)],
        ..Model::default()
    };
    std::fs::write(folder.join("model.onnx"), whole.encode_to_vec()).unwrap();
    if form.external {
        std::fs::write(folder.join("model.onnx.data"), data).unwrap();
    }
    std::fs::write(folder.join("genai_config.json"), settings.to_string()).unwrap();
    std::fs::write(folder.join("tokenizer.json"), tokenizer_json().to_string()).unwrap();
    let template = file.text("tokenizer.chat_template").unwrap();
    let of_tokenizer = json!({ "add_bos_token": false, "chat_template": template });
    std::fs::write(folder.join("tokenizer_config.json"), of_tokenizer.to_string()).unwrap();
}

/// A node of one output, which has its name, for changes.
pub(crate) fn node(op: &str, inputs: &[&str], output: &str, set: &[(&str, Set)]) -> Node {
    Node {
        input: inputs.iter().map(|&name| name.to_owned()).collect(),
        output: vec![output.to_owned()],
        name: format!("node of {output}"),
        op_type: op.to_owned(),
        attribute: set
            .iter()
            .map(|(name, set)| attribute(name, set.clone()))
            .collect(),
        ..Node::default()
    }
}

/// A constant of 64-bit integers, for changes.
pub(crate) fn integers(name: &str, dims: &[i64], values: &[i64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor {
        name: name.to_owned(),
        dims: dims.to_vec(),
        data_type: I64,
        raw_data: Some(bytes.into()),
        ..Tensor::default()
    }
}

/// A constant of zeros of f32, for changes.
pub(crate) fn zeros(name: &str, dims: &[i64]) -> Tensor {
    Tensor {
        name: name.to_owned(),
        dims: dims.to_vec(),
        data_type: F32,
        raw_data: Some(vec![0; dims.iter().product::<i64>() as usize * 4].into()),
        ..Tensor::default()
    }
}

/// A 16-bit float's element type, for changes.
pub(crate) const HALF: i32 = F16;

/// Another name for an open size of an input.
pub(crate) fn name_size(info: &mut ValueInfo, from: &str, to: &str) {
    let Some(Type {
        value: Some(TypeValue::Tensor(tensor)),
    }) = &mut info.r#type
    else {
        return;
    };
    for dim in tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim) {
        if dim.value == Some(DimensionValue::Param(from.to_owned())) {
            dim.value = Some(DimensionValue::Param(to.to_owned()));
        }
    }
}

/// Another element type of an input.
pub(crate) fn set_type(graph: &mut Graph, input: &str, kind: i32) {
    for info in graph.input.iter_mut().filter(|info| info.name == input) {
        if let Some(Type {
            value: Some(TypeValue::Tensor(tensor)),
        }) = &mut info.r#type
        {
            tensor.elem_type = kind;
        }
    }
}
