//! Objects of the driver, as types that close, free and unload them.
//!
//! Invariants:
//! 1. Memory and programs hold their session, so it is closed last.
//! 2. A program runs once at a time.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_sdk::{Error, ErrorKind, HostBuffer, Result};

use super::api::{self, Api, RawBinding, RawMemory, RawProgram, RawProgramInfo, RawSensors, RawSession};
use super::graph::Graph;

/// Description of a chip.
#[derive(Debug, Clone)]
pub(crate) struct DeviceInfo {
    pub(crate) name: String,
    pub(crate) firmware: String,
    pub(crate) memory_bytes: u64,
    pub(crate) bytes_per_s: u64,
    pub(crate) macs_per_s: u64,
    pub(crate) import_alignment: u32,
    pub(crate) is_simulated: bool,
}

/// Sensor readings; `None` for a missing sensor.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sensors {
    pub(crate) temperature_mc: Option<i64>,
    pub(crate) power_mw: Option<u64>,
    pub(crate) energy_uj: Option<u64>,
    pub(crate) memory_used_bytes: Option<u64>,
}

/// A chip in use, from its opening to a reset.
pub struct Session {
    api: &'static Api,
    raw: NonNull<RawSession>,
    number: u64,
}

// SAFETY: the header allows every call from any thread.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: open, and everything made in it is gone: it would hold the session.
        unsafe { (self.api.session_close)(self.raw.as_ptr()) }
    }
}

