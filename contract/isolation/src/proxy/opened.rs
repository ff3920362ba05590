//! The open device behind everything that is made on it: its place in the current process, and its
//! reset.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_sdk::{DeviceInfo, Error, ErrorKind, OperatingPoint, Result};

use super::convert;
use super::link::Link;
use super::process::Process;
use crate::message::{Reply, Request};

/// What its objects hold of a device.
pub(super) struct Opened {
    pub(super) link: Arc<Link>,
    index: u32,
    pub(super) info: DeviceInfo,
    pub(super) points: Vec<OperatingPoint>,
    /// Memory kinds that the plugin itself imports.
    pub(super) plugin_imports: u32,
    /// Generation of the process that the device was last opened in, and its number there.
    place: Mutex<(u64, u64)>,
    /// Serialises resets.
    resetting: Mutex<()>,
    /// Serialises the starts of runs that copy to the plugin's own memory.
    copying: Mutex<()>,
}

impl Opened {
    /// Opens device `index` in the current process.
    pub(super) fn new(link: &Arc<Link>, index: u32) -> Result<Opened> {
        let process = link.process();
        let (device, info, points, plugin_imports) = open(&process, index)?;
        Ok(Opened {
            link: Arc::clone(link),
            index,
            info,
            points,
            plugin_imports,
            place: Mutex::new((process.generation, device)),
            resetting: Mutex::default(),
            copying: Mutex::default(),
        })
    }

    /// The process and the device's number in it.
    ///
    /// # Errors
    /// The process died or is being ended, and the device was not reset since.
    pub(super) fn place(&self) -> Result<(Arc<Process>, u64)> {
        let process = self.link.process();
        if process.is_lost() {
            return Err(process.lost());
        }
        let (generation, device) = *self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if generation != process.generation {
            return Err(Error::new(
                ErrorKind::DeviceLost,
                "the plugin's process was restarted; the device must be reset",
            ));
        }
        Ok((process, device))
    }

    /// The same process as that of an object made in `generation`, or the loss.
    pub(super) fn place_of(&self, generation: u64) -> Result<Arc<Process>> {
        let (process, _) = self.place()?;
        if process.generation == generation {
            return Ok(process);
        }
        Err(Error::new(
            ErrorKind::DeviceLost,
            "the plugin's process was restarted since this was made",
        ))
    }

    /// Held while a run starts that copies to the plugin's own memory what the host wrote.
    pub(super) fn copying(&self) -> MutexGuard<'_, ()> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the device in a new process.
    fn reopen(&self, process: &Arc<Process>) -> Result<()> {
        let (device, info, _, plugin_imports) = open(process, self.index)?;
        if !is_same(&info, &self.info) || plugin_imports != self.plugin_imports {
            let _ = process.call("device_close", None, &Request::DeviceClose { device }, &[]);
            return Err(Error::new(
                ErrorKind::Persistent,
                format!(
                    "after the restart device {} is {} with driver {:?}; it was {} with driver {:?}",
                    self.index, info.name, info.driver, self.info.name, self.info.driver
                ),
            ));
        }
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = (process.generation, device);
        Ok(())
    }

    pub(super) fn reset(&self) -> Result<()> {
        let _one = self.resetting.lock().unwrap_or_else(PoisonError::into_inner);
        let process = self.link.process();
        if let Ok((process, device)) = self.place() {
            // the process lives: the plugin may end the device's runs itself
            if self.link.entry.plugin_resets() {
                match process.call("device_reset", None, &Request::DeviceReset { device }, &[]) {
                    Ok((Reply::Done, _)) => return Ok(()),
                    Ok((other, _)) => drop(process.wrong("device_reset", &other)),
                    Err(error) => process.end(format!(
                        "the plugin's process was ended to reset a device: {error}"
                    )),
                }
            } else {
                process.end_for_reset();
            }
            drop(process.lost());
        }
        let living = if process.is_lost() {
            self.link.replaced(&process)?
        } else {
            process
        };
        self.reopen(&living)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.link.forget_fences();
        if let Ok((process, device)) = self.place() {
            let _ = process.call("device_close", None, &Request::DeviceClose { device }, &[]);
        }
    }
}

/// Whether both describe the same device with the same driver. Measured rates may differ.
fn is_same(one: &DeviceInfo, other: &DeviceInfo) -> bool {
    let identity = |info: &DeviceInfo| {
        (
            info.kind,
            info.import_kinds,
            info.export_kinds,
            info.import_alignment,
        )
    };
    let texts = |info: &DeviceInfo| {
        [&info.name, &info.vendor, &info.soc, &info.driver, &info.settings].map(String::clone)
    };
    identity(one) == identity(other) && texts(one) == texts(other)
}

type Found = (u64, DeviceInfo, Vec<OperatingPoint>, u32);

fn open(process: &Arc<Process>, index: u32) -> Result<Found> {
    match process
        .call("device_open", None, &Request::DeviceOpen { index }, &[])?
        .0
    {
        Reply::Device { device, info } => match convert::device(&info) {
            Ok((found, points)) => Ok((device, found, points, info.import_kinds)),
            Err(words) => Err(process.lied(format!("device_open: {words}"))),
        },
        other => Err(process.wrong("device_open", &other)),
    }
}

#[cfg(test)]
mod tests {
    use polychip_sdk::DeviceKind;

    use super::*;

    #[test]
    fn measured_rates_do_not_make_another_device() {
        let info = DeviceInfo {
            driver: "1.2".to_owned(),
            ..DeviceInfo::new(DeviceKind::Npu, "npu")
        };
        let measured = DeviceInfo {
            peak_macs_per_s: info.peak_macs_per_s + 1,
            peak_bytes_per_s: info.peak_bytes_per_s + 1,
            rates_measured_s: Some(7),
            ..info.clone()
        };
        assert!(is_same(&info, &measured));
        let updated = DeviceInfo {
            driver: "1.3".to_owned(),
            ..info.clone()
        };
        assert!(!is_same(&info, &updated));
        assert!(!is_same(&info, &DeviceInfo::new(DeviceKind::Gpu, "npu")));
    }
}
