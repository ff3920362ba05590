//! Rows of the op table: ops with body graphs.
//!
//! Invariant: one row per op, in the form of opset 28; `table` documents the row format.
//! Not here: the shapes that come out (`infer::control_flow`).

use super::row::*;

rows! {
    class Control;
    If 25 (cond: B) -> (outputs: each V) where (V: anything(WIDE), B: tensors(BOOL))
        with (ElseBranch: required graph, ThenBranch: required graph);
    Loop 25 (M: opt I, cond: opt B, v_initial: each0 V) -> (v_final_and_scan_outputs: each V)
        where (V: anything(WIDE), I: tensors(I64S), B: tensors(BOOL))
        with (Body: required graph);
    Scan 25 (initial_state_and_scan_inputs: each V) -> (final_state_and_scan_outputs: each V)
        where (V: tensors(WIDE))
        with (
            Body: required graph, NumScanInputs: required int, ScanInputAxes: ints,
            ScanInputDirections: ints, ScanOutputAxes: ints, ScanOutputDirections: ints,
        );
}
