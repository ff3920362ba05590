//! `polychip farm boards`: lists the boards, whether each can be reached, and whether it can be measured on now.

use std::fmt;

use polychip_farm::inventory::Member;
use polychip_farm::transport::TransportError;
use polychip_farm::{Equipped, Survey, survey};
use polychip_farm_record::{State, printable};
use schemars::JsonSchema;
use serde::Serialize;

use super::desk::DeskArguments;
use super::programs::ProgramArguments;
use crate::exit::{Code, failure, warn};
use crate::output::Output;
use crate::progress::Progress;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    desk: DeskArguments,
    #[command(flatten)]
    programs: ProgramArguments,
    /// Only test the connections; send no runner, and check no board's state
    #[arg(long)]
    reach: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Output of `farm boards --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FarmBoardsOutput {
    /// In the order of the inventory.
    boards: Vec<BoardLine>,
}

/// A board.
#[derive(Debug, Serialize, JsonSchema)]
struct BoardLine {
    /// Its name.
    name: String,
    /// How it is reached: `local`, `ssh`, `adb`.
    transport: String,
    /// Its tags, `key=value`.
    tags: Vec<String>,
    /// Whether the inventory marks it as emulated.
    emulated: bool,
    /// System and processor from `uname -sm`; null if unreachable.
    system: Option<String>,
    /// Why it is not reached.
    trouble: Option<String>,
    /// Name of the SoC as the board reports it; null if unknown.
    soc: Option<String>,
    /// Whether it can be measured on now; null if that was not checked.
    fit: Option<bool>,
    /// Why it cannot be measured on now, or why that was not checked.
    reason: Option<String>,
    /// Who uses the board; null if nobody.
    in_use: Option<String>,
    /// Seconds that its clock is ahead of this host's, if more than a minute.
    clock_ahead_s: Option<i64>,
    /// Temperatures, clocks and load; null if not checked.
    state: Option<State>,
}

/// Runs the command. Code 4 where a board cannot be reached.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let members = arguments.desk.members()?;
    let mut no_runner = None;
    let equipped: Vec<Option<Equipped>> = if arguments.reach {
        members.iter().map(|_| None).collect()
    } else {
        match arguments.programs.equipped(members.clone()) {
            Ok(boards) => boards.into_iter().map(Some).collect(),
            // boards are reached without it
            Err(error) => {
                no_runner = Some(error.to_string());
                members.iter().map(|_| None).collect()
            }
        }
    };
    if let Some(words) = &no_runner {
        warn(format!("it is not checked whether the boards are ready: {words}"));
    }
    let boards = asked(&members, &equipped)?;
    let unreached = boards.iter().filter(|board| board.system.is_none()).count();
    let all = boards.len();
    let answer = FarmBoardsOutput { boards };
    if arguments.json {
        out.json(&answer)?
    } else {
        out.text(&answer.to_string())?
    }
    match unreached {
        0 => Ok(()),
        _ => Err(failure(
            Code::NoDevice,
            format!("{unreached} of {all} boards cannot be reached"),
        )),
    }
}

/// Asks all boards at once.
fn asked(members: &[Member], equipped: &[Option<Equipped>]) -> anyhow::Result<Vec<BoardLine>> {
    let progress = Progress::steps("asking boards", members.len() as u64);
    std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .zip(equipped)
            .map(|(member, equipped)| {
                let progress = &progress;
                scope.spawn(move || {
                    let said = survey(member, equipped.as_ref());
                    progress.step();
                    BoardLine::of(member, said)
                })
            })
            .collect();
        let lines = threads.into_iter().zip(members).map(|(thread, member)| {
            let panicked = |_| anyhow::anyhow!("the check of board {} panicked", member.place.name);
            thread.join().map_err(panicked)
        });
        lines.collect()
    })
}

impl BoardLine {
    fn of(member: &Member, said: Result<Survey, TransportError>) -> BoardLine {
        let mut line = BoardLine {
            name: member.place.name.clone(),
            transport: member.place.transport.clone(),
            tags: member.place.tags.clone(),
            emulated: member.emulated,
            system: None,
            trouble: None,
            soc: None,
            fit: None,
            reason: None,
            in_use: None,
            clock_ahead_s: None,
            state: None,
        };
        let survey = match said {
            Ok(survey) => survey,
            Err(error) => {
                line.trouble = Some(error.to_string());
                return line;
            }
        };
        line.system = Some(survey.system);
        line.clock_ahead_s = survey.clock_ahead_s;
        match survey.facts {
            Ok(facts) => {
                line.fit = Some(facts.unfit.is_none());
                line.reason = facts.unfit;
                line.soc = facts.board.soc;
                line.state = Some(facts.state);
            }
            Err(words) => {
                line.fit = survey.in_use.is_some().then_some(false);
                line.reason = Some(words);
            }
        }
        line.in_use = survey.in_use;
        line
    }
}

impl fmt::Display for FarmBoardsOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for board in &self.boards {
            write!(f, "{} ({})", board.name, board.transport)?;
            if !board.tags.is_empty() {
                write!(f, " {}", printable(&board.tags.join(" ")))?;
            }
            match (&board.system, &board.trouble) {
                (Some(system), _) => write!(f, ": {}", printable(system))?,
                (None, Some(trouble)) => write!(f, ": {}", printable(trouble))?,
                (None, None) => {}
            }
            if let Some(soc) = &board.soc {
                write!(f, ", {}", printable(soc))?;
            }
            if board.emulated {
                f.write_str(", emulated")?;
            }
            match (board.fit, &board.reason) {
                (Some(true), _) => f.write_str("; ready to measure")?,
                (Some(false), Some(reason)) => write!(f, "; not ready: {}", printable(reason))?,
                (_, Some(reason)) if board.system.is_some() => {
                    write!(f, "; not checked: {}", printable(reason))?
                }
                _ => {}
            }
            if let Some(ahead) = board.clock_ahead_s {
                let side = if ahead > 0 { "ahead" } else { "behind" };
                write!(f, "; its clock is {} s {side}", ahead.abs())?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}
