//! Activations and conversions of type.
//!
//! Invariant: an activation and its `ElementWiseNeuron` operation have the same recipe.

use polychip_ops::{Attr, AttrValue, DType, Op};

use crate::real;
use crate::recipe::{Recipe, Value, with};
use crate::view::{Refusal, View};

const X: Value = Value::Input(0);

/// `operation` of `ElementWiseNeuron`, in order.
const NEURON: [&str; 9] = [
    "Elu",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Relu",
    "ReluMinMax",
    "Sigmoid",
    "Softplus",
    "Tanh",
];

pub(super) fn lower(view: &View<'_>) -> Option<Result<Recipe, Refusal>> {
    let recipe = match view.op {
        "ElementWiseNeuron" => view.required("operation").and_then(|operation| {
            match usize::try_from(operation).ok().and_then(|i| NEURON.get(i)) {
                Some(name) => named(view, name).unwrap_or(Err(Refusal::Unknown)),
                None => Refusal::rule(format!("{}: operation is {operation}", view.op)),
            }
        }),
        name => return named(view, name),
    };
    Some(recipe)
}

/// The name of the activation that a node computes.
pub(crate) fn operation<'a>(view: &View<'a>) -> &'a str {
    match view.op {
        "ElementWiseNeuron" => view
            .int("operation", -1)
            .ok()
            .and_then(|i| NEURON.get(usize::try_from(i).ok()?).copied())
            .unwrap_or(view.op),
        name => name,
    }
}

fn named(view: &View<'_>, name: &str) -> Option<Result<Recipe, Refusal>> {
    let simple = |op| {
        let mut r = Recipe::default();
        let y = r.plain(op, &[X]);
        Ok(r.pointwise(y))
    };
    Some(match name {
        "Relu" => simple(Op::Relu),
        "Sigmoid" => simple(Op::Sigmoid),
        "Tanh" => simple(Op::Tanh),
        "Softplus" => simple(Op::Softplus),
        "HardSwish" => simple(Op::HardSwish),
        "Gelu" => simple(Op::Gelu),
        "Elu" => one_float(view, Op::Elu, &[(Attr::Alpha, "alpha", 1.0)]),
        "HardSigmoid" => one_float(
            view,
            Op::HardSigmoid,
            &[(Attr::Alpha, "alpha", 0.2), (Attr::Beta, "beta", 0.5)],
        ),
        "Relu1" => clip(view, -1.0, 1.0),
        "Relu6" => clip(view, 0.0, 6.0),
        "ReluMinMax" => view
            .float("min_value", 0.0)
            .and_then(|low| clip(view, low, view.float("max_value", f64::from(f32::MAX))?)),
        "Prelu" => {
            let mut r = Recipe::default();
            let y = r.plain(Op::PRelu, &[X, Value::Input(1)]);
            view.input(1).map(|_| r.gives(&[y]))
        }
        "IsNan" => simple(Op::IsNaN),
        "IsInf" => (|| {
            let flag = |name| Ok::<_, Refusal>(AttrValue::Int(i64::from(view.flag(name, true)?)));
            let attributes = with([
                (Attr::DetectNegative, flag("detect_negative")?),
                (Attr::DetectPositive, flag("detect_positive")?),
            ]);
            let mut r = Recipe::default();
            let y = r.step(Op::IsInf, attributes, &[X]);
            Ok(r.gives(&[y]))
        })(),
        "Quantize" | "Dequantize" | "Convert" | "Cast" => cast(view),
        _ => return None,
    })
}

fn one_float(view: &View<'_>, op: Op, attrs: &[(Attr, &str, f64)]) -> Result<Recipe, Refusal> {
    let mut attributes = polychip_ops::Attributes::new();
    for &(attr, name, default) in attrs {
        attributes = attributes.with_float(attr, view.float(name, default)? as f32);
    }
    let mut r = Recipe::default();
    let y = r.step(op, attributes, &[X]);
    Ok(r.pointwise(y))
}

fn clip(view: &View<'_>, low: f64, high: f64) -> Result<Recipe, Refusal> {
    let mut r = Recipe::default();
    let (low, high) = (r.real(view.real(), low), r.real(view.real(), high));
    let y = r.plain(Op::Clip, &[X, low, high]);
    Ok(r.pointwise(y))
}

/// Storing converts the type anyway, so only booleans and integers need a step.
fn cast(view: &View<'_>) -> Result<Recipe, Refusal> {
    let (Some(from), Some(to)) = (view.input(0)?.known_dtype(), view.output(0)?.known_dtype()) else {
        return Refusal::rule(format!("{}: an element type is not known", view.op));
    };
    let real = view.real();
    let (from, to) = (real::oracle_dtype(from, real), real::oracle_dtype(to, real));
    let mut r = Recipe::default();
    let y = if from == to || to == DType::String {
        r.plain(Op::Identity, &[X])
    } else {
        let to = AttrValue::Int(i64::from(to.code()));
        r.step(Op::Cast, with([(Attr::To, to)]), &[X])
    };
    Ok(r.gives(&[y]))
}
