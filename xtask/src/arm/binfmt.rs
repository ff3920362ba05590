//! Runs aarch64 programs that tests start: the kernel passes them to the emulator if configured; otherwise this
//! command registers it in its own namespace.
//!
//! Invariant: nothing is registered outside that namespace, so the machine is unchanged.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::build::{EMULATOR, LIBRARIES, LINKER};

/// Becomes the shell's script `$1`, with the further arguments, in a user namespace. Root's has all users of this one: an
/// SSH server leaves connections to a user of its own, which a namespace of root alone does not have. Only a process
/// outside may say so many, and one does as soon as there is a namespace to say them of.
const ENTER: &str = r#"
script=$1; shift
[ "$(id -u)" = 0 ] || exec unshare --user --map-root-user --mount sh -c "$script" "$@"
outside=$(readlink /proc/$$/ns/user)
same() { awk '{ print $1, $1, $3 }' /proc/self/"$1"; }
users=$(same uid_map); groups=$(same gid_map)
( (
    while [ "$(readlink /proc/$$/ns/user)" = "$outside" ]; do sleep 0.01; done
    echo "$users" > /proc/$$/uid_map && echo "$groups" > /proc/$$/gid_map
) & )
wait='tries=0; until read -r _ < /proc/self/gid_map; do
    tries=$((tries + 1)); [ $tries -lt 1000 ] || exit 1; sleep 0.01
done'
exec unshare --user --mount sh -c "$wait; exec sh -c \"\$0\" \"\$@\"" "$script" "$@"
"#;

/// Registers the emulator for programs of aarch64 in a user namespace (Linux 6.7 and later have tables of their own there),
/// then becomes the program that is given. A table's line is `:name:M:offset:magic:mask:interpreter:flags`; magic and mask are
/// those of an ELF header of 64 bits, little-endian, of a program (2 or 3) for machine 183; `F` opens the emulator now.
const REGISTER: &str = r#"
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc &&
printf '%s' ':polychip-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:'"$0"':F' \
  > /proc/sys/fs/binfmt_misc/register &&
exec "$@"
"#;

/// Who starts programs of aarch64 that tests start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Starts {
    /// The kernel was told how to (Debian: qemu-user-binfmt).
    Kernel,
    /// A namespace of ours tells it.
    Namespace,
    /// Neither.
    Nothing,
}

impl Starts {
    /// What this machine can do, tried with a program of aarch64.
    pub(super) fn find(program: &Path) -> Starts {
        let works = |mut command: Command| {
            command
                .env("QEMU_LD_PREFIX", LIBRARIES)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let mut directly = Command::new(program);
        directly.arg("features");
        if works(directly) {
            return Starts::Kernel;
        }
        let mut inside = in_namespace();
        inside.arg(program).arg("features");
        if works(inside) {
            return Starts::Namespace;
        }
        Starts::Nothing
    }

    /// The command that starts a program of aarch64 on the emulator; who runs it is to say which processor.
    pub(super) fn command(self, program: &Path) -> Command {
        let mut command = match self {
            Starts::Namespace => in_namespace(),
            Starts::Kernel | Starts::Nothing => Command::new("env"),
        };
        command.arg(EMULATOR).arg(program);
        command
    }
}

/// A command that becomes its further arguments, in a namespace with the emulator registered.
fn in_namespace() -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", ENTER, "enter", REGISTER])
        .arg(which(EMULATOR));
    command
}

/// The file of a program that is found by its name.
fn which(name: &str) -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| name.into())
}

/// A folder of what tests start by name, made anew: there `cc` and its like make programs and libraries for aarch64, which
/// tests start and load, and `uname` names the processor that is emulated. A compiler that is not installed says so, since
/// this machine's own would make what cannot be loaded.
pub(super) fn path(target: &Path) -> Result<PathBuf> {
    let folder = target.join("path");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let write = |name: &str, line: String| {
        let file = folder.join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{line}\n"))
            .and_then(|()| std::fs::set_permissions(&file, Permissions::from_mode(0o755)))
            .with_context(|| file.display().to_string())
    };
    for (name, theirs, options) in COMPILERS {
        let found = which(theirs);
        let line = if found.is_file() {
            format!("exec '{}' {options} \"$@\"", found.display())
        } else {
            format!("echo '{theirs} is not installed' >&2\nexit 127")
        };
        write(name, line)?;
    }
    let machine = std::env::consts::ARCH;
    let uname = which("uname");
    write(
        "uname",
        format!("'{}' \"$@\" | sed s/{machine}/aarch64/", uname.display()),
    )?;
    Ok(folder)
}

/// Compilers that tests start, what they are for aarch64, and with which options.
const COMPILERS: [(&str, &str, &str); 5] = [
    ("cc", LINKER, ""),
    ("c++", "aarch64-linux-gnu-g++", ""),
    ("clang", "clang", "--target=aarch64-linux-gnu"),
    ("clang++", "clang++", "--target=aarch64-linux-gnu"),
    ("nm", "aarch64-linux-gnu-nm", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_cross_compiler_is_reported() {
        let target = tempfile::tempdir().unwrap();
        let folder = path(target.path()).unwrap();
        for (name, theirs, _) in COMPILERS {
            let output = Command::new(folder.join(name)).arg("--version").output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_missing = !output.status.success() && said.contains("is not installed");
            assert_eq!(is_missing, !which(theirs).is_file(), "{name}: {said}");
        }
        let uname = Command::new(folder.join("uname")).arg("-m").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&uname.stdout), "aarch64\n");
        // again, over what is there
        assert_eq!(path(target.path()).unwrap(), folder);
    }

    #[test]
    fn a_namespace_has_the_users_of_this_one() {
        if !which(EMULATOR).is_file() {
            eprintln!("skipped, needs aarch64: there is no {EMULATOR} to register");
            return;
        }
        let mut command = in_namespace();
        command.args(["sh", "-c", "id -u; cat /proc/self/uid_map"]);
        let output = command.output().unwrap();
        if !output.status.success() {
            // before Linux 6.7, or none is allowed
            let said = String::from_utf8_lossy(&output.stderr);
            return polychip_test_requirements::absent(
                polychip_test_requirements::Need::Namespaces,
                said.trim(),
            );
        }
        let inside = String::from_utf8(output.stdout).unwrap();
        let (user, users) = inside.split_once('\n').unwrap();
        assert_eq!(user, "0");
        let outside = Command::new("id").arg("-u").output().unwrap().stdout;
        let count = |map: &str| -> u64 {
            let lines = map.lines().map(|line| line.split_whitespace().nth(2).unwrap());
            lines.map(|count| count.parse::<u64>().unwrap()).sum()
        };
        let all = count(&std::fs::read_to_string("/proc/self/uid_map").unwrap());
        let expected = if outside == b"0\n" { all } else { 1 };
        assert_eq!(count(users), expected, "{users}");
    }

    #[test]
    fn missing_program_is_not_started() {
        let missing = Path::new("/no/such/program");
        assert_eq!(Starts::find(missing), Starts::Nothing);
    }
}
