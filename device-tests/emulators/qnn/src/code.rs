//! The codes that calls return.
//!
//! Invariant: a code that was observed in the vendor's library has its measured number. All other
//! codes are our own numbers, in the range of their kind, from which a client can tell only the
//! kind.

use polychip_sys::qnn as sys;

/// A code other than success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code(pub(crate) u64);

impl Code {
    /// A feature that this library does not have.
    pub(crate) const NOT_SUPPORTED: Code = Code(sys::POLYCHIP_QNN_ERROR_NOT_SUPPORTED as u64);
    /// A pointer that must not be null is; ours.
    pub(crate) const ARGUMENT: Code = Code(1003);
    /// Also: a graph that cannot be finalized.
    pub(crate) const MEMORY: Code = Code(sys::POLYCHIP_QNN_ERROR_MEMORY as u64);
    /// The subsystem restarted. Public clients check for this code after an execute. The number is
    /// uncertain.
    pub(crate) const RESTARTED: Code = Code(1007);
    /// Execute of a graph that was left out when its context was created.
    pub(crate) const GENERAL: Code = Code(sys::POLYCHIP_QNN_ERROR_GRAPH_NOT_ENABLED as u64);
    /// An op that validation rejects.
    pub(crate) const REJECTED: Code = Code(sys::POLYCHIP_QNN_ERROR_OP_REJECTED as u64);
    /// No such backend; ours.
    pub(crate) const BACKEND: Code = Code(4003);
    /// No such context, or one that was invalidated; ours.
    pub(crate) const CONTEXT: Code = Code(5001);
    /// The buffer is too small for the binary; ours.
    pub(crate) const BINARY_SIZE: Code = Code(5002);
    /// No such graph; ours.
    pub(crate) const GRAPH: Code = Code(6001);
    /// A graph of this name exists; ours.
    pub(crate) const GRAPH_NAME: Code = Code(6002);
    /// A tensor that the graph does not have.
    pub(crate) const TENSOR_ID: Code = Code(sys::POLYCHIP_QNN_ERROR_TENSOR_ID as u64);
    /// The graph is not finalized, or is already; ours.
    pub(crate) const GRAPH_STATE: Code = Code(6020);
    /// A graph whose nodes are wrong: op, shapes or order; ours.
    pub(crate) const GRAPH_NODES: Code = Code(6021);
    /// A node failed while it ran, as an index outside its axis does; ours.
    pub(crate) const EXECUTE: Code = Code(6022);
    /// A tensor that cannot be one; ours.
    pub(crate) const TENSOR: Code = Code(7001);
    /// No such profile or event; ours.
    pub(crate) const PROFILE: Code = Code(10_001);
    /// A device configuration that is refused.
    pub(crate) const DEVICE_CONFIG: Code = Code(sys::POLYCHIP_QNN_ERROR_DEVICE_CONFIG as u64);
    /// No such device; ours.
    pub(crate) const DEVICE: Code = Code(14_002);
    /// Bytes that do not begin like a context binary.
    pub(crate) const NOT_A_BINARY: Code = Code(sys::POLYCHIP_QNN_ERROR_BINARY_ZEROED as u64);
    /// A context binary that breaks off.
    pub(crate) const MALFORMED_BINARY: Code = Code(sys::POLYCHIP_QNN_ERROR_BINARY_TRUNCATED as u64);

    /// Message for the code.
    pub(crate) fn message(code: u64) -> &'static std::ffi::CStr {
        match Code(code & 0xffff) {
            Code(0) => c"success",
            Code::NOT_SUPPORTED => c"not supported",
            Code::ARGUMENT => c"an argument is null",
            Code::MEMORY => c"memory cannot be had, or the graph cannot be prepared",
            Code::RESTARTED => c"the subsystem restarted",
            Code::GENERAL => c"general error",
            Code::REJECTED => c"the op configuration is rejected",
            Code::BACKEND => c"no such backend",
            Code::CONTEXT => c"no such context",
            Code::BINARY_SIZE => c"the buffer is too small for the binary",
            Code::GRAPH => c"no such graph",
            Code::GRAPH_NAME => c"a graph of this name exists",
            Code::TENSOR_ID => c"no such tensor in the graph",
            Code::GRAPH_STATE => c"the graph is in another state",
            Code::GRAPH_NODES => c"the nodes of the graph do not fit",
            Code::EXECUTE => c"a node failed",
            Code::TENSOR => c"the tensor is malformed",
            Code::PROFILE => c"no such profile or event",
            Code::DEVICE_CONFIG => c"the device configuration is refused",
            Code::DEVICE => c"no such device",
            Code::NOT_A_BINARY => c"not a context binary",
            Code::MALFORMED_BINARY => c"a malformed context binary",
            _ => c"unknown error",
        }
    }
}

/// Result of a call, or its error code.
pub(crate) type Result<T> = std::result::Result<T, Code>;
