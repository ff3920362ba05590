//! How long calls of a thread may take, where its session has a limit of its own.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

thread_local! {
    static LIMIT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// While it lives, the short calls of this thread to plugins in processes of their own may take so long, instead of
/// [`Limits::call`](crate::Limits). Nested limits end in the reverse order of their making.
#[derive(Debug)]
pub struct CallLimit {
    before: Option<Duration>,
    /// The limit is that of one thread.
    _of_thread: PhantomData<*const ()>,
}

impl CallLimit {
    /// Limits the calls of this thread.
    #[must_use]
    pub fn new(limit: Duration) -> CallLimit {
        CallLimit {
            before: LIMIT.replace(Some(limit)),
            _of_thread: PhantomData,
        }
    }

    /// The limit of this thread's calls, if there is one.
    #[must_use]
    pub fn current() -> Option<Duration> {
        LIMIT.get()
    }
}

impl Drop for CallLimit {
    fn drop(&mut self) {
        LIMIT.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_holds_while_it_lives_and_on_its_thread() {
        let [one, two] = [1, 2].map(Duration::from_secs);
        assert_eq!(CallLimit::current(), None);
        let outer = CallLimit::new(one);
        let inner = CallLimit::new(two);
        assert_eq!(CallLimit::current(), Some(two));
        drop(inner);
        assert_eq!(CallLimit::current(), Some(one));
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(CallLimit::current(), None));
        });
        drop(outer);
        assert_eq!(CallLimit::current(), None);
    }
}
