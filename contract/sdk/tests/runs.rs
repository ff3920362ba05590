//! The state machine of runs, through the host: a device whose runs do what their input says, in calls that come
//! back and in calls that may not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use polychip_graph::{Graph, Node, Tensor};
use polychip_host::{
    Access, Buffer, CompileOptions, ErrorKind as Kind, Executable as Loaded, Fence, FlatGraph, Host,
    Memory as HostMemory, Query, Submission,
};
use polychip_ops::{DType, Op, TensorType};
use polychip_sdk::{
    Compute, Device, DeviceInfo, DeviceKind, Executable, ExecutableInfo, GraphView, HostBuffer, HostServices,
    LoadSource, Memory, Offers, Pace, Plugin, PluginInfo, Port, PortBuffer, Result, Run, RunContext,
    RunQueue, Runner, Span, Submit, Support, plugin_query,
};

/// What a run is told by the byte of its input; any other byte is copied to the output.
const PANIC: u8 = 101;
const UNTIL_CANCELLED: u8 = 102;
const UNTIL_LET_GO: u8 = 103;

/// Lets a run of `UNTIL_LET_GO` come back.
static LET_GO: AtomicBool = AtomicBool::new(false);

struct Toy<const MAY_HANG: bool>(HostServices);

struct ToyDevice<const MAY_HANG: bool> {
    info: DeviceInfo,
    runner: Runner<ToyRun<MAY_HANG>>,
    queue: Arc<RunQueue<ToyRun<MAY_HANG>>>,
}

struct ToyPart<const MAY_HANG: bool> {
    queue: Arc<RunQueue<ToyRun<MAY_HANG>>>,
    ports: Vec<Port>,
    pace: Pace,
    order: Arc<Mutex<Vec<u8>>>,
}

type ToyRun<const MAY_HANG: bool> = Run<ToyPart<MAY_HANG>>;

/// Bytes of all runs in the order in which they computed.
static ORDER: Mutex<Option<Arc<Mutex<Vec<u8>>>>> = Mutex::new(None);

impl<const MAY_HANG: bool> Compute for ToyPart<MAY_HANG> {
    type Buffer = HostBuffer;
    const MAY_HANG: bool = MAY_HANG;

    fn pace(&self) -> Option<&Pace> {
        Some(&self.pace)
    }

    fn compute(&self, bound: &[PortBuffer<HostBuffer>], run: &RunContext<'_>) -> Result<Span> {
        let mut byte = [0];
        bound[0].copy_out(0, &mut byte)?;
        self.order
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(byte[0]);
        match byte[0] {
            PANIC => panic!("told to"),
            UNTIL_CANCELLED => loop {
                run.check_cancelled()?;
                std::thread::yield_now();
            },
            UNTIL_LET_GO => {
                while !LET_GO.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                Ok(Span::Call)
            }
            _ => {
                bound[1].copy_in(&byte)?;
                Ok(Span::Device(0))
            }
        }
    }
}

impl<const MAY_HANG: bool> Executable for ToyPart<MAY_HANG> {
    type Buffer = HostBuffer;
    type Fence = ToyRun<MAY_HANG>;

