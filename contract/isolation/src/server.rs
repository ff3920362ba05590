//! The child's side: calls the plugin of one library for the host's process.
//!
//! Invariants:
//! 1. The process ends when the host closes the control socket or ends.
//! 2. A handle is a number of a table here. An unknown number is an error of that call.
//! 3. Every object keeps the memory that the contract says must outlive it.
//!
//! The host is trusted, since it starts this process; its records are checked all the same.

mod calls;
mod copies;
mod failure;
mod objects;
mod raw_graph;
mod requests;
mod restrict;
mod runs;
mod services;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, OnceLock};

use polychip_abi as abi;

use crate::confinement::Confinement;
use crate::fence_slots::FenceSlots;
use crate::frame::{Broken, Channel};
use crate::message::{Answer, Control, Event, Greeting, Hello, OPTIONAL, Request, VERSION};
use crate::shared_file::MOST_DESCRIPTORS;
use objects::{Ended, Objects};
pub use restrict::restrict;
use services::HostClient;

/// Everything of the process; it lives until the process ends.
struct Server {
    table: abi::polychip_plugin_table,
    instance: Mutex<Option<objects::Handle<abi::polychip_instance>>>,
    objects: Objects,
    slots: FenceSlots,
    events: Mutex<Channel>,
    services: &'static HostClient,
    /// Runs that have ended, for the thread that copies what they wrote.
    copier: OnceLock<Sender<Ended>>,
    /// Whether the host's time is virtual: only the host may wait for runs then.
    is_virtual: bool,
}

/// The host's end of the control socket: standard input, which is replaced.
fn control() -> Result<Channel, String> {
    let system = |error: rustix::io::Errno| error.to_string();
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(system)?;
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
        .map_err(system)?;
    rustix::stdio::dup2_stdin(&null).map_err(system)?;
    Ok(Channel::new(control))
}

/// Tells the host why the plugin cannot be used.
///
/// # Errors
/// There is no host.
pub fn greet_failure(reason: &str) -> Result<(), String> {
    let refused: Greeting = Err(reason.to_owned());
    control()?.send(&refused, &[]).map_err(|error| error.to_string())
}

/// Serves the plugin of `table` to the process that started this one, and tells it how this process is confined.
/// Returns when that process
/// closes the control socket. The caller must then end this process at once.
///
/// # Errors
/// There is no host, or it breaks the protocol.
pub fn serve(table: &abi::polychip_plugin_table, confinement: Confinement) -> Result<(), String> {
    let mut control = control()?;
    let words = |error: polychip_sdk::Error| error.to_string();
    let greeting: Greeting = greeting(table, confinement);
    control.send(&greeting, &[]).map_err(words)?;
    let (setup, descriptors) = match control.receive::<Control>(3, None, None) {
        Ok(received) => received,
        // the host wanted the greeting only
        Err(_) => return Ok(()),
    };
    let Control::Setup { clock_offset_ns } = setup else {
        return Err("the first message is not the set-up".to_owned());
    };
    let [slots, events, services]: [OwnedFd; 3] = descriptors
        .try_into()
        .map_err(|_| "the set-up lacks descriptors".to_owned())?;
    let services: &'static HostClient = Box::leak(Box::new(HostClient::new(services, clock_offset_ns)));
    let server: &'static Server = Box::leak(Box::new(Server {
        table: *table,
        instance: Mutex::new(None),
        objects: Objects::default(),
        slots: FenceSlots::of_file(slots).map_err(words)?,
        events: Mutex::new(Channel::new(events)),
        services,
        copier: OnceLock::new(),
        is_virtual: clock_offset_ns.is_none(),
    }));
    loop {
        let mut descriptors = match control.receive::<Control>(1, None, None) {
            Ok((Control::Connect, descriptors)) => descriptors,
            Ok((Control::Setup { .. }, _)) => return Err("a second set-up".to_owned()),
            Err(Broken::Closed | Broken::TimedOut) => return Ok(()),
            Err(Broken::Malformed(words)) => return Err(words),
            Err(Broken::NoDescriptors) => {
                return Err("this process has no free descriptors for another connection".to_owned());
            }
        };
        let Some(connection) = descriptors.pop() else {
            return Err("a connection without a descriptor".to_owned());
        };
        let started = std::thread::Builder::new()
            .name("polychip-calls".to_owned())
            .spawn(move || {
                answer(server, Channel::new(connection));
            });
        started.map_err(|error| format!("a thread: {error}"))?;
    }
}

