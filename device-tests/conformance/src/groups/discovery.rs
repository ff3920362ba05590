//! Discovery: the export, versions, struct sizes, and plugin and device information.

#![allow(unsafe_code)]

use polychip_abi as abi;
use polychip_abi::Sized;
use polychip_host::{Clock, Host};

use crate::bench::Bench;
use crate::case::Case;
use crate::plugin::{DeviceFacts, breach, checked, status_name};
use crate::verdict::{Judgement, check, fail, skip};

pub(super) fn cases(cases: &mut Vec<Case>) {
    let case = |name: &str, run: fn(&Bench) -> Judgement| Case::new("discovery", name, run);
    cases.extend([
        case("another-major-is-refused", another_major).basic(),
        case("any-minor-is-served", any_minor).basic(),
        case("query-is-pure", query_is_pure).basic(),
        case("table-head", table_head).basic(),
        case("plugin-info", plugin_info).basic(),
        case("plugin-info-of-an-older-host", older_host).basic().alone(),
        case("plugin-info-of-a-newer-host", newer_host).basic().alone(),
        case("host-accepts-it", host_accepts).basic().alone(),
        case("device-count-is-stable", count_is_stable).basic(),
        case("device-info", device_info).basic(),
        case("device-info-of-an-older-host", older_device_info)
            .basic()
            .alone(),
        case("device-behind-the-last-is-refused", behind_the_last).basic(),
        case("device-opens-again", opens_again).basic(),
        case("two-instances-at-once", two_instances).basic(),
        case("instances-in-a-row", instances_in_a_row).basic(),
    ]);
}

fn another_major(bench: &Bench) -> Judgement {
    for major in [0, abi::POLYCHIP_ABI_MAJOR + 1, u32::MAX] {
        if let Some(head) = bench.library.query(major, 0) {
            return fail(format!(
                "for major version {major} it returned a table of version {}",
                head.abi_major
            ));
        }
    }
    Ok(())
}

fn any_minor(bench: &Bench) -> Judgement {
    for minor in [
        0,
        abi::POLYCHIP_ABI_MINOR + 1,
        abi::POLYCHIP_ABI_MINOR + 99,
        u32::MAX,
    ] {
        let Some(head) = bench.library.query(abi::POLYCHIP_ABI_MAJOR, minor) else {
            return fail(format!(
                "a host of minor version {minor} gets no table, although minor versions only append"
            ));
        };
        check!(
            head.abi_major == abi::POLYCHIP_ABI_MAJOR,
            "a host of minor version {minor} gets major {}",
            head.abi_major
        );
    }
    Ok(())
}

fn query_is_pure(bench: &Bench) -> Judgement {
    let ask = || {
        bench
            .library
            .query(abi::POLYCHIP_ABI_MAJOR, abi::POLYCHIP_ABI_MINOR)
    };
    let first = ask();
    for _ in 0..100 {
        check!(ask() == first, "two calls returned {first:?} and {:?}", ask());
    }
    Ok(())
}

fn table_head(bench: &Bench) -> Judgement {
    let Some(head) = bench
        .library
        .query(abi::POLYCHIP_ABI_MAJOR, abi::POLYCHIP_ABI_MINOR)
    else {
        return fail("no table");
    };
    let numbers = 4 * size_of::<u32>();
    let size = head.struct_size as usize;
    check!(
        head.address
            .is_multiple_of(align_of::<abi::polychip_plugin_table>()),
        "the table is not aligned"
    );
    check!(size > numbers, "the table of {size} bytes has no calls");
    check!(
        (size - numbers).is_multiple_of(size_of::<usize>()),
        "the table of {size} bytes ends inside a call"
    );
    check!(
        head.flags == 0,
        "the table's flags are {}; the contract requires zero",
        head.flags
    );
    let behind = size > size_of::<abi::polychip_plugin_table>();
    check!(
        !behind || head.abi_minor > abi::POLYCHIP_ABI_MINOR,
        "the table has {size} bytes, version 1.{} has {}",
        head.abi_minor,
        size_of::<abi::polychip_plugin_table>()
    );
    Ok(())
}

fn plugin_info(bench: &Bench) -> Judgement {
    let info = bench.library.info()?;
    let named = !info.name.is_empty()
        && info
            .name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    check!(
        named,
        "its name {:?} contains characters other than lower-case letters, digits and _",
        info.name
    );
    check!(!info.version.is_empty(), "it has no version");
    check!(!info.build_id.is_empty(), "it has no build id");
    check!(
        bench.library.info()? == info,
        "two calls return different answers"
    );
    Ok(())
}

