//! Support: answers have reasons, repeat, agree for parts and wholes, and hold in `compile`.

use std::sync::Arc;

use polychip_abi as abi;
use polychip_graph::{Body, Capture, Graph, Node, Tensor, TensorId};
use polychip_host::FlatGraph;
use polychip_ops::{Attr, Attributes, DType, Literal, Op, TensorType};

use crate::bench::Bench;
use crate::case::Case;
use crate::ops;
use crate::plugin::RawGraph;
use crate::problem::{Problem, reasoned, supported};
use crate::verdict::{Judgement, Stop, check, fail, skip};

pub(super) fn cases(cases: &mut Vec<Case>) {
    let case = |name: &str, run: fn(&Bench) -> Judgement| Case::new("support", name, run);
    cases.extend([
        case("carrier", carrier).basic(),
        case("answers-are-the-same", same_answers).basic(),
        case("answers-are-reasoned", reasoned_answers).basic(),
        case("refused-graphs-do-not-compile", refused_do_not_compile).basic(),
        case("custom-op-is-refused", custom_op).basic(),
        case("unknown-op-code-is-refused", unknown_op).basic(),
        case("parts-as-the-whole", parts_as_whole).basic(),
        case("long-chain", long_chain).basic(),
        case("empty-graph", empty_graph),
        case("output-used-twice", output_used_twice).basic(),
        case("input-is-used-by-two", input_used_by_two).basic(),
        case("control-flow/if", |bench| control(bench, if_graph())),
        case("control-flow/loop", |bench| control(bench, loop_graph())),
        case("control-flow/scan", |bench| control(bench, scan_graph())),
    ]);
}

fn carrier(bench: &Bench) -> Judgement {
    match bench.carrier() {
        Ok(problem) => problem.solve(&bench.device, bench.reduced, &bench.tolerances()),
        // everything else hangs on it
        Err(Stop::Skipped(words)) => fail(words),
        Err(stop) => Err(stop),
    }
}

/// A spread of the table's graphs.
fn sample() -> Result<Vec<Problem>, Stop> {
    ops::specs()
        .iter()
        .step_by(37)
        .map(|spec| spec.build().map_err(Stop::Failed))
        .collect()
}

fn same_answers(bench: &Bench) -> Judgement {
    let other = bench.reopen()?;
    for problem in sample()? {
        let first = bench.device.support(&problem.flat)?;
        check!(
            bench.device.support(&problem.flat)? == first,
            "{}: two calls return different answers",
            problem.name
        );
        check!(
            other.support(&problem.flat)? == first,
            "{}: another instance answers differently",
            problem.name
        );
    }
    Ok(())
}

fn reasoned_answers(bench: &Bench) -> Judgement {
    let mut refused = 0;
    for problem in sample()? {
        if let Some(refusal) = bench.device.refusal(&problem.flat)? {
            reasoned(&refusal).map_err(|stop| Stop::Failed(format!("{}: {stop}", problem.name)))?;
            refused += 1;
        }
    }
    if refused == 0 {
        return skip("it supports every tested graph");
    }
    Ok(())
}

fn refused_do_not_compile(bench: &Bench) -> Judgement {
    let mut asked = 0;
    for problem in sample()? {
        if bench.device.refusal(&problem.flat)?.is_none() {
            continue;
        }
        asked += 1;
        // as the model says: what is refused then may be had in 16 bits
        match bench.device.compile(&problem.flat, false) {
            Ok(_) => return fail(format!("{} is refused, but compiles", problem.name)),
            Err(failure) => {
                check!(
                    failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED,
                    "{} is refused, but compile fails with {failure} instead of UNSUPPORTED",
                    problem.name
                );
                check!(
                    !failure.words.is_empty(),
                    "{}: compile fails without a message",
                    problem.name
                );
            }
        }
    }
    if asked == 0 {
        return skip("it supports every tested graph");
    }
    Ok(())
}

fn tensor(graph: &mut Graph, name: &str, dtype: DType, sizes: &[usize]) -> TensorId {
    graph.add_tensor(Tensor::new(name, TensorType::known(dtype, sizes)))
}