/// Answers the requests of one connection, one at a time. The reason for which a connection is dropped is
/// printed, for the host's message.
fn answer(server: &'static Server, mut connection: Channel) {
    loop {
        let answered = match connection.receive::<Request>(MOST_DESCRIPTORS, None, None) {
            Ok((request, descriptors)) => server.answer(request, descriptors),
            Err(Broken::NoDescriptors) => Err(failure::failure(
                abi::POLYCHIP_STATUS_OUT_OF_MEMORY,
                "the plugin's process has no free descriptors",
            )),
            Err(Broken::Closed | Broken::TimedOut) => return,
            Err(Broken::Malformed(words)) => {
                eprintln!("a request cannot be read: {words}");
                return;
            }
        };
        let (answer, descriptor): (Answer, Option<OwnedFd>) = match answered {
            Ok((reply, descriptor)) => (Ok(reply), descriptor),
            Err(failure) => (Err(failure), None),
        };
        let descriptors: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
        let mut sent = connection.send(&answer, &descriptors);
        if let Err(error) = &sent
            && error.kind() != polychip_sdk::ErrorKind::DeviceLost
        {
            // nothing was sent yet
            sent = connection.send(&Answer::Err(error.clone().into()), &[]);
        }
        if let Err(error) = sent {
            eprintln!("an answer cannot be sent: {error}");
            return;
        }
    }
}

/// What the plugin is.
#[allow(unsafe_code, reason = "the plugin's table is called here")]
fn greeting(table: &abi::polychip_plugin_table, confinement: Confinement) -> Greeting {
    let mut info = <abi::polychip_plugin_info as abi::Sized>::sized();
    let call = table.plugin_info.ok_or("the table lacks plugin_info")?;
    // SAFETY: `info` is a whole record of this build.
    let status = unsafe { call(&raw mut info) };
    if status != abi::POLYCHIP_STATUS_OK {
        return Err(format!("plugin_info returned status {status}"));
    }
    let present = [
        table.operating_points.is_some(),
        table.set_operating_point.is_some(),
        table.estimate.is_some(),
        table.buffer_export.is_some(),
        table.cancel.is_some(),
        table.device_reset.is_some(),
        table.fence_on_signal.is_some(),
        table.fence_import_fd.is_some(),
        table.fence_export_fd.is_some(),
        table.fence_timing.is_some(),
        table.fence_output_shape.is_some(),
        table.telemetry.is_some(),
        table.fence_steps.is_some(),
    ];
    debug_assert_eq!(present.len(), OPTIONAL.len());
    // SAFETY: the texts of a plugin's information are static.
    let text = |text: abi::polychip_text| unsafe { calls::text(text) };
    Ok(Hello {
        version: VERSION,
        name: text(info.name),
        plugin_version: text(info.version),
        build_id: text(info.build_id),
        abi_minor: table.abi_minor,
        offers: present
            .iter()
            .enumerate()
            .map(|(bit, present)| u32::from(*present) << bit)
            .sum(),
        confinement,
    })
}

impl Server {
    /// Tells the host that the run of a slot has ended.
    fn tell(&self, slot: u32) {
        let mut events = self
            .events
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // a host that is gone needs no telling
        let _ = events.send(&Event::Ended { slot }, &[]);
    }
}
