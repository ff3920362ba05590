//! Random numbers: new ones in each run, repeatable by seed and run, the same on every device and split.

use std::time::Duration;

use polychip::{Policy, Runtime, Session};
use polychip_graph::text::parse;

const PATIENCE: Duration = Duration::from_secs(60);

/// Nodes with and without a seed, of each kind that draws.
const NOISE: &str = r#"graph "noise" {
  input t0 "x": f32[3, 40]
  t1 "a": f32[3, 40] = RandomNormalLike "a"(t0)
  t2 "b": f32[3, 40] = RandomUniformLike "b"(t0)
  t3 "c": f32[3, 40] = RandomNormalLike "c"(t0) {seed: 3.0}
  t4 "d": f32[3, 40] = RandomNormal "d"() {shape: ints [3, 40], mean: 0.5}
  t5 "e": f32[3, 40] = RandomUniform "e"() {shape: ints [3, 40], seed: 3.0}
  t6 "f": f32[3, 40] = Bernoulli "f"(t2)
  t7 "g": i32[3, 9] = Multinomial "g"(t0) {sample_size: 9}
  const t8 "ratio": f32[] = [0.5]
  const t9 "training": bool[] = [1]
  t10 "h": f32[3, 40], t11 "mask": bool[3, 40] = Dropout "h"(t1, t8, t9)
  output t1
  output t2
  output t3
  output t4
  output t5
  output t6
  output t7
  output t10
  output t11
}
"#;

/// A Loop whose body draws, and a Scan whose body does.
const LOOPS: &str = r#"graph "loops" {
  input t0 "x": f32[4, 8]
  const t1 "rounds": i64[] = [3]
  const t2 "going": bool[] = [1]
  const t3 "none": f32[8] = [0, 0, 0, 0, 0, 0, 0, 0]
  t4 "last": f32[8], t5 "all": f32[3, 8] = Loop "loop"(t1, t2, t3)
    body body() "round" {
      input t0 "round": i64[]
      input t1 "going": bool[]
      input t2 "sum": f32[8]
      t3 "noise": f32[8] = RandomNormalLike "noise"(t2)
      t4 "next": f32[8] = Add ""(t2, t3)
      t5 "on": bool[] = Identity ""(t1)
      t6 "drawn": f32[8] = Identity ""(t3)
      output t5
      output t4
      output t6
    }
  t6 "sum": f32[8], t7 "rows": f32[4, 8] = Scan "scan"(t3, t0) {num_scan_inputs: 1}
    body body() "step" {
      input t0 "sum": f32[8]
      input t1 "row": f32[8]
      t2 "noise": f32[8] = RandomUniformLike "noise"(t1)
      t3 "next": f32[8] = Add ""(t0, t2)
      t4 "drawn": f32[8] = Identity ""(t2)
      output t3
      output t4
    }
  output t4
  output t5
  output t6
  output t7
}
"#;

fn runtime() -> Runtime {
    let script = "[[device]]\n[[device]]\n";
    Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", script)
        .only_given_folders()
        .build()
        .unwrap()
}

fn session(runtime: &Runtime, text: &str, policy: Policy) -> Session {
    let model = runtime.load_graph("made", parse(text).unwrap());
    runtime.session(&model, policy.threads(1)).unwrap()
}

