//! A report as text for a terminal.

use std::fmt;

use polychip_farm_record::printable;

use super::{Cell, Report, Status};
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
        write!(f, "{} on {}: ", self.item, self.on())?;
        match (self.ended, self.newest()) {
            (Status::Measured, Some(newest)) => write!(f, "{}", time(newest.median_ns))?,
            (Status::Measured, None) => f.write_str("ran")?,
            (Status::Refused, _) => f.write_str("unsupported")?,
            (Status::Failed, _) => f.write_str("failed")?,
            (Status::NotDone, _) => f.write_str("no result")?,
        }
        if let Some(passed) = self.passed {
            write!(f, ", {passed} cases pass, {} fail", self.failed.len())?;
        }
        for share in &self.shares {
            write!(
                f,
                ", {} {} %",
                printable(&share.device),
                share.permille.div_ceil(10)
            )?;
        }
        match &self.reason {
            Some(reason) => write!(f, "; {}", printable(reason)),
            None => Ok(()),
        }
    }
}
