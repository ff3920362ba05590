//! Nodes of compiled models (`com.microsoft.EPContext`): detection of ours, their attributes, and
//! their creation.
//!
//! Invariant: a file is opened only in the model's folder or below it, after links are resolved.
//!
//! Not here: their contents (`saved`).

#![allow(unsafe_code)]

use std::ffi::{CString, c_char};
use std::path::{Component, Path, PathBuf};
use std::ptr;

use polychip::ModelFolder;
use polychip_sys::onnxruntime::bindings as sys;

use crate::NAME;
use crate::api::{Api, ort};
use crate::failure::{Failure, Result};
use crate::ort::{AttributeValue, Graph, Node};

/// The op of such nodes.
const OP: &str = "EPContext";
const DOMAIN: &str = "com.microsoft";

/// Attributes of such a node.
#[derive(Default)]
pub(crate) struct Stated {
    /// Compiled content, or the name of the file that holds it.
    pub(crate) content: Vec<u8>,
    pub(crate) is_embedded: bool,
    /// Name of the set of nodes.
    pub(crate) partition: String,
    /// Hash of the content.
    pub(crate) notes: String,
}

/// Whether a node holds what a provider compiled, whichever.
pub(crate) fn is_compiled(node: Node<'_>) -> Result<bool> {
    Ok(node.op()? == OP && node.domain()? == DOMAIN)
}

/// Whether a node holds what this provider compiled.
pub(crate) fn is_ours(node: Node<'_>) -> Result<bool> {
    if !is_compiled(node)? {
        return Ok(false);
    }
    for attribute in node.attributes()? {
        // the content may be large: nothing else is read
        if attribute.name()? == "source" {
            return Ok(
                matches!(attribute.value()?, AttributeValue::String(source) if source == NAME.to_bytes()),
            );
        }
    }
    Ok(false)
}

/// The node of a set that is one of ours; none of others.
pub(crate) fn node_of(graph: Graph<'_>) -> Result<Option<Node<'_>>> {
    match graph.nodes()?[..] {
        [node] if is_ours(node)? => Ok(Some(node)),
        _ => Ok(None),
    }
}

/// Attributes of a node of ours.
pub(crate) fn stated(node: Node<'_>) -> Result<Stated> {
    // the op's defaults for missing attributes
    let mut stated = Stated {
        is_embedded: true,
        ..Stated::default()
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    for attribute in node.attributes()? {
        let name = attribute.name()?.to_owned();
        match (name.as_str(), attribute.value()?) {
            ("ep_cache_context", AttributeValue::String(bytes)) => stated.content = bytes,
            ("embed_mode", AttributeValue::Int(mode)) => stated.is_embedded = mode != 0,
            ("partition_name", AttributeValue::String(bytes)) => stated.partition = text(bytes),
            ("notes", AttributeValue::String(bytes)) => stated.notes = text(bytes),
            _ => {}
        }
    }
    Ok(stated)
}

/// Opens the file that a node names, in the folder of its model.
pub(crate) fn opened(folder: &Path, name: &[u8]) -> Result<(PathBuf, ModelFolder)> {
    let name = std::str::from_utf8(name).map_err(|_| Failure::new("the name of its file is not UTF-8"))?;
    let path = Path::new(name.trim_end_matches('\0'));
    let is_below = path.components().all(|one| matches!(one, Component::Normal(_)));
    if !is_below || path.as_os_str().is_empty() {
        return Err(Failure::new(format!(
            "it names the file {name:?}, which is not one in the model's folder"
        )));
    }
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let file = folder.join(path);
    let failed = |error: std::io::Error| {
        Failure::new(format!(
            "the file {} beside the compiled model, which holds its content, cannot be opened: {error}",
            file.display()
        ))
    };
    let real = file.canonicalize().map_err(failed)?;
    if !real.starts_with(folder.canonicalize().map_err(failed)?) {
        return Err(Failure::new(format!(
            "the file {} leads out of the model's folder",
            file.display()
        )));
    }
    let mapped = ModelFolder::open(&real).map_err(failed)?;
    Ok((file, mapped))
}

/// A value of an attribute.
pub(crate) enum Value<'a> {
    Int(i64),
    Bytes(&'a [u8]),
}

/// A node that was made here, until ONNX Runtime takes it.
pub(crate) struct OwnNode {
    api: Api,
    raw: *mut sys::OrtNode,
}

impl OwnNode {
    /// Makes a node in place of a fused one, with these attributes and the one that marks it as
    /// ours.
    pub(crate) fn new(api: Api, fused: Node<'_>, attributes: &[(&str, Value<'_>)]) -> Result<OwnNode> {
        let editor = ort!(api, GetModelEditorApi)?;
        // SAFETY: it takes nothing, and what it gives is null or lives as long as the runtime.
        let editor = unsafe { editor() };
        if editor.is_null() {
            return Err(Failure::new(
                "this ONNX Runtime was built without support for compiled models",
            ));
        }
        // SAFETY: the table is constant, and each version that providers can be for has the entry.
        let create = unsafe { (&raw const (*editor).CreateNode).read() };
        let create = create.ok_or_else(|| Failure::new("this ONNX Runtime has no CreateNode"))?;
        let mut made = Vec::with_capacity(attributes.len() + 1);
        let source = ("source", Value::Bytes(NAME.to_bytes()));
        for (name, value) in attributes.iter().chain([&source]) {
            made.push(OwnAttribute::new(api, name, value)?);
        }
        let names = |infos: Vec<Option<crate::ort::Info<'_>>>| -> Result<Vec<CString>> {
            let name = |info: Option<crate::ort::Info<'_>>| match info {
                Some(info) => text(info.name()?),
                None => Ok(CString::default()),
            };
            infos.into_iter().map(name).collect()
        };
        let pointers =
            |names: &[CString]| -> Vec<*const c_char> { names.iter().map(|name| name.as_ptr()).collect() };
        let (inputs, outputs) = (names(fused.inputs()?)?, names(fused.outputs()?)?);
        let (op, domain, name) = (text(OP)?, text(DOMAIN)?, text(fused.name()?)?);
        let (given, gives) = (pointers(&inputs), pointers(&outputs));
        let mut taken: Vec<*mut sys::OrtOpAttr> = made.into_iter().map(OwnAttribute::into_raw).collect();
        let mut raw = ptr::null_mut();
        // SAFETY: the texts end in zeros and, like the lists, are copied; the attributes are the runtime's from here on; the
        // place is ours. Where it fails it is not known which attributes it took: they are not released twice.
        unsafe {
            api.check(create(
                op.as_ptr(),
                domain.as_ptr(),
                name.as_ptr(),
                given.as_ptr(),
                given.len(),
                gives.as_ptr(),
                gives.len(),
                taken.as_mut_ptr(),
                taken.len(),
                &raw mut raw,
            ))
        }?;
        Ok(OwnNode { api, raw })
    }

    /// The node; the receiver releases it.
    pub(crate) fn into_raw(self) -> *mut sys::OrtNode {
        let raw = self.raw;
        std::mem::forget(self);
        raw
    }
}

