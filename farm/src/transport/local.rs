//! This host itself as a board.

use std::path::Path;
use std::process::Command as Program;

use super::shell::{self, Shell};
use super::{Command, Exit, Transport, TransportError};
use crate::blob::Blob;

/// Runs on this host.
#[derive(Debug, Clone, Default)]
pub struct Local;

impl Shell for Local {
    fn program(&self, script: &str) -> Program {
        let mut program = Program::new("sh");
        program.args(["-c", script]);
        program
    }
}

impl Transport for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn execute(&self, command: &Command, line: &mut dyn FnMut(&str)) -> Result<Exit, TransportError> {
        shell::execute(self, command, line)
    }

    fn put(&self, blob: &Blob, to: &str) -> Result<(), TransportError> {
        shell::put(self, blob, to)
    }

    fn get(&self, from: &str, to: &Path) -> Result<u64, TransportError> {
        shell::get(self, from, to)
    }

    fn lengths(&self, paths: &[String]) -> Result<Vec<Option<u64>>, TransportError> {
        shell::lengths(self, paths)
    }

    fn probe(&self) -> Result<String, TransportError> {
        shell::probe(self)
    }
}
