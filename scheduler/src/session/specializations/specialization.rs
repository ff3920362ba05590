//! One specialisation, with the threads that it keeps alive.

use std::sync::Arc;

use crate::session::govern::watch::Watch;
use crate::session::learn::drive::LearningEnd;
use crate::session::specialization_state::Inner;

/// One specialisation.
#[derive(Debug)]
pub(crate) struct Specialization {
    pub(crate) inner: Arc<Inner>,
    /// Its thread ends with the last clone of the session.
    pub(crate) _watch: Option<Arc<Watch>>,
    pub(crate) _learning: Option<Arc<LearningEnd>>,
}