/// A record of a host that knows `size` bytes of it; what lies behind must stay as it was.
fn fill_short<T: Sized + Copy>(
    size: u32,
    call: impl FnOnce(*mut T) -> u32,
) -> Result<(u32, Vec<u8>), String> {
    let mut record = T::sized();
    let bytes = size_of::<T>();
    let at = (&raw mut record).cast::<u8>();
    // SAFETY: inside the record, whose fields are numbers and addresses.
    unsafe {
        at.write_bytes(0xA5, bytes);
        at.cast::<u32>().write(size);
    }
    let status = call(&raw mut record);
    // SAFETY: inside the record; every byte was written above.
    let seen = unsafe { std::slice::from_raw_parts(at, bytes) }.to_vec();
    if let Some(index) = seen[size as usize..].iter().position(|byte| *byte != 0xA5) {
        return Err(format!(
            "it wrote byte {} of a record of {size}",
            size as usize + index
        ));
    }
    Ok((status, seen))
}

/// A record below that of version 1.0 may be refused.
fn short_is_answered(status: u32) -> Judgement {
    check!(
        matches!(
            status,
            abi::POLYCHIP_STATUS_OK | abi::POLYCHIP_STATUS_BAD_ARGUMENT
        ),
        "it returns {} for a short record",
        status_name(status)
    );
    Ok(())
}

fn older_host(bench: &Bench) -> Judgement {
    let call = bench
        .library
        .table()
        .plugin_info
        .expect("invariant: required calls are checked");
    // a host that knows the name only
    let size = std::mem::offset_of!(abi::polychip_plugin_info, version) as u32;
    // SAFETY: the record says how long it is.
    let filled = fill_short::<abi::polychip_plugin_info>(size, |record| unsafe { call(record) });
    match filled {
        Err(words) => fail(words),
        Ok((status, _)) => {
            short_is_answered(status)?;
            Ok(())
        }
    }
}

fn newer_host(bench: &Bench) -> Judgement {
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Newer {
        info: abi::polychip_plugin_info,
        more: [u64; 4],
    }
    let call = bench
        .library
        .table()
        .plugin_info
        .expect("invariant: required calls are checked");
    let mut record = Newer {
        info: abi::polychip_plugin_info::sized(),
        more: [7; 4],
    };
    record.info.struct_size = size_of::<Newer>() as u32;
    // SAFETY: the record says how long it is.
    let status = unsafe { call((&raw mut record).cast()) };
    check!(
        status == abi::POLYCHIP_STATUS_OK,
        "it refuses a longer record: {}",
        status_name(status)
    );
    check!(record.more == [7; 4], "it wrote unknown fields");
    check!(record.info.name.len > 0, "it filled in nothing");
    Ok(())
}

fn host_accepts(bench: &Bench) -> Judgement {
    let name = bench.library.info()?.name;
    let mut builder = Host::builder().file(bench.library.path()).clock(Clock::real());
    for (key, value) in &bench.configuration {
        builder = builder.configure(&name, key, value.clone());
    }
    let host = builder.build();
    let refused: Vec<String> = host.refusals().iter().map(ToString::to_string).collect();
    check!(refused.is_empty(), "the host refuses it: {}", refused.join("; "));
    check!(!host.devices().is_empty(), "the host finds no device");
    Ok(())
}

fn count_is_stable(bench: &Bench) -> Judgement {
    let instance = bench.device.instance();
    let first = instance.device_count()?;
    check!(
        first > bench.device.index(),
        "{first} devices, but device {} opens",
        bench.device.index()
    );
    check!(first <= 1024, "{first} devices");
    for _ in 0..10 {
        let again = instance.device_count()?;
        check!(again == first, "{first} devices, then {again}");
    }
    Ok(())
}

fn device_info(bench: &Bench) -> Judgement {
    let info = bench.device.info()?;
    check!((1..=4).contains(&info.kind), "kind {} is unknown", info.kind);
    check!(info.flags < 8, "flags {:#x} are unknown", info.flags);
    check!(!info.name.is_empty(), "the device has no name");
    check!(
        info.import_alignment == 0 || info.import_alignment.is_power_of_two(),
        "import_alignment {} is not a power of two",
        info.import_alignment
    );
    let known = (1 << 6) - 1;
    check!(
        info.import_kinds & !known == 0,
        "import_kinds {:#x} has unknown bits",
        info.import_kinds
    );
    check!(
        info.export_kinds & !known == 0,
        "export_kinds {:#x} has unknown bits",
        info.export_kinds
    );
    check!(
        info.export_kinds == 0 || bench.device.table().buffer_export.is_some(),
        "export_kinds are stated, but buffer_export is not offered"
    );
    // a processor of 2^50 multiply-adds a second is not there yet
    check!(
        info.peak_macs_per_s < 1 << 50,
        "{} multiply-adds a second",
        info.peak_macs_per_s
    );
    check!(
        info.peak_bytes_per_s < 1 << 50,
        "{} bytes a second",
        info.peak_bytes_per_s
    );
    check!(
        info.link_bytes_per_s < 1 << 50,
        "{} bytes a second over the bus",
        info.link_bytes_per_s
    );
    check!(
        info.link_bytes_per_s == 0 || info.flags & abi::POLYCHIP_DEVICE_SHARES_HOST_MEMORY == 0,
        "it shares the host's memory, but states a bus to separate memory"
    );
    check!(info.preemption <= 3, "preemption {} is unknown", info.preemption);
    let gives_way = [
        abi::POLYCHIP_PREEMPTION_COMMANDS,
        abi::POLYCHIP_PREEMPTION_ANY_TIME,
    ];
    check!(
        info.preemption_bound_ns == 0 || gives_way.contains(&info.preemption),
        "a bound of {} ns is stated, and preemption {}",
        info.preemption_bound_ns,
        info.preemption
    );
    // an hour is no time of switching
    for time_ns in [info.preemption_bound_ns, info.switch_ns] {
        check!(time_ns < 3_600_000_000_000, "{time_ns} ns to yield or to switch");
    }
    for _ in 0..10 {
        check!(bench.device.info()? == info, "two calls return different answers");
    }
    Ok(())
}