    fn info(&self) -> ExecutableInfo {
        ExecutableInfo::default()
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(
        self: &Arc<Self>,
        submit: &Submit<'_, HostBuffer, ToyRun<MAY_HANG>>,
    ) -> Result<Arc<ToyRun<MAY_HANG>>> {
        Run::start(self, &self.queue, submit)
    }
}

impl<const MAY_HANG: bool> Device for ToyDevice<MAY_HANG> {
    type Blob = Vec<u8>;
    type Executable = ToyPart<MAY_HANG>;
    type Buffer = HostBuffer;
    type Fence = ToyRun<MAY_HANG>;
    const OFFERS: Offers = Offers {
        cancel: true,
        device_reset: true,
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

    fn load(&self, _: LoadSource<'_, Vec<u8>>) -> Result<Arc<ToyPart<MAY_HANG>>> {
        let order = ORDER.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Arc::new(ToyPart {
            queue: Arc::clone(&self.queue),
            ports: vec![
                Port::dense(false, DType::U8, &[1])?,
                Port::dense(true, DType::U8, &[1])?,
            ],
            pace: Pace::default(),
            order: order.unwrap_or_default(),
        }))
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<HostBuffer>> {
        HostBuffer::create(wanted).map(Arc::new)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<HostBuffer>> {
        HostBuffer::import(memory).map(Arc::new)
    }

    fn reset(&self) -> Result<()> {
        self.queue.abandon();
        self.runner.keep_serving()
    }
}

impl<const MAY_HANG: bool> Plugin for Toy<MAY_HANG> {
    type Device = ToyDevice<MAY_HANG>;
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

    fn open(&self, _: u32) -> Result<ToyDevice<MAY_HANG>> {
        let queue = Arc::new(RunQueue::new(self.0.clone()));
        Ok(ToyDevice {
            info: DeviceInfo {
                import_alignment: 1,
                serial: true,
                ..DeviceInfo::new(DeviceKind::Npu, "toy")
            },
            runner: Runner::start(&queue, "toy-runs")?,
            queue,
        })
    }
}

/// A loaded part, and what its runs were told in the order in which they computed.
struct Bench {
    host: Host,
    part: Loaded,
    order: Arc<Mutex<Vec<u8>>>,
}

/// A run in flight with its buffers.
struct InFlight {
    fence: Fence,
    buffers: [Arc<Buffer>; 2],
    _submission: Submission,
}

const LONG: Duration = Duration::from_secs(60);

impl Bench {
    fn new(query: Query) -> Bench {
        let host = Host::builder().linked(query).build();
        assert_eq!(host.refusals(), []);
        let order = Arc::default();
        let part = {
            let mut place = ORDER.lock().unwrap_or_else(PoisonError::into_inner);
            *place = Some(Arc::clone(&order));
            drop(place);
            Bench::load(&host)
        };
        Bench { host, part, order }
    }

    fn load(host: &Host) -> Loaded {
        let mut graph = Graph::new("toy");
        let [x, y] =
            ["x", "y"].map(|name| graph.add_tensor(Tensor::new(name, TensorType::known(DType::U8, &[1]))));
        graph.add_node(Node::new(Op::Identity, vec![Some(x)], vec![Some(y)]));
        graph.inputs = vec![x];
        graph.outputs = vec![y];
        let flat = FlatGraph::new(&graph, &[]).unwrap();
        let device = &host.devices()[0];
        let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
        device.load(blob, &flat, 1).unwrap()
    }

    fn start(&self, byte: u8, waits: &[&Fence], change: impl FnOnce(&mut Submission)) -> InFlight {
        self.start_on(&self.part, byte, waits, change)
    }

    fn start_on(
        &self,
        part: &Loaded,
        byte: u8,
        waits: &[&Fence],
        change: impl FnOnce(&mut Submission),
    ) -> InFlight {
        let device = &self.host.devices()[0];
        let mut submission = Submission::new(part, 4);
        let buffers = [0, 1].map(|port| {
            let buffer = Arc::new(device.import_buffer(&HostMemory::new(1).unwrap()).unwrap());
            submission.bind(port, &buffer, 0).unwrap();
            buffer
        });
        buffers[0].access(Access::Write, 0, 1).unwrap()[0] = byte;
        change(&mut submission);
        InFlight {
            fence: part.execute(&mut submission, waits).unwrap(),
            buffers,
            _submission: submission,
        }
    }

    fn order(&self) -> Vec<u8> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl InFlight {
    fn ends_with(&self) -> Result<u8, Kind> {
        self.fence.wait(LONG).map_err(|error| error.kind())?;
        Ok(self.buffers[1].access(Access::Read, 0, 1).unwrap()[0])
    }
}

/// Both kinds of device, one test at a time: parts take their order list from a place of the process.
fn both(judge: impl Fn(&Bench, bool)) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    judge(&Bench::new(plugin_query::<Toy<false>>), false);
    judge(&Bench::new(plugin_query::<Toy<true>>), true);
}

#[test]
fn issue_14_run_past_its_deadline_has_a_timing() {
    both(|bench, _| {
        let late = bench.start(1, &[], |submission| submission.deadline_ns = Some(0));
        assert_eq!(late.ends_with(), Err(Kind::Cancelled));
        let (start_ns, end_ns) = late.fence.timing().unwrap().span_ns.unwrap();
        assert!(late.fence.timing().unwrap().queued_ns.unwrap() <= start_ns && start_ns <= end_ns);
        assert_eq!(bench.order(), []);
        let in_time = bench.start(7, &[], |submission| submission.deadline_ns = Some(u64::MAX - 1));
        assert_eq!(in_time.ends_with(), Ok(7));
        // the device worked for no time, up to the end of the call
        let (start_ns, end_ns) = in_time.fence.timing().unwrap().span_ns.unwrap();
        assert_eq!(start_ns, end_ns);
    });
}

#[test]
fn panicking_run_ends_with_an_error_and_the_next_one_runs() {
    both(|bench, _| {
        let torn = bench.start(PANIC, &[], |_| {});
        let error = torn.fence.wait(LONG).unwrap_err();
        assert_eq!(error.kind(), Kind::Persistent);
        assert!(error.to_string().contains("told to"), "{error}");
        assert!(torn.fence.timing().unwrap().span_ns.is_some());
        let behind = bench.start(5, &[&torn.fence], |_| {});
        assert_eq!(behind.ends_with(), Err(Kind::Persistent));
        assert!(behind.fence.timing().is_err());
        assert_eq!(bench.start(6, &[], |_| {}).ends_with(), Ok(6));
    });
}

#[test]
fn run_is_cancelled_before_and_during_computation() {
    both(|bench, _| {
        let long = bench.start(UNTIL_CANCELLED, &[], |_| {});
        while bench.order().is_empty() {
            std::thread::yield_now();
        }
        let behind = bench.start(5, &[], |_| {});
        behind.fence.cancel().unwrap();
        // it is not its turn: a wait with a limit does not compute what is before it
        let kind = |run: &InFlight, wait| run.fence.wait(wait).unwrap_err().kind();
        assert_eq!(kind(&behind, Duration::from_millis(2)), Kind::Timeout);
        long.fence.cancel().unwrap();
        assert_eq!(kind(&long, LONG), Kind::Cancelled);
        assert_eq!(kind(&behind, LONG), Kind::Cancelled);
        assert!(long.fence.timing().is_ok() && behind.fence.timing().is_err());
        assert_eq!(bench.order(), [UNTIL_CANCELLED]);
    });
}

#[test]
fn run_waits_for_others_on_any_thread() {
    both(|bench, _| {
        let first = bench.start(1, &[], |_| {});
        let second = bench.start(2, &[&first.fence], |_| {});
        let third = bench.start(3, &[&first.fence, &second.fence], |submission| {
            submission.priority = polychip_host::Priority::Urgent;
        });
        assert_eq!(third.ends_with(), Ok(3));
        assert_eq!((first.ends_with(), second.ends_with()), (Ok(1), Ok(2)));
        assert_eq!(bench.order(), [1, 2, 3]);
    });
}

#[test]
fn reset_leaves_a_hung_call_behind() {
    both(|bench, may_hang| {
        if !may_hang {
            return;
        }
        LET_GO.store(false, Ordering::Release);
        let hung = bench.start(UNTIL_LET_GO, &[], |_| {});
        while bench.order().is_empty() {
            std::thread::yield_now();
        }
        let queued = bench.start(4, &[], |_| {});
        let waits = bench.start(5, &[&hung.fence], |_| {});
        bench.host.devices()[0].reset().unwrap();
        for run in [&hung, &queued, &waits] {
            assert_eq!(run.ends_with(), Err(Kind::DeviceLost));
            assert!(run.fence.timing().is_err());
        }
        let again = Bench::load(&bench.host);
        assert_eq!(bench.start_on(&again, 8, &[], |_| {}).ends_with(), Ok(8));
        LET_GO.store(true, Ordering::Release);
        assert_eq!(bench.start_on(&again, 9, &[], |_| {}).ends_with(), Ok(9));
        assert_eq!(bench.order(), [UNTIL_LET_GO, 8, 9]);
    });
}
