//! Ops of classical machine learning: trees and labels of ONNX's domain `ai.onnx.ml`.
//!
//! Invariant: attributes that do not fit together are an error that names them, before a row is read.
//! Start reading at [`forest`]: both forms of an ensemble become one.

use std::collections::BTreeMap;

use polychip_cpu_kernels::reference::forest::{Branch, Child, Forest, Join, Test, Transform, predict};
use polychip_cpu_kernels::reference::{Element, Error, Result, Storage, Tensor, label};
use polychip_ops::operator::{Aggregate, PostTransform, TreeEnsemble};
use polychip_ops::{Attr, AttrValue, Attributes, DType, DTypes, Op, Operator};

use crate::call::{Call, Outputs, bad, one};
use crate::literal::tensor_from_literal;
use crate::row::{Row, TEXT};

const KEYS: DTypes = TEXT.with(DTypes::of(&[
    DType::I64,
    DType::I32,
    DType::I16,
    DType::F32,
    DType::F64,
]));
const ROWS: DTypes = DTypes::of(&[DType::F16, DType::F32, DType::F64]);

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::LabelEncoder => Row {
            takes: &[KEYS],
            run: encode,
        },
        Op::TreeEnsemble => Row {
            takes: &[ROWS],
            run: |c| {
                one(predict(
                    c.input(0)?,
                    &forest(c.op, c.attributes)?,
                    c.input(0)?.element(),
                ))
            },
        },
        Op::TreeEnsembleRegressor => Row {
            takes: &[ROWS],
            run: |c| one(predict(c.input(0)?, &forest(c.op, c.attributes)?, Element::F32)),
        },
        _ => return None,
    })
}

fn encode(c: &Call<'_>) -> Outputs {
    let (Some(keys), Some(values)) = (c.tensor(Attr::KeysTensor)?, c.tensor(Attr::ValuesTensor)?) else {
        return bad("attributes keys_tensor and values_tensor are wanted");
    };
    let default = match c.tensor(Attr::DefaultTensor)? {
        Some(default) => default,
        // what ONNX gives where the model says nothing
        None => match values.element() {
            Element::String => Tensor::new(vec![1], Storage::String(vec!["_Unused".into()]))?,
            float @ (Element::F32 | Element::F64) => Tensor::from_f64s(float, vec![1], &[-0.0])?,
            int => Tensor::from_i128s(int, vec![1], &[-1])?,
        },
    };
    one(label::encode(c.input(0)?, &keys, &values, &default))
}

/// The trees of a TreeEnsemble or TreeEnsembleRegressor.
///
/// # Errors
/// If its attributes do not make trees.
pub fn forest(op: Op, attributes: &Attributes) -> Result<Forest> {
    match op {
        Op::TreeEnsemble => by_index(ensemble(op, attributes)?, attributes),
        Op::TreeEnsembleRegressor => by_number(ensemble(op, attributes)?, attributes),
        _ => bad(format!("{op} is no ensemble of trees")),
    }
}

fn ensemble(op: Op, attributes: &Attributes) -> Result<TreeEnsemble> {
    Operator::attributes(op, attributes).map_err(|why| Error::new(why.to_string()))
}

fn join(node: TreeEnsemble) -> Join {
    match node.aggregate {
        Aggregate::Average => Join::Average,
        Aggregate::Sum => Join::Sum,
        Aggregate::Min => Join::Min,
        Aggregate::Max => Join::Max,
    }
}

fn transform(node: TreeEnsemble) -> Transform {
    match node.transform {
        PostTransform::None => Transform::None,
        PostTransform::Softmax => Transform::Softmax,
        PostTransform::Logistic => Transform::Logistic,
        PostTransform::SoftmaxZero => Transform::SoftmaxZero,
        PostTransform::Probit => Transform::Probit,
    }
}

/// A list that is there for every branch or not at all.
fn list<T>(values: Option<&[T]>, attr: Attr, count: usize) -> Result<Option<&[T]>> {
    match values.filter(|values| !values.is_empty()) {
        Some(values) if values.len() != count => bad(format!(
            "{} has {} entries for {count} nodes",
            attr.name(),
            values.len()
        )),
        values => Ok(values),
    }
}

fn wanted(attributes: &Attributes, attr: Attr, count: usize) -> Result<&[i64]> {
    if count == 0 {
        return Ok(&[]);
    }
    list(attributes.ints(attr), attr, count)?
        .ok_or_else(|| Error::new(format!("attribute {} is missing", attr.name())))
}

