//! Records and functions of `xyz_driver.h`, as it declares them. A generator such as bindgen can write
//! this file.

use std::ffi::{c_char, c_void};

use libloading::Library;

pub(super) const OK: i32 = 0;
pub(super) const BAD_ARGUMENT: i32 = 1;
pub(super) const UNSUPPORTED: i32 = 2;
pub(super) const OUT_OF_MEMORY: i32 = 3;
pub(super) const BAD_PROGRAM: i32 = 4;
pub(super) const INTERRUPTED: i32 = 5;
pub(super) const DEVICE_LOST: i32 = 6;

pub(super) const SENSOR_TEMPERATURE: u32 = 1;
pub(super) const SENSOR_POWER: u32 = 2;
pub(super) const SENSOR_ENERGY: u32 = 4;
pub(super) const SENSOR_MEMORY: u32 = 8;

/// Objects of the driver, seen only by it.
pub(super) enum RawSession {}
pub(super) enum RawMemory {}
pub(super) enum RawProgram {}

#[repr(C)]
pub(super) struct RawDeviceInfo {
    pub(super) name: [u8; 64],
    pub(super) firmware: [u8; 32],
    pub(super) memory_bytes: u64,
    pub(super) bytes_per_s: u64,
    pub(super) macs_per_s: u64,
    pub(super) import_alignment: u32,
    pub(super) is_simulated: u32,
}

#[repr(C)]
pub(super) struct RawTensor {
    pub(super) rank: u32,
    pub(super) dims: [u32; 4],
    pub(super) is_constant: u32,
    pub(super) elements: *const f32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct RawOperation {
    pub(super) kind: u32,
    pub(super) inputs: [u32; 2],
    pub(super) output: u32,
    pub(super) kernel: [u32; 2],
    pub(super) strides: [u32; 2],
    pub(super) dilations: [u32; 2],
    pub(super) pads: [u32; 2],
}

#[repr(C)]
pub(super) struct RawGraph {
    pub(super) tensors: *const RawTensor,
    pub(super) tensor_count: u32,
    pub(super) operations: *const RawOperation,
    pub(super) operation_count: u32,
    pub(super) ports: *const u32,
    pub(super) port_count: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct RawProgramInfo {
    pub(super) constant_bytes: u64,
    pub(super) scratch_bytes: u64,
    pub(super) operation_count: u32,
    pub(super) port_count: u32,
}

#[repr(C)]
pub(super) struct RawBinding {
    pub(super) memory: *mut RawMemory,
    pub(super) offset: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct RawSensors {
    pub(super) valid: u32,
    pub(super) temperature_mc: i32,
    pub(super) power_mw: u64,
    pub(super) energy_uj: u64,
    pub(super) memory_used_bytes: u64,
}

/// Declares [`Api`]: functions that every accepted version has, then those of later versions.
macro_rules! functions {
    (required { $($name:ident: $type:ty = $symbol:literal;)* } later { $($later:ident: $of:ty = $later_symbol:literal;)* }) => {
        /// The driver's functions.
        pub(super) struct Api {
            $(pub(super) $name: $type,)*
            $(pub(super) $later: Option<$of>,)*
        }

        impl Api {
            /// Finds all functions, or returns the name of a missing one.
            pub(super) fn of(library: &'static Library) -> Result<Api, &'static str> {
                Ok(Api {
                    // SAFETY: the header declares the function with this type.
                    $($name: *unsafe { library.get::<$type>($symbol) }.map_err(|_| $symbol)?,)*
                    // SAFETY: as above.
                    $($later: unsafe { library.get::<$of>($later_symbol) }.ok().map(|found| *found),)*
                })
            }
        }
    };
}

functions! {
    required {
        last_error: unsafe extern "C" fn() -> *const c_char = "xyz_last_error";
        device_count: unsafe extern "C" fn(*mut u32) -> i32 = "xyz_device_count";
        session_open: unsafe extern "C" fn(u32, *mut *mut RawSession) -> i32 = "xyz_session_open";
        session_close: unsafe extern "C" fn(*mut RawSession) = "xyz_session_close";
        session_info: unsafe extern "C" fn(*mut RawSession, *mut RawDeviceInfo) -> i32 = "xyz_session_info";
        session_interrupt: unsafe extern "C" fn(*mut RawSession) -> i32 = "xyz_session_interrupt";
        memory_allocate: unsafe extern "C" fn(*mut RawSession, u64, *mut *mut RawMemory) -> i32 = "xyz_memory_allocate";
        memory_import: unsafe extern "C" fn(*mut RawSession, *mut c_void, u64, *mut *mut RawMemory) -> i32 = "xyz_memory_import";
        memory_write: unsafe extern "C" fn(*mut RawMemory, u64, *const c_void, u64) -> i32 = "xyz_memory_write";
        memory_read: unsafe extern "C" fn(*mut RawMemory, u64, *mut c_void, u64) -> i32 = "xyz_memory_read";
        memory_free: unsafe extern "C" fn(*mut RawMemory) = "xyz_memory_free";
        graph_check: unsafe extern "C" fn(*mut RawSession, *const RawGraph) -> i32 = "xyz_graph_check";
        graph_compile: unsafe extern "C" fn(*mut RawSession, *const RawGraph, *mut *mut u8, *mut u64) -> i32 = "xyz_graph_compile";
        bytes_free: unsafe extern "C" fn(*mut u8) = "xyz_bytes_free";
        program_load: unsafe extern "C" fn(*mut RawSession, *const c_void, u64, *mut *mut RawProgram, *mut RawProgramInfo) -> i32 = "xyz_program_load";
        program_unload: unsafe extern "C" fn(*mut RawProgram) = "xyz_program_unload";
        program_run: unsafe extern "C" fn(*mut RawProgram, *const RawBinding, *mut u64, *mut u64) -> i32 = "xyz_program_run";
    }
    later {
        sensors_read: unsafe extern "C" fn(*mut RawSession, *mut RawSensors) -> i32 = "xyz_sensors_read";
    }
}

/// The library's version, major and minor, or the name of the missing function.
pub(super) fn version(library: &'static Library) -> Result<(u32, u32), &'static str> {
    const SYMBOL: &str = "xyz_version";
    // SAFETY: the header declares the function with this type.
    let version = unsafe { library.get::<unsafe extern "C" fn() -> u32>(SYMBOL) }.map_err(|_| SYMBOL)?;
    // SAFETY: it has no arguments and no effect.
    let version = unsafe { version() };
    Ok((version >> 16, version & 0xffff))
}
