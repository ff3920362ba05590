//! ONNX Runtime's graphs, nodes, attributes and types, as far as they are read here.
//!
//! Invariants:
//! 1. What is given lives as long as the call that it was given in: nothing here is kept.
//! 2. What the runtime makes for us is released.
//!
//! Not here: what they mean (`read`), values of a run (`value`).

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr;

use polychip_sys::onnxruntime::bindings as sys;

use crate::api::{Api, call, text_at};
use crate::failure::{Failure, Result};

/// A pointer of the runtime's with the functions that read it.
macro_rules! wrapper {
    ($(#[$doc:meta])* $name:ident, $raw:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name<'a> {
            api: Api,
            raw: *const sys::$raw,
            _lives: PhantomData<&'a ()>,
        }

        impl<'a> $name<'a> {
            /// # Safety
            /// It is the runtime's, not null, and lives as long as `'a`.
            pub(crate) unsafe fn new(api: Api, raw: *const sys::$raw) -> $name<'a> {
                $name { api, raw, _lives: PhantomData }
            }

            #[allow(dead_code, reason = "not every kind is handed back")]
            pub(crate) fn raw(self) -> *const sys::$raw {
                self.raw
            }
        }
    };
}

wrapper!(
    /// A graph: the model's, a body's, or what of it is compiled.
    Graph,
    OrtGraph
);
wrapper!(
    /// A node of a graph.
    Node,
    OrtNode
);
wrapper!(
    /// A named value of a graph.
    Info,
    OrtValueInfo
);
wrapper!(
    /// An attribute of a node.
    Attribute,
    OrtOpAttr
);

/// Kind, element type and sizes of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    /// Element type by ONNX Runtime's code, and sizes; none where not even their number is known.
    Tensor(i32, Option<Vec<Size>>),
    Sequence,
    Optional,
    Other,
}

/// A size of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Size {
    Known(i64),
    Named(String),
    Open,
}

/// Reads a list of the runtime's: its length, then its elements.
macro_rules! list {
    ($api:expr, $count:ident, $get:ident, $raw:expr, $element:ty) => {{
        let mut count = 0usize;
        $api.check(call!($api.ort(), $count($raw, &raw mut count))?)?;
        let mut elements: Vec<$element> = vec![ptr::null(); count];
        if count > 0 {
            $api.check(call!($api.ort(), $get($raw, elements.as_mut_ptr(), count))?)?;
        }
        elements
    }};
}

/// Reads a text of the runtime's.
macro_rules! text {
    ($this:expr, $get:ident) => {{
        let mut text = ptr::null();
        $this
            .api
            .check(call!($this.api.ort(), $get($this.raw, &raw mut text))?)?;
        // SAFETY: the text is the runtime's and lives as long as what it is of.
        Ok(unsafe { text_at(text) })
    }};
}