/// Floats of a list or, in doubles, of a tensor.
fn floats(attributes: &Attributes, floats: Attr, tensor: Attr) -> Result<Vec<f64>> {
    if let Some(AttrValue::Tensor(literal)) = attributes.get(tensor) {
        return tensor_from_literal(literal)?.to_f64s();
    }
    let values = attributes.floats(floats).unwrap_or_default();
    Ok(values.iter().copied().map(f64::from).collect())
}

fn index(value: i64, what: &str) -> Result<usize> {
    usize::try_from(value).or_else(|_| bad(format!("{what} is {value}")))
}

/// TreeEnsemble: branches and leaves in lists of their own, named by their places.
fn by_index(ensemble: TreeEnsemble, attributes: &Attributes) -> Result<Forest> {
    let tensor = |attr: Attr| match attributes.tensor(attr) {
        Some(literal) => tensor_from_literal(literal).map(Some),
        None => Ok(None),
    };
    let missing = |attr: Attr| Error::new(format!("attribute {} is missing", attr.name()));
    let modes = tensor(Attr::NodesModes)?
        .ok_or_else(|| missing(Attr::NodesModes))?
        .to_i64s()?;
    let n = modes.len();
    let splits = tensor(Attr::NodesSplits)?
        .ok_or_else(|| missing(Attr::NodesSplits))?
        .to_f64s()?;
    let weights = tensor(Attr::LeafWeights)?
        .ok_or_else(|| missing(Attr::LeafWeights))?
        .to_f64s()?;
    if splits.len() != n {
        return bad(format!("{} splits for {n} nodes", splits.len()));
    }
    let features = wanted(attributes, Attr::NodesFeatureids, n)?;
    let ways = [
        wanted(attributes, Attr::NodesTruenodeids, n)?,
        wanted(attributes, Attr::NodesFalsenodeids, n)?,
    ];
    let ends = [
        wanted(attributes, Attr::NodesTrueleafs, n)?,
        wanted(attributes, Attr::NodesFalseleafs, n)?,
    ];
    let tracks = Attr::NodesMissingValueTracksTrue;
    let tracks = list(attributes.ints(tracks), tracks, n)?;
    // the members of each set end with a NaN
    let members = match tensor(Attr::MembershipValues)? {
        Some(members) => members.to_f64s()?,
        None => Vec::new(),
    };
    let mut members = members.split(|value| value.is_nan());
    let mut branches = Vec::with_capacity(n);
    for node in 0..n {
        let child = |way: usize| -> Result<Child> {
            let at = index(ways[way][node], "the index of a node")?;
            Ok(match ends[way][node] {
                0 => Child::Branch(at),
                _ => Child::Leaf(at),
            })
        };
        let test = match modes[node] {
            0 => Test::AtMost,
            1 => Test::Below,
            2 => Test::AtLeast,
            3 => Test::Above,
            4 => Test::Equals,
            5 => Test::Differs,
            6 => Test::Member,
            other => return bad(format!("nodes_modes has {other}, not 0 to 6")),
        };
        let set = match test {
            Test::Member => members
                .next()
                .ok_or_else(|| Error::new("membership_values has fewer sets than nodes ask for"))?
                .to_vec(),
            _ => Vec::new(),
        };
        branches.push(Branch {
            feature: index(features[node], "the index of a feature")?,
            test,
            value: splits[node],
            members: set,
            missing: tracks.is_some_and(|tracks| tracks[node] != 0),
            yes: child(0)?,
            no: child(1)?,
        });
    }
    let targets = wanted(attributes, Attr::LeafTargetids, weights.len())?;
    let leaves = targets
        .iter()
        .zip(weights)
        .map(|(&target, weight)| Ok(vec![(index(target, "a target")?, weight)]))
        .collect::<Result<_>>()?;
    let roots = attributes.ints(Attr::TreeRoots).unwrap_or_default();
    Forest {
        branches,
        leaves,
        roots: roots
            .iter()
            .map(|&root| Ok(Child::Branch(index(root, "a root")?)))
            .collect::<Result<_>>()?,
        targets: ensemble.targets(),
        base: Vec::new(),
        join: join(ensemble),
        transform: transform(ensemble),
    }
    .check()
}

