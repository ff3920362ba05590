//! The farm's folder on a board: private, or refused.
//!
//! Other users of a board may write into its temporary folder too. What they put there must neither be executed nor
//! overwritten, so each folder on the way is examined from the root down: once a folder belongs to this user or to
//! root, and only they may change it, no other user can replace what lies in it.
//!
//! Invariants:
//! 1. The folder belongs to this user and has mode 0700. It and the folders in it are no symbolic links.
//! 2. Every folder above it belongs to this user or to root (on Android, also to its own system users), and others may
//!    write into it only if it is sticky.
//! 3. Nothing is made in a folder that was not examined before.

use crate::transport::quoted::quoted;
use crate::transport::{Prepared, TransportError};

/// Exit code of [`script`] for a folder that others can change.
pub(super) const UNSAFE: i32 = 77;

/// Reads the line of `ls -ldn` for `$p`: its mode, owner and group.
const LOOK: &str = "look() { m=$1; u=$3; g=$4; }; \
    see() { l=$(ls -ldn \"$p\") || exit 1; look $l; case $u in [0-9]*) ;; *) echo \"ls -ldn $p: $l\" >&2; exit 1;; esac; }; ";

/// What makes the folder, examines it, and prints its absolute path, `uname -sm` and the time. A folder that begins
/// with `~/` is in the user's home, or in a folder of this user below `/tmp` where the home cannot be written.
///
/// The script is one line without an exclamation mark, for boards whose login shell is no POSIX shell.
pub(super) fn script(folder: &str, android: bool) -> String {
    // `/data` and `/data/local/tmp` of Android belong to its users `system` and `shell`; elsewhere these numbers are
    // anybody's
    let trusted = if android {
        "if [ -d /system/app ]; then s=1000; t=2000; fi; "
    } else {
        ""
    };
    let parts = [
        &*format!("f={}; me=$(id -u) || exit 1; set -f; ", quoted(folder)),
        &format!("no() {{ printf '%s\\n' \"$*\" >&2; exit {UNSAFE}; }}; "),
        LOOK,
        "case $f in '~/'*) if [ -d \"$HOME\" ] && [ -w \"$HOME\" ]; then f=$HOME/${f#??}; \
         else f=/tmp/polychip-farm-$me/${f##*/}; fi;; esac; ",
        "s=0; t=0; ",
        trusted,
        "at=; rest=${f#/}; links=0; ",
        "while [ -n \"$rest\" ]; do ",
        "case $rest in */*) c=${rest%%/*}; rest=${rest#*/};; *) c=$rest; rest=;; esac; ",
        "case $c in '') continue;; .|..) no \"$f: write it without . and ..\";; esac; ",
        "p=$at/$c; e=; [ -h \"$p\" ] || [ -e \"$p\" ] || e=$(mkdir \"$p\" 2>&1); ",
        // made by somebody else in between: it is examined like any other
        "[ -h \"$p\" ] || [ -e \"$p\" ] || { printf '%s\\n' \"$e\" >&2; exit 1; }; ",
        "see; ",
        "case $u in 0|$me|$s|$t) ;; *) no \"$p belongs to user $u\";; esac; ",
        "case $m in ",
        "l*) [ -n \"$rest\" ] || no \"$p is a symbolic link\"; ",
        "links=$((links+1)); [ $links -lt 20 ] || no \"$f: too many symbolic links\"; ",
        "d=$(cd -P \"$p\" && pwd -P) || exit 1; rest=${d#/}/$rest; at=; continue;; ",
        "d*) ;; *) no \"$p is not a folder\";; esac; ",
        // Android's system users are alone in the groups of their numbers; elsewhere equal numbers say nothing of a
        // group's members
        "by=; case $m in ????????w*) by='every user';; ?????w*+) by=\"an access list\";; \
         ?????w*) { [ $s -ne 0 ] && [ \"$g\" = \"$u\" ]; } || by=\"group $g\";; esac; ",
        "case $m in ?????????[tT]*) [ -z \"$rest\" ] || by=;; esac; ",
        "[ -z \"$by\" ] || no \"$p can be changed by $by\"; ",
        "at=$p; done; ",
        "f=$at; for p in \"$f\" \"$f/blobs\" \"$f/runs\"; do ",
        "[ -h \"$p\" ] || [ -e \"$p\" ] || mkdir \"$p\" || exit 1; see; ",
        "case $m in d*) ;; *) no \"$p is not a folder\";; esac; ",
        "[ \"$u\" = \"$me\" ] || no \"$p belongs to user $u\"; ",
        "case $m in ????????w*|?????w*) no \"$p can be changed by others\";; esac; ",
        "chmod 700 \"$p\" || exit 1; done; ",
        "printf '%s\\n' \"$f\"; uname -sm; date +%s",
    ];
    parts.concat()
}

/// Reads what [`script`] prints.
pub(super) fn prepared(said: &str) -> Result<Prepared, TransportError> {
    let mut lines = said.lines().map(str::trim_end);
    match (lines.next(), lines.next()) {
        (Some(folder), Some(system)) if folder.starts_with('/') => Ok(Prepared {
            folder: folder.to_owned(),
            system: system.trim().to_owned(),
            clock_s: lines.next().and_then(|time| time.trim().parse().ok()),
        }),
        _ => Err(TransportError::Failed {
            what: "preparing the farm's folder".to_owned(),
            code: 0,
            words: format!("unexpected output {said:?}"),
        }),
    }
}
