//! Messages, through ONNX Runtime's logger.

#![allow(unsafe_code)]

use std::ffi::CString;

use polychip_sys::onnxruntime::bindings::{ORT_LOG_INFO, ORT_LOG_WARNING, OrtLogger};

use crate::api::{Api, ort};

/// A logger of ONNX Runtime's, which outlives whoever holds it.
#[derive(Clone, Copy)]
pub(crate) struct Log {
    api: Api,
    logger: *const OrtLogger,
}

// SAFETY: ONNX Runtime's loggers may be used from any thread.
unsafe impl Send for Log {}
// SAFETY: as above.
unsafe impl Sync for Log {}

impl Log {
    /// # Safety
    /// `logger` is null or a logger of ONNX Runtime's that lives as long as the result is used.
    pub(crate) unsafe fn new(api: Api, logger: *const OrtLogger) -> Log {
        Log { api, logger }
    }

    /// What a user should know; shown unless ONNX Runtime is told to be quiet.
    pub(crate) fn warning(self, words: &str) {
        self.message(ORT_LOG_WARNING, words);
    }

    pub(crate) fn info(self, words: &str) {
        self.message(ORT_LOG_INFO, words);
    }

    fn message(self, severity: u32, words: &str) {
        if self.logger.is_null() {
            return;
        }
        let words = CString::new(format!("Polychip: {words}").replace('\0', " ")).unwrap_or_default();
        let (file, function) = (c"polychip_ort", c"provider");
        if let Ok(log) = ort!(self.api, Logger_LogMessage) {
            // SAFETY: the logger lives, and the texts end in zeros.
            let told = unsafe {
                self.api.check(log(
                    self.logger,
                    severity as i32,
                    words.as_ptr(),
                    file.as_ptr(),
                    0,
                    function.as_ptr(),
                ))
            };
            // a message that cannot be logged has nobody to be told to
            let _ = told;
        }
    }
}
