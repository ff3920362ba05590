//! The op table: one row per op of ONNX opset 28, by family.
//!
//! A row reads `Op since (inputs) -> (outputs) where (type variables) with (attributes);`. A port
//! is `name: T`, with `opt` where it may be left out, `many` for one or more tensors of one type,
//! `each` or `each0` for tensors of any types (at least one, or none). An attribute is
//! `Name: kind = default`, with `required` where a node must carry it.
//!
//! Invariants:
//! 1. Every op has exactly one row; the build fails otherwise.
//! 2. Rows state facts of the ONNX specification and nothing of any device.
//!
//! Not here: shapes (`infer`), the types of a row (`spec`).

use DType::*;

use crate::spec::{AttrDefault, AttrKind, AttrSpec, Forms, OpSpec, Port, PortKind, TypeVar, Types};
use crate::{Attr, DType, DTypes, Op};

macro_rules! port {
    ($name:ident opt $ty:ident) => {
        Port {
            name: stringify!($name),
            kind: PortKind::Optional,
            ty: stringify!($ty),
        }
    };
    ($name:ident many $ty:ident) => {
        Port {
            name: stringify!($name),
            kind: PortKind::Variadic { min: 1, mixed: false },
            ty: stringify!($ty),
        }
    };
    ($name:ident each $ty:ident) => {
        Port {
            name: stringify!($name),
            kind: PortKind::Variadic { min: 1, mixed: true },
            ty: stringify!($ty),
        }
    };
    ($name:ident each0 $ty:ident) => {
        Port {
            name: stringify!($name),
            kind: PortKind::Variadic { min: 0, mixed: true },
            ty: stringify!($ty),
        }
    };
    ($name:ident $ty:ident) => {
        Port {
            name: stringify!($name),
            kind: PortKind::Required,
            ty: stringify!($ty),
        }
    };
}

macro_rules! attr {
    ($attr:ident required $kind:ident) => {
        AttrSpec { attr: Attr::$attr, kind: kind!($kind), required: true, default: None }
    };
    ($attr:ident $kind:ident) => {
        AttrSpec { attr: Attr::$attr, kind: kind!($kind), required: false, default: None }
    };
    ($attr:ident $kind:ident = $default:expr) => {
        AttrSpec {
            attr: Attr::$attr,
            kind: kind!($kind),
            required: false,
            default: Some(default!($kind $default)),
        }
    };
}

macro_rules! kind {
    (int) => {
        AttrKind::Int
    };
    (float) => {
        AttrKind::Float
    };
    (string) => {
        AttrKind::String
    };
    (ints) => {
        AttrKind::Ints
    };
    (floats) => {
        AttrKind::Floats
    };
    (strings) => {
        AttrKind::Strings
    };
    (tensor) => {
        AttrKind::Tensor
    };
    (sparse_tensor) => {
        AttrKind::SparseTensor
    };
    (graph) => {
        AttrKind::Graph
    };
    (type_proto) => {
        AttrKind::Type
    };
}

macro_rules! default {
    (int $value:expr) => {
        AttrDefault::Int($value)
    };
    (float $value:expr) => {
        AttrDefault::Float($value)
    };
    (string $value:expr) => {
        AttrDefault::String($value)
    };
    (ints $value:expr) => {
        AttrDefault::Ints($value)
    };
    (strings $value:expr) => {
        AttrDefault::Strings($value)
    };
}

macro_rules! rows {
    ($(
        $op:ident $since:literal
        ($($input:ident : $($input_word:ident)+),* $(,)?)
        -> ($($output:ident : $($output_word:ident)+),* $(,)?)
        $(where ($($var:ident : $types:expr),* $(,)?))?
        $(with ($($attr:ident : $($attr_word:ident)+ $(= $default:expr)?),* $(,)?))?
        ;
    )*) => {
        pub(super) const ROWS: &[OpSpec] = &[$(OpSpec {
            op: Op::$op,
            since: $since,
            inputs: &[$(port!($input $($input_word)+)),*],
            outputs: &[$(port!($output $($output_word)+)),*],
            types: &[$($(TypeVar { name: stringify!($var), allowed: $types }),*)?],
            attributes: &[$($(attr!($attr $($attr_word)+ $(= $default)?)),*)?],
        }),*];
    };
}

