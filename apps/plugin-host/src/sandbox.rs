//! What the plugin's process gives up before it opens the library.
//!
//! Invariants:
//! 1. Each restriction holds for all later threads and programs of this process, and cannot be taken back.
//! 2. A restriction that the kernel does not offer is reported, and the plugin is loaded without it.
//!
//! A list of permitted system calls would fail here, because drivers use calls that their vendors do not document. The
//! filter therefore lists what no driver of a processor, GPU or NPU needs.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use polychip_isolation::Confinement;

/// The newest version of Landlock whose rights are restricted here. Later ones restrict connections to sockets with
/// a path, which drivers use to reach their services.
const LANDLOCK: ABI = ABI::V7;

/// System calls that change the machine, other processes or the kernel.
#[cfg(target_pointer_width = "64")]
const DENIED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Families of sockets that reach other machines.
#[cfg(target_pointer_width = "64")]
const NETWORKS: &[i32] = &[
    libc::AF_BLUETOOTH,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_PACKET,
    libc::AF_VSOCK,
];

/// Confines this process. Call it after [`polychip_isolation::restrict`], while the process has one thread.
pub(crate) fn enter() -> Confinement {
    enter_with(writable())
}

/// As [`enter`], with writes to `folders` only.
fn enter_with(folders: Vec<PathBuf>) -> Confinement {
    let mut confinement = Confinement::default();
    let mut note = |result: Result<String, String>| match result {
        Ok(held) => confinement.held.push(held),
        Err(reason) => confinement.missing.push(reason),
    };
    note(restrict_files(folders).map_err(|reason| format!("landlock: {reason}")));
    note(restrict_calls().map_err(|reason| format!("seccomp: {reason}")));
    confinement
}

/// Restricts writes to `folders`, TCP, signals and abstract sockets.
fn restrict_files(folders: Vec<PathBuf>) -> Result<String, String> {
    let words = |error: landlock::RulesetError| error.to_string();
    let access = AccessFs::from_write(LANDLOCK);
    let status = Ruleset::default()
        .handle_access(access)
        .and_then(|rules| rules.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(|rules| rules.scope(Scope::from_all(LANDLOCK)))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(folders, access)))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(words)?;
    let abi = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as i32,
        LandlockStatus::NotEnabled => return Err("disabled when the kernel was started".to_owned()),
        _ => return Err("the kernel lacks it (Linux 5.13 has it)".to_owned()),
    };
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(format!("landlock (version {abi})")),
        RulesetStatus::PartiallyEnforced => Ok(format!("landlock (version {abi}, in part)")),
        RulesetStatus::NotEnforced => Err("the kernel enforced no rule".to_owned()),
    }
}

/// Folders in which drivers write: devices and their settings, this process's own entries, temporary files and caches
/// of compiled kernels.
fn writable() -> Vec<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = set("HOME");
    let beneath = |name: &str| home.as_deref().map(|home| home.join(name));
    let fixed = ["/dev", "/sys/devices", "/proc/self", "/tmp", "/var/tmp"];
    let mut folders: Vec<PathBuf> = fixed.iter().map(PathBuf::from).collect();
    folders.push(std::env::temp_dir());
    let named = [
        set("XDG_RUNTIME_DIR"),
        set("XDG_CACHE_HOME").or_else(|| beneath(".cache")),
        // NVIDIA's cache of compiled kernels
        beneath(".nv"),
    ];
    folders.extend(named.into_iter().flatten());
    // a variable that names the root would permit everything
    folders.retain(|folder| folder != Path::new("/"));
    folders
}

/// Lets the system calls of [`DENIED`], and sockets of [`NETWORKS`], fail.
#[cfg(target_pointer_width = "64")]
fn restrict_calls() -> Result<String, String> {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule,
    };
    let words = |error: seccompiler::BackendError| error.to_string();
    let architecture = std::env::consts::ARCH.try_into().map_err(words)?;
    let of_family = |family: &i32| {
        let same = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *family as u64)?;
        SeccompRule::new(vec![same])
    };
    let sockets = NETWORKS
        .iter()
        .map(of_family)
        .collect::<Result<Vec<_>, _>>()
        .map_err(words)?;
    let mut rules: std::collections::BTreeMap<i64, Vec<SeccompRule>> =
        DENIED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, sockets);
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, architecture).map_err(words)?;
    let program: BpfProgram = filter.try_into().map_err(words)?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())?;
    Ok(format!("seccomp ({} calls and the network denied)", DENIED.len()))
}

