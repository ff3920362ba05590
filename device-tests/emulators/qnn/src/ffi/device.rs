//! Devices, platform and power as C sees them.
//!
//! Invariants:
//! 1. Platform and device info are the same whatever was selected: one device, one part, v68, SoC 30, 4 MB.
//! 2. The SoC id of a device's custom configuration is read at byte 8 or, as in HTP API 5.49, at byte 4, as
//!    `POLYCHIP_QNN_UNION_OFFSET` sets it.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::env;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use polychip_sys::qnn as sys;

use super::guard::{fault, give, guard, handle, number};
use super::read;
use crate::code::{Code, Result};
use crate::fault::Call;
use crate::soc::{DEFAULT, Soc};
use crate::world;

/// Environment variable: offset of the union in the HTP device configuration, 4 or 8.
const OFFSET: &str = "POLYCHIP_QNN_UNION_OFFSET";

/// The HTP library's options of a device configuration. The numbers but for the first are uncertain.
const OPTION_ARCH: u32 = 1;
const OPTION_SIGNED_PD: u32 = 2;

/// Whether the union begins at byte 4.
pub(super) fn early_union() -> bool {
    static EARLY: LazyLock<bool> = LazyLock::new(|| env::var(OFFSET).is_ok_and(|value| value.trim() == "4"));
    *EARLY
}

pub(super) unsafe extern "C" fn create(
    _log: sys::Log,
    config: *const *const sys::Config,
    out: *mut sys::Device,
) -> sys::Code {
    guard(|| {
        fault(Call::DeviceCreate)?;
        let mut soc = DEFAULT;
        // SAFETY: the client's list ends with null.
        for entry in unsafe { read::list(config) } {
            if entry.option == sys::POLYCHIP_QNN_CONFIG_CUSTOM {
                // SAFETY: with this option the union holds a pointer to a custom configuration.
                soc = unsafe { custom(entry.value.custom, soc) }?;
            }
        }
        if out.is_null() {
            return Err(Code::ARGUMENT);
        }
        let at = world::create_device(soc);
        super::log::emit(
            sys::POLYCHIP_QNN_LOG_INFO,
            &format!("emulated device for SoC {} (v{})", soc.id, soc.arch),
        );
        // SAFETY: the client gives a place for the handle.
        unsafe { give(out, handle(at)) }
    })
}

/// The SoC that a custom configuration selects.
///
/// # Safety
/// `config` is null or points to the 32 bytes of an HTP device configuration.
unsafe fn custom(config: *const c_void, before: Soc) -> Result<Soc> {
    if config.is_null() {
        return Err(Code::DEVICE_CONFIG);
    }
    let words = config.cast::<u32>();
    // SAFETY: the caller vouches for the bytes.
    let option = unsafe { words.read_unaligned() };
    // SAFETY: as above; 4 and 8 bytes are inside.
    let value = unsafe { words.add(if early_union() { 1 } else { 2 }).read_unaligned() };
    match option {
        sys::POLYCHIP_QNN_HTP_DEVICE_SOC => Soc::from_id(value).ok_or(Code::DEVICE_CONFIG),
        OPTION_ARCH => Ok(Soc::from_arch(value)),
        OPTION_SIGNED_PD => Ok(before),
        _ => Err(Code::DEVICE_CONFIG),
    }
}

pub(super) unsafe extern "C" fn free(device: sys::Device) -> sys::Code {
    guard(|| world::free_device(number(device)))
}

/// Constant memory of C structs that point to each other.
struct Platform {
    info: *const sys::PlatformInfo,
}

// SAFETY: what it points to is leaked and never changes.
unsafe impl Send for Platform {}
// SAFETY: as above.
unsafe impl Sync for Platform {}

