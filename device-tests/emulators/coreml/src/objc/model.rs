//! Core ML: models, arrays, features, options and devices.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use polychip_emulator_chip::fault::Effect;

use super::classes::{Methods, Sel, Unit, class, methods};
use super::foundation::{body, failure, list, numbers, read, read_numbers};
use super::object::{ArrayBody, Body, Held, Id, Loaded, Object};
use crate::package::{self, Type};
use crate::program::{self, Ready};
use crate::world;

/// Codes of Core ML's errors.
const GENERIC: i64 = 0;
const FEATURE_TYPE: i64 = 1;
const INPUT_OUTPUT: i64 = 3;

/// Folders of compiled models.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

pub(super) fn table() -> Vec<(&'static str, Methods, Methods)> {
    vec![
        (
            "MLModel",
            methods![
                "compileModelAtURL:error:" = compile,
                "modelWithContentsOfURL:configuration:error:" = load,
                "availableComputeDevices" = devices,
            ],
            methods!["predictionFromFeatures:options:error:" = predict],
        ),
        (
            "MLModelConfiguration",
            methods![],
            methods!["setComputeUnits:" = set_units],
        ),
        (
            "MLMultiArray",
            methods![],
            methods![
                "initWithDataPointer:shape:dataType:strides:deallocator:error:" = array_over,
                "dataPointer" = data_pointer,
                "dataType" = data_type,
                "shape" = shape,
                "strides" = strides,
            ],
        ),
        (
            "MLFeatureValue",
            methods!["featureValueWithMultiArray:" = of_array],
            methods!["multiArrayValue" = array_value],
        ),
        (
            "MLDictionaryFeatureProvider",
            methods![],
            methods![
                "initWithDictionary:error:" = features,
                "featureValueForName:" = feature
            ],
        ),
        (
            "MLPredictionOptions",
            methods![],
            methods!["setOutputBackings:" = set_backings],
        ),
        ("MLCPUComputeDevice", methods![], methods![]),
        ("MLGPUComputeDevice", methods![], methods![]),
        (
            "MLNeuralEngineComputeDevice",
            methods![],
            methods!["totalCoreCount" = cores],
        ),
    ]
}

/// Folders of compiled models that are still there.
pub(super) fn folders_left() -> usize {
    let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    folders.iter().filter(|folder| folder.exists()).count()
}

/// Reports an error, and returns null.
unsafe fn fail(error: *mut Id, code: i64, words: impl Into<String>) -> Id {
    if !error.is_null() {
        // SAFETY: the client gives a place for it.
        unsafe { *error = failure(code, words.into()).autorelease() };
    }
    std::ptr::null_mut()
}

/// The injected effect of a call, or its injected failure.
fn fault(call: &str, ready: Option<&Ready>) -> Result<Option<Effect>, (i64, String)> {
    let concerns = |op: &str| {
        let is = |stated: &program::Stated| stated.op.strip_prefix("ios17.") == Some(op);
        ready.is_some_and(|ready| ready.operations.iter().any(is))
    };
    match world::faults().at(call, concerns) {
        Some(Effect::Fail(code)) => Err((code, format!("{call} was made to fail"))),
        Some(Effect::Lost) => {
            world::RESTARTS.fetch_add(1, Ordering::AcqRel);
            Err((GENERIC, "the Neural Engine restarted".to_owned()))
        }
        Some(Effect::Wait(wait)) => {
            world::faults().wait(wait);
            Ok(None)
        }
        Some(Effect::Crash) => std::process::abort(),
        effect => Ok(effect),
    }
}

/// The path of a file's address.
pub(super) unsafe fn path_of(id: Id) -> PathBuf {
    if id.is_null() {
        return PathBuf::new();
    }
    // SAFETY: the client gives a file's address.
    match unsafe { body(id) } {
        Body::File(path) => path.clone(),
        _ => PathBuf::new(),
    }
}

unsafe extern "C" fn compile(_: Id, _: Sel, address: Id, error: *mut Id) -> Id {
    // SAFETY: the client gives a file's address.
    let from = unsafe { path_of(address) };
    let made = package::open(&from)
        .and_then(program::build)
        .map_err(|why| (GENERIC, format!("Error compiling model: {why}")))
        .and_then(|ready| fault("compile", Some(&ready)))
        .and_then(|_| keep(&from).map_err(|why| (INPUT_OUTPUT, why)));
    match made {
        Ok(folder) => Object::with(class("NSURL"), Body::File(folder)).autorelease(),
        // SAFETY: `error` is the client's.
        Err((code, words)) => unsafe { fail(error, code, words) },
    }
}

