//! The processors on which the library's CPU device computes, from configuration `openvino.cores`.
//!
//! A run with one thread computes in the thread that calls the library; that thread is pinned to
//! the processors during the call. The library's own threads are not pinned.

use polychip_sdk::{Error, Result};

/// Processors by number; none named: any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cores(Vec<usize>);

impl Cores {
    /// Parses a list such as `0,2-3`.
    ///
    /// # Errors
    /// The text is not such a list.
    pub(crate) fn read(text: &str) -> Result<Cores> {
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|cpu| *cpu < MOST);
        let mut cpus = Vec::new();
        for piece in text.split(',') {
            let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
            match number(first).zip(number(last)) {
                Some((first, last)) if first <= last => cpus.extend(first..=last),
                _ => {
                    let what = format!("configuration cores is '{text}', not a list such as 0,2-3");
                    return Err(Error::bad_argument(what));
                }
            }
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Cores(cpus))
    }

    /// The same, once it was seen that the system keeps a thread to them.
    ///
    /// # Errors
    /// It does not: there is no such processor, or this process may not use it.
    pub(crate) fn tried(self) -> Result<Cores> {
        if self.0.is_empty() || self.keep().is_some() {
            Ok(self)
        } else {
            Err(Error::bad_argument(format!(
                "configuration cores is {:?}: the system keeps no thread to these processors",
                self.0
            )))
        }
    }

    /// For the device's identity: how many, and which where that was said.
    pub(crate) fn described(&self, all: usize) -> String {
        if self.0.is_empty() {
            all.to_string()
        } else {
            let list: Vec<String> = self.0.iter().map(ToString::to_string).collect();
            format!("{}@{}", list.len(), list.join(","))
        }
    }

    /// Keeps this thread to them until what is returned is dropped; a refusal of the system leaves it where it is.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn keep(&self) -> Option<AffinityGuard> {
        if self.0.is_empty() {
            return None;
        }
        let before = sched_getaffinity(None).ok()?;
        let mut set = CpuSet::new();
        self.0.iter().for_each(|cpu| set.set(*cpu));
        sched_setaffinity(None, &set).ok()?;
        Some(AffinityGuard(before))
    }

    /// Only Linux keeps threads to processors by their number.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn keep(&self) -> Option<AffinityGuard> {
        None
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Processors that the system's own set holds.
const MOST: usize = 1024;

/// Restores a thread's previous affinity on drop.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) struct AffinityGuard(CpuSet);

/// Restores a thread's previous affinity on drop.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) struct AffinityGuard(());

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Drop for AffinityGuard {
    fn drop(&mut self) {
        // if refused, the thread stays pinned, which costs speed but not correctness
        let _ = sched_setaffinity(None, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_and_invalid_entries_named() {
        assert_eq!(Cores::read("3,0-1, 1").unwrap(), Cores(vec![0, 1, 3]));
        assert_eq!(Cores::read("3,0-1").unwrap().described(8), "3@0,1,3");
        assert_eq!(Cores::default().described(8), "8");
        assert!(
            Cores(vec![MOST - 1]).tried().is_err(),
            "no machine of 1,024 processors"
        );
        for wrong in ["", "a", "2-1", "0,,1", "5000", "-1"] {
            let error = Cores::read(wrong).unwrap_err();
            assert!(error.to_string().contains(&format!("'{wrong}'")), "{error}");
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn thread_affinity_is_set_and_restored() {
        let before = sched_getaffinity(None).unwrap();
        let first = (0..MOST).find(|cpu| before.is_set(*cpu)).unwrap();
        let kept = Cores(vec![first]).keep().unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        drop(kept);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
