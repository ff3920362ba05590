//! Failures of calls.

use polychip_sys::onnxruntime::bindings as sys;

/// A failure: one of ONNX Runtime's codes, and a message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) words: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(words: impl Into<String>) -> Failure {
        Failure {
            code: sys::ORT_FAIL as i32,
            words: words.into(),
        }
    }

    pub(crate) fn argument(words: impl Into<String>) -> Failure {
        Failure {
            code: sys::ORT_INVALID_ARGUMENT as i32,
            words: words.into(),
        }
    }
}

impl From<polychip::Error> for Failure {
    fn from(error: polychip::Error) -> Failure {
        let code = match error.kind() {
            polychip::ErrorKind::BadInput => sys::ORT_INVALID_ARGUMENT,
            polychip::ErrorKind::BadModel => sys::ORT_INVALID_GRAPH,
            _ => sys::ORT_EP_FAIL,
        };
        Failure {
            code: code as i32,
            words: error.to_string(),
        }
    }
}

impl From<polychip_graph::Error> for Failure {
    fn from(error: polychip_graph::Error) -> Failure {
        Failure {
            code: sys::ORT_INVALID_GRAPH as i32,
            words: error.to_string(),
        }
    }
}
