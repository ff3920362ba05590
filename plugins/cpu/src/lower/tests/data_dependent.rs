//! Ops with data-dependent result sizes, and losses.

use super::*;

impl Net {
    /// Adds a node whose results have no known extents.
    fn found(
        &mut self,
        op: Op,
        attributes: Attributes,
        inputs: &[Option<usize>],
        dtypes: &[DType],
    ) -> Vec<usize> {
        let results: Vec<usize> = dtypes.iter().map(|&dtype| self.tensor(dtype, None)).collect();
        let mut node = Node::new(op, &[], &results);
        node.attributes = attributes;
        node.inputs = inputs.to_vec();
        self.part.nodes.push(node);
        results
    }
}

#[test]
fn non_zero_coordinates() {
    for (dtype, shape) in [
        (DType::I64, &[3usize, 20][..]),
        (DType::U8, &[70]),
        (DType::F32, &[2, 3, 4]),
        (DType::Bool, &[5, 2, 9]),
    ] {
        let mut net = Net::default();
        let x = net.input(dtype, shape);
        let y = net.found(Op::NonZero, Attributes::new(), &[Some(x)], &[DType::I64]);
        net.output(y[0]);
        assert_eq!(net.check(0.0), ["NonZero"], "{dtype:?}");
    }
}

#[test]
fn unique_elements_in_both_orders() {
    for dtype in [DType::I64, DType::U8, DType::F32, DType::I32] {
        for sorted in [0, 1] {
            let mut net = Net::default();
            let whole = net.boxed(DType::I64, &[4, 30]);
            let values: Vec<f64> = whole
                .to_f64s()
                .unwrap()
                .iter()
                .map(|v| (v / 5.0).abs().round())
                .collect();
            let element = polychip_reference::element(dtype);
            let x = net.feed(if dtype.is_float() {
                Boxed::from_f64s(element, vec![4, 30], &values).unwrap()
            } else {
                let values: Vec<i128> = values.iter().map(|&v| v as i128).collect();
                Boxed::from_i128s(element, vec![4, 30], &values).unwrap()
            });
            let attributes = Attributes::new().with_int(Attr::Sorted, sorted);
            let dtypes = [dtype, DType::I64, DType::I64, DType::I64];
            for y in net.found(Op::Unique, attributes, &[Some(x)], &dtypes) {
                net.output(y);
            }
            assert_eq!(net.check(0.0), ["Unique"], "{dtype:?} {sorted}");
        }
    }
}

#[test]
fn non_max_suppression_of_boxes() {
    let mut net = Net::default();
    let (boxes, scores) = (
        net.input(DType::F32, &[2, 40, 4]),
        net.input(DType::F32, &[2, 3, 40]),
    );
    let (most, overlap, least) = (net.ints(&[7]), net.scalar(0.4), net.scalar(-0.5));
    let inputs = [boxes, scores, most, overlap, least].map(Some);
    for given in [2, 4, 5] {
        let y = net.found(
            Op::NonMaxSuppression,
            Attributes::new(),
            &inputs[..given],
            &[DType::I64],
        );
        net.output(y[0]);
    }
    let steps = net.check(0.0);
    assert!(steps.iter().all(|&name| name == "NonMaxSuppression"), "{steps:?}");
}

#[test]
fn losses_of_classes() {
    for (shape, labels) in [(&[6usize, 5][..], &[6usize][..]), (&[2, 5, 3], &[2, 3])] {
        for reduction in ["none", "sum", "mean"] {
            for op in [Op::SoftmaxCrossEntropyLoss, Op::NegativeLogLikelihoodLoss] {
                for weighted in [false, true] {
                    let mut net = Net::default();
                    let x = net.input(DType::F32, shape);
                    let classes: Vec<i64> = (0..6).map(|i| i * 7 % 5).collect();
                    let right = net.feed(Boxed::from_i64s(labels.to_vec(), classes).unwrap());
                    let weights = weighted.then(|| net.weights(&[5]));
                    let attributes = Attributes::new()
                        .with_str(Attr::Reduction, reduction)
                        .with_int(Attr::IgnoreIndex, 2);
                    let results = 1 + usize::from(op == Op::SoftmaxCrossEntropyLoss && weighted);
                    for y in net.nodes(op, attributes, &[Some(x), Some(right), weights], results) {
                        net.output(y);
                    }
                    let steps = net.check(1e-5);
                    assert!(steps.contains(&"loss"), "{steps:?}");
                }
            }
        }
    }
}
