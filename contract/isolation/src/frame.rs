//! Records on seqpacket sockets, with descriptors beside them. A large record travels in a memory
//! file.
//!
//! Invariants:
//! 1. A message is one record: its first byte states whether the record follows or lies in the first
//!    descriptor.
//! 2. Received descriptors are closed on `exec` and owned at once; a message that was cut is an
//!    error.
//! 3. A record in a file is read, not mapped. Its size is bounded by its type, and it cannot shrink
//!    while it is read.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use polychip_sdk::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;

use crate::message::Received;
use crate::shared_file::MOST_DESCRIPTORS;
use crate::{message, shared_file};

/// Largest record inside a message, in bytes; below the default socket buffer of 208 KiB.
const INLINE: usize = 48 << 10;
/// Largest number of descriptors in a message, by the kernel. The receiver has room for all of
/// them, so if some are missing, this process had no free descriptors.
const KERNEL_DESCRIPTORS: usize = 253;

const IN_MESSAGE: u8 = 0;
const IN_FILE: u8 = 1;

/// Why nothing was received.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The other process closed its end, or ended.
    Closed,
    /// Nothing came in time.
    TimedOut,
    /// The message is not a record.
    Malformed(String),
    /// A message came, but this process has no free descriptors for those that came with it.
    NoDescriptors,
}

/// One end of a socket, with the buffer for its records.
pub(crate) struct Channel {
    socket: OwnedFd,
    outgoing: Vec<u8>,
    /// As long as the largest message.
    incoming: Vec<u8>,
    /// How long to look for a record before sleeping.
    spin: Duration,
    send: SendFlags,
}

/// Longest time to poll for an answer before sleeping: about the time to wake a sleeping core,
/// which was 40 µs on two virtual cores.
const SPIN: Duration = Duration::from_micros(40);

/// Two connected ends.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("a pair of sockets: {error}")))
}

impl Channel {
    pub(crate) fn new(socket: OwnedFd) -> Channel {
        Channel {
            socket,
            outgoing: Vec::new(),
            incoming: vec![0; INLINE + 1],
            spin: Duration::ZERO,
            send: SendFlags::NOSIGNAL,
        }
    }

    /// Sends without waiting: a full socket is an error. For a thread that must not depend on the
    /// other process reading.
    pub(crate) fn impatient(mut self) -> Channel {
        self.send |= SendFlags::DONTWAIT;
        self
    }

    /// Polls before sleeping, so that short answers arrive sooner. Has no effect on a machine with
    /// one core, which the other process needs.
    pub(crate) fn spinning(mut self) -> Channel {
        if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
            self.spin = SPIN;
        }
        self
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a record with descriptors.
    ///
    /// # Errors
    /// `DeviceLost` if the other process is gone. Otherwise nothing was sent: the record is longer than its
    /// receiver accepts, or memory or descriptors ran out.
    pub(crate) fn send<T: Serialize + Received>(
        &mut self,
        record: &T,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        self.outgoing.clear();
        self.outgoing.push(IN_MESSAGE);
        message::encode(record, &mut self.outgoing)?;
        let bytes = self.outgoing.len() as u64 - 1;
        if bytes > T::MOST_BYTES {
            self.outgoing = Vec::new();
            return Err(Error::new(
                ErrorKind::Persistent,
                format!("a record of {bytes} bytes; the limit is {}", T::MOST_BYTES),
            ));
        }
        let sent = if self.outgoing.len() <= INLINE {
            transmit(self.socket.as_fd(), &self.outgoing, descriptors, self.send)
        } else {
            let file = shared_file::filled([&self.outgoing[1..]])?;
            let mut all = vec![file.as_fd()];
            all.extend_from_slice(descriptors);
            // a rare record: the buffer need not stay this large
            self.outgoing.truncate(INLINE + 1);
            self.outgoing.shrink_to(INLINE + 1);
            transmit(self.socket.as_fd(), &[IN_FILE], &all, self.send)
        };
        sent.map_err(|error| Error::new(ErrorKind::DeviceLost, format!("the other process: {error}")))
    }

