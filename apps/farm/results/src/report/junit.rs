//! A report as JUnit XML for continuous integration.

use std::time::Duration;

use polychip_farm_record::printable;
use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use super::{Cell, Report, Status};
use crate::compare::{Row, Verdict};
use crate::error::{Error, Result};

impl Report {
    /// A suite per board type, a case per item: failed where it fails, or where the comparison calls it a regression;
    /// skipped where no board did it or its devices do not run it. Its time is that of measuring; properties tell the
    /// boards and the median of a run.
    ///
    /// # Errors
    /// Nothing that a report holds.
    pub fn junit(&self) -> Result<String> {
        let mut junit = Junit::new("polychip farm");
        let mut boards: Vec<String> = self.cells.iter().map(Cell::board).collect();
        boards.sort_unstable();
        boards.dedup();
        for board in boards {
            let mut suite = TestSuite::new(board.clone());
            for cell in self.cells.iter().filter(|cell| cell.board() == board) {
                let mut case = TestCase::new(cell.item.clone(), self.status(cell));
                case.set_classname(board.clone());
                // of a run of the model, three decimals of a second show nothing
                case.set_time(Duration::from_millis(cell.took_ms));
                case.add_property(("boards", &*printable(&cell.places().join(", "))));
                if let Some(newest) = cell.newest() {
                    case.add_property(("median_ms", &*format!("{}", newest.median_ns as f64 / 1e6)));
                    case.add_property(("batches", &*newest.batches.to_string()));
                }
                suite.add_test_case(case);
            }
            junit.add_test_suite(suite);
        }
        junit.to_string().map_err(Error::selection)
    }

    fn status(&self, cell: &Cell) -> TestCaseStatus {
        let failure = |words: String| {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(words);
            status
        };
        let skipped = |words: String| {
            let mut status = TestCaseStatus::skipped();
            status.set_message(words);
            status
        };
        if let Some(row) = self.row(cell)
            && self.is_regression(row)
        {
            return failure(format!("{}: {row}", row.verdict.word()));
        }
        let reason = cell.reason.as_deref().unwrap_or_default();
        let reason = format!("on {}: {}", cell.on(), printable(reason));
        match cell.ended {
            Status::Failed => failure(reason),
            Status::Refused => skipped(format!("unsupported: {reason}")),
            Status::NotDone => skipped(format!("no result: {reason}")),
            Status::Measured if !cell.failed.is_empty() => failure(cell.failed.join("\n")),
            Status::Measured => TestCaseStatus::success(),
        }
    }

    pub(super) fn is_regression(&self, row: &Row) -> bool {
        let mut regressions = self
            .comparison
            .iter()
            .flat_map(|comparison| comparison.regressions());
        row.verdict != Verdict::Same && regressions.any(|known| known == row)
    }
}
