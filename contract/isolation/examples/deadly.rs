//! A plugin for tests that is faulty on demand: the null plugin, whose configuration `die` names the
//! faulty call and the fault: `CALL:HOW:COUNT`, for the COUNT-th such call of the process, or with a `+`
//! after the count for every call from that one on. The variable `POLYCHIP_DEADLY` does the same for
//! the calls before the configuration is read.
//!
//! Ways to die: `die` in this file. Wrong answers: `deadly/lies.rs`. A host that has the plugin in its
//! own process dies with it.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "calls of a plugin's table, and faults")]

use std::os::fd::{FromRawFd, RawFd};
use std::sync::{LazyLock, Mutex, PoisonError};

use polychip_abi::*;

#[path = "deadly/lies.rs"]
mod lies;

type Raw<T> = *mut T;

/// A fault.
struct Fault {
    call: String,
    how: String,
    /// Calls that are left until then.
    left: u32,
    /// Whether all later calls have it too.
    lasts: bool,
}

impl Fault {
    /// Reads `CALL:HOW:COUNT`.
    fn read(text: &str) -> Option<Fault> {
        let mut words = text.split(':');
        let (call, how) = (words.next()?, words.next()?);
        let count = words.next().unwrap_or("1");
        Some(Fault {
            call: call.into(),
            how: how.into(),
            left: count.trim_end_matches('+').parse().unwrap_or(1),
            lasts: count.ends_with('+'),
        })
    }
}

/// The fault of this process.
static FAULT: LazyLock<Mutex<Option<Fault>>> = LazyLock::new(|| {
    let variable = std::env::var("POLYCHIP_DEADLY").ok();
    Mutex::new(variable.as_deref().and_then(Fault::read))
});

/// A table of function pointers.
struct Table(polychip_plugin_table);

// SAFETY: function pointers and numbers.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = *right();
    table.plugin_info = Some(lies::plugin_info);
    table.create = Some(create);
    table.device_count = Some(lies::device_count);
    table.device_open = Some(device_open);
    table.device_info = Some(lies::device_info);
    table.compile = Some(compile);
    table.blob_bytes = Some(lies::blob_bytes);
    table.load = Some(load);
    table.executable_info = Some(lies::executable_info);
    table.port_info = Some(lies::port_info);
    table.execute = Some(lies::execute);
    table.fence_wait = Some(fence_wait);
    table.fence_timing = Some(lies::fence_timing);
    table.query_support = Some(lies::query_support);
    table.estimate = Some(lies::estimate);
    table.telemetry = Some(lies::telemetry);
    table.buffer_import = Some(lies::buffer_import);
    table.buffer_begin_access = Some(begin_access);
    Table(table)
});

/// The export of a plugin.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_plugin_query(major: u32, _minor: u32) -> *const polychip_plugin_table {
    match faulty("query").as_deref() {
        Some("none") => std::ptr::null(),
        Some("major") => {
            let mut table = *right();
            table.abi_major = 99;
            &raw const Box::leak(Box::new(Table(table))).0
        }
        Some("incomplete") => {
            let mut table = *right();
            table.execute = None;
            &raw const Box::leak(Box::new(Table(table))).0
        }
        _ if major == POLYCHIP_ABI_MAJOR => &raw const TABLE.0,
        _ => std::ptr::null(),
    }
}

fn right() -> &'static polychip_plugin_table {
    polychip_null::table()
}

/// The fault of this call, if it is its turn. Does not return if the fault ends the process.
fn faulty(call: &str) -> Option<String> {
    let how = {
        let mut fault = FAULT.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *fault {
            Some(fault) if fault.call == call && fault.left > 0 => {
                fault.left -= 1;
                let is_now = fault.left == 0;
                if is_now && fault.lasts {
                    fault.left = 1;
                }
                is_now.then(|| fault.how.clone())
            }
            _ => None,
        }
    }?;
    eprintln!("about to die in {call}: {how}");
    die(&how);
    Some(how)
}

