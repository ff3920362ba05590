//! The precision that is chosen by measured error.

use polychip::{Policy, Precision};
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{Architecture, Gguf, LanguageModel, Options};

const TINY: TinyModel = TinyModel {
    architecture: Architecture::Llama,
    kind: TensorType::Q8_0,
    layers: 2,
    tied: false,
    seed: 31,
};

/// The tiny model, with one feature in each group of 32 so many times as large as the others: 8 bits for the group leave
/// few for these.
fn model(outlier: f32, options: Options) -> LanguageModel {
    let mut writer = TINY.writer();
    let width = TINY.config().embedding as usize;
    let norms =
        (0..TINY.layers).flat_map(|layer| ["attn", "ffn"].map(|of| format!("blk.{layer}.{of}_norm.weight")));
    for name in norms.chain(["output_norm.weight".to_owned()]) {
        writer.remove_tensor(&name);
        let scale = |at: usize| if at.is_multiple_of(32) { outlier } else { 1.0 };
        let data = (0..width).flat_map(|at| scale(at).to_le_bytes()).collect();
        writer.tensor(&name, TensorType::F32, &[width as u64], data);
    }
    let file = Gguf::read(writer.finish().into()).unwrap();
    LanguageModel::of("tiny", file, options).unwrap()
}

fn logits(model: &LanguageModel) -> Vec<f32> {
    model
        .sequence()
        .unwrap()
        .append(&[40, 41, 42, 43])
        .unwrap()
        .to_vec()
}

#[test]
fn small_error_gives_reduced_precision_and_large_error_exact() {
    let options = || super::options().auto_precision();
    let requested = |precision| super::options().precision(precision);
    for (outlier, expected) in [(1.0, Precision::Reduced), (200.0, Precision::Exact)] {
        let auto = model(outlier, options());
        let results = logits(&auto);
        let choice = auto.precision();
        assert_eq!(choice.precision, expected, "{choice}");
        let divergence = choice.divergence.expect("it was measured");
        assert_eq!(divergence <= 0.005, expected == Precision::Reduced, "{choice}");
        assert!(divergence > 0.0, "{choice}");
        assert_eq!(auto.policy().is_exact(), expected == Precision::Exact);
        // it computes as a model for which the precision was requested, and unlike the other
        let [exact, reduced] =
            [Precision::Exact, Precision::Reduced].map(|of| logits(&model(outlier, requested(of))));
        let (same, other) = match expected {
            Precision::Exact => (exact, reduced),
            Precision::Reduced => (reduced, exact),
        };
        assert_eq!(results, same);
        assert_ne!(results, other);
    }
}

#[test]
fn a_requested_precision_is_not_measured() {
    for precision in [Precision::Exact, Precision::Reduced] {
        let by_option = model(200.0, super::options().precision(precision));
        assert_eq!(by_option.precision().precision, precision);
        assert_eq!(by_option.precision().divergence, None);
    }
    let policy = Policy::latency().precision(Precision::Reduced);
    let by_policy = model(200.0, super::options().auto_precision().policy(policy));
    assert_eq!(by_policy.precision().precision, Precision::Reduced);
    assert_eq!(by_policy.precision().divergence, None);
}

#[test]
fn the_choice_does_not_depend_on_the_first_prompt() {
    let options = || super::options().auto_precision();
    let [one, other] = [0, 1].map(|_| model(1.0, options()));
    one.sequence().unwrap().append(&[50; 20]).unwrap();
    other.sequence().unwrap().append(&[60]).unwrap();
    assert_eq!(one.precision(), other.precision());
}
