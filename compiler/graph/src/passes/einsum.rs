//! Einsum in steps that devices have kernels for: sums of one operand are a ReduceSum, orders of axes a Transpose, and of several operands two
//! are multiplied at a time.
//!
//! As it stands, an equation of several operands is one loop over all labels: `ij,jk,kl->il` takes the product of four sizes, and in
//! two steps twice that of three. Which two come first is chosen by the size of what they give, each time anew (as `opt_einsum`'s
//! greedy paths, Smith and Gray, JOSS 3(26), 2018, without their look ahead).
//!
//! Invariants:
//! 1. What is left is an Einsum of two operands whose labels are all in the other one or in the result, without an ellipsis.
//! 2. A label has one size: what is repeated along an axis of length one, and diagonals, stay as they are.
//!
//! Not here: products as matrices, which are the devices'.

use std::collections::{BTreeMap, BTreeSet};

use polychip_ops::{Attr, AttrValue, Attributes, DType, Dim, Literal, Op, TensorType};

use crate::{Constant, Error, Graph, Node, NodeId, Tensor, TensorId};

/// Runs the pass; returns the number of equations that were taken apart.
pub(super) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut changes = 0;
    for id in graph.node_ids() {
        let found = graph.find_node(id).and_then(|node| Equation::of(graph, node));
        if let Some(equation) = found.filter(Equation::is_worth_it) {
            equation.commit(graph, id);
            changes += 1;
        }
    }
    Ok(changes)
}

/// An operand, or what was made of some.
struct Operand {
    tensor: TensorId,
    labels: Vec<char>,
    dims: Vec<Dim>,
}

impl Operand {
    fn has(&self, label: char) -> bool {
        self.labels.contains(&label)
    }
}

struct Equation {
    operands: Vec<Operand>,
    result: Vec<char>,
    y: TensorId,
    dtype: DType,
    had_ellipsis: bool,
}

impl Equation {
    fn of(graph: &Graph, node: &Node) -> Option<Equation> {
        let y = node.output(0).filter(|_| node.op == Op::Einsum)?;
        let tensors: Vec<TensorId> = node.inputs.iter().copied().collect::<Option<_>>()?;
        let dtype = graph.tensor(y).ty.dtype;
        let sums = [DType::F16, DType::F32, DType::F64, DType::I32, DType::I64].contains(&dtype);
        let plain = |&tensor: &TensorId| {
            let tensor = graph.tensor(tensor);
            tensor.encoding.is_none() && tensor.ty.dtype == dtype
        };
        if !sums || !tensors.iter().chain([&y]).all(plain) {
            return None;
        }
        let shapes: Vec<Vec<Dim>> = tensors
            .iter()
            .map(|&tensor| graph.tensor(tensor).ty.shape.clone())
            .collect::<Option<_>>()?;
        let ranks: Vec<usize> = shapes.iter().map(Vec::len).collect();
        let (labels, result) = labels(node.attributes.str(Attr::Equation)?, &ranks)?;
        let operands = tensors.into_iter().zip(labels).zip(shapes);
        let equation = Equation {
            operands: operands
                .map(|((tensor, labels), dims)| Operand { tensor, labels, dims })
                .collect(),
            result,
            y,
            dtype,
            had_ellipsis: node.attributes.str(Attr::Equation)?.contains('.'),
        };
        equation.is_sound().then_some(equation)
    }

    /// Whether each label has one size, and those of the result are of some operand.
    fn is_sound(&self) -> bool {
        let mut all = self.operands.iter();
        let mut sizes = BTreeMap::new();
        let fits = all.all(|operand| {
            operand.labels.iter().zip(&operand.dims).all(|(label, dim)| {
                let known = sizes.entry(*label).or_insert(dim);
                // two sizes of which nothing is known are not the same
                *known == dim && (*dim != Dim::Unknown || self.count(*label) == 1)
            })
        });
        fits && self.result.iter().all(|label| sizes.contains_key(label))
    }

    /// How many operands have a label.
    fn count(&self, label: char) -> usize {
        self.operands.iter().filter(|operand| operand.has(label)).count()
    }

    /// Labels of an operand that are nowhere else: their sum comes first.
    fn alone(&self, operand: &Operand) -> Vec<char> {
        let mut labels = operand.labels.clone();
        labels.retain(|&label| !self.result.contains(&label) && self.count(label) == 1);
        labels
    }