impl Session {
    pub(super) fn open(api: &'static Api, index: u32) -> Result<Session> {
        static OPENED: AtomicU64 = AtomicU64::new(1);
        let mut raw = ptr::null_mut();
        // SAFETY: the place for the session lives during the call.
        let code = unsafe { (api.session_open)(index, &raw mut raw) };
        api.check("xyz_session_open", code)?;
        Ok(Session {
            api,
            raw: made("xyz_session_open", raw)?,
            number: OPENED.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Number of the session, unique in the process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Describes the chip.
    pub(crate) fn info(&self) -> Result<DeviceInfo> {
        let mut info = MaybeUninit::<api::RawDeviceInfo>::zeroed();
        // SAFETY: an open session; the record lives during the call.
        let code = unsafe { (self.api.session_info)(self.raw.as_ptr(), info.as_mut_ptr()) };
        self.api.check("xyz_session_info", code)?;
        // SAFETY: numbers and bytes, for which all zeros are a value, too.
        let info = unsafe { info.assume_init() };
        Ok(DeviceInfo {
            name: text(&info.name),
            firmware: text(&info.firmware),
            memory_bytes: info.memory_bytes,
            bytes_per_s: info.bytes_per_s,
            macs_per_s: info.macs_per_s,
            import_alignment: info.import_alignment,
            is_simulated: info.is_simulated != 0,
        })
    }

    /// Ends the run in progress, or else the next one.
    pub(crate) fn interrupt(&self) -> Result<()> {
        // SAFETY: an open session.
        let code = unsafe { (self.api.session_interrupt)(self.raw.as_ptr()) };
        self.api.check("xyz_session_interrupt", code)
    }

    /// Reads the sensors; `None` if the driver is of a version without them.
    pub(crate) fn sensors(&self) -> Result<Option<Sensors>> {
        let Some(read) = self.api.sensors_read else {
            return Ok(None);
        };
        let mut raw = RawSensors::default();
        // SAFETY: an open session; the record lives during the call.
        let code = unsafe { read(self.raw.as_ptr(), &raw mut raw) };
        self.api.check("xyz_sensors_read", code)?;
        let has = |sensor: u32| raw.valid & sensor != 0;
        Ok(Some(Sensors {
            temperature_mc: has(api::SENSOR_TEMPERATURE).then_some(raw.temperature_mc.into()),
            power_mw: has(api::SENSOR_POWER).then_some(raw.power_mw),
            energy_uj: has(api::SENSOR_ENERGY).then_some(raw.energy_uj),
            memory_used_bytes: has(api::SENSOR_MEMORY).then_some(raw.memory_used_bytes),
        }))
    }

    /// Asks the driver whether it would compile a graph.
    pub(crate) fn check(&self, graph: &Graph) -> Result<()> {
        // SAFETY: an open session; the graph lives during the call.
        let code = graph.with_raw(|raw| unsafe { (self.api.graph_check)(self.raw.as_ptr(), raw) });
        self.api.check("xyz_graph_check", code)
    }

    /// Compiles a graph, whose constants have their elements.
    pub(crate) fn compile(&self, graph: &Graph) -> Result<Vec<u8>> {
        let (mut bytes, mut size) = (ptr::null_mut(), 0u64);
        let code = graph.with_raw(|raw| {
            // SAFETY: an open session; the graph and the places for the result live during the call.
            unsafe { (self.api.graph_compile)(self.raw.as_ptr(), raw, &raw mut bytes, &raw mut size) }
        });
        self.api.check("xyz_graph_compile", code)?;
        let bytes = made("xyz_graph_compile", bytes)?;
        // SAFETY: the driver wrote this many bytes, and only `bytes_free` ends them.
        let compiled = unsafe { slice::from_raw_parts(bytes.as_ptr(), size as usize) }.to_vec();
        // SAFETY: made above, freed once.
        unsafe { (self.api.bytes_free)(bytes.as_ptr()) };
        Ok(compiled)
    }
}

/// Memory that the chip sees.
pub struct MemoryBlock {
    session: Arc<Session>,
    raw: NonNull<RawMemory>,
}

// SAFETY: the header allows every call from any thread.
unsafe impl Send for MemoryBlock {}
// SAFETY: as above; the host orders reads and writes.
unsafe impl Sync for MemoryBlock {}

impl Drop for MemoryBlock {
    fn drop(&mut self) {
        // SAFETY: made once, freed once; a run that uses it holds it.
        unsafe { (self.session.api.memory_free)(self.raw.as_ptr()) }
    }
}

impl MemoryBlock {
    /// Allocates memory of the chip.
    pub(crate) fn allocate(session: &Arc<Session>, bytes: u64) -> Result<MemoryBlock> {
        let mut raw = ptr::null_mut();
        // SAFETY: an open session; the place for the memory lives during the call.
        let code = unsafe { (session.api.memory_allocate)(session.raw.as_ptr(), bytes, &raw mut raw) };
        MemoryBlock::of(session, "xyz_memory_allocate", code, raw)
    }

    /// Lets the chip use the first `bytes` bytes of host memory, which outlives the block, in place.
    pub(crate) fn import(session: &Arc<Session>, host: &HostBuffer, bytes: u64) -> Result<MemoryBlock> {
        let (mut raw, address) = (ptr::null_mut(), host.as_ptr().cast::<c_void>());
        // SAFETY: an open session; the buffer that holds the block holds the host's memory, too.
        let code = unsafe { (session.api.memory_import)(session.raw.as_ptr(), address, bytes, &raw mut raw) };
        MemoryBlock::of(session, "xyz_memory_import", code, raw)
    }

    fn of(session: &Arc<Session>, call: &str, code: i32, raw: *mut RawMemory) -> Result<MemoryBlock> {
        session.api.check(call, code)?;
        Ok(MemoryBlock {
            session: Arc::clone(session),
            raw: made(call, raw)?,
        })
    }

    /// Copies the first bytes from the chip.
    pub(crate) fn read(&self, to: &mut [u8]) -> Result<()> {
        let (api, bytes) = (self.session.api, to.len() as u64);
        // SAFETY: live memory; the driver refuses a range past its end; `to` has this many bytes.
        let code = unsafe { (api.memory_read)(self.raw.as_ptr(), 0, to.as_mut_ptr().cast(), bytes) };
        api.check("xyz_memory_read", code)
    }

    /// Copies the first bytes to the chip.
    pub(crate) fn write(&self, from: &[u8]) -> Result<()> {
        let (api, bytes) = (self.session.api, from.len() as u64);
        // SAFETY: live memory; the driver refuses a range past its end; `from` has this many bytes.
        let code = unsafe { (api.memory_write)(self.raw.as_ptr(), 0, from.as_ptr().cast(), bytes) };
        api.check("xyz_memory_write", code)
    }
}

/// Memory bound to a port.
pub(crate) struct Binding {
    pub(crate) memory: Arc<MemoryBlock>,
    /// Of the tensor's first element, in bytes.
    pub(crate) offset: u64,
}

/// Memory and number of operations of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramInfo {
    pub(crate) constant_bytes: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) operations: usize,
    pub(crate) ports: usize,
}

/// A loaded program.
pub(crate) struct Program {
    session: Arc<Session>,
    raw: NonNull<RawProgram>,
    info: ProgramInfo,
    /// The bindings of the run in progress, as the driver reads them.
    bound: Mutex<Vec<RawBinding>>,
}

// SAFETY: the header allows every call from any thread, and `bound` serialises runs.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: loaded once, unloaded once; a run in progress would hold it.
        unsafe { (self.session.api.program_unload)(self.raw.as_ptr()) }
    }
}

