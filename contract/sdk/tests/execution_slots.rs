//! Concurrent runs on the execution slots of a device, through the host: their number, order and end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use polychip_graph::{Graph, Node, Tensor};
use polychip_host::{
    Access, Buffer, CompileOptions, ErrorKind, Executable as Loaded, Fence, FlatGraph, Host,
    Memory as HostMemory, Priority, Submission,
};
use polychip_ops::{DType, Op, TensorType};
use polychip_sdk::{
    Compute, Device, DeviceInfo, DeviceKind, Executable, ExecutableInfo, GraphView, HostBuffer, HostServices,
    LoadSource, Memory, Offers, Pace, Plugin, PluginInfo, Port, PortBuffer, Result, Run, RunContext,
    RunQueue, Runner, Span, Submit, Support, plugin_query,
};

/// Execution slots of the device.
const SLOTS: usize = 3;

/// A run of a byte from 1 to this one ends once that many such runs compute.
const TOGETHER: u8 = SLOTS as u8;
/// A run of this byte computes until [`Seen::let_go`].
const HOLDS: u8 = 100;

/// Record of the runs of a device.
#[derive(Default)]
struct Seen {
    /// Slots in use now, and their maximum.
    now: AtomicUsize,
    most: AtomicUsize,
    /// Runs that wait for each other.
    together: AtomicUsize,
    let_go: AtomicUsize,
    /// Bytes in the order in which runs began.
    order: Mutex<Vec<u8>>,
}

/// Record of the next device.
static SEEN: Mutex<Option<Arc<Seen>>> = Mutex::new(None);

struct Toy(HostServices);

struct ToyDevice {
    info: DeviceInfo,
    seen: Arc<Seen>,
    queue: Arc<RunQueue<Run<ToyPart>>>,
    _runner: Runner<Run<ToyPart>>,
}

struct ToyPart {
    queue: Arc<RunQueue<Run<ToyPart>>>,
    ports: Vec<Port>,
    pace: Pace,
    slots: usize,
    seen: Arc<Seen>,
}

impl Compute for ToyPart {
    type Buffer = HostBuffer;

    fn pace(&self) -> Option<&Pace> {
        Some(&self.pace)
    }

    fn slots(&self) -> usize {
        self.slots
    }

    fn compute(&self, bound: &[PortBuffer<HostBuffer>], _: &RunContext<'_>) -> Result<Span> {
        let seen = &*self.seen;
        let own = self.slots.min(SLOTS);
        let now = seen.now.fetch_add(own, Ordering::SeqCst) + own;
        seen.most.fetch_max(now, Ordering::SeqCst);
        let mut byte = [0];
        bound[0].copy_out(0, &mut byte)?;
        let mut order = seen.order.lock().unwrap_or_else(PoisonError::into_inner);
        order.push(byte[0]);
        drop(order);
        match byte[0] {
            HOLDS => {
                while seen.let_go.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
            }
            wanted @ 1..=TOGETHER => {
                seen.together.fetch_add(1, Ordering::SeqCst);
                while seen.together.load(Ordering::SeqCst) < usize::from(wanted) {
                    std::thread::yield_now();
                }
            }
            _ => std::thread::yield_now(),
        }
        bound[1].copy_in(&byte)?;
        seen.now.fetch_sub(own, Ordering::SeqCst);
        Ok(Span::Call)
    }
}

impl Executable for ToyPart {
    type Buffer = HostBuffer;
    type Fence = Run<ToyPart>;

    fn info(&self) -> ExecutableInfo {
        ExecutableInfo::default()
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, HostBuffer, Run<ToyPart>>) -> Result<Arc<Run<ToyPart>>> {
        Run::start(self, &self.queue, submit)
    }
}

