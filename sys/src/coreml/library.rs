//! Opening the Objective-C runtime and Core ML: search paths, and the reasons for refusing them.
//!
//! Invariants:
//! 1. A returned library has every class and message of [`NEEDED`].
//! 2. A library is never closed.
//!
//! Not here: the meaning of messages (`model`, `foundation`).

#![allow(unsafe_code, reason = "foreign libraries are opened here")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// The oldest systems that have every message we send.
pub const OLDEST: &str = "macOS 14 or iOS 17";

/// A pointer to an Objective-C object or class.
pub(super) type Id = *mut c_void;

/// A message's name, registered with the runtime.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Sel(*const c_void);

// SAFETY: a registered name is an address that stays valid and is never written through.
unsafe impl Send for Sel {}
// SAFETY: as above.
unsafe impl Sync for Sel {}

/// The reason why Core ML cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Repr);

#[derive(Debug, thiserror::Error)]
enum Repr {
    #[error(
        "Core ML is part of {OLDEST}, and this system is {system}; set COREML_LIB_DIR (or lib_dir) to the folder of an emulated \
         libCoreML to run without it"
    )]
    NotApple { system: &'static str },
    #[error("{path} cannot be opened: {words}; Core ML needs {OLDEST} or newer")]
    Open { path: PathBuf, words: String },
    #[error("{path} has no symbol {symbol}: it is no Objective-C runtime; Core ML needs {OLDEST} or newer")]
    Symbol { path: PathBuf, symbol: &'static str },
    #[error("{path} has no class {class}: update the system to {OLDEST} or newer")]
    Class { path: PathBuf, class: &'static str },
    #[error("{class} of {path} has no {message}: update the system to {OLDEST} or newer")]
    Message {
        path: PathBuf,
        class: &'static str,
        message: &'static str,
    },
}

/// Functions of the runtime.
struct Runtime {
    class: unsafe extern "C" fn(*const c_char) -> Id,
    class_of: unsafe extern "C" fn(Id) -> Id,
    register: unsafe extern "C" fn(*const c_char) -> Sel,
    responds: unsafe extern "C" fn(Id, Sel) -> u8,
    retain: unsafe extern "C" fn(Id) -> Id,
    release: unsafe extern "C" fn(Id),
    push: unsafe extern "C" fn() -> *mut c_void,
    pop: unsafe extern "C" fn(*mut c_void),
    send: unsafe extern "C" fn(),
    /// The class pointer of a block on the stack.
    block: *const c_void,
    setting:
        Option<unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int>,
}

// SAFETY: functions and one address, all valid for ever in any thread.
unsafe impl Send for Runtime {}
// SAFETY: as above.
unsafe impl Sync for Runtime {}

/// Declares the messages that are sent, each once.
macro_rules! messages {
    ($($field:ident = $name:literal),* $(,)?) => {
        /// Every message that is sent.
        pub const MESSAGES: &[&CStr] = &[$($name),*];

        /// Names of messages.
        pub(super) struct Messages {
            $(pub(super) $field: Sel,)*
        }

        impl Messages {
            fn register(runtime: &Runtime) -> Messages {
                Messages { $($field: runtime.selector($name),)* }
            }
        }
    };
}

messages! {
    alloc = c"alloc",
    new = c"new",
    is_kind_of = c"isKindOfClass:",
    string = c"stringWithUTF8String:",
    utf8 = c"UTF8String",
    number = c"numberWithLongLong:",
    array = c"arrayWithObjects:count:",
    count = c"count",
    at = c"objectAtIndex:",
    dictionary = c"dictionaryWithObjects:forKeys:count:",
    object_for_key = c"objectForKey:",
    file_url = c"fileURLWithPath:",
    path = c"path",
    domain = c"domain",
    code = c"code",
    description = c"localizedDescription",
    process_info = c"processInfo",
    os_version = c"operatingSystemVersionString",
    compile = c"compileModelAtURL:error:",
    load = c"modelWithContentsOfURL:configuration:error:",
    predict = c"predictionFromFeatures:options:error:",
    devices = c"availableComputeDevices",
    cores = c"totalCoreCount",
    set_units = c"setComputeUnits:",
    array_over = c"initWithDataPointer:shape:dataType:strides:deallocator:error:",
    data_pointer = c"dataPointer",
    data_type = c"dataType",
    shape = c"shape",
    strides = c"strides",
    long_long = c"longLongValue",
    of_array = c"featureValueWithMultiArray:",
    array_value = c"multiArrayValue",
    features = c"initWithDictionary:error:",
    feature = c"featureValueForName:",
    set_backings = c"setOutputBackings:",
    load_plan = c"loadContentsOfURL:configuration:completionHandler:",
    structure = c"modelStructure",
    program = c"program",
    functions = c"functions",
    block = c"block",
    operations = c"operations",
    operator_name = c"operatorName",
    outputs = c"outputs",
    name = c"name",
    usage = c"computeDeviceUsageForMLProgramOperation:",
    cost = c"estimatedCostOfMLProgramOperation:",
    weight = c"weight",
    preferred = c"preferredComputeDevice",
    supported = c"supportedComputeDevices",
}

/// Declares the classes that are named, each once.
macro_rules! classes {
    ($($field:ident = $name:literal),* $(,)?) => {
        /// Every class that is named.
        pub const CLASSES: &[&str] = &[$($name),*];

        /// Classes.
        pub(super) struct Classes {
            $(pub(super) $field: Class,)*
        }

        impl Classes {
            fn find(runtime: &Runtime, path: &Path) -> Result<Classes, Error> {
                Ok(Classes { $($field: runtime.class_named($name, path)?,)* })
            }
        }
    };
}

/// A class.
#[derive(Clone, Copy)]
pub(super) struct Class(pub(super) Id);

// SAFETY: classes live for ever and are not changed by us.
unsafe impl Send for Class {}
// SAFETY: as above.
unsafe impl Sync for Class {}

classes! {
    string = "NSString",
    number = "NSNumber",
    array = "NSArray",
    dictionary = "NSDictionary",
    url = "NSURL",
    process_info = "NSProcessInfo",
    model = "MLModel",
    configuration = "MLModelConfiguration",
    multi_array = "MLMultiArray",
    feature_value = "MLFeatureValue",
    features = "MLDictionaryFeatureProvider",
    options = "MLPredictionOptions",
    plan = "MLComputePlan",
    ane = "MLNeuralEngineComputeDevice",
    gpu = "MLGPUComputeDevice",
}

/// Messages that older systems lack: of a class itself, or of its objects.
const NEEDED: &[(&str, bool, &CStr)] = &[
    ("MLModel", true, c"compileModelAtURL:error:"),
    ("MLModel", true, c"modelWithContentsOfURL:configuration:error:"),
    ("MLModel", true, c"availableComputeDevices"),
    ("MLModel", false, c"predictionFromFeatures:options:error:"),
    ("MLModelConfiguration", false, c"setComputeUnits:"),
    (
        "MLMultiArray",
        false,
        c"initWithDataPointer:shape:dataType:strides:deallocator:error:",
    ),
    ("MLPredictionOptions", false, c"setOutputBackings:"),
    (
        "MLComputePlan",
        true,
        c"loadContentsOfURL:configuration:completionHandler:",
    ),
];

/// Objective-C's runtime with Core ML.
pub struct Library {
    runtime: Runtime,
    pub(super) messages: Messages,
    pub(super) classes: Classes,
    path: PathBuf,
}

/// Sends a message with these types: `send!(library, receiver, message(argument: type, ...) -> type)`.
macro_rules! send {
    ($library:expr, $to:expr, $message:ident($($argument:expr => $ty:ty),*) -> $result:ty) => {{
        let library: &$crate::coreml::Library = $library;
        type Typed = unsafe extern "C" fn($crate::coreml::library::Id, $crate::coreml::library::Sel, $($ty),*) -> $result;
        // SAFETY: the message takes these types and gives this one, as Apple documents it.
        let call = unsafe { std::mem::transmute::<unsafe extern "C" fn(), Typed>(library.entry()) };
        // SAFETY: the receiver is a live object or class that has the message; arguments live during the call.
        unsafe { call($to, library.messages.$message, $($argument),*) }
    }};
}
pub(super) use send;

impl Runtime {
    fn of(library: &libloading::Library, path: &Path) -> Result<Runtime, Error> {
        macro_rules! symbol {
            ($name:literal) => {{
                // SAFETY: the symbol has the type of the field that it is written to, as the runtime documents it.
                let symbol = unsafe { library.get($name) };
                *symbol.map_err(|_| Repr::Symbol {
                    path: path.to_owned(),
                    symbol: std::str::from_utf8($name).unwrap_or_default(),
                })?
            }};
        }
        Ok(Runtime {
            class: symbol!(b"objc_getClass"),
            class_of: symbol!(b"object_getClass"),
            register: symbol!(b"sel_registerName"),
            responds: symbol!(b"class_respondsToSelector"),
            retain: symbol!(b"objc_retain"),
            release: symbol!(b"objc_release"),
            push: symbol!(b"objc_autoreleasePoolPush"),
            pop: symbol!(b"objc_autoreleasePoolPop"),
            send: symbol!(b"objc_msgSend"),
            block: symbol!(b"_NSConcreteStackBlock"),
            // SAFETY: the type is that of the C library of Apple's systems.
            setting: unsafe { library.get(b"sysctlbyname") }.ok().map(|symbol| *symbol),
        })
    }

    fn selector(&self, name: &CStr) -> Sel {
        // SAFETY: a C string; the runtime copies it.
        unsafe { (self.register)(name.as_ptr()) }
    }

    fn class_named(&self, class: &'static str, path: &Path) -> Result<Class, Error> {
        let name = CString::new(class).expect("invariant: our own names hold no zero");
        // SAFETY: a C string.
        let found = unsafe { (self.class)(name.as_ptr()) };
        if found.is_null() {
            return Err(Repr::Class {
                path: path.to_owned(),
                class,
            }
            .into());
        }
        Ok(Class(found))
    }
}

impl Library {
    /// Opens the library: in `folder` if there is one, else in the folder that `COREML_LIB_DIR`
    /// names, else the system's own. It is never closed.
    ///
    /// # Errors
    /// It is missing, or older than [`OLDEST`].
    pub fn open(folder: Option<&Path>) -> Result<&'static Library, Error> {
        let folder = folder.map(Path::to_owned).or_else(|| {
            std::env::var_os("COREML_LIB_DIR")
                .filter(|folder| !folder.is_empty())
                .map(PathBuf::from)
        });
        let files = match folder {
            Some(folder) => vec![folder.join(format!(
                "{}CoreML{}",
                std::env::consts::DLL_PREFIX,
                std::env::consts::DLL_SUFFIX
            ))],
            None if cfg!(target_vendor = "apple") => vec![
                PathBuf::from("/System/Library/Frameworks/Foundation.framework/Foundation"),
                PathBuf::from("/System/Library/Frameworks/CoreML.framework/CoreML"),
                PathBuf::from("/usr/lib/libobjc.A.dylib"),
            ],
            None => {
                return Err(Repr::NotApple {
                    system: std::env::consts::OS,
                }
                .into());
            }
        };
        let mut last = None;
        for path in files {
            // SAFETY: opening runs initialisers. The user who sets the folder trusts it, as the system's own libraries.
            let opened = unsafe { libloading::Library::new(&path) }.map_err(|error| Repr::Open {
                path: path.clone(),
                words: std::error::Error::source(&error)
                    .map_or_else(|| error.to_string(), ToString::to_string),
            })?;
            // leaked at once: not even a library that is refused is closed
            last = Some((&*Box::leak(Box::new(opened)), path));
        }
        let (library, path) = last.expect("invariant: there is a file to open");
        let runtime = Runtime::of(library, &path)?;
        let classes = Classes::find(&runtime, &path)?;
        let messages = Messages::register(&runtime);
        for &(class, of_class, message) in NEEDED {
            let mut holder = runtime.class_named(class, &path)?.0;
            if of_class {
                // SAFETY: a class is an object, whose class holds its own messages.
                holder = unsafe { (runtime.class_of)(holder) };
            }
            // SAFETY: a class and a registered name.
            if unsafe { (runtime.responds)(holder, runtime.selector(message)) } == 0 {
                return Err(Repr::Message {
                    path,
                    class,
                    message: message.to_str().unwrap_or_default(),
                }
                .into());
            }
        }
        Ok(Box::leak(Box::new(Library {
            runtime,
            messages,
            classes,
            path,
        })))
    }

    /// The file that the runtime came from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `body` in an autorelease pool, which releases all objects that messages autoreleased.
    pub fn pool<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Pool<'a>(&'a Runtime, *mut c_void);
        impl Drop for Pool<'_> {
            fn drop(&mut self) {
                // SAFETY: the pool that was pushed by this thread, the innermost.
                unsafe { (self.0.pop)(self.1) }
            }
        }
        // SAFETY: popped when the guard goes.
        let _pool = Pool(&self.runtime, unsafe { (self.runtime.push)() });
        body()
    }

    /// A text setting of the system's kernel, such as `machdep.cpu.brand_string`.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<String> {
        let call = self.runtime.setting?;
        let name = CString::new(name).ok()?;
        let mut text = [0u8; 128];
        let mut bytes = text.len();
        // SAFETY: the call writes at most `bytes` bytes and returns how many.
        let status = unsafe {
            call(
                name.as_ptr(),
                text.as_mut_ptr().cast(),
                &raw mut bytes,
                std::ptr::null_mut(),
                0,
            )
        };
        let text = CStr::from_bytes_until_nul(text.get(..bytes)?).ok()?;
        (status == 0).then(|| text.to_string_lossy().into_owned())
    }

    pub(super) fn entry(&self) -> unsafe extern "C" fn() {
        self.runtime.send
    }

    pub(super) fn stack_block(&self) -> *const c_void {
        self.runtime.block
    }

    /// Retains an object.
    pub(super) fn retain(&self, object: Id) {
        // SAFETY: a live object; null does nothing.
        unsafe { (self.runtime.retain)(object) };
    }

    /// Releases an object.
    pub(super) fn release(&self, object: Id) {
        // SAFETY: the caller gives up a count that it holds.
        unsafe { (self.runtime.release)(object) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_library_error_names_systems_path_and_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let words = Library::open(Some(folder.path()))
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(words.contains(&folder.path().display().to_string()), "{words}");
        assert!(words.contains("CoreML") && words.contains("macOS 14"), "{words}");
        if !cfg!(target_vendor = "apple") && std::env::var_os("COREML_LIB_DIR").is_none() {
            let words = Library::open(None).map(drop).unwrap_err().to_string();
            assert!(
                words.contains("COREML_LIB_DIR") && words.contains("linux"),
                "{words}"
            );
        }
    }

    #[test]
    fn library_of_another_kind_is_refused_by_its_missing_symbol() {
        let folder = tempfile::tempdir().unwrap();
        let name = format!(
            "{}CoreML{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        );
        // of this processor, which may be emulated by a machine that has libraries of both
        let arch = std::env::consts::ARCH;
        let Some(other) = [
            format!("/lib/{arch}-linux-gnu/libm.so.6"),
            format!("/usr/{arch}-linux-gnu/lib/libm.so.6"),
        ]
        .into_iter()
        .find(|path| Path::new(path).exists()) else {
            return;
        };
        std::fs::copy(other, folder.path().join(name)).unwrap();
        let words = Library::open(Some(folder.path()))
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(words.contains("has no symbol objc_getClass"), "{words}");
    }
}
