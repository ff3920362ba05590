//! `cargo xtask vendor`: the vendors' libraries that tests and users may want, fetched into `target/vendor`.
//!
//! Invariants:
//! 1. A library whose licence binds everyone who downloads it is fetched only where `--accept-licence` states that a
//!    person has read and accepted it; without the flag this program explains and does nothing.
//! 2. A folder below `target/vendor` is whole or absent: it is made under another name and renamed.
//! 3. Nothing here is part of the product, and nothing fetched is ever committed or shipped.
//!
//! Debian's packages are in [`debian`], Google's LiteRT and trained models in [`litert`], a language model in [`gguf`], a client of its server in [`openai`].
//!
//! Not here: finding the libraries at run time (`sys`).

mod coreml;
pub(crate) mod debian;
mod gguf;
mod litert;
mod openai;
mod package;
mod rknn;
pub(crate) mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::root::root;
pub(crate) use package::Options;
use package::{Licence, Name, Package, allowed, println_line};
use wheel::{download, remove, unpack};

const QNN: Package = Package {
    package: "onnxruntime-qnn",
    versions: &["2.7.0", "2.5.0"],
    folder: "qnn",
    per_version: true,
    variable: "QNN_LIB_DIR",
    files: &["libQnnHtp.so", "libQnnSystem.so"],
    licence: Licence::Binding(
        "The QNN libraries belong to Qualcomm. They come in the Python package onnxruntime-qnn (PyPI), whose own code \
         is MIT; the libraries in it are under the \"AI Stack License\" (a PDF in the package). Downloading or using them \
         accepts that licence and affirms the authority to bind one's organisation. Among other \
         things it forbids reverse engineering and passing the libraries on by themselves, holds an indemnity and a \
         covenant on patents, and can be withdrawn. Only a person can accept it: read it first, and decide.\n\
         The libraries of the package run on x86_64 Linux (glibc 2.34 or later, libatomic) and emulate the neural \
         processor: they say whether results are right, never how fast a device is. For a device take the libraries \
         of Qualcomm's SDK and set QNN_SDK_ROOT.",
    ),
};

const OPENVINO: Package = Package {
    package: "openvino",
    versions: &["2026.4.1"],
    folder: "openvino",
    per_version: false,
    variable: "OPENVINO_LIB_DIR",
    files: &["libopenvino_c.so"],
    licence: Licence::Free("Apache-2.0"),
};

/// Explains, and fetches where that is allowed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let package = match options.library {
        Name::Qnn => &QNN,
        Name::Openvino => &OPENVINO,
        Name::Litert => {
            let folder = litert::install(&root().join("target/vendor"))?;
            eprintln!("vendor: LiteRT and models are in {}", folder.display());
            return Ok(());
        }
        Name::Coreml => {
            println_line(&coreml::install(&root().join("target/vendor"))?);
            return Ok(());
        }
        Name::Gguf => {
            let folder = gguf::install(&root().join("target/vendor"))?;
            eprintln!("vendor: SmolLM2 and its judges are in {}", folder.display());
            return Ok(());
        }
        Name::Openai => {
            let folder = openai::install(&root().join("target/vendor"))?;
            eprintln!("vendor: OpenAI's client is in {}", folder.display());
            return Ok(());
        }
        Name::Rknn => return rknn::install(options, &root().join("target/vendor")),
        Name::Mesa => {
            let folder = debian::install(&debian::MESA)?;
            println_line(&format!(
                "export VK_DRIVER_FILES={}",
                folder.join("lvp.json").display()
            ));
            return Ok(());
        }
        Name::Kernel => {
            debian::install(&debian::KERNEL)?;
            return Ok(());
        }
        Name::Aarch64 => {
            println_line(&format!(
                "export RUSTC={}",
                debian::install_compiler()?.join("rustc").display()
            ));
            return Ok(());
        }
    };
    install(package, options, &root().join("target/vendor"))
}

/// Where OpenVINO's libraries lie, if they were fetched.
pub(crate) fn openvino() -> Option<PathBuf> {
    let folder = root().join("target/vendor").join(OPENVINO.folder);
    folder
        .join(".stamp")
        .is_file()
        .then(|| holder(&folder, OPENVINO.files).ok())?
}

fn install(package: &Package, options: &Options, vendor: &Path) -> Result<()> {
    let version = allowed(package, options)?;
    let mut folder = vendor.join(package.folder);
    if package.per_version {
        folder = folder.join(version);
    }
    let stamp = folder.join(".stamp");
    let wanted = format!("{} {version}\n", package.package);
    let there = fs::read_to_string(&stamp).is_ok_and(|old| old == wanted) && options.wheel.is_none();
    if there {
        eprintln!("vendor: {} is up to date", folder.display());
    } else {
        make(
            package,
            version,
            options.wheel.as_deref(),
            vendor,
            &folder,
            &wanted,
        )?;
    }
    let libraries = holder(&folder, package.files)?;
    println_line(&format!("export {}={}", package.variable, libraries.display()));
    Ok(())
}

