//! The models of the planning benchmark, written as ONNX files: as many nodes as asked for, of a stated shape.
//!
//! Invariants:
//! 1. Same shape and size, same bytes.
//! 2. No pass takes a node away: neighbours neither repeat nor undo each other, and no two nodes compute the same.
//!
//! Not here: what is done with them (`planning_bench`).

use crate::protobuf::Message;

/// Elements of every tensor between nodes: 4 channels of 32 by 32.
const SHAPE: [u64; 4] = [1, 4, 32, 32];
/// Every so many nodes of a chain one is a `Tanh`, which the scripted device is slow at.
const PERIOD: usize = 50;
/// Branches of a wide graph, and nodes of each branch before they meet.
const BRANCHES: usize = 12;
const BRANCH: usize = 4;
/// Depth of the If bodies.
const DEPTH: usize = 6;
/// Elements of each constant of a model with many.
const CONSTANT: usize = 1024;

const FLOAT: u64 = 1;
const BOOL: u64 = 9;

/// A shape of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shape {
    /// A chain: a convolution, then elementwise nodes
    Chain,
    /// Residual blocks of two convolutions
    Resnet,
    /// Blocks of twelve branches that merge again
    Wide,
    /// A chain in which every node reads its own constant
    Constants,
    /// A chain inside If bodies, six deep
    Bodies,
}

impl Shape {
    /// The word for files and tables.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Shape::Chain => "chain",
            Shape::Resnet => "resnet",
            Shape::Wide => "wide",
            Shape::Constants => "constants",
            Shape::Bodies => "bodies",
        }
    }
}

/// The bytes of a model of this shape with about so many nodes, bodies included.
pub(crate) fn model(shape: Shape, nodes: usize) -> Vec<u8> {
    let mut graph = Graph::new();
    graph.port(11, "x", FLOAT, &SHAPE);
    let mut last = "x".to_owned();
    match shape {
        Shape::Chain => {
            for index in 0..nodes {
                last = graph.link(index, &last);
            }
        }
        Shape::Resnet => {
            while graph.nodes + 5 <= nodes.max(5) {
                let first = graph.conv(&last);
                let first = graph.node("Relu", &[&first]);
                let second = graph.conv(&first);
                let sum = graph.node("Add", &[&second, &last]);
                last = graph.node("Relu", &[&sum]);
            }
        }
        Shape::Wide => {
            while graph.nodes + BRANCHES * BRANCH < nodes.max(BRANCHES * BRANCH + 1) {
                let branches = (0..BRANCHES).map(|branch| {
                    let first = graph.conv(&last);
                    (1..BRANCH).fold(first, |last, index| graph.link(branch * BRANCH + index, &last))
                });
                let branches: Vec<String> = branches.collect();
                let names: Vec<&str> = branches.iter().map(String::as_str).collect();
                last = graph.node("Sum", &names);
            }
        }
        Shape::Constants => {
            for index in 0..nodes {
                let constant = graph.constant(&[CONSTANT as u64 / 32, 32], index);
                let op = ["Add", "Mul"][index % 2];
                last = graph.node(op, &[&last, &constant]);
            }
        }
        Shape::Bodies => {
            graph.port(11, "b", BOOL, &[]);
            last = graph.branch(nodes, DEPTH, &last);
        }
    }
    graph.port(12, &last, FLOAT, &SHAPE);
    let opset = Message::new().text(1, "").number(2, 17);
    Message::new()
        .number(1, 8)
        .message(8, &opset)
        .message(7, &graph.message("planning"))
        .into_bytes()
}

/// A graph being written.
struct Graph {
    /// What names of this graph begin with: bodies have their own.
    prefix: String,
    nodes: usize,
    written: Message,
}

impl Graph {
    fn new() -> Graph {
        Graph {
            prefix: String::new(),
            nodes: 0,
            written: Message::new(),
        }
    }

