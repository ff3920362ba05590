//! The page of figures: one table per precision and number of threads, from the raw results.

use std::fmt::Write;

use serde_json::Value;

/// A group of runtimes and models that are compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Group {
    /// Everything in f32
    Float,
    /// Float models, with 16-bit computation allowed
    Half,
    /// Models quantised to 8 bits
    Bytes,
}

impl Group {
    /// Peers, as `peers.py` names them.
    pub(super) fn peers(self) -> &'static [&'static str] {
        match self {
            Group::Float => &[
                "onnxruntime",
                "openvino-f32",
                "litert",
                "ncnn",
                "mnn",
                "rten",
                "tract",
            ],
            Group::Half => &["openvino", "ncnn-bf16"],
            Group::Bytes => &["onnxruntime", "openvino", "rten", "tract"],
        }
    }

    /// The name of our runner.
    pub(super) fn ours(self) -> &'static str {
        match self {
            Group::Float | Group::Bytes => "polychip",
            Group::Half => "polychip-reduced",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Group::Float => "f32",
            Group::Half => "16 bits allowed (`--precision reduced`; OpenVINO as installed)",
            Group::Bytes => "8 bits (QDQ models)",
        }
    }
}

/// Results of one call of `peers.py`.
pub(super) struct Run {
    pub(super) groups: Vec<Group>,
    pub(super) json: Value,
}

/// The geometric mean.
fn mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

/// Three digits.
fn short(ms: f64) -> String {
    let digits = if ms >= 100.0 {
        0
    } else if ms >= 10.0 {
        1
    } else if ms >= 1.0 {
        2
    } else {
        3
    };
    format!("{ms:.digits$}")
}

/// One table of a group, with a line on its ratios.
fn table(group: Group, json: &Value) -> String {
    let threads = json["threads"].as_u64().unwrap_or(0);
    let mut text = format!(
        "\n## {}, {threads} thread{}\n\n",
        group.title(),
        if threads == 1 { "" } else { "s" }
    );
    let empty = serde_json::Map::new();
    let models = json["models"].as_object().unwrap_or(&empty);
    let figure = |model: &Value, peer: &str, what: &str| model["peers"][peer][what].as_f64();
    let peers: Vec<&str> = group
        .peers()
        .iter()
        .copied()
        .filter(|peer| {
            models
                .values()
                .any(|model| figure(model, peer, "p50_ms").is_some())
        })
        .collect();
    let _ = writeln!(
        text,
        "| model | {} | {} | ratio to the best, p50 (p10) | deviation | peak GFLOP/s p50 (p10) | fork-join µs p50 (p10) | busy turns |",
        group.ours(),
        peers.join(" | ")
    );
    let _ = writeln!(text, "|{}", "---|".repeat(peers.len() + 7));
    let mut ratios = [Vec::new(), Vec::new()];
    for (name, model) in models {
        let cell = |peer: &str| match (figure(model, peer, "p50_ms"), figure(model, peer, "p10_ms")) {
            (Some(median), Some(low)) => format!("{} ({})", short(median), short(low)),
            _ => "–".to_owned(),
        };
        let ratio = |what: &str| {
            let best = peers
                .iter()
                .filter_map(|peer| figure(model, peer, what))
                .min_by(f64::total_cmp);
            Some(figure(model, group.ours(), what)? / best?)
        };
        let pair = [ratio("p50_ms"), ratio("p10_ms")];
        for (all, ratio) in ratios.iter_mut().zip(pair) {
            all.extend(ratio);
        }
        let written =
            |ratio: Option<f64>| ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
        let machine = |what: &str, digits: usize| {
            let at = |end: &str| model["machine"][format!("{what}_{end}")].as_f64();
            match (at("p50"), at("p10")) {
                (Some(median), Some(low)) => format!("{median:.digits$} ({low:.digits$})"),
                _ => "–".to_owned(),
            }
        };
        let cells: Vec<String> = peers.iter().map(|peer| cell(peer)).collect();
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} ({}) | {} | {} | {} | {} of {} |",
            cell(group.ours()),
            cells.join(" | "),
            written(pair[0]),
            written(pair[1]),
            figure(model, group.ours(), "rel_err")
                .map_or_else(|| "–".to_owned(), |error| format!("{error:.1e}")),
            machine("peak_gflops", 0),
            machine("fork_us", 2),
            model["busy_turns"],
            model["turns"],
        );
    }
    if let [Some(median), Some(low)] = ratios.each_ref().map(|all| mean(all)) {
        let worst = ratios[0].iter().copied().fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "\nGeometric mean of the ratios {median:.3} at p50, {low:.3} at p10; worst {worst:.2} at p50."
        );
    }
    text
}

/// The whole page.
pub(super) fn page(machine: &str, versions: &str, command: &str, folder: &str, runs: &[Run]) -> String {
    let mut text = format!(
        "# CPU figures\n\n\
         {machine}. {versions}. Written by `cargo xtask {command}`; raw files in [{folder}/]({folder}/).\n\n\
         Milliseconds per inference at batch 1: the median, and p10 in brackets. All runtimes of a table alternate in one run; a *round* is one turn of each.\n\n\
         - **ratio**: Polychip's time divided by that of the row's fastest other runtime, chosen separately for p50 and p10.\n\
         - **deviation**: largest difference from ONNX Runtime's output, divided by the largest value of that output.\n\
         - **peak GFLOP/s**: multiply-adds in registers on the row's threads, measured in the same rounds. For rates, p10 is the fast end.\n\
         - **fork-join µs**: time that starting and joining threads adds to a parallel step; with one thread, only noise around 0.\n\
         - **busy turns**: turns that began although other processes kept the machine busy, and the number of all turns.\n\n\
         `{folder}/sequence-*.txt` lists each model's convolutions in order, with their share of the peak rate.\n"
    );
    for group in [Group::Float, Group::Half, Group::Bytes] {
        for run in runs.iter().filter(|run| run.groups.contains(&group)) {
            text += &table(group, &run.json);
        }
    }
    text
}

