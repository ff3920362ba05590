//! Folders of ONNX Runtime GenAI: the same weights as in a GGUF file give the same answers, and what is not known is refused.

mod folder;

use std::path::Path;
use std::sync::LazyLock;

use folder::{FORM, Form, HALF, Pruned, Set, Weights, attribute, integers, node, set_type, write, zeros};
use polychip::{Precision, Runtime};
use polychip_graph::onnx::messages::{Attribute, Graph, Node};
use polychip_llm::gguf::{Gguf, TensorType};
use polychip_llm::testing::TinyModel;
use polychip_llm::{Adapter, Architecture, Batch, LanguageModel, Message, Options, Specials};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

const TOKENS: [u32; 9] = [1, 40, 256, 7, 100, 259, 3, 77, 12];

fn tiny(architecture: Architecture, kind: TensorType) -> TinyModel {
    TinyModel {
        architecture,
        kind,
        layers: 2,
        tied: architecture == Architecture::Qwen2,
        seed: 5,
    }
}

/// Options of a model in exact precision on the CPU alone, whose results are compared bit for bit: plugins that lie beside
/// the test program may offer devices that compute in another order.
fn options() -> Options {
    static CPU: LazyLock<Runtime> = LazyLock::new(|| {
        let cpu = Runtime::builder().only_given_folders();
        cpu.build().expect("the CPU needs no library")
    });
    Options::new().runtime(&CPU).precision(Precision::Exact)
}

fn opened(folder: &Path) -> LanguageModel {
    LanguageModel::open(folder, options()).unwrap()
}

fn of_form(model: &TinyModel, form: Form) -> LanguageModel {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), model, form, |_, _| {});
    // what was mapped stays so
    opened(folder.path())
}

fn of_gguf(model: &TinyModel) -> LanguageModel {
    let file = Gguf::read(model.writer().finish().into()).unwrap();
    LanguageModel::of("tiny", file, options()).unwrap()
}

fn logits(model: &LanguageModel) -> Vec<f32> {
    model.sequence().unwrap().append(&TOKENS).unwrap().to_vec()
}

/// The distance of logits, as a part of their size.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|v| v * v).sum::<f32>().sqrt();
    assert_eq!(a.len(), b.len());
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut a.iter().copied())
}

fn close(a: &[f32], b: &[f32], words: &str) {
    let off = distance(a, b);
    assert!(off < 1e-4, "{words}: {off}");
}

#[test]
fn folder_matches_gguf_of_the_same_weights() {
    let packed = Form {
        packed: true,
        pruned: Pruned::Gathered,
        external: false,
        ..FORM
    };
    for (architecture, kind, form) in [
        (Architecture::Llama, TensorType::Q4_0, FORM),
        (Architecture::Llama, TensorType::Q8_0, packed),
        (Architecture::Qwen2, TensorType::F32, FORM),
        (Architecture::Qwen2, TensorType::Q8_0, packed),
        (Architecture::Qwen3, TensorType::Q4_0, packed),
        (Architecture::Qwen3, TensorType::F32, FORM),
    ] {
        let model = tiny(architecture, kind);
        let (of_folder, of_gguf) = (of_form(&model, form), of_gguf(&model));
        let words = format!("{architecture} {kind} {form:?}");
        close(&logits(&of_folder), &logits(&of_gguf), &words);
        let (one, two) = (of_folder.tokenizer(), of_gguf.tokenizer());
        let text = "hello world 12 <|start|>";
        let ids = one.encode_prompt(text, Specials::Parse).unwrap();
        assert_eq!(ids, two.encode_prompt(text, Specials::Parse).unwrap());
        assert_eq!((one.bos(), one.eos()), (two.bos(), two.eos()));
        let chat = |model: &LanguageModel| {
            let template = model.template().unwrap();
            template.render(&[Message::new("user", "hello")], true).unwrap()
        };
        assert_eq!(chat(&of_folder), chat(&of_gguf));
    }
}

