//! Where Linux reports memory pressure: PSI triggers, and events of control groups of both versions.
//!
//! Invariants:
//! 1. A source that the kernel or the permissions do not allow is left out, and the others hold.
//! 2. A source wakes its poller only when there is pressure: nothing is read at intervals.
//!
//! The environment variables are those by which a service manager tells programs what to watch
//! (<https://systemd.io/MEMORY_PRESSURE>). Where they are set, nothing else is watched.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::fs::OFlags;

use super::MemoryPressure;

/// The file, FIFO or socket to watch, and what to write to it first, in base 64.
const WATCH_VARIABLE: &str = "MEMORY_PRESSURE_WATCH";
const WRITE_VARIABLE: &str = "MEMORY_PRESSURE_WRITE";

/// PSI triggers, whose last byte the kernel drops: tasks waited for memory for 200 ms of 2 s, some of them or all at once. The kernel lets
/// unprivileged programs have windows of whole multiples of 2 s; the share is the service manager's default.
const TRIGGERS: [(&str, MemoryPressure); 2] = [
    ("some 200000 2000000\0", MemoryPressure::Moderate),
    ("full 200000 2000000\0", MemoryPressure::Critical),
];
/// Levels of a version 1 group.
const LEVELS: [(&str, MemoryPressure); 2] = [
    ("medium", MemoryPressure::Moderate),
    ("critical", MemoryPressure::Critical),
];

/// Something to poll.
#[derive(Debug)]
pub(super) struct Source {
    /// For messages.
    pub(super) name: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A PSI trigger.
    Trigger(File, MemoryPressure),
    /// The counter of a version 1 group's level.
    Counter {
        counter: OwnedFd,
        /// Open as long as the counter is.
        _levels: File,
        level: MemoryPressure,
    },
    /// `memory.events` of a version 2 group, and its counts when they were read last.
    Events(File, EventCounts),
    /// Whatever can be read means pressure.
    Stream(File),
    Socket(UnixStream),
}

/// Counts of `memory.events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct EventCounts {
    /// The group exceeded `memory.high`, or reached `memory.max`.
    throttled: u64,
    /// No memory could be reclaimed.
    oom: u64,
}

impl EventCounts {
    fn of(text: &str) -> EventCounts {
        let mut counts = EventCounts::default();
        for line in text.lines() {
            let Some((name, count)) = line.split_once(' ') else {
                continue;
            };
            // a line that cannot be read counts nothing
            let count: u64 = count.trim().parse().unwrap_or(0);
            match name {
                "high" | "max" => counts.throttled += count,
                "oom" => counts.oom += count,
                _ => {}
            }
        }
        counts
    }

    /// What happened since `before`.
    fn since(self, before: EventCounts) -> Option<MemoryPressure> {
        if self.oom > before.oom {
            Some(MemoryPressure::Critical)
        } else if self.throttled > before.throttled {
            Some(MemoryPressure::Moderate)
        } else {
            None
        }
    }
}

fn open(path: &Path, writes: bool) -> std::io::Result<File> {
    // a FIFO without a writer opens at once, and no terminal becomes this process's
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).write(writes).custom_flags(flags.bits() as i32);
    options.open(path)
}

impl Source {
    /// Registers a PSI trigger with a pressure file.
    fn trigger(path: &Path, trigger: &[u8], level: MemoryPressure) -> std::io::Result<Source> {
        let mut file = open(path, true)?;
        file.write_all(trigger)?;
        Ok(Source {
            name: path.display().to_string(),
            kind: Kind::Trigger(file, level),
        })
    }

    /// Registers a counter for a level of a version 1 group.
    fn level(folder: &Path, level: &str, means: MemoryPressure) -> std::io::Result<Source> {
        let path = folder.join("memory.pressure_level");
        let file = File::open(&path)?;
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mut control = OpenOptions::new()
            .write(true)
            .open(folder.join("cgroup.event_control"))?;
        let line = format!("{} {} {level}", counter.as_raw_fd(), file.as_raw_fd());
        control.write_all(line.as_bytes())?;
        Ok(Source {
            name: path.display().to_string(),
            kind: Kind::Counter {
                counter,
                _levels: file,
                level: means,
            },
        })
    }

    /// Watches the counts of a version 2 group.
    fn events(path: &Path) -> std::io::Result<Source> {
        let mut file = open(path, false)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(Source {
            name: path.display().to_string(),
            kind: Kind::Events(file, EventCounts::of(&text)),
        })
    }

