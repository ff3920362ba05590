//! A plugin library that runs in a process of its own.

use std::path::PathBuf;
use std::time::Duration;

/// Limits on the plugin's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest time for starting the process and for the calls `create`, `device_open`,
    /// `query_support`, `compile`, `blob_bytes` and `load`. After that, the process is killed.
    pub long_call: Duration,
    /// Longest time for any other call, unless the caller has a limit of its own
    /// ([`CallLimit`](crate::CallLimit)). After that, the process is killed.
    pub call: Duration,
    /// Number of deaths after which this app no longer restarts the plugin.
    pub deaths: u32,
    /// Delay before the first restart; it is four times as long before each further one.
    pub restart_delay: Duration,
}

impl Default for Limits {
    /// Ten minutes, one minute, three deaths, 50 milliseconds.
    fn default() -> Limits {
        Limits {
            long_call: Duration::from_secs(600),
            call: Duration::from_secs(60),
            deaths: 3,
            restart_delay: Duration::from_millis(50),
        }
    }
}

/// Told when the processes of a plugin have died as often as is permitted.
pub trait OnQuarantine: Send + Sync {
    /// `deaths` processes died, the last one as `words` describe. Called once, from any thread.
    fn quarantined(&self, deaths: u32, words: &str);
}

/// A plugin library, and the program that loads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Isolated {
    /// The program `polychip-plugin-host`.
    pub program: PathBuf,
    /// The plugin library.
    pub library: PathBuf,
    /// Limits on its process.
    pub limits: Limits,
    /// Whether the kernel confines the process: it may then write only to devices, temporary files and caches, and
    /// reaches no network.
    pub is_confined: bool,
}

impl Isolated {
    /// A plugin library with the default limits.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, library: impl Into<PathBuf>) -> Isolated {
        Isolated {
            program: program.into(),
            library: library.into(),
            limits: Limits::default(),
            is_confined: true,
        }
    }

    /// Finds the program: `POLYCHIP_PLUGIN_HOST`, else beside this program or in the folder above
    /// it, else beside `library`. The path is absolute.
    ///
    /// # Errors
    /// The program is in none of these places. The text lists them.
    pub fn find_program(library: &std::path::Path) -> Result<PathBuf, String> {
        let name = format!("{}{}", crate::PROGRAM, std::env::consts::EXE_SUFFIX);
        if let Some(path) = crate::trusted_variable("POLYCHIP_PLUGIN_HOST").map(PathBuf::from) {
            if path.is_file() {
                return Ok(absolute(path));
            }
            return Err(format!(
                "POLYCHIP_PLUGIN_HOST names {}, which is no file",
                path.display()
            ));
        }
        let this = std::env::current_exe().ok();
        let beside = this.as_deref().and_then(|path| path.parent());
        let places = [
            beside,
            beside.and_then(|folder| folder.parent()),
            library.parent(),
        ];
        let tried: Vec<PathBuf> = places
            .into_iter()
            .flatten()
            .map(|folder| folder.join(&name))
            .collect();
        let found = tried.iter().find(|path| path.is_file()).cloned();
        found.map(absolute).ok_or_else(|| {
            let tried: Vec<String> = tried.iter().map(|path| path.display().to_string()).collect();
            format!(
                "the program {name}, which loads plugins in a process of their own, is missing (looked for {}); \
                 install it there or set POLYCHIP_PLUGIN_HOST",
                tried.join(", ")
            )
        })
    }
}

/// The path from the root: a path without a slash would be looked for in `PATH`, and a relative one
/// changes its meaning with the working directory.
fn absolute(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

#[cfg(not(target_os = "linux"))]
impl Isolated {
    /// Not supported on this system.
    ///
    /// # Errors
    /// Always.
    pub fn query(&self) -> Result<polychip_abi::polychip_plugin_query_fn, String> {
        Err("plugins in a process of their own are not supported on this system; only on Linux".to_owned())
    }

    /// Nothing: there is no process that could die.
    pub fn tell(&self, _: &std::sync::Arc<dyn OnQuarantine>) {}

    /// None: no process can be started.
    #[must_use]
    pub fn confinement(&self) -> Option<crate::Confinement> {
        None
    }
}
