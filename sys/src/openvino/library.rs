//! Opening `libopenvino_c`: candidate files, and the reasons for refusing one.
//!
//! Invariants:
//! 1. A returned library has every function of [`REQUIRED`] and the element codes of our header.
//! 2. A library is never closed: it has threads.
//!
//! Not here: optional functions, which are checked where they are used.

#![allow(unsafe_code, reason = "a foreign library is opened here")]

use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};

use super::bindings::{self as ov, Symbols};

/// The oldest release whose codes are those of our header.
pub const OLDEST: &str = "2025.0";
/// The newest year that is tried by name. Sonames end in year and release, without a dot.
const NEWEST_YEAR: u32 = 2027;
const OLDEST_YEAR: u32 = 2025;
/// Releases of one year are numbered from 0; patch releases add a digit (`2641` is 2026.4.1).
const RELEASES: u32 = 6;
const PATCHES: u32 = 4;

/// The reason why the library cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Repr);

#[derive(Debug, thiserror::Error)]
enum Repr {
    #[error(
        "libopenvino_c {OLDEST} or newer was not found in {folder}: {words}; set OPENVINO_LIB_DIR to the folder that holds it \
         (in Python's package openvino: openvino/libs)"
    )]
    NotInFolder { folder: PathBuf, words: String },
    #[error(
        "libopenvino_c {OLDEST} or newer was not found on this system: {words}; install OpenVINO (pip install openvino) and \
         set OPENVINO_LIB_DIR to the folder that holds it (in Python's package: openvino/libs)"
    )]
    NotFound { words: String },
    #[error("{path} cannot be opened: {words}; its siblings (libopenvino.so, libtbb.so) must lie beside it")]
    Open { path: PathBuf, words: String },
    #[error(
        "{path} ({version}) has no call {call}: it is older than {OLDEST}; install OpenVINO {OLDEST} or newer"
    )]
    Call {
        path: PathBuf,
        version: String,
        call: &'static str,
    },
    #[error(
        "{path} ({version}) numbers element types as releases before {OLDEST} did; install OpenVINO {OLDEST} or newer"
    )]
    Codes { path: PathBuf, version: String },
}

/// The open library.
pub struct Library {
    symbols: &'static Symbols,
    path: PathBuf,
    version: String,
}

/// Names a call by the field of [`Symbols`] that holds it.
macro_rules! required {
    ($($call:ident),* $(,)?) => {
        /// Required functions.
        const REQUIRED: &[(&str, fn(&Symbols) -> bool)] = &[
            $((stringify!($call), |symbols| symbols.$call.is_ok()),)*
        ];
    };
}

required!(
    ov_get_openvino_version,
    ov_version_free,
    ov_get_error_info,
    ov_get_last_err_msg,
    ov_free,
    ov_core_create,
    ov_core_free,
    ov_core_get_available_devices,
    ov_available_devices_free,
    ov_core_get_property,
    ov_core_read_model_from_memory_buffer,
    ov_core_compile_model,
    ov_model_free,
    ov_model_inputs_size,
    ov_model_outputs_size,
    ov_model_const_input_by_index,
    ov_model_const_output_by_index,
    ov_compiled_model_inputs_size,
    ov_compiled_model_outputs_size,
    ov_compiled_model_input_by_index,
    ov_compiled_model_output_by_index,
    ov_compiled_model_create_infer_request,
    ov_compiled_model_get_property,
    ov_compiled_model_free,
    ov_port_get_element_type,
    ov_const_port_get_shape,
    ov_output_const_port_free,
    ov_shape_free,
    ov_tensor_create,
    ov_tensor_create_from_host_ptr,
    ov_tensor_get_byte_size,
    ov_tensor_free,
    ov_infer_request_set_input_tensor_by_index,
    ov_infer_request_set_output_tensor_by_index,
    ov_infer_request_infer,
    ov_infer_request_cancel,
    ov_infer_request_free,
);

