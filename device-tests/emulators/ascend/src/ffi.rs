//! The library's calls, with the vendor's names, signatures and codes.
//!
//! Invariants:
//! 1. No call unwinds into its caller.
//! 2. A handle is a number that `world` looks up. It is never read as an address.

#![allow(unsafe_code, reason = "the vendor's C interface")]
#![allow(
    non_snake_case,
    missing_docs,
    reason = "the vendor's own names, documented by the vendor"
)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use polychip_emulator_chip::fault::Effect;
use polychip_emulator_chip::file;
use polychip_emulator_chip::model::{self, Model};
use polychip_ops::DType;
use polychip_sys::ascend::bindings as acl;

use crate::board::{self, COUNTS, Description, MAGIC, MEMORY_BYTES, NEWEST, SOC};
use crate::stream;
use crate::world::{self, Code, Command, Loaded, Stream, World};

/// Required alignment of the memory of a run's ports.
const ALIGN: usize = 64;

thread_local! {
    /// The thread's context; 0 without one.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

fn guard(body: impl FnOnce() -> Result<(), Code>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => acl::ACL_OK as c_int,
        Ok(Err(code)) => code as c_int,
        Err(_) => acl::ACL_INTERNAL as c_int,
    }
}

/// The fault that is wished for at a call.
fn fault(call: &str) -> Result<(), Code> {
    match board::faults().act(call) {
        Some(Effect::Fail(code)) => Err(Code::try_from(code).unwrap_or(acl::ACL_INTERNAL)),
        Some(Effect::Lost) => {
            world::with(World::lose);
            Err(acl::ACL_RT_LOST_HEARTBEAT)
        }
        _ => Ok(()),
    }
}

/// Calls `act` with the thread's context.
fn within<T>(act: impl FnOnce(&mut World, usize) -> Result<T, Code>) -> Result<T, Code> {
    let context = CURRENT.get();
    world::with(|world| {
        if !world.initialised {
            return Err(acl::ACL_NOT_INITIALISED);
        }
        if !world.contexts.contains_key(&context) {
            return Err(acl::ACL_RT_NO_CONTEXT);
        }
        act(world, context)
    })
}

fn id<T>(handle: *const T) -> usize {
    handle.addr()
}

fn handle<T>(id: usize) -> *mut T {
    std::ptr::without_provenance_mut(id)
}

/// Writes a result.
///
/// # Safety
/// `to` is null or writable.
unsafe fn give<T>(to: *mut T, value: T) -> Result<(), Code> {
    if to.is_null() {
        return Err(acl::ACL_BAD_PARAMETER);
    }
    // SAFETY: writable as the caller says.
    unsafe { to.write(value) };
    Ok(())
}

