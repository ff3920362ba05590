//! Ops that are drawn, and the reasons why others are not.
//!
//! Invariant: every op of the op table is drawn or listed here with its reason.

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use polychip_ops::Op;

    /// How nodes are drawn: the names behind each `@recipe`.
    const RECIPES: [&str; 2] = [include_str!("../recipes.py"), include_str!("../images.py")];

    const LEFT_OUT: &[(&str, &[&str])] = &[
        (
            "random numbers, of which no two runtimes have the same",
            &[
                "Bernoulli",
                "Multinomial",
                "RandomNormal",
                "RandomNormalLike",
                "RandomUniform",
                "RandomUniformLike",
            ],
        ),
        (
            "newer than opset 23",
            &[
                "BitCast",
                "CausalConvWithState",
                "CumProd",
                "LinearAttention",
                "Swish",
                "TensorScatter",
                "SwiGLU",
            ],
        ),
        ("no kernel in ONNX Runtime", &["ImageDecoder"]),
        (
            "values that are no tensors of numbers",
            &[
                "ConcatFromSequence",
                "Optional",
                "OptionalGetElement",
                "OptionalHasElement",
                "RegexFullMatch",
                "SequenceAt",
                "SequenceConstruct",
                "SequenceEmpty",
                "SequenceErase",
                "SequenceInsert",
                "SequenceLength",
                "SequenceMap",
                "SplitToSequence",
                "StringConcat",
                "StringNormalizer",
                "StringSplit",
                "TfIdfVectorizer",
            ],
        ),
        ("bodies: `If` and `Loop` stand for it", &["Scan"]),
        (
            "of another domain: trained models judge them (`cargo xtask trained --tabular`)",
            &["LabelEncoder", "TreeEnsemble", "TreeEnsembleRegressor"],
        ),
    ];

    fn drawn() -> BTreeSet<&'static str> {
        let decorators = RECIPES.iter().flat_map(|text| text.split("\n@recipe(").skip(1));
        decorators
            .flat_map(|rest| {
                rest.split("\ndef ")
                    .next()
                    .unwrap_or_default()
                    .split('"')
                    .skip(1)
                    .step_by(2)
            })
            .collect()
    }

    #[test]
    fn every_op_is_drawn_or_left_out_with_its_reason() {
        let drawn = drawn();
        let left_out: BTreeSet<&str> = LEFT_OUT.iter().flat_map(|(_, ops)| ops.iter().copied()).collect();
        let twice: Vec<_> = drawn.intersection(&left_out).collect();
        assert!(twice.is_empty(), "{twice:?}");
        let missing: Vec<&str> = Op::ALL
            .iter()
            .map(|op| op.name())
            .filter(|name| !drawn.contains(name) && !left_out.contains(name))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
