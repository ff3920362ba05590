//! Sensors of the machines recorded in `scheduler/tests/sensors`, intact and broken.

use super::*;
use crate::telemetry::Subject;

/// Lines of a path, a tab and the content; lines that begin with `#` are words.
fn tree(name: &str) -> tempfile::TempDir {
    let file = format!("{}/tests/sensors/{name}.tree", env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    for line in fs::read_to_string(file).unwrap().lines() {
        if let Some((path, content)) = line.split_once('\t').filter(|_| !line.starts_with('#')) {
            write(folder.path(), path, content);
        }
    }
    folder
}

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{content}\n")).unwrap();
}

/// Name, quantity and reading of every sensor.
fn all(sensors: &mut Sensors) -> Vec<(String, Quantity, Result<i64, Absent>)> {
    let readings = sensors.read();
    let named = sensors.all().iter().zip(readings);
    named
        .map(|(sensor, reading)| (sensor.name.clone(), sensor.quantity, reading.value))
        .collect()
}

fn value(sensors: &mut Sensors, name: &str, quantity: Quantity) -> Result<i64, Absent> {
    let all = all(sensors);
    let found = all.iter().find(|(other, of, _)| other == name && *of == quantity);
    found
        .unwrap_or_else(|| panic!("no {name} {quantity:?} in {all:?}"))
        .2
        .clone()
}

#[test]
fn phone_sensors_are_read_in_our_units() {
    let folder = tree("phone");
    let mut sensors = Sensors::at(folder.path(), &Rules::default());
    let known: Vec<(String, Quantity, i64)> = all(&mut sensors)
        .into_iter()
        .filter_map(|(name, quantity, value)| Some((name, quantity, value.ok()?)))
        .collect();
    let expected = [
        ("cpufreq/policy0", Quantity::Frequency, 1_804_800),
        ("cpufreq/policy7", Quantity::Frequency, 2_227_200),
        ("devfreq/190b6400.qcom,ddr-bw", Quantity::Frequency, 2_092_000),
        ("devfreq/3d00000.qcom,kgsl-3d0", Quantity::Frequency, 550_000),
        ("power_supply/battery", Quantity::Temperature, 31_400),
        // 3.912 V times 0.812 A
        ("power_supply/battery", Quantity::Power, 3176),
        ("power_supply/battery", Quantity::Voltage, 3912),
        ("power_supply/battery", Quantity::Current, 812),
        ("power_supply/battery", Quantity::Capacity, 730),
        ("thermal/battery", Quantity::Temperature, 31_400),
        ("thermal/cpuss-0-usr", Quantity::Temperature, 48_200),
        ("thermal/cpuss-1-usr", Quantity::Temperature, 51_700),
        ("thermal/gpuss-0-usr", Quantity::Temperature, 44_100),
        ("thermal/nspss-0-usr", Quantity::Temperature, 39_800),
        ("thermal/skin-therm", Quantity::Temperature, 36_500),
    ];
    let expected: Vec<_> = expected
        .map(|(name, quantity, value)| (name.to_owned(), quantity, value))
        .into();
    assert_eq!(known, expected);
    assert_eq!(sensors.is_charging(), Some(false));
    let sensor = |name: &str| {
        let found = sensors.all().iter().find(|sensor| sensor.name == name);
        found.unwrap().clone()
    };
    let zone = sensor("thermal/cpuss-0-usr");
    let trips: Vec<(&str, i64)> = zone
        .trips
        .iter()
        .map(|trip| (trip.kind.as_str(), trip.temperature_mc))
        .collect();
    assert_eq!(trips, [("passive", 95_000), ("critical", 115_000)]);
    let gpu = sensor("devfreq/3d00000.qcom,kgsl-3d0");
    assert_eq!(
        (gpu.range_khz, gpu.subject),
        (Some((220_000, 680_000)), Subject::Gpu)
    );
    assert_eq!(gpu.governor.as_deref(), Some("msm-adreno-tz"));
}

