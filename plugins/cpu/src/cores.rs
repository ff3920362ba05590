//! Which processors runs may use: all, a class of cores, or a list, as configuration `cpu.cores` says.
//!
//! Classes come from what Linux says of each core's speed: `cpu_capacity` (Arm), else the highest clock. Cores of the
//! lowest speed are `little`, all others `big`; where all are alike both mean all of them.
//!
//! Not here: pinning threads (`ThreadPool::pinned`).

use std::fs;
use std::path::Path;

use polychip_sdk::{Error, Result};

/// The processors that configuration `text` names; empty for any.
///
/// # Errors
/// The text is none of `all`, `big`, `little` and a list such as `0,2-3`, or names a processor that is not there.
pub(crate) fn chosen(text: &str) -> Result<Vec<usize>> {
    chosen_under(Path::new("/sys"), text)
}

fn chosen_under(sys: &Path, text: &str) -> Result<Vec<usize>> {
    let all = speeds(sys);
    let lowest = all.iter().map(|&(_, speed)| speed).min();
    let highest = all.iter().map(|&(_, speed)| speed).max();
    let of_class = |little: bool| {
        let wanted = |&&(_, speed): &&(usize, u64)| lowest == highest || (Some(speed) == lowest) == little;
        all.iter().filter(wanted).map(|&(cpu, _)| cpu).collect()
    };
    match text {
        "all" => Ok(Vec::new()),
        "big" => Ok(of_class(false)),
        "little" => Ok(of_class(true)),
        list => {
            let wrong =
                |why: String| Error::bad_argument(format!("configuration cpu.cores is '{list}', {why}"));
            let cpus = parse(list)
                .ok_or_else(|| wrong("which is none of all, big, little and a list such as 0,2-3".into()))?;
            match cpus
                .iter()
                .find(|cpu| !all.iter().any(|(there, _)| there == *cpu))
            {
                None => Ok(cpus),
                Some(cpu) => Err(wrong(format!("and there is no processor {cpu}"))),
            }
        }
    }
}

/// The processors that runs use, counted by their speed, fastest first: `4x1024+4x420`, or `8x0` where the system tells
/// none apart; with the list of them where one was chosen.
pub(crate) fn described(chosen: &[usize]) -> String {
    described_under(Path::new("/sys"), chosen)
}

fn described_under(sys: &Path, chosen: &[usize]) -> String {
    let mut speeds: Vec<u64> = speeds(sys)
        .into_iter()
        .filter(|(cpu, _)| chosen.is_empty() || chosen.contains(cpu))
        .map(|(_, speed)| speed)
        .collect();
    speeds.sort_unstable_by(|a, b| b.cmp(a));
    let classes = speeds.chunk_by(|a, b| a == b);
    let mut description = classes
        .map(|class| format!("{}x{}", class.len(), class[0]))
        .collect::<Vec<_>>()
        .join("+");
    if !chosen.is_empty() {
        let list: Vec<String> = chosen.iter().map(ToString::to_string).collect();
        description.push_str(&format!("@{}", list.join(",")));
    }
    description
}

/// The processors that are there, each with a figure that grows with its speed.
fn speeds(sys: &Path) -> Vec<(usize, u64)> {
    let folder = sys.join("devices/system/cpu");
    let present = fs::read_to_string(folder.join("present")).unwrap_or_default();
    let cpus = parse(present.trim()).unwrap_or_default();
    let speed = |cpu: usize| {
        ["cpu_capacity", "cpufreq/cpuinfo_max_freq"]
            .iter()
            .find_map(|file| {
                let text = fs::read_to_string(folder.join(format!("cpu{cpu}/{file}"))).ok()?;
                text.trim().parse().ok()
            })
    };
    cpus.into_iter()
        .map(|cpu| (cpu, speed(cpu).unwrap_or(0)))
        .collect()
}

/// A list of numbers and ranges, as in `0,2-3`, in order; `None` where it is not one.
fn parse(list: &str) -> Option<Vec<usize>> {
    /// More than the system's own set of processors holds.
    const MOST: usize = 1 << 12;
    let mut cpus = Vec::new();
    for piece in list.split(',') {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let number = |text: &str| text.trim().parse::<usize>().ok();
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of these cores' capacities.
    fn machine(file: &str, capacities: &[u64]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let folder = sys.path().join("devices/system/cpu");
        for (cpu, capacity) in capacities.iter().enumerate() {
            let path = folder.join(format!("cpu{cpu}/{file}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{capacity}\n")).unwrap();
        }
        fs::write(folder.join("present"), format!("0-{}\n", capacities.len() - 1)).unwrap();
        sys
    }

    #[test]
    fn classes_follow_the_speed_of_the_cores() {
        // four little, three big and one prime core, as in a phone
        for file in ["cpu_capacity", "cpufreq/cpuinfo_max_freq"] {
            let phone = machine(file, &[250, 250, 250, 250, 780, 780, 780, 1024]);
            assert_eq!(chosen_under(phone.path(), "big").unwrap(), [4, 5, 6, 7]);
            assert_eq!(chosen_under(phone.path(), "little").unwrap(), [0, 1, 2, 3]);
            assert_eq!(chosen_under(phone.path(), "all").unwrap(), [0usize; 0]);
            assert_eq!(chosen_under(phone.path(), "7, 0-1").unwrap(), [0, 1, 7]);
        }
        let server = machine("cpu_capacity", &[1024, 1024]);
        assert_eq!(chosen_under(server.path(), "big").unwrap(), [0, 1]);
        assert_eq!(chosen_under(server.path(), "little").unwrap(), [0, 1]);
    }

    #[test]
    fn unknown_core_names_are_refused() {
        let server = machine("cpu_capacity", &[1024, 1024]);
        for text in ["2", "fast", "", "1-0", "0-99999999"] {
            let error = chosen_under(server.path(), text).unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn cores_are_described_by_count_class_and_choice() {
        let phone = machine("cpu_capacity", &[420, 420, 1024]);
        let described = |chosen: &[usize]| described_under(phone.path(), chosen);
        assert_eq!(described(&[]), "1x1024+2x420");
        assert_eq!(described(&[0, 2]), "1x1024+1x420@0,2");
        assert_ne!(described(&[0]), described(&[1]));
    }
}
