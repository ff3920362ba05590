//! What runs are given beyond what the model says: inputs with a default, two sizes of one name, any rank.
//!
//! Expected values are those of ONNX Runtime 1.31 on the same models.

use std::time::Duration;

use crate::model::{F32, Message, Model, constant, floats, node, port};
use polychip::{ErrorKind, Policy, Runtime, Session};

const PATIENCE: Duration = Duration::from_secs(60);

fn session(model: &Model) -> Session {
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    let model = runtime.load_bytes("made.onnx", model.bytes()).unwrap();
    runtime.session(&model, Policy::latency().threads(1)).unwrap()
}

type Value = (Vec<usize>, Vec<f32>);

fn run(session: &Session, inputs: &[(&str, &[usize], &[f32])]) -> polychip::Result<Value> {
    let mut given = Vec::new();
    for (name, shape, values) in inputs {
        let mut input = session.input(name)?;
        input.resize(shape)?;
        input.write(values)?;
        given.push(input);
    }
    let given: Vec<&polychip::Input> = given.iter().collect();
    let outputs = session.submit(&given)?.wait(PATIENCE)?;
    let y = outputs.get("y")?;
    Ok((y.shape().to_vec(), y.values::<f32>()?.into_owned()))
}

/// `y = x * s + t`, in which `s` and `t` have the defaults 3 and 1.
fn scaled(size: &str) -> Model {
    Model {
        nodes: vec![
            node("Mul", "mul", &["x", "s"], &["p"]),
            node("Add", "add", &["p", "t"], &["y"]),
        ],
        constants: vec![
            constant("s", F32, &[], &floats(&[3.0])),
            constant("t", F32, &[1], &floats(&[1.0])),
        ],
        inputs: vec![
            port("x", F32, &[size]),
            port("s", F32, &[]),
            port("t", F32, &["k"]),
        ],
        outputs: vec![port("y", F32, &[size])],
        ..Model::default()
    }
}

#[test]
fn inputs_with_a_default_are_given_or_left_out() {
    for size in ["2", "n"] {
        let session = session(&scaled(size));
        assert_eq!(session.inputs().len(), 1);
        let optional: Vec<&str> = session.optional_inputs().map(|spec| spec.name.as_str()).collect();
        assert_eq!(optional, ["s", "t"]);
        let x = ("x", &[2][..], &[1.0, 2.0][..]);
        let (s, t) = (("s", &[][..], &[4.0][..]), ("t", &[2][..], &[5.0, 6.0][..]));
        let values = |inputs: &[(&str, &[usize], &[f32])]| run(&session, inputs).unwrap().1;
        assert_eq!(values(&[x]), [4.0, 7.0]);
        assert_eq!(values(&[x, s]), [5.0, 9.0]);
        assert_eq!(values(&[t, x]), [8.0, 12.0]);
        assert_eq!(values(&[x, t, s]), [9.0, 14.0]);
        assert_eq!(values(&[x]), [4.0, 7.0]);
        let error = session.input("u").unwrap_err().to_string();
        assert!(error.contains("its inputs are: x, s, t"), "{error}");
    }
}

#[test]
fn names_of_sizes_are_hints() {
    let model = Model {
        nodes: vec![node("Add", "add", &["a", "b"], &["y"])],
        inputs: vec![port("a", F32, &["batch", "2"]), port("b", F32, &["batch", "2"])],
        outputs: vec![port("y", F32, &["batch", "2"])],
        ..Model::default()
    };
    let session = session(&model);
    let a = ("a", &[2, 2][..], &[1.0, 2.0, 3.0, 4.0][..]);
    let b = ("b", &[1, 2][..], &[10.0, 20.0][..]);
    let (shape, values) = run(&session, &[a, b]).unwrap();
    assert_eq!((shape, values), (vec![2, 2], vec![11.0, 22.0, 13.0, 24.0]));
    let both = run(&session, &[a, ("b", a.1, a.2)]).unwrap();
    assert_eq!(both.1, [2.0, 4.0, 6.0, 8.0]);
    let outputs = session.outputs_for([("a", [1, 2]), ("b", [3, 2])]).unwrap();
    assert_eq!(outputs[0].as_ref().unwrap().shape, [3, 2]);
}

