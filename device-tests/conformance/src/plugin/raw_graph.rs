//! A flat graph whose arrays can be corrupted, to test a plugin's response.
//!
//! Invariant: before an edit, the arrays belong to a valid graph; pointers and counts stay valid unless the edit
//! changes them.

#![allow(unsafe_code)]

use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::Sized;
use polychip_host::FlatGraph;

use super::call::{Call, checked};
use super::device::{Answer, Device};
use super::executable::Executable;

/// Copies of a flat graph's arrays.
pub struct RawGraph {
    /// The graph; its pointers are set by [`RawGraph::link`].
    pub graph: abi::polychip_graph,
    /// Nodes; their index arrays are set by [`RawGraph::link`].
    pub nodes: Vec<abi::polychip_node>,
    /// Inputs of each node.
    pub node_inputs: Vec<Vec<u32>>,
    /// Outputs of each node.
    pub node_outputs: Vec<Vec<u32>>,
    /// Tensors; their extents are set by [`RawGraph::link`].
    pub tensors: Vec<abi::polychip_tensor>,
    /// Extents of each tensor.
    pub dims: Vec<Vec<i64>>,
    /// Inputs of the graph.
    pub inputs: Vec<u32>,
    /// Outputs of the graph.
    pub outputs: Vec<u32>,
    flat: Arc<FlatGraph>,
}

/// # Safety
/// `data` is null or readable for `count` values.
unsafe fn copied<T: Copy>(data: *const T, count: u64) -> Vec<T> {
    if data.is_null() {
        return Vec::new();
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(data, count as usize) }.to_vec()
}

impl RawGraph {
    /// A copy of a graph that is right.
    #[must_use]
    pub fn of(flat: &Arc<FlatGraph>) -> RawGraph {
        // SAFETY: a flat graph's arrays are valid as long as it lives, and of this build's structs.
        unsafe {
            let graph = *flat.raw();
            let nodes: Vec<abi::polychip_node> = copied(graph.nodes, graph.node_count);
            let tensors: Vec<abi::polychip_tensor> = copied(graph.tensors, graph.tensor_count);
            let mut raw = RawGraph {
                graph,
                node_inputs: nodes
                    .iter()
                    .map(|node| copied(node.inputs, node.input_count))
                    .collect(),
                node_outputs: nodes
                    .iter()
                    .map(|node| copied(node.outputs, node.output_count))
                    .collect(),
                dims: tensors
                    .iter()
                    .map(|tensor| copied(tensor.dims, u64::from(tensor.rank)))
                    .collect(),
                nodes,
                tensors,
                inputs: copied(graph.inputs, graph.input_count),
                outputs: copied(graph.outputs, graph.output_count),
                flat: Arc::clone(flat),
            };
            raw.link();
            raw
        }
    }

    /// Sets every pointer and count to the arrays as they are now.
    pub fn link(&mut self) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            node.inputs = self.node_inputs[index].as_ptr();
            node.input_count = self.node_inputs[index].len() as u64;
            node.outputs = self.node_outputs[index].as_ptr();
            node.output_count = self.node_outputs[index].len() as u64;
        }
        for (tensor, dims) in self.tensors.iter_mut().zip(&self.dims) {
            tensor.dims = dims.as_ptr();
            tensor.rank = dims.len() as u32;
        }
        self.graph.nodes = self.nodes.as_ptr();
        self.graph.node_count = self.nodes.len() as u64;
        self.graph.tensors = self.tensors.as_ptr();
        self.graph.tensor_count = self.tensors.len() as u64;
        self.graph.inputs = self.inputs.as_ptr();
        self.graph.input_count = self.inputs.len() as u64;
        self.graph.outputs = self.outputs.as_ptr();
        self.graph.output_count = self.outputs.len() as u64;
    }

    /// Edits the arrays and links them again.
    #[must_use]
    pub fn edited(mut self, edit: impl FnOnce(&mut RawGraph)) -> RawGraph {
        edit(&mut self);
        self.link();
        self
    }

    /// Edits after linking, so that a pointer or a count itself is wrong.
    #[must_use]
    pub fn torn(mut self, edit: impl FnOnce(&mut RawGraph)) -> RawGraph {
        edit(&mut self);
        self
    }

    /// Asks for support; one record per node that the arrays have.
    ///
    /// # Errors
    /// The call failed.
    pub fn support(&self, device: &Device) -> Call<Vec<Answer>> {
        let mut rows = vec![abi::polychip_support::sized(); self.nodes.len()];
        let call = device
            .table()
            .query_support
            .expect("invariant: required calls are checked");
        let stride = size_of::<abi::polychip_support>() as u64;
        // SAFETY: what is wrong with the graph is wrong in a way that the contract lets a plugin see.
        checked("query_support", |record| unsafe {
            call(
                device.raw(),
                &raw const self.graph,
                rows.as_mut_ptr(),
                stride,
                record,
            )
        })?;
        Ok(rows
            .iter()
            .map(|row| Answer {
                reason: row.reason,
                detail: row.text(),
            })
            .collect())
    }

    /// Compiles and loads; the executable does not hold these arrays.
    ///
    /// # Errors
    /// A call failed.
    pub fn load(&self, device: &Arc<Device>, flat: &Arc<FlatGraph>) -> Call<Arc<Executable>> {
        Executable::of_graph(device, &raw const self.graph, flat)
    }

    /// Compiles and loads a graph whose ports may be any.
    ///
    /// # Errors
    /// A call failed.
    pub fn load_as_it_is(&self, device: &Arc<Device>) -> Call<Arc<Executable>> {
        Executable::of_graph_as_it_is(
            device,
            &raw const self.graph,
            &self.flat,
            (self.inputs.len(), self.outputs.len()),
        )
    }

    /// Compiles, and destroys what comes out.
    ///
    /// # Errors
    /// The call failed.
    pub fn compile(&self, device: &Device) -> Call<()> {
        let mut options = abi::polychip_compile_options::sized();
        options.operating_point = abi::POLYCHIP_NO_INDEX;
        let call = device
            .table()
            .compile
            .expect("invariant: required calls are checked");
        let destroy = device
            .table()
            .blob_destroy
            .expect("invariant: required calls are checked");
        let mut blob = std::ptr::null_mut();
        // SAFETY: as in `support`.
        checked("compile", |record| unsafe {
            call(
                device.raw(),
                &raw const self.graph,
                &raw const options,
                &raw mut blob,
                record,
            )
        })?;
        // SAFETY: made by this table, destroyed once.
        unsafe { destroy(blob) };
        Ok(())
    }
}
