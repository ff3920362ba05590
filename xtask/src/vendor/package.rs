//! Arguments of `cargo xtask vendor`, and a library as a package index offers it.
//!
//! Invariant: what is under a binding licence is not fetched before a person accepted it.

use std::path::PathBuf;

use anyhow::{Result, ensure};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Vendor library to fetch
    #[arg(value_enum)]
    pub(super) library: Name,
    /// Version to fetch instead of the pinned one
    #[arg(long)]
    pub(super) version: Option<String>,
    /// Local wheel to use instead of a download
    #[arg(long, value_name = "FILE")]
    pub(super) wheel: Option<PathBuf>,
    /// Confirm that you have read and accept the vendor's licence, where downloading requires it
    #[arg(long)]
    pub(super) accept_licence: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Name {
    /// Qualcomm QNN: libQnnHtp.so with the x86 emulator of the NPU
    Qnn,
    /// Intel OpenVINO
    Openvino,
    /// Google LiteRT, whose compiler plugins are clients of vendor libraries, and pretrained .tflite models
    Litert,
    /// Apple coremltools, which check Core ML packages
    Coreml,
    /// Python packages that check the reading of language model files, and the language model SmolLM2
    Gguf,
    /// OpenAI's Python client, which tests `polychip serve`
    Openai,
    /// Rockchip's NPU compiler, in a separate Python environment
    Rknn,
    /// Mesa 25's software Vulkan driver, next to Debian 12's own
    Mesa,
    /// A Linux kernel with dma-buf allocation, for `cargo xtask guest`
    Kernel,
    /// Debian's Rust compiler with the aarch64 standard library, for `cargo xtask arm` without rustup
    Aarch64,
}

/// A library as Python's package index offers it.
pub(super) struct Package {
    /// Name on the index.
    pub(super) package: &'static str,
    /// Versions that our tests know; the first is fetched.
    pub(super) versions: &'static [&'static str],
    /// Where it is put, below `target/vendor`, with the version behind it or not.
    pub(super) folder: &'static str,
    pub(super) per_version: bool,
    /// The variable that tells where the library lies.
    pub(super) variable: &'static str,
    /// Files by these names lie in one folder, which the variable names.
    pub(super) files: &'static [&'static str],
    /// The licence, and whether a person has to accept it.
    pub(super) licence: Licence,
}

pub(super) enum Licence {
    /// Free to use for everybody: the name.
    Free(&'static str),
    /// Binding by the download itself: what it is.
    Binding(&'static str),
}

/// The version that is to be fetched, once its licence allows that.
pub(super) fn allowed<'a>(package: &Package, options: &'a Options) -> Result<&'a str> {
    let version = options.version.as_deref().unwrap_or(package.versions[0]);
    ensure!(
        !version.is_empty() && version.chars().all(|c| c.is_ascii_alphanumeric() || c == '.'),
        "`{version}` is no version; tested are {}",
        package.versions.join(", ")
    );
    match package.licence {
        Licence::Free(name) => {
            eprintln!("vendor: {} {version} is under {name}", package.package);
        }
        Licence::Binding(words) => {
            eprintln!("{words}\n");
            ensure!(
                options.accept_licence,
                "nothing was downloaded. Once a person has read and accepted the licence: \
                 cargo xtask vendor {} --accept-licence   (versions our tests know: {})",
                package.folder,
                package.versions.join(", ")
            );
        }
    }
    Ok(version)
}

/// The one line that a shell can take.
#[allow(clippy::print_stdout)]
pub(super) fn println_line(line: &str) {
    println!("{line}");
}