/// TreeEnsembleRegressor: nodes of all trees in one list, named by the numbers of tree and node; the first of each tree is
/// its root.
fn by_number(ensemble: TreeEnsemble, attributes: &Attributes) -> Result<Forest> {
    let trees = attributes.ints(Attr::NodesTreeids).unwrap_or_default();
    let n = trees.len();
    let numbers = wanted(attributes, Attr::NodesNodeids, n)?;
    let features = wanted(attributes, Attr::NodesFeatureids, n)?;
    let ways = [
        wanted(attributes, Attr::NodesTruenodeids, n)?,
        wanted(attributes, Attr::NodesFalsenodeids, n)?,
    ];
    let modes = list(attributes.strings(Attr::NodesModes), Attr::NodesModes, n)?.unwrap_or_default();
    let values = floats(attributes, Attr::NodesValues, Attr::NodesValuesAsTensor)?;
    if modes.len() != n || values.len() != n {
        return bad(format!(
            "{} modes and {} values for {n} nodes",
            modes.len(),
            values.len()
        ));
    }
    let tracks = Attr::NodesMissingValueTracksTrue;
    let tracks = list(attributes.ints(tracks), tracks, n)?;
    // first what each node is, so that children are found whatever the order
    let mut places = BTreeMap::new();
    let mut roots = Vec::new();
    let (mut branches, mut leaves) = (0, 0);
    for node in 0..n {
        let child = if &*modes[node] == "LEAF" {
            leaves += 1;
            Child::Leaf(leaves - 1)
        } else {
            branches += 1;
            Child::Branch(branches - 1)
        };
        if node == 0 || trees[node - 1] != trees[node] {
            roots.push((trees[node], child));
        }
        if places.insert((trees[node], numbers[node]), child).is_some() {
            return bad(format!(
                "node {} of tree {} is there twice",
                numbers[node], trees[node]
            ));
        }
    }
    // a tree whose nodes do not stand together has one root
    let mut seen = std::collections::BTreeSet::new();
    roots.retain(|&(tree, _)| seen.insert(tree));
    let mut made = Vec::with_capacity(branches);
    for node in 0..n {
        let test = match &*modes[node] {
            "LEAF" => continue,
            "BRANCH_LEQ" => Test::AtMost,
            "BRANCH_LT" => Test::Below,
            "BRANCH_GTE" => Test::AtLeast,
            "BRANCH_GT" => Test::Above,
            "BRANCH_EQ" => Test::Equals,
            "BRANCH_NEQ" => Test::Differs,
            other => return bad(format!("nodes_modes has {other:?}")),
        };
        let child = |way: usize| {
            let number = ways[way][node];
            let found = places.get(&(trees[node], number)).copied();
            found.ok_or_else(|| Error::new(format!("tree {} has no node {number}", trees[node])))
        };
        made.push(Branch {
            feature: index(features[node], "the index of a feature")?,
            test,
            value: values[node],
            members: Vec::new(),
            missing: tracks.is_some_and(|tracks| tracks[node] != 0),
            yes: child(0)?,
            no: child(1)?,
        });
    }
    let weights = floats(attributes, Attr::TargetWeights, Attr::TargetWeightsAsTensor)?;
    let w = weights.len();
    let of = [Attr::TargetTreeids, Attr::TargetNodeids, Attr::TargetIds];
    let [in_tree, at_node, targets] = of.map(|attr| wanted(attributes, attr, w));
    let (in_tree, at_node, targets) = (in_tree?, at_node?, targets?);
    let mut given: Vec<Vec<(usize, f64)>> = vec![Vec::new(); leaves];
    for place in 0..w {
        match places.get(&(in_tree[place], at_node[place])) {
            Some(&Child::Leaf(leaf)) => {
                given[leaf].push((index(targets[place], "a target")?, weights[place]));
            }
            // some exporters give branches weights, which nothing falls on
            Some(Child::Branch(_)) => {}
            None => {
                return bad(format!(
                    "a weight is that of node {} of tree {}, which is not there",
                    at_node[place], in_tree[place]
                ));
            }
        }
    }
    Forest {
        branches: made,
        leaves: given,
        roots: roots.into_iter().map(|(_, root)| root).collect(),
        targets: ensemble.targets(),
        base: floats(attributes, Attr::BaseValues, Attr::BaseValuesAsTensor)?,
        join: join(ensemble),
        transform: transform(ensemble),
    }
    .check()
}

#[cfg(test)]
mod tests {
    use polychip_ops::Literal;

    use super::*;

