//! The command that starts a sandbox.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

static COMMAND: Mutex<Option<Vec<OsString>>> = Mutex::new(None);

/// Sets the command that starts a sandbox: a program that calls [`serve`](super::serve) and does
/// nothing else, and its arguments. An app that has no `polychip-llm-sandbox` beside it may name itself.
pub fn set_command(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = OsString>) {
    let program = program.into().into_os_string();
    let command = std::iter::once(program).chain(arguments).collect();
    *COMMAND.lock().unwrap_or_else(PoisonError::into_inner) = Some(command);
}

/// Whether templates and grammars are read in processes of their own.
#[must_use]
pub fn is_available() -> bool {
    command().is_some()
}

/// The command that starts a sandbox.
pub(super) fn command() -> Option<Vec<OsString>> {
    let set = COMMAND.lock().unwrap_or_else(PoisonError::into_inner).clone();
    set.or_else(|| found().map(|program| vec![program.clone().into_os_string()]))
}

/// The program beside this one, or above Cargo's folders of tests and examples. None for a program
/// with its owner's rights (set-uid): another user may have put it there by a link.
fn found() -> Option<&'static PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let search = || {
        let own = std::env::current_exe().ok()?;
        let folder = own.parent()?;
        let is_cargos = folder.ends_with("deps") || folder.ends_with("examples");
        let above = folder.parent().filter(|_| is_cargos);
        let name = format!("polychip-llm-sandbox{}", std::env::consts::EXE_SUFFIX);
        let mut programs = std::iter::once(folder)
            .chain(above)
            .map(|folder: &Path| folder.join(&name));
        programs
            .find(|program| program.is_file())
            .filter(|_| !has_owners_rights())
    };
    FOUND.get_or_init(search).as_ref()
}

/// Whether this program runs with the rights of its owner instead of its user.
fn has_owners_rights() -> bool {
    #[cfg(unix)]
    {
        use rustix::process::{getegid, geteuid, getgid, getuid};
        geteuid() != getuid() || getegid() != getgid()
    }
    #[cfg(not(unix))]
    {
        false
    }
}