impl Drop for OwnNode {
    fn drop(&mut self) {
        if let Ok(release) = ort!(self.api, ReleaseNode) {
            // SAFETY: it is ours, and no longer in use.
            unsafe { release(self.raw) };
        }
    }
}

/// An attribute that was made here, until a node takes it.
struct OwnAttribute {
    api: Api,
    raw: *mut sys::OrtOpAttr,
}

impl OwnAttribute {
    fn new(api: Api, name: &str, value: &Value<'_>) -> Result<OwnAttribute> {
        let create = ort!(api, CreateOpAttr)?;
        let named = text(name)?;
        let (data, count, kind): (*const std::ffi::c_void, usize, u32) = match value {
            Value::Int(value) => (ptr::from_ref(value).cast(), 1, sys::ORT_ATTRIBUTE_INT),
            Value::Bytes(bytes) => (bytes.as_ptr().cast(), bytes.len(), sys::ORT_ATTRIBUTE_STRING),
        };
        let count = i32::try_from(count).map_err(|_| {
            Failure::new(format!(
                "the compiled content has {count} bytes, but an ONNX Runtime node holds at most {}: set ep.context_embed_mode to 0 to \
                 write it to a file beside the compiled model",
                i32::MAX
            ))
        })?;
        let mut raw = ptr::null_mut();
        // SAFETY: `data` holds `count` bytes, or the one number, which are copied; the name ends in
        // a zero; `raw` is ours.
        unsafe { api.check(create(named.as_ptr(), data, count, kind as i32, &raw mut raw)) }?;
        Ok(OwnAttribute { api, raw })
    }

    fn into_raw(self) -> *mut sys::OrtOpAttr {
        let raw = self.raw;
        std::mem::forget(self);
        raw
    }
}

impl Drop for OwnAttribute {
    fn drop(&mut self) {
        if let Ok(release) = ort!(self.api, ReleaseOpAttr) {
            // SAFETY: it is ours, and no longer in use.
            unsafe { release(self.raw) };
        }
    }
}

fn text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Failure::new(format!("the name {text:?} holds a zero")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(folder: &Path, name: &[u8]) -> String {
        opened(folder, name).err().unwrap().words
    }

    #[test]
    fn external_files_come_from_the_models_folder() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("model");
        std::fs::create_dir_all(folder.join("below")).unwrap();
        std::fs::write(folder.join("below/a.bin"), "a").unwrap();
        std::fs::write(around.path().join("b.bin"), "b").unwrap();
        let content = |name: &[u8]| opened(&folder, name).unwrap().1.bytes();
        assert_eq!(&content(b"below/a.bin")[..], b"a");
        // ONNX Runtime may add a zero
        assert_eq!(&content(b"below/a.bin\0")[..], b"a");
        for outside in [
            &b"../b.bin"[..],
            b"below/../../b.bin",
            b"",
            b".",
            around.path().join("b.bin").to_string_lossy().as_bytes(),
        ] {
            assert!(words(&folder, outside).contains("not one in the model's folder"));
        }
        assert!(words(&folder, b"c.bin").contains("c.bin beside the compiled model"));
        assert!(words(&folder, &[0xff]).contains("not UTF-8"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(around.path().join("b.bin"), folder.join("link.bin")).unwrap();
            assert!(words(&folder, b"link.bin").contains("leads out"));
        }
    }
}
