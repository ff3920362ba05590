//! Telemetry: sensors, estimates and operating points. Figures are judged for plausibility only.

use polychip_abi as abi;

use crate::bench::Bench;
use crate::case::Case;
use crate::plugin::{Telemetry, now_ns, status_name};
use crate::verdict::{Judgement, check, fail, skip};

pub(super) fn cases(cases: &mut Vec<Case>) {
    let case = |name: &str, run: fn(&Bench) -> Judgement| Case::new("telemetry", name, run).basic();
    cases.extend([
        case("sensors", sensors),
        case("sensors-while-running", while_running),
        case("energy-never-falls", energy),
        case("estimate", estimate),
        case("estimate-of-each-node", estimate_each),
        case("estimate-of-torn-parts-is-refused", estimate_ends).alone(),
        case("estimate-of-unknown-nodes-is-refused", estimate_unknown).alone(),
        case("operating-points", points),
        case("operating-points-into-little-room", points_little_room),
        case("each-operating-point-runs", each_point),
        case("unknown-operating-point-is-refused", unknown_point),
        case("compile-for-an-operating-point", compile_for_point),
    ]);
}

/// Bounds that no device under test leaves.
fn plausible(found: &Telemetry) -> Judgement {
    let has = |bit| found.valid & bit != 0;
    check!(found.valid < 128, "unknown bits in valid: {:#x}", found.valid);
    check!(
        !has(abi::POLYCHIP_TELEMETRY_TEMPERATURE) || (-60_000..200_000).contains(&found.temperature_mc),
        "{} thousandths of a degree",
        found.temperature_mc
    );
    check!(
        !has(abi::POLYCHIP_TELEMETRY_POWER) || found.power_mw < 10_000_000,
        "{} mW",
        found.power_mw
    );
    check!(
        !has(abi::POLYCHIP_TELEMETRY_FREQUENCY) || (1..100_000_000).contains(&found.frequency_khz),
        "{} kHz: an unknown clock must not set its bit",
        found.frequency_khz
    );
    check!(
        !has(abi::POLYCHIP_TELEMETRY_LOAD) || found.load_permille <= 1000,
        "a load of {} thousandths",
        found.load_permille
    );
    check!(
        !has(abi::POLYCHIP_TELEMETRY_THROTTLE) || found.throttle < 4,
        "unknown bits in throttle: {:#x}",
        found.throttle
    );
    check!(
        !has(abi::POLYCHIP_TELEMETRY_MEMORY) || found.memory_used_bytes < 1 << 50,
        "{} bytes in use",
        found.memory_used_bytes
    );
    Ok(())
}

fn sensors(bench: &Bench) -> Judgement {
    for _ in 0..5 {
        let before = now_ns();
        let Some(found) = bench.device.telemetry()? else {
            return skip("telemetry is not offered");
        };
        plausible(&found)?;
        if found.valid != 0 && found.time_ns != 0 {
            let after = now_ns();
            check!(
                found.time_ns <= after,
                "read at {}, but between {before} and {after} on the host's clock",
                found.time_ns
            );
        }
    }
    Ok(())
}

fn while_running(bench: &Bench) -> Judgement {
    if bench.device.telemetry()?.is_none() {
        return skip("telemetry is not offered");
    }
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    for _ in 0..20 {
        let fence = executable.execute(&buffers, &[])?;
        if let Some(found) = bench.device.telemetry()? {
            plausible(&found)?;
        }
        fence.wait()?;
    }
    Ok(())
}

fn energy(bench: &Bench) -> Judgement {
    let (problem, executable) = bench.loaded()?;
    let buffers = problem.buffers(&executable)?;
    let mut last = None;
    for _ in 0..10 {
        let Some(found) = bench.device.telemetry()? else {
            return skip("telemetry is not offered");
        };
        if found.valid & abi::POLYCHIP_TELEMETRY_ENERGY == 0 {
            return skip("energy is not measured");
        }
        check!(
            last.is_none_or(|last| found.energy_uj >= last),
            "{} µJ after {last:?}",
            found.energy_uj
        );
        last = Some(found.energy_uj);
        executable.execute(&buffers, &[])?.wait()?;
    }
    Ok(())
}

