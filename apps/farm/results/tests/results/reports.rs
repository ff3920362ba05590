//! Reports: cells, JUnit's XML, the page.

use polychip_farm_record::{EnergyOutcome, Failure, Outcome, PlannedPart, Record, RefusedOps};
use polychip_farm_results::compare::Options;
use polychip_farm_results::report::{Snapshot, Status};
use polychip_farm_results::{Report, Run, compare};

use crate::made::{item, run, selected, timed};

/// Letters that are markup where they are not escaped.
const NASTY: &str = "</style><script>alert(1)</script><b>&\"'";

/// So many batches of each item on two board types, a run per night; the last one is slower on one of them.
fn nights(items: usize, batches: u64) -> Vec<Run> {
    let night = |night: u64| {
        let mut records = Vec::new();
        for at in 0..items {
            for batch in 0..batches {
                for (place, soc) in [("desk", "SM8650"), ("shelf", "RK3588")] {
                    let slower = if night == 2 && place == "desk" { 1.1 } else { 1.0 };
                    let ns = (1e6 * (1.0 + at as f64) * slower) as u64 + batch * 100;
                    let name = format!("model-{at}");
                    let id = format!("night-{night}");
                    let at_s = 1_000 + 20 * batch + 10 * (u64::from(night == 2) ^ (batch & 1));
                    let mut record = timed(&id, "a", &item(&name), place, at_s, vec![ns; 5]);
                    record.board.soc = Some(soc.into());
                    record.board.emulated = place == "shelf";
                    figures(&mut record, ns);
                    records.push(record);
                }
            }
        }
        let mut run = run(&format!("night-{night}"), records);
        run.header.started_s = night * 86_400;
        run
    };
    (0..3).map(night).collect()
}

fn figures(record: &mut Record, ns: u64) {
    let Outcome::Measured(measured) = &mut record.outcome else {
        panic!("it ran");
    };
    let part = |device: &str, ns: u64, nodes: u64| PlannedPart {
        id: "p".into(),
        device: device.into(),
        nodes,
        ns,
        provenance: "measured".into(),
    };
    measured.plan = vec![part("npu:0", ns * 3 / 4, 30), part("cpu:0", ns / 4, 4)];
    measured.energy = Some(EnergyOutcome {
        nanojoules: 2_500_000,
        provenance: "measured".into(),
    });
    measured.refused.push(RefusedOps {
        device: "npu:0".into(),
        op: "Einsum".into(),
        nodes: 4,
        reason: NASTY.into(),
    });
}

fn report(runs: Vec<Run>) -> Report {
    let snapshots: Vec<Snapshot> = runs
        .into_iter()
        .map(|run| Snapshot {
            name: run.header.id.clone(),
            runs: selected(run),
        })
        .collect();
    let [.., base, new] = &snapshots[..] else {
        panic!("a night and another one");
    };
    let comparison = compare(&base.runs, &new.runs, &Options::default());
    Report::new(&snapshots, Some(comparison))
}

#[test]
fn cell_shows_the_newest_snapshot_and_full_history() {
    let report = report(nights(1, 8));
    assert_eq!(report.cells.len(), 2);
    let cell = report.cells.iter().find(|cell| cell.kind == "SM8650").unwrap();
    let medians: Vec<u64> = cell
        .history
        .iter()
        .map(|point| point.median_ns / 100_000)
        .collect();
    assert_eq!(medians, [10, 10, 11]);
    let interval = cell.history[2].interval.unwrap();
    assert!((1_100_000..=1_100_700).contains(&interval.low_ns), "{interval:?}");
    assert_eq!(cell.newest().unwrap().batches, 8);
    let shares: Vec<(&str, u64)> = cell
        .shares
        .iter()
        .map(|share| (share.device.as_str(), share.permille))
        .collect();
    assert_eq!(shares, [("cpu:0", 250), ("npu:0", 750)]);
    assert!(cell.sources.iter().all(|source| source.run == "night-2"));
    assert_eq!(
        report
            .snapshots
            .iter()
            .map(|line| line.name.as_str())
            .collect::<Vec<_>>(),
        ["night-0", "night-1", "night-2"]
    );
}

