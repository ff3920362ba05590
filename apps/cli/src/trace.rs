//! `--trace FILE`: runs, sensors and changes of plan in the Trace Event Format, which Perfetto and Chrome open.
//!
//! Each device is a thread of the process `devices`: a part is a complete event (`X`), a tensor that crosses a flow from
//! the end of a part to the start of another (`s`, `f`), a sensor a counter (`C`), a change of plan and the end of a late run an
//! instant (`i`).
//! Where a device measured what the steps of its parts took, they are complete events of a thread of their own below the
//! device's. A device states how long a step takes, not when it begins: steps lie end to end from the start of their part, and say
//! so (`"start": "end to end"`). The time of a step is measured, never spread over its nodes.
//! Times are microseconds since the first event.
//!
//! Invariant: steps lie within their part, so that none of two runs overlap.
//!
//! Not here: what is traced (`polychip::Session::start_trace`).

use std::collections::BTreeSet;
use std::path::Path;

use polychip::telemetry::{Rules, Sample, Sampler, Sensors};
use polychip::{ChangeReport, Runtime, Session, TracedPart, TracedRun};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The process of the devices, and that of the sensors.
const DEVICES: u32 = 1;
const SENSORS: u32 = 2;

/// A trace file.
#[derive(Debug, Serialize)]
pub(crate) struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<TraceEvent>,
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
    #[serde(rename = "otherData")]
    other: Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct TraceEvent {
    name: String,
    cat: &'static str,
    ph: &'static str,
    ts: f64,
    pid: u32,
    tid: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// Where a flow ends: within the slice that surrounds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    /// What an instant belongs to: the whole trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    args: Value,
}

impl Trace {
    /// Everything that was seen.
    pub(crate) fn new(
        model: &str,
        runs: &[TracedRun],
        left_out: u64,
        samples: &[Sample],
        changes: &[ChangeReport],
    ) -> Trace {
        let starts = runs
            .iter()
            .flat_map(|run| run.parts.iter().map(|part| part.start_ns));
        let sampled = samples.iter().map(|sample| sample.time_ns);
        let first = starts.chain(sampled).min().unwrap_or(0);
        let at = |ns: u64| ns.saturating_sub(first) as f64 / 1e3;
        let names: BTreeSet<&str> = runs
            .iter()
            .flat_map(|run| run.parts.iter().map(|part| part.device.as_str()))
            .collect();
        // the thread of a device, and behind it that of its steps
        let lane = |device: &str| {
            names
                .iter()
                .position(|name| *name == device)
                .map_or(0, |index| 2 * index + 1)
        };
        let has_steps = |device: &str| {
            let mut parts = runs.iter().flat_map(|run| &run.parts);
            parts.any(|part| part.device == device && !part.steps.is_empty())
        };
        let mut events = vec![
            named("process_name", DEVICES, 0, "devices"),
            named("process_name", SENSORS, 0, "sensors"),
        ];
        events.extend(
            names
                .iter()
                .map(|name| named("thread_name", DEVICES, lane(name), name)),
        );
        for name in names.iter().filter(|name| has_steps(name)) {
            let thread = lane(name) + 1;
            events.push(named("thread_name", DEVICES, thread, &format!("{name} steps")));
        }
        for thread in names.iter().flat_map(|name| [lane(name), lane(name) + 1]) {
            events.push(TraceEvent {
                args: json!({ "sort_index": thread }),
                ..named("thread_sort_index", DEVICES, thread, "")
            });
        }
        let mut flow = 0;
        for (index, run) in runs.iter().enumerate() {
            for part in &run.parts {
                events.push(TraceEvent {
                    dur: Some((part.end_ns - part.start_ns) as f64 / 1e3),
                    args: json!({
                        "run": index,
                        "part": part.id,
                        "nodes": part.nodes,
                        "energy_uj": part.energy_uj,
                        "late": run.late_ns.is_some(),
                    }),
                    ..event(
                        format!("part {}", part.id),
                        "part",
                        "X",
                        at(part.start_ns),
                        DEVICES,
                        lane(&part.device),
                    )
                });
                events.extend(steps(index, part, &at, lane(&part.device) + 1));
            }
            for crossing in &run.crossings {
                flow += 1;
                let (from, to) = (&run.parts[crossing.from], &run.parts[crossing.to]);
                let args = json!({ "run": index, "bytes": crossing.bytes, "mode": crossing.mode });
                events.push(TraceEvent {
                    id: Some(flow),
                    args: args.clone(),
                    ..event(
                        crossing.tensor.clone(),
                        "crossing",
                        "s",
                        at(from.end_ns),
                        DEVICES,
                        lane(&from.device),
                    )
                });
                events.push(TraceEvent {
                    id: Some(flow),
                    bp: Some("e"),
                    args,
                    ..event(
                        crossing.tensor.clone(),
                        "crossing",
                        "f",
                        at(to.start_ns),
                        DEVICES,
                        lane(&to.device),
                    )
                });
            }
        }
        for sample in samples {
            for state in &sample.devices {
                for (word, figure, scale) in [
                    ("temperature in °C", &state.temperature_mc, 1e3),
                    ("power in W", &state.power_mw, 1e3),
                    ("clock in MHz", &state.frequency_khz, 1e3),
                    ("load in %", &state.load_permille, 10.0),
                ] {
                    // a sensor that says nothing is no zero
                    let Some(value) = figure.value else { continue };
                    let name = format!("{}: {word}", state.device);
                    events.push(TraceEvent {
                        args: json!({ "value": value as f64 / scale }),
                        ..event(name, "sensor", "C", at(sample.time_ns), SENSORS, 0)
                    });
                }
            }
        }
        for change in changes {
            events.push(TraceEvent {
                s: Some("g"),
                args: json!({ "why": change.words, "pace_permille": change.pace_permille }),
                ..event(
                    format!("→ {}", change.plan),
                    "governor",
                    "i",
                    at(change.time_ns),
                    DEVICES,
                    0,
                )
            });
        }
        for (index, run) in runs.iter().enumerate() {
            let Some(late_ns) = run.late_ns else { continue };
            let end = run.submitted_ns.saturating_add(run.latency_ns);
            events.push(TraceEvent {
                s: Some("g"),
                args: json!({
                    "run": index,
                    "late_us": late_ns as f64 / 1e3,
                    "latency_us": run.latency_ns as f64 / 1e3,
                }),
                ..event(format!("run {index} late"), "late", "i", at(end), DEVICES, 0)
            });
        }
        let mut other = Map::new();
        other.insert("model".to_owned(), json!(model));
        other.insert("runs_left_out".to_owned(), json!(left_out));
        Trace {
            events,
            unit: "ms",
            other,
        }
    }

