//! Keeps the process alive if another process truncates a file that is mapped here.
//!
//! A read of a mapped page past the end of its file raises SIGBUS, which ends a process by default. The
//! handler of this module replaces the rest of that mapping by zeros and marks the mapping as
//! damaged. The read then continues, and the mapping's user finds the mark and reports an error.
//!
//! Invariants:
//! 1. The handler acts only on a fault at an address inside a registered mapping. It passes every
//!    other SIGBUS to the handler installed before it, or to the default action.
//! 2. The handler reads and writes atomics and calls `mmap`, nothing else: it takes no lock and
//!    allocates nothing.
//! 3. A mapping is registered from before its first read until it is unmapped.
//!
//! Not here: which files are mapped (`mapped_file`).

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Mappings that can be registered at a time. Exports with a file per tensor have some thousand.
const MOST: usize = 4096;
/// `si_code` of an address that has no memory behind it, on Linux and on Apple's systems.
const BUS_ADRERR: i32 = 2;

/// A registered mapping.
struct Range {
    start: AtomicUsize,
    /// 0: free.
    end: AtomicUsize,
    is_damaged: AtomicBool,
}

static RANGES: [Range; MOST] = [const {
    Range {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        is_damaged: AtomicBool::new(false),
    }
}; MOST];
/// Held while a range is taken: where to look for a free one.
static NEXT: Mutex<usize> = Mutex::new(0);
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// The handler before ours, once ours is installed.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// A mapping that the handler knows. Drop it before the mapping.
#[derive(Debug)]
pub(crate) struct Guarded(usize);

impl Guarded {
    /// Registers the mapping at this address range, and installs the handler if this is the first one. `None`
    /// if the system allows no handler or the table is full.
    pub(crate) fn new(start: usize, len: usize) -> Option<Guarded> {
        BEFORE.get_or_init(install).as_ref()?;
        let end = start.checked_add(len).filter(|end| *end > start)?;
        let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
        let index = (0..MOST)
            .map(|step| (*next + step) % MOST)
            .find(|index| RANGES[*index].end.load(Ordering::Acquire) == 0)?;
        *next = index + 1;
        let range = &RANGES[index];
        range.is_damaged.store(false, Ordering::Release);
        range.start.store(start, Ordering::Release);
        range.end.store(end, Ordering::Release);
        Some(Guarded(index))
    }

    /// Whether a read found no file behind the mapping, and got zeros.
    pub(crate) fn is_damaged(&self) -> bool {
        RANGES[self.0].is_damaged.load(Ordering::Acquire)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        RANGES[self.0].end.store(0, Ordering::Release);
    }
}

/// Installs the handler; returns the one before it, or `None` if the system refuses.
fn install() -> Option<libc::sigaction> {
    // SAFETY: asks for a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE.store(
        usize::try_from(page).ok().filter(|page| page.is_power_of_two())?,
        Ordering::Release,
    );
    // SAFETY: a `sigaction` is plain data, for which zeros are valid.
    let (mut before, mut own): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    let handler: unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
    own.sa_sigaction = handler as *const () as usize;
    // on the alternate stack if the thread has one, as the standard library's handler
    own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: both structs live during the call, and the handler is one for `SA_SIGINFO`.
    let done = unsafe {
        libc::sigemptyset(&raw mut own.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const own, &raw mut before)
    };
    (done == 0).then_some(before)
}

unsafe extern "C" fn on_bus_error(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the system passes a valid record; the address is set for faults, the only ones it is used for.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code == BUS_ADRERR && replace(address) {
        return;
    }
    // SAFETY: the arguments are those of this handler.
    unsafe { pass_on(signal, info, context, code) };
}

/// Replaces the registered mapping from the page of this address on by zeros. Returns false if the address is
/// in none.
fn replace(address: usize) -> bool {
    let page = address & !(PAGE.load(Ordering::Acquire) - 1);
    for range in &RANGES {
        let end = range.end.load(Ordering::Acquire);
        let start = range.start.load(Ordering::Acquire);
        // read twice: the range may have become another's in between
        if address < start || address >= end || range.end.load(Ordering::Acquire) != end {
            continue;
        }
        range.is_damaged.store(true, Ordering::Release);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the pages belong to a mapping of ours, because it is registered until it is unmapped, and a
        // thread is reading it. They have no file behind them any more, so nothing that was read changes.
        let new = unsafe {
            libc::mmap(
                page as *mut libc::c_void,
                end - page,
                libc::PROT_READ,
                flags,
                -1,
                0,
            )
        };
        return new != libc::MAP_FAILED;
    }
    false
}

/// Does what would have been done without this module's handler.
///
/// # Safety
/// The arguments are those of a signal handler with `SA_SIGINFO`.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void, code: i32) {
    let before = BEFORE.get().and_then(Option::as_ref);
    let action = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    let has_info = before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0);
    let is_fault = code > 0;
    match action {
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: sets the default action, with which the fault then occurs again; a signal that another
            // process sent does not, and is raised again for when this handler has returned.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if !is_fault {
                    libc::raise(signal);
                }
            }
        }
        handler if has_info => {
            // SAFETY: the system was given this address as a handler with these arguments.
            let handler: unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            // SAFETY: as above.
            unsafe { handler(signal, info, context) };
        }
        handler => {
            // SAFETY: the system was given this address as a handler with this argument.
            let handler: unsafe extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            // SAFETY: as above.
            unsafe { handler(signal) };
        }
    }
}
