//! Intermediate deadlines: the deadline of each subtask of a task that changes devices.
//!
//! Each device is then tested by itself, where each subtask is a task that is released when the
//! preceding subtask is due. That is sufficient, not necessary: a set may be schedulable although
//! no division of its deadlines proves it.
//!
//! Invariant: a division depends only on the task's own times and deadline; a refused set stays
//! refused with any additional task.

use crate::task::{Task, TaskSet};

/// How the slack of a task is divided among its subtasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Division {
    /// In proportion to their times.
    Proportional,
    /// The same for each.
    EqualSlack,
}

impl Division {
    /// All, in the order in which they are tried.
    pub(crate) const ALL: [Division; 2] = [Division::Proportional, Division::EqualSlack];

    /// The divisions that differ for a set.
    pub(crate) fn of(set: &TaskSet) -> &'static [Division] {
        let is_one = |task: &Task| task.subtasks().count() < 2;
        if set.tasks.iter().all(is_one) {
            &Division::ALL[..1]
        } else {
            &Division::ALL
        }
    }

    /// Time from its arrival to when each subtask of a task is due, in nanoseconds; the last is the task's deadline. All
    /// are `u64::MAX` for an endless task. None where its parts alone take longer than its deadline.
    pub(crate) fn deadlines(self, task: &Task) -> Option<Vec<u64>> {
        let times: Vec<u64> = task
            .subtasks()
            .map(|(first, end)| task.parts[first..end].iter().map(|part| part.time_ns).sum())
            .collect();
        let Some((_, deadline)) = task.sporadic() else {
            return Some(vec![u64::MAX; times.len()]);
        };
        let all: u64 = times.iter().sum();
        let slack = u128::from(deadline.checked_sub(all)?);
        let count = times.len() as u128;
        let mut done = 0u64;
        let deadlines = times.iter().zip(1u128..).map(|(time, number)| {
            done += time;
            let share = match self {
                Division::Proportional => slack * u128::from(done) / u128::from(all),
                Division::EqualSlack => slack * number / count,
            };
            // below the deadline, which is a `u64`
            done + share as u64
        });
        Some(deadlines.collect())
    }
}

/// When subtasks are due: as the first division says, or with their task where its parts alone are too slow.
pub(crate) fn due(set: &TaskSet) -> Vec<Vec<u64>> {
    let tasks = set.tasks.iter().map(|task| {
        Division::ALL[0].deadlines(task).unwrap_or_else(|| {
            let due = task.sporadic().map_or(u64::MAX, |(_, deadline)| deadline);
            vec![due; task.subtasks().count()]
        })
    });
    tasks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Class;
    use crate::task::Part;

    #[test]
    fn slack_is_divided_up_to_the_task_deadline() {
        let parts = [(0, 10), (0, 10), (1, 20), (0, 5)].map(|(device, time_ns)| Part { device, time_ns });
        let task = Task::periodic("t", 90, parts.to_vec());
        assert_eq!(Division::Proportional.deadlines(&task), Some(vec![40, 80, 90]));
        assert_eq!(Division::EqualSlack.deadlines(&task), Some(vec![35, 70, 90]));
        assert_eq!(Division::EqualSlack.deadlines(&task.clone().due(44)), None);
        let endless = Task::endless("e", Class::Background, parts.to_vec());
        assert_eq!(Division::EqualSlack.deadlines(&endless), Some(vec![u64::MAX; 3]));
    }
}