mod attention;
mod cast;
mod control_flow;
mod convolution;
mod elementwise;
mod gather_scatter;
mod generate;
mod image;
mod loss;
mod matrix;
mod normalisation;
mod pooling;
mod quantise;
mod recurrent;
mod reduction;
mod sequence;
mod shape;
mod signal;
mod text;

/// What ops with one sort of shape function have in common: the file of their rows, and of their shapes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    Attention,
    Cast,
    ControlFlow,
    Convolution,
    Elementwise,
    GatherScatter,
    Generate,
    Image,
    Loss,
    Matrix,
    Normalisation,
    Pooling,
    Quantise,
    Recurrent,
    Reduction,
    Sequence,
    Shape,
    Signal,
    Text,
}

const FAMILIES: &[(Family, &[OpSpec])] = &[
    (Family::Attention, attention::ROWS),
    (Family::Cast, cast::ROWS),
    (Family::ControlFlow, control_flow::ROWS),
    (Family::Convolution, convolution::ROWS),
    (Family::Elementwise, elementwise::ROWS),
    (Family::GatherScatter, gather_scatter::ROWS),
    (Family::Generate, generate::ROWS),
    (Family::Image, image::ROWS),
    (Family::Loss, loss::ROWS),
    (Family::Matrix, matrix::ROWS),
    (Family::Normalisation, normalisation::ROWS),
    (Family::Pooling, pooling::ROWS),
    (Family::Quantise, quantise::ROWS),
    (Family::Recurrent, recurrent::ROWS),
    (Family::Reduction, reduction::ROWS),
    (Family::Sequence, sequence::ROWS),
    (Family::Shape, shape::ROWS),
    (Family::Signal, signal::ROWS),
    (Family::Text, text::ROWS),
];

// Sets of element types that many rows share.
const BOOL: DTypes = set(&[Bool]);
const BYTES: DTypes = set(&[I8, U8]);
const F32S: DTypes = set(&[F32]);
const I64S: DTypes = set(&[I64]);
const TEXT: DTypes = set(&[String]);
const INDEX: DTypes = set(&[I32, I64]);
const F8: DTypes = set(&[F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ]);
const SHORT_FLOATS: DTypes = set(&[F32, F16, BF16]);
const FLOATS: DTypes = set(&[F32, F16, F64, BF16]);
const FLOATS_AND_F8: DTypes = FLOATS.with(F8);
const FLOATS_OR_WORDS: DTypes = FLOATS.with(set(&[I32, I64, U32, U64]));
const INTS: DTypes = set(&[I8, I16, I32, I64, U8, U16, U32, U64]);
const NUMERIC: DTypes = FLOATS.with(INTS);
const PLAIN: DTypes = NUMERIC.with(BOOL);
const QUANTISED: DTypes = F8.with(set(&[U8, I8, U16, I16, U4, I4, F4E2M1, U2, I2, F6E2M3, F6E3M2]));
/// What ONNX calls all tensor types before it had small floats and integers.
const CLASSIC: DTypes = PLAIN.with(set(&[String, C64, C128]));
const BEFORE_BF16: DTypes = CLASSIC.without(set(&[BF16]));
const WIDE: DTypes = CLASSIC.with(F8).with(set(&[U4, I4, F4E2M1, F8E8M0, U2, I2]));
const ALL: DTypes = DTypes::ALL;

const fn set(dtypes: &[DType]) -> DTypes {
    DTypes::of(dtypes)
}

const fn tensors(dtypes: DTypes) -> Types {
    Types::tensors(dtypes)
}

const fn sequences(dtypes: DTypes) -> Types {
    Types {
        dtypes,
        forms: Forms {
            tensor: false,
            sequence: true,
            optional: false,
        },
    }
}

const fn tensors_or_sequences(dtypes: DTypes) -> Types {
    Types {
        dtypes,
        forms: Forms {
            tensor: true,
            sequence: true,
            optional: false,
        },
    }
}

const fn optionals(dtypes: DTypes) -> Types {
    Types {
        dtypes,
        forms: Forms {
            tensor: false,
            sequence: false,
            optional: true,
        },
    }
}

