//! The rows of a comparison: a layer with its tensor on each side, the tensors that a session keeps, and their error.
//!
//! Invariant: rows follow the order of their graph; rows of files follow the order of their names.
//!
//! Not here: pairing of layers (`pair`), sources of values (`side`).

use std::collections::BTreeSet;

use polychip_graph::{Graph, TensorId};

use super::measure::{Error, Limits};
use super::output::LayerLine;
use super::pair::{Layer, Pairs, Scale, layers, name_of, pairs, sought};
use super::side::{FileSide, ModelSide};
use crate::array::{Array, numbers};

/// Tensors that one session keeps, at most.
const MOST_TENSORS: usize = 64;
/// Their bytes, at most, but for a tensor that is larger alone.
const MOST_BYTES: usize = 256 << 20;

/// What is compared for one layer: the tensor on either side.
pub(super) struct Row {
    pub(super) line: LayerLine,
    /// The tensor in the graph whose order the rows have; none for files.
    pub(super) tensor: Option<TensorId>,
    pub(super) a: String,
    pub(super) b: String,
    /// Scale of each side's integers.
    pub(super) scales: [Option<Scale>; 2],
    /// Bytes that it holds once.
    bytes: usize,
    /// Neither side fuses it with what is behind it.
    is_apart: bool,
}

/// Rows whose tensors are kept by one session: those that nothing is fused for together, so that fusion stays as it is for them.
pub(super) fn groups(rows: &[Row]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for is_apart in [true, false] {
        let mut bytes = 0usize;
        let mut is_first = true;
        for (place, row) in rows
            .iter()
            .enumerate()
            .filter(|(_, row)| row.is_apart == is_apart)
        {
            bytes = bytes.saturating_add(row.bytes);
            let fits = |group: &Vec<usize>| group.len() < MOST_TENSORS && bytes <= MOST_BYTES;
            match groups.last_mut().filter(|group| !is_first && fits(group)) {
                Some(group) => group.push(place),
                None => {
                    groups.push(vec![place]);
                    bytes = row.bytes;
                }
            }
            is_first = false;
        }
    }
    groups
}

/// A line with its figures; none for elements that are no plain numbers.
pub(super) fn judged(row: &Row, a: &Array, b: &Array, limits: Limits) -> Option<LayerLine> {
    let mut line = row.line.clone();
    (line.dtype_a, line.dtype_b) = (a.dtype.name(), b.dtype.name());
    (line.shape_a, line.shape_b) = (a.shape.clone(), b.shape.clone());
    if a.shape != b.shape {
        line.drifts = true;
        return Some(line);
    }
    let reals = |array: &Array, scale: Option<Scale>| {
        let mut values = numbers(array.dtype, &array.bytes)?;
        if let Some(scale) = scale {
            values.iter_mut().for_each(|value| *value = scale.real(*value));
        }
        Some(values)
    };
    let (x, y) = (reals(a, row.scales[0])?, reals(b, row.scales[1])?);
    let error = Error::of(&x, &y);
    line.drifts = limits.are_exceeded_by(&error);
    line.set(&error);
    Some(line)
}

/// Bytes of a tensor.
fn bytes_of(graph: &Graph, id: TensorId) -> usize {
    graph.tensor(id).memory_bytes().unwrap_or(0)
}

fn tensor_name(graph: &Graph, id: TensorId) -> String {
    graph.tensor(id).name.clone()
}

fn names_of(graph: &Graph, layers: &[Layer]) -> Vec<String> {
    layers.iter().map(|layer| name_of(graph, layer)).collect()
}

/// Whether a model as it is computes a layer by itself.
fn is_apart(side: &ModelSide<'_>, apart: &BTreeSet<&str>, layer: &Layer) -> bool {
    let graph = side.model.graph();
    let name = &*graph.tensor(layer.tensor).name;
    // what is dequantised for its reader only is the integers that the model computes
    layer.value != layer.tensor || graph.is_output(layer.tensor) || apart.contains(name)
}

