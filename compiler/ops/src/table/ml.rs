//! Rows of the op table: classical machine learning, the domain `ai.onnx.ml`.
//!
//! Invariant: one row per op, in the form of version 5 of that domain; `table` documents the row format. The other
//! ops of the domain have no row: the importer converts them to ops of the default domain.
//! Not here: the shapes that come out (`infer::ml`).

use super::row::*;

const KEYS: DTypes = set(&[String, I64, F32, I32, I16, F64]);
const SPLITS: DTypes = set(&[F32, F64, F16]);

rows! {
    class Other;
    LabelEncoder 4 (X: T1) -> (Y: T2) where (T1: tensors(KEYS), T2: tensors(KEYS))
        with (DefaultTensor: tensor, KeysTensor: required tensor, ValuesTensor: required tensor);
    TreeEnsemble 5 (X: T) -> (Y: T) where (T: tensors(SPLITS))
        with (
            AggregateFunction: int = 1, LeafTargetids: required ints, LeafWeights: required tensor,
            MembershipValues: tensor, NTargets: int, NodesFalseleafs: required ints,
            NodesFalsenodeids: required ints, NodesFeatureids: required ints,
            NodesMissingValueTracksTrue: ints, NodesModes: required tensor,
            NodesSplits: required tensor, NodesTrueleafs: required ints,
            NodesTruenodeids: required ints, PostTransform: int = 0, TreeRoots: required ints,
        );
    TreeEnsembleRegressor 3 (X: T) -> (Y: Z) where (T: tensors(set(&[F32, F64])), Z: tensors(F32S))
        with (
            AggregateFunction: string = "SUM", BaseValues: floats, BaseValuesAsTensor: tensor,
            NTargets: int, NodesFalsenodeids: ints, NodesFeatureids: ints,
            NodesMissingValueTracksTrue: ints, NodesModes: strings, NodesNodeids: ints,
            NodesTreeids: ints, NodesTruenodeids: ints, NodesValues: floats,
            NodesValuesAsTensor: tensor, PostTransform: string = "NONE", TargetIds: ints,
            TargetNodeids: ints, TargetTreeids: ints, TargetWeights: floats,
            TargetWeightsAsTensor: tensor,
        );
}
