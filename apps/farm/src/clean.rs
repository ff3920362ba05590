//! Deletes what the farm keeps on a board.

use std::time::Duration;

use crate::hold;
use crate::inventory::Member;
use crate::transport::{Command, TransportError};

/// Longest deletion.
const LONGEST: Duration = Duration::from_secs(300);

/// Deletes the runner, models and results of all runs in the farm's folder on a board. Returns the bytes that are free
/// again, if the board tells.
///
/// # Errors
/// The board is in use or not reached, or refuses the deletion; as text.
pub fn clean(member: &Member) -> Result<Option<u64>, String> {
    let _held = hold::take(&member.hold).map_err(|error| error.to_string())?;
    let said = |error: TransportError| error.to_string();
    let folder = member.transport.prepare(&member.folder).map_err(said)?.folder;
    let kibibytes = || -> Result<Option<u64>, TransportError> {
        let mut command = Command::new(["du", "-sk", &folder]);
        command.time_limit = Some(LONGEST);
        let mut found = None;
        // a board without it is cleaned all the same
        member.transport.execute(&command, &mut |line| {
            found = line
                .split_whitespace()
                .next()
                .and_then(|number| number.parse::<u64>().ok());
        })?;
        Ok(found)
    };
    let before = kibibytes().map_err(said)?;
    let mut command = Command::new(["rm", "-rf"].map(str::to_owned));
    command
        .words
        .extend([format!("{folder}/blobs"), format!("{folder}/runs")]);
    command.time_limit = Some(LONGEST);
    let exit = member.transport.execute(&command, &mut |_| {}).map_err(said)?;
    if exit.code != 0 {
        return Err(format!(
            "deleting failed with exit code {}: {}",
            exit.code, exit.stderr
        ));
    }
    let after = kibibytes().map_err(said)?;
    Ok(before
        .zip(after)
        .map(|(before, after)| before.saturating_sub(after) * 1024))
}
