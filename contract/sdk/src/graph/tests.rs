//! Tests of the graph views: a view returns the content of its graph, structs of other sizes are
//! read, and broken graphs are refused without reads out of bounds.

use proptest::prelude::*;

use super::*;
use polychip_abi::{
    Sized as _, polychip_attribute, polychip_body, polychip_capture, polychip_encoding, polychip_graph,
    polychip_group, polychip_node, polychip_state, polychip_tensor, polychip_text,
};

fn text(text: &'static str) -> polychip_text {
    raw::to_text(text)
}

fn tensor(name: &'static str, dtype: DType, dims: &'static [i64]) -> polychip_tensor {
    polychip_tensor {
        dtype: dtype.code(),
        rank: dims.len() as u32,
        dims: dims.as_ptr(),
        name: text(name),
        ..polychip_tensor::sized()
    }
}

const AXES: [i64; 2] = [0, -1];
static SCALES: [f32; 3] = [0.5, 1.0, 2.0];
static WEIGHTS: [u8; 6] = [1, 2, 3, 4, 5, 6];

/// A graph that uses every feature of the contract, with all of its arrays at hand to break.
struct Fixture {
    graph: Vec<polychip_graph>,
    nodes: Vec<polychip_node>,
    tensors: Vec<polychip_tensor>,
    groups: Vec<polychip_group>,
    states: Vec<polychip_state>,
    attributes: Vec<polychip_attribute>,
    encodings: Vec<polychip_encoding>,
    words: Vec<Vec<u32>>,
    bodies: Vec<polychip_body>,
    captures: Vec<polychip_capture>,
    body: Vec<polychip_graph>,
    body_nodes: Vec<polychip_node>,
    body_tensors: Vec<polychip_tensor>,
}

impl Fixture {
    fn new() -> Fixture {
        let mut fixture = Fixture {
            graph: vec![polychip_graph::sized()],
            nodes: vec![polychip_node::sized(); 3],
            tensors: vec![
                tensor("x", DType::F32, &[2, 3]),
                tensor("w", DType::U8, &[3, 2]),
                tensor("y", DType::F32, &[2, 2]),
                tensor("c", DType::Bool, &[]),
                tensor("z", DType::F32, &[2, 2]),
                tensor("n", DType::I64, &[-1, 2]),
            ],
            groups: vec![polychip_group::sized()],
            states: vec![polychip_state { input: 0, output: 4 }],
            attributes: vec![polychip_attribute::sized(); 2],
            encodings: vec![polychip_encoding {
                kind: abi::POLYCHIP_ENCODING_PER_AXIS,
                axis: 0,
                scales: SCALES.as_ptr(),
                scale_count: 3,
                real_dtype: DType::F32.code(),
                ..polychip_encoding::sized()
            }],
            // inputs and outputs of graph and nodes, group members, those of the body
            words: vec![
                vec![0, 3],
                vec![4, 5],
                vec![0, 1],
                vec![2],
                vec![3],
                vec![4, POLYCHIP_NO_INDEX],
                vec![2, POLYCHIP_NO_INDEX],
                vec![5],
                vec![0, 2],
                vec![0],
                vec![1],
                vec![0],
                vec![1],
            ],
            bodies: vec![polychip_body::sized()],
            captures: vec![polychip_capture { outer: 2, inner: 0 }],
            body: vec![polychip_graph::sized()],
            body_nodes: vec![polychip_node::sized()],
            body_tensors: vec![
                tensor("inner", DType::F32, &[2, 2]),
                tensor("out", DType::F32, &[2, 2]),
            ],
        };
        fixture.link();
        fixture
    }

