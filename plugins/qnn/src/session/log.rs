//! The library's log, into the host's.
//!
//! Invariants:
//! 1. A line reaches a host only while its instance lives: the list of hosts is locked during the call.
//! 2. Nothing is formatted when nobody listens.
//! 3. What the library says while it is asked a question belongs to the answer, and is no line of the log.
//!
//! The callback gets no pointer of its own, so the hosts stand in a list of the process; the youngest gets
//! the line.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use polychip_sdk::{HostServices, LogLevel};
use polychip_sys::qnn::{self, Qnn};

static HOSTS: Mutex<Vec<(u64, HostServices)>> = Mutex::new(Vec::new());
thread_local! {
    /// What the library said on this thread since a question was asked; `None` where none is.
    static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The longest log output that is kept.
const MOST_HEARD: usize = 300;

/// Queries the library, and returns its log output with the result.
pub(super) fn hear<T>(ask: impl FnOnce() -> T) -> (T, String) {
    HEARD.with_borrow_mut(|heard| *heard = Some(String::new()));
    let answer = ask();
    let heard = HEARD.with_borrow_mut(Option::take).unwrap_or_default();
    (answer, heard)
}

static NEXT: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    /// The C library's: `arguments` is a `va_list`, which travels as one pointer on the systems that QNN is for.
    fn vsnprintf(to: *mut c_char, bytes: usize, format: *const c_char, arguments: *mut c_void) -> c_int;
}

unsafe extern "C" fn receive(format: *const c_char, level: u32, _timestamp: u64, arguments: *mut c_void) {
    if format.is_null() {
        return;
    }
    let mut text = [0u8; 1024];
    // SAFETY: at most as many bytes as the text holds are written; format and arguments are the library's,
    // made for each other.
    let len = unsafe { vsnprintf(text.as_mut_ptr().cast(), text.len(), format, arguments) };
    let len = usize::try_from(len).unwrap_or(0).min(text.len() - 1);
    let text = String::from_utf8_lossy(&text[..len]);
    let text = text.trim();
    let answers = HEARD.with_borrow_mut(|heard| {
        if let Some(heard) = heard
            && heard.len() + text.len() < MOST_HEARD
        {
            heard.push_str(if heard.is_empty() { "" } else { "; " });
            heard.push_str(text);
        }
        heard.is_some()
    });
    if answers {
        return;
    }
    let Ok(hosts) = HOSTS.lock() else { return };
    let Some((_, host)) = hosts.last() else { return };
    let level = match level {
        qnn::POLYCHIP_QNN_LOG_ERROR => LogLevel::Error,
        qnn::POLYCHIP_QNN_LOG_WARN => LogLevel::Warn,
        qnn::POLYCHIP_QNN_LOG_INFO => LogLevel::Info,
        _ => LogLevel::Debug,
    };
    host.log(level, text);
}

/// A log of the library.
pub(super) struct Log {
    qnn: &'static Qnn,
    handle: qnn::Log,
    id: u64,
}

impl Log {
    /// Makes one; without the call or where it fails, the library logs as it likes.
    pub(super) fn create(qnn: &'static Qnn, host: &HostServices) -> Log {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        HOSTS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((id, host.clone()));
        let mut handle = ptr::null_mut();
        if let Some(create) = qnn.table().log_create {
            // SAFETY: the callback lives as long as the process; the place for the handle is ours.
            let code = unsafe { create(Some(receive), qnn::POLYCHIP_QNN_LOG_WARN, &raw mut handle) };
            if code != 0 {
                handle = ptr::null_mut();
            }
        }
        Log { qnn, handle, id }
    }

    pub(super) fn handle(&self) -> qnn::Log {
        self.handle
    }

    /// Stops forwarding lines to the host.
    pub(super) fn hush(&self) {
        HOSTS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(id, _)| *id != self.id);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(free) = self.qnn.table().log_free
            && !self.handle.is_null()
        {
            // SAFETY: made by this library; backend and device are gone, as fields drop in order.
            let _ = unsafe { free(self.handle) };
        }
        self.hush();
    }
}