#[test]
fn zero_point_codes_dequantize_correctly() {
    let model = tiny(Architecture::Llama, TensorType::F32);
    for bits in [4, 8] {
        let form = |weights| Form { weights, ..FORM };
        let codes = of_form(&model, form(Weights::Codes(bits)));
        let floats = of_form(&model, form(Weights::Decoded(bits)));
        // products with codes round rows to 16 bits, those with floats do not
        let off = distance(&logits(&codes), &logits(&floats));
        assert!(off < 5e-4, "{bits} bits: {off}");
    }
}

#[test]
fn block_embedding_matches_the_graph() {
    // a tied head has the codes of the embedding, and so the GGUF file has both rounded alike
    let model = tiny(Architecture::Qwen2, TensorType::Q4_0);
    let form = Form {
        embedded_in_blocks: true,
        ..FORM
    };
    close(
        &logits(&of_form(&model, form)),
        &logits(&of_gguf(&model)),
        "in blocks",
    );
}

#[test]
fn chunking_does_not_affect_logits() {
    let model = of_form(&tiny(Architecture::Llama, TensorType::Q4_0), FORM);
    let text: Vec<u32> = (0..45).map(|i| i * 7 % 250).collect();
    let mut whole = model.sequence().unwrap();
    whole.append(&text).unwrap();
    let mut cut = model.sequence().unwrap();
    for piece in [&text[..1], &text[1..9], &text[9..12], &text[12..]] {
        cut.append(piece).unwrap();
    }
    close(whole.logits(), cut.logits(), "in pieces");
    let mut all = Vec::new();
    let mut each = model.sequence().unwrap();
    each.append_all(&text, |logits| all.push(logits.to_vec()))
        .unwrap();
    assert_eq!(all.len(), text.len());
    close(&all[44], whole.logits(), "all logits");
    cut.truncate(20);
    close(cut.append(&text[20..]).unwrap(), whole.logits(), "gone back");
}

#[test]
fn sequences_can_be_batched() {
    let model = of_form(&tiny(Architecture::Qwen3, TensorType::Q8_0), FORM);
    let (mut first, mut second) = (model.sequence().unwrap(), model.sequence().unwrap());
    first.append(&[40, 41, 3]).unwrap();
    second.append(&[50]).unwrap();
    let mut alone = model.sequence().unwrap();
    let wanted = alone.append(&[40, 41, 3, 42]).unwrap().to_vec();
    let mut batch = Batch::new(&model);
    batch.step(&mut [(&mut first, 42), (&mut second, 51)]).unwrap();
    close(first.logits(), &wanted, "beside another");
}

#[test]
fn files_in_the_folder_open_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(Architecture::Llama, TensorType::Q4_0);
    write(folder.path(), &model, FORM, |_, _| {});
    for name in ["genai_config.json", "model.onnx"] {
        let model = opened(&folder.path().join(name));
        assert!(model.config().is_none(), "its graph defines the model");
        assert_eq!(model.sizes().layers, 2);
        assert!(model.file_bytes() > 100_000, "{}", model.file_bytes());
    }
}

#[test]
fn other_graph_in_the_folder_is_not_substituted() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(Architecture::Llama, TensorType::Q4_0);
    write(folder.path(), &model, FORM, |_, _| {});
    let other = folder.path().join("other.onnx");
    std::fs::copy(folder.path().join("model.onnx"), &other).unwrap();
    let error = LanguageModel::open(&other, options()).unwrap_err().to_string();
    assert!(
        error.contains("other.onnx is not the graph") && error.contains("\"model.onnx\""),
        "{error}"
    );
}

