//! If, Loop and Scan whose bodies run inside the node's step: states of fixed size and growing ones, stacked values, early ends.

use polychip_graph::{Graph, infer, text};
use polychip_host::FlatGraph;
use polychip_sdk::GraphView;

use crate::bench::{Bench, floats, linked, to_floats};

pub(crate) fn graph(source: &str) -> Graph {
    let mut graph = text::parse(source).unwrap();
    infer(&mut graph).unwrap();
    graph
}

/// Whether the reference evaluator runs a body.
#[allow(unsafe_code)]
fn interpreted(graph: &Graph) -> bool {
    let flat = FlatGraph::new(graph, &[]).unwrap();
    // SAFETY: the flat graph outlives the view, and is not written to.
    let view = unsafe { GraphView::new(flat.raw()) }.unwrap();
    let steps = polychip_cpu::work(&view).unwrap();
    steps.iter().any(|step| step.class == "body")
}

fn run(source: &str, inputs: &[Vec<u8>]) -> Vec<(Vec<i64>, Vec<f32>)> {
    let host = linked();
    let graph = graph(source);
    assert!(!interpreted(&graph), "{source}");
    let mut bench = Bench::new(&host.devices()[0], &graph);
    let fence = bench.run(inputs);
    let ports = bench.executable.ports().to_vec();
    let outputs = (inputs.len()..ports.len()).map(|port| {
        let mut dims = [0; 8];
        let dims = if ports[port].upper_bound {
            let rank = fence.output_dims(port as u32, &mut dims).unwrap();
            dims[..rank].to_vec()
        } else {
            ports[port].dims.clone()
        };
        let count = dims.iter().product::<i64>() as usize;
        (dims, to_floats(&bench.read(port)[..4 * count]))
    });
    outputs.collect()
}

fn integer(value: i64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

/// `if p { conv(x) + x } else { x twice, one above the other }`, of which only the second doubles the rows.
pub(crate) fn choice(rows: usize) -> String {
    let other = if rows == 2 {
        "Add \"\"(t0, t0)"
    } else {
        "Concat \"\"(t0, t0) {axis: 0}"
    };
    format!(
        r#"graph "g" {{
      input t0 "p": bool[]
      input t1 "x": f32[2, 3]
      t2 "y": untyped = If ""(t0)
        body then_branch(t1 -> t0) "t" {{
          input t0 "a": f32[2, 3]
          const t1 "w": f32[3, 3] = [1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0]
          t2 "m": untyped = MatMul ""(t0, t1)
          t3 "b": untyped = Add ""(t2, t0)
          output t3
        }}
        body else_branch(t1 -> t0) "e" {{
          input t0 "a": f32[2, 3]
          t1 "b": untyped = {other}
          output t1
        }}
      output t2
    }}"#
    )
}

#[test]
fn if_takes_the_branch_of_its_condition() {
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let first = [2.0, 6.0, 12.0, 8.0, 15.0, 24.0];
    for rows in [2, 4] {
        let taken = |p: u8| run(&choice(rows), &[vec![p], floats(&x)]).remove(0);
        assert_eq!(taken(1), (vec![2, 3], first.to_vec()));
        let (dims, values) = taken(0);
        assert_eq!(dims, [rows as i64, 3]);
        let want = if rows == 2 {
            x.map(|x| 2.0 * x).to_vec()
        } else {
            [x, x].concat()
        };
        assert_eq!(values, want);
    }
}

/// A state of fixed size, one that grows, values stacked, and an end by the condition `i < last`.
pub(crate) const ROUNDS: &str = r#"graph "g" {
      input t0 "n": i64[]
      input t1 "last": i64[]
      input t2 "x": f32[2]
      const t3 "yes": bool[] = [1]
      t4 "sum": untyped, t5 "list": untyped, t6 "sums": untyped, t7 "lists": untyped = Loop ""(t0, t3, t2, t2)
        body body(t2 -> t4, t1 -> t5) "b" {
          input t0 "i": i64[]
          input t1 "c": bool[]
          input t2 "s": untyped
          input t3 "l": untyped
          input t4 "x": f32[2]
          input t5 "last": i64[]
          t6 "next": untyped = Add ""(t2, t4)
          t7 "longer": untyped = Concat ""(t3, t4) {axis: 0}
          t8 "more": untyped = Less ""(t0, t5)
          t9 "negated": untyped = Neg ""(t6)
          t10 "first": untyped = Neg ""(t4)
          output t8
          output t6
          output t7
          output t9
          output t10
        }
      output t4
      output t5
      output t6
      output t7
    }"#;

