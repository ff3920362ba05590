//! A plugin for tests whose process dies on demand: the null plugin, whose configuration `die` says in
//! which call the process ends, and how: `CALL:HOW:COUNT`, for the COUNT-th such call of the process.
//!
//! A host that has the plugin in its own process dies with it.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "calls of a plugin's table, and faults")]

use std::os::fd::{FromRawFd, RawFd};
use std::sync::{LazyLock, Mutex, PoisonError};

use polychip_abi::*;

type Raw<T> = *mut T;

/// The call to die in, the way to die, and the calls that are left until then.
static DEATH: Mutex<Option<(String, String, u32)>> = Mutex::new(None);

/// A table of function pointers.
struct Table(polychip_plugin_table);

// SAFETY: function pointers and numbers.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = *right();
    table.create = Some(create);
    table.compile = Some(compile);
    table.load = Some(load);
    table.execute = Some(execute);
    table.query_support = Some(query_support);
    table.buffer_begin_access = Some(begin_access);
    Table(table)
});

/// The export of a plugin.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_plugin_query(major: u32, _minor: u32) -> *const polychip_plugin_table {
    if major == POLYCHIP_ABI_MAJOR {
        &raw const TABLE.0
    } else {
        std::ptr::null()
    }
}

fn right() -> &'static polychip_plugin_table {
    polychip_null::table()
}

/// Ends the process, if it is this call's turn.
fn perhaps_die(call: &str) {
    let how = {
        let mut death = DEATH.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *death {
            Some((of, how, left)) if of == call && *left > 0 => {
                *left -= 1;
                (*left == 0).then(|| how.clone())
            }
            _ => None,
        }
    };
    if let Some(how) = how {
        eprintln!("about to die in {call}: {how}");
        die(&how);
    }
}

fn die(how: &str) {
    match how {
        "segv" => {
            // SAFETY: none; this is the fault.
            unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) }
        }
        "abort" => std::process::abort(),
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
        let mut words = text.split(':');
        if let (Some(call), Some(how)) = (words.next(), words.next()) {
            let left = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
            *DEATH.lock().unwrap_or_else(PoisonError::into_inner) = Some((call.into(), how.into(), left));
        }
    }
    // SAFETY: the host's own arguments.
    unsafe { right().create.expect("invariant: the null plugin has it")(host, out, error) }
}

macro_rules! deadly {
    ($name:ident, $call:ident, ($($argument:ident: $type:ty),*)) => {
        unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            perhaps_die(stringify!($call));
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
deadly!(execute, execute, (
    executable: Raw<polychip_executable>,
    submit: *const polychip_submit,
    out: Raw<Raw<polychip_fence>>,
    error: Raw<polychip_error>
));
deadly!(query_support, query_support, (
    device: Raw<polychip_device>,
    graph: *const polychip_graph,
    out: Raw<polychip_support>,
    stride: u64,
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