fn custom_op(bench: &Bench) -> Judgement {
    let mut graph = Graph::new("custom");
    let x = tensor(&mut graph, "x", DType::F32, &[4]);
    let y = tensor(&mut graph, "y", DType::F32, &[4]);
    graph.add_node(Node::custom("com.example", "Unheard", vec![Some(x)], vec![Some(y)]).named("n"));
    (graph.inputs, graph.outputs) = (vec![x], vec![y]);
    let flat = Arc::new(FlatGraph::new(&graph, &[]).map_err(|error| Stop::Failed(error.to_string()))?);
    match bench.device.refusal(&flat)? {
        None => fail("it claims to support com.example.Unheard"),
        Some(refusal) => {
            reasoned(&refusal)?;
            check!(
                refusal.detail.contains("Unheard") || refusal.detail.contains("ustom"),
                "the refusal does not name the op: {:?}",
                refusal.detail
            );
            Ok(())
        }
    }
}

fn unknown_op(bench: &Bench) -> Judgement {
    let carrier = bench.carrier()?;
    let graph = RawGraph::of(&carrier.flat).edited(|graph| graph.nodes[0].op = 1_000_000);
    match graph.support(&bench.device) {
        Ok(answers) => {
            check!(answers[0].reason != 0, "it claims to support op code 1000000");
            Ok(())
        }
        // a plugin may also refuse the graph as a whole
        Err(failure) => {
            check!(
                !failure.words.is_empty(),
                "the graph is refused without a message"
            );
            Ok(())
        }
    }
}

/// `x -> Relu -> Identity -> ...` over `length` nodes.
fn chain(length: usize) -> Result<Problem, Stop> {
    let mut graph = Graph::new(format!("chain-{length}"));
    let first = tensor(&mut graph, "x", DType::F32, &[1, 3, 5, 7]);
    let mut last = first;
    for index in 0..length {
        let next = tensor(&mut graph, &format!("t{index}"), DType::F32, &[1, 3, 5, 7]);
        let op = if index % 2 == 0 { Op::Relu } else { Op::Identity };
        graph.add_node(Node::new(op, vec![Some(last)], vec![Some(next)]).named(format!("n{index}")));
        last = next;
    }
    (graph.inputs, graph.outputs) = (vec![first], vec![last]);
    problem(graph)
}

/// A graph of f32 inputs with seeded values.
fn problem(graph: Graph) -> Result<Problem, Stop> {
    let inputs = graph
        .inputs
        .iter()
        .map(|id| {
            let tensor = graph.tensor(*id);
            let sizes = tensor.ty.sizes().unwrap_or_default();
            crate::carrier::values(&tensor.name, tensor.ty.dtype, &sizes, -2.0, 3.0)
        })
        .collect();
    Problem::new(graph, inputs).map_err(Stop::Failed)
}

fn long_chain(bench: &Bench) -> Judgement {
    let problem = chain(200)?;
    supported(&bench.device, &problem.flat)?;
    problem.solve(&bench.device, bench.reduced, &bench.tolerances())
}

fn parts_as_whole(bench: &Bench) -> Judgement {
    // a node that is supported in the whole graph is promised for any part of such nodes
    let whole = chain(6)?;
    let answers = bench.device.support(&whole.flat)?;
    let mut asked = false;
    for length in 1..6 {
        let part = chain(length)?;
        if answers[..length].iter().all(|answer| answer.reason == 0) {
            asked = true;
            part.solve(&bench.device, bench.reduced, &bench.tolerances())
                .map_err(|stop| {
                    Stop::Failed(format!("the first {length} nodes of a supported chain: {stop}"))
                })?;
        }
    }
    if !asked {
        return Err(Stop::Refused(crate::problem::reason_words(&answers[0])));
    }
    Ok(())
}