#[test]
fn junit_reports_failures_and_regressions() {
    let mut runs = nights(2, 8);
    let mut broken = timed("night-2", "a", &item("broken"), "desk", 1, Vec::new());
    broken.outcome = Outcome::Failed(Failure {
        reason: "a < b & c".into(),
        board: false,
        exit_code: Some(5),
    });
    runs[2].records.push(broken);
    let mut refused = timed("night-2", "a", &item("refused"), "desk", 1, Vec::new());
    refused.outcome = Outcome::Refused {
        reason: "no kernel".into(),
    };
    runs[2].records.push(refused);
    let report = report(runs);
    let ended = |name: &str| {
        let cell = report.cells.iter().find(|cell| cell.item.contains(name)).unwrap();
        cell.ended
    };
    assert_eq!(
        (ended("broken"), ended("refused")),
        (Status::Failed, Status::Refused)
    );
    let text = report.junit().unwrap();
    assert_eq!(text.matches("<testsuite ").count(), 2, "{text}");
    // two models became slower on the real board; the emulated one fails nothing
    assert_eq!(text.matches("<failure message=\"slower: ").count(), 2, "{text}");
    assert_eq!(text.matches("<failure ").count(), 3, "{text}");
    assert!(text.contains("a &lt; b &amp; c"), "{text}");
    assert_eq!(text.matches("<skipped ").count(), 1, "{text}");
    assert!(text.contains("RK3588 (emulated)"), "{text}");
    // boards and times of measuring are in it
    assert!(
        text.contains("<property name=\"boards\" value=\"desk\"/>"),
        "{text}"
    );
    assert!(
        text.contains("<property name=\"median_ms\" value=\"1.1"),
        "{text}"
    );
    assert!(
        text.contains("name=\"bench model-0 on cpu\" classname=\"SM8650\" time=\"0.040\""),
        "{text}"
    );
    assert!(text.contains("on SM8650 [desk]: a &lt; b &amp; c"), "{text}");
}

#[test]
fn page_is_self_contained_and_escapes_names() {
    let page = report(nights(2, 8)).html();
    assert!(page.starts_with("<!DOCTYPE html>"));
    for open in [
        "<script", "http:", "https:", "@import", "url(", " src=", " onclick",
    ] {
        assert!(!page.contains(open), "{open}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert!(page.contains("<span class=\"label\">emulated</span>"));
    for words in [
        "1.10 ms",
        "2.50 mJ",
        "npu:0 75 %",
        "slower",
        "3 snapshots, from 1.00 ms to 1.10 ms",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // every link leads somewhere on the page
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    for target in page.split("href=\"#").skip(1) {
        let target = target.split('"').next().unwrap();
        assert!(ids.contains(&target), "{target}");
    }
}

#[test]
fn large_farm_page_fits_one_megabyte_and_reports_omissions() {
    let small = report(nights(20, 6)).html();
    assert!(!small.contains("are not shown"), "{} bytes", small.len());
    let report = report(nights(300, 6));
    let page = report.html();
    eprintln!("{} cells: {} bytes", report.cells.len(), page.len());
    assert!(page.len() <= 1_000_000, "{} bytes", page.len());
    assert!(page.contains("are not shown"));
    let page = self::report(nights(1_500, 6)).html();
    assert!(page.len() <= 1_000_000, "{} bytes", page.len());
    assert!(page.contains("items are not shown"), "{} bytes", page.len());
}

#[test]
fn csv_has_a_line_per_cell_without_formulas() {
    let mut runs = nights(2, 8);
    for run in &mut runs {
        for record in &mut run.records {
            record.board.soc = record.board.soc.as_ref().map(|soc| format!("=1+2,\"{soc}\"\n"));
        }
    }
    let report = report(runs);
    let text = report.csv();
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 1 + report.cells.len(), "{text}");
    assert!(
        lines[0].starts_with("item,job,kind,emulated,boards,status,"),
        "{text}"
    );
    assert!(text.contains(r#""'=1+2,""SM8650""""#), "{text}");
    assert!(text.contains(",measured,") && text.contains("1100"), "{text}");
}
