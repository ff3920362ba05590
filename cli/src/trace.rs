//! `--trace FILE`: runs, sensors and changes of plan in the Trace Event Format, which Perfetto and Chrome open.
//!
//! Each device is a thread of the process `devices`: a part is a complete event (`X`), a tensor that crosses a flow from
//! the end of a part to the start of another (`s`, `f`), a sensor a counter (`C`), a change of plan and the end of a late run an
//! instant (`i`).
//! Times are microseconds since the first event.
//!
//! Not here: what is traced (`polychip::Session::start_trace`).

use std::collections::BTreeSet;
use std::path::Path;

use polychip::telemetry::{Rules, Sample, Sampler, Sensors};
use polychip::{ChangeReport, Runtime, Session, TracedRun};
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
        let lane = |device: &str| {
            names
                .iter()
                .position(|name| *name == device)
                .map_or(0, |index| index + 1)
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

impl<'a> Watched<'a> {
    pub(crate) fn new(runtime: &Runtime, session: &'a Session) -> Watched<'a> {
        let mut sampler = Sampler::new(runtime, Sensors::of_this_machine(&Rules::default()));
        let samples = vec![sampler.sample()];
        session.start_trace(RUNS);
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

    /// Writes the file.
    pub(crate) fn write(mut self, model: &str, path: &Path) -> anyhow::Result<()> {
        self.samples.push(self.sampler.sample());
        let (runs, left_out) = self.session.trace();
        let changes = self
            .session
            .governed()
            .map_or_else(Vec::new, |governed| governed.changes);
        Trace::new(model, &runs, left_out, &self.samples, &changes).write(path)
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
    use polychip::{TracedCrossing, TracedPart};

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

    /// The file as a program reads it that knows the format only.
    fn read() -> Vec<Value> {
        let run = TracedRun {
            parts: vec![
                part("a", "gpu:0", 5_000, 9_000),
                part("b", "cpu:0", 10_500, 12_000),
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
    fn every_event_has_what_its_phase_needs() {
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
                "M" => assert!(event["args"]["name"].is_string(), "{event}"),
                other => panic!("phase {other}"),
            }
        }
    }

    #[test]
    fn parts_lie_on_their_devices_lanes_and_flows_join_them() {
        let events = read();
        let of = |ph: &str| -> Vec<&Value> { events.iter().filter(|event| event["ph"] == ph).collect() };
        let lane = |device: &str| {
            let found = events
                .iter()
                .find(|event| event["name"] == "thread_name" && event["args"]["name"] == device);
            found.unwrap()["tid"].clone()
        };
        let parts = of("X");
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
}
