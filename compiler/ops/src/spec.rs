//! What an op takes and gives: one row of the op table.
//!
//! Invariants:
//! 1. A row describes the op as the canonical opset (28) has it.
//! 2. A variadic port is the last of its list, and optional ports may be left out anywhere.
//! 3. Ports that name the same type variable carry the same element type, unless the port is
//!    variadic and mixed.
//!
//! Not here: the rows (`table`), the shapes (`infer`).

use crate::{Attr, AttrKey, AttrValue, Attributes, DType, DTypes, ErrorKind, InferError, Op, OpClass};

/// One row of the op table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OpSpec {
    /// The op.
    pub op: Op,
    /// The opset that brought this form of the op.
    pub since: u32,
    /// What sort of work it is.
    pub class: OpClass,
    /// Inputs in their order.
    pub inputs: &'static [Port],
    /// Outputs in their order.
    pub outputs: &'static [Port],
    /// The element types that each type variable of the ports may take.
    pub types: &'static [TypeVar],
    /// Attributes in the order of their names.
    pub attributes: &'static [AttrSpec],
}

/// An input or output of an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    /// The ONNX name, as `X`.
    pub name: &'static str,
    /// How many tensors it takes.
    pub kind: PortKind,
    /// A type variable of the row, or the short name of the one element type.
    pub ty: &'static str,
}

/// How many tensors a port takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortKind {
    /// Exactly one.
    Required,
    /// One or none.
    Optional,
    /// Any number from `min` on; `mixed` ones need not agree on their type.
    Variadic {
        /// The least number.
        min: usize,
        /// Whether each may have its own type.
        mixed: bool,
    },
}

/// A type variable: a name, and the element types that it may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TypeVar {
    /// The ONNX name, as `T1`.
    pub name: &'static str,
    /// The element types that it may take.
    pub allowed: Types,
}

/// A set of tensor, sequence and optional types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Types {
    /// Element types.
    pub dtypes: DTypes,
    /// What may hold the elements.
    pub forms: Forms,
}

/// What holds the elements of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forms {
    /// A tensor.
    pub tensor: bool,
    /// A sequence of tensors.
    pub sequence: bool,
    /// An optional tensor or sequence.
    pub optional: bool,
}

/// An attribute of an op.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AttrSpec {
    /// Its name.
    pub attr: Attr,
    /// The kind of its value.
    pub kind: AttrKind,
    /// Whether a node must carry it.
    pub required: bool,
    /// The value where a node does not carry it and ONNX names one.
    pub default: Option<AttrDefault>,
}

/// The kind of an attribute's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // each is the ONNX attribute type of that name
pub enum AttrKind {
    Int,
    Float,
    String,
    Ints,
    Floats,
    Strings,
    Tensor,
    SparseTensor,
    /// A body graph, which the graph's node holds itself, not among its attributes.
    Graph,
    /// A type, which only ops on optionals carry.
    Type,
}

/// A default value.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)] // each is the value of that kind
pub enum AttrDefault {
    Int(i64),
    Float(f32),
    String(&'static str),
    Ints(&'static [i64]),
    Strings(&'static [&'static str]),
}

impl AttrKind {
    /// The word for messages.
    pub const fn name(self) -> &'static str {
        match self {
            AttrKind::Int => "an int",
            AttrKind::Float => "a float",
            AttrKind::String => "a string",
            AttrKind::Ints => "ints",
            AttrKind::Floats => "floats",
            AttrKind::Strings => "strings",
            AttrKind::Tensor => "a tensor",
            AttrKind::SparseTensor => "a sparse tensor",
            AttrKind::Graph => "a graph",
            AttrKind::Type => "a type",
        }
    }

    /// Whether the value is of this kind; an empty list is of every list kind.
    pub fn admits(self, value: &AttrValue) -> bool {
        match value {
            AttrValue::Int(_) => self == AttrKind::Int,
            AttrValue::Float(_) => self == AttrKind::Float,
            AttrValue::String(_) => self == AttrKind::String,
            AttrValue::Ints(values) => self == AttrKind::Ints || values.is_empty() && self.is_list(),
            AttrValue::Floats(values) => self == AttrKind::Floats || values.is_empty() && self.is_list(),
            AttrValue::Strings(values) => self == AttrKind::Strings || values.is_empty() && self.is_list(),
            AttrValue::Tensor(_) => self == AttrKind::Tensor,
        }
    }

    const fn is_list(self) -> bool {
        matches!(self, AttrKind::Ints | AttrKind::Floats | AttrKind::Strings)
    }
}

impl Types {
    /// Tensors of these element types.
    pub const fn tensors(dtypes: DTypes) -> Types {
        Types {
            dtypes,
            forms: Forms {
                tensor: true,
                sequence: false,
                optional: false,
            },
        }
    }
}