    fn message(self, name: &str) -> Message {
        self.written.text(2, name)
    }

    fn add(&mut self, field: u32, part: &Message) {
        self.written = std::mem::take(&mut self.written).message(field, part);
    }

    /// An input (11) or output (12).
    fn port(&mut self, field: u32, name: &str, dtype: u64, sizes: &[u64]) {
        let shape = sizes.iter().fold(Message::new(), |shape, &size| {
            shape.message(1, &Message::new().number(1, size))
        });
        let tensor = Message::new().number(1, dtype).message(2, &shape);
        let kind = Message::new().message(1, &tensor);
        self.add(field, &Message::new().text(1, name).message(2, &kind));
    }

    /// A constant of values that no other has.
    fn constant(&mut self, sizes: &[u64], number: usize) -> String {
        let name = format!("{}c{}_{number}", self.prefix, self.nodes);
        let count = sizes.iter().product::<u64>() as usize;
        let value = |index: usize| ((number * 31 + index * 7) % 1021) as f32 / 1024.0 + 0.001;
        let dims = sizes
            .iter()
            .fold(Message::new(), |tensor, &size| tensor.number(1, size));
        let mut bytes: Vec<u8> = (0..count).flat_map(|index| value(index).to_le_bytes()).collect();
        // the number itself, so that equal patterns are different constants
        bytes[..4].copy_from_slice(&(number as f32 + 0.5).to_le_bytes());
        self.add(5, &dims.number(2, FLOAT).text(8, &name).bytes(9, &bytes));
        name
    }

    fn node(&mut self, op: &str, inputs: &[&str]) -> String {
        self.node_with(op, inputs, &[])
    }

    fn node_with(&mut self, op: &str, inputs: &[&str], attributes: &[Message]) -> String {
        let output = format!("{}t{}", self.prefix, self.nodes);
        let read = inputs
            .iter()
            .fold(Message::new(), |node, input| node.text(1, input));
        let named = read
            .text(2, &output)
            .text(3, &format!("{}n{}", self.prefix, self.nodes))
            .text(4, op);
        let node = attributes
            .iter()
            .fold(named, |node, attribute| node.message(5, attribute));
        self.add(1, &node);
        self.nodes += 1;
        output
    }

    /// A convolution with weights of its own.
    fn conv(&mut self, input: &str) -> String {
        let weight = self.constant(&[4, 4, 1, 1], self.nodes);
        self.node("Conv", &[input, &weight])
    }

    /// Node `index` of a chain.
    fn link(&mut self, index: usize, input: &str) -> String {
        match index % PERIOD {
            at if at + 1 == PERIOD => self.node("Tanh", &[input]),
            at => match at % 4 {
                0 => self.conv(input),
                1 => self.node("Relu", &[input]),
                2 => self.node("Sigmoid", &[input]),
                _ => self.node("Softplus", &[input]),
            },
        }
    }

    /// An If whose bodies hold so many nodes, half of them in further Ifs.
    fn branch(&mut self, nodes: usize, depth: usize, input: &str) -> String {
        let own = if depth > 1 { nodes / 4 } else { nodes / 2 };
        let body = |name: &str, inner: usize| {
            let mut body = Graph {
                prefix: format!("{}{name}{}_", self.prefix, self.nodes),
                ..Graph::new()
            };
            let mut last = (0..own.max(1)).fold(input.to_owned(), |last, index| body.link(index, &last));
            if inner > 0 {
                last = body.branch(inner, depth - 1, &last);
            }
            body.port(12, &last, FLOAT, &SHAPE);
            body.message(name)
        };
        let inner = if depth > 1 { nodes / 2 } else { 0 };
        let attributes = [
            ("then_branch", body("then", inner)),
            ("else_branch", body("else", 0)),
        ];
        let attributes =
            attributes.map(|(name, body)| Message::new().text(1, name).message(6, &body).number(20, 5));
        self.node_with("If", &["b"], &attributes)
    }
}
