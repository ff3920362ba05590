//! A library that ends the process of a plugin on request, for the example `isolated` of `polychip`: preloaded with
//! `LD_PRELOAD`, it acts in `polychip-plugin-host` alone, whichever plugin that serves.
//!
//! On SIGURG, which vendors' libraries do not handle, it reads the way to die from the file that `POLYCHIP_FATAL` names:
//!
//! | word | fault |
//! |---|---|
//! | `segv` | a write to no memory |
//! | `abort` | `abort` in a thread that is not Polychip's |
//! | `exit` | `exit(0)` |
//! | `loop` | no thread returns from where it is |
//! | `heap` | writes behind and in front of blocks of the heap, which are then freed |
//! | `records` | random bytes on each socket to the app |
//! | `close` | each socket to the app is shut down |
//! | `memfd` | attempts to truncate each memory file, then the use of a truncated file |
//! | `memory` | no allocation succeeds; 50 ms later the process is ended, if it lives |

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "faults")]

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What threads do on SIGWINCH.
static ORDER: AtomicU32 = AtomicU32::new(0);
const ABORT: u32 = 1;
const STAY: u32 = 2;

/// Whether a thread spins already; the others sleep.
static SPINS: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls the functions of this section, with arguments that this one ignores.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let this = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    if this.file_name().is_none_or(|name| name != "polychip-plugin-host") {
        return;
    }
    handle(libc::SIGURG, die);
    handle(libc::SIGWINCH, obey);
}

fn handle(signal: c_int, handler: extern "C" fn(c_int)) {
    // SAFETY: an action of zeros is valid: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: a valid action for a signal that nothing else here uses.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

extern "C" fn obey(_: c_int) {
    match ORDER.load(Ordering::Acquire) {
        ABORT => std::process::abort(),
        STAY => stay(),
        _ => {}
    }
}

fn stay() -> ! {
    let spins = !SPINS.swap(true, Ordering::AcqRel);
    loop {
        if spins {
            std::hint::spin_loop();
        } else {
            // SAFETY: sleeps until a signal comes.
            unsafe { libc::pause() };
        }
    }
}

extern "C" fn die(_: c_int) {
    let file = std::env::var_os("POLYCHIP_FATAL").unwrap_or_default();
    let way = std::fs::read_to_string(file).unwrap_or_default();
    match way.trim() {
        "segv" => segv(),
        "abort" => {
            ORDER.store(ABORT, Ordering::Release);
            let threads = threads();
            let mut others = threads.iter().filter(|(_, name)| !name.starts_with("polychip"));
            if let Some((thread, _)) = others.next_back() {
                order(*thread);
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            // the vendor has no thread now, or its threads take no signals
            drop(std::thread::spawn(std::process::abort));
        }
        // SAFETY: ends the process, with what the libraries do at the end of one.
        "exit" => unsafe { libc::exit(0) },
        "loop" => {
            ORDER.store(STAY, Ordering::Release);
            // SAFETY: a number.
            let this = unsafe { libc::gettid() };
            let others = threads().into_iter().filter(|(thread, _)| *thread != this);
            others.for_each(|(thread, _)| order(thread));
            stay();
        }
        "heap" => heap(),
        "records" => sockets().for_each(forge),
        "close" => sockets().for_each(|fd| {
            // SAFETY: what others use is shut down: this is the fault.
            unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
        }),
        "memfd" => truncate(),
        "memory" => exhaust(),
        _ => {}
    }
}

fn segv() {
    // SAFETY: none; this is the fault.
    unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) }
}

/// The threads of this process with their names.
fn threads() -> Vec<(c_int, String)> {
    let listed = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    listed
        .filter_map(|entry| {
            let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, name))
        })
        .collect()
}

fn order(thread: c_int) {
    // SAFETY: numbers; a thread that has ended is an error without effect.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGWINCH) };
}

/// Open descriptors whose target begins with `kind`.
fn descriptors(kind: &'static str) -> impl Iterator<Item = c_int> {
    let listed: Vec<_> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    listed.into_iter().filter_map(move |entry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        let is_kind = target.to_string_lossy().trim_start_matches('/').starts_with(kind);
        is_kind.then(|| entry.file_name().to_str()?.parse().ok())?
    })
}

/// The sockets to the app, which keep messages apart.
fn sockets() -> impl Iterator<Item = c_int> {
    descriptors("socket:").filter(|fd| {
        let (mut kind, mut len) = (0, size_of::<c_int>() as libc::socklen_t);
        // SAFETY: room for a number of the stated length.
        let found = unsafe {
            libc::getsockopt(
                *fd,
                libc::SOL_SOCKET,
                libc::SO_TYPE,
                (&raw mut kind).cast(),
                &raw mut len,
            )
        };
        found == 0 && kind == libc::SOCK_SEQPACKET
    })
}

fn forge(fd: c_int) {
    let mut state = std::process::id() ^ 0x9e37_79b9;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    for _ in 0..4 {
        let len = random() as usize % 200;
        let mut bytes: Vec<u8> = (0..len).map(|_| random() as u8).collect();
        if let Some(first) = bytes.first_mut() {
            // mostly the kind of message that is read further
            *first = (random() % 4 == 0).into();
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the bytes live during the call.
        unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) };
    }
}

fn heap() {
    const BLOCKS: usize = 64;
    let mut blocks = [std::ptr::null_mut::<u8>(); BLOCKS];
    for block in &mut blocks {
        // SAFETY: a block of the heap, or null.
        *block = unsafe { libc::malloc(40).cast() };
    }
    for block in blocks.iter().filter(|block| !block.is_null()) {
        // SAFETY: none; what lies before and behind a block is the allocator's.
        unsafe { std::ptr::write_bytes(block.sub(8), 0xa5, 56) };
    }
    for block in blocks {
        // SAFETY: as above; the allocator finds its own marks gone.
        unsafe { libc::free(block.cast()) };
    }
    segv();
}

fn truncate() {
    for fd in descriptors("memfd:") {
        // SAFETY: open descriptors; sealed files refuse.
        unsafe { libc::ftruncate(fd, 0) };
    }
    let name: &CStr = c"truncated";
    // SAFETY: a new file that is mapped, truncated and then read: this is the fault.
    unsafe {
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        libc::ftruncate(fd, 4096);
        let (access, kind) = (libc::PROT_READ, libc::MAP_SHARED);
        let page = libc::mmap(std::ptr::null_mut(), 4096, access, kind, fd, 0);
        libc::ftruncate(fd, 0);
        page.cast::<u8>().read_volatile();
    }
}

fn exhaust() {
    let soon = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: libc::timeval {
            tv_sec: 0,
            tv_usec: 50_000,
        },
    };
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the timer ends the process; under the limit every further mapping fails, and what is left of the heap is
    // taken and kept.
    unsafe {
        libc::setitimer(libc::ITIMER_REAL, &raw const soon, std::ptr::null_mut());
        libc::setrlimit(libc::RLIMIT_AS, &raw const none);
        for bytes in [1 << 20, 1 << 12, 1 << 6] {
            while !libc::malloc(bytes).is_null() {}
        }
    }
}
