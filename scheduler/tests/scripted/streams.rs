//! Chains of operations as models, and sessions with periodic or endless runs, on virtual time.

use std::time::Duration;

use polychip::{Input, Model, Run, Runtime, Session};

use crate::model::{self, F32, node, port};

/// A chain of these ops, the first of each pair being its op and the second its name.
pub(crate) fn chain(runtime: &Runtime, ops: &[(&str, &str)]) -> Model {
    let tensor = |index: usize| match index {
        0 => "x".to_owned(),
        _ => format!("t{index}"),
    };
    let nodes = ops.iter().enumerate();
    let nodes = nodes.map(|(index, (op, name))| node(op, name, &[&tensor(index)], &[&tensor(index + 1)]));
    let made = model::Model {
        nodes: nodes.collect(),
        inputs: vec![port("x", F32, &["4"])],
        outputs: vec![port(&tensor(ops.len()), F32, &["4"])],
        ..model::Model::default()
    };
    runtime.load_bytes("made.onnx", made.bytes()).unwrap()
}

pub(crate) fn filled(session: &Session) -> Input {
    let mut input = session.input("x").unwrap();
    input.write(&[-0.5f32; 4]).unwrap();
    input
}

/// Runs that come every so often, or without end one after the other.
pub(crate) struct Stream {
    pub(crate) session: Session,
    input: Input,
    period_ns: Option<u64>,
    next_ns: u64,
    pub(crate) live: Vec<Run>,
    pub(crate) worst: Duration,
    pub(crate) late: u64,
    pub(crate) runs: u64,
}

impl Stream {
    pub(crate) fn new(session: Session, period_ns: Option<u64>) -> Stream {
        Stream {
            input: filled(&session),
            session,
            period_ns,
            next_ns: 0,
            live: Vec::new(),
            worst: Duration::ZERO,
            late: 0,
            runs: 0,
        }
    }

    pub(crate) fn go_on(&mut self, now_ns: u64) {
        let is_due = match self.period_ns {
            Some(_) => now_ns >= self.next_ns,
            None => self.live.is_empty(),
        };
        if is_due {
            self.live.push(self.session.submit(&[&self.input]).unwrap());
            // no closer than the period, whenever it was looked at
            self.next_ns = now_ns + self.period_ns.unwrap_or(0);
        }
        self.poll(Duration::ZERO);
    }

    pub(crate) fn poll(&mut self, step: Duration) {
        let (period_ns, mut ended) = (self.period_ns, Vec::new());
        self.live.retain_mut(|run| match run.poll(step).unwrap() {
            Some(outputs) => {
                ended.push(outputs.latency());
                false
            }
            None => true,
        });
        for latency in ended {
            self.runs += 1;
            self.worst = self.worst.max(latency);
            let is_late = period_ns.is_some_and(|period| latency > Duration::from_nanos(period));
            self.late += u64::from(is_late);
        }
    }
}
