//! Assigns items to boards: a pure state machine driven by events.
//!
//! Invariants:
//! 1. An item is with one board at a time, and ends once: done, or given up with a report.
//! 2. An item that failed on a board goes to another board that has not tried it, if there is one.
//! 3. Among interchangeable boards, none gets more than its share while others wait.
//!
//! Not here: boards, clocks, files (`drive`).

use std::collections::{BTreeMap, VecDeque};

use polychip_farm_record::Outcome;

/// The place of an item in the run's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemIndex(pub usize);

/// The place of a board in the run's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoardIndex(pub usize);

/// What becomes of an item that a board reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is done.
    Done,
    /// Another board tries it.
    Elsewhere,
    /// No other board may try it: what was reported is its last word.
    GivenUp,
}

/// Items, boards, and who has what.
#[derive(Debug)]
pub struct Dispatch {
    items: Vec<Entry>,
    groups: Vec<Group>,
    boards: Vec<BoardState>,
    open: usize,
}

#[derive(Debug)]
struct Entry {
    group: usize,
    attempt: u32,
    /// Boards that tried it in vain.
    tried: Vec<BoardIndex>,
    state: ItemState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemState {
    Waiting,
    With(BoardIndex),
    Ended,
}

/// Boards that may do the same items.
#[derive(Debug)]
struct Group {
    boards: Vec<BoardIndex>,
    queue: VecDeque<ItemIndex>,
    /// Items that have not ended, those included that a board holds.
    open: usize,
}

#[derive(Debug)]
struct BoardState {
    groups: Vec<usize>,
    holds: Vec<ItemIndex>,
    lost: bool,
}

impl Dispatch {
    /// Items, each with the number of its first try and the boards that may do it.
    #[must_use]
    pub fn new(boards: usize, items: impl IntoIterator<Item = (u32, Vec<BoardIndex>)>) -> Dispatch {
        let mut dispatch = Dispatch {
            items: Vec::new(),
            groups: Vec::new(),
            boards: (0..boards)
                .map(|_| BoardState {
                    groups: Vec::new(),
                    holds: Vec::new(),
                    lost: false,
                })
                .collect(),
            open: 0,
        };
        let mut known: BTreeMap<Vec<BoardIndex>, usize> = BTreeMap::new();
        for (attempt, mut places) in items {
            places.sort_unstable();
            places.dedup();
            let group = *known.entry(places).or_insert_with_key(|places| {
                let group = dispatch.groups.len();
                for board in places {
                    dispatch.boards[board.0].groups.push(group);
                }
                dispatch.groups.push(Group {
                    boards: places.clone(),
                    queue: VecDeque::new(),
                    open: 0,
                });
                group
            });
            dispatch.groups[group]
                .queue
                .push_back(ItemIndex(dispatch.items.len()));
            dispatch.groups[group].open += 1;
            dispatch.items.push(Entry {
                group,
                attempt,
                tried: Vec::new(),
                state: ItemState::Waiting,
            });
            dispatch.open += 1;
        }
        dispatch
    }

    /// Items that no board may do; they have thereby ended.
    pub fn without_board(&mut self) -> Vec<ItemIndex> {
        let empty = self.groups.iter_mut().filter(|group| group.boards.is_empty());
        let items: Vec<ItemIndex> = empty.flat_map(|group| group.queue.drain(..)).collect();
        for item in &items {
            self.end(*item);
        }
        items
    }

    /// Items for a board, so many at most; none where all are with others, or ended.
    pub fn take(&mut self, board: BoardIndex, most: usize) -> Vec<ItemIndex> {
        let mut taken = Vec::new();
        if self.boards[board.0].lost {
            return taken;
        }
        for group in &self.boards[board.0].groups {
            let Group { boards, queue, .. } = &mut self.groups[*group];
            let there = boards.iter().filter(|board| !self.boards[board.0].lost).count();
            // half of its share: who is fast comes again, and a board that dies holds little up
            let share = queue.len().div_ceil(2 * there.max(1));
            let mut at = 0;
            let end = taken.len() + share;
            while taken.len() < most.min(end) {
                let Some(item) = queue.get(at).copied() else { break };
                if self.items[item.0].tried.contains(&board) {
                    at += 1;
                    continue;
                }
                queue.remove(at);
                taken.push(item);
            }
            if !taken.is_empty() {
                // one group at a time: its boards wait for each other's batches least
                break;
            }
        }
        for item in &taken {
            self.items[item.0].state = ItemState::With(board);
        }
        self.boards[board.0].holds.extend(&taken);
        taken
    }

    /// How many times the item was given out, this one included.
    #[must_use]
    pub fn attempt(&self, item: ItemIndex) -> u32 {
        self.items[item.0].attempt
    }

    /// A board reported of an item that it holds; none where it does not hold it: an old report, already heard.
    pub fn reported(&mut self, board: BoardIndex, item: ItemIndex, outcome: &Outcome) -> Option<Next> {
        if self.items[item.0].state != ItemState::With(board) {
            return None;
        }
        self.boards[board.0].holds.retain(|held| *held != item);
        if outcome.is_final() {
            self.end(item);
            return Some(Next::Done);
        }
        self.items[item.0].tried.push(board);
        Some(self.again(item))
    }

