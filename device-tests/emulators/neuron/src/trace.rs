//! The calls, one line of JSON each, for tests that compare clients.

use std::fs::File;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::Value;

static FILE: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    let path = std::env::var_os("POLYCHIP_NEURON_TRACE")?;
    match File::options().create(true).append(true).open(&path) {
        Ok(file) => Some(Mutex::new(file)),
        Err(error) => {
            eprintln!("POLYCHIP_NEURON_TRACE: {}: {error}", path.display());
            None
        }
    }
});

/// Writes a call; `line` runs only if there is a trace.
pub(crate) fn write(line: impl FnOnce() -> Value) {
    if let Some(file) = &*FILE {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(file, "{}", line()) {
            eprintln!("POLYCHIP_NEURON_TRACE: {error}");
        }
    }
}
