//! One run reads another run's output in place.

use polychip::{ErrorKind, Policy};

use crate::{PATIENCE, filled, on_cpu, on_device, session, soon};

#[test]
fn output_becomes_the_next_input_without_a_copy() {
    let (first, second) = (on_cpu(), on_cpu());
    let mut x = first.input("x").unwrap();
    let a = first.output("a").unwrap();
    let mut read = second.input_from_output("x", &a).unwrap();
    for turn in 1..4u8 {
        let value = f32::from(turn);
        x.write(&[value; 6]).unwrap();
        first.submit_into(&[&x], &[&a]).unwrap().wait(PATIENCE).unwrap();
        let outputs = second.submit(&[&read]).unwrap().wait(PATIENCE).unwrap();
        assert_eq!(outputs.get("a").unwrap().values::<f32>().unwrap()[..], [value; 6]);
        let written = a.bytes().unwrap().as_ptr();
        assert_eq!(read.bytes_mut().unwrap().as_ptr(), written);
        assert_eq!(a.values::<f32>().unwrap()[..], [-value; 6]);
    }
    for session in [&first, &second] {
        let report = session.report();
        assert_eq!((report.copies, report.copied_bytes), (0, 0));
    }
}

#[test]
fn session_ping_pongs_between_two_outputs() {
    let session = on_cpu();
    let input = filled(&session, 1.0);
    let [even, odd] = ["a", "a"].map(|name| session.output(name).unwrap());
    let [from_even, from_odd] = [&even, &odd].map(|output| session.input_from_output("x", output).unwrap());
    let run = |input, output| {
        session
            .submit_into(&[input], &[output])
            .unwrap()
            .wait(PATIENCE)
            .unwrap()
    };
    run(&input, &even);
    run(&from_even, &odd);
    run(&from_odd, &even);
    assert_eq!(even.values::<f32>().unwrap()[..], [-1.0; 6]);
    assert_eq!(odd.values::<f32>().unwrap()[..], [1.0; 6]);
    assert_eq!(session.report().copies, 0);
    let error = session.submit_into(&[&from_even], &[&even]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput);
    let words = error.to_string();
    assert!(
        words.contains("output \"a\"") && words.contains("input \"x\" of the same run"),
        "{words}"
    );
}

#[test]
fn shared_memory_has_one_writer_or_many_readers() {
    let (first, second) = (on_device(100, ""), on_device(100, ""));
    let x = filled(&first, 1.0);
    let a = first.output("a").unwrap();
    let read = second.input_from_output("x", &a).unwrap();
    let writing = first.submit_into(&[&x], &[&a]).unwrap();
    let error = second.submit(&[&read]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight);
    assert!(
        error.to_string().contains("input \"x\": a run in flight writes"),
        "{error}"
    );
    assert_eq!(
        a.bytes().err().map(|error| error.kind()),
        Some(ErrorKind::InFlight)
    );
    writing.wait(PATIENCE).unwrap();
    let reading = second.submit(&[&read]).unwrap();
    let error = first.submit_into(&[&x], &[&a]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight);
    assert!(error.to_string().contains("output \"a\""), "{error}");
    let outputs = reading.wait(PATIENCE).unwrap();
    assert_eq!(outputs.get("b").unwrap().values::<f32>().unwrap()[..], [1.0; 6]);
    // a run without a waiter releases it in the end
    drop(second.submit(&[&read]).unwrap());
    soon(|| {
        drop(second.submit(&[&filled(&second, 0.0)])?);
        first.submit_into(&[&x], &[&a])
    });
}

#[test]
fn copies_to_device_memory_are_counted() {
    let own = |nodes: &str| {
        let script = format!("[[device]]\nimports = []\nops = [{nodes}]\ncost = {{ fixed_ns = 1 }}\n");
        let policy = Policy::latency().devices(["null", "cpu"]).pin("neg", "null:0");
        session(&script, policy)
    };
    let (first, second) = (own("\"Neg\""), own("\"Neg\""));
    let mut x = filled(&first, 1.0);
    let a = first.output("a").unwrap();
    // what was computed before the two are joined is there too
    first.submit_into(&[&x], &[&a]).unwrap().wait(PATIENCE).unwrap();
    let read = second.input_from_output("x", &a).unwrap();
    for value in [1.0f32, 2.0, 3.0] {
        let outputs = second.submit(&[&read]).unwrap().wait(PATIENCE).unwrap();
        assert_eq!(outputs.get("a").unwrap().values::<f32>().unwrap()[..], [value; 6]);
        x.write(&[value + 1.0; 6]).unwrap();
        first.submit_into(&[&x], &[&a]).unwrap().wait(PATIENCE).unwrap();
    }
    assert!(first.report().copies > 0 && second.report().copies > 0);
}

#[test]
fn mismatched_chained_tensors_are_refused_with_both_names() {
    let made = crate::model::Model {
        nodes: vec![crate::model::node("Neg", "neg", &["y"], &["z"])],
        inputs: vec![crate::model::port("y", crate::model::I64, &["2", "3"])],
        outputs: vec![crate::model::port("z", crate::model::I64, &["2", "3"])],
        ..crate::model::Model::default()
    };
    let runtime = polychip::Runtime::builder().only_given_folders().build().unwrap();
    let model = runtime.load_bytes("whole.onnx", made.bytes()).unwrap();
    let whole = runtime.session(&model, Policy::latency()).unwrap();
    let a = on_cpu().output("a").unwrap();
    let words = whole.input_from_output("y", &a).unwrap_err().to_string();
    assert_eq!(
        words,
        "input \"y\" cannot be read from output \"a\": its type is i64, that of the output is f32"
    );
}
