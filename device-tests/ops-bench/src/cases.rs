//! The cases: lines of `ops.txt` in the form of the conformance suite's table, once per size, and graphs with bodies.
//!
//! Invariant: same table, same models and same inputs, on every host.

use polychip_conformance::ops;
use polychip_conformance::problem::Numbers;
use polychip_conformance::value::literal;
use polychip_graph::{Graph, Node, Tensor, infer, text};
use polychip_ops::{Attr, Attributes, Literal, Op, TensorType};
use serde::Serialize;

pub(crate) mod random;

/// The table's text.
const TABLE: &str = include_str!("../ops.txt");

/// Graphs that the table cannot say, in the text form, by their names.
const GRAPHS: &[(&str, &str)] = &[
    ("If/branch/f32", include_str!("../graphs/if.txt")),
    ("Loop/sum/f32", include_str!("../graphs/loop.txt")),
    ("Scan/sum/f32", include_str!("../graphs/scan.txt")),
    // what follows a result whose size only the values tell
    ("NonZero/masked/f32", include_str!("../graphs/masked.txt")),
    ("NonZero/found-rows/f32", include_str!("../graphs/found.txt")),
];

/// How large the tensors of a case are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Size {
    /// About a tenth of the usual work.
    Small,
    /// What the layers of common models have.
    Usual,
    /// About ten times the usual work.
    Large,
    /// Drawn at random ([`random`]).
    #[value(skip)]
    Random,
}

/// A model of one op with inputs.
pub(crate) struct Case {
    /// `Op/line/type`, with the size behind it unless that is the usual one; random cases have a number and the inputs' shapes.
    pub(crate) name: String,
    pub(crate) size: Size,
    pub(crate) made: Result<(Graph, Vec<Literal>), String>,
    /// The same op on images whose channels lie last, where it takes and gives images.
    pub(crate) channels_last: Option<(Graph, Vec<Literal>)>,
}

/// Families of ops on images, which a session may keep with their channels last between nodes.
const OF_IMAGES: &[&str] = &["convolution", "pooling", "normalisation", "image"];

/// Why an op has no case.
#[cfg(test)]
pub(crate) fn without(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::SequenceMap
        | Op::SequenceAt
        | Op::SequenceConstruct
        | Op::SequenceEmpty
        | Op::SequenceErase
        | Op::SequenceInsert
        | Op::SequenceLength
        | Op::SplitToSequence
        | Op::ConcatFromSequence
        | Op::Optional
        | Op::OptionalGetElement
        | Op::OptionalHasElement => "containers are only passed along: a case would measure copies",
        Op::StringConcat
        | Op::StringNormalizer
        | Op::StringSplit
        | Op::RegexFullMatch
        | Op::TfIdfVectorizer => "the table of cases has no text",
        Op::ImageDecoder => "ONNX Runtime has none, and image files are decoded before the graph",
        Op::Bernoulli
        | Op::Multinomial
        | Op::RandomNormal
        | Op::RandomNormalLike
        | Op::RandomUniform
        | Op::RandomUniformLike => "no two runtimes draw the same random numbers",
        Op::LabelEncoder | Op::TreeEnsemble | Op::TreeEnsembleRegressor => {
            "a tree wants training: whole models are timed (`cargo xtask trained --tabular`)"
        }
        Op::Constant => "folded before a graph is run",
        Op::Scatter | Op::Upsample => "imported as ScatterElements and Resize",
        _ => return None,
    })
}

/// The cases of these sizes whose names contain one of `only`, where there is any.
///
/// # Errors
/// The first line of the table that is not understood.
pub(crate) fn all(sizes: &[Size], only: &[String]) -> Result<Vec<Case>, String> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part.as_str()));
    let mut cases = Vec::new();
    for &size in sizes {
        for spec in ops::read(&sized(size)?)? {
            let name = match size {
                Size::Small => format!("{} small", spec.name),
                Size::Usual | Size::Random => spec.name.clone(),
                Size::Large => format!("{} large", spec.name),
            };
            if wanted(&name) {
                let made = spec.graph();
                let of_images = OF_IMAGES.contains(&spec.family.as_str());
                let image_case = made.as_ref().ok().filter(|_| of_images);
                cases.push(Case {
                    channels_last: image_case.and_then(|(graph, inputs)| channels_last(graph, inputs)),
                    made,
                    name,
                    size,
                });
            }
        }
        if size == Size::Usual {
            for &(name, text) in GRAPHS.iter().filter(|(name, _)| wanted(name)) {
                cases.push(Case {
                    made: parsed(name, text),
                    channels_last: None,
                    name: name.to_owned(),
                    size,
                });
            }
        }
    }
    Ok(cases)
}