/// # Safety
/// `configuration` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclInit(_configuration: *const c_char) -> c_int {
    guard(|| {
        fault("init")?;
        world::with(|world| {
            if std::mem::replace(&mut world.initialised, true) {
                Err(acl::ACL_INITIALISED_BEFORE)
            } else {
                Ok(())
            }
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetRecentErrMsg() -> *const c_char {
    c"emulated: no more is known".as_ptr()
}

/// # Safety
/// All are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetVersion(major: *mut i32, minor: *mut i32, patch: *mut i32) -> c_int {
    guard(|| {
        for (to, number) in [(major, 1), (minor, 17), (patch, 0)] {
            // SAFETY: writable as the caller says.
            unsafe { give(to, number) }?;
        }
        Ok(())
    })
}

/// # Safety
/// `count` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetDeviceCount(count: *mut u32) -> c_int {
    // SAFETY: writable as the caller says.
    guard(|| unsafe { give(count, board::boards()) })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetSocName() -> *const c_char {
    const NAME: &CStr = c"Ascend310P3";
    debug_assert_eq!(NAME.to_str(), Ok(SOC));
    NAME.as_ptr()
}

/// # Safety
/// `context` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateContext(context: *mut *mut c_void, device: i32) -> c_int {
    guard(|| {
        fault("create_context")?;
        let made = world::with(|world| {
            if !world.initialised {
                return Err(acl::ACL_NOT_INITIALISED);
            }
            if u32::try_from(device).is_ok_and(|device| device < board::boards()) {
                let number = world.number();
                world.contexts.insert(number, device);
                return Ok(number);
            }
            Err(acl::ACL_RT_BAD_DEVICE)
        })?;
        CURRENT.set(made);
        // SAFETY: writable as the caller says.
        unsafe { give(context, handle(made)) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyContext(context: *mut c_void) -> c_int {
    guard(|| world::with(|world| world.end_context(id(context)).ok_or(acl::ACL_RT_NO_CONTEXT)))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetCurrentContext(context: *mut c_void) -> c_int {
    guard(|| {
        let alive = world::with(|world| world.contexts.contains_key(&id(context)));
        if !alive {
            return Err(acl::ACL_RT_NO_CONTEXT);
        }
        CURRENT.set(id(context));
        Ok(())
    })
}

/// # Safety
/// `stream` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateStream(stream: *mut *mut c_void) -> c_int {
    guard(|| {
        let made = within(|world, context| {
            let number = world.number();
            let stream = Stream {
                context,
                ..Stream::default()
            };
            world.streams.insert(number, stream);
            Ok(number)
        })?;
        // SAFETY: writable as the caller says.
        unsafe { give(stream, handle(made)) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyStream(stream: *mut c_void) -> c_int {
    guard(|| {
        let ended = within(|world, _| Ok(world.streams.remove(&id(stream))))?;
        ended.map(drop).ok_or(acl::ACL_RT_BAD_PARAMETER)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeStream(stream: *mut c_void) -> c_int {
    guard(|| {
        fault("synchronize")?;
        within(|world, context| own(world, context, stream).map(drop))?;
        stream::synchronize(id(stream))
    })
}

/// A stream of the thread's context.
fn own(world: &mut World, context: usize, stream: *mut c_void) -> Result<&mut Stream, Code> {
    let found = world.streams.get_mut(&id(stream));
    found
        .filter(|stream| stream.context == context)
        .ok_or(acl::ACL_RT_OTHER_CONTEXT)
}

/// # Safety
/// `event` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateEvent(event: *mut *mut c_void) -> c_int {
    guard(|| {
        let made = within(|world, context| {
            let number = world.number();
            world.events.insert(number, (context, None));
            Ok(number)
        })?;
        // SAFETY: writable as the caller says.
        unsafe { give(event, handle(made)) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyEvent(event: *mut c_void) -> c_int {
    guard(|| {
        let ended = within(|world, _| Ok(world.events.remove(&id(event))))?;
        ended.map(drop).ok_or(acl::ACL_RT_BAD_PARAMETER)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtRecordEvent(event: *mut c_void, stream: *mut c_void) -> c_int {
    guard(|| {
        within(|world, context| {
            let found = world
                .events
                .get_mut(&id(event))
                .ok_or(acl::ACL_RT_BAD_PARAMETER)?;
            found.1 = None;
            own(world, context, stream)?
                .pending
                .push(Command::Record(id(event)));
            Ok(())
        })
    })
}

/// # Safety
/// `milliseconds` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtEventElapsedTime(
    milliseconds: *mut f32,
    start: *mut c_void,
    end: *mut c_void,
) -> c_int {
    guard(|| {
        let nanoseconds = within(|world, _| {
            let at = |event| world.events.get(&id(event)).and_then(|(_, at)| *at);
            let (start, end) = (at(start), at(end));
            end.zip(start)
                .map(|(end, start)| end.saturating_sub(start))
                .ok_or(acl::ACL_RT_BAD_PARAMETER)
        })?;
        // SAFETY: writable as the caller says.
        unsafe { give(milliseconds, nanoseconds as f32 / 1e6) }
    })
}

/// # Safety
/// `memory` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMalloc(memory: *mut *mut c_void, bytes: usize, _policy: c_int) -> c_int {
    guard(|| {
        fault("malloc")?;
        let address = within(|world, context| world.allocate(context, bytes))?;
        // SAFETY: writable as the caller says.
        unsafe { give(memory, handle(address)) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclrtFree(memory: *mut c_void) -> c_int {
    guard(|| within(|world, _| world.free(id(memory)).ok_or(acl::ACL_RT_BAD_PARAMETER)))
}

/// # Safety
/// Sides that are the host's are readable or writable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpy(
    to: *mut c_void,
    room: usize,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
) -> c_int {
    guard(|| {
        fault("memcpy")?;
        if bytes > room {
            return Err(acl::ACL_RT_BAD_PARAMETER);
        }
        within(|world, _| match kind as u32 {
            acl::ACL_COPY_HOST_TO_DEVICE => {
                let board = world.range(id(to), bytes)?;
                // SAFETY: readable as the caller says.
                board.copy_from_slice(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) });
                COUNTS.to_board_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                Ok(())
            }
            acl::ACL_COPY_DEVICE_TO_HOST => {
                let board = world.range(id(from), bytes)?;
                // SAFETY: writable as the caller says, and no memory of the board's.
                unsafe { std::ptr::copy_nonoverlapping(board.as_ptr(), to.cast::<u8>(), bytes) };
                COUNTS.from_board_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(acl::ACL_RT_NOT_OFFERED),
        })
    })
}

/// Supports only copies on the board; all others need pinned memory, which is not emulated.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtMemcpyAsync(
    to: *mut c_void,
    room: usize,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
    stream: *mut c_void,
) -> c_int {
    guard(|| {
        if kind as u32 != acl::ACL_COPY_DEVICE_TO_DEVICE {
            return Err(acl::ACL_RT_NOT_OFFERED);
        }
        if bytes > room {
            return Err(acl::ACL_RT_BAD_PARAMETER);
        }
        within(|world, context| {
            let command = Command::Copy(id(to), id(from), bytes);
            own(world, context, stream)?.pending.push(command);
            Ok(())
        })
    })
}

/// # Safety
/// Both are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetMemInfo(attribute: c_int, free: *mut usize, total: *mut usize) -> c_int {
    guard(|| {
        let used = within(|world, _| Ok(world.used_bytes()))?;
        let (left, all) = match attribute as u32 {
            acl::ACL_MEMORY_DDR => (MEMORY_BYTES - used, MEMORY_BYTES),
            _ => (0, 0),
        };
        // SAFETY: writable as the caller says.
        unsafe { give(free, left) }?;
        // SAFETY: as above.
        unsafe { give(total, all) }
    })
}

/// Reads a compiled file.
///
/// # Safety
/// `model` is null or readable for `bytes` bytes.
unsafe fn read(model: *const c_void, bytes: usize) -> Result<Model, Code> {
    if model.is_null() {
        return Err(acl::ACL_BAD_PARAMETER);
    }
    // SAFETY: readable as the caller says.
    let bytes = unsafe { std::slice::from_raw_parts(model.cast::<u8>(), bytes) };
    let parts = file::read::<Description>(MAGIC, bytes).ok_or(acl::ACL_GE_BAD_MODEL_SIZE)?;
    if parts.description.soc_version != SOC {
        return Err(acl::ACL_GE_FAILED);
    }
    let graph = model::graph(parts.model, NEWEST).map_err(|_| acl::ACL_GE_FAILED)?;
    Model::new(&graph, String::new()).map_err(|_| acl::ACL_GE_FAILED)
}

/// Bytes of memory for work and weights.
fn needs(model: &Model) -> (usize, usize) {
    let (weights, between) = model.memory;
    (between as usize, weights as usize)
}

/// # Safety
/// `model` is null or readable for `bytes` bytes; the numbers are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclmdlQuerySizeFromMem(
    model: *const c_void,
    bytes: usize,
    work: *mut usize,
    weights: *mut usize,
) -> c_int {
    guard(|| {
        fault("query_size")?;
        // SAFETY: readable as the caller says.
        let needed = needs(&unsafe { read(model, bytes) }?);
        // SAFETY: writable as the caller says.
        unsafe { give(work, needed.0) }?;
        // SAFETY: as above.
        unsafe { give(weights, needed.1) }
    })
}

/// # Safety
/// `model` is null or readable for `bytes` bytes; `number` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclmdlLoadFromMemWithMem(
    model: *const c_void,
    bytes: usize,
    number: *mut u32,
    work: *mut c_void,
    work_bytes: usize,
    weights: *mut c_void,
    weight_bytes: usize,
) -> c_int {
    guard(|| {
        fault("load")?;
        // SAFETY: readable as the caller says.
        let model = unsafe { read(model, bytes) }?;
        let needed = needs(&model);
        if work_bytes < needed.0 || weight_bytes < needed.1 {
            return Err(acl::ACL_GE_BAD_PARAMETER);
        }
        let made = within(|world, context| {
            world.range(id(work), work_bytes)?;
            world.range(id(weights), weight_bytes)?;
            let made = world.number() as u32;
            world.models.insert(made, Arc::new(Loaded { model, context }));
            Ok(made)
        })?;
        // SAFETY: writable as the caller says.
        unsafe { give(number, made) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlUnload(number: u32) -> c_int {
    guard(|| {
        let ended = within(|world, _| Ok(world.models.remove(&number)))?;
        ended.map(drop).ok_or(acl::ACL_GE_BAD_MODEL_ID)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlCreateDesc() -> *mut acl::aclmdlDesc {
    handle(world::with(|world| {
        let number = world.number();
        world.descriptions.insert(number, None);
        number
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlDestroyDesc(description: *mut acl::aclmdlDesc) -> c_int {
    guard(|| {
        let ended = world::with(|world| world.descriptions.remove(&id(description)));
        ended.map(drop).ok_or(acl::ACL_BAD_PARAMETER)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlGetDesc(description: *mut acl::aclmdlDesc, number: u32) -> c_int {
    guard(|| {
        world::with(|world| {
            let model = world.models.get(&number).cloned().ok_or(acl::ACL_BAD_MODEL_ID)?;
            let slot = world
                .descriptions
                .get_mut(&id(description))
                .ok_or(acl::ACL_BAD_PARAMETER)?;
            *slot = Some(model);
            Ok(())
        })
    })
}

fn described(description: *const acl::aclmdlDesc) -> Option<Arc<Loaded>> {
    world::with(|world| world.descriptions.get(&id(description)).cloned().flatten())
}

fn dims(description: *const acl::aclmdlDesc, output: bool, index: usize) -> Result<acl::aclmdlIODims, Code> {
    let model = described(description).ok_or(acl::ACL_BAD_PARAMETER)?;
    let (spec, name) = model
        .port(output, index)
        .zip(model.name(output, index))
        .ok_or(acl::ACL_BAD_PARAMETER)?;
    let mut dims = acl::aclmdlIODims {
        name: [0; acl::ACL_MAX_NAME as usize],
        count: spec.shape.len(),
        extents: [0; acl::ACL_MAX_AXES as usize],
    };
    for (to, from) in dims.name[..acl::ACL_MAX_NAME as usize - 1]
        .iter_mut()
        .zip(name.bytes())
    {
        *to = from as c_char;
    }
    for (to, &from) in dims.extents.iter_mut().zip(&spec.shape) {
        *to = from as i64;
    }
    Ok(dims)
}

fn dtype(description: *const acl::aclmdlDesc, output: bool, index: usize) -> c_int {
    let spec = described(description).and_then(|model| model.port(output, index));
    match spec.map(|spec| spec.dtype) {
        Some(DType::F32) => acl::ACL_TYPE_F32 as c_int,
        Some(DType::I32) => acl::ACL_TYPE_I32 as c_int,
        // none that the vendor numbers
        _ => -1,
    }
}

/// Defines the queries about inputs and outputs.
macro_rules! sides {
    ($($output:literal: $count:ident, $size:ident, $dims:ident, $dtype:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $count(description: *mut acl::aclmdlDesc) -> usize {
            let model = described(description);
            let program = |model: Arc<Loaded>| if $output { model.model.program.outputs().len() } else { model.model.program.inputs().len() };
            model.map_or(0, program)
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $size(description: *mut acl::aclmdlDesc, index: usize) -> usize {
            let spec = described(description).and_then(|model| model.port($output, index));
            spec.map_or(0, |spec| spec.bytes())
        }

        /// # Safety
        /// `record` is null or writable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $dims(
            description: *const acl::aclmdlDesc,
            index: usize,
            record: *mut acl::aclmdlIODims,
        ) -> c_int {
            // SAFETY: writable as the caller says.
            guard(|| unsafe { give(record, dims(description, $output, index)?) })
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $dtype(description: *const acl::aclmdlDesc, index: usize) -> c_int {
            dtype(description, $output, index)
        }
    )*};
}

sides! {
    false: aclmdlGetNumInputs, aclmdlGetInputSizeByIndex, aclmdlGetInputDims, aclmdlGetInputDataType;
    true: aclmdlGetNumOutputs, aclmdlGetOutputSizeByIndex, aclmdlGetOutputDims, aclmdlGetOutputDataType;
}

#[unsafe(no_mangle)]
pub extern "C" fn aclCreateDataBuffer(memory: *mut c_void, bytes: usize) -> *mut acl::aclDataBuffer {
    handle(world::with(|world| {
        let number = world.number();
        world.buffers.insert(number, (id(memory), bytes));
        number
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclUpdateDataBuffer(
    buffer: *mut acl::aclDataBuffer,
    memory: *mut c_void,
    bytes: usize,
) -> c_int {
    guard(|| {
        world::with(|world| {
            let slot = world.buffers.get_mut(&id(buffer)).ok_or(acl::ACL_BAD_PARAMETER)?;
            *slot = (id(memory), bytes);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclDestroyDataBuffer(buffer: *const acl::aclDataBuffer) -> c_int {
    guard(|| {
        let ended = world::with(|world| world.buffers.remove(&id(buffer)));
        ended.map(drop).ok_or(acl::ACL_BAD_PARAMETER)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlCreateDataset() -> *mut acl::aclmdlDataset {
    handle(world::with(|world| {
        let number = world.number();
        world.datasets.insert(number, Vec::new());
        number
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlAddDatasetBuffer(
    dataset: *mut acl::aclmdlDataset,
    buffer: *mut acl::aclDataBuffer,
) -> c_int {
    guard(|| {
        world::with(|world| {
            if !world.buffers.contains_key(&id(buffer)) {
                return Err(acl::ACL_BAD_PARAMETER);
            }
            let list = world
                .datasets
                .get_mut(&id(dataset))
                .ok_or(acl::ACL_BAD_PARAMETER)?;
            list.push(id(buffer));
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlDestroyDataset(dataset: *const acl::aclmdlDataset) -> c_int {
    guard(|| {
        let ended = world::with(|world| world.datasets.remove(&id(dataset)));
        ended.map(drop).ok_or(acl::ACL_BAD_PARAMETER)
    })
}

/// Addresses of a memory list, if it fits the inputs or outputs of the model.
fn bound(
    world: &mut World,
    dataset: *const acl::aclmdlDataset,
    model: &Loaded,
    output: bool,
) -> Result<Vec<usize>, Code> {
    let list = world
        .datasets
        .get(&id(dataset))
        .cloned()
        .ok_or(acl::ACL_BAD_PARAMETER)?;
    let mut addresses = Vec::with_capacity(list.len());
    for (index, buffer) in list.iter().enumerate() {
        let &(address, bytes) = world.buffers.get(buffer).ok_or(acl::ACL_BAD_PARAMETER)?;
        let needed = model
            .port(output, index)
            .ok_or(acl::ACL_GE_BAD_PARAMETER)?
            .bytes();
        if bytes < needed || !address.is_multiple_of(ALIGN) {
            return Err(acl::ACL_GE_BAD_PARAMETER);
        }
        world.range(address, needed)?;
        addresses.push(address);
    }
    match model.port(output, addresses.len()) {
        Some(_) => Err(acl::ACL_GE_BAD_PARAMETER),
        None => Ok(addresses),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlExecuteAsync(
    number: u32,
    inputs: *const acl::aclmdlDataset,
    outputs: *mut acl::aclmdlDataset,
    stream: *mut c_void,
) -> c_int {
    guard(|| {
        fault("execute")?;
        within(|world, context| {
            let loaded = world
                .models
                .get(&number)
                .cloned()
                .ok_or(acl::ACL_GE_BAD_MODEL_ID)?;
            let command = Command::Run {
                inputs: bound(world, inputs, &loaded, false)?,
                outputs: bound(world, outputs, &loaded, true)?,
                loaded,
            };
            own(world, context, stream)?.pending.push(command);
            Ok(())
        })
    })
}

/// Marks this library as an emulator.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_emulates_ascend() {}

/// Live objects of the library, and its work so far.
#[repr(C)]
pub struct Counts {
    contexts: u64,
    memories: u64,
    models: u64,
    runs: u64,
    to_board_bytes: u64,
    from_board_bytes: u64,
    on_board_bytes: u64,
    nanoseconds: u64,
    nanojoules: u64,
}

/// # Safety
/// `counts` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_ascend_counts(counts: *mut Counts) {
    let [contexts, memories, models] = world::with(|world| world.alive());
    let made = Counts {
        contexts,
        memories,
        models,
        runs: COUNTS.runs.load(Ordering::Relaxed),
        to_board_bytes: COUNTS.to_board_bytes.load(Ordering::Relaxed),
        from_board_bytes: COUNTS.from_board_bytes.load(Ordering::Relaxed),
        on_board_bytes: COUNTS.on_board_bytes.load(Ordering::Relaxed),
        nanoseconds: COUNTS.nanoseconds.load(Ordering::Relaxed),
        nanojoules: COUNTS.nanojoules.load(Ordering::Relaxed),
    };
    // SAFETY: writable as the caller says.
    let _ = unsafe { give(counts, made) };
}

/// Replaces the fault rules and returns their number, or -1 if one is malformed.
///
/// # Safety
/// `rules` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_ascend_faults(rules: *const c_char) -> c_int {
    if rules.is_null() {
        return -1;
    }
    // SAFETY: a text, as the caller says.
    let rules = unsafe { CStr::from_ptr(rules) }.to_string_lossy();
    board::faults().set(&rules).map_or(-1, |count| count as c_int)
}