    /// Tree 7: x0 <= 1 ? node 5 : node 9.
    fn regressor() -> Attributes {
        let strings = |texts: &[&str]| AttrValue::Strings(texts.iter().map(|&text| text.into()).collect());
        Attributes::new()
            .with_ints(Attr::NodesTreeids, &[7, 7, 7])
            .with_ints(Attr::NodesNodeids, &[2, 9, 5])
            .with_ints(Attr::NodesFeatureids, &[0, 0, 0])
            .with_ints(Attr::NodesTruenodeids, &[5, 0, 0])
            .with_ints(Attr::NodesFalsenodeids, &[9, 0, 0])
            .with(Attr::NodesModes, strings(&["BRANCH_LEQ", "LEAF", "LEAF"]))
            .with(Attr::NodesValues, AttrValue::Floats(vec![1.0, 0.0, 0.0]))
            .with_ints(Attr::TargetTreeids, &[7, 7])
            .with_ints(Attr::TargetNodeids, &[5, 9])
            .with_ints(Attr::TargetIds, &[0, 0])
            .with(Attr::TargetWeights, AttrValue::Floats(vec![10.0, 20.0]))
    }

    fn predicted(op: Op, attributes: &Attributes, rows: &[f64]) -> Vec<f64> {
        let x = Tensor::from_f64s(Element::F32, vec![rows.len(), 1], rows).unwrap();
        let forest = forest(op, attributes).unwrap();
        predict(&x, &forest, Element::F32).unwrap().to_f64s().unwrap()
    }

    #[test]
    fn nodes_are_found_by_their_numbers() {
        assert_eq!(
            predicted(Op::TreeEnsembleRegressor, &regressor(), &[1.0, 1.5]),
            [10.0, 20.0]
        );
        let based = regressor()
            .with(Attr::BaseValues, AttrValue::Floats(vec![0.5]))
            .with_str(Attr::AggregateFunction, "MIN");
        assert_eq!(predicted(Op::TreeEnsembleRegressor, &based, &[1.5]), [20.5]);
    }

    #[test]
    fn sets_of_members_end_with_nan() {
        let u8s = |values: &[u8]| Literal::new(DType::U8, vec![values.len()], values.to_vec()).unwrap();
        let ensemble = Attributes::new()
            .with(Attr::NodesModes, AttrValue::Tensor(u8s(&[6, 0, 6])))
            .with(
                Attr::NodesSplits,
                AttrValue::Tensor(Literal::f32s(&[0.0, 9.0, 0.0])),
            )
            .with_ints(Attr::NodesFeatureids, &[0, 0, 0])
            .with_ints(Attr::NodesTruenodeids, &[0, 2, 2])
            .with_ints(Attr::NodesFalsenodeids, &[1, 3, 1])
            .with_ints(Attr::NodesTrueleafs, &[1, 0, 1])
            .with_ints(Attr::NodesFalseleafs, &[0, 1, 1])
            .with(
                Attr::MembershipValues,
                AttrValue::Tensor(Literal::f32s(&[1.0, 2.0, f32::NAN, 3.0, f32::NAN])),
            )
            .with_ints(Attr::LeafTargetids, &[0, 0, 0, 0])
            .with(
                Attr::LeafWeights,
                AttrValue::Tensor(Literal::f32s(&[10.0, 20.0, 30.0, 40.0])),
            )
            .with_ints(Attr::TreeRoots, &[0]);
        assert_eq!(
            predicted(Op::TreeEnsemble, &ensemble, &[2.0, 3.0, 4.0, 99.0]),
            [10.0, 30.0, 20.0, 40.0]
        );
    }

    #[test]
    fn lists_that_do_not_fit_are_named() {
        let words = |attributes: &Attributes| {
            let error = forest(Op::TreeEnsembleRegressor, attributes).unwrap_err();
            error.to_string()
        };
        let short = regressor().with_ints(Attr::NodesFeatureids, &[0]);
        assert_eq!(words(&short), "nodes_featureids has 1 entries for 3 nodes");
        let astray = regressor().with_ints(Attr::NodesTruenodeids, &[6, 0, 0]);
        assert_eq!(words(&astray), "tree 7 has no node 6");
        let nowhere = regressor().with_ints(Attr::TargetNodeids, &[5, 8]);
        assert_eq!(
            words(&nowhere),
            "a weight is that of node 8 of tree 7, which is not there"
        );
    }
}