fn estimate(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    let nodes: Vec<u32> = (0..problem.flat.node_count() as u32).collect();
    let Some(cost) = bench.device.estimate(&problem.flat, &nodes)? else {
        return skip("nothing is estimated");
    };
    let has = |bit| cost.valid & bit != 0;
    check!(cost.valid < 64, "unknown bits in valid: {:#x}", cost.valid);
    let minute = 60_000_000_000;
    check!(
        !has(abi::POLYCHIP_COST_TIME) || cost.time_ns < minute,
        "{} ns",
        cost.time_ns
    );
    check!(
        !has(abi::POLYCHIP_COST_LAUNCH) || cost.launch_ns < minute,
        "{} ns",
        cost.launch_ns
    );
    check!(
        !has(abi::POLYCHIP_COST_ENERGY) || cost.energy_uj < 1 << 40,
        "{} µJ",
        cost.energy_uj
    );
    check!(
        !has(abi::POLYCHIP_COST_POWER) || cost.power_mw < 10_000_000,
        "{} mW",
        cost.power_mw
    );
    check!(
        !has(abi::POLYCHIP_COST_MEMORY) || cost.memory_bytes < 1 << 40,
        "{} bytes",
        cost.memory_bytes
    );
    check!(
        !has(abi::POLYCHIP_COST_ERROR) || cost.error_permille <= 100_000,
        "an error of {} thousandths",
        cost.error_permille
    );
    let emulated = bench.device.info()?.flags & abi::POLYCHIP_DEVICE_EMULATED != 0;
    check!(
        !emulated || cost.flags & abi::POLYCHIP_COST_EMULATED != 0,
        "the device is emulated, but its figures are not marked so"
    );
    Ok(())
}

fn estimate_each(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    let nodes: Vec<u32> = (0..problem.flat.node_count() as u32).collect();
    let Some(whole) = bench.device.estimate(&problem.flat, &nodes)? else {
        return skip("nothing is estimated");
    };
    // each node by itself and the whole, asked at once: the same answers as one by one
    let mut parts: Vec<&[u32]> = nodes.chunks(1).collect();
    parts.push(&nodes);
    let together = bench.device.estimate_parts(&problem.flat, &parts)?;
    check!(
        together.len() == parts.len(),
        "{} parts are estimated alone, but not together",
        parts.len()
    );
    let figures = |cost: &abi::polychip_cost| (cost.valid, cost.time_ns, cost.launch_ns, cost.energy_uj);
    for (part, cost) in parts.iter().zip(&together) {
        let Some(alone) = bench.device.estimate(&problem.flat, part)? else {
            return fail(format!("the whole is estimated, but nodes {part:?} are not"));
        };
        check!(
            figures(&alone) == figures(cost),
            "nodes {part:?} cost {:?} alone, but {:?} with other parts",
            figures(&alone),
            figures(cost)
        );
    }
    check!(
        together.last().map(figures) == Some(figures(&whole)),
        "two estimates of the whole differ"
    );
    check!(
        bench.device.estimate_parts(&problem.flat, &[])?.is_empty(),
        "no part has a cost"
    );
    Ok(())
}

fn estimate_ends(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    if bench.device.table().estimate.is_none() {
        return skip("estimate is not offered");
    }
    match bench.device.estimate_raw(&problem.flat, &[0], &[1, 0]) {
        Ok(costs) if costs.is_empty() => Ok(()),
        Ok(_) => fail("a part that ends before it begins has a cost"),
        Err(failure) => {
            check!(
                failure.status == abi::POLYCHIP_STATUS_BAD_ARGUMENT,
                "a part that ends before it begins is refused as {}",
                status_name(failure.status)
            );
            Ok(())
        }
    }
}

