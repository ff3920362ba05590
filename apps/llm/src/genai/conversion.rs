//! An exported graph while its ports are replaced by ours.

use super::settings::Settings;
use crate::build::Shape;
use crate::build::draft::Draft;
use crate::build::memory::Ports;

/// A graph under conversion.
pub(super) struct GraphConversion<'a> {
    pub(super) settings: &'a Settings,
    pub(super) shape: Shape,
    pub(super) ports: Ports,
    pub(super) draft: Draft,
}
