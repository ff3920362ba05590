//! One item in its own process.
//!
//! Invariants:
//! 1. Every result of the item is an outcome, written completely.
//! 2. The process ends with its runner: nothing measures without a listener.

mod bench;
mod conformance;
mod described;
mod profile;
mod soak;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use polychip::{ErrorKind, Policy, Precision, Runtime};
use polychip_farm_record::{Assignment, Failure, Job, Measured, Outcome};

use crate::conditions::Conditions;
use crate::measuring::{ItemResult, Measuring, NotHere, PATIENCE, not_here};

/// Does the item that standard input holds.
pub(crate) fn run(outcome: &Path, folder: &Path, sensors: &Path) -> anyhow::Result<()> {
    end_with_runner();
    let assignment: Assignment =
        serde_json::from_reader(std::io::stdin().lock()).context("standard input")?;
    let mut others_millis = None;
    let done = measured(&assignment, folder, sensors, &mut others_millis);
    let answer = ItemResult {
        outcome: match done {
            Ok(measured) => Outcome::Measured(Box::new(measured)),
            Err(error) => readable(of_error(&error), &assignment),
        },
        others_millis,
    };
    let part = outcome.with_extension("part");
    std::fs::write(&part, serde_json::to_vec(&answer)?).with_context(|| part.display().to_string())?;
    std::fs::rename(&part, outcome).with_context(|| outcome.display().to_string())
}

/// The profile database in the folder of a run.
pub(crate) const PROFILE: &str = "profile";

/// Ends this process, and what it started, as soon as the one that started it is gone.
fn end_with_runner() {
    let runner = rustix::process::getppid();
    let watch = move || {
        while rustix::process::getppid() == runner {
            std::thread::sleep(Duration::from_millis(200));
        }
        // a suite that hangs in a driver would hold the device
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
        // no process is left to receive an error
        #[allow(clippy::exit, reason = "no other way ends a run inside a vendor's library")]
        std::process::exit(1);
    };
    // without the thread, the item ends when it is done
    drop(std::thread::Builder::new().name("watch".into()).spawn(watch));
}

fn measured(
    assignment: &Assignment,
    folder: &Path,
    sensors: &Path,
    others: &mut Option<u32>,
) -> anyhow::Result<Measured> {
    let plugins = plugin_folder(assignment, folder)?;
    if assignment.item.job == Job::Conformance {
        return conformance::run(assignment, &plugins);
    }
    let mut builder = Runtime::builder()
        .only_given_folders()
        .profiles(folder.join(PROFILE))
        .measure_rates();
    if !assignment.plugins.is_empty() {
        builder = builder.plugins(&plugins);
    }
    let runtime = builder.build()?;
    check_plugins(assignment, &runtime)?;
    let measuring = Measuring {
        conditions: Conditions::of(&runtime, sensors),
        policy: policy(assignment)?,
        assignment,
        runtime,
    };
    match assignment.item.job {
        Job::Bench => bench::run(measuring, others),
        Job::Profile => profile::run(measuring),
        _ => soak::run(measuring, others),
    }
}

/// A folder with the plugins under the names by which they are found.
fn plugin_folder(assignment: &Assignment, folder: &Path) -> anyhow::Result<PathBuf> {
    let list = serde_json::to_vec(&assignment.plugins)?;
    let place = folder.join("plugins").join(&blake3::hash(&list).to_hex()[..16]);
    std::fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    for plugin in &assignment.plugins {
        let to = place.join(&plugin.name);
        // only the link to the verified file is kept
        if std::fs::read_link(&to).is_ok_and(|target| target == Path::new(&plugin.path)) {
            continue;
        }
        let _ = std::fs::remove_file(&to);
        // a file system without links gets a copy
        let linked = std::os::unix::fs::symlink(&plugin.path, &to);
        linked
            .or_else(|_| std::fs::copy(&plugin.path, &to).map(drop))
            .with_context(|| format!("{} for plugin {}", to.display(), plugin.name))?;
    }
    Ok(place)
}

/// An error where the board lacks a plugin that the item names.
fn check_plugins(assignment: &Assignment, runtime: &Runtime) -> anyhow::Result<()> {
    for name in &assignment.item.plugins {
        let is_there = |device: &polychip::Device| device.name() == name || device.plugin().name == *name;
        if !runtime.devices().iter().any(is_there) {
            let mut words = format!("the board has no device of plugin {name}");
            for refusal in runtime.refusals() {
                words.push_str(&format!("; not used: {refusal}"));
            }
            return Err(not_here(words));
        }
    }
    Ok(())
}