    fn is_worth_it(&self) -> bool {
        let sums = self
            .operands
            .iter()
            .any(|operand| !self.alone(operand).is_empty());
        self.operands.len() != 2 || sums || self.had_ellipsis
    }

    fn commit(mut self, graph: &mut Graph, id: NodeId) {
        graph.remove_node(id);
        for index in 0..self.operands.len() {
            let alone = self.alone(&self.operands[index]);
            if !alone.is_empty() {
                self.operands[index] = self.summed(graph, index, &alone);
            }
        }
        while self.operands.len() > 2 {
            let (first, second) = self.cheapest();
            let labels = self.kept(first, second);
            let made = self.made(graph, &format!("product{}", self.operands.len()), labels);
            let b = self.operands.remove(second);
            let a = self.operands.remove(first);
            product(graph, [&a, &b], &made.labels, made.tensor);
            self.operands.push(made);
        }
        match &self.operands[..] {
            [x] => {
                let order = self
                    .result
                    .iter()
                    .map(|label| x.labels.iter().position(|own| own == label));
                let order: Vec<i64> = order.flatten().map(|axis| axis as i64).collect();
                let node = Node::new(Op::Transpose, vec![Some(x.tensor)], vec![Some(self.y)]);
                graph.add_node(node.with(Attributes::new().with(Attr::Perm, AttrValue::Ints(order))));
            }
            [a, b] => product(graph, [a, b], &self.result, self.y),
            _ => unreachable!("invariant: an equation has operands, and two are left at most"),
        }
    }

    /// An operand without some of its labels.
    fn summed(&self, graph: &mut Graph, index: usize, alone: &[char]) -> Operand {
        let x = &self.operands[index];
        let labels = x.labels.iter().copied().filter(|label| !alone.contains(label));
        let made = self.made(graph, &format!("sum{index}"), labels.collect());
        let axes = x
            .labels
            .iter()
            .enumerate()
            .filter(|(_, label)| alone.contains(label));
        let axes = Literal::i64s(&axes.map(|(axis, _)| axis as i64).collect::<Vec<_>>());
        let name = format!("{}.axes", graph.tensor(made.tensor).name);
        let axes = Tensor::constant(name, axes.ty(), Constant::from_literal(&axes));
        let axes = graph.add_tensor(axes);
        let node = Node::new(
            Op::ReduceSum,
            vec![Some(x.tensor), Some(axes)],
            vec![Some(made.tensor)],
        );
        graph.add_node(node.with(Attributes::new().with_int(Attr::Keepdims, 0)));
        made
    }

    /// A tensor of the labels, whose sizes some operand knows.
    fn made(&self, graph: &mut Graph, role: &str, labels: Vec<char>) -> Operand {
        let dims: Vec<Dim> = labels.iter().map(|&label| self.size(label)).collect();
        let name = format!("{}.{role}", graph.tensor(self.y).name);
        let shape = Some(dims.clone());
        let dtype = self.dtype;
        let tensor = graph.add_tensor(Tensor::new(name, TensorType { dtype, shape }));
        Operand { tensor, labels, dims }
    }

    fn size(&self, label: char) -> Dim {
        let of = |operand: &Operand| {
            let at = operand.labels.iter().position(|&own| own == label)?;
            Some(operand.dims[at].clone())
        };
        self.operands.iter().find_map(of).unwrap_or(Dim::Unknown)
    }

    /// Labels of the product of two operands: those that others or the result have.
    fn kept(&self, first: usize, second: usize) -> Vec<char> {
        let needed = |label: char| {
            let others = self.operands.iter().enumerate();
            let mut others = others.filter(|(index, _)| *index != first && *index != second);
            self.result.contains(&label) || others.any(|(_, other)| other.has(label))
        };
        let (a, b) = (&self.operands[first], &self.operands[second]);
        let labels = a
            .labels
            .iter()
            .chain(b.labels.iter().filter(|label| !a.has(**label)));
        labels.copied().filter(|&label| needed(label)).collect()
    }