/// The section of `load.py`'s figures for one number of threads.
pub(super) fn load(json: &Value) -> String {
    let mut text = format!(
        "\n## Loading, {} thread(s)\n\n\
         Medians of {} interleaved starts, each in a new process with the model file in the page cache.\n\n\
         - **first result**: from before the session is created to the end of the first inference.\n\
         - **peak**: peak memory of the process; in brackets, without what it held before (Python and its modules; nothing for Polychip).\n\n\
         | model | runtime | first result ms | peak MB |\n|---|---|---|---|\n",
        json["threads"], json["rounds"]
    );
    let empty = serde_json::Map::new();
    for (model, runtimes) in json["models"].as_object().unwrap_or(&empty) {
        for (runtime, figures) in runtimes.as_object().unwrap_or(&empty) {
            let figure = |what: &str, scale: f64| figures[what].as_f64().map_or(f64::NAN, |x| x * scale);
            let _ = writeln!(
                text,
                "| {model} | {runtime} | {} | {} ({}) |",
                short(figure("first_result_s", 1e3)),
                short(figure("peak_bytes", 1e-6)),
                short(figure("own_bytes", 1e-6))
            );
        }
    }
    text
}

/// The section of `threads.py`'s figures.
pub(super) fn threads(json: &Value) -> String {
    let mut text = "\n## Threads\n\n\
         p10 of Polychip alone; runs with one and two threads alternate. In the tables above it alternates with other runtimes, so its times differ.\n\n\
         - **gain**: speedup from the second thread; in brackets, that of the machine's peak rate.\n\
         - **fork-join µs**: time that starting and joining threads adds to a parallel step; in brackets, a cache line's round trip to the other core.\n\
         - **after a run**: share of processor time used from 1 ms to 11 ms after a run.\n\
         - **two sessions**: wall and processor time of two concurrent sessions, relative to the same runs in one session.\n\n\
         | model | 1 thread ms | 2 threads ms | gain (machine) | fork-join µs (round trip) | after a run | two sessions |\n\
         |---|---|---|---|---|---|---|\n"
        .to_owned();
    let empty = serde_json::Map::new();
    for (model, figures) in json.as_object().unwrap_or(&empty) {
        let figure = |what: &str| figures[what].as_f64().unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "| {model} | {} | {} | {:.2} ({:.2}) | {:.2} ({:.2}) | {:.1} % | {:.2}, {:.2} |",
            short(figure("one_ms")),
            short(figure("two_ms")),
            figure("gain"),
            figure("machine_gain"),
            figure("fork_us"),
            figure("round_trip_us"),
            figure("after_run_share") * 100.0,
            figure("two_sessions_wall"),
            figure("two_sessions_cpu"),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_costs_show_every_figure() {
        let json: Value = serde_json::from_str(
            r#"{"threads": 2, "rounds": 7, "models": {"a": {"polychip":
                {"first_result_s": 0.0815, "peak_bytes": 2.5e8, "own_bytes": 1.25e8}}}}"#,
        )
        .unwrap();
        let text = load(&json);
        assert!(text.contains("| a | polychip | 81.5 | 250 (125) |"), "{text}");
        let json: Value = serde_json::from_str(
            r#"{"a": {"one_ms": 4.0, "two_ms": 2.0, "gain": 2.0, "machine_gain": 1.98, "fork_us": 0.11,
                "round_trip_us": 0.05, "after_run_share": 0.004, "two_sessions_wall": 1.01, "two_sessions_cpu": 0.99}}"#,
        )
        .unwrap();
        let text = threads(&json);
        assert!(
            text.contains("| a | 4.00 | 2.00 | 2.00 (1.98) | 0.11 (0.05) | 0.4 % | 1.01, 0.99 |"),
            "{text}"
        );
    }

    #[test]
    fn table_compares_with_the_best_available_peer() {
        let json: Value = serde_json::from_str(
            r#"{"threads": 2, "models": {
                "a": {"busy_turns": 1, "turns": 9, "machine": {"peak_gflops_p50": 110.2, "peak_gflops_p10": 117.0},
                      "peers": {"polychip": {"p50_ms": 2.0, "p10_ms": 1.0, "rel_err": 1e-6},
                                "onnxruntime": {"p50_ms": 4.0, "p10_ms": 2.0}, "ncnn": {"p50_ms": 8.0, "p10_ms": 1.5},
                                "openvino": {"p50_ms": 0.1, "p10_ms": 0.1}}},
                "b": {"busy_turns": 0, "turns": 9,
                      "peers": {"polychip": {"p50_ms": 12.0, "p10_ms": 8.0}, "ncnn": {"p50_ms": 6.0, "p10_ms": 4.0}}}}}"#,
        )
        .unwrap();
        let text = table(Group::Float, &json);
        assert!(text.contains("## f32, 2 threads"), "{text}");
        assert!(!text.contains("openvino") && !text.contains("litert"), "{text}");
        assert!(
            text.contains("| a | 2.00 (1.00) | 4.00 (2.00) | 8.00 (1.50) | 0.50 (0.67) | 1.0e-6 | 110 (117) | – | 1 of 9 |"),
            "{text}"
        );
        assert!(
            text.contains("| b | 12.0 (8.00) | – | 6.00 (4.00) | 2.00 (2.00) |"),
            "{text}"
        );
        // √(0.5 · 2) and √(2/3 · 2)
        assert!(text.contains("1.000 at p50, 1.155 at p10; worst 2.00"), "{text}");
    }
}