impl Program {
    /// Loads bytes that [`Session::compile`] made.
    pub(crate) fn load(session: &Arc<Session>, bytes: &[u8]) -> Result<Program> {
        let mut raw = ptr::null_mut();
        let mut info = RawProgramInfo::default();
        let data = bytes.as_ptr().cast();
        let size = bytes.len() as u64;
        // SAFETY: an open session; bytes and places live during the call.
        let code =
            unsafe { (session.api.program_load)(session.raw.as_ptr(), data, size, &raw mut raw, &raw mut info) };
        session.api.check("xyz_program_load", code)?;
        Ok(Program {
            session: Arc::clone(session),
            raw: made("xyz_program_load", raw)?,
            info: ProgramInfo {
                constant_bytes: info.constant_bytes,
                scratch_bytes: info.scratch_bytes,
                operations: info.operation_count as usize,
                ports: info.port_count as usize,
            },
            bound: Mutex::new(Vec::with_capacity(info.port_count as usize)),
        })
    }

    /// Its memory, operations and ports.
    pub(crate) fn info(&self) -> ProgramInfo {
        self.info
    }

    /// Runs the program over a binding for each port and waits for its end. Writes the time of each
    /// operation to `step_ns`, if it has a place for each. Returns the time on the chip, in nanoseconds.
    pub(crate) fn run(&self, bindings: &[Binding], step_ns: &mut [u64]) -> Result<u64> {
        if bindings.len() != self.info.ports {
            let what = format!("{} bindings for {} ports", bindings.len(), self.info.ports);
            return Err(Error::bad_argument(what));
        }
        let steps = match step_ns.len() {
            0 => ptr::null_mut(),
            count if count == self.info.operations => step_ns.as_mut_ptr(),
            count => return Err(Error::bad_argument(format!("room for {count} steps"))),
        };
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.clear();
        bound.extend(bindings.iter().map(|binding| RawBinding {
            memory: binding.memory.raw.as_ptr(),
            offset: binding.offset,
        }));
        let (api, mut run_ns) = (self.session.api, 0);
        // SAFETY: a loaded program and live memory, a binding for each port, room for each step; `bound`
        // is locked, so that no other run is in progress.
        let code = unsafe { (api.program_run)(self.raw.as_ptr(), bound.as_ptr(), &raw mut run_ns, steps) };
        api.check("xyz_program_run", code).map(|()| run_ns)
    }
}

/// What a successful call returned.
fn made<T>(call: &str, raw: *mut T) -> Result<NonNull<T>> {
    NonNull::new(raw).ok_or_else(|| {
        Error::new(
            ErrorKind::Persistent,
            format!("{call} succeeded and returned null"),
        )
    })
}

/// A text of the driver, up to its first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
