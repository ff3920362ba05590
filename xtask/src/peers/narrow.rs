//! Limits all runners, ours and the peers', to a smaller instruction set than the machine's.
//!
//! Invariant: the limit is verified before any run, with NumPy's own detection.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::root::root;

/// An instruction set to hold runners to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Isa {
    /// x86-64 with AVX2 and FMA: no AVX-512, no VNNI, no AMX
    Avx2,
}

const SOURCE: &str = "device-tests/peers/narrow.c";

/// What holds a runner.
pub(super) struct Held {
    library: PathBuf,
}

impl Isa {
    pub(super) fn name(self) -> &'static str {
        match self {
            Isa::Avx2 => "avx2",
        }
    }

    /// Builds what holds runners, and sees that it does.
    ///
    /// # Errors
    /// There is no C compiler, or this machine cannot be held.
    pub(super) fn held(self, folder: &Path, python: &Path) -> Result<Held> {
        let library = folder.join("narrow.so");
        let status = Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(root().join(SOURCE))
            .arg("-ldl")
            .status()
            .context("cc")?;
        ensure!(status.success(), "{SOURCE} does not compile here");
        let held = Held { library };
        let mut command = Command::new(python);
        held.hold(&mut command);
        let output = command
            .args(["-B", "-c"])
            .arg(
                "import numpy as n; f = n._core._multiarray_umath.__cpu_features__; \
                 print(f['AVX2'], any(v for k, v in f.items() if k.startswith('AVX512')))",
            )
            .output()
            .with_context(|| python.display().to_string())?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            said.trim() == "True False",
            "this machine cannot be limited to AVX2: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(held)
    }
}

impl Held {
    /// Holds a program, and those that it starts.
    pub(super) fn hold(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library);
        // the C library chooses its copies before anything can be held
        command.env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW");
    }
}
