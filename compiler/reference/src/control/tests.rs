//! Control flow over bodies that are plain functions.

use super::*;
use crate::evaluate;

/// A body made of a function.
struct Made<F>(F, usize);

impl<F: Fn(Vec<Tensor>) -> std::result::Result<Vec<Tensor>, EvaluateError>> Body for Made<F> {
    fn run(&self, inputs: Vec<Tensor>) -> std::result::Result<Vec<Tensor>, EvaluateError> {
        (self.0)(inputs)
    }
    fn outputs(&self) -> usize {
        self.1
    }
    fn output_type(&self, _: usize) -> Option<(Element, Vec<usize>)> {
        Some((Element::I64, vec![2]))
    }
}

fn ints(v: &[i64]) -> Tensor {
    Tensor::from_i64s(vec![v.len()], v.to_vec()).unwrap()
}

fn scalar(v: i64) -> Tensor {
    Tensor::from_i64s(vec![], vec![v]).unwrap()
}

fn truth_of(v: bool) -> Tensor {
    Tensor::from_bools(vec![], vec![v]).unwrap()
}

fn add(a: &Tensor, b: &Tensor) -> std::result::Result<Tensor, EvaluateError> {
    Ok(evaluate(Op::Add, &Attributes::new(), &[Some(a), Some(b)], 1)?.remove(0))
}

#[test]
fn if_runs_one_branch() {
    let yes = Made(|_| Ok(vec![scalar(1)]), 1);
    let no = Made(|_| Ok(vec![scalar(0)]), 1);
    for (condition, wanted) in [(true, 1), (false, 0)] {
        let out = evaluate_control(
            Op::If,
            &Attributes::new(),
            &[Some(&truth_of(condition))],
            &[],
            1,
            &[(Attr::ThenBranch, &yes), (Attr::ElseBranch, &no)],
        )
        .unwrap();
        assert_eq!(out, [scalar(wanted)]);
    }
}

#[test]
fn loop_carries_and_collects() {
    // sum += round; the sum is also collected; stops once it is over 3
    let body = Made(
        |v: Vec<Tensor>| {
            let sum = add(&v[2], &v[0])?;
            let more = sum.to_i64s().unwrap()[0] <= 3;
            Ok(vec![truth_of(more), sum.clone(), sum])
        },
        3,
    );
    let run = |most: Option<&Tensor>| {
        evaluate_control(
            Op::Loop,
            &Attributes::new(),
            &[most, None, Some(&scalar(0))],
            &[],
            2,
            &[(Attr::Body, &body)],
        )
        .unwrap()
    };
    assert_eq!(run(None), [scalar(6), ints(&[0, 1, 3, 6])]);
    assert_eq!(run(Some(&scalar(2))), [scalar(1), ints(&[0, 1])]);
    let none = run(Some(&scalar(0)));
    assert_eq!(none[0], scalar(0));
    assert_eq!(none[1].shape(), [0, 2]);
}

#[test]
fn scan_goes_both_ways() {
    let body = Made(
        |v: Vec<Tensor>| {
            let sum = add(&v[0], &v[1])?;
            Ok(vec![sum.clone(), sum])
        },
        2,
    );
    let x = Tensor::from_i64s(vec![2, 3], vec![1, 2, 3, 10, 20, 30]).unwrap();
    let attributes = Attributes::new()
        .with_int(Attr::NumScanInputs, 1)
        .with_ints(Attr::ScanInputAxes, &[1])
        .with_ints(Attr::ScanInputDirections, &[1])
        .with_ints(Attr::ScanOutputAxes, &[-1]);
    let out = evaluate_control(
        Op::Scan,
        &attributes,
        &[Some(&ints(&[0, 0])), Some(&x)],
        &[],
        2,
        &[(Attr::Body, &body)],
    )
    .unwrap();
    assert_eq!(out[0], ints(&[6, 60]));
    assert_eq!(
        out[1],
        Tensor::from_i64s(vec![2, 3], vec![3, 5, 6, 30, 50, 60]).unwrap()
    );
}

#[test]
fn a_failing_body_says_which_node() {
    let body = Made(|v: Vec<Tensor>| Ok(vec![add(&v[0], &ints(&[1, 2, 3]))?]), 1);
    let error = evaluate_control(
        Op::If,
        &Attributes::new(),
        &[Some(&truth_of(true))],
        &[],
        1,
        &[(
            Attr::ThenBranch,
            &Made(|_| Ok(vec![add(&ints(&[1, 2]), &ints(&[1, 2, 3]))?]), 1),
        )],
    )
    .unwrap_err();
    assert_eq!(error.op(), Op::Add);
    let missing = evaluate_control(
        Op::If,
        &Attributes::new(),
        &[Some(&truth_of(false))],
        &[],
        1,
        &[(Attr::Body, &body)],
    );
    assert!(missing.unwrap_err().to_string().contains("else_branch"));
}
