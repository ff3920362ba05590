//! Verdicts other than those of times, and which batches make a round.

use polychip_farm_record::{Failure, Measured, Outcome, Record, Wanted};
use polychip_farm_results::compare::{Options, Row, Verdict};
use polychip_farm_results::{Comparison, Run, compare};

use crate::made::{item, run, selected, timed};

const ROUNDS: u64 = 8;

/// Rounds of one item, so much slower in NEW, each batch a little different.
fn sides(slower: f64) -> (Vec<Record>, Vec<Record>) {
    let batch = |round: u64, side: u64| {
        let ns =
            1e6 * (1.0 + 0.001 * ((round * 7 + side * 3) % 5) as f64) * if side == 1 { slower } else { 1.0 };
        let (id, build) = [("base", "a"), ("new", "b")][side as usize];
        let at = 1_000 + 20 * round + 10 * (side ^ (round & 1));
        timed(id, build, &item("m"), "desk", at, vec![ns as u64; 5])
    };
    let of = |side| (0..ROUNDS).map(|round| batch(round, side)).collect();
    (of(0), of(1))
}

fn compared(base: Vec<Record>, new: Vec<Record>) -> Comparison {
    runs(run("base", base), run("new", new))
}

fn runs(base: Run, new: Run) -> Comparison {
    compare(&selected(base), &selected(new), &Options::default())
}

fn only(comparison: &Comparison) -> &Row {
    assert_eq!(comparison.rows.len(), 1, "{comparison}");
    &comparison.rows[0]
}

fn ended(outcome: Outcome) -> Vec<Record> {
    let mut record = timed("new", "b", &item("m"), "desk", 1_000, Vec::new());
    record.outcome = outcome;
    vec![record]
}

fn refused() -> Outcome {
    Outcome::Refused {
        reason: "Einsum has no kernel".into(),
    }
}

fn failed(board: bool) -> Outcome {
    Outcome::Failed(Failure {
        reason: "exit code 5".into(),
        board,
        exit_code: Some(5),
    })
}

#[test]
fn intervals_contain_the_true_change() {
    for (truth, verdict) in [
        (1.05, Verdict::Slower),
        (0.95, Verdict::Faster),
        (1.0, Verdict::Same),
        (1.004, Verdict::Same),
    ] {
        let (base, new) = sides(truth);
        let comparison = compared(base, new);
        let row = only(&comparison);
        assert_eq!((row.verdict, row.rounds), (verdict, ROUNDS as usize), "{row}");
        let change = row.change.as_ref().unwrap();
        let percent = (truth - 1.0) * 100.0;
        assert!(
            change.low_percent - 0.2 < percent && percent < change.high_percent + 0.2,
            "{row}"
        );
        assert_eq!(
            comparison.regressions().count(),
            usize::from(verdict == Verdict::Slower)
        );
        assert!(!row.suspicious);
    }
}

#[test]
fn newly_failing_item_is_a_regression() {
    let (base, _) = sides(1.0);
    for (outcome, verdict, fails) in [
        (refused(), Verdict::NowRefused, 1),
        (failed(false), Verdict::NowFails, 1),
        // another board may do it
        (failed(true), Verdict::Unsure, 0),
        (Outcome::Skipped { reason: "hot".into() }, Verdict::Unsure, 0),
    ] {
        let comparison = compared(base.clone(), ended(outcome));
        assert_eq!(only(&comparison).verdict, verdict, "{comparison}");
        assert_eq!(comparison.regressions().count(), fails);
    }
    // one failure of many runs is one
    let (_, mut new) = sides(1.0);
    new[3].outcome = failed(false);
    assert_eq!(only(&compared(base.clone(), new)).verdict, Verdict::NowFails);
    // the other way round it is none
    let mut old = ended(refused());
    old[0].run = "base".into();
    let (_, new) = sides(1.0);
    assert_eq!(only(&compared(old, new)).verdict, Verdict::NowRuns);
}

#[test]
fn unrequested_item_is_gone() {
    let (base, _) = sides(1.0);
    let comparison = compared(base.clone(), Vec::new());
    assert_eq!(only(&comparison).verdict, Verdict::Gone);
    let mut asked = run("new", Vec::new());
    asked.header.items.push(Wanted {
        item: item("m"),
        places: vec!["desk".into()],
    });
    let comparison = runs(run("base", base.clone()), asked);
    assert_eq!(only(&comparison).verdict, Verdict::Unsure, "{comparison}");
    assert_eq!(comparison.missing.len(), 1);
    let (_, new) = sides(1.0);
    assert_eq!(only(&compared(Vec::new(), new)).verdict, Verdict::New);
}

