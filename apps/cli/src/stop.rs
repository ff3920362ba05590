//! A command that is ended from outside ends in order.
//!
//! Invariant: who ends it twice does not wait for that.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
#[cfg(feature = "farm")]
use std::sync::atomic::Ordering;
#[cfg(feature = "farm")]
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
#[cfg(feature = "farm")]
use std::time::Duration;

/// Sets the flag where the command is interrupted, as by Ctrl-C; while it is set, an interrupt ends the command.
pub(crate) fn on_interrupt(flag: &Arc<AtomicBool>) -> anyhow::Result<()> {
    #[cfg(unix)]
    {
        use anyhow::Context as _;
        use signal_hook::consts::SIGINT;
        signal_hook::flag::register_conditional_shutdown(SIGINT, 128 + SIGINT, Arc::clone(flag))
            .context("signals")?;
        signal_hook::flag::register(SIGINT, Arc::clone(flag)).context("signals")?;
    }
    #[cfg(not(unix))]
    let _ = flag;
    Ok(())
}

/// Sets the flag where the command is interrupted or ended.
pub(crate) fn on_signals(stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        use anyhow::Context as _;
        let code = 128 + signal;
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(stop))
            .context("signals")?;
        signal_hook::flag::register(signal, Arc::clone(stop)).context("signals")?;
    }
    #[cfg(not(unix))]
    let _ = stop;
    Ok(())
}

/// Time between two looks at the flag.
#[cfg(feature = "farm")]
const LOOK: Duration = Duration::from_millis(100);

/// Prints the words once the flag is set, unless the answer is dropped before.
#[cfg(feature = "farm")]
pub(crate) fn announce(stop: &Arc<AtomicBool>, words: &'static str) -> Sender<()> {
    let (keep, dropped) = channel();
    let stop = Arc::clone(stop);
    let watch = move || {
        while dropped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if stop.load(Ordering::Relaxed) {
                eprintln!("{words}");
                return;
            }
        }
    };
    // without the thread, the command ends in order all the same
    drop(std::thread::Builder::new().spawn(watch));
    keep
}