impl Library {
    /// Opens the library: in `folder` if there is one, else in the folder that `OPENVINO_LIB_DIR`
    /// names, else in the system's library path, by its versioned names. It is never closed.
    ///
    /// # Errors
    /// No library is found, or the one found cannot be opened or is older than [`OLDEST`].
    pub fn open(folder: Option<&Path>) -> Result<&'static Library, Error> {
        let folder = folder.map(Path::to_owned).or_else(|| {
            std::env::var_os("OPENVINO_LIB_DIR")
                .filter(|folder| !folder.is_empty())
                .map(PathBuf::from)
        });
        match folder {
            Some(folder) => {
                let path = in_folder(&folder)?;
                let library = dlopen(&path).map_err(|words| Repr::Open {
                    path: path.clone(),
                    words,
                })?;
                Library::check(library, path)
            }
            None => {
                let mut words = String::new();
                for name in names() {
                    match dlopen(Path::new(&name)) {
                        Ok(library) => return Library::check(library, PathBuf::from(name)),
                        Err(why) => words = why,
                    }
                }
                Err(Repr::NotFound { words }.into())
            }
        }
    }

    fn check(library: libloading::Library, path: PathBuf) -> Result<&'static Library, Error> {
        // SAFETY: the symbols have the types of our header, as the library documents them.
        let symbols = unsafe { Symbols::from_library(library) }.map_err(|error| Repr::Open {
            path: path.clone(),
            words: error.to_string(),
        })?;
        // leaked at once: not even a library that is refused is closed
        let symbols: &'static Symbols = Box::leak(Box::new(symbols));
        let version = version(symbols);
        for &(call, there) in REQUIRED {
            if !there(symbols) {
                return Err(Repr::Call { path, version, call }.into());
            }
        }
        if f32_bytes(symbols) != Some(4 * 3) {
            return Err(Repr::Codes { path, version }.into());
        }
        Ok(Box::leak(Box::new(Library {
            symbols,
            path,
            version,
        })))
    }

    /// The functions of the library. All that our header marks as required are present.
    #[must_use]
    pub fn symbols(&self) -> &'static Symbols {
        self.symbols
    }

    /// The file, or the name that the system's loader resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Build number, such as `2026.4.1-22208-...`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

fn dlopen(path: &Path) -> Result<libloading::Library, String> {
    // SAFETY: opening runs the library's initialisers. The user who sets the folder trusts it, as any library that
    // the system's loader finds.
    unsafe { libloading::Library::new(path) }.map_err(|error| {
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
    })
}

/// Names of the library on the system's path, the newest first.
fn names() -> Vec<String> {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let mut names = vec![format!("{prefix}openvino_c{suffix}")];
    if cfg!(target_os = "linux") {
        for year in (OLDEST_YEAR..=NEWEST_YEAR).rev() {
            for release in (0..RELEASES).rev() {
                for patch in (0..PATCHES).rev() {
                    names.push(format!(
                        "{prefix}openvino_c{suffix}.{}{release}{patch}",
                        year % 100
                    ));
                }
            }
        }
    }
    names
}

/// The library's file in a folder: the plain name, else the highest version.
fn in_folder(folder: &Path) -> Result<PathBuf, Error> {
    let none = |words: String| Repr::NotInFolder {
        folder: folder.to_owned(),
        words,
    };
    let plain = format!(
        "{}openvino_c{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| none(error.to_string()))? {
        let entry = entry.map_err(|error| none(error.to_string()))?;
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(&plain)) else {
            continue;
        };
        let version = match rest.strip_prefix('.') {
            None if rest.is_empty() => u64::MAX,
            Some(digits) => match digits.replace('.', "").parse() {
                Ok(version) => version,
                Err(_) => continue,
            },
            None => continue,
        };
        found.push((version, entry.path()));
    }
    found.sort();
    let newest = found.pop().map(|(_, path)| path);
    newest.ok_or_else(|| none(format!("no file named {plain} or {plain}.VERSION")).into())
}

