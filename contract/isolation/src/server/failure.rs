//! Failures that this side finds, without a call of the plugin.

use polychip_abi as abi;

use crate::message::FailureRecord;

/// The failure of a request that names an unknown object.
pub(super) fn unknown(what: &str, number: u64) -> FailureRecord {
    failure(
        abi::POLYCHIP_STATUS_BAD_ARGUMENT,
        format!("there is no {what} {number} in the plugin's process"),
    )
}

pub(super) fn failure(status: u32, message: impl Into<String>) -> FailureRecord {
    FailureRecord {
        status,
        node: abi::POLYCHIP_NO_INDEX,
        tensor: abi::POLYCHIP_NO_INDEX,
        message: message.into(),
        ..FailureRecord::default()
    }
}

impl From<polychip_sdk::Error> for FailureRecord {
    fn from(error: polychip_sdk::Error) -> FailureRecord {
        failure(error.kind().status(), error.to_string())
    }
}
