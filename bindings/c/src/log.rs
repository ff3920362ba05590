//! Log records of the library, for the app's own log.
//!
//! Invariants:
//! 1. Without a callback nothing is formatted.
//! 2. No lock is held while the app is called.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_void};
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::failure::{Failure, Result};
use crate::status::POLYCHIP_ERROR_IN_FLIGHT;
use crate::text::c_text;

/// No records.
pub const POLYCHIP_LOG_OFF: u32 = 0;
/// Failures that are reported nowhere else.
pub const POLYCHIP_LOG_ERROR: u32 = 1;
/// Unexpected conditions.
pub const POLYCHIP_LOG_WARN: u32 = 2;
/// Events.
pub const POLYCHIP_LOG_INFO: u32 = 3;
/// Events, in detail.
pub const POLYCHIP_LOG_DEBUG: u32 = 4;
/// Everything.
pub const POLYCHIP_LOG_TRACE: u32 = 5;

/// What the app has called with each record.
pub(crate) type LogCallback = Option<
    unsafe extern "C" fn(user: *mut c_void, level: u32, source: *const c_char, message: *const c_char),
>;

/// Where records go.
#[derive(Clone, Copy)]
struct Sink {
    callback:
        unsafe extern "C" fn(user: *mut c_void, level: u32, source: *const c_char, message: *const c_char),
    user: *mut c_void,
}

// SAFETY: the app promised that the callback may be called with `user` from any thread.
unsafe impl Send for Sink {}
// SAFETY: as above, from several at once.
unsafe impl Sync for Sink {}

static SINK: RwLock<Option<Sink>> = RwLock::new(None);
static LEVEL: AtomicU32 = AtomicU32::new(POLYCHIP_LOG_OFF);

/// Sends records of a level and of all below it to a callback; to none without one.
///
/// # Errors
/// Another log of the process takes the library's records.
///
/// # Safety
/// The callback may be called with `user` from any thread, from several at once, until another one is set, and a call
/// that has begun then has ended.
pub(crate) unsafe fn set(level: u32, callback: LogCallback, user: *mut c_void) -> Result<()> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    if level > POLYCHIP_LOG_TRACE {
        return Err(Failure::argument(format!(
            "level {level} is not a POLYCHIP_LOG_* value"
        )));
    }
    let sink = callback.map(|callback| Sink { callback, user });
    if sink.is_some() && !INSTALLED.get_or_init(|| tracing::subscriber::set_global_default(Log).is_ok()) {
        return Err(Failure::new(
            POLYCHIP_ERROR_IN_FLIGHT,
            "another subscriber of the process receives the library's log records",
        ));
    }
    let level = if sink.is_some() { level } else { POLYCHIP_LOG_OFF };
    *SINK.write().unwrap_or_else(PoisonError::into_inner) = sink;
    LEVEL.store(level, Ordering::Release);
    Ok(())
}

fn number(level: Level) -> u32 {
    match level {
        Level::ERROR => POLYCHIP_LOG_ERROR,
        Level::WARN => POLYCHIP_LOG_WARN,
        Level::INFO => POLYCHIP_LOG_INFO,
        Level::DEBUG => POLYCHIP_LOG_DEBUG,
        _ => POLYCHIP_LOG_TRACE,
    }
}

struct Log;

impl Subscriber for Log {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // the level may change
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && number(*metadata.level()) <= LEVEL.load(Ordering::Acquire)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let Some(sink) = *SINK.read().unwrap_or_else(PoisonError::into_inner) else {
            return;
        };
        let mut words = Words(String::new());
        event.record(&mut words);
        let (source, message): (CString, CString) = (c_text(event.metadata().target()), c_text(&words.0));
        let level = number(*event.metadata().level());
        // SAFETY: what `set` was promised; both texts live during the call.
        unsafe { (sink.callback)(sink.user, level, source.as_ptr(), message.as_ptr()) };
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message of a record, and its other fields behind it.
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let gap = if self.0.is_empty() { "" } else { " " };
        // writing into a string never fails
        let _ = match field.name() {
            "message" => write!(self.0, "{gap}{value:?}"),
            name => write!(self.0, "{gap}{name}={value:?}"),
        };
    }
}