#[test]
fn last_row_selection_variants_agree() {
    let model = tiny(Architecture::Llama, TensorType::F32);
    let of_gguf = of_gguf(&model);
    let wanted = logits(&of_gguf);
    let mut wanted_of_all = Vec::new();
    let mut each = of_gguf.sequence().unwrap();
    each.append_all(&TOKENS, |logits| wanted_of_all.extend_from_slice(logits))
        .unwrap();
    for pruned in [
        Pruned::Gathered,
        Pruned::Sliced,
        Pruned::BeforeNorm,
        Pruned::Logits,
    ] {
        let folder = of_form(&model, Form { pruned, ..FORM });
        // a chunk of 8 and one of 1, and a chunk that is not full
        close(&logits(&folder), &wanted, &format!("{pruned:?}"));
        let mut short = folder.sequence().unwrap();
        short.append(&TOKENS[..7]).unwrap();
        close(
            short.append(&TOKENS[7..]).unwrap(),
            &wanted,
            &format!("{pruned:?} in pieces"),
        );
        let mut all = Vec::new();
        let mut each = folder.sequence().unwrap();
        each.append_all(&TOKENS, |logits| all.extend_from_slice(logits))
            .unwrap();
        close(&all, &wanted_of_all, &format!("{pruned:?} of all"));
    }
}

#[test]
fn non_last_row_selection_is_refused_at_load() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(Architecture::Llama, TensorType::Q4_0);
    let form = Form {
        pruned: Pruned::Gathered,
        ..FORM
    };
    write(folder.path(), &model, form, |graph, _| {
        graph.initializer.push(integers("first", &[1], &[0]));
        let mut nodes = graph.node.iter_mut();
        let node = nodes.find(|node| node.output[0] == "last row").unwrap();
        node.input[1] = "first".to_owned();
    });
    let error = LanguageModel::open(folder.path(), options()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the output head multiplies 1 rows of 2"),
        "{error}"
    );
}

const APART: Form = Form {
    rotated_apart: true,
    ..FORM
};

#[test]
fn separate_rotary_nodes_are_supported() {
    for (architecture, kind) in [
        (Architecture::Llama, TensorType::Q4_0),
        (Architecture::Qwen2, TensorType::F32),
    ] {
        let model = tiny(architecture, kind);
        close(
            &logits(&of_form(&model, APART)),
            &logits(&of_gguf(&model)),
            &format!("{architecture} {kind}"),
        );
    }
}

/// Puts nodes before another, and has that read what they give.
fn before(graph: &mut Graph, nodes: Vec<Node>, reader: &str, slot: usize, gives: &str) {
    let all = &mut graph.node;
    let at = all.iter().position(|node| node.output[0] == reader).unwrap();
    all[at].input[slot] = gives.to_owned();
    all.splice(at..at, nodes);
}

/// One number of a tensor's shape.
fn size_of(tensor: &str, axis: &str, output: &str) -> Vec<Node> {
    let shape = format!("shape for {output}");
    vec![
        node("Shape", &[tensor], &shape, &[]),
        node("Gather", &[&shape, axis], output, &[("axis", Set::Int(0))]),
    ]
}

/// Integers that changes need, by their names.
fn numbers(graph: &mut Graph) {
    for number in [0, 1, 2, 256] {
        let scalar = integers(&format!("number {number}"), &[], &[number]);
        let vector = integers(&format!("[{number}]"), &[1], &[number]);
        graph.initializer.extend([scalar, vector]);
    }
}

/// Has a rotation take one table of angles or another one, by a number that these nodes give.
fn angles_by(graph: &mut Graph, mut nodes: Vec<Node>, number: &str, rotation: &str) {
    nodes.extend([
        node("Greater", &[number, "number 256"], "is long", &[]),
        node("Where", &["is long", "sines", "cosines"], "own cosines", &[]),
    ]);
    before(graph, nodes, rotation, 2, "own cosines");
}

