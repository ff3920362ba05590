//! The runtime's calls, with the vendor's names, layouts and codes. Two libraries export them.
//!
//! Invariants:
//! 1. No call unwinds into its caller.
//! 2. A record is read or written only as a whole, and only if the caller states at least its size.

#![allow(unsafe_code, reason = "the vendor's C interface")]

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use polychip_emulator_chip::fault::Effect;
use polychip_emulator_chip::file;
use polychip_emulator_chip::model::{self, Model};
use polychip_sys::rknn::bindings as rk;

use crate::board::{self, COUNTS, Description, MAGIC, NEWEST, TARGET};
use crate::context::{Context, Form};
use crate::{memories, world};

type Done = Result<(), i32>;

fn guard(body: impl FnOnce() -> Done) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => rk::RKNN_OK,
        Ok(Err(code)) => code,
        Err(_) => rk::RKNN_FAIL,
    }
}

/// The fault that is wished for at a call.
fn fault(call: &str) -> Result<Option<Effect>, i32> {
    match board::fault(call) {
        Some(Effect::Fail(code)) => Err(i32::try_from(code).unwrap_or(rk::RKNN_FAIL)),
        Some(Effect::Lost) => {
            world::lose();
            Err(rk::RKNN_NO_DEVICE)
        }
        other => Ok(other),
    }
}

fn context(number: u64) -> Result<Arc<Context>, i32> {
    world::context(number).ok_or(rk::RKNN_BAD_CONTEXT)
}

/// Opens a model.
///
/// # Safety
/// `model` is readable for `size` bytes, or a path where that is 0; `context` is writable.
pub unsafe fn rknn_init(
    context: *mut u64,
    model: *mut c_void,
    size: u32,
    flags: u32,
    _extend: *mut rk::rknn_init_extend,
    board_code: i32,
) -> i32 {
    guard(|| {
        fault("init")?;
        if !board::is_there() {
            eprintln!("emulated: no board");
            return Err(board_code);
        }
        if context.is_null() || model.is_null() {
            return Err(rk::RKNN_BAD_PARAMETER);
        }
        let bytes = match size {
            0 => {
                // SAFETY: a path, as the caller says.
                let path = unsafe { CStr::from_ptr(model.cast::<c_char>()) };
                std::fs::read(path.to_string_lossy().as_ref()).map_err(|_| rk::RKNN_BAD_MODEL)?
            }
            // SAFETY: readable as the caller says.
            size => unsafe { std::slice::from_raw_parts(model.cast::<u8>(), size as usize) }.to_vec(),
        };
        let parts = file::read::<Description>(MAGIC, &bytes).ok_or(rk::RKNN_BAD_MODEL)?;
        if parts.description.target_platform != TARGET {
            return Err(rk::RKNN_OTHER_PLATFORM);
        }
        let graph = model::graph(parts.model, NEWEST).map_err(|_| rk::RKNN_BAD_MODEL)?;
        let model = Model::new(&graph, parts.description.custom_string).map_err(|_| rk::RKNN_BAD_MODEL)?;
        let number = world::add(Context::new(Arc::new(model), flags));
        // SAFETY: writable as the caller says.
        unsafe { context.write(number) };
        Ok(())
    })
}

/// Another context of a model.
///
/// # Safety
/// Both are null or valid.
pub unsafe fn rknn_dup_context(from: *mut u64, out: *mut u64) -> i32 {
    guard(|| {
        fault("dup")?;
        if from.is_null() || out.is_null() {
            return Err(rk::RKNN_BAD_PARAMETER);
        }
        // SAFETY: readable as the caller says.
        let made = context(unsafe { from.read() })?.another();
        // SAFETY: writable as the caller says.
        unsafe { out.write(world::add(made)) };
        Ok(())
    })
}

/// Ends a context.
///
/// # Safety
/// None.
pub unsafe fn rknn_destroy(number: u64) -> i32 {
    guard(|| {
        if world::end(number) {
            Ok(())
        } else {
            Err(rk::RKNN_BAD_CONTEXT)
        }
    })
}