/// The bytes of all outputs of the next run.
fn run(session: &Session) -> Vec<Vec<u8>> {
    let mut x = session.input("x").unwrap();
    let count = x.shape().iter().product();
    x.write(&vec![0.25f32; count]).unwrap();
    let outputs = session.submit(&[&x]).unwrap().wait(PATIENCE).unwrap();
    (0..outputs.len())
        .map(|index| outputs.at(index).unwrap().bytes().to_vec())
        .collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|word| f32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

#[test]
fn runs_draw_anew_and_repeat_in_another_session() {
    let runtime = runtime();
    let cpu = || Policy::latency().devices(["cpu"]);
    let one = session(&runtime, NOISE, cpu());
    assert_eq!(one.inputs().map(|input| &*input.name).collect::<Vec<_>>(), ["x"]);
    let [first, second] = [run(&one), run(&one)];
    for (index, (a, b)) in first.iter().zip(&second).enumerate() {
        assert_ne!(a, b, "output {index}");
    }
    let other = session(&runtime, NOISE, cpu());
    assert_eq!([run(&other), run(&other)], [first.clone(), second]);
    // a node's own seed counts before the session's
    let seeded = run(&session(&runtime, NOISE, cpu().seed(7)));
    for (index, (a, b)) in first.iter().zip(&seeded).enumerate() {
        assert_eq!(a == b, [2, 4].contains(&index), "output {index}");
    }
    let set = cpu().with_setting("seed", "7").unwrap();
    assert_eq!(run(&session(&runtime, NOISE, set)), seeded);
    let words = cpu().with_setting("seed", "x").unwrap_err().to_string();
    assert!(words.contains("whole number"), "{words}");
}

#[test]
fn every_device_and_split_draws_the_same() {
    let runtime = runtime();
    for text in [NOISE, LOOPS] {
        let whole = run(&session(&runtime, text, Policy::latency().devices(["cpu"])));
        let null = run(&session(&runtime, text, Policy::latency().devices(["null:0"])));
        assert!(whole == null, "another device");
        if text == NOISE {
            let split = Policy::latency()
                .devices(["cpu:0", "null:0", "null:1"])
                .pin("a", "null:0")
                .pin("b", "cpu:0")
                .pin("f", "null:1")
                .pin("h", "cpu:0");
            let split = session(&runtime, text, split);
            assert!(split.plan().unwrap().parts.len() > 1);
            assert!(whole == run(&split), "another split");
        }
    }
}

#[test]
fn numbers_are_those_of_their_distributions() {
    let runtime = runtime();
    let outputs = run(&session(&runtime, NOISE, Policy::latency().devices(["cpu"])));
    let mean = |bytes: &[u8]| {
        let values = floats(bytes);
        values.iter().sum::<f32>() / values.len() as f32
    };
    // of 120 numbers: four standard errors
    assert!(mean(&outputs[0]).abs() < 0.37);
    assert!((mean(&outputs[1]) - 0.5).abs() < 0.11);
    assert!((mean(&outputs[3]) - 0.5).abs() < 0.37);
    assert!(floats(&outputs[1]).iter().all(|u| (0.0..1.0).contains(u)));
    assert!(floats(&outputs[5]).iter().all(|bit| [0.0, 1.0].contains(bit)));
    let classes = outputs[6].chunks_exact(4);
    let classes: Vec<i32> = classes
        .map(|word| i32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    assert!(classes.len() == 27 && classes.iter().all(|class| (0..40).contains(class)));
    let (noise, dropped, mask) = (floats(&outputs[0]), floats(&outputs[7]), &outputs[8]);
    for ((x, y), kept) in noise.iter().zip(&dropped).zip(mask) {
        assert_eq!(*y, if *kept == 1 { 2.0 * x } else { 0.0 });
    }
    assert!((30..90).contains(&mask.iter().filter(|kept| **kept == 1).count()));
}

#[test]
fn each_round_of_a_loop_draws_anew() {
    let runtime = runtime();
    let session = session(&runtime, LOOPS, Policy::latency().devices(["cpu"]));
    let outputs = run(&session);
    for (rows, sums) in [(&outputs[1], &outputs[0]), (&outputs[3], &outputs[2])] {
        let (rows, sums) = (floats(rows), floats(sums));
        let rows: Vec<&[f32]> = rows.chunks_exact(8).collect();
        for (index, row) in rows.iter().enumerate() {
            assert!(rows[index + 1..].iter().all(|other| other != row));
        }
        for (place, sum) in sums.iter().enumerate() {
            let total: f32 = rows.iter().fold(0.0, |total, row| total + row[place]);
            assert!((sum - total).abs() < 1e-5);
        }
    }
    assert_ne!(outputs, run(&session));
}