impl<'a> Graph<'a> {
    pub(crate) fn name(self) -> Result<&'a str> {
        text!(self, Graph_GetName)
    }

    /// Versions of ops by domain.
    pub(crate) fn opsets(self) -> Result<Vec<(String, i64)>> {
        let mut count = 0;
        self.api.check(call!(
            self.api.ort(),
            Graph_GetNumOperatorSets(self.raw, &raw mut count)
        )?)?;
        let mut domains = vec![ptr::null(); count];
        let mut versions = vec![0i64; count];
        self.api.check(call!(
            self.api.ort(),
            Graph_GetOperatorSets(self.raw, domains.as_mut_ptr(), versions.as_mut_ptr(), count)
        )?)?;
        // SAFETY: the texts are the runtime's.
        let name = |text: *const std::ffi::c_char| unsafe { text_at(text) }.to_owned();
        Ok(domains.into_iter().map(name).zip(versions).collect())
    }

    pub(crate) fn inputs(self) -> Result<Vec<Info<'a>>> {
        Ok(self.infos(list!(
            self.api,
            Graph_GetNumInputs,
            Graph_GetInputs,
            self.raw,
            *const sys::OrtValueInfo
        )))
    }

    pub(crate) fn outputs(self) -> Result<Vec<Info<'a>>> {
        Ok(self.infos(list!(
            self.api,
            Graph_GetNumOutputs,
            Graph_GetOutputs,
            self.raw,
            *const sys::OrtValueInfo
        )))
    }

    pub(crate) fn initializers(self) -> Result<Vec<Info<'a>>> {
        Ok(self.infos(list!(
            self.api,
            Graph_GetNumInitializers,
            Graph_GetInitializers,
            self.raw,
            *const sys::OrtValueInfo
        )))
    }

    fn infos(self, raw: Vec<*const sys::OrtValueInfo>) -> Vec<Info<'a>> {
        let present = raw.into_iter().filter(|info| !info.is_null());
        // SAFETY: the graph's values live as long as the graph.
        present.map(|info| unsafe { Info::new(self.api, info) }).collect()
    }

    /// The nodes, in an order in which each stands behind those that it reads of.
    pub(crate) fn nodes(self) -> Result<Vec<Node<'a>>> {
        let nodes = list!(
            self.api,
            Graph_GetNumNodes,
            Graph_GetNodes,
            self.raw,
            *const sys::OrtNode
        );
        // SAFETY: the graph's nodes live as long as the graph.
        Ok(nodes
            .into_iter()
            .map(|node| unsafe { Node::new(self.api, node) })
            .collect())
    }

    /// The node whose body the graph is; none of the main graph.
    pub(crate) fn parent(self) -> Result<Option<Node<'a>>> {
        let mut node = ptr::null();
        self.api.check(call!(
            self.api.ort(),
            Graph_GetParentNode(self.raw, &raw mut node)
        )?)?;
        // SAFETY: the node around a body lives as long as the body.
        Ok((!node.is_null()).then(|| unsafe { Node::new(self.api, node) }))
    }
}

impl<'a> Node<'a> {
    pub(crate) fn name(self) -> Result<&'a str> {
        text!(self, Node_GetName)
    }

    pub(crate) fn op(self) -> Result<&'a str> {
        text!(self, Node_GetOperatorType)
    }

    pub(crate) fn domain(self) -> Result<&'a str> {
        text!(self, Node_GetDomain)
    }

    /// The provider that has the node already; empty where none has.
    pub(crate) fn provider(self) -> Result<&'a str> {
        text!(self, Node_GetEpName)
    }

    /// The inputs; none where an optional one is left out.
    pub(crate) fn inputs(self) -> Result<Vec<Option<Info<'a>>>> {
        Ok(self.infos(list!(
            self.api,
            Node_GetNumInputs,
            Node_GetInputs,
            self.raw,
            *const sys::OrtValueInfo
        )))
    }

    pub(crate) fn outputs(self) -> Result<Vec<Option<Info<'a>>>> {
        Ok(self.infos(list!(
            self.api,
            Node_GetNumOutputs,
            Node_GetOutputs,
            self.raw,
            *const sys::OrtValueInfo
        )))
    }

    /// What its bodies read of the graphs around them.
    pub(crate) fn captures(self) -> Result<Vec<Info<'a>>> {
        let infos = self.infos(list!(
            self.api,
            Node_GetNumImplicitInputs,
            Node_GetImplicitInputs,
            self.raw,
            *const sys::OrtValueInfo
        ));
        Ok(infos.into_iter().flatten().collect())
    }

    fn infos(self, raw: Vec<*const sys::OrtValueInfo>) -> Vec<Option<Info<'a>>> {
        // SAFETY: the node's values live as long as its graph.
        let info =
            |info: *const sys::OrtValueInfo| (!info.is_null()).then(|| unsafe { Info::new(self.api, info) });
        raw.into_iter().map(info).collect()
    }

    pub(crate) fn attributes(self) -> Result<Vec<Attribute<'a>>> {
        let attributes = list!(
            self.api,
            Node_GetNumAttributes,
            Node_GetAttributes,
            self.raw,
            *const sys::OrtOpAttr
        );
        let present = attributes.into_iter().filter(|attribute| !attribute.is_null());
        // SAFETY: the node's attributes live as long as its graph.
        Ok(present
            .map(|attribute| unsafe { Attribute::new(self.api, attribute) })
            .collect())
    }

    /// The bodies, by the names of their attributes.
    pub(crate) fn bodies(self) -> Result<Vec<(&'a str, Graph<'a>)>> {
        let mut count = 0;
        self.api.check(call!(
            self.api.ort(),
            Node_GetNumSubgraphs(self.raw, &raw mut count)
        )?)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let (mut graphs, mut names) = (vec![ptr::null(); count], vec![ptr::null(); count]);
        self.api.check(call!(
            self.api.ort(),
            Node_GetSubgraphs(self.raw, graphs.as_mut_ptr(), count, names.as_mut_ptr())
        )?)?;
        let body = |(name, graph): (*const std::ffi::c_char, *const sys::OrtGraph)| {
            // SAFETY: names and bodies live as long as the node's graph.
            unsafe { (text_at(name), Graph::new(self.api, graph)) }
        };
        Ok(names.into_iter().zip(graphs).map(body).collect())
    }
}

