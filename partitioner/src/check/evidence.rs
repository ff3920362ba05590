//! The evidence against which a plan is judged.

use crate::plan::Plan;
use crate::request::Request;
use std::ops::Deref;

/// A plan, and what it is judged against: all of a request but its objective and settings, which are the plan's own; but
/// the longest part that was asked for is not among what a plan states.
pub(crate) struct Evidence<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) plan: &'a Plan,
}

impl<'a> Deref for Evidence<'a> {
    type Target = Request<'a>;

    fn deref(&self) -> &Request<'a> {
        &self.request
    }
}