    /// What a service manager tells this program to watch.
    fn named(path: &Path, write: &[u8]) -> std::io::Result<Source> {
        let kind = std::fs::metadata(path)?.file_type();
        let name = path.display().to_string();
        if kind.is_socket() {
            let mut socket = UnixStream::connect(path)?;
            socket.write_all(write)?;
            socket.set_nonblocking(true)?;
            return Ok(Source {
                name,
                kind: Kind::Socket(socket),
            });
        }
        if kind.is_fifo() {
            // open for writing, too, so that the end of the other writers is no end of the file
            let file = open(path, true)?;
            return Ok(Source {
                name,
                kind: Kind::Stream(file),
            });
        }
        Source::trigger(path, write, MemoryPressure::Critical)
    }

    /// Reports pressure for each byte of a pipe.
    #[cfg(test)]
    pub(super) fn of_pipe(name: &str, pipe: impl Into<OwnedFd>) -> Source {
        let pipe = File::from(pipe.into());
        rustix::io::ioctl_fionbio(&pipe, true).unwrap();
        Source {
            name: name.to_owned(),
            kind: Kind::Stream(pipe),
        }
    }

    /// The descriptor to poll.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Trigger(file, _) | Kind::Events(file, _) | Kind::Stream(file) => file.as_fd(),
            Kind::Counter { counter, .. } => counter.as_fd(),
            Kind::Socket(socket) => socket.as_fd(),
        }
    }

    /// What to poll it for.
    pub(super) fn flags(&self) -> PollFlags {
        match self.kind {
            Kind::Trigger(..) | Kind::Events(..) => PollFlags::PRI,
            Kind::Counter { .. } | Kind::Stream(_) | Kind::Socket(_) => PollFlags::IN,
        }
    }

    /// What it reports, after its descriptor became ready with `found`. An error means that it reports nothing more.
    pub(super) fn take(&mut self, found: PollFlags) -> std::io::Result<Option<MemoryPressure>> {
        let ended = || std::io::Error::other("it reports nothing more");
        match &mut self.kind {
            Kind::Trigger(_, level) => {
                if found.contains(PollFlags::PRI) {
                    Ok(Some(*level))
                } else {
                    Err(ended())
                }
            }
            Kind::Counter { counter, level, .. } => {
                let mut count = [0; 8];
                rustix::io::read(&*counter, &mut count)?;
                Ok(Some(*level))
            }
            Kind::Events(file, seen) => {
                let mut text = String::new();
                file.seek(SeekFrom::Start(0))?;
                file.read_to_string(&mut text)?;
                let counts = EventCounts::of(&text);
                let level = counts.since(*seen);
                *seen = counts;
                Ok(level)
            }
            Kind::Stream(file) => drained(file, ended),
            Kind::Socket(socket) => drained(socket, ended),
        }
    }
}

/// Reads all that is there: what it is does not matter.
fn drained(
    from: &mut impl std::io::Read,
    ended: impl Fn() -> std::io::Error,
) -> std::io::Result<Option<MemoryPressure>> {
    let (mut bytes, mut found) = ([0; 4096], None);
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return found.map(Some).ok_or_else(ended),
            Ok(_) => found = Some(MemoryPressure::Critical),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(found),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The values of the service manager's variables.
#[derive(Debug, Default)]
pub(super) struct Variables {
    watch: Option<PathBuf>,
    write: Option<String>,
}

impl Variables {
    /// Those of this process; none in a program with more privileges than its caller.
    pub(super) fn of_process() -> Variables {
        let read = polychip_host::trusted_variable;
        Variables {
            watch: read(WATCH_VARIABLE).map(PathBuf::from),
            write: read(WRITE_VARIABLE).and_then(|text| text.into_string().ok()),
        }
    }
}

/// All sources that this system allows; `proc` and `groups` are the folders of the kernel's files.
pub(super) fn all(variables: &Variables, proc: &Path, groups: &Path) -> Vec<Source> {
    let mut all = Vec::new();
    let mut add = |path: &Path, source: std::io::Result<Source>| match source {
        Ok(source) => all.push(source),
        Err(error) => tracing::debug!("memory pressure: {} cannot be watched: {error}", path.display()),
    };
    if let Some(path) = &variables.watch {
        // the service manager's word for "do not watch"
        if path != Path::new("/dev/null") {
            let write = variables.write.as_deref().unwrap_or_default();
            let source = match decoded(write) {
                Some(bytes) => Source::named(path, &bytes),
                None => Err(std::io::Error::other(format!("{WRITE_VARIABLE} is not base 64"))),
            };
            add(path, source);
        }
        return all;
    }
    let own = std::fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let path = path.trim_start_matches('/');
        if number == "0" && controllers.is_empty() {
            if let Some(folder) = nearest(groups, path, "memory.pressure") {
                let file = folder.join("memory.pressure");
                for (trigger, level) in TRIGGERS {
                    add(&file, Source::trigger(&file, trigger.as_bytes(), level));
                }
            }
            if let Some(folder) = nearest(groups, path, "memory.events") {
                let file = folder.join("memory.events");
                add(&file, Source::events(&file));
            }
        } else if controllers.split(',').any(|controller| controller == "memory")
            && let Some(folder) = nearest(&groups.join("memory"), path, "memory.pressure_level")
        {
            for (level, means) in LEVELS {
                add(&folder, Source::level(&folder, level, means));
            }
        }
    }
    let file = proc.join("pressure/memory");
    for (trigger, level) in TRIGGERS {
        add(&file, Source::trigger(&file, trigger.as_bytes(), level));
    }
    all
}

