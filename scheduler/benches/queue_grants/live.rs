//! Parts that request queue grants as the parts of sessions do. A run that has already ended stands
//! for the device's work, so only the cost of the grant is left.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use polychip_device_queue::Class;
use polychip_graph::{Graph, Node, Tensor};
use polychip_host::{Clock, CompileOptions, Device, FlatGraph, Host, Memory, Submission};
use polychip_ops::{DType, Op, TensorType};

use crate::device_queue::{DeviceQueue, DeviceQueues, GrantRequest, Member, PartFence, QueueGrant};
use crate::notifier::Notifier;

/// The device queue of a CPU of one place, and a run of it that has ended.
pub(crate) struct Live {
    device_queue: Arc<DeviceQueue>,
    ended: PartFence,
    /// Held, so that the device queue counts as many sessions.
    members: Mutex<Vec<Member>>,
}

/// A part of a session.
pub(crate) struct One {
    grant: QueueGrant,
    notifier: Notifier,
    asked: GrantRequest,
}

/// `y = relu(x)` over four floats, once computed.
fn ended(device: &Device) -> PartFence {
    let mut graph = Graph::new("relu");
    let mut tensor = |name: &str| graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[4])));
    let (x, y) = (tensor("x"), tensor("y"));
    graph.add_node(Node::new(Op::Relu, vec![Some(x)], vec![Some(y)]).named("relu"));
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let executable = device.load(blob, &flat, 1).unwrap();
    let mut submission = Submission::new(&executable, 1);
    for (number, port) in executable.ports().iter().enumerate() {
        let buffer = Arc::new(device.import_buffer(&Memory::new(port.bytes).unwrap()).unwrap());
        submission
            .bind(u32::try_from(number).unwrap(), &buffer, 0)
            .unwrap();
    }
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence.wait(Duration::from_secs(60)).unwrap();
    PartFence::new(fence, false)
}

impl Live {
    pub(crate) fn new() -> Live {
        let host = Host::builder()
            .linked(polychip_cpu::query)
            .configure("cpu", "threads", "1")
            .build();
        let device = &host.devices()[0];
        let clock = Clock::real();
        let device_queue = DeviceQueues::new(host.devices(), &clock).of(device);
        Live {
            device_queue,
            ended: ended(device),
            members: Mutex::default(),
        }
    }

    /// So many sessions with a part each, of all classes, whose deadlines are mixed.
    pub(crate) fn sessions(&self, count: usize) -> Vec<One> {
        let mut members = self.members.lock().unwrap();
        members.clear();
        let one = |session: usize| {
            members.push(self.device_queue.join(session, false));
            let notifier = Notifier::new();
            One {
                grant: QueueGrant::new(&self.device_queue, notifier.waker()),
                notifier,
                asked: GrantRequest {
                    class: Class::ALL[session % Class::COUNT],
                    deadline_ns: Some((session as u64 * 7919) % 1000),
                    since_ns: session as u64,
                    expected_ns: 1000,
                    width: 1,
                },
            }
        };
        let sessions = (0..count).map(one).collect();
        assert_eq!(self.device_queue.is_shared(), count > 1);
        sessions
    }

    /// What a session does that has the device alone: it does not ask.
    pub(crate) fn is_free(&self, one: &One) -> bool {
        !self.device_queue.is_shared() && !one.grant.is_asked()
    }

    /// All ask; then each that has its grant is given to the device, which has done with it at once, until none waits.
    pub(crate) fn round(&self, sessions: &[One]) {
        for one in sessions {
            one.grant.ask(&one.asked);
        }
        let mut left = sessions.len();
        while left > 0 {
            for one in sessions {
                if one.grant.is_asked() && !one.grant.is_waiting() {
                    assert!(one.grant.begun(&self.ended), "the end is notified");
                    left -= 1;
                }
            }
        }
    }

    /// Requests and uses this many grants for one session, which waits among others.
    pub(crate) fn round_trips(&self, one: &One, count: u64) {
        for _ in 0..count {
            let mut seen = one.notifier.count();
            let mut has = one.grant.ask(&one.asked);
            while !has {
                one.notifier.wait(seen, Duration::from_secs(60));
                seen = one.notifier.count();
                has = one.grant.ask(&one.asked);
            }
            assert!(one.grant.begun(&self.ended), "the end is notified");
        }
    }
}
