//! Shape functions, class by class, as text: `f32[n, 3] = {..}` in, the same out.
//!
//! Invariant: an output that is a bound begins with `<=`, an unknown size is `?`.
//! Not here: windows and broadcasting by themselves (beside their modules).

use super::*;
use crate::{Attr, Dim, Element, Literal, TensorType, Value};

mod classes;
mod errors;
mod robust;
mod values;

/// A type and the known values after `=`, as `i64[2] = {n, -1}`.
fn parse(text: &str) -> (TensorType, Option<Value>) {
    let (ty, value) = match text.split_once('=') {
        Some((ty, value)) => (ty.trim(), Some(value.trim())),
        None => (text.trim(), None),
    };
    let (dtype, dims) = ty.strip_suffix(']').unwrap().split_once('[').unwrap();
    let dtype = DType::from_name(dtype).unwrap();
    let list = |text: &str| -> Vec<String> {
        text.split(',')
            .map(|item| item.trim().to_owned())
            .filter(|item| !item.is_empty())
            .collect()
    };
    let dim = |text: String| match text.parse() {
        Ok(size) => Dim::Known(size),
        Err(_) if text == "?" => Dim::Unknown,
        Err(_) => Dim::symbol(&text),
    };
    let shape = (dims != "..").then(|| list(dims).into_iter().map(dim).collect::<Vec<_>>());
    let ty = TensorType { dtype, shape };
    let value = value.map(|value| {
        let items = list(value.trim_matches(['{', '}']));
        let sizes = ty.sizes().unwrap();
        if dtype.is_float() {
            let floats: Vec<f32> = items.iter().map(|item| item.parse().unwrap()).collect();
            return Value::Literal(Literal {
                shape: sizes,
                ..Literal::f32s(&floats)
            });
        }
        let element = |item: &String| match item.parse() {
            Ok(number) => Element::Int(number),
            Err(_) if item == "?" => Element::Unknown,
            Err(_) => Element::Symbol(item.as_str().into()),
        };
        let elements: Vec<Element> = items.iter().map(element).collect();
        match elements.iter().map(Element::int).collect::<Option<Vec<i64>>>() {
            Some(ints) => Value::Literal(Literal::from_ints(dtype, sizes, &ints).unwrap()),
            None => Value::Dims(elements, dtype),
        }
    });
    (ty, value)
}

fn show(inferred: &Inferred) -> String {
    let bound = if inferred.upper_bound { "<= " } else { "" };
    let value = match inferred.value.as_ref().and_then(Value::elements) {
        None => String::new(),
        Some(elements) => {
            let items: Vec<String> = elements
                .iter()
                .map(|element| match element {
                    Element::Int(number) => number.to_string(),
                    Element::Symbol(name) => name.to_string(),
                    Element::Unknown => "?".to_owned(),
                })
                .collect();
            format!(" = {{{}}}", items.join(", "))
        }
    };
    format!("{bound}{}{value}", inferred.ty)
}

fn run(
    op: Op,
    attributes: &Attributes,
    inputs: &[&str],
    outputs: usize,
) -> Result<Vec<Inferred>, InferError> {
    let parsed: Vec<Option<(TensorType, Option<Value>)>> = inputs
        .iter()
        .map(|text| (*text != "-").then(|| parse(text)))
        .collect();
    let inputs: Vec<Option<InferInput<'_>>> = parsed
        .iter()
        .map(|input| {
            input.as_ref().map(|(ty, value)| InferInput {
                ty,
                value: value.as_ref(),
            })
        })
        .collect();
    infer(op, attributes, &inputs, outputs)
}

/// Outputs of a node as text, joined by `; `.
#[track_caller]
fn gives(op: Op, attributes: &Attributes, inputs: &[&str], expected: &str) {
    let outputs = expected.split("; ").count();
    match run(op, attributes, inputs, outputs) {
        Ok(inferred) => {
            let text: Vec<String> = inferred.iter().map(show).collect();
            assert_eq!(text.join("; "), expected, "{op}{inputs:?}");
        }
        Err(error) => panic!("{error:?}, expected {expected}"),
    }
}

/// The error of a node with one output.
#[track_caller]
fn fails(op: Op, attributes: &Attributes, inputs: &[&str], expected: &str) {
    match run(op, attributes, inputs, 1) {
        Ok(inferred) => panic!("{op}{inputs:?} gave {inferred:?}"),
        Err(error) => assert_eq!(error.to_string(), expected),
    }
}

fn none() -> Attributes {
    Attributes::new()
}

fn axis(axis: i64) -> Attributes {
    none().with_int(Attr::Axis, axis)
}
