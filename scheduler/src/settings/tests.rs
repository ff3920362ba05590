//! Settings as text: the meaning of each value, and the errors of invalid ones.

use super::*;
use crate::policy::Learn;

#[test]
fn limits_are_numbers_with_or_without_their_unit() {
    assert_eq!(watts("5W"), watts("5"));
    assert_eq!(watts("0.25").unwrap().milliwatts(), 250);
    assert_eq!(milliseconds("33.5ms"), Ok(Duration::from_micros(33_500)));
    let (device, heat) = super::heat("npu:0=30C+9.5K/W").unwrap();
    assert_eq!((device.as_str(), heat.resistance_mk_per_w), ("npu:0", 9_500));
    assert_eq!(heat.rest.millidegrees(), 30_000);
    for bad in ["npu:0", "npu:0=30C", "=30C+9K/W", "npu:0=30C+-1K/W", "npu:0=x+9"] {
        assert!(super::heat(bad).is_err(), "{bad}");
    }
    assert_eq!(period("40ms"), period("25fps"));
    assert_eq!(period("0"), Ok(Duration::ZERO));
    for bad in ["0fps", "-1", "fps", "often"] {
        assert!(period(bad).is_err(), "{bad}");
    }
    assert!(milliseconds("0").is_err() && watts("-1").is_err() && celsius("1000").is_err());
}

#[test]
fn memory_sizes_have_binary_and_decimal_units() {
    assert_eq!(bytes("800000000"), Ok(800_000_000));
    assert_eq!((bytes("800MB"), bytes("1.5GiB")), (Ok(800_000_000), Ok(3 << 29)));
    assert_eq!((bytes("0"), bytes("none")), (Ok(0), Ok(u64::MAX)));
    for bad in ["", "-1", "1.5", "MiB", "1e30GiB", "12 apples", "unlimited"] {
        assert!(bytes(bad).is_err(), "{bad}");
    }
    assert!(Builder::with_setting(crate::Runtime::builder(), "memory-limit", "512MiB").is_ok());
    assert!(Builder::with_setting(crate::Runtime::builder(), "memory-pressure", "ignore").is_ok());
    let error = Builder::with_setting(crate::Runtime::builder(), "memory-pressure", "yes").unwrap_err();
    assert!(error.to_string().contains("follow, ignore"), "{error}");
}

#[test]
fn text_settings_equal_policy_calls() {
    let words = [
        ("policy", "balanced"),
        ("devices", "cpu:0, gpu"),
        ("pin", "conv*=cpu:0"),
        ("threads", "2"),
        ("precision", "reduced"),
        ("priority", "urgent"),
        ("deadline", "33ms"),
        ("late", "drop"),
        ("in-flight", "3"),
        ("retry", "0"),
        ("no-replan", "yes"),
        ("max-predicted-power", "5W"),
        ("max-temperature", "80C"),
        ("buckets", "batch=1,4"),
        ("specialization-cache-bytes", "1024"),
        ("background-planning", "yes"),
    ];
    let from_text = words.iter().fold(Policy::latency(), |policy, (name, value)| {
        policy.with_setting(name, value).unwrap()
    });
    let called = Policy::balanced()
        .devices(["cpu:0", "gpu"])
        .pin("conv*", "cpu:0")
        .threads(2)
        .precision(Precision::Reduced)
        .priority(Priority::Urgent)
        .deadline(Duration::from_millis(33))
        .late(Late::Drop)
        .in_flight(3)
        .retry(0)
        .replan(false)
        .max_predicted_power(Milliwatts::new(5000))
        .max_temperature(MilliCelsius::from_celsius(80.0))
        .shapes("batch", [1, 4])
        .specialization_cache_bytes(1024)
        .background_planning();
    assert_eq!(from_text, called);
}

#[test]
fn every_setting_refuses_invalid_values() {
    for setting in OF_POLICY {
        let error = Policy::latency()
            .with_setting(setting.name, "")
            .unwrap_err()
            .to_string();
        assert!(error.contains(setting.name), "{error}");
    }
    for setting in OF_BUILDER {
        let error = crate::Runtime::builder()
            .with_setting(setting.name, "")
            .unwrap_err()
            .to_string();
        assert!(error.contains(setting.name), "{error}");
    }
}

#[test]
fn unknown_setting_error_lists_the_settings() {
    let error = Policy::latency()
        .with_setting("objective", "latency")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput);
    let error = error.to_string();
    assert!(
        error.contains("\"objective\"") && error.contains("policy, precision"),
        "{error}"
    );
    let error = Policy::latency()
        .with_setting("patience", "33ms")
        .unwrap_err()
        .to_string();
    assert_eq!(error, "the policy setting \"patience\" is now \"hang-timeout\"");
    let error = Policy::latency()
        .with_setting("hottest", "80C")
        .unwrap_err()
        .to_string();
    assert_eq!(error, "the policy setting \"hottest\" is now \"max-temperature\"");
    let error = read_change("max-surface", "42C").unwrap_err().to_string();
    assert_eq!(
        error,
        "session setting \"max-surface\" is now \"max-surface-temperature\""
    );
    let error = Policy::latency()
        .with_setting("late", "Drop")
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "policy setting \"late\": \"Drop\" is not one of finish, drop, latest"
    );
}

#[test]
fn governed_limits_do_not_depend_on_order() {
    let words = [
        ("max-power", "5W"),
        ("max-temperature", "80C"),
        ("max-surface-temperature", "42C"),
    ];
    let from_text = |words: &mut dyn Iterator<Item = &(&str, &str)>| {
        words.fold(Policy::latency(), |policy, (name, value)| {
            policy.with_setting(name, value).unwrap()
        })
    };
    let called = Policy::latency()
        .max_power(Milliwatts::new(5000))
        .max_temperature(MilliCelsius::from_celsius(80.0))
        .max_surface_temperature(MilliCelsius::from_celsius(42.0));
    assert_eq!(from_text(&mut words.iter()), called);
    assert_eq!(from_text(&mut words.iter().rev()), called);
    let governed = [
        ("background", "yes"),
        ("battery-saver", "yes"),
        ("frame-period", "33"),
    ];
    let called = Policy::latency()
        .background()
        .battery_saver()
        .frame_period(Duration::from_millis(33));
    assert_eq!(from_text(&mut governed.iter()), called);
    assert_eq!(from_text(&mut [("governed", "no")].iter()), Policy::latency());
}

#[test]
fn runtime_settings_are_recognized() {
    assert_eq!(
        read_change("learn", "watch").unwrap(),
        SettingsChange::Learn(Learn::Watch)
    );
    assert_eq!(
        read_change("deadline", "no").unwrap(),
        SettingsChange::Deadline(None)
    );
    assert_eq!(
        read_change("background", "yes").unwrap(),
        SettingsChange::Hint(Hint::Foreground(false))
    );
    let of_policy = read_change("threads", "2").unwrap_err().to_string();
    assert!(
        of_policy.contains("in the session's policy") && of_policy.contains("frame-period, learn"),
        "{of_policy}"
    );
    let bad = read_change("max-power", "much").unwrap_err().to_string();
    assert!(
        bad.contains("max-power") && bad.ends_with("`no` removes the value"),
        "{bad}"
    );
}

#[test]
fn setting_tables_are_sorted() {
    assert!(OF_SESSION.is_sorted_by_key(|(name, _)| *name));
    assert!(OF_POLICY.is_sorted_by_key(|setting| setting.name));
    assert!(OF_BUILDER.is_sorted_by_key(|setting| setting.name));
}
