//! Rounds on a session: runs in flight, awaited in any order, with their outcomes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use polychip::{ErrorKind, Event, EventKind, Input, Policy, Run, Runtime, Session};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

use crate::model::{self, node, port};

/// Far more than a run takes with all that may happen to it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Values of the input that rounds choose from.
const VALUES: usize = 8;

/// A model of one input `x`, with what the CPU makes of each value.
pub(crate) struct Case {
    pub(crate) file: String,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<Vec<u8>>>,
    /// Largest difference of an output that holds floats; 0 compares bytes.
    tolerance: f32,
}

/// What became of the rounds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) submitted: u64,
    pub(crate) right: u64,
    pub(crate) errors: u64,
    /// Runs that nobody waited for.
    pub(crate) dropped: u64,
    pub(crate) events: BTreeMap<EventKind, u64>,
}

impl Case {
    /// A chain with side branches over `x`, an element type and a size, and its answers on the CPU.
    pub(crate) fn new(
        folder: &Path,
        dtype: u64,
        size: usize,
        tolerance: f32,
        value: fn(usize) -> Vec<u8>,
    ) -> Case {
        let dims = [size.to_string()];
        let dims = [dims[0].as_str()];
        let made = model::Model {
            nodes: vec![
                node("Neg", "neg", &["x"], &["a"]),
                node("Abs", "abs", &["a"], &["b"]),
                node("Add", "add", &["b", "x"], &["c"]),
                node("Mul", "mul", &["c", "a"], &["d"]),
                node("Sub", "sub", &["d", "b"], &["e"]),
                node("Neg", "last", &["e"], &["f"]),
            ],
            inputs: vec![port("x", dtype, &dims)],
            outputs: vec![port("c", dtype, &dims), port("f", dtype, &dims)],
            ..model::Model::default()
        };
        let file = made.write(folder, "faults.onnx");
        let inputs: Vec<Vec<u8>> = (0..VALUES)
            .map(|index| (0..size).flat_map(|place| value(index * 31 + place)).collect())
            .collect();
        let runtime = Runtime::builder().only_given_folders().build().unwrap();
        let session = runtime
            .session(&runtime.load(&file).unwrap(), Policy::latency().devices(["cpu"]))
            .unwrap();
        let mut input = session.input("x").unwrap();
        let outputs = inputs
            .iter()
            .map(|bytes| {
                input.write_bytes(bytes).unwrap();
                outputs(&session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap())
            })
            .collect();
        Case {
            file,
            inputs,
            outputs,
            tolerance,
        }
    }

    fn check(&self, value: usize, found: &[Vec<u8>]) {
        for (found, wanted) in found.iter().zip(&self.outputs[value]) {
            if self.tolerance == 0.0 {
                assert!(found == wanted, "a wrong answer for value {value}");
                continue;
            }
            let floats = |bytes: &[u8]| -> Vec<f32> {
                let chunks = bytes.chunks_exact(4);
                chunks
                    .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
                    .collect()
            };
            for (found, wanted) in floats(found).iter().zip(floats(wanted)) {
                let close = (found - wanted).abs() <= self.tolerance * wanted.abs().max(1.0);
                assert!(close, "{found} instead of {wanted} for value {value}");
            }
        }
    }
}

fn outputs(outputs: &polychip::Outputs) -> Vec<Vec<u8>> {
    (0..outputs.len())
        .map(|index| outputs.at(index).unwrap().bytes().to_vec())
        .collect()
}

impl Tally {
    /// Plays rounds on a session of a policy for `in_flight` runs.
    pub(crate) fn play(
        &mut self,
        case: &Case,
        session: &Session,
        in_flight: usize,
        rounds: u64,
        rng: &mut impl Rng,
    ) {
        let earlier = (self.right, self.errors, self.dropped);
        let mut inputs: Vec<Input> = (0..in_flight).map(|_| session.input("x").unwrap()).collect();
        let mut values = vec![0; in_flight];
        let mut free: Vec<usize> = (0..in_flight).collect();
        let mut flying: Vec<(usize, Run)> = Vec::new();
        for _ in 0..rounds {
            free.shuffle(rng);
            let place = free.pop().expect("at most as many runs as inputs");
            values[place] = rng.random_range(0..VALUES);
            // the input is this round's alone, whatever became of its last run
            self.write(&mut inputs[place], &case.inputs[values[place]]);
            self.submitted += 1;
            match session.submit(&[&inputs[place]]) {
                Ok(run) => flying.push((place, run)),
                Err(error) => {
                    self.failed(&error);
                    free.push(place);
                }
            }
            while flying.len() == in_flight || (!flying.is_empty() && rng.random_ratio(1, 3)) {
                let (place, run) = flying.swap_remove(rng.random_range(0..flying.len()));
                free.push(place);
                if rng.random_ratio(1, 20) {
                    self.dropped += 1;
                    drop(run);
                } else {
                    self.end(case, values[place], run);
                }
            }
        }
        for (place, run) in flying {
            self.end(case, values[place], run);
        }
        let now = (self.right, self.errors, self.dropped);
        assert_eq!(
            now.0 + now.1 + now.2 - earlier.0 - earlier.1 - earlier.2,
            rounds,
            "every run ended once"
        );
        self.check_report(session, now.0 - earlier.0);
    }

    fn write(&self, input: &mut Input, bytes: &[u8]) {
        // of a run that was dropped, only the end sets its input free
        for _ in 0..60_000 {
            match input.write_bytes(bytes) {
                Ok(()) => return,
                Err(error) if error.kind() == ErrorKind::InFlight => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
        panic!("an input of a dropped run never comes back: {self:?}");
    }

    fn end(&mut self, case: &Case, value: usize, run: Run) {
        match run.wait(PATIENCE) {
            Ok(found) => {
                case.check(value, &outputs(&found));
                self.right += 1;
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &polychip::Error) {
        let named = error.to_string();
        let devices = ["null:", "qnn:", "cpu:"];
        assert!(
            devices.iter().any(|device| named.contains(device)),
            "names no device: {named}"
        );
        assert!(
            matches!(error.kind(), ErrorKind::DeviceLost | ErrorKind::DeviceFailed),
            "{:?}: {named}",
            error.kind()
        );
        self.errors += 1;
    }

    /// The report's figures add up, and each event says why.
    fn check_report(&mut self, session: &Session, right: u64) {
        let report = session.report();
        assert_eq!(report.runs, right, "{report}");
        for kind in EventKind::ALL {
            *self.events.entry(kind).or_default() += report.count(kind);
            let listed = report.events.iter().filter(|event| event.kind == kind);
            let listed: u64 = listed.map(|event| event.count).sum();
            assert_eq!(listed, report.count(kind), "{report}");
        }
        let named = |event: &Event| event.device.contains(':') && !event.words.is_empty();
        assert!(report.events.iter().all(named), "{report}");
        // each loss was answered: by a reset, by one that failed, or by doing without the device
        let often = |event: &&Event| event.kind == EventKind::Replanned && event.words.starts_with("lost ");
        let left_out: u64 = report.events.iter().filter(often).map(|event| event.count).sum();
        assert_eq!(
            report.count(EventKind::Lost),
            report.count(EventKind::Reset) + report.count(EventKind::ResetFailed) + left_out,
            "{report}"
        );
        assert!(report.to_string().lines().count() > report.events.len());
    }

    pub(crate) fn of(&self, kind: EventKind) -> u64 {
        self.events.get(&kind).copied().unwrap_or_default()
    }
}