#[test]
fn loop_carries_state_stacks_and_ends() {
    for (n, last, rounds) in [(3, 100, 3), (100, 1, 2), (1, 100, 1), (0, 100, 0)] {
        let found = run(ROUNDS, &[integer(n), integer(last), floats(&[1.0, -2.0])]);
        let times = |count: usize| [count as f32, -2.0 * count as f32];
        assert_eq!(found[0], (vec![2], times(rounds + 1).to_vec()), "{n} {last}");
        let list = (0..=rounds).flat_map(|_| times(1)).collect();
        assert_eq!(found[1], (vec![2 * (rounds as i64 + 1)], list), "{n} {last}");
        let sums = (0..rounds)
            .flat_map(|round| times(round + 2).map(|x| -x))
            .collect();
        assert_eq!(found[2], (vec![rounds as i64, 2], sums), "{n} {last}");
        let firsts = (0..rounds).flat_map(|_| times(1).map(|x| -x)).collect();
        assert_eq!(found[3], (vec![rounds as i64, 2], firsts), "{n} {last}");
    }
}

#[test]
fn bodies_nest() {
    let source = r#"graph "g" {
      input t0 "p": bool[]
      input t1 "n": i64[]
      input t2 "x": f32[2]
      t3 "y": untyped = If ""(t0)
        body then_branch(t1 -> t0, t2 -> t1) "t" {
          input t0 "n": i64[]
          input t1 "x": f32[2]
          const t2 "yes": bool[] = [1]
          t3 "z": untyped = Loop ""(t0, t2, t1)
            body body(t1 -> t3) "b" {
              input t0 "i": i64[]
              input t1 "c": bool[]
              input t2 "s": untyped
              input t3 "x": f32[2]
              t4 "more": untyped = Mul ""(t2, t3)
              output t1
              output t4
            }
          output t3
        }
        body else_branch(t2 -> t0) "e" {
          input t0 "x": f32[2]
          t1 "z": untyped = Neg ""(t0)
          output t1
        }
      output t3
    }"#;
    let powers = |p: u8, n: i64| {
        run(source, &[vec![p], integer(n), floats(&[2.0, -3.0])])
            .remove(0)
            .1
    };
    assert_eq!(powers(1, 2), [8.0, -27.0]);
    assert_eq!(powers(1, 0), [2.0, -3.0]);
    assert_eq!(powers(0, 2), [-2.0, 3.0]);
}

/// Running sums of two sequences, the second one from its end, and what is stacked in both directions.
#[test]
fn scan_carries_state_and_stacks() {
    let source = r#"graph "g" {
      input t0 "start": f32[2]
      input t1 "x": f32[3, 2]
      input t2 "z": f32[3, 2]
      input t3 "w": f32[2]
      t4 "last": f32[2], t5 "forth": f32[3, 2], t6 "back": f32[3, 2] = Scan ""(t0, t1, t2) {num_scan_inputs: 2, scan_input_directions: ints [0, 1], scan_output_directions: ints [0, 1]}
        body body(t3 -> t3) "b" {
          input t0 "sum": f32[2]
          input t1 "x": f32[2]
          input t2 "z": f32[2]
          input t3 "w": f32[2]
          t4 "both": f32[2] = Add ""(t1, t2)
          t5 "weighed": f32[2] = Mul ""(t4, t3)
          t6 "next": f32[2] = Add ""(t0, t5)
          t7 "forth": f32[2] = Neg ""(t6)
          t8 "back": f32[2] = Identity ""(t1)
          output t6
          output t7
          output t8
        }
      output t4
      output t5
      output t6
    }"#;
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let z = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
    let inputs = [&[100.0, 200.0][..], &x, &z, &[1.0, 2.0]].map(floats);
    let found = run(source, &inputs);
    assert_eq!(found[0], (vec![2], vec![199.0, 464.0]));
    assert_eq!(found[1].1, [-151.0, -324.0, -184.0, -412.0, -199.0, -464.0]);
    assert_eq!(found[2].1, [5.0, 6.0, 3.0, 4.0, 1.0, 2.0]);
}

