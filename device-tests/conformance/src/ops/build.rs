//! Builds a graph with inputs and expected outputs from a line of the table.
//!
//! Invariants:
//! 1. Same line, same graph and same values, on every host.
//! 2. A quantised output's scale fits what the reference computes in f32.

use polychip_graph::{Constant, Encoding, EncodingAxis, Graph, Node, Tensor};
use polychip_ops::{Attributes, DType, Literal, Op, TensorType};

use crate::problem::{Numbers, Problem};
use crate::value::{literal, range};

/// Element types under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A plain type.
    Plain(DType),
    /// Codes with an encoding.
    Quantised {
        /// Type of the codes of activations.
        dtype: DType,
        /// Weights are i8 with one scale per channel, else of the activations' type with one scale.
        per_channel: bool,
    },
}

impl Class {
    pub(super) fn quantised(dtype: DType, per_channel: bool) -> Class {
        Class::Quantised { dtype, per_channel }
    }

    /// The type under test.
    #[must_use]
    pub fn dtype(&self) -> DType {
        match self {
            Class::Plain(dtype) | Class::Quantised { dtype, .. } => *dtype,
        }
    }

    /// Name in cases.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Class::Plain(dtype) => dtype.name().to_owned(),
            Class::Quantised { dtype, per_channel } => {
                let sign = if dtype.is_signed_int() { 's' } else { 'u' };
                let bits = dtype.bits().unwrap_or(0);
                let axis = if *per_channel && bits == 8 { "a" } else { "" };
                format!("q{sign}{bits}{axis}")
            }
        }
    }
}

/// What an input holds.
#[derive(Debug, Clone)]
pub(super) enum Fill {
    Usual,
    Between(f64, f64),
    Values(Vec<f64>),
}

/// One input of a line.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) dtype: DType,
    /// Of the type under test.
    pub(super) under_test: bool,
    pub(super) shape: Vec<usize>,
    pub(super) constant: bool,
    pub(super) fill: Fill,
    /// Axis of a weight's channels.
    pub(super) channels: Option<usize>,
    pub(super) bias: bool,
    /// Floats are whole numbers.
    pub(super) whole: bool,
}

/// One case of the table.
#[derive(Debug)]
pub struct Spec {
    /// `Op/line/type`.
    pub name: String,
    /// Family of tolerances.
    pub family: String,
    /// The op.
    pub op: Op,
    /// Types under test.
    pub class: Class,
    pub(super) inputs: Vec<Option<Input>>,
    pub(super) attributes: Attributes,
    pub(super) outputs: usize,
}

/// A tensor with its values.
struct Filled {
    value: Literal,
    encoding: Option<Encoding>,
}

impl Spec {
    /// Whether a plugin of Identity, Relu and Add on f32 meets the case: no others must pass it.
    #[must_use]
    pub fn is_basic(&self) -> bool {
        matches!(self.op, Op::Identity | Op::Relu | Op::Add) && self.class == Class::Plain(DType::F32)
    }

    /// The op with its inputs' types and shapes: `Add of f32[3, 7], f32[7]`.
    #[must_use]
    pub fn asked(&self) -> String {
        let input = |input: &Option<Input>| {
            let Some(input) = input else {
                return "none".to_owned();
            };
            let class = if input.under_test {
                self.class.name()
            } else {
                input.dtype.name().to_owned()
            };
            let constant = if input.constant { " constant" } else { "" };
            format!("{class}{:?}{constant}", input.shape)
        };
        let inputs: Vec<String> = self.inputs.iter().map(input).collect();
        format!("{} of {}", self.op, inputs.join(", "))
    }