/// Fills `folder` with what the wheel holds; until all is there it has another name.
fn make(
    package: &Package,
    version: &str,
    wheel: Option<&Path>,
    vendor: &Path,
    folder: &Path,
    stamp: &str,
) -> Result<()> {
    let half = vendor.join(format!(".half-{}-{}", package.folder, std::process::id()));
    remove(&half)?;
    fs::create_dir_all(&half).with_context(|| format!("creating {}", half.display()))?;
    let result = (|| {
        let wheel = match wheel {
            Some(wheel) => wheel.to_owned(),
            None => download(package.package, version, &[], vendor, &half.join("wheel"))?,
        };
        let content = half.join("content");
        // the whole wheel: its package and the sibling folder of libraries refer to each other by relative paths
        unpack(&wheel, &content)?;
        holder(&content, package.files).with_context(|| format!("in {}", wheel.display()))?;
        fs::write(content.join(".stamp"), stamp)?;
        remove(folder)?;
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        }
        fs::rename(&content, folder).with_context(|| format!("making {}", folder.display()))
    })();
    let removed = remove(&half);
    result.and(removed)
}

/// The folder that holds all of the files, by these names or with a version behind them.
fn holder(folder: &Path, files: &[&str]) -> Result<PathBuf> {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        // the same order on every machine
        open.sort();
        let there = |file: &&str| {
            names.iter().any(|name| {
                name.strip_prefix(*file)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        };
        if files.iter().all(there) {
            return Ok(folder);
        }
    }
    bail!("no folder of {} holds {}", folder.display(), files.join(" and "))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A wheel of our own with these files, made by Python as a person would make one.
    fn wheel(folder: &Path, files: &[&str]) -> PathBuf {
        let script = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as z:\n \
                      [z.writestr(name, 'text of ' + name) for name in sys.argv[2:]]\n";
        let wheel = folder.join("fake-1.0-py3-none-any.whl");
        let status = Command::new("python3")
            .args(["-c", script])
            .arg(&wheel)
            .args(files)
            .status()
            .unwrap();
        assert!(status.success());
        wheel
    }

    fn options(library: Name, accept_licence: bool, wheel: Option<PathBuf>) -> Options {
        Options {
            library,
            version: None,
            wheel,
            accept_licence,
        }
    }

    const QNN_FILES: [&str; 3] = [
        "onnxruntime_qnn/libQnnHtp.so",
        "onnxruntime_qnn/libQnnSystem.so",
        "onnxruntime_qnn.libs/libc++-1234.so.1",
    ];

    #[test]
    fn without_acceptance_nothing_happens() {
        let folder = tempfile::tempdir().unwrap();
        let vendor = folder.path().join("vendor");
        let wheel = wheel(folder.path(), &QNN_FILES);
        let error = install(&QNN, &options(Name::Qnn, false, Some(wheel)), &vendor).unwrap_err();
        assert!(error.to_string().starts_with("nothing was downloaded"), "{error}");
        assert!(error.to_string().contains("--accept-licence"), "{error}");
        assert!(!vendor.exists());
    }

    #[test]
    fn a_wheel_is_unpacked_with_package_and_siblings_side_by_side() {
        let folder = tempfile::tempdir().unwrap();
        let vendor = folder.path().join("vendor");
        let made = wheel(folder.path(), &QNN_FILES);
        install(&QNN, &options(Name::Qnn, true, Some(made.clone())), &vendor).unwrap();
        let to = vendor.join("qnn/2.7.0");
        for file in QNN_FILES {
            assert_eq!(
                fs::read_to_string(to.join(file)).unwrap(),
                format!("text of {file}")
            );
        }
        assert_eq!(holder(&to, QNN.files).unwrap(), to.join("onnxruntime_qnn"));
        // nothing half-made is left
        let left: Vec<_> = fs::read_dir(&vendor).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
        // once there, no download is made: this would need the index
        install(&QNN, &options(Name::Qnn, true, None), &vendor).unwrap();
    }

    #[test]
    fn a_wheel_without_the_library_leaves_the_old_folder() {
        let folder = tempfile::tempdir().unwrap();
        let vendor = folder.path().join("vendor");
        let good = wheel(folder.path(), &["openvino/libs/libopenvino_c.so.2641"]);
        install(&OPENVINO, &options(Name::Openvino, false, Some(good)), &vendor).unwrap();
        let library = vendor.join("openvino/openvino/libs/libopenvino_c.so.2641");
        assert!(library.is_file());
        let bad = wheel(folder.path(), &["openvino/libs/libother.so"]);
        let error = install(&OPENVINO, &options(Name::Openvino, false, Some(bad)), &vendor).unwrap_err();
        assert!(format!("{error:#}").contains("libopenvino_c.so"), "{error:#}");
        let no_zip = folder.path().join("no.whl");
        fs::write(&no_zip, "text").unwrap();
        let error = install(&OPENVINO, &options(Name::Openvino, false, Some(no_zip)), &vendor).unwrap_err();
        assert!(error.to_string().contains("cannot be unpacked"), "{error:#}");
        assert!(library.is_file());
    }

    #[test]
    fn version_must_not_be_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(Name::Openvino, false, None);
        options.version = Some("../../etc".to_owned());
        let error = install(&OPENVINO, &options, folder.path()).unwrap_err();
        assert!(error.to_string().contains("no version"), "{error}");
    }
}
