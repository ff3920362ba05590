//! What is compared: the records of both sides.

use polychip_farm_record::Record;

/// Records of both sides, of one item on one board type.
#[derive(Debug, Default)]
pub(super) struct Group<'a> {
    pub(super) base: Vec<&'a Record>,
    pub(super) new: Vec<&'a Record>,
    /// NEW's model has the name of BASE's, and other contents.
    pub(super) model_changed: bool,
}