    /// The graph with inputs and expected outputs.
    ///
    /// # Errors
    /// The line is no graph, or the reference does not compute it.
    pub fn build(&self) -> Result<Problem, String> {
        let Class::Quantised { dtype, per_channel } = self.class else {
            let filled = self.fill(None)?;
            return self.assemble(&filled, None);
        };
        let filled = self.fill(Some((dtype, per_channel)))?;
        // what comes out in f32 tells the output's range
        let real: Vec<Option<Filled>> = filled
            .iter()
            .map(|filled| {
                filled
                    .as_ref()
                    .map(|filled| {
                        Ok::<Filled, String>(Filled {
                            value: match &filled.encoding {
                                Some(encoding) => dequantised(&filled.value, encoding)?,
                                None => filled.value.clone(),
                            },
                            encoding: None,
                        })
                    })
                    .transpose()
            })
            .collect::<Result<_, _>>()?;
        let wanted = self.assemble(&real, None)?;
        let values = wanted.expected[0].as_f64s().unwrap_or_default();
        let low = values.iter().copied().fold(0.0, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        let first = filled.iter().flatten().find_map(|filled| filled.encoding.clone());
        let output = match self.op {
            // chips copy codes here: scale and zero point stay
            Op::MaxPool => first,
            _ if self.family == "movement" => first,
            // the range that every chip's kernel has built in
            Op::Softmax | Op::Sigmoid => Some(encoding_of(dtype, 0.0, 1.0 - 1.0 / 256.0)),
            _ => Some(encoding_of(dtype, low, high)),
        };
        self.assemble(&filled, output.map(|encoding| (dtype, encoding)))
    }

    fn fill(&self, quantised: Option<(DType, bool)>) -> Result<Vec<Option<Filled>>, String> {
        let mut filled: Vec<Option<Filled>> = Vec::new();
        for (index, input) in self.inputs.iter().enumerate() {
            let Some(input) = input else {
                filled.push(None);
                continue;
            };
            let mut numbers = Numbers::of(&format!("{}/{index}", self.name));
            let one = match quantised.filter(|_| input.under_test) {
                None => Filled {
                    value: literal(
                        input.dtype,
                        &input.shape,
                        &input.values(input.dtype, &mut numbers),
                    )?,
                    encoding: None,
                },
                Some(_) if input.bias => {
                    let scales = |index: usize| {
                        let encoding = filled.get(index)?.as_ref()?.encoding.as_ref()?;
                        Some(encoding.scales.clone())
                    };
                    let (x, w) = (scales(0).ok_or("no input")?, scales(1).ok_or("no weight")?);
                    bias(input, x[0], &w, &mut numbers)?
                }
                Some((dtype, per_channel)) => match input.channels {
                    Some(axis) => weight(input, axis, dtype, per_channel, &mut numbers)?,
                    None => activation(input, dtype, &mut numbers)?,
                },
            };
            filled.push(Some(one));
        }
        Ok(filled)
    }

    /// The graph with inputs alone, for who computes nothing with the reference: a quantised output has a range that
    /// does not depend on the values.
    ///
    /// # Errors
    /// The line is no graph.
    pub fn graph(&self) -> Result<(Graph, Vec<Literal>), String> {
        let (quantised, output) = match self.class {
            Class::Plain(_) => (None, None),
            Class::Quantised { dtype, per_channel } => (
                Some((dtype, per_channel)),
                Some((dtype, encoding_of(dtype, -2.0, 2.0))),
            ),
        };
        Ok(self.parts(&self.fill(quantised)?, output))
    }

    fn assemble(
        &self,
        filled: &[Option<Filled>],
        output: Option<(DType, Encoding)>,
    ) -> Result<Problem, String> {
        let (graph, given) = self.parts(filled, output);
        Problem::new(graph, given)
    }

    fn parts(&self, filled: &[Option<Filled>], output: Option<(DType, Encoding)>) -> (Graph, Vec<Literal>) {
        let mut graph = Graph::new(self.name.clone());
        let mut inputs = Vec::new();
        let mut given = Vec::new();
        for (index, (input, filled)) in self.inputs.iter().zip(filled).enumerate() {
            let (Some(input), Some(filled)) = (input, filled) else {
                inputs.push(None);
                continue;
            };
            let ty = TensorType::known(filled.value.dtype, &filled.value.shape);
            let name = format!("x{index}");
            let mut tensor = if input.constant {
                Tensor::constant(name, ty, Constant::from_literal(&filled.value))
            } else {
                Tensor::new(name, ty)
            };
            tensor.encoding.clone_from(&filled.encoding);
            let id = graph.add_tensor(tensor);
            if !input.constant {
                graph.inputs.push(id);
                given.push(filled.value.clone());
            }
            inputs.push(Some(id));
        }
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        let mut outputs = Vec::new();
        for index in 0..self.outputs {
            let mut tensor = Tensor::untyped(format!("y{index}"));
            if let Some((dtype, encoding)) = output.as_ref().filter(|_| index == 0) {
                tensor = Tensor::new(format!("y{index}"), TensorType::unranked(*dtype));
                tensor.encoding = Some(encoding.clone());
            }
            outputs.push(graph.add_tensor(tensor));
        }
        let wanted = outputs.iter().copied().map(Some).collect();
        graph.add_node(
            Node::new(self.op, inputs, wanted)
                .named("node")
                .with(self.attributes.clone()),
        );
        graph.outputs = outputs;
        (graph, given)
    }
}

impl Input {
    fn count(&self) -> usize {
        self.shape.iter().product()
    }