#[test]
fn unreachable_board_keeps_its_identity() {
    let (base, _) = sides(1.0);
    let mut lost = ended(failed(true));
    lost[0].board = polychip_farm_record::Board::default();
    let comparison = compared(base, lost);
    let row = only(&comparison);
    assert_eq!(
        (row.verdict, row.kind.as_str()),
        (Verdict::Unsure, "SM8650"),
        "{row}"
    );
    assert_eq!(row.notes, ["NEW has no result: exit code 5"]);
}

#[test]
fn newly_failing_suite_cases_are_named() {
    let suite = |id: &str, build: &str, failing: &[&str]| {
        let mut record = timed(id, build, &item("m"), "desk", 1, Vec::new());
        record.outcome = Outcome::Measured(Box::new(Measured {
            passed: Some(100),
            failed: failing.iter().map(ToString::to_string).collect(),
            ..Measured::default()
        }));
        vec![record]
    };
    let known = suite("base", "a", &["gelu: off by 3"]);
    let comparison = compared(
        known.clone(),
        suite("new", "b", &["gelu: off by 3", "topk: lost"]),
    );
    let row = only(&comparison);
    assert_eq!(row.verdict, Verdict::NowFails);
    assert_eq!(row.notes, ["failing now: topk: lost"]);
    let comparison = compared(known, suite("new", "b", &["gelu: off by 3"]));
    assert_eq!(only(&comparison).verdict, Verdict::Same);
}

/// Changes what NEW's batches say, and gives the row.
fn with_new(change: impl Fn(&mut Record)) -> Row {
    let (base, mut new) = sides(1.5);
    new.iter_mut().for_each(change);
    only(&compared(base, new)).clone()
}

/// What is other about a record.
type Change<'a> = &'a dyn Fn(&mut Record);