fn estimate_unknown(bench: &Bench) -> Judgement {
    let problem = bench.carrier()?;
    if bench.device.table().estimate.is_none() {
        return skip("estimate is not offered");
    }
    for node in [problem.flat.node_count() as u32, u32::MAX] {
        match bench.device.estimate(&problem.flat, &[node]) {
            Ok(Some(_)) => return fail(format!("node {node} of {} has a cost", problem.flat.node_count())),
            Ok(None) => {}
            Err(failure) => check!(
                failure.status == abi::POLYCHIP_STATUS_BAD_ARGUMENT,
                "node {node} is refused as {}",
                status_name(failure.status)
            ),
        }
    }
    Ok(())
}

fn points(bench: &Bench) -> Judgement {
    let Some((points, count)) = bench.device.operating_points(64)? else {
        return skip("there are no operating points");
    };
    check!(count <= 1000, "{count} operating points");
    for (index, point) in points.iter().enumerate() {
        check!(!point.name.is_empty(), "operating point {index} has no name");
        check!(
            points[..index].iter().all(|other| other.name != point.name),
            "two operating points are named {:?}",
            point.name
        );
        check!(
            point.frequency_khz < 100_000_000,
            "{:?} runs at {} kHz",
            point.name,
            point.frequency_khz
        );
        check!(
            point.power_mw < 10_000_000,
            "{:?} takes {} mW",
            point.name,
            point.power_mw
        );
    }
    check!(
        bench.device.operating_points(64)? == Some((points, count)),
        "two calls return different points"
    );
    Ok(())
}

fn points_little_room(bench: &Bench) -> Judgement {
    let Some((all, count)) = bench.device.operating_points(64)? else {
        return skip("there are no operating points");
    };
    for capacity in [0, 1] {
        let Some((some, stated)) = bench.device.operating_points(capacity)? else {
            return fail("with a smaller buffer, there are none");
        };
        check!(
            stated == count,
            "with room for {capacity} it counts {stated} instead of {count}"
        );
        check!(
            some[..] == all[..some.len()],
            "with room for {capacity} the points differ"
        );
    }
    Ok(())
}

fn each_point(bench: &Bench) -> Judgement {
    let Some((points, _)) = bench.device.operating_points(64)? else {
        return skip("there are no operating points");
    };
    if points.is_empty() || bench.device.table().set_operating_point.is_none() {
        return skip("the host cannot choose an operating point");
    }
    let (problem, executable) = bench.loaded()?;
    for index in (0..points.len() as u32).chain([0]) {
        bench.device.set_operating_point(index)?;
        problem.run(&executable, &bench.tolerances())?;
        if let Some(found) = bench.device.telemetry()? {
            plausible(&found)?;
        }
    }
    Ok(())
}

fn unknown_point(bench: &Bench) -> Judgement {
    let count = bench.device.operating_points(64)?.map_or(0, |(_, count)| count);
    for index in [u32::try_from(count).unwrap_or(u32::MAX), u32::MAX] {
        match bench.device.set_operating_point(index) {
            Ok(None) => return skip("set_operating_point is not offered"),
            Ok(Some(())) => return fail(format!("it accepts operating point {index} of {count}")),
            Err(failure) => check!(
                matches!(
                    failure.status,
                    abi::POLYCHIP_STATUS_BAD_ARGUMENT | abi::POLYCHIP_STATUS_UNSUPPORTED
                ),
                "operating point {index} is refused as {}",
                status_name(failure.status)
            ),
        }
    }
    Ok(())
}

fn compile_for_point(bench: &Bench) -> Judgement {
    use polychip_abi::Sized as _;
    let problem = bench.carrier()?;
    let mut options = abi::polychip_compile_options::sized();
    if bench.reduced {
        options.precision = abi::POLYCHIP_PRECISION_REDUCED;
    }
    let count = bench
        .device
        .operating_points(64)?
        .map_or(0, |(points, _)| points.len());
    if count == 0 {
        return skip("there are no operating points");
    }
    for index in 0..count as u32 {
        options.operating_point = index;
        let executable = crate::plugin::Blob::with(&bench.device, &problem.flat, &options)?.load()?;
        problem.run(&executable, &bench.tolerances())?;
    }
    Ok(())
}
