//! ONNX Runtime's graphs, nodes, attributes and types, as far as this provider reads them.
//!
//! Invariants:
//! 1. Arguments live as long as the call that passed them: nothing here is kept.
//! 2. Objects that the runtime makes for us are released.
//! 3. A wrapper's pointer lives as long as the wrapper, as its constructor requires; each call
//!    relies on it.
//!
//! Not here: the meaning of graphs (`read`), values of a run (`value`).

#![allow(unsafe_code)]

use std::ffi::c_char;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::ptr;

use polychip_sys::onnxruntime::bindings as sys;

use crate::api::{Api, ort, text_at};
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
    /// Element type (ONNX Runtime's code) and sizes; `None` if even the rank is unknown.
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

/// A function that returns a count, and one that fills in that many elements.
type Count<R> = unsafe extern "C" fn(*const R, *mut usize) -> *mut sys::OrtStatus;
type Fill<R, T> = unsafe extern "C" fn(*const R, *mut *const T, usize) -> *mut sys::OrtStatus;
type Text<R> = unsafe extern "C" fn(*const R, *mut *const c_char) -> *mut sys::OrtStatus;

/// A list of the runtime's.
///
/// # Safety
/// `raw` lives, and the functions are the runtime's for lists of it.
unsafe fn list<R, T>(api: Api, raw: *const R, count: Count<R>, fill: Fill<R, T>) -> Result<Vec<*const T>> {
    let mut number = 0usize;
    // SAFETY: the caller's promise; the place is ours.
    unsafe { api.check(count(raw, &raw mut number)) }?;
    let mut elements: Vec<*const T> = vec![ptr::null(); number];
    if number > 0 {
        // SAFETY: as above; there is room for as many.
        unsafe { api.check(fill(raw, elements.as_mut_ptr(), number)) }?;
    }
    Ok(elements)
}

/// A text of the runtime's.
///
/// # Safety
/// `raw` lives, and so long does the result; the function is the runtime's for a text of it.
unsafe fn text<'a, R>(api: Api, raw: *const R, get: Text<R>) -> Result<&'a str> {
    let mut text = ptr::null();
    // SAFETY: the caller's promise; the place is ours.
    unsafe { api.check(get(raw, &raw mut text)) }?;
    // SAFETY: the text is the runtime's and lives as long as what it is of.
    Ok(unsafe { text_at(text) })
}

/// A path of the runtime's, in the system's characters.
///
/// # Safety
/// `path` is null or ends in a zero, and lives now.
unsafe fn path_at(path: *const sys::OrtPathChar) -> PathBuf {
    if path.is_null() {
        return PathBuf::new();
    }
    #[cfg(windows)]
    {
        use std::os::windows::ffi::OsStringExt as _;
        // the declarations are made for another system, where a character is a byte
        let path = path.cast::<u16>();
        // SAFETY: the caller's promise: all up to the zero is there.
        let length = (0..)
            .take_while(|place| unsafe { *path.add(*place) } != 0)
            .count();
        // SAFETY: as above.
        let units = unsafe { std::slice::from_raw_parts(path, length) };
        std::ffi::OsString::from_wide(units).into()
    }
    #[cfg(not(windows))]
    {
        use std::os::unix::ffi::OsStrExt as _;
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes();
        std::ffi::OsStr::from_bytes(bytes).into()
    }
}