impl Device for ToyDevice {
    type Blob = Vec<u8>;
    type Executable = ToyPart;
    type Buffer = HostBuffer;
    type Fence = Run<ToyPart>;
    const OFFERS: Offers = Offers {
        fence_timing: true,
        ..Offers::NONE
    };

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        Ok(graph.nodes().map(|_| Support::Yes).collect())
    }

    fn compile(&self, _: &GraphView<'_>, _: &polychip_sdk::CompileOptions) -> Result<Vec<u8>> {
        Ok(vec![0])
    }

    fn load(&self, source: LoadSource<'_, Vec<u8>>) -> Result<Arc<ToyPart>> {
        Ok(Arc::new(ToyPart {
            queue: Arc::clone(&self.queue),
            ports: vec![
                Port::dense(false, DType::U8, &[1])?,
                Port::dense(true, DType::U8, &[1])?,
            ],
            pace: Pace::default(),
            slots: source.threads as usize,
            seen: Arc::clone(&self.seen),
        }))
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<HostBuffer>> {
        HostBuffer::create(wanted).map(Arc::new)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<HostBuffer>> {
        HostBuffer::import(memory).map(Arc::new)
    }
}

impl Plugin for Toy {
    type Device = ToyDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "toy",
        version: "1",
        build_id: "toy-1",
    };

    fn create(host: HostServices) -> Result<Self> {
        Ok(Toy(host))
    }

    fn device_count(&self) -> Result<u32> {
        Ok(1)
    }

    fn open(&self, _: u32) -> Result<ToyDevice> {
        let queue = Arc::new(RunQueue::with_slots(self.0.clone(), SLOTS));
        let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(ToyDevice {
            info: DeviceInfo {
                import_alignment: 1,
                ..DeviceInfo::new(DeviceKind::Npu, "toy")
            },
            seen: seen.unwrap_or_default(),
            _runner: Runner::start(&queue, "toy-runs")?,
            queue,
        })
    }
}

/// The device, and one part per number of slots.
struct Bench {
    host: Host,
    parts: Vec<Loaded>,
    seen: Arc<Seen>,
}

struct InFlight {
    fence: Fence,
    buffers: [Arc<Buffer>; 2],
    submission: Submission,
}

const LONG: Duration = Duration::from_secs(60);

impl Bench {
    fn new() -> Bench {
        let seen = Arc::<Seen>::default();
        let host = {
            static ONE: Mutex<()> = Mutex::new(());
            let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
            *SEEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&seen));
            let host = Host::builder().linked(plugin_query::<Toy>).build();
            // devices are opened when they are first asked for
            assert_eq!((host.refusals(), host.devices().len()), (&[][..], 1));
            host
        };
        let parts = (1..=SLOTS as u32)
            .map(|slots| {
                let mut graph = Graph::new("toy");
                let [x, y] = ["x", "y"]
                    .map(|name| graph.add_tensor(Tensor::new(name, TensorType::known(DType::U8, &[1]))));
                graph.add_node(Node::new(Op::Identity, vec![Some(x)], vec![Some(y)]));
                graph.inputs = vec![x];
                graph.outputs = vec![y];
                let flat = FlatGraph::new(&graph, &[]).unwrap();
                let device = &host.devices()[0];
                let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
                device.load(blob, &flat, slots).unwrap()
            })
            .collect();
        Bench { host, parts, seen }
    }

    fn start(&self, slots: usize, byte: u8, priority: Priority) -> InFlight {
        let (device, part) = (&self.host.devices()[0], &self.parts[slots - 1]);
        let mut submission = Submission::new(part, 4);
        let buffers = [0, 1].map(|port| {
            let buffer = Arc::new(device.import_buffer(&HostMemory::new(1).unwrap()).unwrap());
            submission.bind(port, &buffer, 0).unwrap();
            buffer
        });
        buffers[0].access(Access::Write, 0, 1).unwrap()[0] = byte;
        submission.priority = priority;
        InFlight {
            fence: part.execute(&mut submission, &[]).unwrap(),
            buffers,
            submission,
        }
    }

    fn began(&self) -> Vec<u8> {
        let order = self.seen.order.lock().unwrap_or_else(PoisonError::into_inner);
        order.clone()
    }
}

