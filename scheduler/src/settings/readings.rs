//! Battery and heat readings that an app passes in where the system does not let a session read
//! them.

/// The result of reading a value, with a message if it is invalid.
pub(super) type Read<T> = std::result::Result<T, String>;

/// Reads a battery charge in thousandths, and whether it is charging: `35%`, `35% charging`.
pub(super) fn battery(text: &str) -> Read<(u32, bool)> {
    let bad = || format!("invalid battery charge {text:?}; expected 0% to 100%, e.g. 35% or 35% charging");
    let (percent, charging) = match text.strip_suffix("charging") {
        Some(percent) => (percent.trim_end(), true),
        None => (text, false),
    };
    let percent = percent.strip_suffix('%').ok_or_else(bad)?;
    match percent.trim().parse::<f64>() {
        // `as` is exact in these bounds
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(((percent * 10.0).round() as u32, charging)),
        _ => Err(bad()),
    }
}

/// Reads a thermal headroom as thousandths: 1,000 is severe throttling.
pub(super) fn headroom(text: &str) -> Read<u32> {
    match text.trim().parse::<f64>() {
        // `as` is exact in these bounds
        Ok(headroom) if (0.0..=10.0).contains(&headroom) => Ok((headroom * 1e3).round() as u32),
        _ => Err(format!(
            "invalid thermal headroom {text:?}; expected 0 to 10, e.g. 0.85 (1 is severe throttling)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn battery_is_a_percentage_with_optional_charging() {
        assert_eq!(battery("35%"), Ok((350, false)));
        assert_eq!(battery("99.5% charging"), Ok((995, true)));
        for bad in ["35", "101%", "-1%", "charging", "35% full"] {
            assert!(battery(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn headroom_is_a_share_of_severe_throttling() {
        assert_eq!(headroom("0.85"), Ok(850));
        assert_eq!(headroom("1.2"), Ok(1200));
        for bad in ["-0.1", "nan", "hot", "11"] {
            assert!(headroom(bad).is_err(), "{bad}");
        }
    }
}