fn empty_graph(bench: &Bench) -> Judgement {
    let graph = Graph::new("empty");
    let flat = Arc::new(FlatGraph::new(&graph, &[]).map_err(|error| Stop::Failed(error.to_string()))?);
    check!(bench.device.support(&flat)?.is_empty(), "answers for no nodes");
    // nothing to run: it compiles or is refused, and neither crashes
    match bench.device.compile(&flat, bench.reduced) {
        Ok(mut blob) => {
            let executable = blob.load()?;
            executable.execute(&[], &[])?.wait()?;
            Ok(())
        }
        Err(failure) => {
            check!(
                !failure.words.is_empty(),
                "an empty graph is refused without a message"
            );
            Ok(())
        }
    }
}

fn output_used_twice(bench: &Bench) -> Judgement {
    // a tensor that is an output and is read on
    let mut graph = Graph::new("output-used-twice");
    let [x, a, b] = ["x", "a", "b"].map(|name| tensor(&mut graph, name, DType::F32, &[1, 3, 5, 7]));
    graph.add_node(Node::new(Op::Relu, vec![Some(x)], vec![Some(a)]).named("first"));
    graph.add_node(Node::new(Op::Add, vec![Some(a), Some(x)], vec![Some(b)]).named("second"));
    (graph.inputs, graph.outputs) = (vec![x], vec![a, b]);
    let problem = problem(graph)?;
    supported(&bench.device, &problem.flat)?;
    problem.solve(&bench.device, bench.reduced, &bench.tolerances())
}

fn input_used_by_two(bench: &Bench) -> Judgement {
    let mut graph = Graph::new("input-used-by-two");
    let [x, y, z] = ["x", "y", "z"].map(|name| tensor(&mut graph, name, DType::F32, &[1, 3, 5, 7]));
    graph.add_node(Node::new(Op::Add, vec![Some(x), Some(x)], vec![Some(y)]).named("double"));
    graph.add_node(Node::new(Op::Relu, vec![Some(x)], vec![Some(z)]).named("relu"));
    (graph.inputs, graph.outputs) = (vec![x], vec![z, y]);
    let problem = problem(graph)?;
    supported(&bench.device, &problem.flat)?;
    problem.solve(&bench.device, bench.reduced, &bench.tolerances())
}

fn control(bench: &Bench, made: Result<Vec<Problem>, Stop>) -> Judgement {
    for problem in made? {
        supported(&bench.device, &problem.flat)?;
        problem.solve(&bench.device, bench.reduced, &bench.tolerances())?;
    }
    Ok(())
}

/// A body of one node, whose captures come first among its inputs.
fn body(attr: Attr, op: Op, of: &[(&str, Option<TensorId>)], output: &str) -> Body {
    let mut graph = Graph::new(attr.name());
    let mut captures = Vec::new();
    let mut inputs = Vec::new();
    for (name, outer) in of {
        let id = tensor(&mut graph, name, DType::F32, &[4]);
        graph.inputs.push(id);
        inputs.push(Some(id));
        if let Some(outer) = outer {
            captures.push(Capture {
                outer: *outer,
                inner: id,
            });
        }
    }
    let y = tensor(&mut graph, output, DType::F32, &[4]);
    graph.add_node(Node::new(op, inputs, vec![Some(y)]).named(output));
    graph.outputs = vec![y];
    Body {
        attr,
        graph,
        captures,
    }
}

/// `y = c ? x + x : relu(x)`, for both values of `c`.
fn if_graph() -> Result<Vec<Problem>, Stop> {
    let mut graph = Graph::new("if");
    let c = tensor(&mut graph, "c", DType::Bool, &[]);
    let x = tensor(&mut graph, "x", DType::F32, &[4]);
    let y = tensor(&mut graph, "y", DType::F32, &[4]);
    let mut node = Node::new(Op::If, vec![Some(c)], vec![Some(y)]).named("if");
    node.bodies = vec![
        body(
            Attr::ThenBranch,
            Op::Add,
            &[("a", Some(x)), ("b", Some(x))],
            "sum",
        ),
        body(Attr::ElseBranch, Op::Relu, &[("a", Some(x))], "relu"),
    ];
    graph.add_node(node);
    (graph.inputs, graph.outputs) = (vec![c, x], vec![y]);
    [0.0, 1.0]
        .into_iter()
        .map(|taken| {
            let inputs = vec![
                crate::value::literal(DType::Bool, &[], &[taken]).map_err(Stop::Failed)?,
                Literal::f32s(&[1.5, -2.0, 0.25, -0.5]),
            ];
            Problem::new(graph.clone(), inputs).map_err(Stop::Failed)
        })
        .collect()
}

