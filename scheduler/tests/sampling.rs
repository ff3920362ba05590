//! Samples of scripted devices, of a recorded machine's CPU, and of a machine without sensors.

use std::path::Path;
use std::time::Duration;

use polychip::Runtime;
use polychip::telemetry::{Quantity, Rules, Sampler, Sensors, Subject};

fn machine(name: &str) -> tempfile::TempDir {
    let file = format!("{}/tests/sensors/{name}.tree", env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        if let Some((path, content)) = line.split_once('\t').filter(|_| !line.starts_with('#')) {
            write(folder.path(), path, content);
        }
    }
    folder
}

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn runtime(script: &str) -> Runtime {
    Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", script)
        .virtual_time()
        .only_given_folders()
        .build()
        .unwrap()
}

#[test]
fn figures_name_their_sensor_or_the_reason() {
    let folder = machine("laptop");
    let runtime =
        runtime("[[device]]\nname = \"npu\"\nheat = { ambient_mc = 25000 }\n[[device]]\nkind = \"cpu\"\n");
    let mut sampler = Sampler::new(&runtime, Sensors::at(folder.path(), &Rules::default()));
    sampler.sample();
    write(
        folder.path(),
        "sys/class/powercap/intel-rapl:0/energy_uj",
        "262143320500",
    );
    sampler.wait(Duration::from_millis(5));
    let sample = sampler.sample();
    assert_eq!(sample.time_ns, 5_000_000);
    let state = |name: &str| sample.devices.iter().find(|state| state.device == name).unwrap();
    let cpu = state("cpu:0");
    assert_eq!(
        (cpu.energy_uj.value, cpu.energy_uj.from.as_str()),
        (Some(500), "powercap/package-0")
    );
    assert_eq!(
        (cpu.power_mw.value, cpu.power_mw.from.as_str()),
        (None, "powercap/package-0: needs a second of energy readings")
    );
    assert!(!cpu.emulated && !cpu.lost);
    let npu = state("null:0");
    assert!(npu.emulated);
    assert_eq!(
        (npu.temperature_mc.value, npu.temperature_mc.from.as_str()),
        (Some(25_000), "plugin null")
    );
    // Linux's sensors are of real chips, not of the emulated CPU
    let emulated = state("null:1");
    assert_eq!(emulated.temperature_mc.value, None);
    let battery = sample.battery.as_ref().unwrap();
    assert_eq!(
        (battery.capacity_permille.value, battery.charging),
        (Some(1000), Some(true))
    );
}

#[test]
fn unreadable_counter_leaves_energy_unknown() {
    let folder = machine("laptop");
    let path = folder.path().join("sys/class/powercap/intel-rapl:0/energy_uj");
    std::fs::remove_file(&path).unwrap();
    // what no user can read as a file
    std::fs::create_dir(&path).unwrap();
    let runtime = runtime("");
    let mut sampler = Sampler::new(&runtime, Sensors::at(folder.path(), &Rules::default()));
    let sample = sampler.sample();
    let energy = &sample.devices[0].energy_uj;
    assert_eq!(energy.value, None);
    assert!(
        energy.from.starts_with("powercap/package-0: the driver failed"),
        "{}",
        energy.from
    );
}

#[test]
fn app_rule_assigns_a_sensor_to_a_device() {
    let folder = machine("board");
    let rules = Rules::default().with("hwmon/ina226/*", Subject::Device("cpu:0".into()));
    let runtime = runtime("");
    let mut sampler = Sampler::new(&runtime, Sensors::at(folder.path(), &rules));
    let power = sampler.sample().devices[0].power_mw.clone();
    assert_eq!(
        (power.value, power.from.as_str()),
        (Some(6340), "hwmon/ina226/power1")
    );
}

#[test]
fn machine_without_sensors_reports_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime("[[device]]\nname = \"npu\"\n");
    let mut sampler = Sampler::new(&runtime, Sensors::at(folder.path(), &Rules::default()));
    assert!(sampler.sensors().all().is_empty());
    let sample = sampler.sample();
    assert_eq!(sample.battery, None);
    let energy = &sample.devices[0].energy_uj;
    assert_eq!((energy.value, energy.from.as_str()), (None, "no sensor"));
    assert!(
        !sampler
            .sensors()
            .all()
            .iter()
            .any(|sensor| sensor.quantity == Quantity::Load)
    );
}

#[test]
fn energy_counter_gives_mean_power() {
    let folder = machine("laptop");
    let runtime = runtime("");
    let mut sampler = Sampler::new(&runtime, Sensors::at(folder.path(), &Rules::default()));
    let mut power = |microjoules: &str, milliseconds: u64| {
        write(
            folder.path(),
            "sys/class/powercap/intel-rapl:0/energy_uj",
            microjoules,
        );
        sampler.wait(Duration::from_millis(milliseconds));
        sampler.sample().devices[0].power_mw.value
    };
    assert_eq!(power("1000", 0), None);
    assert_eq!(power("2000", 400), None, "less than a second");
    // 24 J in 1.2 s
    assert_eq!(power("24001000", 800), Some(20_000));
    assert_eq!(
        power("24002000", 500),
        Some(20_000),
        "until the next second is over"
    );
    assert_eq!(power("29001000", 500), Some(5000));
}

#[test]
fn clock_limits_and_package_sensors_have_figures() {
    let folder = machine("phone");
    let runtime = runtime("");
    let mut sampler = Sampler::new(&runtime, Sensors::at(folder.path(), &Rules::default()));
    let sample = sampler.sample();
    let surface = &sample.surface_mc;
    assert_eq!(
        (surface.value, surface.from.as_str()),
        (Some(36_500), "thermal/skin-therm")
    );
    assert_eq!(sample.package_mc.value, None);
    let allowed = &sample.devices[0].allowed_khz;
    assert_eq!(
        (allowed.value, allowed.from.as_str()),
        (Some(3_187_200), "cpufreq/policy7")
    );
    // heat lowers what is allowed
    let policy = "sys/devices/system/cpu/cpufreq/policy7/scaling_max_freq";
    write(folder.path(), policy, "1800000");
    let sample = sampler.sample();
    assert_eq!(sample.devices[0].allowed_khz.value, Some(2_016_000));
}

#[test]
fn other_load_excludes_own_process() {
    let folder = machine("phone");
    let runtime = runtime("");
    // user, nice, system, idle
    let ticks = |busy: u64, idle: u64, own: u64| {
        write(
            folder.path(),
            "proc/stat",
            &format!("cpu {busy} 0 0 {idle} 0 0 0 0\n"),
        );
        let name = "7 (a ) b) R 1 2 3 4 5 6 7 8 9 10";
        write(folder.path(), "proc/self/stat", &format!("{name} {own} 0 0 0\n"));
    };
    ticks(1000, 1000, 100);
    let mut sampler = Sampler::new(&runtime, Sensors::at(folder.path(), &Rules::default()));
    let mut others = || sampler.sample().devices[0].others_permille.value;
    assert_eq!(others(), None, "it needs a second reading");
    ticks(1020, 1030, 105);
    assert_eq!(others(), None, "half a second of a core is too little");
    // of 400 ticks 300 are busy, of which 100 are ours
    ticks(1300, 1100, 200);
    assert_eq!(others(), Some(500));
    ticks(1301, 1101, 200);
    assert_eq!(others(), Some(500), "until the next second is over");
}