impl InFlight {
    /// Leaves the run to the device's own threads.
    fn poll(&self) {
        while self.fence.timing().is_err() {
            std::thread::yield_now();
        }
    }

    fn answer(&self) -> u8 {
        self.fence.wait(LONG).unwrap();
        self.buffers[1].access(Access::Read, 0, 1).unwrap()[0]
    }
}

#[test]
fn runs_of_waiting_hosts_are_concurrent() {
    let bench = Bench::new();
    let runs: Vec<InFlight> = (0..SLOTS)
        .map(|_| bench.start(1, TOGETHER, Priority::Normal))
        .collect();
    std::thread::scope(|scope| {
        for run in &runs {
            scope.spawn(|| assert_eq!(run.answer(), TOGETHER));
        }
    });
}

#[test]
fn runs_without_a_waiting_host_are_concurrent() {
    let bench = Bench::new();
    let runs: Vec<InFlight> = (0..SLOTS)
        .map(|_| bench.start(1, TOGETHER, Priority::Normal))
        .collect();
    for run in &runs {
        run.poll();
        assert_eq!(run.answer(), TOGETHER);
    }
}

#[test]
fn running_part_leaves_only_free_slots_to_others() {
    let bench = Bench::new();
    let holds = bench.start(2, HOLDS, Priority::Normal);
    while bench.began().is_empty() {
        std::thread::yield_now();
    }
    // one slot is left: enough for this run, not for a run of two
    let beside = bench.start(1, 50, Priority::Normal);
    beside.poll();
    let wide = bench.start(2, 51, Priority::Normal);
    let early = wide.fence.wait(Duration::from_millis(5)).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Timeout);
    // later runs wait behind it, except more urgent ones
    let narrow = bench.start(1, 52, Priority::Normal);
    let urgent = bench.start(1, 53, Priority::Urgent);
    urgent.poll();
    assert_eq!(bench.began(), [HOLDS, 50, 53]);
    bench.seen.let_go.store(1, Ordering::SeqCst);
    narrow.poll();
    assert_eq!((holds.answer(), wide.answer(), narrow.answer()), (HOLDS, 51, 52));
}

#[test]
fn every_run_of_many_threads_completes() {
    const THREADS: usize = 64;
    const RUNS: usize = 40;
    let bench = Bench::new();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let bench = &bench;
            scope.spawn(move || {
                // Lehmer random number generator
                let mut random = 7 + thread as u64;
                let mut draw = |below: u64| {
                    random = random * 48_271 % 0x7fff_ffff;
                    (random % below) as usize
                };
                let priorities = [Priority::Batch, Priority::Normal, Priority::Urgent];
                let mut runs: Vec<(InFlight, u8)> = (0..4)
                    .map(|i| (bench.start(1 + draw(3), 200 + i, Priority::Normal), 200 + i))
                    .collect();
                for round in 0..RUNS {
                    let at = round % runs.len();
                    let (run, byte) = &mut runs[at];
                    if draw(4) == 0 {
                        run.poll();
                    }
                    assert_eq!(run.answer(), *byte, "thread {thread}, run {round}");
                    *byte = 110 + draw(100) as u8;
                    run.buffers[0].access(Access::Write, 0, 1).unwrap()[0] = *byte;
                    run.submission.priority = priorities[draw(3)];
                    let again = bench.start(1 + draw(3), *byte, run.submission.priority);
                    *run = again;
                }
                for (run, byte) in &runs {
                    assert_eq!(run.answer(), *byte);
                }
            });
        }
    });
    assert_eq!(bench.began().len(), THREADS * (4 + RUNS));
    assert_eq!(bench.seen.now.load(Ordering::SeqCst), 0);
    assert!(bench.seen.most.load(Ordering::SeqCst) <= SLOTS);
}
