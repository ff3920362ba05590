//! What a board reports: its description, its state, and whether it may be measured on now.

use std::time::{Duration, SystemTime};

use polychip_farm_record::{Board, State};
use serde::Deserialize;

use crate::equipped::Equipped;
use crate::hold::error::HoldError;
use crate::hold::{self, BoardHold};
use crate::inventory::Member;
use crate::transport::{Command, TransportError};
use crate::upload;

/// A board that answered.
#[derive(Debug, Clone)]
pub struct Survey {
    /// System and processor, as `uname -sm` prints them.
    pub system: String,
    /// Seconds that its clock is ahead of this host's; absent if it does not tell, or is right within [`CLOCK_S`].
    pub clock_ahead_s: Option<i64>,
    /// Who uses it; absent if it is free.
    pub in_use: Option<String>,
    /// What its runner says; the error if that cannot be run there.
    pub facts: Result<Facts, String>,
}

/// A runner's answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Facts {
    /// The board.
    pub board: Board,
    /// Its state over the last second.
    pub state: State,
    /// Why nothing may be measured on it now; absent if it is fit.
    pub unfit: Option<String>,
}

/// Difference of clocks that is reported, in seconds: records of boards are ordered by them.
pub const CLOCK_S: i64 = 60;
/// Time between two tries to take a board that this program itself uses.
const AGAIN: Duration = Duration::from_millis(250);
/// Most of such tries.
const TRIES: u32 = 240;
/// Longest answer of a runner.
const FACTS: Duration = Duration::from_secs(60);

/// Asks a board; without `equipped` only whether it is reached.
///
/// # Errors
/// It is not reached, or its folder is not private.
pub fn survey(member: &Member, equipped: Option<&Equipped>) -> Result<Survey, TransportError> {
    let transport = &*member.transport;
    let prepared = transport.prepare(&member.folder)?;
    let clock_ahead_s = prepared.clock_s.and_then(clock_ahead_s);
    // held while it is asked: a measurement of another program is not disturbed
    let held = held(member);
    let in_use = held.as_ref().err().map(ToString::to_string);
    let facts = match (equipped, &in_use) {
        (None, _) => Err("no runner was given".to_owned()),
        (_, Some(words)) => Err(words.clone()),
        (Some(equipped), None) => facts(equipped, &prepared.folder, &prepared.system),
    };
    Ok(Survey {
        system: prepared.system,
        clock_ahead_s,
        in_use,
        facts,
    })
}

/// Takes the board. Boards of one machine share its lock: another one that this program asks now is waited for.
fn held(member: &Member) -> Result<BoardHold, HoldError> {
    let own = format!("process {}", std::process::id());
    let mut tries = 0;
    loop {
        match hold::take(&member.hold) {
            Err(HoldError::InUse { words }) if words.ends_with(&own) && tries < TRIES => {
                tries += 1;
                std::thread::sleep(AGAIN);
            }
            other => return other,
        }
    }
}

/// How far a board's clock is ahead of this host's, in seconds; absent if it is right within [`CLOCK_S`].
pub(crate) fn clock_ahead_s(clock_s: u64) -> Option<i64> {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()?
        .as_secs();
    let ahead = i64::try_from(clock_s).ok()? - i64::try_from(now).ok()?;
    (ahead.abs() > CLOCK_S).then_some(ahead)
}

fn facts(equipped: &Equipped, folder: &str, system: &str) -> Result<Facts, String> {
    let Equipped { member, runner, .. } = equipped;
    if let Some(words) = runner.is_foreign_to(system) {
        return Err(words);
    }
    let transport = &*member.transport;
    upload::supply(transport, folder, runner, &[], &mut |_, _| {}).map_err(|error| error.to_string())?;
    let limits = serde_json::to_string(&member.limits).map_err(|error| error.to_string())?;
    let mut command = Command::new([&*upload::place(folder, runner), "facts", "--limits", &limits]);
    command.environment = member.environment.clone();
    command.time_limit = Some(FACTS);
    let mut said = String::new();
    let exit = transport
        .execute(&command, &mut |line| said.push_str(line))
        .map_err(|error| error.to_string())?;
    if exit.code != 0 {
        let words = exit.stderr.lines().last().unwrap_or("it printed nothing");
        return Err(format!("the runner ended with exit code {}: {words}", exit.code));
    }
    serde_json::from_str(&said).map_err(|error| format!("the runner printed {said:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wrong_clock_is_reported() {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        assert_eq!(clock_ahead_s(now), None);
        assert!(clock_ahead_s(0).unwrap() < -1_000_000);
        assert!(clock_ahead_s(now + 7200).unwrap() > 7000);
    }
}