#[test]
fn a_rank_that_the_model_leaves_open_is_that_of_the_input() {
    let unranked = Message::default().text(1, "x").message(
        2,
        &Message::default().message(1, &Message::default().number(1, F32)),
    );
    let model = Model {
        nodes: vec![node("Neg", "neg", &["x"], &["y"])],
        inputs: vec![unranked],
        outputs: vec![port("y", F32, &["p", "q"])],
        ..Model::default()
    };
    let session = session(&model);
    assert!(session.inputs().all(|spec| spec.any_rank));
    for shape in [&[2, 3][..], &[6, 1], &[3, 2]] {
        let values: Vec<f32> = (0..6).map(|i| i as f32).collect();
        let (given, negated) = run(&session, &[("x", shape, &values)]).unwrap();
        assert_eq!(given, shape);
        assert!(negated.iter().zip(&values).all(|(y, x)| *y == -x));
    }
    let error = session
        .input("x")
        .unwrap()
        .write(&[1.0f32])
        .unwrap_err()
        .to_string();
    assert!(error.contains("leaves its rank open"), "{error}");
}

#[test]
fn a_list_of_one_is_given_for_a_scalar() {
    let scaled = |dims: &[&str]| Model {
        nodes: vec![node("Mul", "mul", &["x", "s"], &["y"])],
        inputs: vec![port("x", F32, &["2"]), port("s", F32, dims)],
        outputs: vec![port("y", F32, &["2"])],
        ..Model::default()
    };
    let x = ("x", &[2][..], &[1.0, 2.0][..]);
    for (dims, shape) in [(&[][..], &[1][..]), (&["1"], &[])] {
        let session = session(&scaled(dims));
        assert_eq!(run(&session, &[x, ("s", shape, &[4.0])]).unwrap().1, [4.0, 8.0]);
    }
    let error = run(&session(&scaled(&["2"])), &[x, ("s", &[1], &[4.0])]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput);
}

#[test]
fn a_missing_input_is_named() {
    let model = Model {
        nodes: vec![node("Concat", "join", &["x", "state"], &["y"])],
        inputs: vec![port("x", F32, &["n"]), port("state", F32, &["m"])],
        outputs: vec![port("y", F32, &["k"])],
        ..Model::default()
    };
    let mut made = model;
    made.nodes[0] = crate::model::with_integer(made.nodes[0].clone(), "axis", 0);
    let session = session(&made);
    let error = run(&session, &[("x", &[2], &[1.0, 2.0])])
        .unwrap_err()
        .to_string();
    assert!(error.contains("input \"state\" is missing"), "{error}");
}

#[test]
fn runs_with_a_default_count_and_end_with_those_of_their_session() {
    for size in ["2", "n"] {
        let session = session(&scaled(size));
        let x = ("x", &[2][..], &[1.0, 2.0][..]);
        let s = ("s", &[][..], &[4.0][..]);
        assert_eq!(run(&session, &[x, s]).unwrap().1, [5.0, 9.0]);
        // the same memory, on both graphs in turn
        let mut input = session.input("x").unwrap();
        input.resize(&[2]).unwrap();
        input.write(&[1.0f32, 2.0]).unwrap();
        let mut scale = session.input("s").unwrap();
        scale.write(&[4.0f32]).unwrap();
        for _ in 0..3 {
            for (given, wanted) in [(vec![&input], [4.0, 7.0]), (vec![&input, &scale], [5.0, 9.0])] {
                let outputs = session.submit(&given).unwrap().wait(PATIENCE).unwrap();
                assert_eq!(*outputs.get("y").unwrap().values::<f32>().unwrap(), wanted);
            }
        }
        // an unfinished run ends by itself, and its input can be written
        drop(session.submit(&[&input, &scale]).unwrap());
        let until = std::time::Instant::now() + PATIENCE;
        while input.write(&[3.0f32, 4.0]).is_err() {
            assert!(std::time::Instant::now() < until, "the input stays in flight");
            std::thread::yield_now();
        }
        session.close();
        for given in [vec![&input], vec![&input, &scale]] {
            assert_eq!(session.submit(&given).unwrap_err().kind(), ErrorKind::Closed);
        }
    }
}

#[test]
fn sizes_stay_bound_where_a_name_has_two() {
    let model = Model {
        nodes: vec![
            node("Add", "add", &["a", "b"], &["p"]),
            node("Mul", "mul", &["p", "s"], &["y"]),
        ],
        constants: vec![constant("s", F32, &[], &floats(&[3.0]))],
        inputs: vec![
            port("a", F32, &["batch", "2"]),
            port("b", F32, &["batch", "2"]),
            port("s", F32, &[]),
        ],
        outputs: vec![port("y", F32, &["batch", "2"])],
        ..Model::default()
    };
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    let model = runtime.load_bytes("made.onnx", model.bytes()).unwrap();
    let bound = model.bind_shapes([("a", [2, 2]), ("b", [1, 2])]).unwrap();
    let model = bound.with_inputs(["s"]).unwrap();
    let session = runtime.session(&model, Policy::latency().threads(1)).unwrap();
    let shapes: Vec<&[usize]> = session.inputs().map(|spec| &*spec.shape).collect();
    assert_eq!(shapes, [&[2, 2][..], &[1, 2], &[]]);
}
