//! The op table: one row per op of ONNX opset 28 and per known op of `ai.onnx.ml`, by class.
//!
//! A row reads `Op since (inputs) -> (outputs) where (type variables) with (attributes);`. A file's rows have the
//! class that stands above them, but for a row that reads `Op since as Class (inputs) …`. A port
//! is `name: T`, with `opt` where it may be left out, `many` for one or more tensors of one type,
//! `each` or `each0` for tensors of any types (at least one, or none). An attribute is
//! `Name: kind = default`, with `required` where a node must carry it.
//!
//! Invariants:
//! 1. Every op has exactly one row; the build fails otherwise.
//! 2. Rows state facts of the ONNX specification and nothing of any device.
//!
//! Not here: shapes (`infer`), the types of a row (`spec`).

#[macro_use]
mod row;

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
mod ml;
mod normalisation;
mod pooling;
mod quantise;
mod recurrent;
mod reduction;
mod sequence;
mod shape;
mod signal;
mod text;

use row::{ALL, Op, OpClass, OpSpec, Port, PortKind, TypeVar, anything};

/// The ops of one file of the op table, which share a file of shape functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpGroup {
    /// Attention and positions.
    Attention,
    /// Changes of element type.
    Cast,
    /// Body graphs.
    ControlFlow,
    /// Convolutions.
    Convolution,
    /// Element by element.
    Elementwise,
    /// Elements chosen by indices.
    GatherScatter,
    /// Tensors from a shape or a few numbers.
    Generate,
    /// Resampling and boxes.
    Image,
    /// Losses of training.
    Loss,
    /// Products of matrices.
    Matrix,
    /// Classical models of `ai.onnx.ml`.
    Ml,
    /// Normalisation and softmax.
    Normalisation,
    /// Windows without weights.
    Pooling,
    /// Quantisation.
    Quantise,
    /// Recurrent layers.
    Recurrent,
    /// Reductions, sorting and selection.
    Reduction,
    /// Sequences and optionals.
    Sequence,
    /// Movement of elements.
    Shape,
    /// Fourier transforms.
    Signal,
    /// Strings.
    Text,
}

const CLASSES: &[(OpGroup, &[OpSpec])] = &[
    (OpGroup::Attention, attention::ROWS),
    (OpGroup::Cast, cast::ROWS),
    (OpGroup::ControlFlow, control_flow::ROWS),
    (OpGroup::Convolution, convolution::ROWS),
    (OpGroup::Elementwise, elementwise::ROWS),
    (OpGroup::GatherScatter, gather_scatter::ROWS),
    (OpGroup::Generate, generate::ROWS),
    (OpGroup::Image, image::ROWS),
    (OpGroup::Loss, loss::ROWS),
    (OpGroup::Matrix, matrix::ROWS),
    (OpGroup::Ml, ml::ROWS),
    (OpGroup::Normalisation, normalisation::ROWS),
    (OpGroup::Pooling, pooling::ROWS),
    (OpGroup::Quantise, quantise::ROWS),
    (OpGroup::Recurrent, recurrent::ROWS),
    (OpGroup::Reduction, reduction::ROWS),
    (OpGroup::Sequence, sequence::ROWS),
    (OpGroup::Shape, shape::ROWS),
    (OpGroup::Signal, signal::ROWS),
    (OpGroup::Text, text::ROWS),
];

/// The row of a custom op: anything goes.
static CUSTOM: OpSpec = OpSpec {
    op: Op::Custom,
    since: 1,
    class: OpClass::Other,
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

/// Every row, with its class, at the place of its op's code less one.
static TABLE: [(OpGroup, OpSpec); Op::ALL.len()] = by_code();

const fn by_code() -> [(OpGroup, OpSpec); Op::ALL.len()] {
    let mut rows = [None; Op::ALL.len()];
    let mut of_class = 0;
    while of_class < CLASSES.len() {
        let (class, specs) = CLASSES[of_class];
        let mut row = 0;
        while row < specs.len() {
            let place = specs[row].op as usize - 1;
            assert!(rows[place].is_none(), "an op has two rows");
            rows[place] = Some((class, specs[row]));
            row += 1;
        }
        of_class += 1;
    }
    let mut table = [(OpGroup::Attention, attention::ROWS[0]); Op::ALL.len()];
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

    /// What sort of work the op is: the class of its row.
    pub fn class(self) -> OpClass {
        self.spec().class
    }

    /// The group of an op's row; none for a custom op.
    pub fn group(self) -> Option<OpGroup> {
        let place = (self as usize).checked_sub(1)?;
        Some(TABLE[place].0)
    }
}

#[cfg(test)]
mod tests {
    use super::row::{Attr, DType, DTypes, I64S};
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
    fn a_row_may_name_a_class_of_its_own() {
        let convolutions = [Op::Conv, Op::QLinearConv].map(Op::class);
        assert_eq!(convolutions, [OpClass::Convolution; 2]);
        assert_eq!(Op::QLinearMatMul.class(), Op::MatMul.class());
        assert_eq!(Op::Softmax.class(), OpClass::Normalisation);
        assert_eq!(Op::Cast.class(), OpClass::ElementWise);
        assert_eq!(Op::Custom.class(), OpClass::Other);
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
