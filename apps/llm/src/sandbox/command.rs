//! The command that starts a sandbox.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

static COMMAND: Mutex<Option<Vec<OsString>>> = Mutex::new(None);

/// Sets the command that starts a sandbox: a program that calls [`serve`](super::serve) and does nothing else, and its arguments. An
/// app that has no `polychip-llm-sandbox` beside it may name itself.
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

/// The program beside this one, or in the folder above it.
fn found() -> Option<&'static PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let search = || {
        let own = std::env::current_exe().ok()?;
        let folders = own.ancestors().skip(1).take(2);
        let name = format!("polychip-llm-sandbox{}", std::env::consts::EXE_SUFFIX);
        let mut programs = folders.map(|folder: &Path| folder.join(&name));
        programs.find(|program| program.is_file())
    };
    FOUND.get_or_init(search).as_ref()
}
