//! Entries of the plugin itself and of its devices.
//!
//! # Safety
//! As `calls`.

#![allow(
    unsafe_code,
    reason = "pointers and handles of the contract become references"
)]

use polychip_abi as abi;
use polychip_abi::{
    polychip_device, polychip_device_info, polychip_error, polychip_host_services, polychip_instance,
    polychip_operating_point, polychip_plugin_info, polychip_telemetry,
};

use super::entry::{boxed, entry, of, out, quietly, refuse_null};
use crate::raw::{self, Rows, to_text};
use crate::{Device, HostServices, Plugin};

pub(crate) unsafe extern "C" fn plugin_info<P: Plugin>(out_info: *mut polychip_plugin_info) -> u32 {
    // SAFETY: no record to fill.
    unsafe {
        entry(std::ptr::null_mut(), || {
            let stated = P::info();
            let info = polychip_plugin_info {
                name: to_text(stated.name),
                version: to_text(stated.version),
                build_id: to_text(stated.build_id),
                ..<polychip_plugin_info as abi::Sized>::sized()
            };
            // SAFETY: the contract.
            raw::write(out_info, &info)
        })
    }
}

pub(crate) unsafe extern "C" fn create<P: Plugin>(
    host: *const polychip_host_services,
    out_instance: *mut *mut polychip_instance,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract; the host's services outlive the instance.
    unsafe {
        entry(error, || {
            refuse_null(out_instance)?;
            let instance = P::create(HostServices::new(host)?)?;
            out(out_instance, boxed(instance))
        })
    }
}

pub(crate) unsafe extern "C" fn destroy<P: Plugin>(instance: *mut polychip_instance) {
    if !instance.is_null() {
        // SAFETY: made by `create`, destroyed once.
        quietly(|| drop(unsafe { Box::from_raw(instance.cast::<P>()) }));
    }
}

pub(crate) unsafe extern "C" fn device_count<P: Plugin>(
    instance: *mut polychip_instance,
    out_count: *mut u32,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            out(out_count, of::<_, P>(instance, "instance")?.device_count()?)
        })
    }
}

pub(crate) unsafe extern "C" fn device_open<P: Plugin>(
    instance: *mut polychip_instance,
    index: u32,
    out_device: *mut *mut polychip_device,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_device)?;
            let device = of::<_, P>(instance, "instance")?.open(index)?;
            out(out_device, boxed(device))
        })
    }
}

pub(crate) unsafe extern "C" fn device_info<D: Device>(
    device: *mut polychip_device,
    out_info: *mut polychip_device_info,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract; `info` borrows from the device, so its texts live as long.
    unsafe {
        entry(error, || {
            let info = of::<_, D>(device, "device")?.info();
            let (preemption, preemption_bound_ns) = info.preemption.record();
            let bit = |set: bool, bit: u32| if set { bit } else { 0 };
            let record = polychip_device_info {
                kind: info.kind as u32,
                flags: bit(info.emulated, abi::POLYCHIP_DEVICE_EMULATED)
                    | bit(info.shares_host_memory, abi::POLYCHIP_DEVICE_SHARES_HOST_MEMORY)
                    | bit(info.serial, abi::POLYCHIP_DEVICE_SERIAL),
                import_kinds: info.import_kinds.bits(),
                export_kinds: info.export_kinds.bits(),
                import_alignment: info.import_alignment,
                name: to_text(&info.name),
                vendor: to_text(&info.vendor),
                soc: to_text(&info.soc),
                driver: to_text(&info.driver),
                memory_bytes: info.memory_bytes,
                peak_macs_per_s: info.peak_macs_per_s,
                peak_bytes_per_s: info.peak_bytes_per_s,
                settings: to_text(&info.settings),
                rates_measured_s: info.rates_measured_s.unwrap_or(0),
                link_bytes_per_s: info.link_bytes_per_s,
                preemption,
                queue_depth: info.queue_depth,
                preemption_bound_ns,
                switch_ns: info.switch_ns,
                ..<polychip_device_info as abi::Sized>::sized()
            };
            raw::write(out_info, &record)
        })
    }
}

pub(crate) unsafe extern "C" fn device_close<D: Device>(device: *mut polychip_device) {
    if !device.is_null() {
        // SAFETY: made by `device_open`, closed once.
        quietly(|| drop(unsafe { Box::from_raw(device.cast::<D>()) }));
    }
}

pub(crate) unsafe extern "C" fn operating_points<D: Device>(
    device: *mut polychip_device,
    out_points: *mut polychip_operating_point,
    capacity: u64,
    stride: u64,
    out_count: *mut u64,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let points = of::<_, D>(device, "device")?.operating_points();
            let rows = Rows::new(out_points.cast_const(), capacity, stride)?;
            for (index, point) in points.iter().enumerate().take(rows.len()) {
                let record = polychip_operating_point {
                    name: to_text(&point.name),
                    frequency_khz: point.frequency_khz,
                    power_mw: point.power_mw,
                    ..<polychip_operating_point as abi::Sized>::sized()
                };
                raw::write(rows.at(index).cast_mut(), &record)?;
            }
            out(out_count, points.len() as u64)
        })
    }
}

pub(crate) unsafe extern "C" fn set_operating_point<D: Device>(
    device: *mut polychip_device,
    index: u32,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe { entry(error, || of::<_, D>(device, "device")?.set_operating_point(index)) }
}

pub(crate) unsafe extern "C" fn device_reset<D: Device>(
    device: *mut polychip_device,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe { entry(error, || of::<_, D>(device, "device")?.reset()) }
}

pub(crate) unsafe extern "C" fn telemetry<D: Device>(
    device: *mut polychip_device,
    out_telemetry: *mut polychip_telemetry,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let telemetry = of::<_, D>(device, "device")?.telemetry()?;
            raw::write(out_telemetry, &telemetry.record())
        })
    }
}
