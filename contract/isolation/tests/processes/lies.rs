//! A program in place of `polychip-plugin-host` that breaks the protocol in one way.

use std::io::{IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// Each lie, and words of the reason for which the plugin is refused.
pub(super) const LIES: [(&str, &str); 17] = [
    ("no-greeting", "exited with code"),
    ("garbage-greeting", "no record"),
    ("closed-greeting", "closed its connection while it loaded"),
    ("talkative-greeting", "another version"),
    ("another-version", "another version"),
    ("unknown-reply", "no record"),
    ("unknown-kind", "unknown kind 9"),
    ("empty", "connection"),
    ("another-reply", "device_count: Done"),
    ("absurd-count", "4000000000 devices"),
    ("success-as-failure", "status of success"),
    ("file-of-nothing", "holds"),
    ("unsealed-file", "not sealed"),
    ("large-file", "the limit is"),
    ("many-descriptors", "descriptors"),
    ("silence", "did not return within"),
    ("closed", "closed its connection"),
];

fn send(socket: BorrowedFd<'_>, bytes: &[u8], files: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(files)));
    }
    let _ = rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
}

/// Bytes received, and the first descriptor.
fn receive(socket: BorrowedFd<'_>) -> (usize, Option<OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 4096];
    let received = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    );
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    (
        received.map_or(0, |received| received.bytes),
        files.into_iter().next(),
    )
}

/// A greeting as the program would send it.
fn greeting(version: u32) -> Vec<u8> {
    type Confinement = (Vec<String>, Vec<String>);
    type Greeting = Result<
        (
            u32,
            &'static str,
            &'static str,
            &'static str,
            u32,
            u32,
            Confinement,
        ),
        &'static str,
    >;
    let greeting: Greeting = Ok((version, "liar", "1", "build", 3, 0, (Vec::new(), Vec::new())));
    let mut bytes = vec![0];
    bytes.extend(postcard::to_stdvec(&greeting).unwrap());
    bytes
}

/// An answer of success: `Done`.
const DONE: [u8; 3] = [0, 0, 0];

pub(super) fn tell(lie: &str) {
    let control = rustix::stdio::stdin();
    match lie {
        "no-greeting" => return,
        "garbage-greeting" => return send(control, &[0, 7, 7, 7], &[]),
        "another-version" => return send(control, &greeting(99), &[]),
        "closed-greeting" => {
            let flags = rustix::fs::OFlags::RDONLY;
            let null = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()).unwrap();
            rustix::stdio::dup2_stdin(&null).unwrap();
            loop {
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
        }
        "talkative-greeting" => {
            // more than a pipe holds
            std::io::stdout().write_all(&vec![b'x'; 256 << 10]).unwrap();
            return send(control, &greeting(99), &[]);
        }
        _ => send(control, &greeting(3), &[]),
    }
    // the set-up, unless the host wanted the greeting only
    if receive(control).0 == 0 {
        return;
    }
    loop {
        let (count, connection) = receive(control);
        let Some(connection) = connection.filter(|_| count > 0) else {
            return;
        };
        // `create` is answered in good faith, `device_count` is not
        if receive(connection.as_fd()).0 == 0 {
            continue;
        }
        send(connection.as_fd(), &DONE, &[]);
        if receive(connection.as_fd()).0 == 0 {
            continue;
        }
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("lie", flags).unwrap();
        let sized = |bytes: u64| {
            rustix::fs::ftruncate(&file, bytes).unwrap();
            rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::SHRINK).unwrap();
            send(connection.as_fd(), &[1], &[file.as_fd()]);
        };
        let answer = |bytes: &[u8]| send(connection.as_fd(), bytes, &[]);
        match lie {
            "unknown-reply" => answer(&[0, 0, 99]),
            "unknown-kind" => answer(&[9, 0, 0]),
            "empty" => answer(&[]),
            "another-reply" => answer(&DONE),
            "absurd-count" => {
                let count: Result<u32, u32> = Ok(4_000_000_000);
                let count = postcard::to_stdvec(&count).unwrap();
                answer(&[&[0, 0, 1], &count[1..]].concat());
            }
            "success-as-failure" => answer(&[0, 1, 0, 0, 0, 0, 0]),
            "file-of-nothing" => sized(1 << 20),
            "large-file" => sized(1 << 29),
            "unsealed-file" => {
                rustix::io::write(&file, &DONE[1..]).unwrap();
                send(connection.as_fd(), &[1], &[file.as_fd()]);
            }
            "many-descriptors" => send(connection.as_fd(), &DONE, &[file.as_fd(); 5]),
            "silence" => loop {
                std::thread::sleep(std::time::Duration::from_secs(1));
            },
            "closed" => {
                drop(connection);
                loop {
                    std::thread::sleep(std::time::Duration::from_secs(1));
                }
            }
            _ => return,
        }
        // until the host ends this process
        while receive(connection.as_fd()).0 > 0 {}
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
}