fn letters<const N: usize>(text: &str) -> [c_char; N] {
    let mut letters = [0; N];
    for (to, from) in letters[..N - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    letters
}

/// The runtime's description of an input or output: 4-D inputs have their channels last.
fn attr(context: &Context, output: bool, index: u32) -> Result<rk::rknn_tensor_attr, i32> {
    let inputs = context.model.program.inputs().len();
    let names = if output {
        &context.model.names.1
    } else {
        &context.model.names.0
    };
    let name = names.get(index as usize).ok_or(rk::RKNN_BAD_PARAMETER)?;
    let port = if output {
        inputs + index as usize
    } else {
        index as usize
    };
    let spec = context.spec(port).ok_or(rk::RKNN_BAD_PARAMETER)?;
    let encoding = spec.encoding.as_ref();
    let planes = spec.shape.len() == 4;
    let mut shape = spec.shape.clone();
    let order = match (planes, output) {
        (true, false) => {
            shape[1..].rotate_left(1);
            rk::RKNN_ORDER_NHWC
        }
        (true, true) => rk::RKNN_ORDER_NCHW,
        _ => rk::RKNN_ORDER_UNDEFINED,
    };
    let mut dims = [0; 16];
    for (to, from) in dims.iter_mut().zip(&shape) {
        *to = *from as u32;
    }
    Ok(rk::rknn_tensor_attr {
        index,
        n_dims: shape.len() as u32,
        dims,
        name: letters(name),
        n_elems: spec.elements() as u32,
        size: spec.bytes() as u32,
        fmt: order as i32,
        type_: match encoding {
            Some(_) => rk::RKNN_TYPE_I8,
            None => rk::RKNN_TYPE_F16,
        } as i32,
        qnt_type: match encoding {
            Some(_) => rk::RKNN_QUANT_AFFINE,
            None => rk::RKNN_QUANT_NONE,
        } as i32,
        fl: 0,
        zp: encoding.map_or(0, |encoding| encoding.zero_points[0]),
        scale: encoding.map_or(1.0, |encoding| encoding.scales[0]),
        w_stride: 0,
        size_with_stride: spec.bytes() as u32,
        pass_through: 0,
        h_stride: 0,
    })
}

/// Answers a question.
///
/// # Safety
/// `info` is null or valid for `size` bytes.
pub unsafe fn rknn_query(number: u64, command: i32, info: *mut c_void, size: u32) -> i32 {
    /// # Safety
    /// `info` is valid for `size` bytes.
    unsafe fn give<T>(info: *mut c_void, size: u32, record: T) -> Done {
        if (size as usize) < size_of::<T>() {
            return Err(rk::RKNN_BAD_PARAMETER);
        }
        // SAFETY: long enough.
        unsafe { info.cast::<T>().write_unaligned(record) };
        Ok(())
    }
    guard(|| {
        let effect = fault("query")?;
        let context = context(number)?;
        if info.is_null() {
            return Err(rk::RKNN_BAD_PARAMETER);
        }
        let program = &context.model.program;
        // SAFETY: valid for `size` bytes as the caller says, here and below.
        unsafe {
            match u32::try_from(command).unwrap_or(u32::MAX) {
                rk::RKNN_ASK_COUNTS => give(
                    info,
                    size,
                    rk::rknn_counts {
                        n_input: program.inputs().len() as u32,
                        n_output: program.outputs().len() as u32,
                    },
                ),
                ask @ (rk::RKNN_ASK_INPUT | rk::RKNN_ASK_OUTPUT) => {
                    if (size as usize) < size_of::<rk::rknn_tensor_attr>() {
                        return Err(rk::RKNN_BAD_PARAMETER);
                    }
                    let index = (*info.cast::<rk::rknn_tensor_attr>()).index;
                    let mut attr = attr(&context, ask == rk::RKNN_ASK_OUTPUT, index)?;
                    if effect == Some(Effect::Wrong) {
                        attr.scale *= 2.0;
                    }
                    give(info, size, attr)
                }
                rk::RKNN_ASK_TIMES => {
                    let (at, length) = context.times().ok_or(rk::RKNN_FAIL)?;
                    let data = std::ptr::with_exposed_provenance_mut::<c_char>(at);
                    give(
                        info,
                        size,
                        rk::rknn_times {
                            data,
                            length: length as u64,
                        },
                    )
                }
                rk::RKNN_ASK_RUN_TIME => give(
                    info,
                    size,
                    rk::rknn_run_time {
                        microseconds: context.microseconds(),
                    },
                ),
                rk::RKNN_ASK_VERSIONS => give(
                    info,
                    size,
                    rk::rknn_versions {
                        api: letters("2.3.2 (emulated)"),
                        driver: letters("0.9.8 (emulated)"),
                    },
                ),
                rk::RKNN_ASK_MEMORY => {
                    let (weight_bytes, internal_bytes) = context.model.memory;
                    give(
                        info,
                        size,
                        rk::rknn_memory_sizes {
                            weight_bytes,
                            internal_bytes,
                            dma_bytes: u64::from(weight_bytes) + u64::from(internal_bytes),
                            sram_bytes: 0,
                            free_sram_bytes: 0,
                            reserved: [0; 10],
                        },
                    )
                }
                rk::RKNN_ASK_CUSTOM_STRING => give(
                    info,
                    size,
                    rk::rknn_custom_string {
                        text: letters(&context.model.mark),
                    },
                ),
                _ => Err(rk::RKNN_BAD_PARAMETER),
            }
        }
    })
}

/// Copies inputs in.
///
/// # Safety
/// `inputs` are `count` records whose bytes are readable.
pub unsafe fn rknn_inputs_set(number: u64, count: u32, inputs: *mut rk::rknn_input) -> i32 {
    guard(|| {
        fault("inputs_set")?;
        let context = context(number)?;
        if inputs.is_null() {
            return Err(rk::RKNN_BAD_INPUT);
        }
        // SAFETY: readable as the caller says.
        for input in unsafe { std::slice::from_raw_parts(inputs, count as usize) } {
            let form = Form::of(input.type_, input.fmt).ok_or(rk::RKNN_BAD_INPUT)?;
            if input.buf.is_null() || input.pass_through != 0 {
                return Err(rk::RKNN_BAD_INPUT);
            }
            // SAFETY: readable as the caller says.
            let bytes = unsafe { std::slice::from_raw_parts(input.buf.cast::<u8>(), input.size as usize) };
            context.set(input.index as usize, bytes, form)?;
        }
        Ok(())
    })
}

/// Restricts a context to some cores.
///
/// # Safety
/// None.
pub unsafe fn rknn_set_core_mask(number: u64, mask: i32) -> i32 {
    guard(|| {
        fault("set_core_mask")?;
        context(number)?;
        match mask {
            0..=7 | 0xffff => Ok(()),
            _ => Err(rk::RKNN_BAD_PARAMETER),
        }
    })
}

/// One run.
///
/// # Safety
/// Memory bound to the context is valid.
pub unsafe fn rknn_run(number: u64, _extend: *mut rk::rknn_run_extend) -> i32 {
    guard(|| {
        context(number)?;
        let effect = fault("run")?;
        // a loss while it waited
        context(number)?.run(effect)
    })
}

/// Copies outputs out.
///
/// # Safety
/// `outputs` are `count` records; memory that they bring is writable.
pub unsafe fn rknn_outputs_get(
    number: u64,
    count: u32,
    outputs: *mut rk::rknn_output,
    _extend: *mut rk::rknn_output_extend,
) -> i32 {
    guard(|| {
        fault("outputs_get")?;
        let context = context(number)?;
        if outputs.is_null() {
            return Err(rk::RKNN_BAD_OUTPUT);
        }
        // SAFETY: writable as the caller says.
        let outputs = unsafe { std::slice::from_raw_parts_mut(outputs, count as usize) };
        for (index, output) in outputs.iter_mut().enumerate() {
            let index = if output.is_prealloc != 0 {
                output.index as usize
            } else {
                index
            };
            let bytes = context.output(index, output.want_float != 0)?;
            if output.is_prealloc == 0 {
                // the runtime's own, until it is released
                let mut own = bytes.into_boxed_slice();
                output.size = own.len() as u32;
                output.buf = own.as_mut_ptr().cast();
                output.index = index as u32;
                std::mem::forget(own);
                continue;
            }
            if output.buf.is_null() || (output.size as usize) < bytes.len() {
                return Err(rk::RKNN_BAD_OUTPUT);
            }
            // SAFETY: writable for `size` bytes, which are enough.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), output.buf.cast::<u8>(), bytes.len()) };
        }
        Ok(())
    })
}

/// Frees outputs that the runtime made.
///
/// # Safety
/// `outputs` are those of `rknn_outputs_get`.
pub unsafe fn rknn_outputs_release(number: u64, count: u32, outputs: *mut rk::rknn_output) -> i32 {
    guard(|| {
        context(number)?;
        if outputs.is_null() {
            return Err(rk::RKNN_BAD_OUTPUT);
        }
        // SAFETY: writable as the caller says.
        for output in unsafe { std::slice::from_raw_parts_mut(outputs, count as usize) } {
            if output.is_prealloc == 0 && !output.buf.is_null() {
                let own = std::ptr::slice_from_raw_parts_mut(output.buf.cast::<u8>(), output.size as usize);
                // SAFETY: made of a box by `rknn_outputs_get`.
                drop(unsafe { Box::from_raw(own) });
                output.buf = std::ptr::null_mut();
            }
        }
        Ok(())
    })
}

/// The record of memory, whose address is its number.
fn record(address: usize, fd: i32, offset: i32, size: u32) -> *mut rk::rknn_tensor_mem {
    Box::into_raw(Box::new(rk::rknn_tensor_mem {
        virt_addr: std::ptr::with_exposed_provenance_mut(address),
        phys_addr: 0,
        fd,
        offset,
        size,
        flags: 0,
        priv_data: std::ptr::null_mut(),
    }))
}

/// Returns null on failure, because calls that return an address have no code.
fn pointer(body: impl FnOnce() -> Option<*mut rk::rknn_tensor_mem>) -> *mut rk::rknn_tensor_mem {
    let made = catch_unwind(AssertUnwindSafe(body));
    made.ok().flatten().unwrap_or(std::ptr::null_mut())
}

/// Memory of the runtime's own.
///
/// # Safety
/// None.
pub unsafe fn rknn_create_mem(number: u64, size: u32) -> *mut rk::rknn_tensor_mem {
    pointer(|| {
        fault("create_mem").ok()?;
        context(number).ok()?;
        let mut made = std::ptr::null_mut();
        memories::own_memory(number, size as usize, |memory| {
            made = record(memory.address(), -1, 0, size);
            made.expose_provenance()
        });
        Some(made)
    })
}

/// Memory of a file.
///
/// # Safety
/// The descriptor is open, and `address` is where the file's first byte is mapped, as long as the memory is used.
pub unsafe fn rknn_create_mem_from_fd(
    number: u64,
    fd: i32,
    address: *mut c_void,
    size: u32,
    offset: i32,
) -> *mut rk::rknn_tensor_mem {
    pointer(|| {
        fault("create_mem_from_fd").ok()?;
        context(number).ok()?;
        let (start, at) = (address.expose_provenance(), usize::try_from(offset).ok()?);
        let mut made = std::ptr::null_mut();
        memories::file_memory(number, fd, start, size as usize, at, |_| {
            made = record(start, fd, offset, size);
            made.expose_provenance()
        })?;
        Some(made)
    })
}

/// Lets go of memory.
///
/// # Safety
/// `memory` is the context's, and not used any more.
pub unsafe fn rknn_destroy_mem(number: u64, memory: *mut rk::rknn_tensor_mem) -> i32 {
    guard(|| {
        if !world::end_memory(number, memory.expose_provenance()) {
            return Err(rk::RKNN_BAD_PARAMETER);
        }
        // SAFETY: made by `record`, and known until now.
        drop(unsafe { Box::from_raw(memory) });
        Ok(())
    })
}

/// Binds memory to a port.
///
/// # Safety
/// `attr` is readable.
pub unsafe fn rknn_set_io_mem(
    number: u64,
    memory: *mut rk::rknn_tensor_mem,
    wanted: *mut rk::rknn_tensor_attr,
) -> i32 {
    guard(|| {
        fault("set_io_mem")?;
        let context = context(number)?;
        if memory.is_null() || wanted.is_null() {
            return Err(rk::RKNN_BAD_PARAMETER);
        }
        // SAFETY: readable as the caller says.
        let wanted = unsafe { wanted.read() };
        let form = Form::of(wanted.type_, wanted.fmt).ok_or(rk::RKNN_BAD_PARAMETER)?;
        // the name identifies the port: inputs and outputs are numbered separately
        let names = [&context.model.names.0, &context.model.names.1];
        let found = names.iter().enumerate().find_map(|(side, names)| {
            let name = names.get(wanted.index as usize)?;
            (letters::<256>(name) == wanted.name).then_some(side)
        });
        let inputs = context.model.program.inputs().len();
        let port = match found.ok_or(rk::RKNN_BAD_PARAMETER)? {
            0 => wanted.index as usize,
            _ => inputs + wanted.index as usize,
        };
        let spec = context.spec(port).ok_or(rk::RKNN_BAD_PARAMETER)?;
        let memory = memory.expose_provenance();
        let size = memories::size(memory).ok_or(rk::RKNN_BAD_PARAMETER)?;
        if size < form.bytes(&spec) {
            return Err(rk::RKNN_BAD_PARAMETER);
        }
        context.bind(port, memory, form);
        Ok(())
    })
}

/// Maintenance of caches.
///
/// # Safety
/// The memory's mapping is valid.
pub unsafe fn rknn_mem_sync(number: u64, memory: *mut rk::rknn_tensor_mem, direction: i32) -> i32 {
    guard(|| {
        fault("mem_sync")?;
        context(number)?;
        let direction = u32::try_from(direction).unwrap_or(0);
        let (to, from) = (
            direction & rk::RKNN_SYNC_TO_DEVICE != 0,
            direction & rk::RKNN_SYNC_FROM_DEVICE != 0,
        );
        if (to || from) && memories::sync(memory.expose_provenance(), to, from) {
            Ok(())
        } else {
            Err(rk::RKNN_BAD_PARAMETER)
        }
    })
}

/// Live objects and work so far, for tests.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Contexts alive.
    pub contexts: u64,
    /// Memories alive.
    pub memories: u64,
    /// Runs.
    pub runs: u64,
    /// Bytes copied by `rknn_inputs_set` and `rknn_outputs_get`.
    pub copied_bytes: u64,
    /// Calls of `rknn_mem_sync`.
    pub syncs: u64,
    /// Time of all runs by the chip's table, in nanoseconds; emulated.
    pub nanoseconds: u64,
    /// Energy of all runs, in nanojoules; emulated.
    pub nanojoules: u64,
}