    /// Writes the file.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        crate::file::write(path, &serde_json::to_vec(self)?)
    }
}

/// The steps of a part, end to end from its start and no further than its end.
fn steps(
    run: usize,
    part: &TracedPart,
    at: &dyn Fn(u64) -> f64,
    thread: usize,
) -> impl Iterator<Item = TraceEvent> {
    let mut now = part.start_ns;
    part.steps.iter().map(move |step| {
        let start = now;
        now = start.saturating_add(step.time_ns).min(part.end_ns);
        let mut ops: Vec<&str> = Vec::new();
        for node in &step.nodes {
            if !ops.contains(&node.op.as_str()) {
                ops.push(&node.op);
            }
        }
        let name = match (ops.is_empty(), step.is_reference) {
            (true, _) => step.kernel.clone(),
            (false, false) => ops.join("+"),
            (false, true) => format!("{} (reference)", ops.join("+")),
        };
        let nodes: Vec<&str> = step.nodes.iter().map(|node| &*node.name).collect();
        TraceEvent {
            dur: Some((now - start) as f64 / 1e3),
            args: json!({
                "run": run,
                "part": part.id,
                "nodes": nodes,
                "kernel": step.kernel,
                "measured_us": step.time_ns as f64 / 1e3,
                "start": "end to end",
                "operations": step.operations,
                "moved_bytes": step.moved_bytes,
                "reference": step.is_reference,
                "emulated": part.emulated,
            }),
            ..event(name, "step", "X", at(start), DEVICES, thread)
        }
    })
}

/// Runs that a trace holds.
const RUNS: usize = 1000;
/// Least time between two samples of the sensors, so that runs are not held up.
const EVERY: std::time::Duration = std::time::Duration::from_millis(50);

/// A session whose runs are traced, and the sensors meanwhile.
pub(crate) struct Watched<'a> {
    session: &'a Session,
    sampler: Sampler,
    samples: Vec<Sample>,
    last: std::time::Instant,
}

/// What was seen of a session.
pub(crate) struct Seen {
    runs: Vec<TracedRun>,
    left_out: u64,
    samples: Vec<Sample>,
    changes: Vec<ChangeReport>,
}