#[cfg(not(target_pointer_width = "64"))]
fn restrict_calls() -> Result<String, String> {
    Err("not supported on processors of 32 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::path::PathBuf;
    use std::process::Command;
    use std::{env, fs, io};

    /// The folder that the probe tries to change.
    const FOLDER: &str = "POLYCHIP_TEST_SANDBOX_FOLDER";
    /// Set if the probe is to enter the sandbox.
    const CONFINED: &str = "POLYCHIP_TEST_SANDBOX_ENTER";

    fn said(answer: &str) {
        writeln!(io::stdout(), "probe {answer}").expect("the other test reads");
    }

    /// Prints what this process may do. A sandbox cannot be left, so the probe has a process of its own.
    #[test]
    #[ignore = "started by the other tests"]
    fn probe() {
        let folder = PathBuf::from(env::var_os(FOLDER).expect("the other tests start this"));
        if env::var_os(CONFINED).is_some() {
            let confinement = super::enter_with(vec!["/dev".into(), folder.join("temporary")]);
            said(&format!("missing={}", confinement.missing.len()));
        }
        let may = |name: &str, result: io::Result<()>| {
            said(&format!(
                "{name}={}",
                result.map_or_else(|error| error.kind().to_string(), |()| "yes".to_owned())
            ));
        };
        let temporary = folder.join("temporary/file");
        may("read", fs::read(folder.join("file")).map(drop));
        may("write", fs::write(folder.join("file"), "changed"));
        may("create", fs::write(folder.join("other"), "new"));
        may("remove", fs::remove_file(folder.join("file")));
        may("temporary", fs::write(&temporary, "new"));
        may("device", fs::write("/dev/null", "text"));
        may("network", TcpListener::bind("127.0.0.1:0").map(drop));
        let run = |program: &str, arguments: &[&str]| {
            let status = Command::new(program)
                .args(arguments)
                .stderr(std::process::Stdio::null())
                .status()?;
            if status.success() {
                Ok(())
            } else {
                Err(io::ErrorKind::PermissionDenied.into())
            }
        };
        may("program", run("true", &[]));
        may(
            "signal",
            run(
                "sh",
                &["-c", &format!("kill -0 {}", std::os::unix::process::parent_id())],
            ),
        );
        may("namespace", run("unshare", &["--user", "true"]));
    }

    fn probed(confined: bool) -> BTreeMap<String, String> {
        let this = env::current_exe().expect("a path");
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("temporary")).expect("a folder");
        fs::write(folder.path().join("file"), "text").expect("a file");
        let mut probe = Command::new(&this);
        probe.args(["--ignored", "--exact", "sandbox::tests::probe", "--nocapture"]);
        probe.env(FOLDER, folder.path()).env_remove(CONFINED);
        if confined {
            probe.env(CONFINED, "1");
        }
        let output = probe.output().expect("the probe starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let answers = text
            .lines()
            .filter_map(|line| line.strip_prefix("probe ")?.split_once('='));
        answers
            .map(|(name, answer)| (name.to_owned(), answer.to_owned()))
            .collect()
    }

    #[test]
    fn an_unconfined_process_may_do_what_the_probe_tries() {
        let answers = probed(false);
        for name in [
            "read",
            "write",
            "create",
            "remove",
            "temporary",
            "device",
            "network",
            "program",
            "signal",
        ] {
            assert_eq!(answers[name], "yes", "{name}: {answers:?}");
        }
    }

    #[test]
    fn the_sandbox_permits_devices_and_temporary_files_only() {
        let answers = probed(true);
        if answers["missing"] != "0" {
            eprintln!("skipped: the kernel lacks Landlock or seccomp");
            return;
        }
        for name in ["read", "temporary", "device", "program"] {
            assert_eq!(answers[name], "yes", "{name}: {answers:?}");
        }
        for name in ["write", "create", "remove", "network", "signal", "namespace"] {
            assert_eq!(
                answers[name],
                io::ErrorKind::PermissionDenied.to_string(),
                "{name}: {answers:?}"
            );
        }
    }
}