    /// Sets every pointer and count.
    fn link(&mut self) {
        self.tensors[1].flags = abi::POLYCHIP_TENSOR_CONSTANT;
        self.tensors[1].data = WEIGHTS.as_ptr();
        self.tensors[1].data_bytes = 6;
        self.tensors[1].encoding = self.encodings.as_ptr();
        self.tensors[5].flags = abi::POLYCHIP_TENSOR_UPPER_BOUND;
        let words = |place: usize| (self.words[place].as_ptr(), self.words[place].len() as u64);
        for (index, (op, name, inputs, outputs)) in [
            (Op::MatMul, "MatMul", 2, 3),
            (Op::If, "If", 4, 5),
            (Op::Compress, "Compress", 6, 7),
        ]
        .into_iter()
        .enumerate()
        {
            let node = &mut self.nodes[index];
            (node.op, node.op_name, node.name) = (op.code(), text(name), text("node"));
            (node.inputs, node.input_count) = words(inputs);
            (node.outputs, node.output_count) = words(outputs);
        }
        for (place, attribute) in self.attributes.iter_mut().enumerate() {
            attribute.code = if place == 0 { 0 } else { Attr::Axes.code() };
            attribute.name = text(if place == 0 { "mine" } else { "axes" });
            attribute.value_type = abi::POLYCHIP_ATTRIBUTE_TYPE_INTS;
            attribute.flags = abi::POLYCHIP_ATTRIBUTE_LIST;
            attribute.data = AXES.as_ptr().cast();
            attribute.count = 2;
        }
        self.nodes[0].attributes = self.attributes.as_ptr();
        self.nodes[0].attribute_count = 2;
        self.nodes[0].attribute_stride = size_of::<polychip_attribute>() as u64;

        let inner = &mut self.body_nodes[0];
        (inner.op, inner.op_name) = (Op::Relu.code(), text("Relu"));
        (inner.inputs, inner.input_count) = (self.words[9].as_ptr(), 1);
        (inner.outputs, inner.output_count) = (self.words[10].as_ptr(), 1);
        let body = &mut self.body[0];
        (body.nodes, body.node_count) = (self.body_nodes.as_ptr(), 1);
        body.node_stride = size_of::<polychip_node>() as u64;
        (body.tensors, body.tensor_count) = (self.body_tensors.as_ptr(), 2);
        body.tensor_stride = size_of::<polychip_tensor>() as u64;
        (body.inputs, body.input_count) = (self.words[11].as_ptr(), 1);
        (body.outputs, body.output_count) = (self.words[12].as_ptr(), 1);
        self.bodies[0].attribute = Attr::ThenBranch.code();
        self.bodies[0].graph = self.body.as_ptr();
        (self.bodies[0].captures, self.bodies[0].capture_count) = (self.captures.as_ptr(), 1);
        self.nodes[1].bodies = self.bodies.as_ptr();
        self.nodes[1].body_count = 1;
        self.nodes[1].body_stride = size_of::<polychip_body>() as u64;

        self.groups[0].kind = abi::POLYCHIP_GROUP_MATMUL;
        (self.groups[0].nodes, self.groups[0].node_count) = (self.words[8].as_ptr(), 2);
        let graph = &mut self.graph[0];
        graph.name = text("fixture");
        (graph.nodes, graph.node_count) = (self.nodes.as_ptr(), 3);
        graph.node_stride = size_of::<polychip_node>() as u64;
        (graph.tensors, graph.tensor_count) = (self.tensors.as_ptr(), 6);
        graph.tensor_stride = size_of::<polychip_tensor>() as u64;
        (graph.inputs, graph.input_count) = (self.words[0].as_ptr(), 2);
        (graph.outputs, graph.output_count) = (self.words[1].as_ptr(), 2);
        (graph.groups, graph.group_count) = (self.groups.as_ptr(), 1);
        graph.group_stride = size_of::<polychip_group>() as u64;
        (graph.states, graph.state_count) = (self.states.as_ptr(), 1);
    }

    fn view(&self) -> Result<GraphView<'_>> {
        // SAFETY: the fixture's arrays live as long as the view; tests break what is beside the pointers
        // only so that nothing more is claimed to be readable than is.
        unsafe { GraphView::new(self.graph.as_ptr()) }
    }
}

/// Reads everything that a view offers: it must not panic.
fn walk(graph: &GraphView<'_>) -> usize {
    let mut seen = graph.name().len() + graph.states().count() + format!("{graph:?}").len();
    for tensor in graph.tensors() {
        seen += tensor.name().len() + format!("{:?}", tensor.ty()).len();
        seen += tensor.constant().map_or(0, |constant| constant.bytes().len());
        seen += tensor
            .encoding()
            .map_or(0, |encoding| encoding.to_owned().scales.len());
        seen += tensor.literal().map_or(0, |literal| literal.bytes.len());
    }
    for node in graph.nodes() {
        seen += node.attributes().len() + node.domain().len() + usize::from(node.op() == Op::Custom);
        for tensor in node.inputs().chain(node.outputs()).flatten() {
            seen += graph.tensor(tensor).name().len();
        }
        for body in node.bodies() {
            seen += walk(&body.graph) + body.captures().count();
        }
        seen += node.decomposition().map_or(0, |inner| walk(&inner));
    }
    for group in graph.groups() {
        seen += group
            .nodes
            .iter()
            .map(|&node| graph.node(node as usize).name().len())
            .sum::<usize>();
    }
    seen
}

