//! The board's description of itself.
//!
//! Invariant: a value without a file is absent.

use std::path::Path;

use anyhow::Context as _;
use polychip_farm_record::{Board, Limits};

use crate::conditions::{Conditions, unfit};

/// Prints the board's facts and its state, and why it may not be measured on by these limits.
pub(crate) fn print(sensors: &Path, limits: Option<&str>) -> anyhow::Result<()> {
    let limits: Limits = match limits {
        Some(text) => serde_json::from_str(text).context("--limits")?,
        None => Limits::default(),
    };
    let mut conditions = Conditions::new(sensors)?;
    let state = conditions.settled();
    let unfit = unfit(&state, &limits);
    let facts = serde_json::json!({ "board": of(sensors), "state": state, "unfit": unfit });
    crate::output::print_line(&facts.to_string());
    Ok(())
}

/// The board whose `sys` and `proc` lie here.
pub(crate) fn of(root: &Path) -> Board {
    let text = |path: &str| {
        let bytes = std::fs::read(root.join(path)).ok()?;
        // strings of a device tree end with a zero
        let text = String::from_utf8_lossy(&bytes)
            .trim_matches(['\0', '\n', ' '])
            .to_owned();
        (!text.is_empty()).then_some(text)
    };
    let compatible = text("proc/device-tree/compatible");
    let cpus = text("proc/cpuinfo").unwrap_or_default();
    let of_cpus = |key: &str| {
        let line = cpus
            .lines()
            .find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let system = rustix::system::uname();
    let (kernel, release) = (
        system.sysname().to_string_lossy(),
        system.release().to_string_lossy(),
    );
    let name = text("etc/os-release").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
        Some(line.trim_matches('"').to_owned())
    });
    Board {
        soc: text("sys/devices/soc0/machine")
            .or_else(|| android("ro.soc.model"))
            // the last word is the SoC's, those before it the board's
            .or_else(|| Some(compatible.as_deref()?.rsplit('\0').next()?.to_owned())),
        model: text("proc/device-tree/model")
            .or_else(|| android("ro.product.model"))
            .or_else(|| text("sys/class/dmi/id/product_name")),
        cpu: of_cpus("model name").or_else(|| of_cpus("Hardware")),
        os: match name {
            Some(name) => format!("{name}, {kernel} {release}"),
            None => format!("{kernel} {release}"),
        },
        arch: std::env::consts::ARCH.to_owned(),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        memory_bytes: text("proc/meminfo")
            .as_deref()
            .and_then(total_memory)
            .unwrap_or_default(),
        // QEMU's board; a program of one processor that reads of another's
        emulated: compatible.is_some_and(|names| names.contains("linux,dummy-virt"))
            || (std::env::consts::ARCH == "aarch64" && of_cpus("vendor_id").is_some()),
    }
}

fn total_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// A property of Android's; none on other systems.
fn android(name: &str) -> Option<String> {
    let program = Path::new("/system/bin/getprop");
    if !program.exists() {
        return None;
    }
    let output = std::process::Command::new(program).arg(name).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_described_by_its_files() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        write("proc/device-tree/compatible", b"radxa,rock-5b\0rockchip,rk3588\0");
        write("proc/device-tree/model", b"Radxa ROCK 5B\0");
        write("proc/meminfo", b"MemTotal:        8000 kB\nMemFree: 1 kB\n");
        write("proc/cpuinfo", b"processor : 0\nmodel name\t: Cortex-A76\n");
        let board = of(root.path());
        assert_eq!(board.soc.as_deref(), Some("rockchip,rk3588"));
        assert_eq!(board.model.as_deref(), Some("Radxa ROCK 5B"));
        assert_eq!(board.cpu.as_deref(), Some("Cortex-A76"));
        assert_eq!((board.memory_bytes, board.emulated), (8_192_000, false));
        write("proc/device-tree/compatible", b"linux,dummy-virt\0");
        assert!(of(root.path()).emulated);
        assert_eq!(of(Path::new("/nowhere")).memory_bytes, 0);
    }
}
