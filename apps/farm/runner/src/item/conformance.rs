//! The conformance suite's verdict on a plugin.
//!
//! The suite is a separate program (`polychip-conform`), sent to the board with the runner: tests depend on
//! everything, and shipped code does not depend on tests.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use polychip_farm_record::{Assignment, Measured};
use serde::Deserialize;

use crate::measuring::not_here;

/// Of the suite's report, what a record holds.
#[derive(Debug, Deserialize)]
struct Report {
    devices: Vec<Device>,
}

#[derive(Debug, Deserialize)]
struct Device {
    name: String,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    case: String,
    outcome: String,
    #[serde(default)]
    detail: Option<String>,
    judged: String,
}

/// Judges the plugins that the item names; without names, all that were sent.
pub(super) fn run(assignment: &Assignment, folder: &Path) -> anyhow::Result<Measured> {
    let Some(program) = &assignment.conform else {
        return Err(not_here(
            "the conformance suite was not sent; name it with --conform polychip-conform",
        ));
    };
    let wanted = |name: &str| {
        let plugin = polychip_name(name);
        assignment.item.plugins.is_empty()
            || assignment
                .item
                .plugins
                .iter()
                .any(|one| Some(one.as_str()) == plugin)
    };
    let libraries: Vec<&str> = assignment
        .plugins
        .iter()
        .map(|plugin| &*plugin.name)
        .filter(|name| wanted(name))
        .collect();
    if libraries.is_empty() {
        return Err(not_here("no library of this plugin was sent to the board"));
    }
    let mut measured = Measured {
        passed: Some(0),
        ..Measured::default()
    };
    for library in libraries {
        let output = Command::new(program)
            .arg(folder.join(library))
            .args(["--json", "-"])
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| program.clone())?;
        // 1: it does not conform, which the report says
        let code = output.status.code();
        anyhow::ensure!(
            matches!(code, Some(0 | 1)),
            "the conformance suite could not judge {library}: it ended with {}",
            output.status
        );
        let report: Report =
            serde_json::from_slice(&output.stdout).context("the conformance suite's report")?;
        add(report, &mut measured);
    }
    Ok(measured)
}

/// `gpu` of `libpolychip_plugin_gpu.so`.
fn polychip_name(file: &str) -> Option<&str> {
    file.split("polychip_plugin_").nth(1)?.split('.').next()
}

fn add(report: Report, measured: &mut Measured) {
    for device in report.devices {
        for row in device.rows {
            if row.outcome == "passed" {
                measured.passed = measured.passed.map(|passed| passed + 1);
            }
            if matches!(&*row.judged, "failure" | "unexpected_pass") {
                let why = row.detail.unwrap_or_else(|| row.judged.replace('_', " "));
                measured
                    .failed
                    .push(format!("{} {}: {why}", device.name, row.case));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_counted() {
        let text = r#"{"plugin":"toy","devices":[{"name":"toy:0","rows":[
            {"case":"ops/Add","group":"ops","outcome":"passed","judged":"good","ms":1},
            {"case":"ops/Sub","group":"ops","outcome":"failed","detail":"3 instead of 4","judged":"failure","ms":1},
            {"case":"ops/Mul","group":"ops","outcome":"refused","detail":"no","judged":"good","ms":1},
            {"case":"ops/Div","group":"ops","outcome":"passed","judged":"unexpected_pass","ms":1}]}]}"#;
        let mut measured = Measured {
            passed: Some(0),
            ..Measured::default()
        };
        add(serde_json::from_str(text).unwrap(), &mut measured);
        assert_eq!(measured.passed, Some(2));
        assert_eq!(
            measured.failed,
            ["toy:0 ops/Sub: 3 instead of 4", "toy:0 ops/Div: unexpected pass"]
        );
        assert_eq!(polychip_name("libpolychip_plugin_gpu.so"), Some("gpu"));
        assert_eq!(polychip_name("other.so"), None);
    }
}
