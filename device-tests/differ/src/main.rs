//! Random graphs on Polychip's CPU and in ONNX Runtime: equal, or a difference that somebody has explained.
//!
//! Invariants:
//! 1. A graph depends on seed and index alone, so that each can be had again by itself.
//! 2. A difference that no class of `expectations/differ.toml` is of makes the program fail; so does a panic, and a graph
//!    that comes out otherwise on several devices than on the CPU alone.
//! 3. A class is not known where ONNX's reference evaluator sides with ONNX Runtime, unless it says why.
//!
//! The generator and ONNX Runtime are `peer.py`; `drafts.py` grows a graph, `recipes.py` and `images.py` say how a node of
//! each op is drawn. Not here: models of people (`cargo xtask trained`), the backend suite (`onnx_backend`).
//! Start reading at [`campaign`].

#![forbid(unsafe_code)]

mod drawn;
mod known;
mod ours;
mod peer;
mod report;
mod shrink;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use known::{Class, Facts, Side};
use ours::Ours;
use peer::{Drawn, Peer};
use report::{Finding, Report};
use shrink::Part;
use verdict::{Difference, What, difference};

#[derive(Parser)]
#[command(about = "Random graphs on Polychip's CPU and in ONNX Runtime, with ONNX's reference as referee")]
struct Arguments {
    /// Python with onnx, onnxruntime and numpy
    #[arg(long, value_name = "PYTHON", default_value = "target/venv/bin/python")]
    python: PathBuf,
    /// How many graphs
    #[arg(long, default_value_t = 500, value_name = "N")]
    graphs: usize,
    /// Index of the first graph: with the seed it says which graph that is
    #[arg(long, default_value_t = 0, value_name = "INDEX")]
    first: usize,
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Only graphs with these ops, by their names
    #[arg(long, num_args = 1.., value_name = "OP")]
    only: Vec<String>,
    /// Every so manyth graph is also split over scripted devices; 0 for none
    #[arg(long, default_value_t = 4, value_name = "N")]
    split_every: usize,
    /// Write every figure and every difference to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the models and inputs that differ in this folder
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Print the smallest part of each difference that is unknown, in ONNX's text form
    #[arg(long)]
    verbose: bool,
    /// Only print the ops that are drawn
    #[arg(long)]
    list: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if arguments.list {
        for op in peer::ops(&arguments.python)? {
            report::line(&op);
        }
        return Ok(ExitCode::SUCCESS);
    }
    // a panic is told with the graph that it came of
    std::panic::set_hook(Box::new(|_| {}));
    let report = campaign(&arguments)?;
    report::done();
    if arguments.verbose {
        for finding in report.unknown() {
            report::line(&format!(
                "graph {}: {} ({:?}): {}\n{}",
                finding.index, finding.ops, finding.referee, finding.words, finding.text
            ));
        }
    }
    report::line(&report.to_string());
    if let Some(path) = &arguments.json {
        report.write(path)?;
    }
    Ok(if report.unknown().next().is_some() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn campaign(arguments: &Arguments) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let mut peer = Peer::start(&arguments.python, arguments.seed, folder.path(), &arguments.only)?;
    let ours = Ours::new()?;
    let classes = known::classes()?;
    let mut report = Report {
        seed: arguments.seed,
        ..Report::default()
    };
    for index in arguments.first..arguments.first + arguments.graphs {
        report::progress(&report, arguments.graphs);
        report.graphs += 1;
        let Some(drawn) = peer.draw(index)? else {
            report.peer_died += 1;
            continue;
        };
        report.peer_refuses.extend(drawn.refused.clone());
        if drawn.refusal.is_some() {
            report.peer_refused += 1;
        } else {
            let turn = arguments.split_every;
            let split = (turn > 0 && index % turn == 0 && !drawn.extreme).then(|| index / turn);
            one(&mut peer, &ours, index, &drawn, split, &classes, &mut report)?;
            if let (Some(save), Some(last)) = (&arguments.save, report.findings.last())
                && last.index == index
            {
                keep(folder.path(), save, index)?;
            }
        }
        forget(folder.path(), index)?;
    }
    Ok(report)
}

/// One graph that ONNX Runtime runs.
fn one(
    peer: &mut Peer,
    ours: &Ours,
    index: usize,
    drawn: &Drawn,
    split: Option<usize>,
    classes: &[Class],
    report: &mut Report,
) -> Result<()> {
    if let Some(difference) = shrink::differs(ours, drawn)? {
        if difference.what == What::Refused {
            report.refused += 1;
        } else {
            report.differ += 1;
        }
        let whole = Part {
            drawn: drawn.clone(),
            difference,
        };
        let part = shrink::smallest(peer, ours, index, whole)?;
        report.findings.push(judged(peer, ours, index, &part, classes)?);
        return Ok(());
    }
    for op in &drawn.ops {
        *report.ops.entry(op.clone()).or_default() += 1;
    }
    if let Some(difference) = split.map_or(Ok(None), |turn| split_differs(ours, drawn, turn, report))? {
        report.differ += 1;
        report.findings.push(Finding {
            index,
            ops: drawn.ops.join(" > "),
            what: What::Split,
            referee: Side::Silent,
            extreme: drawn.extreme,
            optimised_agrees: false,
            invalid: None,
            words: difference.words,
            text: String::new(),
            known: None,
        });
        return Ok(());
    }
    report.equal += 1;
    Ok(())
}

/// How a graph over several devices differs from ONNX Runtime, to which the CPU alone is equal.
fn split_differs(ours: &Ours, drawn: &Drawn, turn: usize, report: &mut Report) -> Result<Option<Difference>> {
    let path = drawn.model.as_deref().context("a drawn graph has no model")?;
    Ok(match ours.split(turn, path, &drawn.inputs()?) {
        Ok(split) => {
            report.split += usize::from(split.parts > 1);
            difference(&split.outputs, &drawn.outputs()?)
        }
        Err(error) => Some(Difference {
            what: What::Split,
            words: format!("{error:#}"),
        }),
    })
}

/// A part with what others say of it.
fn judged(peer: &mut Peer, ours: &Ours, index: usize, part: &Part, classes: &[Class]) -> Result<Finding> {
    let (what, words) = (part.difference.what, part.difference.words.clone());
    let mut finding = Finding {
        index,
        ops: part.drawn.ops.join(" > "),
        what,
        referee: Side::Silent,
        extreme: false,
        optimised_agrees: false,
        invalid: None,
        words,
        text: String::new(),
        known: None,
    };
    let Some(judged) = peer.judge()? else {
        return Ok(finding);
    };
    let path = part.drawn.model.as_deref().context("a part has no model")?;
    let mine = ours.alone(path, &part.drawn.inputs()?);
    let wanted = part.drawn.outputs()?;
    finding.referee = match judged.referee.as_deref().map(peer::read) {
        Some(Ok(says)) if difference(&says, &wanted).is_none() => Side::Theirs,
        Some(Ok(says)) if mine.as_ref().is_ok_and(|mine| difference(mine, &says).is_none()) => Side::Ours,
        Some(Ok(_)) => Side::Neither,
        _ => Side::Silent,
    };
    finding.optimised_agrees = match (judged.optimised.as_deref().map(peer::read), &mine) {
        (Some(Ok(says)), Ok(mine)) => difference(mine, &says).is_none(),
        _ => false,
    };
    if let Some(refusal) = &judged.referee_refusal {
        finding.text = format!("referee: {refusal}\n");
    }
    finding.extreme = judged.extreme;
    finding.text.push_str(&judged.text);
    finding.invalid.clone_from(&judged.invalid);
    let facts = Facts {
        ops: &part.drawn.ops,
        what,
        attributes: &judged.attributes,
        extreme: judged.extreme,
        infinite: judged.infinite,
        words: &finding.words,
        side: finding.referee,
    };
    finding.known = classes
        .iter()
        .find(|class| class.holds(&facts))
        .map(|class| class.reason.clone());
    Ok(finding)
}

/// Files of a graph in the peer's folder.
fn files(folder: &Path, index: usize) -> Result<Vec<PathBuf>> {
    let mine = format!("{index}.");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&mine) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn keep(folder: &Path, save: &Path, index: usize) -> Result<()> {
    std::fs::create_dir_all(save)?;
    for file in files(folder, index)? {
        if let Some(name) = file.file_name() {
            std::fs::copy(&file, save.join(name))?;
        }
    }
    Ok(())
}

fn forget(folder: &Path, index: usize) -> Result<()> {
    for file in files(folder, index)? {
        std::fs::remove_file(file)?;
    }
    Ok(())
}
