//! A program of tests, and its name in results.

use std::path::PathBuf;

/// A program of tests.
pub(super) struct Program {
    pub(super) package: String,
    /// Name of the target within its package.
    pub(super) target: String,
    /// Whether it is a test of integration, not the tests within a library or a program.
    pub(super) is_integration: bool,
    /// Whether it is the tests within a program whose package has a library of the same name.
    pub(super) is_beside_library: bool,
    /// Whether the compiler's harness runs its tests; other suites bring their own, with fewer options.
    pub(super) is_harness: bool,
    pub(super) file: PathBuf,
    /// Where cargo would start it.
    pub(super) folder: PathBuf,
    /// When it and what it loads was built last, in nanoseconds since 1970.
    pub(super) built_ns: u64,
}

impl Program {
    /// As `polychip-farm::boards`; a library's own tests are `polychip-farm`, those of a program beside it
    /// `polychip-mutants (program)`.
    pub(super) fn name(&self) -> String {
        if self.is_integration {
            format!("{}::{}", self.package, self.target)
        } else if self.is_beside_library {
            format!("{} (program)", self.package)
        } else if self.target.replace('_', "-") == self.package {
            self.package.clone()
        } else {
            format!("{} ({})", self.package, self.target)
        }
    }
}