/// The build number, or a text that it is unknown.
fn version(symbols: &Symbols) -> String {
    let unknown = || "of unknown version".to_owned();
    let (Ok(get), Ok(free)) = (&symbols.ov_get_openvino_version, &symbols.ov_version_free) else {
        return unknown();
    };
    let mut version = ov::ov_version_t {
        buildNumber: std::ptr::null(),
        description: std::ptr::null(),
    };
    // SAFETY: the call fills the struct.
    let status = unsafe { get(&raw mut version) };
    if status != ov::OV_STATUS_OK || version.buildNumber.is_null() {
        return unknown();
    }
    let text = text(version.buildNumber);
    // SAFETY: filled by the library, freed once.
    unsafe { free(&raw mut version) };
    text
}

fn text(text: *const c_char) -> String {
    // SAFETY: not null, and a C string of the library's.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Bytes of a tensor of three elements with our code for f32. In other releases, the code means
/// another type.
fn f32_bytes(symbols: &Symbols) -> Option<usize> {
    let create = symbols.ov_tensor_create.as_ref().ok()?;
    let size = symbols.ov_tensor_get_byte_size.as_ref().ok()?;
    let free = symbols.ov_tensor_free.as_ref().ok()?;
    let mut dims = [3i64];
    let shape = ov::ov_shape_t {
        rank: 1,
        dims: dims.as_mut_ptr(),
    };
    let mut tensor = std::ptr::null_mut();
    // SAFETY: the shape lives during the call, which copies it.
    if unsafe { create(ov::OV_ELEMENT_F32, shape, &raw mut tensor) } != ov::OV_STATUS_OK {
        return None;
    }
    let mut bytes = 0;
    // SAFETY: the tensor was made just now.
    let status = unsafe { size(tensor, &raw mut bytes) };
    // SAFETY: freed once.
    unsafe { free(tensor) };
    (status == ov::OV_STATUS_OK).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("polychip-openvino-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn newest_file_of_a_folder_is_chosen() {
        let folder = folder("newest");
        for name in [
            "libopenvino_c.so.2540",
            "libopenvino_c.so.2641",
            "libopenvino_c.so.old",
            "libopenvino.so",
        ] {
            std::fs::write(folder.join(name), b"no library").unwrap();
        }
        let path = in_folder(&folder).unwrap();
        assert_eq!(path.file_name().unwrap(), "libopenvino_c.so.2641");
        let words = Library::open(Some(&folder)).map(drop).unwrap_err().to_string();
        assert!(
            words.contains("libopenvino_c.so.2641 cannot be opened") && words.contains("siblings"),
            "{words}"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn missing_library_error_names_version_path_and_remedy() {
        let folder = folder("missing");
        for place in [folder.clone(), folder.join("nowhere")] {
            let words = Library::open(Some(&place)).map(drop).unwrap_err().to_string();
            for part in ["2025.0", "OPENVINO_LIB_DIR", &place.display().to_string()] {
                assert!(words.contains(part), "{words} does not say {part}");
            }
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn library_of_another_kind_is_refused_by_its_missing_function() {
        // any library of the system that has none of the calls
        let Ok(other) = dlopen(Path::new("libm.so.6")) else {
            return;
        };
        let words = Library::check(other, PathBuf::from("libm.so.6"))
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(
            words.contains("libm.so.6 (of unknown version) has no call ov_"),
            "{words}"
        );
    }

    #[test]
    fn names_begin_with_the_newest() {
        let names = names();
        if cfg!(target_os = "linux") {
            let place = |wanted: &str| names.iter().position(|name| name == wanted);
            assert_eq!(place("libopenvino_c.so"), Some(0));
            assert!(place("libopenvino_c.so.2641") < place("libopenvino_c.so.2540"));
            assert!(place("libopenvino_c.so.2641").is_some());
        }
    }
}