    fn values(&self, dtype: DType, numbers: &mut Numbers) -> Vec<f64> {
        let (low, high) = match &self.fill {
            Fill::Values(values) => return values.clone(),
            Fill::Between(low, high) => (*low, *high),
            Fill::Usual if self.whole && dtype != DType::Bool => {
                if dtype.is_unsigned_int() {
                    (0.0, 4.0)
                } else {
                    (-2.0, 3.0)
                }
            }
            Fill::Usual if dtype.is_float() => (-2.0, 2.0),
            Fill::Usual if dtype == DType::Bool => (0.0, 2.0),
            Fill::Usual if dtype.is_signed_int() => (-5.0, 6.0),
            Fill::Usual => (0.0, 10.0),
        };
        let values = (0..self.count()).map(|_| numbers.between(low, high));
        values
            .map(|value| if self.whole { value.floor() } else { value })
            .collect()
    }
}

/// An encoding per tensor for values of a range, which includes zero.
fn encoding_of(dtype: DType, low: f64, high: f64) -> Encoding {
    let (least, most) = range(dtype).unwrap_or((0, 255));
    let (low, high) = (low.min(0.0), high.max(0.0));
    let spread = if high > low { high - low } else { 1.0 };
    let scale = spread / (most - least) as f64;
    let zero = (least as f64 - low / scale)
        .round()
        .clamp(least as f64, most as f64);
    Encoding {
        axis: EncodingAxis::PerTensor,
        scales: [scale as f32].into(),
        zero_points: [zero as i32].into(),
        real: DType::F32,
    }
}

/// Codes over the whole range of the type.
fn activation(input: &Input, dtype: DType, numbers: &mut Numbers) -> Result<Filled, String> {
    let (least, most) = range(dtype).ok_or("codes are integers")?;
    let codes: Vec<i64> = (0..input.count()).map(|_| numbers.int(least, most + 1)).collect();
    let value = Literal::from_ints(dtype, input.shape.clone(), &codes).ok_or("codes do not fit")?;
    Ok(Filled {
        value,
        encoding: Some(encoding_of(dtype, -2.0, 2.0)),
    })
}

fn weight(
    input: &Input,
    axis: usize,
    dtype: DType,
    per_channel: bool,
    numbers: &mut Numbers,
) -> Result<Filled, String> {
    let symmetric = per_channel || dtype == DType::I8;
    let (dtype, least, most) = if symmetric {
        (DType::I8, -127, 127)
    } else {
        (DType::U8, 0, 255)
    };
    let codes: Vec<i64> = (0..input.count()).map(|_| numbers.int(least, most + 1)).collect();
    let value = Literal::from_ints(dtype, input.shape.clone(), &codes).ok_or("codes do not fit")?;
    let channels = *input.shape.get(axis).ok_or("no such axis of channels")?;
    let encoding = Encoding {
        axis: if per_channel {
            EncodingAxis::PerAxis(axis)
        } else {
            EncodingAxis::PerTensor
        },
        scales: if per_channel {
            (0..channels).map(|c| 0.004 + 0.001 * (c % 5) as f32).collect()
        } else {
            [1.0 / 127.0].into()
        },
        zero_points: if symmetric { [].into() } else { [128].into() },
        real: DType::F32,
    };
    Ok(Filled {
        value,
        encoding: Some(encoding),
    })
}

/// A bias of i32 whose scale is that of the accumulators.
fn bias(input: &Input, x: f32, w: &[f32], numbers: &mut Numbers) -> Result<Filled, String> {
    let scales: Vec<f32> = w.iter().map(|w| w * x).collect();
    let codes: Vec<i64> = (0..input.count())
        .map(|index| {
            let scale = f64::from(scales[index % scales.len()]);
            (numbers.between(-1.0, 1.0) / scale).round() as i64
        })
        .collect();
    Ok(Filled {
        value: Literal::from_ints(DType::I32, input.shape.clone(), &codes).ok_or("codes do not fit")?,
        encoding: Some(Encoding {
            axis: if scales.len() > 1 {
                EncodingAxis::PerAxis(0)
            } else {
                EncodingAxis::PerTensor
            },
            scales: scales.into(),
            zero_points: [].into(),
            real: DType::F32,
        }),
    })
}

/// The real values of codes.
fn dequantised(value: &Literal, encoding: &Encoding) -> Result<Literal, String> {
    let codes = value.as_i64s().ok_or("codes are integers")?;
    let (axis, channels) = match encoding.axis {
        EncodingAxis::PerAxis(axis) => (axis, encoding.scales.len()),
        _ => (0, 1),
    };
    let inner: usize = value.shape.iter().skip(axis + 1).product();
    let values: Vec<f64> = codes
        .iter()
        .enumerate()
        .map(|(index, code)| {
            let channel = if channels > 1 {
                (index / inner.max(1)) % channels
            } else {
                0
            };
            let zero = encoding.zero_points.get(channel).copied().unwrap_or(0);
            (code - i64::from(zero)) as f64 * f64::from(encoding.scales[channel])
        })
        .collect();
    literal(DType::F32, &value.shape, &values)
}