/// Copies the files that `load` needs to a new folder.
fn keep(from: &Path) -> Result<PathBuf, String> {
    let text = |error: std::io::Error| error.to_string();
    let folder = tempfile::Builder::new()
        .suffix(".mlmodelc")
        .tempdir()
        .map_err(text)?
        .keep();
    FOLDERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(folder.clone());
    world::keep(from).map_err(text)?;
    let data = from.join("Data/com.apple.CoreML");
    std::fs::copy(data.join("model.mlmodel"), folder.join("model.mlmodel")).map_err(text)?;
    std::fs::create_dir(folder.join("weights")).map_err(text)?;
    let weights = data.join("weights/weight.bin");
    if weights.is_file() {
        std::fs::copy(weights, folder.join("weights/weight.bin")).map_err(text)?;
    }
    Ok(folder)
}

/// Reads a compiled model.
pub(super) fn open(folder: &Path) -> Result<Ready, String> {
    package::compiled(&folder.join("model.mlmodel")).and_then(program::build)
}

unsafe extern "C" fn load(_: Id, _: Sel, address: Id, _configuration: Id, error: *mut Id) -> Id {
    // SAFETY: the client gives a file's address.
    let folder = unsafe { path_of(address) };
    let made = open(&folder)
        .map_err(|why| (INPUT_OUTPUT, format!("Error reading model: {why}")))
        .and_then(|ready| fault("load", Some(&ready)).map(|_| ready));
    match made {
        Ok(ready) => {
            let loaded = Loaded {
                ready: Arc::new(ready),
                restarts: world::RESTARTS.load(Ordering::Acquire),
            };
            Object::with(class("MLModel"), Body::Model(loaded)).autorelease()
        }
        // SAFETY: `error` is the client's.
        Err((code, words)) => unsafe { fail(error, code, words) },
    }
}

unsafe extern "C" fn devices(_: Id, _: Sel) -> Id {
    let mut units = vec![Unit::Processor];
    if !matches!(fault("devices", None), Err(_) | Ok(Some(_))) {
        units.extend([Unit::Gpu, Unit::Ane]);
    }
    let device = |unit: Unit| Object::with(unit.class(), Body::Device);
    list(units.into_iter().map(device).collect()).autorelease()
}

unsafe extern "C" fn cores(_: Id, _: Sel) -> isize {
    16
}

unsafe extern "C" fn set_units(this: Id, _: Sel, units: isize) {
    // SAFETY: the receiver is a live object.
    if let Body::Configuration(held) = unsafe { body(this) } {
        held.store(units, Ordering::Release);
    }
}

/// Units that a configuration allows.
///
/// # Safety
/// `configuration` is null or a live object.
pub(super) unsafe fn units(configuration: Id) -> isize {
    if configuration.is_null() {
        return 2;
    }
    // SAFETY: the caller vouches for it.
    match unsafe { body(configuration) } {
        Body::Configuration(held) => held.load(Ordering::Acquire),
        _ => 2,
    }
}

fn dense(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis] * dims[axis];
    }
    strides
}

const fn width(data: isize) -> Option<usize> {
    match data {
        65552 => Some(2),
        65568 | 131_104 => Some(4),
        _ => None,
    }
}

const fn data_of(ty: Type) -> isize {
    match ty {
        Type::F16 => 65552,
        Type::F32 => 65568,
        _ => 131_104,
    }
}

unsafe extern "C" fn array_over(
    this: Id,
    _: Sel,
    address: *mut c_void,
    shape: Id,
    data: isize,
    strides: Id,
    _deallocator: Id,
    error: *mut Id,
) -> Id {
    // SAFETY: the client gives lists of numbers.
    let lists = unsafe { (read_numbers(shape), read_numbers(strides)) };
    let (Some(dims), Some(strides)) = lists else {
        // SAFETY: `alloc` gave this count, which init takes.
        unsafe { super::object::release(this) };
        // SAFETY: `error` is the client's.
        return unsafe { fail(error, GENERIC, "shape and strides are lists of numbers") };
    };
    let fits = !dims.is_empty() && dims.len() == strides.len() && !dims.contains(&0);
    if !fits || width(data).is_none() || address.is_null() {
        // SAFETY: as above.
        unsafe { super::object::release(this) };
        // SAFETY: as above.
        return unsafe {
            fail(
                error,
                GENERIC,
                format!("no array of {dims:?} by {strides:?} of type {data}"),
            )
        };
    }
    let body = ArrayBody {
        address,
        dims,
        strides,
        data,
        _own: None,
    };
    // SAFETY: `alloc` made it.
    unsafe { Object::fill(this, Body::Array(body)) };
    this
}