impl<'a> Watched<'a> {
    /// Watches a session from now on, with what steps of its runs take where that is asked for.
    pub(crate) fn new(runtime: &Runtime, session: &'a Session, steps: bool) -> Watched<'a> {
        let mut sampler = Sampler::new(runtime, Sensors::of_this_machine(&Rules::default()));
        let samples = vec![sampler.sample()];
        if steps {
            session.start_op_trace(RUNS)
        } else {
            session.start_trace(RUNS)
        }
        Watched {
            session,
            sampler,
            samples,
            last: std::time::Instant::now(),
        }
    }

    /// Reads the sensors between two runs, where the last time is long enough ago.
    pub(crate) fn look(&mut self) {
        if self.last.elapsed() >= EVERY {
            self.samples.push(self.sampler.sample());
            self.last = std::time::Instant::now();
        }
    }

    /// All that was seen so far.
    pub(crate) fn end(mut self) -> Seen {
        self.samples.push(self.sampler.sample());
        let (runs, left_out) = self.session.trace();
        let governed = self.session.governed();
        Seen {
            runs,
            left_out,
            samples: self.samples,
            changes: governed.map_or_else(Vec::new, |governed| governed.changes),
        }
    }
}

impl Seen {
    /// Adds runs of later.
    pub(crate) fn add<'r>(&mut self, runs: impl IntoIterator<Item = &'r TracedRun>) {
        self.runs.extend(runs.into_iter().cloned());
    }

    /// Writes the file.
    pub(crate) fn write(&self, model: &str, path: &Path) -> anyhow::Result<()> {
        Trace::new(model, &self.runs, self.left_out, &self.samples, &self.changes).write(path)
    }
}

fn event(name: String, cat: &'static str, ph: &'static str, ts: f64, pid: u32, tid: usize) -> TraceEvent {
    TraceEvent {
        name,
        cat,
        ph,
        ts,
        pid,
        tid,
        dur: None,
        id: None,
        bp: None,
        s: None,
        args: json!({}),
    }
}

fn named(kind: &str, pid: u32, tid: usize, name: &str) -> TraceEvent {
    TraceEvent {
        args: json!({ "name": name }),
        ..event(kind.to_owned(), "__metadata", "M", 0.0, pid, tid)
    }
}

#[cfg(test)]
mod tests {
    use polychip::telemetry::{DeviceState, Figure};
    use polychip::{TracedCrossing, TracedNode, TracedStep};

    use super::*;

    fn part(id: &str, device: &str, start_ns: u64, end_ns: u64) -> TracedPart {
        TracedPart {
            id: id.to_owned(),
            device: device.to_owned(),
            emulated: false,
            steps: Vec::new(),
            nodes: 3,
            start_ns,
            end_ns,
            energy_uj: None,
        }
    }

    /// Two steps: one of two nodes, and one that says to have taken longer than is left of its part.
    fn steps() -> Vec<TracedStep> {
        let node = |name: &str, op: &str| TracedNode {
            name: name.to_owned(),
            op: op.to_owned(),
        };
        let step = |nodes, kernel: &str, time_ns, is_reference| TracedStep {
            nodes,
            kernel: kernel.to_owned(),
            time_ns,
            operations: None,
            moved_bytes: None,
            is_reference,
        };
        vec![
            step(
                vec![node("c", "Conv"), node("r", "Relu"), node("q", "Relu")],
                "conv",
                1_000,
                false,
            ),
            step(vec![node("u", "Unique")], "scan", 900, true),
        ]
    }