#[test]
fn clock_governor_and_other_load_are_reread() {
    let folder = tree("phone");
    let sensors = Sensors::at(folder.path(), &Rules::default());
    assert_eq!((sensors.power_mode(), sensors.contention()), (None, None));
    let cpu = sensors
        .all()
        .iter()
        .find(|sensor| sensor.name == "cpufreq/policy7")
        .unwrap();
    let policy = "sys/devices/system/cpu/cpufreq/policy7";
    write(folder.path(), &format!("{policy}/scaling_governor"), "powersave");
    write(folder.path(), &format!("{policy}/scaling_max_freq"), "1200000");
    let setting = sensors.clock_setting(cpu);
    assert_eq!(
        (setting.governor.as_deref(), setting.highest_khz),
        (Some("powersave"), Some(1_200_000))
    );
    let gpu = |sensor: &&Sensor| sensor.name == "devfreq/3d00000.qcom,kgsl-3d0";
    let setting = sensors.clock_setting(sensors.all().iter().find(gpu).unwrap());
    assert_eq!(
        (setting.governor.as_deref(), setting.highest_khz),
        (Some("msm-adreno-tz"), Some(680_000))
    );
    write(folder.path(), "sys/firmware/acpi/platform_profile", "balanced");
    write(folder.path(), "proc/loadavg", "0.42 0.36 0.30 5/345 6789");
    assert_eq!(
        (sensors.power_mode().as_deref(), sensors.contention()),
        (Some("balanced"), Some(4))
    );
    // two of the five are threads of this program, one sleeps
    for (thread, line) in [(7, "7 (a) R 1"), (8, "8 (b (c) R) R 1"), (9, "9 (R) S 1")] {
        write(folder.path(), &format!("proc/self/task/{thread}/stat"), line);
    }
    assert_eq!(sensors.contention(), Some(3));
}

#[test]
fn package_counter_wraps_at_its_range() {
    let folder = tree("laptop");
    let mut sensors = Sensors::at(folder.path(), &Rules::default());
    let package = |sensors: &mut Sensors| value(sensors, "powercap/package-0", Quantity::Energy);
    assert_eq!(package(&mut sensors), Ok(0));
    write(folder.path(), "sys/class/powercap/intel-rapl:0/energy_uj", "1149");
    // 8850 up to the range, one more to 0, and 1149
    assert_eq!(package(&mut sensors), Ok(10_000));
    assert_eq!(
        value(&mut sensors, "hwmon/coretemp/Package id 0", Quantity::Temperature),
        Ok(59_000)
    );
    assert_eq!(
        value(&mut sensors, "power_supply/BAT0", Quantity::Power),
        Ok(9870)
    );
    assert_eq!(
        value(&mut sensors, "hwmon/BAT0/curr1", Quantity::Current),
        Ok(1200)
    );
    assert_eq!(sensors.is_charging(), Some(true));
    let packages = sensors
        .all()
        .iter()
        .filter(|sensor| sensor.name.contains("package"));
    assert_eq!(packages.count(), 1, "the counter by memory is the same one");
}

#[test]
fn load_is_the_busy_share_between_two_readings() {
    let folder = tree("laptop");
    let mut sensors = Sensors::at(folder.path(), &Rules::default());
    let load = |sensors: &mut Sensors| value(sensors, "stat/cpu", Quantity::Load);
    assert_eq!(load(&mut sensors), Err(Absent::First));
    write(folder.path(), "proc/stat", "cpu  130 0 100 760 110 0 0 0 0 0");
    assert_eq!(load(&mut sensors), Ok(300));
    assert_eq!(load(&mut sensors), Err(Absent::First), "no tick has passed");
}

#[test]
fn board_npu_and_rail_are_found() {
    let folder = tree("board");
    let mut sensors = Sensors::at(folder.path(), &Rules::default());
    let of = |subject: Subject| -> Vec<String> {
        let mine = sensors.all().iter().filter(|sensor| sensor.subject == subject);
        mine.map(|sensor| sensor.name.clone()).collect()
    };
    assert_eq!(of(Subject::Npu), ["devfreq/fdab0000.npu", "thermal/npu-thermal"]);
    assert_eq!(
        of(Subject::Cpu),
        ["thermal/bigcore0-thermal", "thermal/soc-thermal"]
    );
    assert_eq!(
        value(&mut sensors, "hwmon/ina226/power1", Quantity::Power),
        Ok(6340)
    );
}

#[test]
fn container_without_sensors_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut sensors = Sensors::at(folder.path().join("not there"), &Rules::default());
    assert!(sensors.all().is_empty() && sensors.read().is_empty());
    assert_eq!(sensors.is_charging(), None);
}

