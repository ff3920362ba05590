//! Programs sent to boards: the runner, the conformance suite, plugins.
//!
//! Invariant: a board gets files built for its processor, or an error names the file. A board's processor is queried
//! only if there is a choice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use polychip_farm::inventory::Member;
use polychip_farm::{Blob, Equipped};

use crate::exit::{bad_input, usage};
use crate::progress::Progress;

/// What is sent to boards whose inventory names nothing else.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Boards")]
pub(crate) struct ProgramArguments {
    /// Runner for boards that configure none; default: `polychip-runner` next to this program. If repeated, each
    /// board gets the runner for its processor
    #[arg(long = "runner", value_name = "FILE")]
    runners: Vec<PathBuf>,
    /// Conformance suite (`polychip-conform`) for boards that configure none; if repeated, each board gets the one
    /// for its processor
    #[arg(long = "conform", value_name = "FILE")]
    conforms: Vec<PathBuf>,
    /// Plugin library for boards that configure none; if repeated, each board gets those for its processor
    #[arg(long = "plugin", value_name = "FILE")]
    plugins: Vec<PathBuf>,
}

impl ProgramArguments {
    /// Reads what is sent to each board.
    pub(crate) fn equipped(&self, members: Vec<Member>) -> anyhow::Result<Vec<Equipped>> {
        let _progress = Progress::of("reading what boards need");
        let mut files = Files::default();
        let runners = match self.runners.is_empty() {
            false => files.all(&self.runners, true)?,
            // boards may all have their own
            true if members.iter().all(|member| member.runner.is_some()) => Vec::new(),
            true => files.all(&[own_runner()?], true)?,
        };
        let conforms = files.all(&self.conforms, true)?;
        let plugins = files.all(&self.plugins, false)?;
        let is_choice = [&runners, &conforms, &plugins]
            .iter()
            .any(|blobs| blobs.iter().any(|blob| blob.machine != blobs[0].machine));
        let systems = systems(&members, is_choice);
        let mut boards = Vec::with_capacity(members.len());
        for (member, system) in members.into_iter().zip(systems) {
            let system = system.as_deref();
            let own = |file: &Option<PathBuf>| file.iter().cloned().collect::<Vec<PathBuf>>();
            let mut runner = files.all(&own(&member.runner), true)?;
            runner.extend(fit(&runners, system));
            let mut conform = files.all(&own(&member.conform), true)?;
            conform.extend(fit(&conforms, system));
            let own_plugins = files.all(&member.plugins, false)?;
            let Some(runner) = runner.into_iter().next() else {
                return Err(usage(format!(
                    "no --runner matches board {}, which is {}",
                    member.place.name,
                    system.unwrap_or("unknown")
                )));
            };
            boards.push(Equipped {
                runner,
                conform: conform.into_iter().next(),
                plugins: if own_plugins.is_empty() {
                    fit(&plugins, system)
                } else {
                    own_plugins
                },
                member,
            });
        }
        Ok(boards)
    }
}

/// Systems and processors of the boards, where they are needed; none of a board that is not reached now: it is reported
/// once its items begin.
fn systems(members: &[Member], is_choice: bool) -> Vec<Option<String>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .map(|member| scope.spawn(|| is_choice.then(|| member.transport.probe().ok()).flatten()))
            .collect();
        let asked = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        asked.map(|said| said.ok().flatten()).collect()
    })
}

/// The files that run on a board; all where its processor is not known.
fn fit(blobs: &[Blob], system: Option<&str>) -> Vec<Blob> {
    let runs = |blob: &&Blob| system.is_none_or(|system| blob.is_foreign_to(system).is_none());
    blobs.iter().filter(runs).cloned().collect()
}

/// Files that were read.
#[derive(Default)]
struct Files(BTreeMap<PathBuf, Blob>);

impl Files {
    fn all(&mut self, paths: &[PathBuf], program: bool) -> anyhow::Result<Vec<Blob>> {
        paths.iter().map(|path| self.one(path, program)).collect()
    }

    fn one(&mut self, path: &Path, program: bool) -> anyhow::Result<Blob> {
        if let Some(blob) = self.0.get(path) {
            return Ok(blob.clone());
        }
        let made = blob(path, program)?;
        self.0.insert(path.to_owned(), made.clone());
        Ok(made)
    }
}

/// Reads a file that boards may need.
pub(crate) fn blob(path: &Path, program: bool) -> anyhow::Result<Blob> {
    Blob::of(path, program).map_err(|error| bad_input(format!("{}: {error}", path.display())))
}

/// The runner beside this program.
fn own_runner() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()
        .map_err(|error| anyhow::anyhow!("the path of this program is unknown: {error}"))?;
    let runner = program.with_file_name(format!("polychip-runner{}", std::env::consts::EXE_SUFFIX));
    if runner.is_file() {
        Ok(runner)
    } else {
        Err(usage(format!(
            "{} does not exist: build it with `cargo build --release -p polychip-runner` (for another processor, with \
             --target) and put it there, or name it with --runner FILE or with `runner` in the inventory",
            runner.display()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn board_gets_the_files_for_its_processor() {
        let of = |name: &str, machine| Blob {
            path: name.into(),
            name: name.into(),
            blake3: name.into(),
            sha256: None,
            bytes: 1,
            program: true,
            machine,
        };
        let blobs = [
            of("here", Some("x86_64")),
            of("arm", Some("aarch64")),
            of("script", None),
        ];
        let names = |system| -> Vec<String> {
            let found = fit(&blobs, system);
            found.into_iter().map(|blob| blob.name).collect()
        };
        assert_eq!(names(Some("Linux aarch64")), ["arm", "script"]);
        assert_eq!(names(Some("Linux x86_64")), ["here", "script"]);
        assert_eq!(names(Some("Linux riscv64")), ["script"]);
        assert_eq!(names(None).len(), 3);
    }
}
