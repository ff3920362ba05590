//! Records of the plugin's process as values of the SDK, each field checked.
//!
//! Invariant: a value that the contract does not allow is an error that names it, never a panic.

use std::num::NonZeroU64;

use polychip_abi as abi;
use polychip_ops::DType;
use polychip_sdk::{
    Cost, DeviceInfo, DeviceKind, Layout, MemoryKind, MemoryKinds, OperatingPoint, Port, Preemption, Reason,
    Step, Support, Telemetry, Throttle,
};

use crate::message::{CostRecord, DeviceRecord, PortRecord, StepRecord, TelemetryRecord};

/// What is wrong with a record.
pub(super) type Checked<T> = std::result::Result<T, String>;

/// Longest accepted text of a device, in bytes.
const TEXT_BYTES: usize = 64 << 10;
/// Largest accepted alignment, in bytes: the largest page size.
const MOST_ALIGNMENT: u32 = 65536;

fn bit(kind: MemoryKind) -> u32 {
    1 << kind as u32
}

fn kinds(bits: u32) -> MemoryKinds {
    let all = [MemoryKind::Host, MemoryKind::Memfd, MemoryKind::DmaBuf];
    let set: Vec<MemoryKind> = all.into_iter().filter(|kind| bits & bit(*kind) != 0).collect();
    MemoryKinds::of(&set)
}

/// The memory kinds that a proxied device imports. An address means nothing in another process, so
/// a plugin that imports host memory is given a mapped memory file.
pub(super) fn import_kinds(plugin: u32) -> u32 {
    let files = if plugin & (bit(MemoryKind::Host) | bit(MemoryKind::Memfd)) == 0 {
        0
    } else {
        bit(MemoryKind::Memfd)
    };
    files | (plugin & bit(MemoryKind::DmaBuf))
}

pub(super) fn device(record: &DeviceRecord) -> Checked<(DeviceInfo, Vec<OperatingPoint>)> {
    for (name, text) in [
        ("name", &record.name),
        ("vendor", &record.vendor),
        ("soc", &record.soc),
        ("driver", &record.driver),
        ("settings", &record.settings),
    ] {
        if text.len() > TEXT_BYTES {
            return Err(format!("a device's {name} of {} bytes", text.len()));
        }
    }
    if record.import_alignment > 1 && !record.import_alignment.is_power_of_two() {
        return Err(format!("import alignment {}", record.import_alignment));
    }
    let kind = match record.kind {
        abi::POLYCHIP_DEVICE_CPU => DeviceKind::Cpu,
        abi::POLYCHIP_DEVICE_GPU => DeviceKind::Gpu,
        abi::POLYCHIP_DEVICE_NPU => DeviceKind::Npu,
        abi::POLYCHIP_DEVICE_DSP => DeviceKind::Dsp,
        kind => return Err(format!("a device of kind {kind}")),
    };
    let has = |bit: u32| record.flags & bit != 0;
    let bound_ns = NonZeroU64::new(record.preemption_bound_ns);
    let imports = import_kinds(record.import_kinds);
    let info = DeviceInfo {
        emulated: has(abi::POLYCHIP_DEVICE_EMULATED),
        shares_host_memory: has(abi::POLYCHIP_DEVICE_SHARES_HOST_MEMORY) && imports != 0,
        serial: has(abi::POLYCHIP_DEVICE_SERIAL),
        import_kinds: kinds(imports),
        export_kinds: kinds(record.export_kinds & (bit(MemoryKind::Memfd) | bit(MemoryKind::DmaBuf))),
        import_alignment: record.import_alignment,
        vendor: record.vendor.clone(),
        soc: record.soc.clone(),
        driver: record.driver.clone(),
        memory_bytes: record.memory_bytes,
        peak_macs_per_s: record.peak_macs_per_s,
        peak_bytes_per_s: record.peak_bytes_per_s,
        settings: record.settings.clone(),
        rates_measured_s: (record.rates_measured_s != 0).then_some(record.rates_measured_s),
        link_bytes_per_s: record.link_bytes_per_s,
        preemption: match record.preemption {
            abi::POLYCHIP_PREEMPTION_NONE => Preemption::None,
            abi::POLYCHIP_PREEMPTION_COMMANDS => Preemption::Commands { bound_ns },
            abi::POLYCHIP_PREEMPTION_ANY_TIME => Preemption::AnyTime { bound_ns },
            _ => Preemption::Unknown,
        },
        queue_depth: record.queue_depth,
        switch_ns: record.switch_ns,
        ..DeviceInfo::new(kind, record.name.clone())
    };
    let points = record
        .points
        .iter()
        .map(|(name, frequency_khz, power_mw)| OperatingPoint {
            name: name.clone(),
            frequency_khz: *frequency_khz,
            power_mw: *power_mw,
        })
        .collect();
    Ok((info, points))
}