    /// The file as a program reads it that knows the format only.
    fn read() -> Vec<Value> {
        let run = TracedRun {
            parts: vec![
                part("a", "gpu:0", 5_000, 9_000),
                TracedPart {
                    steps: steps(),
                    ..part("b", "cpu:0", 10_500, 12_000)
                },
            ],
            crossings: vec![TracedCrossing {
                tensor: "x".to_owned(),
                bytes: Some(64),
                mode: "copy",
                from: 0,
                to: 1,
            }],
            submitted_ns: 4_000,
            latency_ns: 8_000,
            late_ns: Some(3_000),
        };
        let figure = |value| Figure {
            value,
            from: String::new(),
        };
        let state = DeviceState {
            device: "gpu:0".to_owned(),
            emulated: false,
            lost: false,
            temperature_mc: figure(Some(45_500)),
            power_mw: figure(Some(301_000)),
            energy_uj: figure(None),
            frequency_khz: figure(None),
            allowed_khz: figure(None),
            load_permille: figure(None),
            others_permille: figure(None),
            throttle: figure(None),
        };
        let sample = Sample {
            time_ns: 6_000,
            devices: vec![state],
            battery: None,
            heat: polychip::telemetry::Heat {
                status: figure(None),
                headroom_permille: figure(None),
            },
            surface_mc: figure(None),
            package_mc: figure(None),
        };
        let change = ChangeReport {
            time_ns: 9_500,
            plan: "only cpu:0".to_owned(),
            pace_permille: 1000,
            words: "hot".to_owned(),
        };
        let trace = Trace::new("m.onnx", &[run], 2, &[sample], &[change]);
        let text = serde_json::to_string(&trace).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&read["displayTimeUnit"], &read["otherData"]["runs_left_out"]),
            (&json!("ms"), &json!(2))
        );
        read["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn events_have_the_fields_of_their_phase() {
        for event in read() {
            let ph = event["ph"].as_str().unwrap();
            for field in ["name", "cat"] {
                assert!(event[field].is_string(), "{event}");
            }
            for field in ["ts", "pid", "tid"] {
                assert!(event[field].is_number(), "{event}");
            }
            match ph {
                "X" => assert!(event["dur"].as_f64().unwrap() >= 0.0),
                "s" | "f" => assert!(event["id"].is_u64(), "{event}"),
                "C" => assert!(event["args"]["value"].is_number(), "{event}"),
                "i" => assert_eq!(event["s"], "g"),
                "M" if event["name"] == "thread_sort_index" => {
                    assert!(event["args"]["sort_index"].is_u64(), "{event}");
                }
                "M" => assert!(event["args"]["name"].is_string(), "{event}"),
                other => panic!("phase {other}"),
            }
        }
    }

    #[test]
    fn parts_are_on_device_lanes_and_flows_connect_them() {
        let events = read();
        let of = |ph: &str| -> Vec<&Value> { events.iter().filter(|event| event["ph"] == ph).collect() };
        let lane = |device: &str| {
            let found = events
                .iter()
                .find(|event| event["name"] == "thread_name" && event["args"]["name"] == device);
            found.unwrap()["tid"].clone()
        };
        let parts: Vec<&Value> = of("X")
            .into_iter()
            .filter(|event| event["cat"] == "part")
            .collect();
        assert_eq!(
            (&parts[0]["tid"], &parts[1]["tid"]),
            (&lane("gpu:0"), &lane("cpu:0"))
        );
        assert_ne!(lane("gpu:0"), lane("cpu:0"));
        // microseconds since the first event
        assert_eq!(
            (parts[0]["ts"].as_f64(), parts[0]["dur"].as_f64()),
            (Some(0.0), Some(4.0))
        );
        let (start, end) = (of("s")[0], of("f")[0]);
        assert_eq!((&start["id"], &start["ts"]), (&end["id"], &json!(4.0)));
        assert_eq!((&end["ts"], &end["tid"]), (&json!(5.5), &lane("cpu:0")));
        let counters = of("C");
        assert_eq!(counters.len(), 2, "what a sensor does not say is no counter");
        assert_eq!(counters[1]["args"]["value"], 301.0);
        assert_eq!(of("i")[0]["args"]["why"], "hot");
        // it ended 12 µs after the clock's start, of which the first part's start is 5
        let late = of("i")[1];
        assert_eq!(
            (
                &late["name"],
                late["ts"].as_f64(),
                late["args"]["late_us"].as_f64()
            ),
            (&json!("run 0 late"), Some(7.0), Some(3.0))
        );
        assert_eq!(parts[0]["args"]["late"], true);
    }

    #[test]
    fn steps_fill_their_part_on_a_thread_below_the_devices() {
        let events = read();
        let thread = |name: &str| {
            let found = events
                .iter()
                .find(|event| event["name"] == "thread_name" && event["args"]["name"] == name);
            found.map(|event| event["tid"].as_u64().unwrap())
        };
        assert_eq!(thread("cpu:0 steps"), thread("cpu:0").map(|tid| tid + 1));
        assert_eq!(thread("gpu:0 steps"), None, "it measures none");
        let steps: Vec<&Value> = events.iter().filter(|event| event["cat"] == "step").collect();
        let lie = |event: &Value| {
            (
                event["name"].as_str().unwrap().to_owned(),
                event["ts"].as_f64().unwrap(),
                event["dur"].as_f64().unwrap(),
            )
        };
        // the part lasts from 5.5 to 7.0; the second step is cut there, and states its measured
        // time
        assert_eq!(lie(steps[0]), ("Conv+Relu".to_owned(), 5.5, 1.0));
        assert_eq!(lie(steps[1]), ("Unique (reference)".to_owned(), 6.5, 0.5));
        assert_eq!(steps[1]["args"]["measured_us"], 0.9);
        assert_eq!(
            (&steps[0]["args"]["nodes"], &steps[0]["args"]["reference"]),
            (&json!(["c", "r", "q"]), &json!(false))
        );
        assert_eq!(steps[0]["tid"].as_u64(), thread("cpu:0 steps"));
    }
}