impl Port {
    /// Whether a node may leave this port empty.
    pub const fn is_optional(&self) -> bool {
        matches!(self.kind, PortKind::Optional)
    }

    /// Whether this port takes any number of tensors.
    pub const fn is_variadic(&self) -> bool {
        matches!(self.kind, PortKind::Variadic { .. })
    }
}

/// Least and most tensors of a list of ports; `None` for no limit.
fn arity(ports: &[Port]) -> (usize, Option<usize>) {
    let mut least = 0;
    for (index, port) in ports.iter().enumerate() {
        match port.kind {
            PortKind::Required => least = index + 1,
            PortKind::Optional => {}
            PortKind::Variadic { min, .. } => return (index + min, None),
        }
    }
    (least, Some(ports.len()))
}

/// The port that holds the tensor at this place.
fn port_at(ports: &'static [Port], index: usize) -> Option<&'static Port> {
    ports
        .get(index)
        .or_else(|| ports.last().filter(|port| port.is_variadic()))
}

impl OpSpec {
    /// The ONNX op type.
    pub const fn name(&self) -> &'static str {
        self.op.name()
    }

    /// The least number of inputs, and the most where there is a limit.
    pub fn input_arity(&self) -> (usize, Option<usize>) {
        arity(self.inputs)
    }

    /// The least number of outputs, and the most where there is a limit.
    pub fn output_arity(&self) -> (usize, Option<usize>) {
        arity(self.outputs)
    }

    /// The port of the input at this place, if the op has one.
    pub fn input(&self, index: usize) -> Option<&'static Port> {
        port_at(self.inputs, index)
    }

    /// The port of the output at this place, if the op has one.
    pub fn output(&self, index: usize) -> Option<&'static Port> {
        port_at(self.outputs, index)
    }

    /// What a port may hold.
    pub fn allowed(&self, port: &Port) -> Types {
        match self.types.iter().find(|var| var.name == port.ty) {
            Some(var) => var.allowed,
            None => {
                Types::tensors(DType::from_name(port.ty).map_or(DTypes::NONE, |dtype| DTypes::of(&[dtype])))
            }
        }
    }

    /// The attribute of this name, if the op has it.
    pub fn attribute(&self, attr: Attr) -> Option<&'static AttrSpec> {
        let index = self
            .attributes
            .binary_search_by_key(&attr, |spec| spec.attr)
            .ok()?;
        Some(&self.attributes[index])
    }

    /// Whether these attributes are the op's, each of its kind, with none missing that a node must carry.
    ///
    /// # Errors
    /// The first attribute that breaks the rule.
    pub fn check(&self, attributes: &Attributes) -> Result<(), InferError> {
        let error = |message: String| Err(InferError::new(self.op, ErrorKind::Attribute, message));
        for (key, value) in attributes.iter() {
            let spec = match key {
                AttrKey::Known(attr) => self.attribute(*attr),
                AttrKey::Custom(_) => None,
            };
            match spec {
                None => return error(format!("has no attribute '{key}'")),
                Some(spec) if !spec.kind.admits(value) => {
                    return error(format!("attribute '{key}' is not {}", spec.kind.name()));
                }
                Some(_) => {}
            }
        }
        for spec in self.attributes {
            let held = spec.kind != AttrKind::Graph;
            if spec.required && held && attributes.get(spec.attr).is_none() {
                return error(format!("attribute '{}' is missing", spec.attr));
            }
        }
        Ok(())
    }

    /// The integer that a node has for this attribute, else the default, if there is one.
    pub fn int(&self, attributes: &Attributes, attr: Attr) -> Option<i64> {
        attributes
            .int(attr)
            .or_else(|| match self.attribute(attr)?.default? {
                AttrDefault::Int(value) => Some(value),
                _ => None,
            })
    }

    /// The float that a node has for this attribute, else the default, if there is one.
    pub fn float(&self, attributes: &Attributes, attr: Attr) -> Option<f32> {
        attributes
            .float(attr)
            .or_else(|| match self.attribute(attr)?.default? {
                AttrDefault::Float(value) => Some(value),
                _ => None,
            })
    }

    /// The text that a node has for this attribute, else the default, if there is one.
    pub fn str<'a>(&self, attributes: &'a Attributes, attr: Attr) -> Option<&'a str> {
        attributes
            .str(attr)
            .or_else(|| match self.attribute(attr)?.default? {
                AttrDefault::String(value) => Some(value),
                _ => None,
            })
    }

    /// The integers that a node has for this attribute, else the default, if there is one.
    pub fn ints<'a>(&self, attributes: &'a Attributes, attr: Attr) -> Option<&'a [i64]> {
        attributes
            .ints(attr)
            .or_else(|| match self.attribute(attr)?.default? {
                AttrDefault::Ints(value) => Some(value),
                _ => None,
            })
    }
}