#[test]
fn length_dependent_nodes_are_refused() {
    let cases: [(Change, &str); 5] = [
        // positions from the length of what was read before
        (
            |g, _| {
                let mut nodes = size_of("past_key_values.0.key", "number 2", "start");
                nodes.extend(size_of("input_ids", "number 1", "count"));
                nodes.extend([
                    node("Add", &["start", "count"], "stop", &[]),
                    node("Range", &["start", "stop", "number 1"], "range", &[]),
                    node("Unsqueeze", &["range", "[0]"], "own positions", &[]),
                ]);
                before(g, nodes, "blk.0.q rotated", 1, "own positions");
            },
            "reads the length of \"past_key_values.0.key\"",
        ),
        // angles chosen by the length of all
        (
            |g, _| {
                let nodes = size_of("attention_mask", "number 1", "whole");
                angles_by(g, nodes, "whole", "blk.0.q rotated");
            },
            "reads the length of \"attention_mask\"",
        ),
        // the count of a memory's values
        (
            |g, _| {
                let nodes = vec![node("Size", &["past_key_values.1.value"], "values", &[])];
                angles_by(g, nodes, "values", "blk.0.q rotated");
            },
            "reads the length of \"past_key_values.1.value\"",
        ),
        // what attention gives is as long as all, whatever it is declared as
        (
            |g, _| {
                for output in &mut g.output {
                    folder::name_size(output, "all_rows", "rows");
                }
                let nodes = size_of("present.0.key", "number 2", "whole");
                angles_by(g, nodes, "whole", "blk.1.q rotated");
            },
            "reads the length of \"present.0.key\"",
        ),
        // lengths of rows and of the text have one name, which does not make them one
        (
            |g, _| {
                for input in &mut g.input {
                    folder::name_size(input, "all_rows", "rows");
                }
                let nodes = size_of("attention_mask", "number 1", "whole");
                angles_by(g, nodes, "whole", "blk.0.q rotated");
            },
            "reads the length of \"attention_mask\"",
        ),
    ];
    for (change, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        let model = tiny(Architecture::Llama, TensorType::Q4_0);
        write(folder.path(), &model, APART, |graph, config| {
            numbers(graph);
            change(graph, config);
        });
        let error = LanguageModel::open(folder.path(), options())
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn constant_sizes_may_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(Architecture::Llama, TensorType::Q4_0);
    write(folder.path(), &model, APART, |graph, _| {
        numbers(graph);
        let mut nodes = size_of("past_key_values.0.key", "[0]", "sequences");
        nodes.extend(size_of("input_ids", "[1]", "count"));
        nodes.push(node(
            "Concat",
            &["sequences", "count", "[256]"],
            "own shape",
            &[("axis", Set::Int(0))],
        ));
        let at = graph
            .node
            .iter()
            .position(|node| node.output[0] == "blk.0.q")
            .unwrap();
        nodes.push(node("Reshape", &["blk.0.q", "own shape"], "blk.0.q again", &[]));
        graph.node.splice(at + 1..at + 1, nodes);
        let mut nodes = graph.node.iter_mut();
        let rotation = nodes.find(|node| node.output[0] == "blk.0.q rotated").unwrap();
        rotation.input[0] = "blk.0.q again".to_owned();
    });
    close(
        &logits(&opened(folder.path())),
        &logits(&of_gguf(&model)),
        "by sizes",
    );
}

#[test]
fn position_tables_must_cover_the_context() {
    let angles: Change = |_, config| config["model"]["context_length"] = 1024.into();
    let embeddings: Change = |graph, config| {
        config["model"]["context_length"] = 1024.into();
        graph.initializer.push(zeros("places", &[512, 256]));
        let at = graph.node.iter().position(|node| node.output[0] == "x").unwrap();
        let nodes = [
            node("Gather", &["places", "position_ids"], "placed", &[]),
            node("Add", &["x", "placed"], "x placed", &[]),
        ];
        graph.node.splice(at + 1..at + 1, nodes);
        let mut nodes = graph.node.iter_mut();
        let norm = nodes.find(|node| node.output[0] == "blk.0.normed").unwrap();
        norm.input[0] = "x placed".to_owned();
        // angles are not what is too short
        for node in &mut graph.node {
            if node.op_type == "RotaryEmbedding" {
                node.input[2] = "more cosines".to_owned();
                node.input[3] = "more sines".to_owned();
            }
        }
        graph.initializer.push(zeros("more cosines", &[1024, 32]));
        graph.initializer.push(zeros("more sines", &[1024, 32]));
    };
    for (change, words) in [
        (
            angles,
            "\"cosines\", which has 512 rows, fewer than the context length of 1024",
        ),
        (
            embeddings,
            "\"places\", which has 512 rows, fewer than the context length of 1024",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let model = tiny(Architecture::Llama, TensorType::Q4_0);
        write(folder.path(), &model, APART, change);
        let fits = LanguageModel::open(folder.path(), options().capacity(512)).unwrap();
        assert_eq!(logits(&fits).len(), fits.sizes().vocabulary as usize);
        let error = LanguageModel::open(folder.path(), options())
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

/// The attention of the first layer.
fn attention(graph: &mut Graph) -> &mut Node {
    let mut nodes = graph.node.iter_mut();
    nodes.find(|node| node.op_type == "GroupQueryAttention").unwrap()
}

fn set(graph: &mut Graph, name: &str, value: Set) {
    let node = attention(graph);
    node.attribute.retain(|known: &Attribute| known.name != name);
    node.attribute.push(attribute(name, value));
}

/// Gives the attention an input that is there for other things.
fn give(graph: &mut Graph, slot: usize) {
    let node = attention(graph);
    node.input.resize(slot + 1, String::new());
    node.input[slot] = "cosines".to_owned();
}

/// Changes the graph and the configuration.
type Change = fn(&mut Graph, &mut Value);

#[test]
fn what_is_not_known_is_refused_by_name() {
    let cases: [(Change, &str); 36] = [
        (|g, _| give(g, 10), "\"attention_bias\""),
        (|g, _| give(g, 11), "\"head_sink\""),
        (|g, _| give(g, 12), "\"k_scale\""),
        (|g, _| give(g, 16), "\"query_seqlens\""),
        (|g, _| give(g, 17), "input 17 is unknown"),
        (
            |g, _| {
                attention(g).output.push("scores".to_owned());
            },
            "output \"output_qk\" is not supported",
        ),
        (
            |g, _| set(g, "sparkle", Set::Int(3)),
            "\"sparkle\" is 3, which is not supported",
        ),
        (
            |g, _| set(g, "do_rotary", Set::Text("yes")),
            "\"do_rotary\" is \"yes\", which is not supported",
        ),
        (
            |g, _| attention(g).domain = "my.ops".to_owned(),
            "layer 0 of the graph has no com.microsoft.GroupQueryAttention",
        ),
        (
            |g, _| set(g, "smooth_softmax", Set::Int(1)),
            "\"smooth_softmax\" is 1",
        ),
        (|g, _| set(g, "softcap", Set::Float(50.0)), "\"softcap\" is 50"),
        (
            |g, _| set(g, "k_quant_type", Set::Text("PER_TENSOR")),
            "\"k_quant_type\" is \"PER_TENSOR\", which is not supported",
        ),
        (|g, _| set(g, "causal", Set::Int(0)), "\"causal\" is 0"),
        (
            |g, _| set(g, "num_heads", Set::Int(2)),
            "genai_config.json states 4",
        ),
        (
            |g, _| attention(g).input[7] = "all".to_owned(),
            "\"cos_cache\" must be a constant",
        ),
        (
            |g, _| attention(g).op_type = "MultiHeadAttention".to_owned(),
            "layer 0 of the graph has no com.microsoft.GroupQueryAttention",
        ),
        (
            |g, _| attention(g).input[3] = "past_key_values.1.key".to_owned(),
            "belong to one layer",
        ),
        (
            |g, _| set_type(g, "past_key_values.0.key", 3),
            "a KV cache of type",
        ),
        (
            |g, _| {
                let rope = g.node.iter_mut().find(|node| node.op_type == "Sigmoid");
                let node = rope.unwrap();
                node.domain = "com.microsoft".to_owned();
                node.op_type = "Sparkle".to_owned();
            },
            "com.microsoft.Sparkle",
        ),
        (
            |g, _| {
                let mut nodes = g.node.iter_mut();
                let node = nodes.find(|node| node.op_type == "MatMulNBits").unwrap();
                node.attribute.retain(|known| known.name != "bits");
                node.attribute.push(attribute("bits", Set::Int(2)));
            },
            "com.microsoft.MatMulNBits",
        ),
        (
            |g, _| {
                let mut nodes = g.node.iter_mut();
                let node = nodes.find(|node| node.op_type == "Gather" && node.input[1] == "input_ids");
                node.unwrap().input[1] = "attention_mask".to_owned();
            },
            "does not look \"input_ids\" up",
        ),
        (
            |g, _| {
                let total = g.node.iter().position(|node| node.output[0] == "total");
                let cast = Node {
                    input: vec!["total".to_owned()],
                    output: vec!["total as a float".to_owned()],
                    op_type: "Cast".to_owned(),
                    attribute: vec![attribute("to", Set::Int(1))],
                    ..Node::default()
                };
                g.node.insert(total.unwrap() + 1, cast);
                let mut nodes = g.node.iter_mut();
                let node = nodes.find(|node| node.output[0] == "blk.0.gated").unwrap();
                node.input[1] = "total as a float".to_owned();
            },
            "reads \"attention_mask\" in a way that is not supported",
        ),
        (|_, c| c["model"]["vision"] = json!({}), "vision models"),
        (|_, c| c["model"]["encoder"] = json!({}), "encoder"),
        (
            |_, c| c["model"]["decoder"]["pipeline"] = json!([]),
            "several graphs",
        ),
        (
            |_, c| c["model"]["decoder"]["sliding_window"] = json!({"window_size": 128}),
            "window of 128",
        ),
        (
            |_, c| c["model"]["decoder"]["inputs"]["past_names"] = "past".into(),
            "\"past_names\"",
        ),
        (
            |_, c| c["model"]["decoder"]["num_hidden_layers"] = 3.into(),
            "for layer 2",
        ),
        (
            |_, c| c["model"]["decoder"]["num_hidden_layers"] = 100_000.into(),
            "maximum is 4096",
        ),
        (
            |_, c| c["model"]["vocab_size"] = Value::Null,
            "\"vocab_size\" is missing",
        ),
        (
            |_, c| c["model"]["vocab_size"] = u32::MAX.into(),
            "not that of 4294967295 tokens of width 256",
        ),
        (
            |_, c| c["model"]["decoder"]["num_key_value_heads"] = u32::MAX.into(),
            "\"num_key_value_heads\" 4294967295 and \"head_size\" 64",
        ),
        (
            |_, c| c["model"]["decoder"]["num_attention_heads"] = u32::MAX.into(),
            "\"num_attention_heads\" 4294967295 and \"head_size\" 64",
        ),
        (
            |_, c| c["model"]["decoder"]["head_size"] = u32::MAX.into(),
            "\"num_attention_heads\" 4 and \"head_size\" 4294967295",
        ),
        (
            |_, c| c["model"]["decoder"]["filename"] = "../model.onnx".into(),
            "not the name of a file",
        ),
        (
            |_, c| c["model"]["eos_token_id"] = json!([1, 2, 3, 4]),
            "4 end-of-answer tokens",
        ),
    ];
    for (change, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        let model = tiny(Architecture::Llama, TensorType::Q4_0);
        write(folder.path(), &model, FORM, change);
        let error = LanguageModel::open(folder.path(), options())
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn oversized_tables_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let form = Form {
        embedded_in_blocks: true,
        ..FORM
    };
    let model = tiny(Architecture::Qwen2, TensorType::Q4_0);
    write(folder.path(), &model, form, |_, config| {
        config["model"]["vocab_size"] = u32::MAX.into();
        config["model"]["decoder"]["hidden_size"] = (u32::MAX - 31).into();
    });
    let error = LanguageModel::open(folder.path(), options()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("not that of 4294967295 tokens of width 4294967264"),
        "{error}"
    );
}

#[test]
fn context_dependent_limits_are_checked_when_known() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(Architecture::Llama, TensorType::Q4_0);
    write(folder.path(), &model, FORM, |graph, _| {
        set(graph, "local_window_size", Set::Int(64));
    });
    let small = LanguageModel::open(folder.path(), options().capacity(64)).unwrap();
    assert_eq!(logits(&small).len(), small.sizes().vocabulary as usize);
    let error = LanguageModel::open(folder.path(), options().capacity(65)).unwrap_err();
    assert!(
        error.to_string().contains("\"local_window_size\" is 64"),
        "{error}"
    );
}

#[test]
fn adapters_of_a_graph_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(Architecture::Llama, TensorType::Q4_0);
    write(folder.path(), &model, FORM, |_, _| {});
    let mut writer = polychip_llm::testing::GgufWriter::new();
    writer.text("general.type", "adapter");
    writer.text("adapter.type", "lora");
    writer.text("general.architecture", "llama");
    for (which, dims) in [("a", [256, 4]), ("b", [4, 256])] {
        let name = format!("blk.0.attn_q.weight.lora_{which}");
        writer.tensor(&name, TensorType::F32, &dims, vec![0; 4096]);
    }
    let file = Gguf::read(writer.finish().into()).unwrap();
    let adapter = Adapter::read("tiny.lora", &file, 1.0).unwrap();
    let error = LanguageModel::open(folder.path(), options().adapter(adapter)).unwrap_err();
    assert!(error.to_string().contains("tiny.lora"), "{error}");
}

/// A 16-bit KV cache is kept as it is.
#[test]
fn f16_kv_cache_stays_16_bit() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(Architecture::Llama, TensorType::Q4_0);
    write(folder.path(), &model, FORM, |graph, _| {
        for layer in 0..2 {
            for which in ["key", "value"] {
                set_type(graph, &format!("past_key_values.{layer}.{which}"), HALF);
            }
        }
    });
    // the type of an attention is that of its memory: a graph of two types contradicts itself
    let error = LanguageModel::open(folder.path(), options()).unwrap_err();
    assert!(error.to_string().contains("model.onnx"), "{error}");
}

/// A folder with any file contents is read or refused.
#[test]
fn mutated_folders_are_safe() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(Architecture::Qwen3, TensorType::Q4_0);
    write(folder.path(), &model, FORM, |_, _| {});
    let names = ["genai_config.json", "model.onnx", "model.onnx", "tokenizer.json"];
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut next = move |below: usize| random.random_range(0..below);
    let mut refused = 0;
    for _ in 0..300 {
        let path = folder.path().join(names[next(names.len())]);
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        match next(4) {
            0 => bytes.truncate(next(whole.len())),
            1 => bytes[next(whole.len())] = next(256) as u8,
            2 => bytes[next(whole.len().min(2000))] = next(256) as u8,
            _ => {
                let at = next(whole.len());
                bytes[at] = b"0123456789\",:{}[]-"[next(18)];
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        let read = LanguageModel::open(folder.path(), options());
        refused += usize::from(read.is_err());
        std::fs::write(&path, &whole).unwrap();
    }
    assert!(
        refused > 30,
        "{refused} refused: a suite without effect tries nothing"
    );
}