impl<'a> Graph<'a> {
    pub(crate) fn name(self) -> Result<&'a str> {
        let get = ort!(self.api, Graph_GetName)?;
        // SAFETY: it lives (invariant 3).
        unsafe { text(self.api, self.raw, get) }
    }

    /// Path of the model; empty if it came from memory.
    pub(crate) fn model_path(self) -> Result<PathBuf> {
        let mut path = ptr::null();
        let get = ort!(self.api, Graph_GetModelPath)?;
        // SAFETY: it lives (invariant 3); the place is ours.
        unsafe { self.api.check(get(self.raw, &raw mut path)) }?;
        // SAFETY: the path is the runtime's, ends in a zero, and lives as long as the graph.
        Ok(unsafe { path_at(path) })
    }

    /// Versions of ops by domain.
    pub(crate) fn opsets(self) -> Result<Vec<(String, i64)>> {
        let mut count = 0;
        let get = ort!(self.api, Graph_GetNumOperatorSets)?;
        // SAFETY: it lives (invariant 3).
        unsafe { self.api.check(get(self.raw, &raw mut count)) }?;
        let mut domains = vec![ptr::null(); count];
        let mut versions = vec![0i64; count];
        let get = ort!(self.api, Graph_GetOperatorSets)?;
        // SAFETY: it lives (invariant 3).
        unsafe {
            self.api
                .check(get(self.raw, domains.as_mut_ptr(), versions.as_mut_ptr(), count))
        }?;
        // SAFETY: the texts are the runtime's.
        let name = |text: *const c_char| unsafe { text_at(text) }.to_owned();
        Ok(domains.into_iter().map(name).zip(versions).collect())
    }

    pub(crate) fn inputs(self) -> Result<Vec<Info<'a>>> {
        let (count, fill) = (
            ort!(self.api, Graph_GetNumInputs)?,
            ort!(self.api, Graph_GetInputs)?,
        );
        // SAFETY: it lives (invariant 3).
        let raw = unsafe { list(self.api, self.raw, count, fill) }?;
        Ok(self.infos(raw))
    }

    pub(crate) fn outputs(self) -> Result<Vec<Info<'a>>> {
        let (count, fill) = (
            ort!(self.api, Graph_GetNumOutputs)?,
            ort!(self.api, Graph_GetOutputs)?,
        );
        // SAFETY: it lives (invariant 3).
        let raw = unsafe { list(self.api, self.raw, count, fill) }?;
        Ok(self.infos(raw))
    }

    pub(crate) fn initializers(self) -> Result<Vec<Info<'a>>> {
        let (count, fill) = (
            ort!(self.api, Graph_GetNumInitializers)?,
            ort!(self.api, Graph_GetInitializers)?,
        );
        // SAFETY: it lives (invariant 3).
        let raw = unsafe { list(self.api, self.raw, count, fill) }?;
        Ok(self.infos(raw))
    }

    fn infos(self, raw: Vec<*const sys::OrtValueInfo>) -> Vec<Info<'a>> {
        let present = raw.into_iter().filter(|info| !info.is_null());
        // SAFETY: the graph's values live as long as the graph.
        present.map(|info| unsafe { Info::new(self.api, info) }).collect()
    }

    /// The nodes in topological order.
    pub(crate) fn nodes(self) -> Result<Vec<Node<'a>>> {
        let (count, fill) = (
            ort!(self.api, Graph_GetNumNodes)?,
            ort!(self.api, Graph_GetNodes)?,
        );
        // SAFETY: it lives (invariant 3).
        let nodes = unsafe { list(self.api, self.raw, count, fill) }?;
        // SAFETY: the graph's nodes live as long as the graph.
        Ok(nodes
            .into_iter()
            .map(|node| unsafe { Node::new(self.api, node) })
            .collect())
    }

    /// The node whose body the graph is; none of the main graph.
    pub(crate) fn parent(self) -> Result<Option<Node<'a>>> {
        let mut node = ptr::null();
        let get = ort!(self.api, Graph_GetParentNode)?;
        // SAFETY: it lives (invariant 3).
        unsafe { self.api.check(get(self.raw, &raw mut node)) }?;
        // SAFETY: the node around a body lives as long as the body.
        Ok((!node.is_null()).then(|| unsafe { Node::new(self.api, node) }))
    }
}