pub(super) fn port(record: &PortRecord, is_output: bool) -> Checked<Port> {
    let has = |bit: u32| record.flags & bit != 0;
    let rank = record.dims.len();
    if rank > abi::POLYCHIP_MAX_RANK || (!record.strides.is_empty() && record.strides.len() != rank) {
        return Err(format!(
            "a port of rank {rank} with {} strides",
            record.strides.len()
        ));
    }
    if has(abi::POLYCHIP_PORT_OUTPUT) != is_output {
        return Err("an output port among inputs, or the reverse".to_owned());
    }
    if record.alignment > MOST_ALIGNMENT || !(record.alignment == 0 || record.alignment.is_power_of_two()) {
        return Err(format!("a port of alignment {}", record.alignment));
    }
    let dims = record
        .dims
        .iter()
        .map(|&dim| usize::try_from(dim))
        .collect::<Result<_, _>>();
    let mut memory_kinds = record.memory_kinds;
    if memory_kinds & bit(MemoryKind::Host) != 0 {
        memory_kinds |= bit(MemoryKind::Memfd);
    }
    Ok(Port {
        output: is_output,
        upper_bound: has(abi::POLYCHIP_PORT_UPPER_BOUND),
        state_port: (record.state_port != abi::POLYCHIP_NO_INDEX).then_some(record.state_port),
        dtype: DType::from_code(record.dtype).ok_or_else(|| format!("a port of type {}", record.dtype))?,
        layout: Layout::from_code(record.layout)
            .ok_or_else(|| format!("a port of layout {}", record.layout))?,
        dims: dims.map_err(|_| format!("a port of shape {:?}", record.dims))?,
        strides: record.strides.clone(),
        alignment: record.alignment,
        memory_kinds: kinds(memory_kinds),
        bytes: record.bytes,
        encoding: record
            .encoding
            .as_ref()
            .map(|encoding| encoding.encoding())
            .transpose()?,
    })
}

pub(super) fn support((reason, detail): (u32, String)) -> Support {
    const REASONS: [Reason; 13] = [
        Reason::Op,
        Reason::DType,
        Reason::Shape,
        Reason::Rank,
        Reason::Attribute,
        Reason::Layout,
        Reason::NotConstant,
        Reason::DynamicShape,
        Reason::Body,
        Reason::Encoding,
        Reason::Memory,
        Reason::Quarantined,
        Reason::Vendor,
    ];
    if reason == abi::POLYCHIP_SUPPORT_YES {
        return Support::Yes;
    }
    // a reason of a later contract is still a refusal
    let known = REASONS.into_iter().find(|known| *known as u32 == reason);
    Support::no(known.unwrap_or(Reason::Vendor), detail)
}

