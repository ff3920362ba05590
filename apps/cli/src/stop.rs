//! A command that is ended from outside ends in order.
//!
//! Invariant: who ends it twice does not wait for that.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