fn die(how: &str) {
    match how {
        "segv" => {
            // SAFETY: none; this is the fault.
            unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) }
        }
        "abort" => std::process::abort(),
        // out of a call of the contract, so the process ends
        "panic" => panic!("the plugin panics"),
        "exit" =>
        {
            #[allow(clippy::exit, reason = "this is the fault")]
            std::process::exit(0)
        }
        "loop" => loop {
            std::hint::spin_loop();
        },
        "thread" => {
            let thread = std::thread::spawn(|| die("segv"));
            let _ = thread.join();
        }
        "close" => descriptors("socket:").for_each(|fd| {
            // SAFETY: none; closing what others use is the fault.
            drop(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) });
        }),
        "shrink" => descriptors("memfd:").for_each(|fd| {
            // SAFETY: open, and not closed here.
            let file = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(fd) });
            let _ = file.set_len(0);
        }),
        _ => {}
    }
}

/// Open descriptors whose target contains `kind`.
fn descriptors(kind: &str) -> impl Iterator<Item = RawFd> {
    let found: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            std::fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().contains(kind))
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    found.into_iter()
}

unsafe extern "C" fn create(
    host: *const polychip_host_services,
    out: Raw<Raw<polychip_instance>>,
    error: Raw<polychip_error>,
) -> u32 {
    // the last lines of output hold the message, not a backtrace
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let key = "die";
    let key = polychip_text {
        data: key.as_ptr(),
        len: key.len() as u64,
    };
    let mut value = polychip_text::default();
    // SAFETY: the host's services are whole; the value lives as long as they do.
    let found = unsafe {
        let services = &*host;
        let read = services.configuration.expect("invariant: the host offers it");
        read(services.user, key, &raw mut value) == POLYCHIP_STATUS_OK
    };
    if found {
        // SAFETY: the host's text.
        let bytes = unsafe { std::slice::from_raw_parts(value.data, value.len as usize) };
        let text = String::from_utf8_lossy(bytes);
        if let Some(fault) = Fault::read(&text) {
            *FAULT.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
        }
    }
    match faulty("create").as_deref() {
        Some("null") => return POLYCHIP_STATUS_OK,
        Some("status") => return lies::STATUS,
        _ => {}
    }
    // SAFETY: the host's own arguments.
    unsafe { right().create.expect("invariant: the null plugin has it")(host, out, error) }
}

macro_rules! deadly {
    ($name:ident, $call:ident, ($($argument:ident: $type:ty),*)) => {
        unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            match faulty(stringify!($call)).as_deref() {
                // success, and no result
                Some("null") => return POLYCHIP_STATUS_OK,
                Some("status") => return lies::STATUS,
                _ => {}
            }
            // SAFETY: the host's own arguments.
            unsafe { right().$call.expect("invariant: the null plugin has it")($($argument),*) }
        }
    };
}

deadly!(compile, compile, (
    device: Raw<polychip_device>,
    graph: *const polychip_graph,
    options: *const polychip_compile_options,
    out: Raw<Raw<polychip_blob>>,
    error: Raw<polychip_error>
));
deadly!(load, load, (
    device: Raw<polychip_device>,
    source: *const polychip_load_source,
    out: Raw<Raw<polychip_executable>>,
    error: Raw<polychip_error>
));
deadly!(device_open, device_open, (
    instance: Raw<polychip_instance>,
    index: u32,
    out: Raw<Raw<polychip_device>>,
    error: Raw<polychip_error>
));
deadly!(fence_wait, fence_wait, (
    fence: Raw<polychip_fence>,
    timeout_ns: u64,
    error: Raw<polychip_error>
));
deadly!(begin_access, buffer_begin_access, (
    buffer: Raw<polychip_buffer>,
    access: u32,
    offset: u64,
    bytes: u64,
    out: Raw<Raw<u8>>,
    error: Raw<polychip_error>
));
