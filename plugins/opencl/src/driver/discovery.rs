//! The devices that the drivers of this machine offer, and what each can hold.
//!
//! Invariants:
//! 1. Devices are in the drivers' order. A processor that plays a device is listed where there is no GPU.
//! 2. A device that would compute other results than the kernels state (big-endian, no rounding to nearest, no
//!    64-bit integers) or that compiles nothing is not listed.

use opencl3::device::{
    CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, CL_FP_ROUND_TO_NEAREST,
    Device,
};
use opencl3::error_codes::DLOPEN_RUNTIME_LOAD_FAILED;
use opencl3::platform::get_platforms;
use polychip_gpu_kernels::{Features, Limits};
use polychip_sdk::{Error, ErrorKind, Result};

use super::said;
use crate::source::Half;

/// An available device.
#[derive(Debug, Clone)]
pub(crate) struct ClDevice {
    pub(crate) device: Device,
    name: String,
    pub(crate) vendor: String,
    /// Driver and version of OpenCL.
    pub(crate) driver: String,
    /// Whether a processor plays the device.
    pub(crate) software: bool,
    /// Whether host and device have one memory.
    pub(crate) unified: bool,
    pub(crate) half: Half,
    /// Whether the driver can be asked to round quotients and roots as IEEE 754 does.
    pub(crate) exact_division: bool,
    /// Whether queues have priorities.
    pub(crate) priorities: bool,
    /// Whether queues are made with properties: OpenCL 2.0.
    pub(crate) modern: bool,
    /// Alignment of memory that is shared, in bytes.
    pub(crate) alignment: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) limits: Limits,
    /// Compute units times clock, in hertz.
    pub(crate) ticks_per_s: u64,
}

/// All devices, or those whose name or driver contains `wanted`.
///
/// # Errors
/// `Unsupported` where there is no library, no driver or no such device.
pub(crate) fn find(wanted: Option<&str>) -> Result<Vec<ClDevice>> {
    let platforms = get_platforms().map_err(|error| match error.0 {
        DLOPEN_RUNTIME_LOAD_FAILED => Error::unsupported(
            "OpenCL's library (libOpenCL.so.1, or what OPENCL_DYLIB_PATH names) cannot be opened: \
             install an OpenCL driver and its loader",
        ),
        _ => {
            let message = said("no platform of OpenCL (install a driver)", error);
            Error::unsupported(message.to_string())
        }
    })?;
    let mut refused = Vec::new();
    let mut found = Vec::new();
    for of in [CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_CPU] {
        for platform in &platforms {
            // a platform without such devices says so by an error
            for id in platform.get_devices(of).unwrap_or_default() {
                match ClDevice::look(Device::new(id), of == CL_DEVICE_TYPE_CPU) {
                    Ok(device) if wanted.is_none_or(|wanted| device.identity().contains(wanted)) => {
                        found.push(device);
                    }
                    Ok(_) => {}
                    Err(error) => refused.push(error.to_string()),
                }
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let mut message = match wanted {
        Some(wanted) => format!("no OpenCL device whose name or driver contains '{wanted}'"),
        None => "no OpenCL device".to_owned(),
    };
    for why in refused {
        message.push_str("; ");
        message.push_str(&why);
    }
    Err(Error::unsupported(message))
}

impl ClDevice {
    fn look(device: Device, software: bool) -> Result<ClDevice> {
        let ask = |error| said("a device does not describe itself", error);
        let name = device.name().map_err(ask)?.trim().to_owned();
        let version = device.version().map_err(ask)?;
        let refuse = |what: &str| {
            let message = format!("{name}: {what}");
            Err(Error::new(ErrorKind::Unsupported, message))
        };
        let available = device.available().map_err(ask)?;
        if !available || !device.compiler_available().map_err(ask)? {
            return refuse("not available, or without a compiler");
        }
        if !device.endian_little().map_err(ask)? {
            return refuse("big-endian; tensors are little-endian");
        }
        let floats = device.single_fp_config().map_err(ask)?;
        if floats & CL_FP_ROUND_TO_NEAREST == 0 {
            return refuse("its floats do not round to nearest");
        }
        let extensions = device.extensions().map_err(ask)?;
        let has = |extension: &str| extensions.split_whitespace().any(|known| known == extension);
        let full = device.profile().map_err(ask)?.starts_with("FULL");
        if !full && !has("cles_khr_int64") {
            return refuse("no 64-bit integers, in which offsets are given");
        }
        let sizes = device.max_work_item_sizes().map_err(ask)?;
        let size = |axis: usize| sizes.get(axis).map_or(1, |&size| size.min(1024) as u32);
        // what a kernel is given: a pointer and a number of 8 bytes each per binding
        let bindings = device.max_parameter_size().map_err(ask)? / 16;
        let units = u64::from(device.max_compute_units().map_err(ask)?);
        let clock = u64::from(device.max_clock_frequency().map_err(ask)?);
        Ok(ClDevice {
            vendor: device.vendor().map_err(ask)?.trim().to_owned(),
            driver: format!(
                "{} {}",
                version.trim(),
                device.driver_version().map_err(ask)?.trim()
            ),
            software,
            unified: device.host_unified_memory().map_err(ask)?,
            half: if has("cl_khr_fp16") {
                Half::Native
            } else {
                Half::Stored
            },
            exact_division: floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT != 0,
            priorities: has("cl_khr_priority_hints"),
            modern: !version.starts_with("OpenCL 1."),
            alignment: (u64::from(device.mem_base_addr_align().map_err(ask)?) / 8).max(64),
            memory_bytes: device.global_mem_size().map_err(ask)?,
            limits: Limits {
                invocations: device.max_work_group_size().map_err(ask)?.min(1024) as u32,
                workgroup: [size(0), size(1), size(2)],
                groups: 65_535,
                // more than this is no memory of the workgroup's own on any GPU
                shared_bytes: device.local_mem_size().map_err(ask)?.min(64 << 10) as u32,
                bindings: bindings.min(16) as u32,
                binding_bytes: device.max_mem_alloc_size().map_err(ask)?,
                subgroup: [4, 128],
                features: Features {
                    f16: true,
                    int64: true,
                    subgroups: false,
                    dot4: true,
                    cooperative: 0,
                },
            },
            ticks_per_s: units.saturating_mul(clock).saturating_mul(1_000_000),
            name,
            device,
        })
    }

    /// Name for people.
    pub(crate) fn name(&self) -> String {
        if self.software {
            format!("{} (software, no GPU)", self.name)
        } else {
            self.name.clone()
        }
    }

    /// What blobs, programs and figures of this device depend on.
    pub(crate) fn identity(&self) -> String {
        format!("{} {} | {}", self.vendor, self.name, self.driver)
    }
}
