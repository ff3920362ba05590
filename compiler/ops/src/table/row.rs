//! How a row of the op table is written: the macro of rows, and the sets of element types that many rows share.
//!
//! Invariant: everything that a row names, except its op and attributes, is defined here, so that a file of rows
//! imports this file alone.
//! Not here: the rows (a file per op class), the types of a row (`spec`).

pub(super) use DType::*;

pub(super) use crate::spec::{
    AttrDefault, AttrKind, AttrSpec, Forms, OpSpec, Port, PortKind, TypeVar, Types,
};
pub(super) use crate::{Attr, DType, DTypes, Op, OpClass};

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

macro_rules! class {
    ($file:ident) => {
        OpClass::$file
    };
    ($file:ident $own:ident) => {
        OpClass::$own
    };
}

macro_rules! rows {
    (class $class:ident; $(
        $op:ident $since:literal $(as $own:ident)?
        ($($input:ident : $($input_word:ident)+),* $(,)?)
        -> ($($output:ident : $($output_word:ident)+),* $(,)?)
        $(where ($($var:ident : $types:expr),* $(,)?))?
        $(with ($($attr:ident : $($attr_word:ident)+ $(= $default:expr)?),* $(,)?))?
        ;
    )*) => {
        pub(super) const ROWS: &[OpSpec] = &[$(OpSpec {
            op: Op::$op,
            since: $since,
            class: class!($class $($own)?),
            inputs: &[$(port!($input $($input_word)+)),*],
            outputs: &[$(port!($output $($output_word)+)),*],
            types: &[$($(TypeVar { name: stringify!($var), allowed: $types }),*)?],
            attributes: &[$($(attr!($attr $($attr_word)+ $(= $default)?)),*)?],
        }),*];
    };
}

// Sets of element types that many rows share.
pub(super) const BOOL: DTypes = set(&[Bool]);
pub(super) const BYTES: DTypes = set(&[I8, U8]);
pub(super) const F32S: DTypes = set(&[F32]);
pub(super) const I64S: DTypes = set(&[I64]);
pub(super) const TEXT: DTypes = set(&[String]);
pub(super) const INDEX: DTypes = set(&[I32, I64]);
pub(super) const F8: DTypes = set(&[F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ]);
pub(super) const SHORT_FLOATS: DTypes = set(&[F32, F16, BF16]);
pub(super) const FLOATS: DTypes = set(&[F32, F16, F64, BF16]);
pub(super) const FLOATS_AND_F8: DTypes = FLOATS.with(F8);
pub(super) const FLOATS_OR_WORDS: DTypes = FLOATS.with(set(&[I32, I64, U32, U64]));
pub(super) const INTS: DTypes = set(&[I8, I16, I32, I64, U8, U16, U32, U64]);
pub(super) const NUMERIC: DTypes = FLOATS.with(INTS);
pub(super) const PLAIN: DTypes = NUMERIC.with(BOOL);
pub(super) const QUANTISED: DTypes =
    F8.with(set(&[U8, I8, U16, I16, U4, I4, F4E2M1, U2, I2, F6E2M3, F6E3M2]));
/// What ONNX calls all tensor types before it had small floats and integers.
pub(super) const CLASSIC: DTypes = PLAIN.with(set(&[String, C64, C128]));
pub(super) const BEFORE_BF16: DTypes = CLASSIC.without(set(&[BF16]));
pub(super) const WIDE: DTypes = CLASSIC.with(F8).with(set(&[U4, I4, F4E2M1, F8E8M0, U2, I2]));
pub(super) const ALL: DTypes = DTypes::ALL;

pub(super) const fn set(dtypes: &[DType]) -> DTypes {
    DTypes::of(dtypes)
}

pub(super) const fn tensors(dtypes: DTypes) -> Types {
    Types::tensors(dtypes)
}

pub(super) const fn sequences(dtypes: DTypes) -> Types {
    Types {
        dtypes,
        forms: Forms {
            tensor: false,
            sequence: true,
            optional: false,
        },
    }
}

pub(super) const fn tensors_or_sequences(dtypes: DTypes) -> Types {
    Types {
        dtypes,
        forms: Forms {
            tensor: true,
            sequence: true,
            optional: false,
        },
    }
}

pub(super) const fn optionals(dtypes: DTypes) -> Types {
    Types {
        dtypes,
        forms: Forms {
            tensor: false,
            sequence: false,
            optional: true,
        },
    }
}

pub(super) const fn anything(dtypes: DTypes) -> Types {
    Types {
        dtypes,
        forms: Forms {
            tensor: true,
            sequence: true,
            optional: true,
        },
    }
}
