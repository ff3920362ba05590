//! Proofs by execution.