#[test]
fn every_field_of_a_graph_is_read_back() {
    let fixture = Fixture::new();
    let graph = fixture.view().unwrap();
    assert!(walk(&graph) > 0);
    let matmul = graph.node(0);
    assert_eq!((matmul.op(), matmul.op_name()), (Op::MatMul, "MatMul"));
    assert_eq!(matmul.ints(Attr::Axes), Some(&AXES[..]));
    assert_eq!(matmul.attributes().len(), 2);
    let weight = graph.tensor(matmul.input(1).unwrap());
    assert_eq!(weight.constant().unwrap().bytes(), WEIGHTS);
    let encoding = weight.encoding().unwrap();
    assert_eq!(encoding.kind(), EncodingKind::PerAxis { axis: 0 });
    assert_eq!(encoding.scales(), SCALES);
    let branch = graph.node(1).body(Attr::ThenBranch).unwrap();
    assert_eq!(branch.graph.node(0).op(), Op::Relu);
    assert_eq!(branch.captures().collect::<Vec<_>>(), [(2, 0)]);
    assert_eq!(graph.node(1).output(1), None);
    let bounded = graph.tensor(5);
    assert!(bounded.is_upper_bound() && bounded.shape().is_none());
    assert_eq!(bounded.ty().to_string(), "i64[?, 2]");
    assert_eq!(graph.states().collect::<Vec<_>>(), [(0, 4)]);
    assert_eq!(graph.groups().next().unwrap().kind, GroupKind::MatMul);
}

#[test]
fn structs_of_older_and_later_builds_are_read() {
    // older: nodes without bodies and decomposition
    let mut fixture = Fixture::new();
    for node in &mut fixture.nodes {
        node.struct_size = std::mem::offset_of!(polychip_node, bodies) as u32;
    }
    let graph = fixture.view().unwrap();
    assert_eq!(
        (graph.node(1).bodies().len(), graph.node(0).attributes().len()),
        (0, 2)
    );
    walk(&graph);

    // later: tensors with more behind them
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Later {
        tensor: polychip_tensor,
        more: [u64; 3],
    }
    let mut fixture = Fixture::new();
    let later: Vec<Later> = fixture
        .tensors
        .iter()
        .map(|&tensor| Later {
            tensor: polychip_tensor {
                struct_size: size_of::<Later>() as u32,
                ..tensor
            },
            more: [u64::MAX; 3],
        })
        .collect();
    fixture.graph[0].tensors = later.as_ptr().cast();
    fixture.graph[0].tensor_stride = size_of::<Later>() as u64;
    let graph = fixture.view().unwrap();
    assert_eq!(graph.tensor(5).name(), "n");
    walk(&graph);
}

#[test]
fn flat_attributes_decode_to_a_typed_operator() {
    let mut fixture = Fixture::new();
    let error = fixture.view().unwrap().node(0).operator().unwrap_err();
    assert_eq!(error.to_string(), "MatMul: has no attribute 'axes'");
    // the attributes of one op: what is left out has the default of the op table
    fixture.nodes[0].op = Op::CenterCropPad.code();
    fixture.nodes[0].attributes = &raw const fixture.attributes[1];
    fixture.nodes[0].attribute_count = 1;
    let graph = fixture.view().unwrap();
    let Ok(Operator::CenterCropPad(crop)) = graph.node(0).operator() else {
        panic!("{:?}", graph.node(0).operator());
    };
    assert_eq!(crop.axes.as_deref(), Some(&AXES[..]));
    fixture.nodes[0].op = Op::LayerNormalization.code();
    fixture.nodes[0].attribute_count = 0;
    let graph = fixture.view().unwrap();
    let norm: polychip_ops::operator::Norm = graph.node(0).typed().unwrap();
    assert_eq!((norm.axis, norm.epsilon), (-1, 1e-5));
    assert!(graph.node(0).typed::<polychip_ops::operator::Gemm>().is_err());
}