impl Info<'_> {
    pub(crate) fn name(&self) -> Result<&str> {
        text!(self, GetValueInfoName)
    }

    /// Whether no run gives it another value than the model does.
    pub(crate) fn is_constant(self) -> Result<bool> {
        let mut is_constant = false;
        self.api.check(call!(
            self.api.ort(),
            ValueInfo_IsConstantInitializer(self.raw, &raw mut is_constant)
        )?)?;
        Ok(is_constant)
    }

    /// Whether a graph around the one that reads it defines it.
    pub(crate) fn is_outer(self) -> Result<bool> {
        let mut is_outer = false;
        self.api.check(call!(
            self.api.ort(),
            ValueInfo_IsFromOuterScope(self.raw, &raw mut is_outer)
        )?)?;
        Ok(is_outer)
    }

    /// The value that the model gives it, if it does.
    pub(crate) fn initializer(self) -> Result<Option<*const sys::OrtValue>> {
        let mut value = ptr::null();
        self.api.check(call!(
            self.api.ort(),
            ValueInfo_GetInitializerValue(self.raw, &raw mut value)
        )?)?;
        Ok((!value.is_null()).then_some(value))
    }

    /// What is known of it.
    pub(crate) fn ty(self) -> Result<Type> {
        let mut ty = ptr::null();
        self.api.check(call!(
            self.api.ort(),
            GetValueInfoTypeInfo(self.raw, &raw mut ty)
        )?)?;
        if ty.is_null() {
            return Ok(Type::Other);
        }
        let mut kind = 0;
        self.api
            .check(call!(self.api.ort(), GetOnnxTypeFromTypeInfo(ty, &raw mut kind))?)?;
        match kind as u32 {
            sys::ORT_KIND_TENSOR => self.tensor(ty),
            sys::ORT_KIND_SEQUENCE => Ok(Type::Sequence),
            sys::ORT_KIND_OPTIONAL => Ok(Type::Optional),
            _ => Ok(Type::Other),
        }
    }

    fn tensor(self, ty: *const sys::OrtTypeInfo) -> Result<Type> {
        let api = self.api;
        let mut info = ptr::null();
        api.check(call!(api.ort(), CastTypeInfoToTensorInfo(ty, &raw mut info))?)?;
        if info.is_null() {
            return Ok(Type::Other);
        }
        let (mut element, mut rank) = (0, 0);
        api.check(call!(api.ort(), GetTensorElementType(info, &raw mut element))?)?;
        api.check(call!(api.ort(), GetDimensionsCount(info, &raw mut rank))?)?;
        if api.has_shapes && !call!(api.ort(), TensorTypeAndShape_HasShape(info))? {
            return Ok(Type::Tensor(element, None));
        }
        let (mut sizes, mut names) = (vec![0i64; rank], vec![ptr::null(); rank]);
        if rank > 0 {
            api.check(call!(api.ort(), GetDimensions(info, sizes.as_mut_ptr(), rank))?)?;
            api.check(call!(
                api.ort(),
                GetSymbolicDimensions(info, names.as_mut_ptr(), rank)
            )?)?;
        }
        let size = |(size, name): (i64, *const std::ffi::c_char)| {
            // SAFETY: the names live as long as the type.
            match (size, unsafe { text_at(name) }) {
                (0.., _) => Size::Known(size),
                (_, "") => Size::Open,
                (_, name) => Size::Named(name.to_owned()),
            }
        };
        Ok(Type::Tensor(
            element,
            Some(sizes.into_iter().zip(names).map(size).collect()),
        ))
    }
}