impl<'a> Node<'a> {
    pub(crate) fn name(self) -> Result<&'a str> {
        let get = ort!(self.api, Node_GetName)?;
        // SAFETY: it lives (invariant 3).
        unsafe { text(self.api, self.raw, get) }
    }

    pub(crate) fn op(self) -> Result<&'a str> {
        let get = ort!(self.api, Node_GetOperatorType)?;
        // SAFETY: it lives (invariant 3).
        unsafe { text(self.api, self.raw, get) }
    }

    pub(crate) fn domain(self) -> Result<&'a str> {
        let get = ort!(self.api, Node_GetDomain)?;
        // SAFETY: it lives (invariant 3).
        unsafe { text(self.api, self.raw, get) }
    }

    /// The provider to which the node is assigned; empty if none.
    pub(crate) fn provider(self) -> Result<&'a str> {
        let get = ort!(self.api, Node_GetEpName)?;
        // SAFETY: it lives (invariant 3).
        unsafe { text(self.api, self.raw, get) }
    }

    /// The inputs; `None` for an omitted optional one.
    pub(crate) fn inputs(self) -> Result<Vec<Option<Info<'a>>>> {
        let (count, fill) = (
            ort!(self.api, Node_GetNumInputs)?,
            ort!(self.api, Node_GetInputs)?,
        );
        // SAFETY: it lives (invariant 3).
        let raw = unsafe { list(self.api, self.raw, count, fill) }?;
        Ok(self.infos(raw))
    }

    pub(crate) fn outputs(self) -> Result<Vec<Option<Info<'a>>>> {
        let (count, fill) = (
            ort!(self.api, Node_GetNumOutputs)?,
            ort!(self.api, Node_GetOutputs)?,
        );
        // SAFETY: it lives (invariant 3).
        let raw = unsafe { list(self.api, self.raw, count, fill) }?;
        Ok(self.infos(raw))
    }

    /// Values of outer graphs that its bodies read.
    pub(crate) fn captures(self) -> Result<Vec<Info<'a>>> {
        let (count, fill) = (
            ort!(self.api, Node_GetNumImplicitInputs)?,
            ort!(self.api, Node_GetImplicitInputs)?,
        );
        // SAFETY: it lives (invariant 3).
        let raw = unsafe { list(self.api, self.raw, count, fill) }?;
        Ok(self.infos(raw).into_iter().flatten().collect())
    }

    fn infos(self, raw: Vec<*const sys::OrtValueInfo>) -> Vec<Option<Info<'a>>> {
        // SAFETY: the node's values live as long as its graph.
        let info =
            |info: *const sys::OrtValueInfo| (!info.is_null()).then(|| unsafe { Info::new(self.api, info) });
        raw.into_iter().map(info).collect()
    }

    pub(crate) fn attributes(self) -> Result<Vec<Attribute<'a>>> {
        let (count, fill) = (
            ort!(self.api, Node_GetNumAttributes)?,
            ort!(self.api, Node_GetAttributes)?,
        );
        // SAFETY: it lives (invariant 3).
        let attributes = unsafe { list(self.api, self.raw, count, fill) }?;
        let present = attributes.into_iter().filter(|attribute| !attribute.is_null());
        // SAFETY: the node's attributes live as long as its graph.
        Ok(present
            .map(|attribute| unsafe { Attribute::new(self.api, attribute) })
            .collect())
    }

    /// The bodies, by the names of their attributes.
    pub(crate) fn bodies(self) -> Result<Vec<(&'a str, Graph<'a>)>> {
        let mut count = 0;
        let get = ort!(self.api, Node_GetNumSubgraphs)?;
        // SAFETY: it lives (invariant 3).
        unsafe { self.api.check(get(self.raw, &raw mut count)) }?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let (mut graphs, mut names) = (vec![ptr::null(); count], vec![ptr::null(); count]);
        let get = ort!(self.api, Node_GetSubgraphs)?;
        // SAFETY: it lives (invariant 3).
        unsafe {
            self.api
                .check(get(self.raw, graphs.as_mut_ptr(), count, names.as_mut_ptr()))
        }?;
        let body = |(name, graph): (*const c_char, *const sys::OrtGraph)| {
            // SAFETY: names and bodies live as long as the node's graph.
            unsafe { (text_at(name), Graph::new(self.api, graph)) }
        };
        Ok(names.into_iter().zip(graphs).map(body).collect())
    }
}

