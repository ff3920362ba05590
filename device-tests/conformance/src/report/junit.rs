//! The report as JUnit XML: a suite per device, a case per case.
//!
//! Refused and skipped cases and known failures appear as skipped, because the format has no other state.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use super::{Outcome, Report};
use crate::verdict::Verdict;

impl Report {
    /// For continuous integration.
    ///
    /// # Errors
    /// Nothing that a report holds.
    pub fn junit(&self) -> anyhow::Result<String> {
        text(self)
    }
}

fn text(report: &Report) -> anyhow::Result<String> {
    let mut junit = Junit::new(format!("polychip conformance of {}", report.plugin));
    junit.set_time(Duration::from_millis(report.ms));
    for device in &report.devices {
        let mut suite = TestSuite::new(device.name.clone());
        for row in &device.rows {
            let status = match (&row.judged, &row.verdict) {
                (Outcome::UnexpectedPass, _) => {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    let known = row.known.as_deref().unwrap_or_default();
                    status.set_message(format!("passes unexpectedly, although listed as {known:?}"));
                    status
                }
                (Outcome::KnownFailure, _) => {
                    let mut status = TestCaseStatus::skipped();
                    let known = row.known.as_deref().unwrap_or_default();
                    status.set_message(format!("known failure: {known}: {}", row.words()));
                    status
                }
                (_, Verdict::Passed) => TestCaseStatus::success(),
                (_, Verdict::Failed(_)) => {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    status.set_message(row.words());
                    status
                }
                (_, verdict) => {
                    let mut status = TestCaseStatus::skipped();
                    status.set_message(format!("{}: {}", verdict.word(), verdict.detail()));
                    status
                }
            };
            let mut case = TestCase::new(row.case.clone(), status);
            case.set_classname(format!("{}.{}", device.name, row.group));
            case.set_time(Duration::from_millis(row.ms));
            suite.add_test_case(case);
        }
        junit.add_test_suite(suite);
    }
    Ok(junit.to_string()?)
}
