//! `cargo xtask walk`: runs the commands of README.md, docs/cli.md and the tutorials as in a fresh clone.
//!
//! Each page is walked from top to bottom in a fresh copy of the tracked tree, with an empty home and no variables of
//! Polychip's: each fenced `sh` block is given to `bash` as it stands, what one leaves behind the next one finds.
//!
//! Invariants:
//! 1. Nothing is built a second time: `cargo` on PATH is a script that starts what the build made instead, unoptimised, and prints
//!    each replacement (`programs`). An unknown cargo command fails.
//! 2. A block that is not run says why in the page itself, in a comment that a reader does not see (`blocks`), and is printed.
//! 3. What fails is named by its page and line, with all that the block printed.
//! 4. A folder that a page installs a program from has a `Cargo.toml` (`installs`).
//!
//! Start reading at [`run`].

mod blocks;
mod installs;
mod programs;

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use blocks::{Block, Way};

use crate::root::{root, tracked};

/// Pages that are walked by themselves; those in [`TUTORIALS`] are, too.
const PAGES: [&str; 2] = ["README.md", "docs/cli.md"];
const TUTORIALS: &str = "docs/tutorials";

/// No command of a page takes longer: the walk as a whole is meant to take three minutes.
const LONGEST: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only this page
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Use the test build in target/debug, without building
    #[arg(long)]
    built: bool,
    /// Print the blocks and the action for each, without running any
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let pages = match &options.page {
        Some(page) => vec![page.clone()],
        None => pages()?,
    };
    let walks = pages
        .into_iter()
        .map(|page| {
            let text = fs::read_to_string(root().join(&page)).with_context(|| page.display().to_string())?;
            let blocks = blocks::read(&text).with_context(|| page.display().to_string())?;
            installs::check(&text, root()).with_context(|| page.display().to_string())?;
            ensure!(
                !blocks.is_empty(),
                "{}: the page has no `sh` block: there is nothing to walk",
                page.display()
            );
            Ok((page, blocks))
        })
        .collect::<Result<Vec<_>>>()?;
    if options.list {
        for (page, blocks) in &walks {
            for block in blocks {
                eprintln!("{}:{}: {}", page.display(), block.line, block.way);
                eprintln!("{}", block.script());
            }
        }
        return Ok(());
    }
    if !options.built {
        programs::build()?;
    }
    let folder = root().join("target/walk");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("clearing {}", folder.display()))?;
    }
    let bin = programs::lay_out(&folder)?;
    let start = Instant::now();
    let (mut passed, mut left_out) = (0, 0);
    let mut wrong = Vec::new();
    for (page, blocks) in &walks {
        let place = Place::new(&folder, page, &bin)?;
        for block in blocks {
            let name = format!("{}:{}", page.display(), block.line);
            if let Way::LeftOut(why) = &block.way {
                left_out += 1;
                eprintln!("block {name} ... left out: {why}");
                continue;
            }
            let began = Instant::now();
            match place.run(block) {
                Ok(said) => {
                    passed += 1;
                    eprintln!("block {name} ... ok ({:.1} s)", began.elapsed().as_secs_f64());
                    for line in said.lines().filter(|line| line.starts_with(programs::MARK)) {
                        eprintln!("  {line}");
                    }
                }
                Err(error) => {
                    wrong.push(format!("{}: {error:#}", page.display()));
                    // what follows may need what was not made
                    break;
                }
            }
        }
    }
    eprintln!(
        "walked {} pages in {:.0} s",
        walks.len(),
        start.elapsed().as_secs_f64()
    );
    eprintln!(
        "test result: {passed} passed; {} failed; {left_out} ignored",
        wrong.len()
    );
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

/// The pages in the order of walking.
fn pages() -> Result<Vec<PathBuf>> {
    let mut pages: Vec<PathBuf> = PAGES.iter().map(PathBuf::from).collect();
    pages.extend(tracked()?.into_iter().filter(|file| {
        file.starts_with(TUTORIALS) && file.extension().is_some_and(|extension| extension == "md")
    }));
    Ok(pages)
}

/// Where one page is walked.
struct Place {
    tree: PathBuf,
    home: PathBuf,
    /// What `bash` and its programs print.
    log: PathBuf,
    /// The line of a block whose command failed.
    failed: PathBuf,
    path: String,
}