impl Info<'_> {
    pub(crate) fn name(&self) -> Result<&str> {
        let get = ort!(self.api, GetValueInfoName)?;
        // SAFETY: it lives (invariant 3).
        unsafe { text(self.api, self.raw, get) }
    }

    /// Whether it is constant for all runs.
    pub(crate) fn is_constant(self) -> Result<bool> {
        let mut is_constant = false;
        let get = ort!(self.api, ValueInfo_IsConstantInitializer)?;
        // SAFETY: it lives (invariant 3).
        unsafe { self.api.check(get(self.raw, &raw mut is_constant)) }?;
        Ok(is_constant)
    }

    /// Whether a graph around the one that reads it defines it.
    pub(crate) fn is_outer(self) -> Result<bool> {
        let mut is_outer = false;
        let get = ort!(self.api, ValueInfo_IsFromOuterScope)?;
        // SAFETY: it lives (invariant 3).
        unsafe { self.api.check(get(self.raw, &raw mut is_outer)) }?;
        Ok(is_outer)
    }

    /// Its value in the model, if any.
    pub(crate) fn initializer(self) -> Result<Option<*const sys::OrtValue>> {
        let mut value = ptr::null();
        let get = ort!(self.api, ValueInfo_GetInitializerValue)?;
        // SAFETY: it lives (invariant 3).
        unsafe { self.api.check(get(self.raw, &raw mut value)) }?;
        Ok((!value.is_null()).then_some(value))
    }

    /// The file beside the model that has its value, as the model names it, the offset there, and the number of bytes.
    pub(crate) fn external(self) -> Result<Option<(PathBuf, i64, usize)>> {
        let api = self.api;
        let mut info = ptr::null_mut();
        let get = ort!(api, ValueInfo_GetExternalInitializerInfo)?;
        let release = ort!(api, ReleaseExternalInitializerInfo)?;
        let path = ort!(api, ExternalInitializerInfo_GetFilePath)?;
        let offset = ort!(api, ExternalInitializerInfo_GetFileOffset)?;
        let bytes = ort!(api, ExternalInitializerInfo_GetByteSize)?;
        // SAFETY: it lives (invariant 3); the place is ours.
        unsafe { api.check(get(self.raw, &raw mut info)) }?;
        if info.is_null() {
            return Ok(None);
        }
        // SAFETY: it was made for us, and lives until it is released; the path is copied before.
        let found = unsafe { (path_at(path(info)), offset(info), bytes(info)) };
        // SAFETY: as above; it is not used after this.
        unsafe { release(info) };
        Ok(Some(found))
    }

    /// Its kind, element type and sizes.
    pub(crate) fn ty(self) -> Result<Type> {
        let mut ty = ptr::null();
        let get = ort!(self.api, GetValueInfoTypeInfo)?;
        // SAFETY: it lives (invariant 3).
        unsafe { self.api.check(get(self.raw, &raw mut ty)) }?;
        if ty.is_null() {
            return Ok(Type::Other);
        }
        let mut kind = 0;
        let get = ort!(self.api, GetOnnxTypeFromTypeInfo)?;
        // SAFETY: it lives (invariant 3).
        unsafe { self.api.check(get(ty, &raw mut kind)) }?;
        match kind as u32 {
            // SAFETY: the type lives as long as the value.
            sys::ORT_KIND_TENSOR => unsafe { self.tensor(ty) },
            sys::ORT_KIND_SEQUENCE => Ok(Type::Sequence),
            sys::ORT_KIND_OPTIONAL => Ok(Type::Optional),
            _ => Ok(Type::Other),
        }
    }

    /// # Safety
    /// The type is the runtime's, and lives.
    unsafe fn tensor(self, ty: *const sys::OrtTypeInfo) -> Result<Type> {
        let api = self.api;
        let mut info = ptr::null();
        let get = ort!(api, CastTypeInfoToTensorInfo)?;
        // SAFETY: the caller's promise; what is of the type lives as long as it, and the places are ours.
        unsafe { api.check(get(ty, &raw mut info)) }?;
        if info.is_null() {
            return Ok(Type::Other);
        }
        let (mut element, mut rank) = (0, 0);
        let get = ort!(api, GetTensorElementType)?;
        // SAFETY: the caller's promise; what is of the type lives as long as it, and the places are ours.
        unsafe { api.check(get(info, &raw mut element)) }?;
        let get = ort!(api, GetDimensionsCount)?;
        // SAFETY: the caller's promise; what is of the type lives as long as it, and the places are ours.
        unsafe { api.check(get(info, &raw mut rank)) }?;
        if api.has_shapes {
            let get = ort!(api, TensorTypeAndShape_HasShape)?;
            // SAFETY: as above.
            if !unsafe { get(info) } {
                return Ok(Type::Tensor(element, None));
            }
        }
        let (mut sizes, mut names) = (vec![0i64; rank], vec![ptr::null(); rank]);
        if rank > 0 {
            let get = ort!(api, GetDimensions)?;
            // SAFETY: the caller's promise; what is of the type lives as long as it, and the places are ours.
            unsafe { api.check(get(info, sizes.as_mut_ptr(), rank)) }?;
            let get = ort!(api, GetSymbolicDimensions)?;
            // SAFETY: the caller's promise; what is of the type lives as long as it, and the places are ours.
            unsafe { api.check(get(info, names.as_mut_ptr(), rank)) }?;
        }
        let size = |(size, name): (i64, *const c_char)| {
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

/// Value of an attribute.
pub(crate) enum AttributeValue {
    Int(i64),
    Ints(Vec<i64>),
    Float(f32),
    Floats(Vec<f32>),
    String(Vec<u8>),
    Strings(Vec<Vec<u8>>),
    Tensor(OwnValue),
    /// A body, which is read as a graph.
    Graph,
    /// A kind without a value for computation.
    Nothing,
}

impl Attribute<'_> {
    pub(crate) fn name(&self) -> Result<&str> {
        let get = ort!(self.api, OpAttr_GetName)?;
        // SAFETY: it lives (invariant 3).
        unsafe { text(self.api, self.raw, get) }
    }

    pub(crate) fn value(self) -> Result<AttributeValue> {
        let mut kind = 0;
        let get = ort!(self.api, OpAttr_GetType)?;
        // SAFETY: it lives (invariant 3).
        let known = unsafe { self.api.check(get(self.raw, &raw mut kind)) };
        // the runtime has no word for an attribute that is a type, of which nothing is computed
        if known.is_err() {
            return Ok(AttributeValue::Nothing);
        }
        let one = |bytes: Vec<u8>| <[u8; 8]>::try_from(&bytes[..]).map_err(|_| self.odd());
        let four = |bytes: Vec<u8>| <[u8; 4]>::try_from(&bytes[..]).map_err(|_| self.odd());
        Ok(match kind as u32 {
            sys::ORT_ATTRIBUTE_INT => AttributeValue::Int(i64::from_ne_bytes(one(self.bytes(kind)?)?)),
            sys::ORT_ATTRIBUTE_FLOAT => AttributeValue::Float(f32::from_ne_bytes(four(self.bytes(kind)?)?)),
            sys::ORT_ATTRIBUTE_INTS => {
                let bytes = self.bytes(kind)?;
                let (whole, _) = bytes.as_chunks::<8>();
                AttributeValue::Ints(whole.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect())
            }
            sys::ORT_ATTRIBUTE_FLOATS => {
                let bytes = self.bytes(kind)?;
                let (whole, _) = bytes.as_chunks::<4>();
                AttributeValue::Floats(whole.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect())
            }
            sys::ORT_ATTRIBUTE_STRING => {
                let mut bytes = self.bytes(kind)?;
                // the runtime ends it by a zero
                if bytes.last() == Some(&0) {
                    bytes.pop();
                }
                AttributeValue::String(bytes)
            }
            sys::ORT_ATTRIBUTE_STRINGS => {
                let bytes = self.bytes(kind)?;
                let mut strings: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
                // behind the last zero
                strings.pop();
                AttributeValue::Strings(strings)
            }
            sys::ORT_ATTRIBUTE_TENSOR => {
                let mut value = ptr::null_mut();
                let get = ort!(self.api, OpAttr_GetTensorAttributeAsOrtValue)?;
                // SAFETY: it lives (invariant 3).
                unsafe { self.api.check(get(self.raw, &raw mut value)) }?;
                AttributeValue::Tensor(OwnValue { api: self.api, value })
            }
            sys::ORT_ATTRIBUTE_GRAPH => AttributeValue::Graph,
            _ => AttributeValue::Nothing,
        })
    }

    /// The bytes of an attribute, whose number only the runtime knows.
    fn bytes(self, kind: i32) -> Result<Vec<u8>> {
        let mut needed = 0;
        let read = ort!(self.api, ReadOpAttr)?;
        // SAFETY: it lives (invariant 3); no byte is written where there is room for none.
        let asked = unsafe {
            self.api
                .check(read(self.raw, kind, ptr::null_mut(), 0, &raw mut needed))
        };
        if needed == 0 {
            asked?;
            return Ok(Vec::new());
        }
        // that there was no room is what was asked
        let mut bytes = vec![0u8; needed];
        // SAFETY: it lives (invariant 3); there is room for as many.
        unsafe {
            self.api.check(read(
                self.raw,
                kind,
                bytes.as_mut_ptr().cast(),
                needed,
                &raw mut needed,
            ))
        }?;
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
        if let Ok(release) = ort!(self.api, ReleaseValue) {
            // SAFETY: it is ours, and no longer in use.
            unsafe { release(self.value) };
        }
    }
}