/// Writes the counts.
///
/// # Safety
/// `out` is writable.
pub unsafe fn polychip_rknn_counts(out: *mut Counts) {
    let (contexts, memories) = world::alive();
    let told = Counts {
        contexts,
        memories,
        runs: COUNTS.runs.load(Ordering::Relaxed),
        copied_bytes: COUNTS.copied_bytes.load(Ordering::Relaxed),
        syncs: COUNTS.syncs.load(Ordering::Relaxed),
        nanoseconds: COUNTS.nanoseconds.load(Ordering::Relaxed),
        nanojoules: COUNTS.nanojoules.load(Ordering::Relaxed),
    };
    // SAFETY: writable as the caller says.
    unsafe { out.write(told) };
}

/// Replaces the fault rules and returns their number, or -1 if one is malformed.
///
/// # Safety
/// `rules` is a C string.
pub unsafe fn polychip_rknn_faults(rules: *const c_char) -> i32 {
    // SAFETY: as the caller says.
    let rules = unsafe { CStr::from_ptr(rules) }.to_string_lossy();
    board::faults().set(&rules).map_or(-1, |count| count as i32)
}

/// Sets whether the chip is incoherent for memory that is made from now on. No memory may be alive.
///
/// # Safety
/// None.
pub unsafe fn polychip_rknn_incoherent(on: i32) -> i32 {
    if world::alive().1 > 0 {
        return -1;
    }
    board::set_incoherent(on != 0);
    0
}