/// Rows of two models.
pub(super) fn of_models(a: &ModelSide<'_>, b: &ModelSide<'_>) -> (Vec<Row>, Vec<String>, Vec<String>) {
    let (graph_a, graph_b) = (a.model.graph(), b.model.graph());
    let Pairs {
        pairs,
        alone_a,
        alone_b,
    } = pairs(graph_a, graph_b);
    let (apart_a, apart_b) = (a.apart(), b.apart());
    let rows = pairs.iter().map(|pair| {
        let (name_a, name_b) = (
            tensor_name(graph_a, pair.a.value),
            tensor_name(graph_b, pair.b.value),
        );
        let both = is_apart(a, &apart_a, &pair.a) && is_apart(b, &apart_b, &pair.b);
        let mut line = LayerLine::new(graph_a, &pair.a);
        line.tensor_b = Some(name_b.clone()).filter(|name| *name != line.tensor);
        line.matched = pair.matched;
        line.is_fused = !both;
        Row {
            line,
            tensor: Some(pair.a.tensor),
            bytes: bytes_of(graph_a, pair.a.value).max(bytes_of(graph_b, pair.b.value)),
            a: name_a,
            b: name_b,
            scales: [pair.a.scale, pair.b.scale],
            is_apart: both,
        }
    });
    (
        rows.collect(),
        names_of(graph_a, &alone_a),
        names_of(graph_b, &alone_b),
    )
}

/// Rows of a model, first, and of files named after its tensors.
pub(super) fn of_model_and_files(
    side: &ModelSide<'_>,
    files: &FileSide,
) -> (Vec<Row>, Vec<String>, Vec<String>) {
    let graph = side.model.graph();
    let apart = side.apart();
    let (mut rows, mut alone) = (Vec::new(), Vec::new());
    let mut used: BTreeSet<String> = BTreeSet::new();
    let outputs = graph.outputs.len();
    for layer in layers(graph) {
        let own = &*graph.tensor(layer.tensor).name;
        let value = &*graph.tensor(layer.value).name;
        // one file is the one output, whatever it is called
        let only = || {
            let is_output = files.is_one && outputs == 1 && graph.is_output(layer.tensor);
            is_output.then(|| files.names().next().cloned()).flatten()
        };
        let named = [own, sought(graph, &layer), value];
        let found = named.iter().find_map(|name| files.stem_of(name)).or_else(only);
        let Some(stem) = found else {
            alone.push(name_of(graph, &layer));
            continue;
        };
        used.insert(stem.clone());
        let is_apart = is_apart(side, &apart, &layer);
        let mut line = LayerLine::new(graph, &layer);
        line.is_fused = !is_apart;
        // integers under their own name are in the file, too
        let scale = layer.scale.filter(|_| files.stem_of(own).as_ref() != Some(&stem));
        rows.push(Row {
            line,
            tensor: Some(layer.tensor),
            a: value.to_owned(),
            b: stem,
            scales: [scale, None],
            bytes: bytes_of(graph, layer.value),
            is_apart,
        });
    }
    let inputs = graph.inputs.iter().map(|id| &graph.tensor(*id).name);
    used.extend(inputs.filter_map(|name| files.stem_of(name)));
    let others = files.names().filter(|name| !used.contains(*name)).cloned();
    (rows, alone, others.collect())
}

/// Rows of files of one name, in order of the alphabet; two single files are a pair.
pub(super) fn of_files(a: &FileSide, b: &FileSide) -> (Vec<Row>, Vec<String>, Vec<String>) {
    let row = |a: &String, b: &String| Row {
        line: LayerLine::of_file(a, b),
        tensor: None,
        a: a.clone(),
        b: b.clone(),
        scales: [None, None],
        bytes: 0,
        is_apart: true,
    };
    if a.is_one && b.is_one {
        let pair = a.names().zip(b.names());
        return (pair.map(|(a, b)| row(a, b)).collect(), Vec::new(), Vec::new());
    }
    let (names_a, names_b): (BTreeSet<&String>, BTreeSet<&String>) =
        (a.names().collect(), b.names().collect());
    let alone = |one: &BTreeSet<&String>, other: &BTreeSet<&String>| {
        one.difference(other).map(|name| (*name).clone()).collect()
    };
    let rows = names_a.intersection(&names_b).map(|name| row(name, name));
    (
        rows.collect(),
        alone(&names_a, &names_b),
        alone(&names_b, &names_a),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_tensors_respect_the_limit_and_fused_ones_are_separate() {
        let row = |bytes, is_apart| Row {
            line: LayerLine::of_file("x", "x"),
            tensor: None,
            a: "x".into(),
            b: "x".into(),
            scales: [None, None],
            bytes,
            is_apart,
        };
        let large = MOST_BYTES / 2;
        let rows = [
            row(large, true),
            row(1, false),
            row(large, true),
            row(2 * MOST_BYTES, true),
            row(1, true),
            row(1, false),
        ];
        assert_eq!(groups(&rows), [vec![0, 2], vec![3], vec![4], vec![1, 5]]);
        let many: Vec<Row> = (0..=MOST_TENSORS).map(|_| row(1, true)).collect();
        let sizes: Vec<usize> = groups(&many).iter().map(Vec::len).collect();
        assert_eq!(sizes, [MOST_TENSORS, 1]);
    }
}