pub(super) fn cost(record: &CostRecord) -> Cost {
    let has = |bit: u32, value: u64| (record.valid & bit != 0).then_some(value);
    Cost {
        time_ns: has(abi::POLYCHIP_COST_TIME, record.time_ns),
        launch_ns: has(abi::POLYCHIP_COST_LAUNCH, record.launch_ns),
        energy_uj: has(abi::POLYCHIP_COST_ENERGY, record.energy_uj),
        power_mw: has(abi::POLYCHIP_COST_POWER, record.power_mw),
        memory_bytes: has(abi::POLYCHIP_COST_MEMORY, record.memory_bytes),
        error_permille: (record.valid & abi::POLYCHIP_COST_ERROR != 0).then_some(record.error_permille),
        emulated: record.flags & abi::POLYCHIP_COST_EMULATED != 0,
    }
}

pub(super) fn telemetry(record: &TelemetryRecord) -> Telemetry {
    let has = |bit: u32| record.valid & bit != 0;
    Telemetry {
        time_ns: record.time_ns,
        temperature_mc: has(abi::POLYCHIP_TELEMETRY_TEMPERATURE).then_some(record.temperature_mc),
        power_mw: has(abi::POLYCHIP_TELEMETRY_POWER).then_some(record.power_mw),
        energy_uj: has(abi::POLYCHIP_TELEMETRY_ENERGY).then_some(record.energy_uj),
        frequency_khz: has(abi::POLYCHIP_TELEMETRY_FREQUENCY).then_some(record.frequency_khz),
        memory_used_bytes: has(abi::POLYCHIP_TELEMETRY_MEMORY).then_some(record.memory_used_bytes),
        load_permille: has(abi::POLYCHIP_TELEMETRY_LOAD).then_some(record.load_permille),
        throttle: has(abi::POLYCHIP_TELEMETRY_THROTTLE).then_some(Throttle {
            heat: record.throttle & abi::POLYCHIP_THROTTLE_HEAT != 0,
            power: record.throttle & abi::POLYCHIP_THROTTLE_POWER != 0,
        }),
    }
}

pub(super) fn step(record: StepRecord) -> Step {
    let has = |bit: u32| record.flags & bit != 0;
    Step {
        time_ns: record.time_ns,
        operations: has(abi::POLYCHIP_STEP_OPERATIONS).then_some(record.operations),
        moved_bytes: has(abi::POLYCHIP_STEP_BYTES).then_some(record.moved_bytes),
        is_reference: has(abi::POLYCHIP_STEP_REFERENCE),
        name: record.name.into(),
        nodes: record.nodes.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_the_contract_forbids_are_named() {
        let good = PortRecord {
            dtype: abi::dtype::POLYCHIP_DTYPE_F32,
            layout: abi::POLYCHIP_LAYOUT_ROW_MAJOR,
            state_port: abi::POLYCHIP_NO_INDEX,
            alignment: 64,
            dims: vec![1, 3],
            bytes: 12,
            ..PortRecord::default()
        };
        assert!(port(&good, false).is_ok());
        let wrong = |change: fn(&mut PortRecord)| {
            let mut record = good.clone();
            change(&mut record);
            port(&record, false).unwrap_err()
        };
        assert!(wrong(|port| port.dims = vec![1; 17]).contains("rank 17"));
        assert!(wrong(|port| port.dims = vec![-2]).contains("shape"));
        assert!(wrong(|port| port.strides = vec![4]).contains("1 strides"));
        assert!(wrong(|port| port.alignment = 96).contains("alignment 96"));
        assert!(wrong(|port| port.alignment = 1 << 20).contains("alignment"));
        assert!(wrong(|port| port.dtype = 99).contains("type 99"));
        assert!(wrong(|port| port.layout = 9).contains("layout 9"));
        assert!(wrong(|port| port.flags = abi::POLYCHIP_PORT_OUTPUT).contains("output"));
    }

    #[test]
    fn addresses_are_imported_as_files() {
        let host = bit(MemoryKind::Host);
        let (file, dma_buf) = (bit(MemoryKind::Memfd), bit(MemoryKind::DmaBuf));
        assert_eq!(import_kinds(host), file);
        assert_eq!(import_kinds(host | dma_buf), file | dma_buf);
        assert_eq!(import_kinds(bit(MemoryKind::HardwareBuffer)), 0);
    }
}