#[test]
fn broken_file_affects_only_its_sensor() {
    let folder = tree("broken");
    let mut sensors = Sensors::at(folder.path(), &Rules::default());
    fs::remove_file(folder.path().join("sys/class/thermal/thermal_zone7/temp")).unwrap();
    let expected: Vec<(String, Quantity, Result<i64, Absent>)> = [
        ("devfreq/gpu", Quantity::Frequency, Err(Absent::Impossible(0))),
        (
            "hwmon/odd/power1",
            Quantity::Power,
            Err(Absent::Impossible(-5000)),
        ),
        ("power_supply/b", Quantity::Voltage, Ok(3900)),
        (
            "power_supply/b",
            Quantity::Capacity,
            Err(Absent::Impossible(2500)),
        ),
        (
            "powercap/package-0",
            Quantity::Energy,
            Err(Absent::Impossible(-3)),
        ),
        ("stat/cpu", Quantity::Load, Err(Absent::NoNumber)),
        ("thermal/alike", Quantity::Temperature, Ok(41_000)),
        ("thermal/alike#2", Quantity::Temperature, Ok(42_000)),
        ("thermal/cpu-empty", Quantity::Temperature, Err(Absent::Empty)),
        ("thermal/cpu-frost", Quantity::Temperature, Ok(-7500)),
        (
            "thermal/cpu-kelvin",
            Quantity::Temperature,
            Err(Absent::Impossible(-273_000)),
        ),
        ("thermal/cpu-long", Quantity::Temperature, Err(Absent::NoNumber)),
        ("thermal/cpu-words", Quantity::Temperature, Err(Absent::NoNumber)),
        ("thermal/cpu-zero", Quantity::Temperature, Err(Absent::Zero)),
        ("thermal/gone", Quantity::Temperature, Err(Absent::Vanished)),
    ]
    .map(|(name, quantity, value)| (name.to_owned(), quantity, value))
    .into();
    assert_eq!(all(&mut sensors), expected);
    assert_eq!(
        sensors.all()[0].range_khz,
        None,
        "a range that is upside down is none"
    );
    assert_eq!(sensors.is_charging(), None);
}

#[cfg(unix)]
#[test]
fn unreadable_file_reports_permission_denied() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tree("laptop");
    let path = folder.path().join("sys/class/powercap/intel-rapl:0/energy_uj");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // who may read everything reads this, too
    let expected = match fs::read(&path) {
        Ok(_) => Ok(0),
        Err(_) => Err(Absent::Denied),
    };
    let mut sensors = Sensors::at(folder.path(), &Rules::default());
    assert_eq!(
        value(&mut sensors, "powercap/package-0", Quantity::Energy),
        expected
    );
    // a folder in the place of a file fails with the system's own words
    let zone = folder.path().join("sys/class/thermal/thermal_zone1/temp");
    fs::remove_file(&zone).unwrap();
    fs::create_dir(&zone).unwrap();
    let read = value(&mut sensors, "thermal/x86_pkg_temp", Quantity::Temperature);
    assert!(matches!(read, Err(Absent::Failed(_))), "{read:?}");
}

#[test]
fn record_replays_the_recorded_machine() {
    for name in ["phone", "laptop", "board", "broken"] {
        let folder = tree(name);
        let mut here = Sensors::at(folder.path(), &Rules::default());
        let record = tempfile::tempdir().unwrap();
        here.record(record.path()).unwrap();
        let mut there = Sensors::at(record.path(), &Rules::default());
        assert_eq!(all(&mut here), all(&mut there), "{name}");
        let shape = |sensors: &Sensors| -> Vec<_> {
            let all = sensors.all().iter();
            all.map(|sensor| (sensor.trips.clone(), sensor.range_khz, sensor.governor.clone()))
                .collect()
        };
        assert_eq!(shape(&here), shape(&there), "{name}");
        assert_eq!(here.is_charging(), there.is_charging(), "{name}");
    }
    let (first, second) = (tree("phone"), tree("phone"));
    write(second.path(), "sys/class/thermal/thermal_zone20/temp", "60000");
    let mut sensors = Sensors::at(first.path(), &Rules::default());
    let gpu = |sensors: &mut Sensors| value(sensors, "thermal/gpuss-0-usr", Quantity::Temperature);
    assert_eq!(gpu(&mut sensors), Ok(44_100));
    sensors.move_to(second.path());
    assert_eq!(gpu(&mut sensors), Ok(60_000));
}