fn policy(assignment: &Assignment) -> anyhow::Result<Policy> {
    let settings = &assignment.item.settings;
    let mut policy = match settings.policy.as_deref() {
        None | Some("latency") => Policy::latency(),
        Some("energy") => Policy::energy(),
        Some("balanced") => Policy::balanced(),
        Some("makespan") => Policy::makespan(),
        Some("throughput") => Policy::throughput(),
        Some(other) => {
            anyhow::bail!(
                "unknown policy {other:?}; expected latency, energy, balanced, makespan or throughput"
            )
        }
    };
    policy = match settings.precision.as_deref() {
        None | Some("exact") => policy.precision(Precision::Exact),
        Some("reduced") => policy.precision(Precision::Reduced),
        Some(other) => anyhow::bail!("unknown precision {other:?}; expected exact or reduced"),
    };
    if let Some(threads) = settings.threads {
        policy = policy.threads(threads);
    }
    if !assignment.item.plugins.is_empty() {
        policy = policy.devices(&assignment.item.plugins);
    }
    Ok(policy.in_flight(1).hang_timeout(PATIENCE))
}

/// An outcome whose reason names the model as people do: on the board, its file is called by its contents.
fn readable(mut outcome: Outcome, assignment: &Assignment) -> Outcome {
    let reason = match &mut outcome {
        Outcome::Failed(failure) => &mut failure.reason,
        Outcome::Refused { reason } | Outcome::Skipped { reason } => reason,
        Outcome::Measured(_) => return outcome,
    };
    if let (Some(path), Some(model)) = (&assignment.model, &assignment.item.model) {
        let name = &model.name;
        *reason = reason.replace(path, name);
        // errors of several layers each begin with the file
        let twice = format!("{name}: {name}: ");
        while reason.contains(&twice) {
            *reason = reason.replace(&twice, &format!("{name}: "));
        }
    }
    outcome
}

/// How an item that met this error ended.
fn of_error(error: &anyhow::Error) -> Outcome {
    let reason = format!("{error:#}");
    let failed = |board| {
        Outcome::Failed(Failure {
            reason: reason.clone(),
            board,
            exit_code: None,
        })
    };
    for cause in error.chain() {
        if cause.is::<NotHere>() {
            return Outcome::Skipped { reason };
        }
        // a full disk, a file system that went away
        if cause.is::<std::io::Error>() {
            return failed(true);
        }
        if let Some(error) = cause.downcast_ref::<polychip::Error>() {
            return match error.kind() {
                ErrorKind::NoDevice => Outcome::Refused { reason },
                ErrorKind::BadPlugin => Outcome::Skipped { reason },
                ErrorKind::DeviceLost | ErrorKind::Timeout | ErrorKind::Io | ErrorKind::BadProfile => {
                    failed(true)
                }
                _ => failed(false),
            };
        }
    }
    failed(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn board_failure_is_distinguished_from_item_failure() {
        let full = anyhow::Error::from(std::io::Error::from_raw_os_error(28)).context("profile");
        let Outcome::Failed(failure) = of_error(&full) else {
            panic!()
        };
        assert!(failure.board && failure.reason.contains("profile"), "{failure:?}");
        assert!(matches!(of_error(&not_here("no gpu")), Outcome::Skipped { reason } if reason == "no gpu"));
        let Outcome::Failed(failure) = of_error(&anyhow::anyhow!("other")) else {
            panic!()
        };
        assert!(!failure.board);
    }

    #[test]
    fn reason_names_the_model_once() {
        let line = r#"{"format":1,"run":"r","place":{"name":"a","transport":"local"},"attempt":1,"model":"/f/blobs/abc",
            "item":{"job":"bench","model":{"name":"net","blake3":"abc","bytes":1}}}"#;
        let assignment: Assignment = serde_json::from_str(line).unwrap();
        let error = anyhow::anyhow!("/f/blobs/abc: truncated")
            .context("/f/blobs/abc")
            .context("cannot load /f/blobs/abc");
        let Outcome::Failed(failure) = readable(of_error(&error), &assignment) else {
            panic!()
        };
        assert_eq!(failure.reason, "cannot load net: truncated");
    }
}
