//! Test requirements of a machine: drivers, vendor libraries, data, and libraries built from this repository.
//!
//! Invariants:
//! 1. A test without its requirement does not pass: a suite reports it as skipped, with the requirement's name
//!    ([`skipped`]); a unit test, whose harness has no such report, prints the same words ([`absent`]).
//! 2. If `POLYCHIP_EXPECT` lists the requirement (`vulkan,opencl`), the test fails instead, so that an installed but
//!    undetected driver does not go unnoticed.
//!
//! Not here: finding a driver or a library (each suite does), counting what was skipped (`cargo xtask ci`).

#![forbid(unsafe_code)]

pub mod libraries;

use libtest_mimic::Trial;

/// Names of needs that are met here, separated by commas.
pub const EXPECT: &str = "POLYCHIP_EXPECT";

/// Something that a test needs and a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A Vulkan driver, in software too.
    Vulkan,
    /// A Vulkan driver in software: a device that hangs on purpose must not be a real one.
    SoftwareVulkan,
    /// Something of a GPU that not every GPU has.
    GpuFeature,
    /// An OpenCL driver, in software too.
    Opencl,
    /// Intel's library.
    Openvino,
    /// Google's LiteRT with its compiler plugins, and trained models.
    Litert,
    /// Trained models that read text, of a public package.
    Ocr,
    /// Apple's coremltools in a Python.
    Coremltools,
    /// Qualcomm's library for this processor.
    QnnLibrary,
    /// Headers of Qualcomm's SDK.
    QnnSdk,
    /// Models and cases that `cargo xtask models` makes.
    Models,
    /// The Python of `cargo xtask models`.
    Python,
    /// A C++ compiler.
    Cpp,
    /// The compilers of LLVM, beside those of the system.
    Clang,
    /// A compiler's sanitizers, and libraries of theirs.
    Sanitizers,
    /// A system and a driver that share dma-bufs.
    DmaBuf,
    /// Rockchip's toolkit, whose licence a person has accepted.
    RknnToolkit,
    /// Headers of Huawei's AscendCL, whose licence a person has accepted.
    AscendHeaders,
    /// Sources of crates that are not built here, from the registry.
    CrateRegistry,
    /// An SSH server's program, which a test starts for itself.
    Sshd,
    /// A user who may mount a file system in memory.
    Tmpfs,
    /// A user who may make namespaces.
    Namespaces,
    /// The Python package `gguf`.
    Gguf,
    /// The language model SmolLM2, of a public package.
    Smollm2,
    /// OpenAI's client in a Python.
    Openai,
}

impl Need {
    /// All of them.
    pub const ALL: [Need; 25] = [
        Need::Vulkan,
        Need::SoftwareVulkan,
        Need::GpuFeature,
        Need::Opencl,
        Need::Openvino,
        Need::Litert,
        Need::Ocr,
        Need::Coremltools,
        Need::QnnLibrary,
        Need::QnnSdk,
        Need::Models,
        Need::Python,
        Need::Cpp,
        Need::Clang,
        Need::Sanitizers,
        Need::DmaBuf,
        Need::RknnToolkit,
        Need::AscendHeaders,
        Need::CrateRegistry,
        Need::Sshd,
        Need::Tmpfs,
        Need::Namespaces,
        Need::Gguf,
        Need::Smollm2,
        Need::Openai,
    ];

    /// The name in reports and in `POLYCHIP_EXPECT`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Need::Vulkan => "vulkan",
            Need::SoftwareVulkan => "software-vulkan",
            Need::GpuFeature => "gpu-feature",
            Need::Opencl => "opencl",
            Need::Openvino => "openvino",
            Need::Litert => "litert",
            Need::Ocr => "ocr",
            Need::Coremltools => "coremltools",
            Need::QnnLibrary => "qnn-library",
            Need::QnnSdk => "qnn-sdk",
            Need::Models => "models",
            Need::Python => "python",
            Need::Cpp => "c++",
            Need::Clang => "clang",
            Need::Sanitizers => "sanitizers",
            Need::DmaBuf => "dma-buf",
            Need::RknnToolkit => "rknn-toolkit",
            Need::AscendHeaders => "ascend-headers",
            Need::CrateRegistry => "crate-registry",
            Need::Sshd => "sshd",
            Need::Tmpfs => "tmpfs",
            Need::Namespaces => "namespaces",
            Need::Gguf => "gguf",
            Need::Smollm2 => "smollm2",
            Need::Openai => "openai",
        }
    }

    /// Whether somebody said that it is met here.
    #[must_use]
    pub fn is_expected(self) -> bool {
        let said = std::env::var(EXPECT).unwrap_or_default();
        expects(&said, self)
    }

    /// The words of a report. `cargo xtask ci` looks for them.
    fn words(self, why: &str) -> String {
        format!("skipped, needs {}: {}", self.name(), why.replace('\n', " "))
    }

    /// The words of a failure.
    fn missed(self, why: &str) -> String {
        format!("{EXPECT} says that {} is here: {why}", self.name())
    }
}

fn expects(said: &str, need: Need) -> bool {
    said.split(',').any(|name| name.trim() == need.name())
}

/// A trial in whose place a need is not met: reported as skipped, or failed where the need is expected.
#[must_use]
pub fn skipped(name: &str, need: Need, why: &str) -> Trial {
    if need.is_expected() {
        let words = need.missed(why);
        return Trial::test(name, move || Err(words.into()));
    }
    Trial::test(format!("{name} ({})", need.words(why)), || Ok(())).with_ignored_flag(true)
}

/// A trial that nobody can pass, reported as left out with the reason.
#[must_use]
pub fn left_out(name: &str, why: &str) -> Trial {
    Trial::test(format!("{name} (left out: {why})"), || Ok(())).with_ignored_flag(true)
}

/// Says of a unit test that it cannot run; the caller returns then.
///
/// # Panics
/// The need is expected to be met.
pub fn absent(need: Need, why: &str) {
    assert!(!need.is_expected(), "{}", need.missed(why));
    eprintln!("{}", need.words(why));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn need_is_matched_by_its_full_name() {
        assert!(expects("vulkan, opencl", Need::Opencl));
        assert!(!expects("software-vulkan", Need::Vulkan));
        assert!(!expects("", Need::Models));
    }

    #[test]
    fn names_differ_and_hold_no_comma() {
        for (index, need) in Need::ALL.iter().enumerate() {
            assert!(!need.name().contains([',', ' ', ':']));
            assert!(
                Need::ALL[index + 1..]
                    .iter()
                    .all(|other| other.name() != need.name())
            );
        }
    }
}
