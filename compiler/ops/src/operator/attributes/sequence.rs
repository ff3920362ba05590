//! Typed attributes of recurrent layers, generated tensors, signals, sequences, control flow, text and trees.
//!
//! Invariant: no default is written here.
//! Not here: how a field reads (`attributes`), which op has which struct (`operator`).

use std::sync::Arc;

use crate::operator::read::{Field, Reader, Result};
use crate::operator::words::*;
use crate::{Attr, DType, Literal};

// Recurrent layers.
attributes! {
    /// RNN.
    Rnn {
        /// Names of the activations, per direction.
        activations: Vec<Arc<str>> = Activations,
        /// First numbers of those activations that have one.
        activation_alpha: Vec<f32> = ActivationAlpha,
        /// Second numbers of those activations that have one.
        activation_beta: Vec<f32> = ActivationBeta,
        /// Limit of the inputs of activations.
        clip: Option<f32> = Clip,
        /// Which way the sequence is read.
        direction: Direction = Direction,
        /// Elements of the hidden state; none where the weights tell.
        hidden_size: Option<usize> = HiddenSize,
        /// Whether the batch is the first axis; else the sequence is (`layout`).
        batch_first: bool = Layout,
    }

    /// GRU.
    Gru {
        /// As of [`Rnn`]; empty for sigmoid and tanh.
        activations: Vec<Arc<str>> = Activations,
        /// As of [`Rnn`].
        activation_alpha: Vec<f32> = ActivationAlpha,
        /// As of [`Rnn`].
        activation_beta: Vec<f32> = ActivationBeta,
        /// As of [`Rnn`].
        clip: Option<f32> = Clip,
        /// As of [`Rnn`].
        direction: Direction = Direction,
        /// As of [`Rnn`].
        hidden_size: Option<usize> = HiddenSize,
        /// As of [`Rnn`].
        batch_first: bool = Layout,
        /// Whether the reset gate acts behind the product.
        linear_before_reset: bool = LinearBeforeReset,
    }

    /// LSTM.
    Lstm {
        /// As of [`Rnn`]; empty for sigmoid, tanh and tanh.
        activations: Vec<Arc<str>> = Activations,
        /// As of [`Rnn`].
        activation_alpha: Vec<f32> = ActivationAlpha,
        /// As of [`Rnn`].
        activation_beta: Vec<f32> = ActivationBeta,
        /// As of [`Rnn`].
        clip: Option<f32> = Clip,
        /// As of [`Rnn`].
        direction: Direction = Direction,
        /// As of [`Rnn`].
        hidden_size: Option<usize> = HiddenSize,
        /// As of [`Rnn`].
        batch_first: bool = Layout,
        /// Whether the forget gate is one less the input gate.
        input_forget: bool = InputForget,
    }
}

// Generated tensors and signals.
attributes! {
    /// Bernoulli.
    #[derive(Copy)]
    Bernoulli {
        /// The type of the result; none for that of the input.
        dtype: Option<DType> = Dtype,
        /// The seed of its random numbers.
        seed: Option<f32> = Seed,
    }

    /// BlackmanWindow, HammingWindow and HannWindow.
    #[derive(Copy)]
    SignalWindow {
        /// The type of the result.
        output: DType = OutputDatatype,
        /// Whether the window repeats; else it is symmetric.
        periodic: bool = Periodic,
    }

    /// ConstantOfShape.
    ConstantOfShape {
        /// The one element; none for an f32 zero.
        value: Option<Literal> = Value,
    }

    /// EyeLike.
    #[derive(Copy)]
    EyeLike {
        /// The type of the result; none for that of the input.
        dtype: Option<DType> = Dtype,
        /// The diagonal of ones, above the main one where positive.
        k: i64 = K,
    }

    /// MelWeightMatrix.
    #[derive(Copy)]
    MelWeights {
        /// The type of the result.
        output: DType = OutputDatatype,
    }

    /// Multinomial.
    #[derive(Copy)]
    Multinomial {
        /// The type of the result.
        dtype: DType = Dtype,
        /// Numbers per row.
        samples: usize = SampleSize,
        /// The seed of its random numbers.
        seed: Option<f32> = Seed,
    }

    /// RandomNormal.
    RandomNormal {
        /// The type of the result.
        dtype: DType = Dtype,
        /// Mean.
        mean: f32 = Mean,
        /// Standard deviation.
        scale: f32 = Scale,
        /// The seed of its random numbers.
        seed: Option<f32> = Seed,
        /// Sizes of the result.
        shape: Vec<i64> = Shape,
    }

    /// RandomNormalLike.
    #[derive(Copy)]
    RandomNormalLike {
        /// The type of the result; none for that of the input.
        dtype: Option<DType> = Dtype,
        /// Mean.
        mean: f32 = Mean,
        /// Standard deviation.
        scale: f32 = Scale,
        /// The seed of its random numbers.
        seed: Option<f32> = Seed,
    }

    /// RandomUniform.
    RandomUniform {
        /// The type of the result.
        dtype: DType = Dtype,
        /// Upper end.
        high: f32 = High,
        /// Lower end.
        low: f32 = Low,
        /// The seed of its random numbers.
        seed: Option<f32> = Seed,
        /// Sizes of the result.
        shape: Vec<i64> = Shape,
    }

    /// RandomUniformLike.
    #[derive(Copy)]
    RandomUniformLike {
        /// The type of the result; none for that of the input.
        dtype: Option<DType> = Dtype,
        /// Upper end.
        high: f32 = High,
        /// Lower end.
        low: f32 = Low,
        /// The seed of its random numbers.
        seed: Option<f32> = Seed,
    }

    /// Range.
    #[derive(Copy)]
    Range {
        /// The type of its sums.
        stash: DType = StashType,
    }

    /// DFT.
    #[derive(Copy)]
    Dft {
        /// Whether the transform is the inverse one.
        inverse: bool = Inverse,
        /// Whether only the first half of the spectrum is there.
        onesided: bool = Onesided,
    }

    /// STFT.
    #[derive(Copy)]
    Stft {
        /// Whether only the first half of the spectrum is there.
        onesided: bool = Onesided,
    }

    /// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
    #[derive(Copy)]
    Loss {
        /// The label whose losses do not count.
        ignore_index: Option<i64> = IgnoreIndex,
        /// What is given back.
        reduction: LossReduction = Reduction,
    }
}

