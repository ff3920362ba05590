//! The opset versions that a model or function names, by domain.
//!
//! Invariants:
//! 1. The default domain has one name here, the empty one.
//! 2. Opsets of the default domain outside 1 to 28 are refused.

use std::collections::BTreeMap;

use super::messages::OperatorSetId;
use crate::Error;

/// Opset version by domain.
pub(super) type Opsets = BTreeMap<String, i64>;
/// Oldest opset of the default domain that is read.
pub(super) const OLDEST: i64 = 1;
/// The opset that graphs are in.
pub(super) const NEWEST: i64 = 28;

/// The domain under its canonical name: the default one is empty.
pub(super) fn domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The opset versions by domain, checked.
pub(super) fn opsets(imports: &[OperatorSetId], what: &str) -> Result<Opsets, Error> {
    let mut opsets = Opsets::new();
    for import in imports {
        let domain = domain(&import.domain);
        if domain.is_empty() && !(OLDEST..=NEWEST).contains(&import.version) {
            return Err(Error::unsupported(format!(
                "{what} uses opset {}; opsets {OLDEST} to {NEWEST} are read",
                import.version
            )));
        }
        if let Some(before) = opsets.insert(domain.to_owned(), import.version)
            && before != import.version
        {
            return Err(Error::malformed(format!(
                "{what} imports opset {before} and opset {} of domain \"{domain}\"",
                import.version
            )));
        }
    }
    Ok(opsets)
}