#[test]
fn op_of_a_later_contract_is_custom() {
    let mut fixture = Fixture::new();
    fixture.nodes[0].op = 60_000;
    assert_eq!(fixture.view().unwrap().node(0).op(), Op::Custom);
}

#[test]
fn each_breach_is_named() {
    let broken = |break_it: &dyn Fn(&mut Fixture)| {
        let mut fixture = Fixture::new();
        break_it(&mut fixture);
        fixture.view().unwrap_err().to_string()
    };
    // 3 rows of 2 values are no blocks; one of 64 values are two blocks of 18 bytes
    static BLOCKS: [u8; 36] = [0; 36];
    static ROW: [i64; 2] = [1, 64];
    let blocks = |fixture: &mut Fixture| {
        fixture.encodings[0] = polychip_encoding {
            kind: abi::POLYCHIP_ENCODING_BLOCKS,
            axis: 1,
            block_size: 32,
            block_layout: abi::POLYCHIP_BLOCKS_Q4_0,
            real_dtype: DType::F32.code(),
            ..polychip_encoding::sized()
        };
        let weights = &mut fixture.tensors[1];
        (weights.dims, weights.data, weights.data_bytes) = (ROW.as_ptr(), BLOCKS.as_ptr(), 36);
    };
    let mut fixture = Fixture::new();
    blocks(&mut fixture);
    let view = fixture.view().unwrap();
    let encoding = view.tensor(1).encoding().unwrap();
    assert_eq!(encoding.kind(), EncodingKind::Blocks(BlockLayout::Q4_0));
    assert_eq!(encoding.to_owned().block_layout(), Some(BlockLayout::Q4_0));
    let of_blocks = |break_it: &dyn Fn(&mut Fixture)| {
        broken(&|fixture| {
            blocks(fixture);
            break_it(fixture);
        })
    };
    for (words, message) in [
        (
            "unknown block layout 77",
            of_blocks(&|f| f.encodings[0].block_layout = 77),
        ),
        (
            "unknown block layout 0",
            of_blocks(&|f| f.encodings[0].block_layout = 0),
        ),
        ("has 35 bytes", of_blocks(&|f| f.tensors[1].data_bytes = 35)),
        (
            "has 36 bytes",
            of_blocks(&|f| f.encodings[0].block_layout = abi::POLYCHIP_BLOCKS_Q8_0),
        ),
        (
            "constants of u8",
            of_blocks(&|f| f.tensors[1].dtype = DType::I8.code()),
        ),
        (
            "encode f32",
            of_blocks(&|f| f.encodings[0].real_dtype = DType::F16.code()),
        ),
        (
            "no other scales",
            of_blocks(&|f| {
                (f.encodings[0].scales, f.encodings[0].scale_count) = (SCALES.as_ptr(), 1);
            }),
        ),
        (
            "constants of u8",
            of_blocks(&|f| f.tensors[0].encoding = f.encodings.as_ptr()),
        ),
    ] {
        assert!(message.contains(words), "{words:?} is not in {message}");
    }
    for (words, message) in [
        ("before it is produced", broken(&|f| f.words[2][0] = 4)),
        ("is already produced", broken(&|f| f.words[7][0] = 2)),
        ("of 6", broken(&|f| f.words[3][0] = 6)),
        ("takes at most 1", broken(&|f| f.nodes[2].op = Op::NonZero.code())),
        ("is never produced", broken(&|f| f.graph[0].node_count = 1)),
        ("twice an input", broken(&|f| f.words[0][1] = 0)),
        ("in two groups", broken(&|f| f.words[8][1] = 0)),
        ("group 0 names node 9", broken(&|f| f.words[8][1] = 9)),
        (
            "is not an input of the body",
            broken(&|f| f.captures[0].inner = 1),
        ),
        ("unknown data type", broken(&|f| f.tensors[0].dtype = 0)),
        ("has 5 bytes", broken(&|f| f.tensors[1].data_bytes = 5)),
        ("instead of 3", broken(&|f| f.encodings[0].scale_count = 2)),
        ("along axis 7", broken(&|f| f.encodings[0].axis = 7)),
        (
            "out of order",
            broken(&|f| f.attributes[0].code = Attr::Axes.code()),
        ),
        ("ends inside a field", broken(&|f| f.nodes[1].struct_size = 50)),
        (
            "not UTF-8",
            broken(&|f| f.tensors[0].name = raw::to_text_of(&[0xff, 0xfe])),
        ),
        (
            "nested deeper",
            broken(&|f| f.body_nodes[0].decomposition = f.body.as_ptr()),
        ),
        ("not an input and an output", broken(&|f| f.states[0].output = 2)),
        ("is null", broken(&|f| f.graph[0].nodes = std::ptr::null())),
        ("do not fit", broken(&|f| f.nodes[0].input_count = u64::MAX / 2)),
    ] {
        assert!(message.contains(words), "wanted {words:?} in {message:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 12 } else { 2000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the indices, codes, flags and sizes: a graph is refused, or reads without a panic.
    #[test]
    fn broken_graphs_are_refused_or_read(
        breaks in prop::collection::vec((0usize..16, any::<usize>(), any::<u64>(), any::<bool>()), 1..4)
    ) {
        let mut fixture = Fixture::new();
        for (what, place, value, small) in breaks {
            // small values are the ones that nearly fit
            let value = if small { value % 8 } else { value };
            let low = value as u32;
            // a count that claims more than there is may only do so where it cannot fit memory at all
            let count = |real: u64| if small { value % (real + 1) } else { value | (1 << 62) };
            let node = place % 3;
            match what {
                0 | 1 => {
                    let list = place % fixture.words.len();
                    let entry = (place / 16) % fixture.words[list].len();
                    fixture.words[list][entry] = low;
                }
                2 => fixture.captures[0].outer = low,
                3 => fixture.captures[0].inner = low,
                4 => fixture.states[0].input = low,
                5 => fixture.nodes[node].op = low,
                6 => fixture.tensors[place % 6].dtype = low,
                7 => fixture.tensors[place % 6].flags = low,
                8 => fixture.tensors[1].data_bytes = count(6),
                9 => fixture.nodes[node].input_count = count(fixture.nodes[node].input_count),
                10 => fixture.graph[0].tensor_count = count(6),
                11 => fixture.graph[0].node_count = count(3),
                12 => fixture.nodes[node].struct_size = low % (size_of::<polychip_node>() as u32 + 1),
                13 => fixture.encodings[0].kind = low,
                14 => fixture.encodings[0].block_size = low,
                _ => fixture.attributes[place % 2].value_type = match low % 3 {
                    // the values are integers of 8 bytes: floats are no larger
                    0 => abi::POLYCHIP_ATTRIBUTE_TYPE_INTS,
                    1 => abi::POLYCHIP_ATTRIBUTE_TYPE_FLOATS,
                    _ => low | 8,
                },
            }
        }
        if let Ok(graph) = fixture.view() {
            walk(&graph);
        }
    }
}

/// All bytes that a constant returns, and the lengths of its blocks.
fn handed_out(constant: &Constant) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut lengths) = (Vec::new(), Vec::new());
    constant.blocks(|block| {
        bytes.extend(block);
        lengths.push(block.len());
    });
    (bytes, lengths)
}