#[test]
fn batches_under_other_conditions_form_no_round() {
    let cases: [(&str, Change<'_>); 7] = [
        ("throttled", &|record| record.before.throttled = Some(true)),
        ("other programs", &|record| {
            record.before.load_by_others_millis = Some(700)
        }),
        ("governor", &|record| {
            record.before.governors.insert("cpu0".into(), "powersave".into());
        }),
        ("reports another system", &|record| {
            record.board.os = "Linux 6.7".into()
        }),
        ("more than an hour", &|record| record.started_s += 100_000),
        ("emulated device", &|record| {
            if let Outcome::Measured(measured) = &mut record.outcome {
                measured.emulated = true;
            }
        }),
        ("on battery", &|record| record.before.charging = Some(false)),
    ];
    for (words, change) in cases {
        let (mut base, mut new) = sides(1.5);
        base.iter_mut()
            .for_each(|record| record.before.charging = Some(true));
        new.iter_mut().for_each(|record| {
            record.before.charging = Some(true);
            change(record);
        });
        let comparison = compared(base, new);
        let row = only(&comparison);
        assert_eq!((row.verdict, row.rounds), (Verdict::Unsure, 0), "{words}: {row}");
        assert!(
            row.left_out.iter().any(|line| line.contains(words)),
            "{words}: {row}"
        );
        assert!(row.suspicious, "{words}");
    }
    let zones = |mc: i64| {
        move |record: &mut Record| {
            record.before.temperatures_mc.insert("cpu".into(), mc);
        }
    };
    assert_eq!(with_new(zones(50_000)).rounds, ROUNDS as usize);
    let (mut base, mut new) = sides(1.5);
    base.iter_mut().for_each(zones(30_000));
    new.iter_mut().for_each(zones(50_000));
    assert_eq!(only(&compared(base, new)).rounds, 0);
}

#[test]
fn boards_of_one_kind_are_not_merged() {
    let row = with_new(|record| record.place.name = "shelf".into());
    assert_eq!((row.verdict, row.rounds), (Verdict::Unsure, 0), "{row}");
    assert_eq!(row.places, ["desk", "shelf"]);
}

#[test]
fn emulated_times_are_labelled_and_fail_only_on_request() {
    let emulated = |mut records: Vec<Record>| {
        for record in &mut records {
            record.board.emulated = true;
        }
        records
    };
    let (base, new) = sides(1.5);
    let (base, new) = (run("base", emulated(base)), run("new", emulated(new)));
    let comparison = runs(base.clone(), new.clone());
    let row = only(&comparison);
    assert_eq!((row.verdict, row.emulated), (Verdict::Slower, true));
    assert!(row.to_string().contains("SM8650 (emulated)"), "{row}");
    assert_eq!(comparison.regressions().count(), 0);
    let options = Options {
        emulated: true,
        ..Options::default()
    };
    let comparison = compare(&selected(base), &selected(new), &options);
    assert_eq!(comparison.regressions().count(), 1);
}

#[test]
fn markdown_lists_findings_and_escapes_names() {
    let (mut base, mut new) = sides(1.05);
    for record in base.iter_mut().chain(&mut new) {
        record.item = item("a|b<script>");
    }
    let text = compared(base, new).markdown();
    assert!(text.starts_with("### Device farm: 1 regression\n"), "{text}");
    assert!(text.contains("a\\|b&lt;script&gt;"), "{text}");
    assert!(text.contains("| slower | 1.00 ms → 1.05 ms | +5."), "{text}");
    assert!(!text.contains("<script>"));
    let (base, new) = sides(1.0);
    let text = compared(base, new).markdown();
    assert!(text.starts_with("### Device farm: no regression\n"), "{text}");
}

#[test]
fn names_and_reasons_forge_no_lines() {
    let forged = "m\nslower: bench other on SM8650\u{1b}[2K";
    let (mut base, mut new) = sides(1.05);
    for record in base.iter_mut().chain(&mut new) {
        record.item = item(forged);
        record.board.soc = Some(forged.into());
        record.build.version = forged.into();
    }
    let mut failing = timed("new", "b", &item("other"), "desk", 1_000, Vec::new());
    failing.outcome = Outcome::Failed(Failure {
        reason: forged.into(),
        board: true,
        exit_code: None,
    });
    new.push(failing);
    let comparison = compared(base, new);
    let text = comparison.to_string();
    assert!(text.contains(r"m\nslower: bench other"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(
        text.lines().all(|line| !line.starts_with("slower: bench other")),
        "{text}"
    );
    let markdown = comparison.markdown();
    assert!(
        !markdown.contains('\u{1b}') && !markdown.contains("\nslower"),
        "{markdown}"
    );
}

#[test]
fn tags_of_the_inventory_name_kinds_and_rows_name_boards() {
    // six virtual machines of one CPU, which the inventory tells apart
    let of = |id: &str, build: &str| -> Vec<Record> {
        let each = (0..6).map(|at| {
            let mut record = timed(
                id,
                build,
                &item("m"),
                &format!("b{at}"),
                1_000 + at,
                vec![1_000_000; 5],
            );
            record.board.soc = None;
            record.board.model = None;
            record.board.cpu = Some("AMD EPYC".into());
            record.place.tags = vec![format!("soc=chip-{at}")];
            record
        });
        each.collect()
    };
    let comparison = compared(of("base", "a"), of("new", "b"));
    let kinds: Vec<&str> = comparison.rows.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(
        kinds,
        ["chip-0", "chip-1", "chip-2", "chip-3", "chip-4", "chip-5"]
    );
    let text = comparison.to_string();
    assert!(text.contains("on chip-3 [b3]: "), "{text}");
    assert!(
        comparison.markdown().contains("chip-3 \\[b3\\]"),
        "{}",
        comparison.markdown()
    );
    // a board that was not reached counts to the kind that its tag names
    let mut lost = ended(failed(true));
    lost[0].board = polychip_farm_record::Board::default();
    lost[0].place.name = "b9".into();
    lost[0].place.tags = vec!["kind=phone".into(), "soc=chip-3".into()];
    let comparison = compared(of("base", "a"), lost);
    assert!(
        comparison.rows.iter().any(|row| row.kind == "phone"),
        "{comparison}"
    );
}

/// One batch of each side, days apart, NEW so many times slower, with this share of the processors used by others.
fn nights(slower: f64, load: u32, runs: usize) -> Comparison {
    let batch = |id: &str, build: &str, at_s: u64, ns: f64| {
        // a run of ten is disturbed
        let times = (0..runs).map(|run| {
            (ns * if run % 10 == 3 {
                6.0
            } else {
                1.0 + 0.01 * (run % 4) as f64
            }) as u64
        });
        timed(id, build, &item("m"), "desk", at_s, times.collect())
    };
    let base = batch("base", "a", 1_000, 1e6);
    let mut new = batch("new", "b", 500_000, 1e6 * slower);
    new.after.load_by_others_millis = Some(load);
    compared(vec![base], vec![new])
}

#[test]
fn slowdown_beyond_doubt_needs_no_rounds() {
    for (slower, load, runs, verdict) in [
        (2.5, 0, 50, Verdict::Slower),
        (28.0, 850, 50, Verdict::Slower),
        // other programs may have caused it
        (2.5, 500, 50, Verdict::Unsure),
        // a clock mode or the time of day may have caused it
        (1.5, 0, 50, Verdict::Unsure),
        // so few runs may all have been disturbed
        (2.5, 0, 5, Verdict::Unsure),
        (1.0, 0, 50, Verdict::Unsure),
        (0.2, 0, 50, Verdict::Unsure),
    ] {
        let comparison = nights(slower, load, runs);
        let row = only(&comparison);
        assert_eq!(row.verdict, verdict, "{slower} with a load of {load}: {row}");
        let fails = usize::from(verdict == Verdict::Slower);
        assert_eq!(comparison.regressions().count(), fails, "{row}");
        assert_eq!(
            row.suspicious,
            verdict == Verdict::Unsure && slower > 1.02,
            "{row}"
        );
    }
}

#[test]
fn few_rounds_that_all_agree_on_a_large_slowdown_decide() {
    for (slower, rounds, verdict) in [
        (1.4, 3, Verdict::Slower),
        (1.4, 2, Verdict::Unsure),
        (1.2, 5, Verdict::Unsure),
    ] {
        let (mut base, mut new) = sides(slower);
        base.truncate(rounds);
        new.truncate(rounds);
        let comparison = compared(base, new);
        let row = only(&comparison);
        assert_eq!((row.verdict, row.rounds), (verdict, rounds), "{slower}: {row}");
    }
    // one round that does not agree
    let (mut base, mut new) = sides(1.4);
    base.truncate(4);
    new.truncate(4);
    if let Outcome::Measured(measured) = &mut new[2].outcome {
        measured.samples_ns = vec![1_000_000; 5];
    }
    assert_eq!(only(&compared(base, new)).verdict, Verdict::Unsure);
}

#[test]
fn changed_model_is_linked_by_name_and_fails_no_gate() {
    let (base, mut new) = sides(1.5);
    for record in &mut new {
        record.item.model.as_mut().unwrap().blake3 = "cd".repeat(32);
    }
    let comparison = compared(base.clone(), new.clone());
    let row = only(&comparison);
    assert_eq!((row.verdict, row.model_changed), (Verdict::Slower, true), "{row}");
    assert!(
        row.notes
            .iter()
            .any(|note| note.contains("from abababababab to cdcdcdcdcdcd")),
        "{row}"
    );
    assert_eq!(comparison.regressions().count(), 0);
    // which of two former models it was is not known
    let mut both = base;
    let mut other = both[0].clone();
    other.item.model.as_mut().unwrap().blake3 = "ef".repeat(32);
    both.push(other);
    let verdicts: Vec<Verdict> = compared(both, new).rows.iter().map(|row| row.verdict).collect();
    assert_eq!(verdicts, [Verdict::Gone, Verdict::New, Verdict::Gone]);
}

#[test]
fn unchanged_item_is_the_same() {
    let (base, _) = sides(1.0);
    let mut new = run("new", Vec::new());
    new.header.places.push(crate::made::place("desk"));
    new.header.unchanged.push(polychip_farm_record::Unchanged {
        wanted: Wanted {
            item: item("m"),
            places: vec!["desk".into()],
        },
        run: "base".into(),
    });
    let comparison = runs(run("base", base), new);
    let row = only(&comparison);
    assert_eq!(row.verdict, Verdict::Same, "{row}");
    assert!(row.notes[0].contains("since run base"), "{row}");
    assert!(comparison.missing.is_empty() && comparison.silent.is_empty());
}