static PLATFORM: LazyLock<Platform> = LazyLock::new(|| {
    let cores = Box::leak(Box::new([sys::CoreInfo {
        version: 1,
        info: sys::polychip_qnn_core_info_versions {
            v1: sys::polychip_qnn_core_info_v1 {
                id: 0,
                kind: 0,
                extension: ptr::null(),
            },
        },
    }]));
    let extension = Box::leak(Box::new(sys::polychip_qnn_htp_device_extension {
        kind: 0,
        on_chip: sys::polychip_qnn_htp_on_chip {
            vtcm_mb: 4,
            soc: DEFAULT.id,
            signed_pd: 0,
            dlbc: 0,
            arch: DEFAULT.arch,
        },
    }));
    let devices = Box::leak(Box::new([sys::HardwareDevice {
        version: 1,
        device: sys::polychip_qnn_hardware_device_versions {
            v1: sys::polychip_qnn_hardware_device_v1 {
                id: 0,
                kind: 0,
                core_count: 1,
                cores: cores.as_mut_ptr(),
                extension: ptr::from_ref(extension).cast(),
            },
        },
    }]));
    let info = Box::leak(Box::new(sys::PlatformInfo {
        version: 1,
        info: sys::polychip_qnn_platform_info_versions {
            v1: sys::polychip_qnn_platform_info_v1 {
                device_count: 1,
                devices: devices.as_mut_ptr(),
            },
        },
    }));
    Platform { info }
});

pub(super) unsafe extern "C" fn platform_info(
    _log: sys::Log,
    out: *mut *const sys::PlatformInfo,
) -> sys::Code {
    guard(|| {
        // SAFETY: the client gives a place for it.
        unsafe { give(out, PLATFORM.info) }
    })
}

pub(super) unsafe extern "C" fn platform_info_free(
    _log: sys::Log,
    _info: *const sys::PlatformInfo,
) -> sys::Code {
    0
}

pub(super) unsafe extern "C" fn device_info(
    device: sys::Device,
    out: *mut *const sys::PlatformInfo,
) -> sys::Code {
    guard(|| {
        if !device.is_null() {
            world::device(number(device))?;
        }
        // SAFETY: the client gives a place for it.
        unsafe { give(out, PLATFORM.info) }
    })
}

/// The voting clients, and the clock corner for which each voted.
static VOTES: Mutex<BTreeMap<u32, u32>> = Mutex::new(BTreeMap::new());

fn votes() -> MutexGuard<'static, BTreeMap<u32, u32>> {
    VOTES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The highest clock corner that a client voted for; 0 without a vote.
pub(super) fn corner() -> u32 {
    votes().values().copied().max().unwrap_or(0)
}

unsafe extern "C" fn create_power_config(_device: u32, _part: u32, out: *mut u32) -> sys::Code {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    guard(|| {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        votes().insert(id, 0);
        // SAFETY: the client gives a place for the number.
        unsafe { give(out, id) }
    })
}

unsafe extern "C" fn destroy_power_config(id: u32) -> sys::Code {
    guard(|| votes().remove(&id).map(drop).ok_or(Code::ARGUMENT))
}

unsafe extern "C" fn set_power_config(id: u32, list: *const *const sys::HtpPowerConfig) -> sys::Code {
    guard(|| {
        let mut place = list;
        // SAFETY: the client's list ends in null, where there is one.
        while let Some(config) = unsafe { place.as_ref().and_then(|config| config.as_ref()) } {
            if config.option == sys::POLYCHIP_QNN_HTP_POWER_DCVS_V3 {
                // SAFETY: with this option the union holds this member.
                let corner = unsafe { config.value.dcvs_v3.core_target };
                *votes().get_mut(&id).ok_or(Code::ARGUMENT)? = corner;
            }
            place = place.wrapping_add(1);
        }
        Ok(())
    })
}

struct Infrastructure(sys::HtpInfrastructure);

// SAFETY: constant function pointers.
unsafe impl Sync for Infrastructure {}

/// Votes are stored; they do not change times.
static INFRASTRUCTURE: Infrastructure = Infrastructure(sys::HtpInfrastructure {
    kind: sys::POLYCHIP_QNN_HTP_INFRASTRUCTURE_PERF,
    create_power_config: Some(create_power_config),
    destroy_power_config: Some(destroy_power_config),
    set_power_config: Some(set_power_config),
    reserved_memory_config: ptr::null_mut(),
});

pub(super) unsafe extern "C" fn infrastructure(out: *mut *const sys::HtpInfrastructure) -> sys::Code {
    guard(|| {
        // SAFETY: the client gives a place for it.
        unsafe { give(out, &raw const INFRASTRUCTURE.0) }
    })
}