/// States that grow at their end, at their front and along the last axis, and readers of one beside its growth.
#[test]
fn growing_states_keep_what_is_read_beside_them() {
    let source = r#"graph "g" {
      input t0 "n": i64[]
      input t1 "x": f32[2]
      input t2 "column": f32[2, 1]
      const t3 "yes": bool[] = [1]
      const t4 "axes": i64[1] = [0]
      t5 "end": untyped, t6 "front": untyped, t7 "wide": untyped, t8 "sums": untyped = Loop ""(t0, t3, t1, t1, t2)
        body body(t1 -> t5, t2 -> t6, t4 -> t7) "b" {
          input t0 "i": i64[]
          input t1 "c": bool[]
          input t2 "e": untyped
          input t3 "f": untyped
          input t4 "w": untyped
          input t5 "x": f32[2]
          input t6 "column": f32[2, 1]
          input t7 "axes": i64[1]
          t8 "longer": untyped = Concat ""(t2, t5) {axis: 0}
          t9 "twice": untyped = Concat ""(t2, t2) {axis: 0}
          t10 "before": untyped = Concat ""(t5, t3) {axis: 0}
          t11 "wider": untyped = Concat ""(t4, t6) {axis: 1}
          t12 "sum": untyped = ReduceSum ""(t9, t7) {keepdims: 0}
          t13 "more": untyped = Identity ""(t1)
          output t13
          output t8
          output t10
          output t11
          output t12
        }
      output t5
      output t6
      output t7
      output t8
    }"#;
    let inputs = [integer(3), floats(&[1.0, 2.0]), floats(&[5.0, 6.0])];
    for _ in 0..2 {
        let found = run(source, &inputs);
        let list = [1.0, 2.0].repeat(4);
        assert_eq!(found[0], (vec![8], list.clone()));
        assert_eq!(found[1], (vec![8], list));
        assert_eq!(found[2], (vec![2, 4], [[5.0; 4], [6.0; 4]].concat()));
        assert_eq!(found[3], (vec![3], vec![6.0, 12.0, 18.0]));
    }
}

/// A sequence that a loop fills and one that it reads, and an element that a round takes out.
#[test]
fn loops_fill_and_read_sequences() {
    let source = r#"graph "g" {
      input t0 "x": f32[3, 2]
      input t1 "n": i64[]
      const t2 "yes": bool[] = [1]
      t3 "rows": untyped = SplitToSequence ""(t0) {axis: 0, keepdims: 1}
      t4 "none": untyped = SequenceEmpty ""()
      t5 "all": untyped, t6 "sum": untyped = Loop ""(t1, t2, t4, t0)
        body body(t3 -> t4) "b" {
          input t0 "i": i64[]
          input t1 "c": bool[]
          input t2 "s": untyped
          input t3 "sum": f32[3, 2]
          input t4 "rows": untyped
          const t5 "first": i64[] = [0]
          t6 "row": untyped = SequenceAt ""(t4, t0)
          t7 "one": untyped = SequenceInsert ""(t2, t6)
          t8 "two": untyped = SequenceInsert ""(t7, t6, t5)
          t9 "erased": untyped = SequenceErase ""(t8)
          t10 "next": f32[3, 2] = Add ""(t3, t6)
          t11 "more": untyped = Identity ""(t1)
          output t11
          output t9
          output t10
        }
      t7 "y": untyped = ConcatFromSequence ""(t5) {axis: 0}
      output t7
      output t6
    }"#;
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let found = run(source, &[floats(&x), integer(3)]);
    // each round puts its row in front
    assert_eq!(found[0], (vec![3, 2], vec![5.0, 6.0, 3.0, 4.0, 1.0, 2.0]));
    let sums: Vec<f32> = x
        .iter()
        .enumerate()
        .map(|(i, x)| x + [9.0, 12.0][i % 2])
        .collect();
    assert_eq!(found[1].1, sums);
}

/// Each state is a result, has a place of its own while the body runs, and one for what the body gives.
#[test]
fn a_loop_has_as_many_states_as_a_model_gives_it() {
    const STATES: usize = 70;
    let list = |line: &dyn Fn(usize) -> String, between: &str| {
        (0..STATES).map(line).collect::<Vec<_>>().join(between)
    };
    let source = format!(
        r#"graph "g" {{
          input t0 "n": i64[]
          input t1 "x": f32[2]
          const t2 "yes": bool[] = [1]
          {results} = Loop ""(t0, t2, {starts})
            body body() "b" {{
              input t0 "i": i64[]
              input t1 "c": bool[]
              {inputs}
              {sums}
              output t1
              {outputs}
            }}
          {given}
        }}"#,
        results = list(&|i| format!("t{} \"y{i}\": untyped", 3 + i), ", "),
        starts = list(&|_| "t1".into(), ", "),
        inputs = list(&|i| format!("input t{} \"s{i}\": untyped", 2 + i), "\n"),
        // each state is the sum of itself and its neighbour
        sums = list(
            &|i| format!(
                "t{} \"a{i}\": untyped = Add \"\"(t{}, t{})",
                2 + STATES + i,
                2 + i,
                2 + (i + 1) % STATES
            ),
            "\n"
        ),
        outputs = list(&|i| format!("output t{}", 2 + STATES + i), "\n"),
        given = list(&|i| format!("output t{}", 3 + i), "\n"),
    );
    let results = run(&source, &[integer(3), floats(&[1.0, -2.0])]);
    assert_eq!(results.len(), STATES);
    for (dims, values) in results {
        assert_eq!((dims, values), (vec![2], vec![8.0, -16.0]));
    }
}
