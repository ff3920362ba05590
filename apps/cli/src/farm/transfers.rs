//! Progress of files on their way to boards: over a slow link, one may take many minutes.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polychip_farm::Blob;
use polychip_farm::transport::Counter;
use polychip_farm_record::printable;

/// Time between two lines about a file in a log without a terminal.
const LINE: Duration = Duration::from_secs(15);
/// Time between two looks.
const TICK: Duration = Duration::from_secs(1);

/// A file on its way.
#[derive(Debug, Clone)]
struct Transfer {
    name: String,
    bytes: u64,
    sent: Counter,
    start: Instant,
    told: Instant,
}

impl Transfer {
    fn words(&self, board: &str) -> String {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let sent = self.sent.load(Ordering::Relaxed).min(self.bytes);
        let rate = sent as f64 / self.start.elapsed().as_secs_f64().max(0.1);
        let left = (self.bytes - sent) as f64 / rate.max(1.0);
        let left = if sent == 0 {
            String::new()
        } else {
            format!(", {left:.0} s left")
        };
        format!(
            "board {board}: sent {:.1} of {:.1} MiB of {}{left}",
            mib(sent),
            mib(self.bytes),
            printable(&self.name)
        )
    }
}

/// Files on their way, by board.
#[derive(Debug, Default)]
struct Shared(Mutex<BTreeMap<String, Transfer>>);

/// Tells of transfers until it is dropped.
pub(super) struct Transfers {
    shared: Arc<Shared>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Transfers {
    /// `tell` gets the words of all files on their way, each second.
    pub(super) fn new(tell: impl Fn(String) + Send + 'static) -> Transfers {
        let shared = Arc::<Shared>::default();
        let seen = Arc::clone(&shared);
        let (stop, stopped) = channel::<()>();
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let look = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let mut transfers = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
                let mut lines = Vec::new();
                for (board, transfer) in transfers.iter_mut() {
                    let words = transfer.words(board);
                    if !is_terminal && transfer.told.elapsed() >= LINE {
                        transfer.told = Instant::now();
                        eprintln!("{words}");
                    }
                    lines.push(words);
                }
                drop(transfers);
                if !lines.is_empty() {
                    tell(lines.join("; "));
                }
            }
        };
        Transfers {
            shared,
            stop: Some(stop),
            thread: std::thread::Builder::new().spawn(look).ok(),
        }
    }

    /// A file begins its way; the board's last one has arrived.
    pub(super) fn begin(&self, board: &str, blob: &Blob, sent: &Counter) {
        let transfer = Transfer {
            name: blob.name.clone(),
            bytes: blob.bytes,
            sent: Counter::clone(sent),
            start: Instant::now(),
            told: Instant::now(),
        };
        let mut transfers = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        transfers.insert(board.to_owned(), transfer);
    }

    /// All files of a board have arrived, or will not.
    pub(super) fn end(&self, board: &str) {
        self.shared
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(board);
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn transfer_counts_bytes_and_remaining_time() {
        let transfer = Transfer {
            name: "net\n.onnx".into(),
            bytes: 4 << 20,
            sent: Counter::new(AtomicU64::new(1 << 20)),
            start: Instant::now() - Duration::from_secs(10),
            told: Instant::now(),
        };
        let words = transfer.words("far");
        assert!(
            words.starts_with(r"board far: sent 1.0 of 4.0 MiB of net\n.onnx, "),
            "{words}"
        );
        assert!(words.ends_with(" s left"), "{words}");
    }
}
