//! The operators by code and name: every op of the default ONNX domain at opset 28, some of `ai.onnx.ml`, and `Custom`.
//!
//! Invariants:
//! 1. The code of an op is its code in the plugin ABI.
//! 2. `from_code` and `from_name` undo `code` and `name`; each op has a row in the op table.
//!
//! Not here: the list itself (`polychip_abi::op`), what an op takes and gives (`table`), what shapes come out (`infer`).

use std::fmt;
use std::sync::LazyLock;

use polychip_abi::op as codes;

macro_rules! ops {
    ($($op:ident = $code:ident),* $(,)?) => {
        /// An operator. The variants carry the ONNX op type as their name.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u32)]
        #[allow(missing_docs)] // each variant is the ONNX op of that name
        pub enum Op {
            /// An op outside the list, named by its domain and op type.
            Custom = codes::POLYCHIP_OP_CUSTOM,
            $($op = codes::$code,)*
        }

        impl Op {
            /// Every op but `Custom`, in the order of their codes.
            pub const ALL: &'static [Op] = &[$(Op::$op),*];

            /// The ONNX op type; `Custom` for a custom op, whose own name stands in its node.
            pub const fn name(self) -> &'static str {
                match self {
                    Op::Custom => "Custom",
                    $(Op::$op => stringify!($op),)*
                }
            }
        }
    };
}

polychip_abi::for_each_op!(ops);

/// Every op but `Custom` by name: ops that later opsets add stand at the end of the codes.
static BY_NAME: LazyLock<Vec<Op>> = LazyLock::new(|| {
    let mut ops = Op::ALL.to_vec();
    ops.sort_by_key(|op| op.name());
    ops
});

impl Op {
    /// The code of this op in the plugin ABI.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The op with this code, `Custom` for zero, or `None` for a code this build does not know.
    pub fn from_code(code: u32) -> Option<Self> {
        match code.checked_sub(1) {
            None => Some(Op::Custom),
            Some(index) => Self::ALL.get(usize::try_from(index).ok()?).copied(),
        }
    }

    /// The op with this op type, whichever of both domains it is of (no name is in both); never `Custom`.
    pub fn from_name(name: &str) -> Option<Self> {
        let by_name = &*BY_NAME;
        let index = by_name.binary_search_by(|op| op.name().cmp(name)).ok()?;
        Some(by_name[index])
    }
}

impl Op {
    /// Whether this is an op of `ai.onnx.ml`, ONNX's domain of classical machine learning.
    pub const fn is_ml(self) -> bool {
        matches!(
            self,
            Op::LabelEncoder | Op::TreeEnsemble | Op::TreeEnsembleRegressor
        )
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_round_trip() {
        assert_eq!(Op::from_code(0), Some(Op::Custom));
        for (index, &op) in Op::ALL.iter().enumerate() {
            assert_eq!(op.code() as usize, index + 1);
            assert_eq!(Op::from_code(op.code()), Some(op));
            assert_eq!(Op::from_name(op.name()), Some(op));
        }
        assert_eq!(Op::Conv.code(), codes::POLYCHIP_OP_CONV);
        assert_eq!(Op::Xor.code(), codes::POLYCHIP_OP_XOR);
        assert!(Op::LabelEncoder.is_ml() && !Op::Xor.is_ml());
        assert_eq!(Op::from_code(Op::ALL.len() as u32 + 1), None);
        assert_eq!(Op::from_name("Custom"), None);
        assert_eq!(Op::from_name("conv"), None);
    }
}
