//! A report in words, for a terminal.

use std::fmt;

use super::{Cell, Ending, Report};
use crate::compare::time;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for cell in &self.cells {
            writeln!(f, "{cell}")?;
        }
        for trouble in &self.troubles {
            writeln!(f, "{trouble}")?;
        }
        write!(f, "{}", self.summary())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: ", self.item, self.board())?;
        match (self.ended, self.newest()) {
            (Ending::Measured, Some(newest)) => write!(f, "{}", time(newest.median_ns))?,
            (Ending::Measured, None) => f.write_str("ran")?,
            (Ending::Refused, _) => f.write_str("refused")?,
            (Ending::Failed, _) => f.write_str("failed")?,
            (Ending::NotDone, _) => f.write_str("no result")?,
        }
        if let Some(passed) = self.passed {
            write!(f, ", {passed} cases pass, {} fail", self.failed.len())?;
        }
        for share in &self.shares {
            write!(f, ", {} {} %", share.device, share.permille.div_ceil(10))?;
        }
        match &self.reason {
            Some(reason) => write!(f, "; {reason}"),
            None => Ok(()),
        }
    }
}
