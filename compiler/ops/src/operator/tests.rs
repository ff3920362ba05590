//! Every row of the op table decodes, with its own defaults; values out of range are refused.
//!
//! Invariant: no op is left out; the literals of the specification are repeated here, so that an error in the table
//! fails a test.
//! Not here: what the attributes mean (the files of `attributes`).

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{Attr, AttrDefault, AttrKind, AttrValue, DType, Literal};

/// A value for an attribute that a node must carry.
fn sample(op: Op, attr: Attr, kind: AttrKind) -> Option<AttrValue> {
    Some(match (op, attr, kind) {
        (_, Attr::Direction, _) => AttrValue::String("LEFT".into()),
        (Op::TfIdfVectorizer, Attr::Mode, _) => AttrValue::String("TF".into()),
        (_, _, AttrKind::String) => AttrValue::String("ij->ji".into()),
        (_, _, AttrKind::Int) => AttrValue::Int(1),
        (_, _, AttrKind::Ints) => AttrValue::Ints(vec![1]),
        (_, _, AttrKind::Tensor) => AttrValue::Tensor(Literal::from_ints(DType::I64, vec![1], &[1])?),
        _ => return None,
    })
}

/// What a node of an op must carry, and no more.
fn least(op: Op) -> Attributes {
    let required = op.spec().attributes.iter().filter(|spec| spec.required);
    required
        .filter_map(|spec| Some((spec.attr.into(), sample(op, spec.attr, spec.kind)?)))
        .collect()
}

/// What typed attributes leave in the node: body graphs, types, and the tensors and lists that are an op's data.
fn stays_in_the_node(op: Op, attr: Attr, kind: AttrKind) -> bool {
    match op {
        Op::Constant | Op::LabelEncoder => true,
        Op::TreeEnsemble | Op::TreeEnsembleRegressor | Op::TfIdfVectorizer => {
            !matches!(kind, AttrKind::Int | AttrKind::String)
        }
        Op::ConstantOfShape => attr != Attr::Value,
        _ => matches!(kind, AttrKind::Graph | AttrKind::Type | AttrKind::Tensor),
    }
}

#[test]
fn every_op_decodes_with_the_defaults_of_the_table() {
    for &op in Op::ALL {
        let bare = least(op);
        let operator = Operator::decode(op, &bare).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(operator.op(), op);
        let mut stated = bare.clone();
        for spec in op.spec().attributes {
            let value = match spec.default {
                Some(AttrDefault::Int(value)) => AttrValue::Int(value),
                Some(AttrDefault::Float(value)) => AttrValue::Float(value),
                Some(AttrDefault::String(value)) => AttrValue::String(value.into()),
                Some(AttrDefault::Ints(value)) => AttrValue::Ints(value.to_vec()),
                Some(AttrDefault::Strings(value)) => {
                    AttrValue::Strings(value.iter().map(|&text| text.into()).collect())
                }
                None => continue,
            };
            stated.set(spec.attr, value);
        }
        assert_eq!(Operator::decode(op, &stated).unwrap(), operator, "{op}");
    }
    assert_eq!(
        Operator::decode(Op::Custom, &least(Op::Gemm)),
        Ok(Operator::Custom)
    );
}

#[test]
fn every_attribute_of_a_row_is_decoded() {
    for &op in Op::ALL {
        let attributes = least(op);
        let reader = Reader::new(op, &attributes).unwrap();
        Operator::read(&reader).unwrap();
        let reads = reader.reads.borrow();
        let row = op.spec().attributes.iter();
        let wanted = row.filter(|spec| !stays_in_the_node(op, spec.attr, spec.kind));
        let missed: BTreeSet<Attr> = wanted
            .map(|spec| spec.attr)
            .filter(|attr| !reads.contains(attr))
            .collect();
        assert_eq!(missed, BTreeSet::new(), "{op}");
    }
}

/// A default as `onnx_defaults.txt` writes it.
fn written(default: AttrDefault) -> String {
    match default {
        AttrDefault::Int(value) => format!("int {value}"),
        AttrDefault::Float(value) => format!("float {value}"),
        AttrDefault::String(value) => format!("string {value}").trim_end().to_owned(),
        AttrDefault::Ints(values) => {
            let values: Vec<String> = values.iter().map(i64::to_string).collect();
            format!("ints {}", values.join(" "))
        }
        AttrDefault::Strings(values) => format!("strings {}", values.join(" ")),
    }
}

/// The table against the schemas of the package `onnx`, both ways.
#[test]
fn table_states_the_defaults_of_the_onnx_package() {
    let mut stated = BTreeMap::new();
    let lines = include_str!("onnx_defaults.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap();
        let (op, attr, value) = (word(), word(), word());
        // floats as the table holds them
        let value = match value.strip_prefix("float ") {
            Some(number) => format!("float {}", number.parse::<f32>().unwrap()),
            None => value.to_owned(),
        };
        stated.insert((op, attr), value);
    }
    assert!(stated.len() > 200);
    // the importer states its defaults
    stated.retain(|(op, _), _| *op != "LabelEncoder");
    let mut wrong = Vec::new();
    for &op in Op::ALL {
        for spec in op.spec().attributes {
            let onnx = stated.remove(&(op.name(), spec.attr.name()));
            let ours = spec.default.map(written);
            if onnx != ours {
                wrong.push(format!("{op} {}: {ours:?}, ONNX says {onnx:?}", spec.attr));
            }
        }
    }
    assert_eq!((wrong, stated), (Vec::new(), BTreeMap::new()));
}