/// A model of one image between two transpositions, so that it comes and goes with its channels last; `None` where the op
/// does not take and give one.
fn channels_last(graph: &Graph, inputs: &[Literal]) -> Option<(Graph, Vec<Literal>)> {
    let (mut typed, mut graph) = (graph.clone(), graph.clone());
    infer(&mut typed).ok()?;
    let (&x, &y) = (graph.inputs.first()?, graph.outputs.first()?);
    let sizes = |id| {
        typed
            .tensor(id)
            .ty
            .sizes()
            .filter(|sizes| sizes.len() == 4 && sizes[1] > 1)
    };
    let (from, _) = (sizes(x)?, sizes(y)?);
    let last = vec![from[0], from[2], from[3], from[1]];
    let transpose = |from, to, order: &[i64]| {
        Node::new(Op::Transpose, vec![Some(from)], vec![Some(to)])
            .with(Attributes::new().with_ints(Attr::Perm, order))
    };
    let mut given = Tensor::new("given", TensorType::known(typed.tensor(x).ty.dtype, &last));
    given.encoding.clone_from(&graph.tensor(x).encoding);
    let mut result = graph.tensor(y).clone();
    result.name = "result".to_owned();
    result.ty = TensorType::unranked(typed.tensor(y).ty.dtype);
    let (given, result) = (graph.add_tensor(given), graph.add_tensor(result));
    let only = graph.node_ids()[0];
    let node = graph.remove_node(only);
    graph.add_node(transpose(given, x, &[0, 3, 1, 2]));
    graph.add_node(node);
    graph.add_node(transpose(y, result, &[0, 2, 3, 1]));
    graph.inputs[0] = given;
    graph.outputs[0] = result;
    let mut inputs = inputs.to_vec();
    inputs[0].shape = last;
    Some((graph, inputs))
}

/// The table with the sizes put in: `%` is replaced by the number of this size that the line names behind its `@`, `$` by
/// the one behind the colon.
fn sized(size: Size) -> Result<String, String> {
    let mut table = String::new();
    for line in TABLE.lines() {
        let Some((case, sizes)) = line.split_once('@') else {
            table.push_str(line);
            table.push('\n');
            continue;
        };
        let index = match size {
            Size::Small => 0,
            Size::Usual | Size::Random => 1,
            Size::Large => 2,
        };
        let own = sizes
            .split_whitespace()
            .nth(index)
            .ok_or_else(|| format!("{line}: three sizes stand behind the @"))?;
        let (first, second) = own.split_once(':').unwrap_or((own, own));
        table.push_str(&case.replace('%', first).replace('$', second));
        table.push('\n');
    }
    Ok(table)
}

/// A graph of the text form with inputs: floats between -1 and 1, other numbers all one.
fn parsed(name: &str, form: &str) -> Result<(Graph, Vec<Literal>), String> {
    let graph = text::parse(form).map_err(|error| error.to_string())?;
    let mut numbers = Numbers::of(name);
    let inputs = graph
        .inputs
        .iter()
        .map(|&id| {
            let tensor = graph.tensor(id);
            let dtype = tensor.ty.dtype;
            let shape = tensor
                .ty
                .sizes()
                .ok_or_else(|| format!("input {} has no type", tensor.name))?;
            let float = dtype.is_float();
            let values: Vec<f64> = (0..shape.iter().product::<usize>())
                .map(|_| if float { numbers.between(-1.0, 1.0) } else { 1.0 })
                .collect();
            literal(dtype, &shape, &values)
        })
        .collect::<Result<_, String>>()?;
    Ok((graph, inputs))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_of_every_size_is_a_graph_of_its_own_name() {
        let cases = all(&[Size::Small, Size::Usual, Size::Large], &[]).unwrap();
        let mut names = BTreeSet::new();
        for case in &cases {
            assert!(names.insert(&case.name), "{} is listed twice", case.name);
            assert!(case.made.is_ok(), "{}: {:?}", case.name, case.made.as_ref().err());
        }
        let in_channels_last = cases.iter().filter(|case| case.channels_last.is_some()).count();
        assert!(in_channels_last >= 40, "{in_channels_last}");
        let usual = cases.iter().filter(|case| case.size == Size::Usual).count();
        assert!(usual >= 140, "{usual}");
    }

    #[test]
    fn every_op_has_a_case_or_a_reason() {
        let cases = all(&[Size::Usual], &[]).unwrap();
        let covered: BTreeSet<&str> = cases
            .iter()
            .filter_map(|case| case.name.split('/').next())
            .collect();
        for &op in Op::ALL {
            assert!(
                covered.contains(op.name()) != without(op).is_some(),
                "{op}: {} case, reason {:?}",
                if covered.contains(op.name()) { "a" } else { "no" },
                without(op)
            );
        }
    }
}