#[test]
fn constants_are_read_in_blocks_from_memory() {
    let memory: Vec<u8> = (0..2 * Constant::BLOCK + 5).map(|i| i as u8).collect();
    let constant = Constant {
        data: memory.as_ptr(),
        bytes: memory.len() as u64,
        fd: None,
    };
    let (bytes, lengths) = handed_out(&constant);
    assert!(bytes == memory);
    assert_eq!(lengths, [Constant::BLOCK, Constant::BLOCK, 5]);
}

#[cfg(all(unix, not(miri)))]
#[test]
fn constants_are_read_from_the_file_or_from_memory_if_it_is_short() {
    use std::os::fd::AsRawFd;
    let path = std::env::temp_dir().join(format!("polychip-blocks-{}", std::process::id()));
    std::fs::write(&path, vec![7; 3 + Constant::BLOCK]).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // unlike the file, so that the test sees where bytes come from; a block longer than the file from its third byte on
    let memory = vec![9; 2 * Constant::BLOCK];
    let constant = Constant {
        data: memory.as_ptr(),
        bytes: memory.len() as u64,
        fd: Some((i64::from(file.as_raw_fd()), 3)),
    };
    let (bytes, _) = handed_out(&constant);
    assert!(bytes[..Constant::BLOCK].iter().all(|&byte| byte == 7));
    assert!(bytes.len() == memory.len() && bytes[Constant::BLOCK..].iter().all(|&byte| byte == 9));
    assert!(file.metadata().is_ok(), "the host's descriptor stays open");
}
