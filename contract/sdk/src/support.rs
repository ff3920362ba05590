//! Per node: supported, or the reason for the refusal.

use std::borrow::Cow;

use polychip_abi as abi;

/// Reason for which a device does not run a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Reason {
    /// The op is not offered.
    Op = abi::POLYCHIP_SUPPORT_OP,
    /// A data type is not offered.
    DType = abi::POLYCHIP_SUPPORT_DTYPE,
    /// A shape or extent is out of bounds.
    Shape = abi::POLYCHIP_SUPPORT_SHAPE,
    /// A rank is not offered.
    Rank = abi::POLYCHIP_SUPPORT_RANK,
    /// An attribute value is not offered.
    Attribute = abi::POLYCHIP_SUPPORT_ATTRIBUTE,
    /// A memory layout is not offered.
    Layout = abi::POLYCHIP_SUPPORT_LAYOUT,
    /// An input would have to be a constant.
    NotConstant = abi::POLYCHIP_SUPPORT_NOT_CONSTANT,
    /// A shape is known only after the run.
    DynamicShape = abi::POLYCHIP_SUPPORT_DYNAMIC_SHAPE,
    /// A body graph (If, Loop, Scan) is not offered.
    Body = abi::POLYCHIP_SUPPORT_BODY,
    /// A quantisation encoding is not offered.
    Encoding = abi::POLYCHIP_SUPPORT_ENCODING,
    /// The device's memory is too small.
    Memory = abi::POLYCHIP_SUPPORT_MEMORY,
    /// The device or its driver is known to be wrong or unstable here.
    Quarantined = abi::POLYCHIP_SUPPORT_QUARANTINED,
    /// The vendor's library refused, for the reason in the detail.
    Vendor = abi::POLYCHIP_SUPPORT_VENDOR,
}

/// Whether a device runs a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// The device runs it.
    Yes,
    /// It does not.
    No {
        /// Why.
        reason: Reason,
        /// Text that names the attribute, type, limit or value concerned.
        detail: Cow<'static, str>,
    },
}

impl Support {
    /// A refusal.
    pub fn no(reason: Reason, detail: impl Into<Cow<'static, str>>) -> Support {
        Support::No {
            reason,
            detail: detail.into(),
        }
    }

    /// Whether the device runs the node.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        matches!(self, Support::Yes)
    }

    pub(crate) fn record(&self) -> abi::polychip_support {
        let mut record = <abi::polychip_support as abi::Sized>::sized();
        if let Support::No { reason, detail } = self {
            record.reason = *reason as u32;
            record.set_text(detail);
        }
        record
    }
}