    /// Receives a record and its descriptors, at most `most`. Waits until `death`
    /// becomes readable or `limit` has passed.
    pub(crate) fn receive<T: Received>(
        &mut self,
        most: usize,
        death: Option<BorrowedFd<'_>>,
        limit: Option<Duration>,
    ) -> std::result::Result<(T, Vec<OwnedFd>), Broken> {
        readable(self.socket.as_fd(), death, limit, self.spin)?;
        let (len, mut descriptors) = accept(self.socket.as_fd(), &mut self.incoming)?;
        let malformed = |words: String| Broken::Malformed(words);
        let record = match self.incoming[..len].split_first() {
            None => return Err(Broken::Closed),
            Some((&IN_MESSAGE, record)) => message::decode(record).map_err(malformed)?,
            Some((&IN_FILE, [])) if !descriptors.is_empty() => {
                let file = descriptors.remove(0);
                let bytes = shared_file::size(file.as_fd()).unwrap_or(0);
                if bytes > T::MOST_BYTES {
                    return Err(malformed(format!(
                        "a record of {bytes} bytes; the limit is {}",
                        T::MOST_BYTES
                    )));
                }
                if !shared_file::is_sealed(file.as_fd()) {
                    return Err(malformed("a record in a file that is not sealed".to_owned()));
                }
                let content = shared_file::read(file.as_fd(), bytes).map_err(|e| malformed(e.to_string()))?;
                message::decode(&content).map_err(malformed)?
            }
            Some((kind, _)) => return Err(malformed(format!("a message of unknown kind {kind}"))),
        };
        if descriptors.len() > most {
            return Err(malformed(format!(
                "{} descriptors, at most {most} expected",
                descriptors.len()
            )));
        }
        Ok((record, descriptors))
    }
}

/// A duration as the kernel takes it.
pub(crate) fn timespec(duration: Duration) -> rustix::event::Timespec {
    rustix::event::Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// Waits until the socket is readable.
fn readable(
    socket: BorrowedFd<'_>,
    death: Option<BorrowedFd<'_>>,
    limit: Option<Duration>,
    spin: Duration,
) -> std::result::Result<(), Broken> {
    let Some(death) = death else {
        // without a death to watch the receiving call itself waits
        return Ok(());
    };
    let begun = std::time::Instant::now();
    loop {
        let spins = !spin.is_zero() && begun.elapsed() < spin;
        let left = if spins {
            Some(Duration::ZERO)
        } else {
            limit.map(|limit| limit.saturating_sub(begun.elapsed()))
        };
        let timeout = left.map(timespec);
        let mut polled = [
            PollFd::from_borrowed_fd(socket, PollFlags::IN),
            PollFd::from_borrowed_fd(death, PollFlags::IN),
        ];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) if spins => std::hint::spin_loop(),
            Ok(0) => return Err(Broken::TimedOut),
            Err(Errno::INTR) => {}
            Err(error) => return Err(Broken::Malformed(format!("poll: {error}"))),
            // what was sent before the death still counts
            Ok(_) if !polled[0].revents().is_empty() => return Ok(()),
            Ok(_) => return Err(Broken::Closed),
        }
    }
}

fn transmit(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS + 1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    loop {
        match rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags) {
            Err(Errno::INTR) => {}
            done => return done.map(drop),
        }
    }
}