/// `x` doubled three times.
fn loop_graph() -> Result<Vec<Problem>, Stop> {
    let mut inner = Graph::new("body");
    let i = tensor(&mut inner, "i", DType::I64, &[]);
    let on = tensor(&mut inner, "on", DType::Bool, &[]);
    let v = tensor(&mut inner, "v", DType::F32, &[4]);
    let still = tensor(&mut inner, "still", DType::Bool, &[]);
    let doubled = tensor(&mut inner, "doubled", DType::F32, &[4]);
    inner.add_node(Node::new(Op::Identity, vec![Some(on)], vec![Some(still)]).named("on"));
    inner.add_node(Node::new(Op::Add, vec![Some(v), Some(v)], vec![Some(doubled)]).named("double"));
    (inner.inputs, inner.outputs) = (vec![i, on, v], vec![still, doubled]);
    let mut graph = Graph::new("loop");
    let count = tensor(&mut graph, "count", DType::I64, &[]);
    let x = tensor(&mut graph, "x", DType::F32, &[4]);
    let y = tensor(&mut graph, "y", DType::F32, &[4]);
    let mut node = Node::new(Op::Loop, vec![Some(count), None, Some(x)], vec![Some(y)]).named("loop");
    node.bodies = vec![Body {
        attr: Attr::Body,
        graph: inner,
        captures: Vec::new(),
    }];
    graph.add_node(node);
    (graph.inputs, graph.outputs) = (vec![count, x], vec![y]);
    [0, 3]
        .into_iter()
        .map(|rounds| {
            let inputs = vec![
                Literal::scalar_i64(rounds),
                Literal::f32s(&[1.5, -2.0, 0.25, -0.5]),
            ];
            Problem::new(graph.clone(), inputs).map_err(Stop::Failed)
        })
        .collect()
}

/// Running sums of the rows of `x`.
fn scan_graph() -> Result<Vec<Problem>, Stop> {
    let mut inner = Graph::new("body");
    let [state, row, sum, out] =
        ["state", "row", "sum", "out"].map(|name| tensor(&mut inner, name, DType::F32, &[4]));
    inner.add_node(Node::new(Op::Add, vec![Some(state), Some(row)], vec![Some(sum)]).named("add"));
    inner.add_node(Node::new(Op::Identity, vec![Some(sum)], vec![Some(out)]).named("out"));
    (inner.inputs, inner.outputs) = (vec![state, row], vec![sum, out]);
    let mut graph = Graph::new("scan");
    let start = tensor(&mut graph, "start", DType::F32, &[4]);
    let x = tensor(&mut graph, "x", DType::F32, &[3, 4]);
    let last = tensor(&mut graph, "last", DType::F32, &[4]);
    let y = tensor(&mut graph, "y", DType::F32, &[3, 4]);
    let mut node = Node::new(Op::Scan, vec![Some(start), Some(x)], vec![Some(last), Some(y)])
        .named("scan")
        .with(Attributes::new().with_int(Attr::NumScanInputs, 1));
    node.bodies = vec![Body {
        attr: Attr::Body,
        graph: inner,
        captures: Vec::new(),
    }];
    graph.add_node(node);
    (graph.inputs, graph.outputs) = (vec![start, x], vec![last, y]);
    Ok(vec![problem(graph)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_flow_graphs_are_graphs() {
        for made in [if_graph(), loop_graph(), scan_graph()] {
            for problem in made.unwrap() {
                assert!(!problem.expected.is_empty(), "{}", problem.name);
            }
        }
    }
}