/// The literals of the specification, so that a slip in the table shows.
#[test]
fn defaults_are_those_of_the_specification() {
    let none = Attributes::new();
    fn typed<T: OperatorAttributes>(op: Op, attributes: &Attributes) -> T {
        Operator::attributes(op, attributes).unwrap()
    }
    let alphas = [
        (Op::Celu, 1.0),
        (Op::Elu, 1.0),
        (Op::LeakyRelu, 0.01),
        (Op::SwiGLU, 1.0),
        (Op::Swish, 1.0),
        (Op::ThresholdedRelu, 1.0),
    ];
    for (op, alpha) in alphas {
        assert_eq!(typed::<Alpha>(op, &none).alpha, alpha, "{op}");
    }
    let selu: Selu = typed(Op::Selu, &none);
    assert_eq!((selu.alpha, selu.gamma), (1.673_263_2, 1.050_701));
    let sigmoid: HardSigmoid = typed(Op::HardSigmoid, &none);
    assert_eq!((sigmoid.alpha, sigmoid.beta), (0.2, 0.5));
    let conv: Conv = typed(Op::Conv, &none);
    assert_eq!((conv.groups.get(), conv.window.auto_pad), (1, AutoPad::NotSet));
    let resize: Resize = typed(Op::Resize, &none);
    assert_eq!(
        resize,
        Resize {
            interpolation: Interpolation::Nearest,
            coordinates: Coordinates::HalfPixel,
            rounding: Rounding::RoundPreferFloor,
            antialias: false,
            axes: None,
            cubic: -0.75,
            exclude_outside: false,
            extrapolation: 0.0,
            aspect: AspectRatio::Ignored,
        }
    );
    let lrn: Lrn = typed(Op::LRN, &least(Op::LRN));
    assert_eq!((lrn.alpha, lrn.beta, lrn.bias), (1e-4, 0.75, 1.0));
    let batch: BatchNorm = typed(Op::BatchNormalization, &none);
    assert_eq!(
        (batch.epsilon, batch.momentum, batch.training),
        (1e-5, 0.9, false)
    );
    let axes = [
        (Op::Flatten, 1),
        (Op::Gather, 0),
        (Op::GatherElements, 0),
        (Op::Hardmax, -1),
        (Op::LogSoftmax, -1),
        (Op::OneHot, -1),
        (Op::Softmax, -1),
    ];
    for (op, axis) in axes {
        assert_eq!(typed::<Along>(op, &none).axis, axis, "{op}");
    }
    let reduce: Reduce = typed(Op::ReduceSum, &none);
    assert!(reduce.keepdims && !reduce.noop_with_empty_axes);
    let top: TopK = typed(Op::TopK, &none);
    assert!(top.axis == -1 && top.largest && top.sorted);
    let attention: Attention = typed(Op::Attention, &none);
    assert_eq!((attention.left_window, attention.scale), (-1, None));
    let mean: MeanVariance = typed(Op::MeanVarianceNormalization, &none);
    assert_eq!(mean.axes, [0, 2, 3]);
    let cast: CastLike = typed(Op::CastLike, &none);
    assert!(cast.saturate && cast.rounding == CastRounding::Up);
}

#[test]
fn what_a_type_does_not_hold_is_an_error() {
    let error = |op, attributes: Attributes| Operator::decode(op, &attributes).unwrap_err().to_string();
    let none = Attributes::new;
    assert_eq!(
        error(Op::Conv, none().with_int(Attr::Group, 0)),
        "Conv: group is 0, less than 1"
    );
    assert_eq!(
        error(Op::Gelu, none().with_str(Attr::Approximate, "erf")),
        "Gelu: approximate is 'erf', not one of none, tanh"
    );
    assert_eq!(
        error(Op::Attention, none().with_int(Attr::QkMatmulOutputMode, 4)),
        "Attention: qk_matmul_output_mode is 4, not 0 to 3"
    );
    assert_eq!(
        error(Op::Cast, none().with_int(Attr::To, 99)),
        "Cast: to is 99, which is no element type"
    );
    assert_eq!(error(Op::Cast, none()), "Cast: attribute 'to' is missing");
    assert_eq!(
        error(Op::Softmax, none().with_float(Attr::Axis, 1.0)),
        "Softmax: attribute 'axis' is not an int"
    );
    assert_eq!(
        error(Op::Relu, none().with_float(Attr::Alpha, 1.0)),
        "Relu: has no attribute 'alpha'"
    );
    let other = Operator::attributes::<Gemm>(Op::Softmax, &none()).unwrap_err();
    assert_eq!(other.to_string(), "Softmax: has other attributes");
}

#[test]
fn words_come_back_as_onnx_spells_them() {
    let attributes = Attributes::new().with_str(Attr::Mode, "bilinear");
    let sample: GridSample = Operator::attributes(Op::GridSample, &attributes).unwrap();
    assert_eq!(sample.interpolation.text(), "linear");
    let valid = Attributes::new().with_str(Attr::AutoPad, "VALID");
    let conv: Conv = Operator::attributes(Op::Conv, &valid).unwrap();
    assert_eq!(conv.window.over(&[3]).unwrap().resolve(&[5]).unwrap().output, [3]);
    let pool = Attributes::new().with_ints(Attr::KernelShape, &[2, 2]);
    let pool: MaxPool = Operator::attributes(Op::MaxPool, &pool).unwrap();
    assert_eq!(pool.window.stated().unwrap().kernel, [2, 2]);
}