fn accept(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> std::result::Result<(usize, Vec<OwnedFd>), Broken> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(KERNEL_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let into = &mut [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(socket, into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET | Errno::PIPE) => return Err(Broken::Closed),
            Err(error) => return Err(Broken::Malformed(format!("recvmsg: {error}"))),
            Ok(received) => break received,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(Broken::Malformed(
            "a message is longer than any record".to_owned(),
        ));
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Broken::NoDescriptors);
    }
    Ok((received.bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Answer, Event, MOST_STORED, Reply, Service};

    fn ends() -> (Channel, Channel) {
        let (one, two) = pair().unwrap();
        (Channel::new(one), Channel::new(two))
    }

    #[test]
    fn large_records_and_descriptors_cross() {
        let (mut one, mut two) = ends();
        let file = shared_file::filled([&b"data"[..]]).unwrap();
        let answers: [Answer; 2] = [
            Ok(Reply::Done),
            Ok(Reply::Support(
                (0..9000).map(|node| (node, "a long reason".to_owned())).collect(),
            )),
        ];
        for answer in answers {
            one.send(&answer, &[file.as_fd()]).unwrap();
            let (seen, descriptors) = two.receive::<Answer>(1, None, None).unwrap();
            assert_eq!(seen, answer);
            assert_eq!(shared_file::read(descriptors[0].as_fd(), 4).unwrap(), b"data");
        }
    }

    #[test]
    fn bytes_that_are_no_record_are_refused() {
        let (one, mut two) = ends();
        for bytes in [
            &[][..],
            &[7],
            &[IN_FILE],
            &[IN_FILE, 1],
            &[IN_MESSAGE, 255, 255],
            &[0; INLINE + 9],
        ] {
            transmit(one.socket(), bytes, &[], SendFlags::NOSIGNAL).unwrap();
            let seen = two.receive::<Answer>(1, None, None);
            assert!(
                matches!(seen, Err(Broken::Malformed(_) | Broken::Closed)),
                "{bytes:?}: {seen:?}"
            );
        }
        let file = shared_file::filled([&b"x"[..]]).unwrap();
        let twice = [file.as_fd(), file.as_fd()];
        transmit(one.socket(), &[IN_MESSAGE, 0, 0], &twice, SendFlags::NOSIGNAL).unwrap();
        assert!(matches!(
            two.receive::<Answer>(1, None, None),
            Err(Broken::Malformed(_))
        ));
        drop(one);
        assert!(matches!(
            two.receive::<Answer>(1, None, None),
            Err(Broken::Closed)
        ));
    }

    #[test]
    fn record_files_are_bounded_by_their_type_and_sealed() {
        let (one, mut two) = ends();
        let open = rustix::fs::memfd_create("open", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&open, &[0, 0]).unwrap();
        let large = vec![0; Event::MOST_BYTES as usize + 1];
        let large = shared_file::filled([&large[..]]).unwrap();
        for (file, words) in [(open, "not sealed"), (large, "the limit is")] {
            transmit(one.socket(), &[IN_FILE], &[file.as_fd()], SendFlags::NOSIGNAL).unwrap();
            let seen = two.receive::<Event>(0, None, None);
            assert!(
                matches!(&seen, Err(Broken::Malformed(why)) if why.contains(words)),
                "{words}: {seen:?}"
            );
        }
        let (mut one, _two) = ends();
        let long = Service::StoreWrite {
            key: "key".to_owned(),
            value: vec![0; 2 * MOST_STORED],
        };
        let error = one.send(&long, &[]).unwrap_err();
        assert!(error.to_string().contains("the limit is"), "{error}");
    }

    #[test]
    fn impatient_end_does_not_wait_for_a_reader() {
        let (one, _two) = ends();
        let mut one = one.impatient();
        assert!((0..1_000_000).any(|_| one.send(&Event::Ended { slot: 0 }, &[]).is_err()));
    }

    #[test]
    fn silence_ends_at_the_limit() {
        let (mut one, two) = ends();
        let (never, _other) = pair().unwrap();
        let limit = Some(Duration::from_millis(2));
        let seen = one.receive::<Answer>(0, Some(never.as_fd()), limit);
        assert!(matches!(seen, Err(Broken::TimedOut)));
        drop(two);
    }
}
