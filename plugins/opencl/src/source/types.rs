//! Types: how values are held, and how they lie in memory.
//!
//! Invariants:
//! 1. An array is a struct of one array, `a`, so that it is copied and returned as WGSL has it. Members of a struct
//!    are `m` and their number.
//! 2. Values and memory differ in 16-bit floats that are only stored, which lie in memory as `ushort`.
//! 3. A vector of booleans is a vector of `int`, whose elements are 0 and -1, as C's comparisons of vectors give.

use naga::{ArraySize, Scalar, ScalarKind, TypeInner, VectorSize};
use polychip_sdk::Result;

use super::writer::{Half, Writer, unknown};

/// A scalar or a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) scalar: Scalar,
    /// Elements of a vector; 1 for a scalar.
    pub(super) width: u32,
}

impl Shape {
    pub(super) fn of(inner: &TypeInner) -> Option<Shape> {
        match *inner {
            TypeInner::Scalar(scalar)
            | TypeInner::ValuePointer {
                size: None, scalar, ..
            } => Some(Shape { scalar, width: 1 }),
            TypeInner::Vector { size, scalar }
            | TypeInner::ValuePointer {
                size: Some(size),
                scalar,
                ..
            } => Some(Shape {
                scalar,
                width: width(size),
            }),
            _ => None,
        }
    }

    pub(super) fn is_float(self) -> bool {
        self.scalar.kind == ScalarKind::Float
    }

    pub(super) fn is_signed(self) -> bool {
        self.scalar.kind == ScalarKind::Sint
    }

    pub(super) fn is_bool(self) -> bool {
        self.scalar.kind == ScalarKind::Bool
    }

    pub(super) fn is_half(self) -> bool {
        self.scalar == Scalar::F16
    }

    /// The same width of another scalar.
    pub(super) fn with(self, scalar: Scalar) -> Shape {
        Shape { scalar, ..self }
    }

    /// The unsigned integers of this size.
    pub(super) fn unsigned(self) -> Shape {
        self.with(Scalar {
            kind: ScalarKind::Uint,
            width: self.scalar.width,
        })
    }
}

/// Number of elements of a vector.
pub(super) fn width(size: VectorSize) -> u32 {
    match size {
        VectorSize::Bi => 2,
        VectorSize::Tri => 3,
        VectorSize::Quad => 4,
    }
}

/// A type's name with the number of elements behind it.
pub(super) fn vector(scalar: &str, width: u32) -> String {
    match width {
        1 => scalar.to_owned(),
        width => format!("{scalar}{width}"),
    }
}

impl Writer<'_> {
    /// Text of a scalar or vector as a value.
    pub(super) fn shape(&self, shape: Shape) -> Result<String> {
        let name = match (shape.scalar.kind, shape.scalar.width) {
            (ScalarKind::Float, 4) => "float",
            (ScalarKind::Float, 2) => match self.half {
                Half::Native => "half",
                Half::Stored => "float",
            },
            (ScalarKind::Sint, 4) => "int",
            (ScalarKind::Uint, 4) => "uint",
            (ScalarKind::Sint, 8) => "long",
            (ScalarKind::Uint, 8) => "ulong",
            (ScalarKind::Bool, _) if shape.width == 1 => "bool",
            (ScalarKind::Bool, _) => "int",
            (kind, bytes) => return unknown(format_args!("{kind:?} of {bytes} bytes")),
        };
        Ok(vector(name, shape.width))
    }

    /// Whether a type is of 16-bit floats that are only stored.
    pub(super) fn stores_half(&self, inner: &TypeInner) -> bool {
        self.half == Half::Stored && Shape::of(inner).is_some_and(Shape::is_half)
    }

    /// Text of a type as a value.
    pub(super) fn value(&mut self, inner: &TypeInner) -> Result<String> {
        self.of(inner, false)
    }

    /// Text of a type in the memory of a binding or a workgroup.
    pub(super) fn memory(&mut self, inner: &TypeInner) -> Result<String> {
        self.of(inner, true)
    }

    fn of(&mut self, inner: &TypeInner, memory: bool) -> Result<String> {
        if let Some(shape) = Shape::of(inner) {
            return if memory && self.stores_half(inner) {
                Ok(vector("ushort", shape.width))
            } else {
                self.shape(shape)
            };
        }
        match *inner {
            TypeInner::Atomic(scalar) => self.shape(Shape { scalar, width: 1 }),
            TypeInner::Array {
                base,
                size: ArraySize::Constant(count),
                ..
            } => {
                let element = self.of(&self.module.types[base].inner, memory)?;
                let name = format!("array{count}_{element}");
                if !self.declared.iter().any(|(known, _)| *known == name) {
                    let declaration = format!("typedef struct {{ {element} a[{count}]; }} {name};\n");
                    self.declared.push((name.clone(), declaration));
                }
                Ok(name)
            }
            TypeInner::Struct { ref members, .. } if !memory => {
                let all = self.module.types.iter();
                let index = all.take_while(|(_, ty)| ty.inner != *inner).count();
                let name = format!("struct_{index}");
                let mut fields = String::new();
                for (at, member) in members.iter().enumerate() {
                    let ty = self.value(&self.module.types[member.ty].inner)?;
                    fields.push_str(&format!("{ty} m{at}; "));
                }
                if !self.declared.iter().any(|(known, _)| *known == name) {
                    let declaration = format!("typedef struct {{ {fields}}} {name};\n");
                    self.declared.push((name.clone(), declaration));
                }
                Ok(name)
            }
            ref other => unknown(format_args!("the type {other:?}")),
        }
    }
}