    /// The two operands whose product is the smallest; where sizes are open, has the fewest axes.
    fn cheapest(&self) -> (usize, usize) {
        let count = self.operands.len();
        let pairs = (0..count).flat_map(|first| (first + 1..count).map(move |second| (first, second)));
        let weight = |&(first, second): &(usize, usize)| {
            let kept = self.kept(first, second);
            let size = kept.iter().try_fold(1u128, |all, &label| match self.size(label) {
                Dim::Known(size) => Some(all.saturating_mul(size as u128)),
                _ => None,
            });
            (size.unwrap_or(u128::MAX), kept.len())
        };
        pairs.min_by_key(weight).unwrap_or((0, 1))
    }
}

/// An Einsum of two operands.
fn product(graph: &mut Graph, [a, b]: [&Operand; 2], result: &[char], y: TensorId) {
    let word = |labels: &[char]| labels.iter().collect::<String>();
    let equation = format!("{},{}->{}", word(&a.labels), word(&b.labels), word(result));
    let node = Node::new(Op::Einsum, vec![Some(a.tensor), Some(b.tensor)], vec![Some(y)]);
    graph.add_node(node.with(Attributes::new().with(Attr::Equation, AttrValue::String(equation.into()))));
}

/// Labels of operands of these ranks, and of the result, an ellipsis written out; `None` for what is no equation, or has a label
/// twice in one place.
fn labels(equation: &str, ranks: &[usize]) -> Option<(Vec<Vec<char>>, Vec<char>)> {
    const ELLIPSIS: &str = "...";
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let words: Vec<&str> = left.split(',').collect();
    if words.len() != ranks.len() {
        return None;
    }
    let used: BTreeSet<char> = equation.chars().collect();
    let spare: Vec<char> = ('a'..='z')
        .chain('A'..='Z')
        .filter(|c| !used.contains(c))
        .collect();
    let plain = |word: &str| word.replace(ELLIPSIS, "").chars().count();
    let mut longest = 0;
    for (word, rank) in words.iter().zip(ranks) {
        let rest = rank.checked_sub(plain(word))?;
        let dotted = word.contains(ELLIPSIS);
        if !dotted && rest > 0 || rest > spare.len() {
            return None;
        }
        longest = longest.max(rest);
    }
    // axes of ellipses are the same from the last one on
    let written = |word: &str, rest: usize| -> Option<Vec<char>> {
        let dots: String = spare[longest - rest..longest].iter().collect();
        let labels: Vec<char> = word.replacen(ELLIPSIS, &dots, 1).chars().collect();
        let distinct: BTreeSet<&char> = labels.iter().collect();
        let sound = labels.iter().all(char::is_ascii_alphabetic) && distinct.len() == labels.len();
        sound.then_some(labels)
    };
    let operands = words
        .iter()
        .zip(ranks)
        .map(|(word, rank)| written(word, rank - plain(word)));
    let operands: Vec<Vec<char>> = operands.collect::<Option<_>>()?;
    let result = match right {
        Some(right) => written(right, if right.contains(ELLIPSIS) { longest } else { 0 })?,
        None => {
            // the ellipsis, then labels that are there once, in alphabetical order
            let letters = words.concat().replace(ELLIPSIS, "");
            let once = used.iter().filter(|&&c| letters.matches(c).count() == 1);
            spare[..longest].iter().chain(once).copied().collect()
        }
    };
    Some((operands, result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_are_written_out() {
        let written = |equation: &str, ranks: &[usize]| {
            let (operands, result) = labels(equation, ranks)?;
            let words: Vec<String> = operands
                .iter()
                .chain([&result])
                .map(|word| word.iter().collect())
                .collect();
            Some(words.join(" "))
        };
        assert_eq!(written("ij,jk->ik", &[2, 2]).unwrap(), "ij jk ik");
        assert_eq!(written(" b i , j i", &[2, 2]).unwrap(), "bi ji bj");
        assert_eq!(written("...ij,...jk->...ik", &[4, 3]).unwrap(), "abij bjk abik");
        assert_eq!(written("a...", &[3]).unwrap(), "abc bca");
        assert_eq!(written("i...->i", &[1]).unwrap(), "i i");
        // a diagonal, ranks and words that do not fit, no letter
        for (equation, ranks) in [
            ("ii->i", &[2][..]),
            ("ij->i", &[3]),
            ("ij,jk", &[2]),
            ("i..->i", &[2]),
            ("i1->i", &[2]),
        ] {
            assert_eq!(written(equation, ranks), None, "{equation}");
        }
    }
}