/// The array that an object is.
unsafe fn array<'a>(id: Id) -> Option<&'a ArrayBody> {
    if id.is_null() {
        return None;
    }
    // SAFETY: the client gives a live object.
    match unsafe { body(id) } {
        Body::Array(array) => Some(array),
        _ => None,
    }
}

unsafe extern "C" fn data_pointer(this: Id, _: Sel) -> *mut c_void {
    // SAFETY: the receiver is a live object.
    unsafe { array(this) }.map_or(std::ptr::null_mut(), |array| array.address)
}

unsafe extern "C" fn data_type(this: Id, _: Sel) -> isize {
    // SAFETY: the receiver is a live object.
    unsafe { array(this) }.map_or(0, |array| array.data)
}

unsafe extern "C" fn shape(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    let array = unsafe { array(this) };
    array.map_or(std::ptr::null_mut(), |array| numbers(&array.dims).autorelease())
}

unsafe extern "C" fn strides(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    let array = unsafe { array(this) };
    array.map_or(std::ptr::null_mut(), |array| {
        numbers(&array.strides).autorelease()
    })
}

unsafe extern "C" fn of_array(_: Id, _: Sel, array: Id) -> Id {
    // SAFETY: the client gives a live object.
    let Some(array) = (unsafe { Held::of(array) }) else {
        return std::ptr::null_mut();
    };
    Object::with(class("MLFeatureValue"), Body::Value(array)).autorelease()
}

unsafe extern "C" fn array_value(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    match unsafe { body(this) } {
        Body::Value(array) => array.id(),
        _ => std::ptr::null_mut(),
    }
}

/// A count of each value of a dictionary.
unsafe fn pairs(dictionary: Id) -> Vec<(String, Held)> {
    if dictionary.is_null() {
        return Vec::new();
    }
    // SAFETY: the client gives a live object.
    let Body::Dictionary(pairs) = (unsafe { body(dictionary) }) else {
        return Vec::new();
    };
    // SAFETY: held by the dictionary.
    let hold = |(name, value): &(String, Held)| Some((name.clone(), unsafe { Held::of(value.id()) }?));
    pairs.iter().filter_map(hold).collect()
}

unsafe extern "C" fn features(this: Id, _: Sel, dictionary: Id, _error: *mut Id) -> Id {
    // SAFETY: the client gives a dictionary, and `alloc` made the receiver.
    unsafe { Object::fill(this, Body::Features(pairs(dictionary))) };
    this
}

unsafe extern "C" fn feature(this: Id, _: Sel, name: Id) -> Id {
    // SAFETY: receiver and name are live objects.
    let (body, name) = unsafe { (body(this), read(name)) };
    let (Body::Features(pairs), Some(name)) = (body, name) else {
        return std::ptr::null_mut();
    };
    let found = pairs.iter().find(|(own, _)| *own == name);
    found.map_or(std::ptr::null_mut(), |(_, value)| value.id())
}

unsafe extern "C" fn set_backings(this: Id, _: Sel, dictionary: Id) {
    // SAFETY: the receiver is a live object, and the client gives a dictionary.
    let (body, given) = unsafe { (body(this), pairs(dictionary)) };
    if let Body::Options(held) = body {
        *held.lock().unwrap_or_else(PoisonError::into_inner) = given;
    }
}

/// Describes why an array does not fit a port; `None` if it does.
fn unfit(name: &str, of: &package::Shaped, array: &ArrayBody) -> Option<String> {
    if array.data != data_of(of.ty) {
        return Some(format!(
            "MultiArray {name} is of type {}, and not {:?}",
            array.data, of.ty
        ));
    }
    (array.dims != of.dims || array.strides != dense(&of.dims)).then(|| {
        format!(
            "MultiArray shape {:?} of {name} does not match the shape {:?}",
            array.dims, of.dims
        )
    })
}

