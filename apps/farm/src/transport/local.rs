//! This host itself as a board.

use std::process::Command as Program;

use super::shell::Shell;

/// Runs on this host.
#[derive(Debug, Clone, Default)]
pub struct Local;

impl Shell for Local {
    const NAME: &'static str = "local";

    fn program(&self, script: &str) -> Program {
        let mut program = Program::new("sh");
        program.args(["-c", script]);
        program
    }
}
