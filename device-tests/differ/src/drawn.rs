//! Ops that are drawn, and the reasons why others are not.
//!
//! Invariant: every op of the op table is drawn or listed here with its reason.

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use polychip_ops::Op;

    /// How nodes are drawn: the names behind each `@recipe`.
    const RECIPES: [&str; 2] = [include_str!("../recipes.py"), include_str!("../images.py")];
    /// How groups of nodes are drawn: whatever is quoted there.
    const GROUPS: &str = include_str!("../values.py");

    const LEFT_OUT: &[(&str, &[&str])] = &[
        (
            "newer than opset 26, the last that ONNX Runtime reads",
            &["CausalConvWithState", "LinearAttention", "SwiGLU"],
        ),
        ("no kernel in ONNX Runtime", &["ImageDecoder"]),
        (
            "of another domain: trained models judge them (`cargo xtask trained --tabular`)",
            &["TreeEnsemble", "TreeEnsembleRegressor"],
        ),
    ];

    fn drawn() -> BTreeSet<&'static str> {
        let decorators = RECIPES.iter().flat_map(|text| text.split("\n@recipe(").skip(1));
        let grouped = GROUPS.split('"').skip(1).step_by(2);
        let grouped = grouped.filter(|word| Op::ALL.iter().any(|op| op.name() == *word));
        let drawn = decorators.flat_map(|rest| {
            rest.split("\ndef ")
                .next()
                .unwrap_or_default()
                .split('"')
                .skip(1)
                .step_by(2)
        });
        drawn.chain(grouped).collect()
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