/// The bytes of an array.
unsafe fn bytes_of<'a>(array: &ArrayBody) -> &'a [u8] {
    let bytes = array.dims.iter().product::<usize>() * width(array.data).unwrap_or(0);
    // SAFETY: the client vouches for the memory of its arrays while a call runs.
    unsafe { std::slice::from_raw_parts(array.address.cast(), bytes) }
}

unsafe extern "C" fn predict(this: Id, _: Sel, inputs: Id, options: Id, error: *mut Id) -> Id {
    // SAFETY: receiver and arguments are live objects of the client's.
    match unsafe { run(this, inputs, options) } {
        Ok(results) => {
            Object::with(class("MLDictionaryFeatureProvider"), Body::Features(results)).autorelease()
        }
        // SAFETY: `error` is the client's.
        Err((code, words)) => unsafe { fail(error, code, words) },
    }
}

unsafe fn run(this: Id, inputs: Id, options: Id) -> Result<Vec<(String, Held)>, (i64, String)> {
    // SAFETY: the receiver is a live object, as are the inputs.
    let (Body::Model(loaded), Body::Features(given)) = (unsafe { (body(this), body(inputs)) }) else {
        return Err((GENERIC, "no model, or no features".to_owned()));
    };
    let ready = &loaded.ready;
    let effect = fault("predict", Some(ready))?;
    if world::RESTARTS.load(Ordering::Acquire) != loaded.restarts {
        return Err((
            GENERIC,
            "the Neural Engine restarted since the model was loaded".to_owned(),
        ));
    }
    let mut bytes = Vec::new();
    for (name, of) in &ready.model.inputs {
        let value = given
            .iter()
            .find(|(own, _)| own == name)
            .and_then(|(_, value)| value.body());
        let Some(Body::Value(array_of)) = value else {
            return Err((
                FEATURE_TYPE,
                format!("Feature {name} is required but not specified."),
            ));
        };
        // SAFETY: held by the value.
        let array = unsafe { array(array_of.id()) }.ok_or((FEATURE_TYPE, format!("{name} is no array")))?;
        if let Some(words) = unfit(name, of, array) {
            return Err((FEATURE_TYPE, words));
        }
        // SAFETY: an input of this call.
        bytes.push(unsafe { bytes_of(array) });
    }
    let (outputs, _work) = ready.program.run(&bytes).map_err(|why| (GENERIC, why))?;
    let backings = if options.is_null() {
        None
    } else {
        // SAFETY: a live object of the client's.
        match unsafe { body(options) } {
            Body::Options(held) => Some(held.lock().unwrap_or_else(PoisonError::into_inner)),
            _ => None,
        }
    };
    let own_memory = matches!(fault("backing", Some(ready)), Err(_) | Ok(Some(_)));
    let mut results = Vec::new();
    for ((name, of), mut bytes) in ready.model.outputs.iter().zip(outputs) {
        if effect == Some(Effect::Wrong) {
            let half = bytes.len() / 2;
            bytes[half..].fill(0);
        }
        let backing = backings
            .as_ref()
            .and_then(|pairs| pairs.iter().find(|(own, _)| own == name));
        let value = match backing.filter(|_| !own_memory) {
            Some((_, backing)) => {
                // SAFETY: held by the options.
                let array =
                    unsafe { array(backing.id()) }.ok_or((FEATURE_TYPE, format!("{name} is no array")))?;
                if let Some(words) = unfit(name, of, array) {
                    return Err((FEATURE_TYPE, words));
                }
                // SAFETY: of the output's size, and the client's while this call runs.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), array.address.cast(), bytes.len()) };
                // SAFETY: held by the options.
                unsafe { Held::of(backing.id()) }
            }
            None => Some(owned(of, &bytes)),
        };
        let value = value.ok_or((GENERIC, "an output went".to_owned()))?;
        results.push((
            name.clone(),
            Object::with(class("MLFeatureValue"), Body::Value(value)),
        ));
    }
    Ok(results)
}

/// An array in memory of its own.
fn owned(of: &package::Shaped, bytes: &[u8]) -> Held {
    let mut own = vec![0u64; bytes.len().div_ceil(8).max(1)].into_boxed_slice();
    let address = own.as_mut_ptr();
    // SAFETY: there are as many bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address.cast(), bytes.len()) };
    let body = ArrayBody {
        address: address.cast(),
        dims: of.dims.clone(),
        strides: dense(&of.dims),
        data: data_of(of.ty),
        _own: Some(own),
    };
    Object::with(class("MLMultiArray"), Body::Array(body))
}