/// Exports calls of a library by the vendor's names.
#[macro_export]
macro_rules! export {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[doc = "As the vendor's."]
            ///
            /// # Safety
            /// As the vendor's.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: the caller's promises are those of the call.
                unsafe { $crate::ffi::$name($($argument),*) }
            }
        )*
    };
}

/// Exports the calls that both libraries have. The code is returned if there is no board.
#[macro_export]
macro_rules! export_core {
    ($no_board:expr) => {
        use std::ffi::{c_char, c_void};

        use $crate::ffi::Counts;
        use $crate::rk::*;

        /// Marks this library as an emulator.
        #[unsafe(no_mangle)]
        pub extern "C" fn polychip_emulates_rknn() {}

        /// As the vendor's.
        ///
        /// # Safety
        /// As the vendor's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn rknn_init(
            context: *mut u64,
            model: *mut c_void,
            size: u32,
            flags: u32,
            extend: *mut rknn_init_extend,
        ) -> i32 {
            // SAFETY: the caller's promises are those of the call.
            unsafe { $crate::ffi::rknn_init(context, model, size, flags, extend, $no_board) }
        }

        $crate::export! {
            rknn_destroy(context: u64) -> i32;
            rknn_query(context: u64, command: i32, info: *mut c_void, size: u32) -> i32;
            rknn_inputs_set(context: u64, count: u32, inputs: *mut rknn_input) -> i32;
            rknn_set_core_mask(context: u64, mask: i32) -> i32;
            rknn_run(context: u64, extend: *mut rknn_run_extend) -> i32;
            rknn_outputs_get(context: u64, count: u32, outputs: *mut rknn_output, extend: *mut rknn_output_extend) -> i32;
            rknn_outputs_release(context: u64, count: u32, outputs: *mut rknn_output) -> i32;
            polychip_rknn_counts(out: *mut Counts);
            polychip_rknn_faults(rules: *const c_char) -> i32;
            polychip_rknn_incoherent(on: i32) -> i32;
        }
    };
}

/// Exports the additional calls of a board's library.
#[macro_export]
macro_rules! export_shared {
    () => {
        $crate::export! {
            rknn_dup_context(context: *mut u64, out: *mut u64) -> i32;
            rknn_create_mem(context: u64, size: u32) -> *mut rknn_tensor_mem;
            rknn_create_mem_from_fd(context: u64, fd: i32, start: *mut c_void, size: u32, offset: i32) -> *mut rknn_tensor_mem;
            rknn_destroy_mem(context: u64, memory: *mut rknn_tensor_mem) -> i32;
            rknn_set_io_mem(context: u64, memory: *mut rknn_tensor_mem, attr: *mut rknn_tensor_attr) -> i32;
            rknn_mem_sync(context: u64, memory: *mut rknn_tensor_mem, direction: i32) -> i32;
        }
    };
}