    /// Marks a board as lost for good. Returns the items that no other board may do, which end
    /// here.
    pub fn lost(&mut self, board: BoardIndex) -> Vec<ItemIndex> {
        let seat = &mut self.boards[board.0];
        seat.lost = true;
        let held = std::mem::take(&mut seat.holds);
        let groups = seat.groups.clone();
        let mut given_up: Vec<ItemIndex> = held
            .into_iter()
            .filter(|item| {
                self.items[item.0].tried.push(board);
                self.again(*item) == Next::GivenUp
            })
            .collect();
        for group in groups {
            let waiting: Vec<ItemIndex> = self.groups[group].queue.iter().copied().collect();
            let (stay, go): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|item| self.somebody_may(*item));
            self.groups[group].queue = stay.into();
            for item in go {
                self.end(item);
                given_up.push(item);
            }
        }
        given_up
    }

    /// Puts an item back into its queue, or ends it if no board may do it.
    fn again(&mut self, item: ItemIndex) -> Next {
        if !self.somebody_may(item) {
            self.end(item);
            return Next::GivenUp;
        }
        let entry = &mut self.items[item.0];
        entry.attempt += 1;
        entry.state = ItemState::Waiting;
        let group = entry.group;
        self.groups[group].queue.push_front(item);
        Next::Elsewhere
    }

    fn somebody_may(&self, item: ItemIndex) -> bool {
        let entry = &self.items[item.0];
        let mut boards = self.groups[entry.group].boards.iter();
        boards.any(|board| !self.boards[board.0].lost && !entry.tried.contains(board))
    }

    fn end(&mut self, item: ItemIndex) {
        let entry = &mut self.items[item.0];
        entry.state = ItemState::Ended;
        self.groups[entry.group].open -= 1;
        self.open -= 1;
    }

    /// Items that have not ended.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open
    }

    /// Whether anything may still come to a board: an item that it may do has not ended.
    #[must_use]
    pub fn may_come(&self, board: BoardIndex) -> bool {
        let seat = &self.boards[board.0];
        !seat.lost && seat.groups.iter().any(|group| self.groups[*group].open > 0)
    }
}

#[cfg(test)]
mod tests {
    use polychip_farm_record::Failure;

    use super::*;

    fn measured() -> Outcome {
        Outcome::Measured(Box::default())
    }

    fn board_failed() -> Outcome {
        Outcome::Failed(Failure {
            reason: "lost".into(),
            board: true,
            exit_code: None,
        })
    }

    fn boards(list: &[usize]) -> Vec<BoardIndex> {
        list.iter().copied().map(BoardIndex).collect()
    }

    const A: BoardIndex = BoardIndex(0);
    const B: BoardIndex = BoardIndex(1);

    #[test]
    fn interchangeable_boards_share_items_evenly() {
        let items = (0..16).map(|_| (1, boards(&[0, 1])));
        let mut dispatch = Dispatch::new(2, items);
        assert_eq!(dispatch.take(A, 100).len(), 4);
        assert_eq!(dispatch.take(B, 2).len(), 2);
        let rest = dispatch.take(B, 100);
        assert_eq!(rest, [6, 7, 8].map(ItemIndex));
        assert_eq!(dispatch.reported(B, ItemIndex(6), &measured()), Some(Next::Done));
        // told twice: the second time is no news, nor is what another board holds
        assert_eq!(dispatch.reported(B, ItemIndex(6), &measured()), None);
        assert_eq!(dispatch.reported(B, ItemIndex(0), &measured()), None);
        assert_eq!(dispatch.open(), 15);
    }

    #[test]
    fn lost_board_items_go_to_another_board_or_are_reported() {
        let items = [(1, boards(&[0, 1])), (1, boards(&[0])), (3, boards(&[0, 1]))];
        let mut dispatch = Dispatch::new(2, items);
        let held = dispatch.take(A, 1);
        assert_eq!(held, [ItemIndex(0)]);
        assert_eq!(dispatch.lost(A), [ItemIndex(1)], "no other board may do it");
        assert!(dispatch.take(A, 9).is_empty());
        assert_eq!(dispatch.take(B, 9), [ItemIndex(0)]);
        assert_eq!(dispatch.attempt(ItemIndex(0)), 2);
        assert_eq!(dispatch.take(B, 9), [ItemIndex(2)]);
        assert_eq!(dispatch.attempt(ItemIndex(2)), 3);
        assert_eq!(dispatch.lost(B), [0, 2].map(ItemIndex));
        assert_eq!(dispatch.open(), 0);
    }

    #[test]
    fn failed_item_is_not_retried_on_the_same_board() {
        let mut dispatch = Dispatch::new(2, [(1, boards(&[0, 1]))]);
        let item = dispatch.take(A, 1)[0];
        assert_eq!(dispatch.reported(A, item, &board_failed()), Some(Next::Elsewhere));
        assert!(dispatch.take(A, 1).is_empty() && dispatch.may_come(A));
        assert_eq!(dispatch.take(B, 1), [item]);
        assert_eq!(dispatch.reported(B, item, &board_failed()), Some(Next::GivenUp));
        assert!(!dispatch.may_come(A) && dispatch.open() == 0);
    }

    #[test]
    fn board_is_released_after_its_items() {
        let mut dispatch = Dispatch::new(2, [(1, boards(&[0])), (1, boards(&[1]))]);
        let item = dispatch.take(A, 1)[0];
        assert!(dispatch.may_come(A));
        assert_eq!(dispatch.reported(A, item, &measured()), Some(Next::Done));
        assert!(!dispatch.may_come(A) && dispatch.may_come(B));
    }
}