/// The folder of a group, or of its nearest parent, that has this file: a container may see the path of its
/// host, of which only the top exists here.
fn nearest(top: &Path, path: &str, file: &str) -> Option<PathBuf> {
    let own = top.join(path);
    let mut folders = own.ancestors().take_while(|folder| folder.starts_with(top));
    folders
        .find(|folder| folder.join(file).exists())
        .map(Path::to_owned)
}

/// Bytes of a text in base 64 (RFC 4648); `None` if it is not such a text.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
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
    fn event_counts_that_rise_mean_pressure() {
        let before = EventCounts::of("low 9\nhigh 1\nmax 2\noom 0\noom_kill 0\n");
        assert_eq!(before, EventCounts { throttled: 3, oom: 0 });
        let after = |text: &str| EventCounts::of(text).since(before);
        assert_eq!(after("low 99\nhigh 1\nmax 2\noom 0\n"), None);
        assert_eq!(after("high 2\nmax 2\noom 0\n"), Some(MemoryPressure::Moderate));
        assert_eq!(after("high 2\nmax 3\noom 1\n"), Some(MemoryPressure::Critical));
        assert_eq!(after("no counts\nhigh x\n"), None);
    }

    #[test]
    fn files_of_both_versions_are_found_and_refused_ones_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let (proc, groups) = (folder.path().join("proc"), folder.path().join("groups"));
        // version 1 needs an event counter that a plain file is not, but takes any line
        write(&proc, "self/cgroup", "4:memory:/m\n3:cpu:/x\n0::/a/b\n");
        write(&groups, "a/memory.pressure", "");
        write(&groups, "a/b/memory.events", "high 1\noom 0\n");
        write(&groups, "memory/m/memory.pressure_level", "");
        write(&groups, "memory/m/cgroup.event_control", "");
        let found = all(&Variables::default(), &proc, &groups);
        let names: Vec<&str> = found
            .iter()
            .map(|source| source.name.rsplit('/').next().unwrap())
            .collect();
        let expected = [
            "memory.pressure_level",
            "memory.pressure_level",
            "memory.pressure",
            "memory.pressure",
            "memory.events",
        ];
        assert_eq!(names, expected);
        let triggers = std::fs::read_to_string(groups.join("a/memory.pressure")).unwrap();
        assert_eq!(triggers, "full 200000 2000000\0");
        let line = std::fs::read_to_string(groups.join("memory/m/cgroup.event_control")).unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words.len(), words[2]), (3, "critical"));
    }

    #[test]
    fn events_file_reports_what_rose_since_it_was_read() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "memory.events", "high 1\nmax 0\noom 0\n");
        let mut source = Source::events(&folder.path().join("memory.events")).unwrap();
        assert_eq!(source.take(PollFlags::PRI).unwrap(), None);
        write(folder.path(), "memory.events", "high 2\nmax 0\noom 0\n");
        assert_eq!(
            source.take(PollFlags::PRI).unwrap(),
            Some(MemoryPressure::Moderate)
        );
        assert_eq!(source.take(PollFlags::PRI).unwrap(), None);
    }

    #[test]
    fn service_managers_fifo_is_watched_alone_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("pressure");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let variables = |watch: &Path, write: Option<&str>| Variables {
            watch: Some(watch.to_owned()),
            write: write.map(str::to_owned),
        };
        let none = Path::new("/nonexistent");
        let mut found = all(&variables(&fifo, None), none, none);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].take(PollFlags::IN).unwrap(), None, "nothing was written");
        std::fs::write(&fifo, "x").unwrap();
        assert_eq!(
            found[0].take(PollFlags::IN).unwrap(),
            Some(MemoryPressure::Critical)
        );
        assert_eq!(found[0].take(PollFlags::IN).unwrap(), None);
        assert!(all(&variables(Path::new("/dev/null"), None), none, none).is_empty());
        assert!(all(&variables(&fifo, Some("?")), none, none).is_empty());
    }

    #[test]
    fn base_64_is_decoded() {
        assert_eq!(
            decoded("c29tZSAyMDAwMDAgMjAwMDAwMA==").unwrap(),
            b"some 200000 2000000"
        );
        assert_eq!(decoded("").unwrap(), b"");
        assert!(decoded("a b").is_none());
    }
}
