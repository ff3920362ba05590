//! The text report: a table of groups, op coverage, and each failure with its message.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::{Table, presets};

use super::{DeviceReport, Outcome, Report};
use crate::child::FoundDevice;
use crate::groups::GROUPS;
use crate::verdict::Verdict;

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        text(self)
    }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for device in &report.devices {
        one(report, device, &mut text);
    }
    let count = report.count();
    let verdict = if report.conforms() {
        "conforms"
    } else {
        "does not conform"
    };
    let _ = writeln!(
        text,
        "{} {verdict}: {} passed, {} refused, {} skipped, {} failed in {:.1} s",
        report.plugin,
        count.passed,
        count.refused,
        count.skipped,
        count.failed,
        report.ms as f64 / 1000.0
    );
    text
}

/// What a device states about itself, without empty fields.
fn described(device: &FoundDevice) -> String {
    let mut words = Vec::new();
    for (before, word) in [
        ("", &device.name),
        ("by ", &device.vendor),
        ("driver ", &device.driver),
    ] {
        let word = word.trim();
        if !word.is_empty() {
            words.push(format!("{before}{word}"));
        }
    }
    if device.emulated {
        words.push("emulated".to_owned());
    }
    words.join(", ")
}

fn one(report: &Report, device: &DeviceReport, text: &mut String) {
    let _ = writeln!(
        text,
        "{} ({}), plugin {} build {}\n",
        device.name,
        described(&device.device),
        report.version,
        report.build_id
    );
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["group", "passed", "refused", "skipped", "failed", "asks"]);
    let groups = device.groups();
    for (group, asks) in GROUPS {
        if let Some(count) = groups.get(group) {
            table.add_row([
                (*group).to_owned(),
                count.passed.to_string(),
                count.refused.to_string(),
                count.skipped.to_string(),
                count.failed.to_string(),
                (*asks).to_owned(),
            ]);
        }
    }
    let _ = writeln!(text, "{table}\n");
    coverage(device, text);
    for row in &device.rows {
        match row.judged {
            Outcome::Good => {}
            Outcome::Failure => {
                let _ = writeln!(text, "FAILED {}: {}", row.case, row.words());
            }
            Outcome::KnownFailure => {
                let known = row.known.as_deref().unwrap_or_default();
                let _ = writeln!(text, "known  {}: {known}: {}", row.case, row.words());
            }
            Outcome::UnexpectedPass => {
                let known = row.known.as_deref().unwrap_or_default();
                let _ = writeln!(
                    text,
                    "FAILED {}: passes unexpectedly, although listed as {known:?}",
                    row.case
                );
            }
        }
    }
    text.push('\n');
}

/// Ops by how much of them passed.
fn coverage(device: &DeviceReport, text: &mut String) {
    let ops = device.ops();
    if ops.is_empty() {
        return;
    }
    let (mut whole, mut part, mut none) = (Vec::new(), Vec::new(), Vec::new());
    for (op, count) in &ops {
        if count.passed == count.all() {
            whole.push((*op).to_owned());
        } else if count.passed > 0 {
            part.push(format!("{op} {}/{}", count.passed, count.all()));
        } else {
            none.push((*op).to_owned());
        }
    }
    for (words, list) in [
        ("every case passed", whole),
        ("some cases passed", part),
        ("no case passed", none),
    ] {
        if !list.is_empty() {
            let _ = writeln!(
                text,
                "ops, {words} ({} of {}): {}",
                list.len(),
                ops.len(),
                list.join(", ")
            );
        }
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &device.rows {
        if let Verdict::Refused(words) = &row.verdict {
            *reasons
                .entry(words.split(':').next().unwrap_or_default())
                .or_default() += 1;
        }
    }
    if !reasons.is_empty() {
        let list: Vec<String> = reasons
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        let _ = writeln!(text, "refused, by reason: {}", list.join(", "));
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_described_without_empty_fields() {
        let mut device = FoundDevice {
            name: "npu".into(),
            vendor: String::new(),
            soc: String::new(),
            driver: " ".into(),
            emulated: true,
        };
        assert_eq!(described(&device), "npu, emulated");
        device.vendor = "us".into();
        device.driver = "1.2".into();
        device.emulated = false;
        assert_eq!(described(&device), "npu, by us, driver 1.2");
    }
}
