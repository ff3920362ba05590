//! What the child gives up before it opens the library.

#![allow(
    unsafe_code,
    reason = "inherited descriptors, which nothing here owns, are closed"
)]

use rustix::process::{Resource, Rlimit, getppid, getrlimit, setrlimit};

/// The first descriptor behind standard input, output and error.
const FIRST: i32 = 3;

/// Largest permitted number of open files: systemd's default for the hard limit. In some containers
/// the hard limit is 1e9; programs that close every possible descriptor then take minutes.
const MOST_FILES: u64 = 524_288;

/// Restricts this process before it opens anything: it gets no new privileges through `exec`,
/// closes the app's descriptors, and ends with the host's thread that watches it. Call it first.
///
/// # Errors
/// The process that started this one has ended.
pub fn restrict() -> Result<(), String> {
    // both exist since Linux 3.5; a kernel that refuses takes nothing
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let _ = rustix::thread::set_no_new_privs(true);
    // a parent that ended before the first call sends no signal
    if let Ok(host) = rustix::net::sockopt::socket_peercred(rustix::stdio::stdin())
        && getppid() != Some(host.pid)
    {
        return Err(format!(
            "process {} at the other end of standard input is not the parent of this one, or has ended",
            host.pid
        ));
    }
    close_inherited();
    // every buffer and part of the plugin holds descriptors
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(MOST_FILES).min(MOST_FILES);
    if limit.current.is_some_and(|current| current < most) {
        let raised = Rlimit {
            current: Some(most),
            ..limit
        };
        let _ = setrlimit(Resource::Nofile, raised);
    }
    Ok(())
}

/// Closes all descriptors that the app did not mark as closed on `exec`.
fn close_inherited() {
    // SAFETY: the call takes three numbers; this process has opened nothing itself yet.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, u32::MAX, 0) };
    if closed == 0 {
        return;
    }
    // before Linux 5.9
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd >= FIRST)
        .collect();
    for fd in open {
        // SAFETY: this process has opened nothing itself yet; the folder's own descriptor is closed, which is an
        // error without effect.
        unsafe { libc::close(fd) };
    }
}
