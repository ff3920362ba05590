//! One campaign: draws graphs, runs them on both sides, reduces differences to a part, and judges them.
//!
//! Start reading at [`run`].

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::evidence::Found;
use crate::known::{self, Class, Facts, Side};
use crate::ours::{On, Ours};
use crate::peer::{self, Drawn, Peer, Tensors};
use crate::report::{self, Finding, Report};
use crate::shrink::{self, OnOwnValues, Part};
use crate::verdict::{Difference, What, difference};
use crate::{Arguments, planted};

/// Both sides, and what came of it so far.
pub(crate) struct Campaign {
    pub(crate) peer: Peer,
    pub(crate) ours: Ours,
    classes: Vec<Class>,
    report: Report,
    /// Whether a value of every graph that is equal is changed, too.
    plant: bool,
}

/// Runs all graphs that are asked for.
///
/// # Errors
/// A side cannot be started, or a file cannot be written.
pub(crate) fn run(arguments: &Arguments) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let mut campaign = Campaign {
        peer: Peer::start(&arguments.python, arguments.seed, folder.path(), &arguments.only)?,
        ours: Ours::new()?,
        classes: known::classes()?,
        report: Report {
            seed: arguments.seed,
            ..Report::default()
        },
        plant: arguments.plant,
    };
    for index in arguments.first..arguments.first + arguments.graphs {
        report::progress(&campaign.report, arguments.graphs);
        campaign.report.graphs += 1;
        let Some(drawn) = campaign.peer.draw(index)? else {
            campaign.report.peer_died += 1;
            continue;
        };
        campaign.report.peer_refuses.extend(drawn.refused.clone());
        if drawn.refusal.is_some() {
            campaign.report.peer_refused += 1;
        } else {
            let turn = arguments.split_every;
            let split = (turn > 0 && index % turn == 0 && !drawn.extreme).then(|| index / turn);
            campaign.graph(index, &drawn, split)?;
            if let (Some(save), Some(last)) = (&arguments.save, campaign.report.findings.last())
                && last.index == index
            {
                keep(folder.path(), save, index)?;
            }
        }
        forget(folder.path(), index)?;
    }
    Ok(campaign.report)
}

impl Campaign {
    /// One graph that ONNX Runtime runs: on the CPU alone and, where that is equal and its turn has come, split over devices.
    fn graph(&mut self, index: usize, drawn: &Drawn, split: Option<usize>) -> Result<()> {
        if let Some(difference) = shrink::run(&self.ours, On::Cpu, drawn)?.difference {
            if difference.what == What::Refused {
                self.report.refused += 1;
            } else {
                self.report.differ += 1;
            }
            return self.explain(On::Cpu, index, drawn, difference);
        }
        for op in &drawn.ops {
            *self.report.ops.entry(op.clone()).or_default() += 1;
        }
        if let Some(turn) = split {
            let on = On::Split(turn);
            let run = shrink::run(&self.ours, on, drawn)?;
            self.report.split += usize::from(run.parts > 1);
            if let Some(difference) = run.difference {
                self.report.differ += 1;
                return self.explain(on, index, drawn, difference);
            }
        }
        self.report.equal += 1;
        if self.plant
            && let Some(finding) = self.planted(index, drawn)?
        {
            self.report.planted += 1;
            self.report
                .excused
                .extend(finding.known.is_some().then_some(finding));
        }
        Ok(())
    }

    /// Plants a wrong value into our answer of a whole graph and of one of its nodes, alternately, and judges it as if we had
    /// computed it. Returns none where the answer has no element, or where our own answer differs already.
    ///
    /// # Errors
    /// The peer cannot be asked.
    fn planted(&mut self, index: usize, drawn: &Drawn) -> Result<Option<Finding>> {
        let turn = index / 2;
        let keep = if index.is_multiple_of(2) && !drawn.nodes.is_empty() {
            std::slice::from_ref(&drawn.nodes[turn % drawn.nodes.len()])
        } else {
            drawn.nodes.as_slice()
        };
        let Some(drawn) = self.peer.cut(index, keep, &[])? else {
            return Ok(None);
        };
        let run = shrink::run(&self.ours, On::Cpu, &drawn)?;
        let Some(mine) = planted::changed(&run.outputs, turn).filter(|_| run.difference.is_none()) else {
            return Ok(None);
        };
        let Some(difference) = difference(&mine, &drawn.outputs()?) else {
            return Ok(None);
        };
        let part = Part { drawn, difference };
        self.judged(index, &part, Some(&mine), Some(&run.outputs))
            .map(Some)
    }

    /// Takes in what a difference comes down to: a node, on ONNX Runtime's values or on our own, or several of which none differs.
    fn explain(&mut self, on: On, index: usize, drawn: &Drawn, difference: Difference) -> Result<()> {
        let whole = Part {
            drawn: drawn.clone(),
            difference,
        };
        let mut part = shrink::smallest(&mut self.peer, &self.ours, on, index, whole)?;
        let mut made = None;
        if part.drawn.nodes.len() > 1 {
            match shrink::on_own_values(&mut self.peer, &self.ours, on, index, &part)? {
                OnOwnValues::Differs(node) => part = node,
                OnOwnValues::Agree(tensors) => made = Some(tensors),
            }
        }
        let path = part.drawn.model.as_deref().context("a part has no model")?;
        let ran = self.ours.run(on, path, &part.drawn.inputs()?);
        let mine = ran.ok().map(|ran| ran.outputs);
        let mut finding = self.judged(index, &part, mine.as_ref(), made.as_ref())?;
        finding.split = on != On::Cpu;
        self.report.findings.push(finding);
        Ok(())
    }

    /// The part that the peer has cut last, with our outputs where there are some, what our nodes made one by one where each
    /// agreed, and what others say of it.
    ///
    /// # Errors
    /// The peer cannot be asked, or its files cannot be read.
    pub(crate) fn judged(
        &mut self,
        index: usize,
        part: &Part,
        mine: Option<&Tensors>,
        made: Option<&Tensors>,
    ) -> Result<Finding> {
        let (what, words) = (part.difference.what, part.difference.words.clone());
        let mut finding = Finding {
            index,
            ops: part.drawn.ops.join(" > "),
            what,
            split: false,
            referee: Side::Silent,
            extreme: false,
            optimised_agrees: false,
            invalid: None,
            words,
            text: String::new(),
            known: None,
        };
        let Some(judged) = self.peer.judge()? else {
            return Ok(finding);
        };
        let wanted = part.drawn.outputs()?;
        let agrees = |says: &Tensors| mine.is_some_and(|mine| difference(mine, says).is_none());
        finding.referee = match judged.referee.as_deref().map(peer::read) {
            Some(Ok(says)) if difference(&says, &wanted).is_none() => Side::Theirs,
            Some(Ok(says)) if agrees(&says) => Side::Ours,
            Some(Ok(_)) => Side::Neither,
            _ => Side::Silent,
        };
        finding.optimised_agrees = match judged.optimised.as_deref().map(peer::read) {
            Some(Ok(says)) => agrees(&says),
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
            not_finite: judged.not_finite,
            words: &finding.words,
            side: finding.referee,
            found: mine.map_or(Ok(Found::default()), |mine| {
                Found::of(mine, &wanted, made, &judged)
            })?,
        };
        finding.known = known::reason(&self.classes, &facts);
        Ok(finding)
    }
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
