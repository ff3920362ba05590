//! A part as an ML Program: values and operations, plain data.
//!
//! Invariants:
//! 1. Operations stand in an order in which each value is made before it is read.
//! 2. Every value has the type and extents that its operation's rules give: Core ML infers them anew, and refuses a
//!    program that says otherwise.
//! 3. Names follow from places alone, so that equal parts give equal programs.
//!
//! Not here: how nodes become operations (`lower`), bytes (`package`).

use half::f16;

/// Index of a value in its program.
pub(crate) type ValueId = usize;

/// Type of the elements of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    F16,
    F32,
    I32,
    I8,
    U8,
}

impl Type {
    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Type::F16 | Type::F32)
    }

    /// Bytes of an element.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Type::I8 | Type::U8 => 1,
            Type::F16 => 2,
            Type::F32 | Type::I32 => 4,
        }
    }

    /// As `cast` and `quantize` name it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Type::F16 => "fp16",
            Type::F32 => "fp32",
            Type::I32 => "int32",
            Type::I8 => "int8",
            Type::U8 => "uint8",
        }
    }

    /// Reals as bytes of this type.
    pub(crate) fn store(self, reals: &[f32]) -> Vec<u8> {
        match self {
            Type::F16 => reals
                .iter()
                .flat_map(|&real| f16::from_f32(real).to_le_bytes())
                .collect(),
            Type::F32 => reals.iter().flat_map(|real| real.to_le_bytes()).collect(),
            Type::I32 => reals
                .iter()
                .flat_map(|&real| (real as i32).to_le_bytes())
                .collect(),
            Type::I8 => reals.iter().map(|&real| real as i8 as u8).collect(),
            Type::U8 => reals.iter().map(|&real| real as u8).collect(),
        }
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// Extents; only constants have none.
    pub(crate) dims: Vec<usize>,
    /// Elements of a constant; empty where a program is only asked about.
    pub(crate) data: Option<Vec<u8>>,
}

impl Value {
    pub(crate) fn elements(&self) -> usize {
        self.dims.iter().product()
    }
}

/// A named argument of an operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Arg {
    Value(ValueId),
    Values(Vec<ValueId>),
    Int(i32),
    Ints(Vec<i32>),
    /// A number of this type.
    Real(Type, f32),
    Bool(bool),
    Text(&'static str),
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    /// Its name among Core ML's ops.
    pub(crate) kind: &'static str,
    pub(crate) args: Vec<(&'static str, Arg)>,
    pub(crate) outputs: Vec<ValueId>,
    /// The node it was made for; `None` for conversions at the border of the part.
    pub(crate) node: Option<u32>,
}

/// A part.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Program {
    pub(crate) values: Vec<Value>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) outputs: Vec<ValueId>,
}

impl Operation {
    /// Whether it makes a constant of its arguments, which stand in it, before a run.
    pub(crate) fn is_constant(&self) -> bool {
        self.kind.starts_with("constexpr_")
    }

    /// Values that it reads.
    pub(crate) fn reads(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.args
            .iter()
            .flat_map(|(_, arg)| match arg {
                Arg::Value(id) => std::slice::from_ref(id),
                Arg::Values(ids) => ids,
                _ => &[],
            })
            .copied()
    }

    fn value(&self, name: &str) -> Option<ValueId> {
        self.args.iter().find_map(|(given, arg)| match arg {
            Arg::Value(id) if *given == name => Some(*id),
            _ => None,
        })
    }
}

impl Program {
    /// Multiply-adds of a run and bytes moved by it, for a roofline.
    pub(crate) fn work(&self) -> (u64, u64) {
        let (mut macs, mut bytes) = (0u64, 0u64);
        for operation in self
            .operations
            .iter()
            .filter(|operation| operation.node.is_some())
        {
            let out = operation
                .outputs
                .first()
                .map_or(0, |&id| self.values[id].elements() as u64);
            let dims = |name| operation.value(name).map_or(&[][..], |id| &self.values[id].dims);
            let product = |dims: &[usize]| dims.iter().map(|&dim| dim as u64).product::<u64>();
            let per_output = match operation.kind {
                "conv" => product(dims("weight").get(1..).unwrap_or_default()),
                "conv_transpose" => {
                    let input = product(dims("x"));
                    input.saturating_mul(product(dims("weight").get(1..).unwrap_or_default())) / out.max(1)
                }
                "linear" | "matmul" => dims("x").last().map_or(1, |&dim| dim as u64),
                _ => 1,
            };
            macs = macs.saturating_add(out.saturating_mul(per_output));
            for id in operation.reads().chain(operation.outputs.iter().copied()) {
                let value = &self.values[id];
                bytes = bytes.saturating_add((value.elements() * value.ty.bytes()) as u64);
            }
        }
        (macs, bytes)
    }
}
