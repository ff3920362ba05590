//! A cable between this host and a server of it, which can be cut.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Passes connections on for as long as it is not cut.
pub(crate) struct Cable {
    pub(crate) port: u16,
    is_cut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cable {
    /// To a port of this host.
    pub(crate) fn to(port: u16) -> Cable {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let cable = Cable {
            port: listener.local_addr().unwrap().port(),
            is_cut: Arc::default(),
            streams: Arc::default(),
        };
        let (is_cut, streams) = (Arc::clone(&cable.is_cut), Arc::clone(&cable.streams));
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let ends = [near.try_clone().unwrap(), far.try_clone().unwrap()];
                streams.lock().unwrap().extend(ends);
                pass(near.try_clone().unwrap(), far.try_clone().unwrap());
                pass(far, near);
            }
        });
        cable
    }

    /// Cuts it: what is connected breaks, and nothing connects.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Restores the connection.
    pub(crate) fn repair(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}
