//! The limit of the memory of a runtime's sessions: what the app sets, or what the system allows.
//!
//! Invariant: a limit that cannot be read is unknown, which is never taken for zero.

use std::fmt;
use std::path::{Path, PathBuf};

/// From here on a version 1 control group states "no limit": the largest multiple of a page.
const UNLIMITED: u64 = 1 << 62;

/// A limit in bytes, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum MemoryLimit {
    /// Neither the app nor the system limits the memory, or its limit cannot be read.
    #[default]
    Unknown,
    /// The app's limit.
    Set(u64),
    /// The lowest limit of the process's control group and its parents, with the file that states it.
    ControlGroup(u64, PathBuf),
}

impl MemoryLimit {
    /// The limit in bytes.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self {
            MemoryLimit::Unknown => None,
            // the largest number means no limit
            MemoryLimit::Set(bytes) => Some(*bytes).filter(|bytes| *bytes < u64::MAX),
            MemoryLimit::ControlGroup(bytes, _) => Some(*bytes),
        }
    }

    /// The limit of the process's control group. Linux and Android only.
    pub(crate) fn of_system() -> MemoryLimit {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        limit_of(&groups, Path::new("/sys/fs/cgroup"))
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryLimit::Unknown => f.write_str("none"),
            MemoryLimit::Set(_) => f.write_str("memory-limit"),
            MemoryLimit::ControlGroup(_, file) => write!(f, "{}", file.display()),
        }
    }
}

/// The lowest limit of the groups that `/proc/self/cgroup` lists, and of their parents.
fn limit_of(groups: &str, root: &Path) -> MemoryLimit {
    let mut lowest: Option<(u64, PathBuf)> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (top, name) = if number == "0" && controllers.is_empty() {
            (root.to_owned(), "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            continue;
        };
        // a container may see the path of its host, of which only the top exists here
        let own = top.join(path.trim_start_matches('/'));
        let all = own.ancestors().take_while(|folder| folder.starts_with(&top));
        for folder in all {
            let file = folder.join(name);
            // "max" is no number
            let stated = std::fs::read_to_string(&file).ok();
            let bytes = stated.and_then(|text| text.trim().parse::<u64>().ok());
            if let Some(bytes) = bytes.filter(|bytes| *bytes < UNLIMITED)
                && lowest.as_ref().is_none_or(|(least, _)| bytes < *least)
            {
                lowest = Some((bytes, file));
            }
        }
    }
    lowest.map_or(MemoryLimit::Unknown, |(bytes, file)| {
        MemoryLimit::ControlGroup(bytes, file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let file = root.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    #[test]
    fn lowest_limit_of_group_and_parents_holds() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "a/memory.max", "300\n");
        write(root, "a/b/memory.max", "max\n");
        write(root, "a/b/c/memory.max", "500\n");
        let found = limit_of("0::/a/b/c\n", root);
        assert_eq!(found, MemoryLimit::ControlGroup(300, root.join("a/memory.max")));
        // a group of another tree, and a path that is not visible
        assert_eq!(limit_of("0::/x/y\n", root), MemoryLimit::Unknown);
        write(root, "memory.max", "700");
        assert_eq!(limit_of("0::/x/y\n", root).bytes(), Some(700));
    }

    #[test]
    fn version_1_and_unreadable_limits_are_understood() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "memory/memory.limit_in_bytes", "9223372036854771712");
        let groups = "4:cpu,cpuacct:/d\n3:memory:/d\n0::/\n";
        assert_eq!(limit_of(groups, root), MemoryLimit::Unknown);
        write(root, "memory/d/memory.limit_in_bytes", "4096");
        assert_eq!(limit_of(groups, root).bytes(), Some(4096));
        assert_eq!(limit_of("no group", root).bytes(), None);
        write(root, "memory/d/memory.limit_in_bytes", "");
        assert_eq!(limit_of(groups, root).bytes(), None);
    }

    #[test]
    fn largest_number_is_no_limit() {
        assert_eq!(MemoryLimit::Set(u64::MAX).bytes(), None);
        assert_eq!(MemoryLimit::Set(0).bytes(), Some(0));
    }
}
