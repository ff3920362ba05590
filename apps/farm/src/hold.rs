//! Exclusive use of a board.

pub(crate) mod error;

use self::error::HoldError;
use crate::inventory::Hold;
use crate::labgrid;
use crate::lock::{Lock, LockError};

/// Exclusive use of a board, released when dropped.
#[derive(Debug, Default)]
pub(crate) struct BoardHold {
    _lock: Option<Lock>,
    _place: Option<labgrid::Acquired>,
}

/// Takes a board.
///
/// # Errors
/// Somebody else has it, or the lock's file or labgrid fails.
pub(crate) fn take(hold: &Hold) -> Result<BoardHold, HoldError> {
    match hold {
        Hold::Nothing => Ok(BoardHold::default()),
        Hold::Lock { folder, name } => match Lock::board(folder, name) {
            Ok(lock) => Ok(BoardHold {
                _lock: Some(lock),
                _place: None,
            }),
            Err(error @ LockError::Held { .. }) => Err(HoldError::InUse {
                words: error.to_string(),
            }),
            Err(error) => Err(HoldError::Failed {
                words: error.to_string(),
            }),
        },
        Hold::Labgrid { coordinator, place } => {
            labgrid::acquire(coordinator.as_deref(), place).map(|place| BoardHold {
                _lock: None,
                _place: Some(place),
            })
        }
    }
}