fn older_device_info(bench: &Bench) -> Judgement {
    let call = bench
        .library
        .table()
        .device_info
        .expect("invariant: required calls are checked");
    let device = bench.device.raw();
    let fill = |size: usize| {
        fill_short::<abi::polychip_device_info>(size as u32, |record| {
            // SAFETY: the device is open and the record says how long it is.
            unsafe { call(device, record, std::ptr::null_mut()) }
        })
    };
    match fill(std::mem::offset_of!(abi::polychip_device_info, memory_bytes)) {
        Err(words) => return fail(words),
        Ok((status, _)) => short_is_answered(status)?,
    }
    // the record of version 1.0
    match fill(std::mem::offset_of!(abi::polychip_device_info, preemption)) {
        Err(words) => fail(words),
        Ok((status, _)) => {
            check!(
                status == abi::POLYCHIP_STATUS_OK,
                "it answers a host of version 1.0 with {}",
                status_name(status)
            );
            Ok(())
        }
    }
}

fn behind_the_last(bench: &Bench) -> Judgement {
    let instance = bench.device.instance();
    let count = instance.device_count()?;
    for index in [count, count + 1, u32::MAX] {
        match instance.open(index) {
            Ok(_) => return fail(format!("device {index} of {count} opens")),
            Err(failure) => {
                check!(
                    failure.record_status == failure.status,
                    "it returned {} and filled in {}",
                    status_name(failure.status),
                    status_name(failure.record_status)
                );
                check!(
                    !failure.words.is_empty(),
                    "device {index} of {count} is refused without a message"
                );
            }
        }
    }
    // the record may be left out
    let call = bench
        .library
        .table()
        .device_open
        .expect("invariant: required calls are checked");
    let mut raw = std::ptr::null_mut();
    // SAFETY: the instance is alive; the error record may be null.
    let status = unsafe { call(instance.raw(), count, &raw mut raw, std::ptr::null_mut()) };
    check!(
        status != abi::POLYCHIP_STATUS_OK,
        "device {count} of {count} opens"
    );
    Ok(())
}

/// What another opening of the device must say too: free memory changes, and rates may be measured.
fn lasting(info: DeviceFacts) -> DeviceFacts {
    DeviceFacts {
        memory_bytes: 0,
        peak_macs_per_s: 0,
        peak_bytes_per_s: 0,
        link_bytes_per_s: 0,
        ..info
    }
}

fn opens_again(bench: &Bench) -> Judgement {
    let first = bench.reopen()?;
    let info = lasting(first.info()?);
    drop(first);
    let again = lasting(bench.reopen()?.info()?);
    check!(
        again == info,
        "reopened, the device differs: {info:?}, then {again:?}"
    );
    Ok(())
}

fn two_instances(bench: &Bench) -> Judgement {
    let one = bench.reopen()?;
    let two = bench.reopen()?;
    check!(one.raw() != two.raw(), "two instances share a device handle");
    check!(
        lasting(one.info()?) == lasting(two.info()?),
        "two instances report different devices"
    );
    let carrier = bench.carrier()?;
    let tolerances = bench.tolerances();
    carrier.solve(&one, bench.reduced, &tolerances)?;
    carrier.solve(&two, bench.reduced, &tolerances)?;
    drop(one);
    // the other one lives on
    carrier.solve(&two, bench.reduced, &tolerances)
}

fn instances_in_a_row(bench: &Bench) -> Judgement {
    for _ in 0..5 {
        let instance = bench.library.create(&bench.configuration)?;
        if instance.device_count()? == 0 {
            return skip("no device");
        }
    }
    // an instance that was never asked anything
    let call = bench
        .library
        .table()
        .destroy
        .expect("invariant: required calls are checked");
    // SAFETY: every destroy accepts null.
    unsafe { call(std::ptr::null_mut()) };
    checked("device_count", |record| {
        let count = bench
            .library
            .table()
            .device_count
            .expect("invariant: required calls are checked");
        let mut out = 0;
        // SAFETY: the instance is alive.
        unsafe { count(bench.device.instance().raw(), &raw mut out, record) }
    })
    .map_err(|failure| breach("device_count", failure.to_string()).into())
}