impl Place {
    /// A copy of the tracked tree, and an empty home beside it.
    fn new(folder: &Path, page: &Path, bin: &Path) -> Result<Place> {
        let name = page.with_extension("").display().to_string().replace('/', "-");
        let folder = folder.join(name);
        let (tree, home) = (folder.join("polychip"), folder.join("home"));
        fs::create_dir_all(&home)?;
        for file in tracked()? {
            let to = tree.join(&file);
            fs::create_dir_all(to.parent().unwrap_or(&tree))?;
            fs::copy(root().join(&file), &to).with_context(|| format!("copying {}", file.display()))?;
        }
        let rest = std::env::var("PATH").unwrap_or_default();
        Ok(Place {
            tree,
            home,
            log: folder.join("log"),
            failed: folder.join("failed"),
            path: format!("{}:{rest}", bin.display()),
        })
    }

    /// Runs a block; what it printed.
    fn run(&self, block: &Block) -> Result<String> {
        let log = File::create(&self.log)?;
        let _ = fs::remove_file(&self.failed);
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("{}\n{}", self.trap(), block.script())])
            .current_dir(&self.tree)
            .env_clear()
            .envs(
                ["LANG", "LC_ALL", "TERM", "TMPDIR"]
                    .into_iter()
                    .filter_map(|name| {
                        let value = std::env::var_os(name)?;
                        Some((name, value))
                    }),
            )
            .env("PATH", &self.path)
            .env("HOME", &self.home)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let status = ended(&mut command)?;
        let said = String::from_utf8_lossy(&fs::read(&self.log)?).into_owned();
        if status.is_some_and(|status| status.success()) {
            return Ok(said);
        }
        let line = fs::read_to_string(&self.failed)
            .ok()
            .and_then(|line| line.trim().parse::<usize>().ok())
            // the first line is the trap's, the block's own begin behind its fence
            .map_or(block.line, |line| block.line + line.saturating_sub(1));
        let how = match status {
            Some(status) => format!("failed ({status})"),
            None => format!("still ran after {} s and was ended", LONGEST.as_secs()),
        };
        bail!(
            "line {line}, in the block of line {}: `{}` {how}; it printed:\n{}",
            block.line,
            block.command_at(line),
            said.trim_end()
        )
    }

    /// Ends a block at its first command that fails, and notes the line; on one line, so that the block's own can be told.
    fn trap(&self) -> String {
        format!(
            "set -Eeuo pipefail; trap 'echo $LINENO > {}' ERR",
            programs::quoted(&self.failed)
        )
    }
}

/// Runs a command to its end; nothing where it took too long and was ended with all that it had started.
fn ended(command: &mut Command) -> Result<Option<ExitStatus>> {
    let mut child = command.spawn().context("starting bash")?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > LONGEST {
            let group = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL)?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(folder: &Path) -> Place {
        Place {
            tree: folder.to_owned(),
            home: folder.to_owned(),
            log: folder.join("log"),
            failed: folder.join("failed"),
            path: std::env::var("PATH").unwrap(),
        }
    }

    #[test]
    fn failing_block_is_reported_with_line_and_output() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let page = "# A page\n\n```sh\necho before\ntest -e nowhere \\\n    # here\necho after\n```\n";
        let blocks = blocks::read(page).unwrap();
        let error = format!("{:#}", place.run(&blocks[0]).unwrap_err());
        assert!(error.contains("line 5, in the block of line 3"), "{error}");
        assert!(error.contains("`test -e nowhere"), "{error}");
        assert!(error.contains("before") && !error.contains("after"), "{error}");
    }

    #[test]
    fn block_runs_without_the_users_home_and_settings() {
        let folder = tempfile::tempdir().unwrap();
        let page = "```sh\ntest \"$HOME\" = \"$PWD\"\nenv\n```\n";
        let said = place(folder.path()).run(&blocks::read(page).unwrap()[0]).unwrap();
        assert!(!said.contains("CARGO_MANIFEST_DIR"), "{said}");
    }

    #[test]
    fn every_block_of_a_page_is_accounted_for() {
        for page in pages().unwrap() {
            let text = fs::read_to_string(root().join(&page)).unwrap();
            let blocks = blocks::read(&text).unwrap_or_else(|error| panic!("{}: {error:#}", page.display()));
            assert!(!blocks.is_empty(), "{}", page.display());
        }
    }

    #[test]
    fn pages_install_only_from_folders_with_a_manifest() {
        for page in pages().unwrap() {
            let text = fs::read_to_string(root().join(&page)).unwrap();
            installs::check(&text, root()).unwrap_or_else(|error| panic!("{}: {error:#}", page.display()));
        }
    }
}
