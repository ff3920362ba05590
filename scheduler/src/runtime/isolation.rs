//! Settings of plugins in processes of their own.

use std::time::Duration;

use polychip_host::Isolate;

use super::Builder;
#[allow(unused_imports, reason = "named in documentation")]
use super::{Policy, Runtime};

impl Builder {
    /// Runs plugin libraries in processes of their own, so that a driver's crash loses its device and
    /// not the app. The default is [`Isolate::None`]; the `polychip` command uses [`Isolate::Auto`], and
    /// [`Isolate::Probe`] where it measures. Needs the program `polychip-plugin-host` beside the app or
    /// the plugin, or in `POLYCHIP_PLUGIN_HOST`; a plugin that cannot be isolated is listed in
    /// [`Runtime::refusals`]. Linux only.
    #[must_use]
    pub fn isolate(mut self, isolate: Isolate) -> Self {
        self.isolate = isolate;
        self
    }

    /// Sets whether the kernel confines the processes of [`Builder::isolate`] with Landlock and
    /// seccomp. Their drivers may then write only to devices, temporary files and caches, and reach
    /// no network. The default is yes. [`PluginInfo::confinement`](crate::PluginInfo) lists what
    /// holds.
    #[must_use]
    pub fn sandbox(mut self, confines: bool) -> Self {
        self.sandbox = confines;
        self
    }

    /// Sets how long a call of a plugin in a process of its own may take, if it may be slow: `create`,
    /// `device_open`, `query_support`, `compile`, `blob_bytes` and `load`. Then the process is killed
    /// and the device is lost. The default is 10 minutes.
    #[must_use]
    pub fn compile_timeout(mut self, timeout: Duration) -> Self {
        self.limits.long_call = timeout;
        self
    }

    /// Sets how long any other call of a plugin in a process of its own may take. The default is one
    /// minute. Calls for a session with a [`Policy::hang_timeout`] may take that long instead.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.limits.call = timeout;
        self
    }

    /// Sets the delay before a plugin's process is started again for the first time. It is four times as
    /// long before each further restart. The default is 50 ms; zero removes the delays.
    #[must_use]
    pub fn restart_delay(mut self, delay: Duration) -> Self {
        self.limits.restart_delay = delay;
        self
    }

    /// Sets after how many deaths of its processes a plugin is quarantined: this program does not start it
    /// again, and later programs with the same profile leave its devices out until the driver or the plugin
    /// is another. The default is 3.
    #[must_use]
    pub fn death_limit(mut self, deaths: u32) -> Self {
        self.limits.deaths = deaths;
        self
    }

    /// Forgets, when the runtime is built, which of its plugins were quarantined in earlier programs
    /// ([`Builder::death_limit`]).
    #[must_use]
    pub fn clear_quarantine(mut self) -> Self {
        self.clears_quarantine = true;
        self
    }
}
