//! Truncated, damaged and random bytes.

use super::bodies::branch;
use super::functions::with_functions;
use super::*;

/// A model that uses most of what the importer reads.
fn rich() -> Vec<u8> {
    let mut model = with_functions();
    let graph = model.graph.as_mut().unwrap();
    graph.initializer = vec![
        f32s("w", &[4], &[1.0, 2.0, 3.0, 4.0]),
        i64s("shape", &[2], &[6, 16]),
    ];
    graph.input.push(value("c", DType::Bool, &[]));
    graph.node.push(node_of("Mul", "y w", "z"));
    graph.node.push(node("Reshape", "z shape", "r", &[]));
    graph.node.push(node(
        "If",
        "c",
        "o",
        &[
            body("then_branch", branch("t", vec![node_of("Neg", "r", "t")])),
            body(
                "else_branch",
                branch("e", vec![node("Softmax", "r", "e", &[int("axis", 1)])]),
            ),
        ],
    ));
    graph.output = vec![value("o", DType::F32, &[6, 16])];
    model.encode_to_vec()
}

#[test]
fn every_truncation_is_an_error_or_a_model() {
    let bytes = rich();
    import(Bytes::from(bytes.clone()), &NoExternalData, &Options::default()).unwrap();
    for end in 0..bytes.len() {
        if let Ok(graph) = import(
            Bytes::copy_from_slice(&bytes[..end]),
            &NoExternalData,
            &Options::default(),
        ) {
            crate::verify(&graph).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = import(Bytes::from(bytes), &NoExternalData, &Options::default());
    }

    #[test]
    fn damaged_models_never_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = rich();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(graph) = import(Bytes::from(bytes), &NoExternalData, &Options::default()) {
            crate::verify(&graph).unwrap();
            let _ = crate::fingerprint::content(&graph);
        }
    }
}