/// What an attribute holds.
pub(crate) enum Held {
    Int(i64),
    Ints(Vec<i64>),
    Float(f32),
    Floats(Vec<f32>),
    String(Vec<u8>),
    Strings(Vec<Vec<u8>>),
    Tensor(OwnValue),
    /// A body, which is read as a graph.
    Graph,
    /// A kind that nothing is computed from.
    Nothing,
}

impl Attribute<'_> {
    pub(crate) fn name(&self) -> Result<&str> {
        text!(self, OpAttr_GetName)
    }

    pub(crate) fn held(self) -> Result<Held> {
        let mut kind = 0;
        let known = call!(self.api.ort(), OpAttr_GetType(self.raw, &raw mut kind))?;
        // the runtime has no word for an attribute that is a type, of which nothing is computed
        if self.api.check(known).is_err() {
            return Ok(Held::Nothing);
        }
        let one = |bytes: Vec<u8>| <[u8; 8]>::try_from(&bytes[..]).map_err(|_| self.odd());
        let four = |bytes: Vec<u8>| <[u8; 4]>::try_from(&bytes[..]).map_err(|_| self.odd());
        Ok(match kind as u32 {
            sys::ORT_ATTRIBUTE_INT => Held::Int(i64::from_ne_bytes(one(self.bytes(kind)?)?)),
            sys::ORT_ATTRIBUTE_FLOAT => Held::Float(f32::from_ne_bytes(four(self.bytes(kind)?)?)),
            sys::ORT_ATTRIBUTE_INTS => {
                let bytes = self.bytes(kind)?;
                let (whole, _) = bytes.as_chunks::<8>();
                Held::Ints(whole.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect())
            }
            sys::ORT_ATTRIBUTE_FLOATS => {
                let bytes = self.bytes(kind)?;
                let (whole, _) = bytes.as_chunks::<4>();
                Held::Floats(whole.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect())
            }
            sys::ORT_ATTRIBUTE_STRING => {
                let mut bytes = self.bytes(kind)?;
                // the runtime ends it by a zero
                if bytes.last() == Some(&0) {
                    bytes.pop();
                }
                Held::String(bytes)
            }
            sys::ORT_ATTRIBUTE_STRINGS => {
                let bytes = self.bytes(kind)?;
                let mut strings: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
                // behind the last zero
                strings.pop();
                Held::Strings(strings)
            }
            sys::ORT_ATTRIBUTE_TENSOR => {
                let mut value = ptr::null_mut();
                self.api.check(call!(
                    self.api.ort(),
                    OpAttr_GetTensorAttributeAsOrtValue(self.raw, &raw mut value)
                )?)?;
                Held::Tensor(OwnValue { api: self.api, value })
            }
            sys::ORT_ATTRIBUTE_GRAPH => Held::Graph,
            _ => Held::Nothing,
        })
    }

    /// The bytes of an attribute, whose number only the runtime knows.
    fn bytes(self, kind: i32) -> Result<Vec<u8>> {
        let mut needed = 0;
        let asked = call!(
            self.api.ort(),
            ReadOpAttr(self.raw, kind, ptr::null_mut(), 0, &raw mut needed)
        )?;
        if needed == 0 {
            self.api.check(asked)?;
            return Ok(Vec::new());
        }
        // that there was no room is what was asked
        let _ = self.api.check(asked);
        let mut bytes = vec![0u8; needed];
        self.api.check(call!(
            self.api.ort(),
            ReadOpAttr(self.raw, kind, bytes.as_mut_ptr().cast(), needed, &raw mut needed)
        )?)?;
        Ok(bytes)
    }

    fn odd(&self) -> Failure {
        let name = self.name().unwrap_or_default();
        Failure::new(format!("attribute {name:?} has another size than its kind"))
    }
}

/// A value that the runtime made for us.
pub(crate) struct OwnValue {
    api: Api,
    value: *mut sys::OrtValue,
}

impl OwnValue {
    pub(crate) fn raw(&self) -> *const sys::OrtValue {
        self.value
    }
}

impl Drop for OwnValue {
    fn drop(&mut self) {
        if let Some(release) = self.api.ort().ReleaseValue {
            // SAFETY: it is ours, and nobody uses it any more.
            unsafe { release(self.value) };
        }
    }
}