const fn anything(dtypes: DTypes) -> Types {
    Types {
        dtypes,
        forms: Forms {
            tensor: true,
            sequence: true,
            optional: true,
        },
    }
}

/// The row of a custom op: anything goes.
static CUSTOM: OpSpec = OpSpec {
    op: Op::Custom,
    since: 1,
    inputs: &[Port {
        name: "inputs",
        kind: PortKind::Variadic { min: 0, mixed: true },
        ty: "T",
    }],
    outputs: &[Port {
        name: "outputs",
        kind: PortKind::Variadic { min: 0, mixed: true },
        ty: "T",
    }],
    types: &[TypeVar {
        name: "T",
        allowed: anything(ALL),
    }],
    attributes: &[],
};

/// Every row, with its family, at the place of its op's code less one.
static TABLE: [(Family, OpSpec); Op::ALL.len()] = by_code();

const fn by_code() -> [(Family, OpSpec); Op::ALL.len()] {
    let mut rows = [None; Op::ALL.len()];
    let mut of_family = 0;
    while of_family < FAMILIES.len() {
        let (family, specs) = FAMILIES[of_family];
        let mut row = 0;
        while row < specs.len() {
            let place = specs[row].op as usize - 1;
            assert!(rows[place].is_none(), "an op has two rows");
            rows[place] = Some((family, specs[row]));
            row += 1;
        }
        of_family += 1;
    }
    let mut table = [(Family::Attention, attention::ROWS[0]); Op::ALL.len()];
    let mut place = 0;
    while place < table.len() {
        match rows[place] {
            Some(row) => table[place] = row,
            None => panic!("an op has no row"),
        }
        place += 1;
    }
    table
}

impl Op {
    /// The row of the op table; for a custom op one that takes anything.
    pub fn spec(self) -> &'static OpSpec {
        match self {
            Op::Custom => &CUSTOM,
            op => &TABLE[op as usize - 1].1,
        }
    }

    /// The family of an op; none for a custom op.
    pub(crate) fn family(self) -> Option<Family> {
        let place = (self as usize).checked_sub(1)?;
        Some(TABLE[place].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_well_formed() {
        for &op in Op::ALL {
            let spec = op.spec();
            assert_eq!(spec.op, op);
            assert!(spec.since >= 1 && spec.since <= 28, "{op}");
            assert!(spec.attributes.is_sorted_by_key(|attr| attr.attr), "{op}");
            for port in spec.inputs.iter().chain(spec.outputs) {
                assert_ne!(spec.allowed(port).dtypes, DTypes::NONE, "{op} {}", port.name);
            }
            for ports in [spec.inputs, spec.outputs] {
                let variadic = ports.iter().position(Port::is_variadic);
                assert!(variadic.is_none_or(|place| place + 1 == ports.len()), "{op}");
            }
            for var in spec.types {
                let mut ports = spec.inputs.iter().chain(spec.outputs);
                assert!(ports.any(|port| port.ty == var.name), "{op} {}", var.name);
            }
        }
    }

    #[test]
    fn rows_say_what_onnx_says() {
        let conv = Op::Conv.spec();
        assert_eq!((conv.since, conv.input_arity()), (22, (2, Some(3))));
        assert_eq!(conv.input(2).unwrap().name, "B");
        assert!(conv.input(3).is_none());
        assert_eq!(conv.int(&crate::Attributes::new(), Attr::Group), Some(1));
        assert_eq!(Op::LSTM.spec().output_arity(), (0, Some(3)));
        assert_eq!(Op::Loop.spec().input_arity(), (2, None));
        assert_eq!(Op::Concat.spec().input_arity(), (1, None));
        assert_eq!(Op::Concat.spec().input(9).unwrap().name, "inputs");
        let axis = Op::Concat.spec().attribute(Attr::Axis).unwrap();
        assert!(axis.required && axis.default.is_none());
        let perm = Op::Transpose.spec();
        assert!(perm.allowed(&perm.inputs[0]).dtypes.contains(DType::U2));
        let lens = Op::TopK.spec();
        assert_eq!(lens.allowed(&lens.inputs[1]).dtypes, I64S);
    }
}