// Sequences, control flow, text and trees.
attributes! {
    /// ConcatFromSequence.
    #[derive(Copy)]
    ConcatFromSequence {
        /// The axis.
        axis: i64 = Axis,
        /// Whether the axis is a new one.
        new_axis: bool = NewAxis,
    }

    /// SequenceEmpty.
    #[derive(Copy)]
    SequenceEmpty {
        /// The type of its elements as stated; see [`SequenceEmpty::element`].
        dtype: Option<DType> = Dtype,
    }

    /// SplitToSequence.
    #[derive(Copy)]
    SplitToSequence {
        /// The axis.
        axis: i64 = Axis,
        /// Whether the axis stays, with size 1, where no sizes are given.
        keepdims: bool = Keepdims,
    }

    /// Scan: an empty list means axis 0, or forward, for every tensor.
    Scan {
        /// How many of the last inputs are scanned.
        scan_inputs: usize = NumScanInputs,
        /// The axes of scanned inputs.
        input_axes: Vec<i64> = ScanInputAxes,
        /// 1 for each scanned input that is read from the end.
        input_directions: Vec<i64> = ScanInputDirections,
        /// The axes of scanned outputs.
        output_axes: Vec<i64> = ScanOutputAxes,
        /// 1 for each scanned output that is written from the end.
        output_directions: Vec<i64> = ScanOutputDirections,
    }

    /// RegexFullMatch.
    RegexFullMatch {
        /// The expression, in RE2 syntax; none for an empty one.
        pattern: Option<Arc<str>> = Pattern,
    }

    /// StringNormalizer.
    StringNormalizer {
        /// What becomes of letters.
        case: CaseChange = CaseChangeAction,
        /// Whether stopwords are compared as they stand.
        case_sensitive: bool = IsCaseSensitive,
        /// The language whose letters count.
        locale: Option<Arc<str>> = Locale,
        /// Words that are left out.
        stopwords: Vec<Arc<str>> = Stopwords,
    }

    /// StringSplit.
    StringSplit {
        /// What stands between pieces; none for white space.
        delimiter: Option<Arc<str>> = Delimiter,
        /// The most splits; none or negative for no limit.
        maxsplit: Option<i64> = Maxsplit,
    }

    /// TfIdfVectorizer; the n-grams themselves stay in the attributes of the node.
    #[derive(Copy)]
    TfIdf {
        /// Elements of the longest n-gram.
        max_length: usize = MaxGramLength,
        /// Elements of the shortest n-gram.
        min_length: usize = MinGramLength,
        /// The most elements between two of an n-gram.
        max_skip: usize = MaxSkipCount,
        /// How n-grams are weighted.
        mode: Weighting = Mode,
    }

    /// TreeEnsemble and TreeEnsembleRegressor; the trees themselves stay in the attributes of the node.
    #[derive(Copy)]
    TreeEnsemble {
        /// How leaves join.
        aggregate: Aggregate = AggregateFunction,
        /// Numbers per row of the result as stated; see [`TreeEnsemble::targets`].
        n_targets: Option<usize> = NTargets,
        /// What is done to joined leaves.
        transform: PostTransform = PostTransform,
    }
}

/// What all recurrent layers have.
impl From<Gru> for Rnn {
    fn from(gru: Gru) -> Rnn {
        Rnn {
            activations: gru.activations,
            activation_alpha: gru.activation_alpha,
            activation_beta: gru.activation_beta,
            clip: gru.clip,
            direction: gru.direction,
            hidden_size: gru.hidden_size,
            batch_first: gru.batch_first,
        }
    }
}

/// What all recurrent layers have.
impl From<Lstm> for Rnn {
    fn from(lstm: Lstm) -> Rnn {
        Rnn {
            activations: lstm.activations,
            activation_alpha: lstm.activation_alpha,
            activation_beta: lstm.activation_beta,
            clip: lstm.clip,
            direction: lstm.direction,
            hidden_size: lstm.hidden_size,
            batch_first: lstm.batch_first,
        }
    }
}

impl SequenceEmpty {
    /// The type of its elements: f32 where none is stated, by the words of the specification.
    #[must_use]
    pub fn element(self) -> DType {
        self.dtype.unwrap_or(DType::F32)
    }
}

impl TreeEnsemble {
    /// Numbers per row of the result: one where none is stated, as ONNX's reference has it.
    #[must_use]
    pub fn targets(self) -> usize {
        self.n_targets.unwrap_or(1)
    }
}
