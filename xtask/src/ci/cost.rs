//! Cost of a check: wall-clock seconds, and processor seconds of all its programs.

use std::fmt;
use std::time::{Duration, Instant};

/// Ticks per second in which Linux tells times of processes, on every processor.
const TICKS: u64 = 100;

/// A cost.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    wall: Duration,
    /// Where the system tells it.
    processor: Option<Duration>,
}

/// Measures from a moment on.
#[derive(Clone, Copy)]
pub(crate) struct Meter {
    start: Instant,
    before: Option<Duration>,
}

impl Meter {
    pub(crate) fn start() -> Meter {
        Meter {
            start: Instant::now(),
            before: children(),
        }
    }

    /// What was spent since the start.
    pub(crate) fn read(&self) -> Cost {
        let since = |now: Duration| Some(now.saturating_sub(self.before?));
        Cost {
            wall: self.start.elapsed(),
            processor: children().and_then(since),
        }
    }
}

impl Cost {
    /// Time of the processor in all programs that were run, where the system tells it.
    pub(crate) fn processor(self) -> Option<Duration> {
        self.processor
    }

    /// How long it took.
    pub(crate) fn wall(self) -> Duration {
        self.wall
    }

    /// Without time of the processor.
    pub(crate) fn on_the_clock(self) -> Cost {
        Cost {
            processor: None,
            ..self
        }
    }

    /// By what checks are ordered.
    pub(crate) fn weight(self) -> Duration {
        self.processor.unwrap_or(self.wall)
    }

    /// The cost as a row of a table.
    pub(crate) fn aligned(self) -> String {
        let processor = self.processor.map_or_else(String::new, |time| {
            format!(", {:>7.1} s of processor", time.as_secs_f64())
        });
        format!("{:>7.1} s{processor}", self.wall.as_secs_f64())
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.wall.as_secs())?;
        if let Some(time) = self.processor {
            write!(f, ", {} s of processor", time.as_secs())?;
        }
        Ok(())
    }
}

/// Time of the processor that children took which this process has waited for, and their children.
fn children() -> Option<Duration> {
    parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// The sum of `cutime` and `cstime`, fields 16 and 17 of `/proc/PID/stat` (proc(5)).
fn parse(stat: &str) -> Option<Duration> {
    // the second field is the program's name, which may hold anything
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks(13)? + ticks(14)?) * 1000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_times_follow_any_process_name() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 150 50 20 0";
        assert_eq!(parse(stat), Some(Duration::from_millis(2000)));
        assert_eq!(parse("7 (a) S 1"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_that_computes_is_counted() {
        let meter = Meter::start();
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh").args(["-c", script]).status();
        assert!(status.unwrap().success());
        assert!(meter.read().processor.unwrap() > Duration::ZERO);
    }
}
