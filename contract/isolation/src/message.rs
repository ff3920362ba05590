//! The records that the two processes exchange.
//!
//! Invariants:
//! 1. A record holds numbers, text and bytes only, never an address.
//! 2. A handle is a number that the receiver looks up in a table of its own.
//! 3. Decoding fails for any bytes that are no record; it never panics.

use polychip_sdk::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::confinement::Confinement;
use crate::graph_record::{EncodingRecord, GraphRecord};

/// Version of these records. Both programs are built from one tree; a difference is refused.
pub(crate) const VERSION: u32 = 3;

/// A record that one process receives from the other.
pub(crate) trait Received: DeserializeOwned {
    /// Largest accepted record, in bytes: the most that a correct sender may need.
    const MOST_BYTES: u64;
}

impl Received for Greeting {
    const MOST_BYTES: u64 = SHORT;
}

impl Received for Control {
    const MOST_BYTES: u64 = SHORT;
}

impl Received for Event {
    const MOST_BYTES: u64 = SHORT;
}

impl Received for Answer {
    /// Steps and reasons of graphs with hundreds of thousands of nodes.
    const MOST_BYTES: u64 = 64 << 20;
}

impl Received for Service {
    /// A stored value.
    const MOST_BYTES: u64 = MOST_STORED as u64 + SHORT;
}

impl Received for Request {
    /// The host is trusted, and graphs hold long lists.
    const MOST_BYTES: u64 = 1 << 30;
}

impl Received for Served {
    const MOST_BYTES: u64 = 1 << 30;
}

/// Largest record without content of its own, in bytes: one that fits in a message.
const SHORT: u64 = 48 << 10;

/// Longest log line that is passed on, in bytes.
pub(crate) const LOG_BYTES: usize = 4096;

/// Largest value that a plugin may store through its process, in bytes.
pub(crate) const MOST_STORED: usize = 4 << 20;

/// The optional calls, in the order of their bits in [`Hello::offers`].
pub(crate) const OPTIONAL: [&str; 13] = [
    "operating_points",
    "set_operating_point",
    "estimate",
    "buffer_export",
    "cancel",
    "device_reset",
    "fence_on_signal",
    "fence_import_fd",
    "fence_export_fd",
    "fence_timing",
    "fence_output_shape",
    "telemetry",
    "fence_steps",
];

/// The child's first message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub version: u32,
    pub name: String,
    pub plugin_version: String,
    pub build_id: String,
    /// Minor version of the contract that the plugin was built for.
    pub abi_minor: u32,
    /// Bit `i` is call `i` of [`OPTIONAL`].
    pub offers: u32,
    pub confinement: Confinement,
}

/// The first message: a plugin, or why its library cannot be used.
pub(crate) type Greeting = std::result::Result<Hello, String>;

/// Messages on the control socket, from the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Control {
    /// With the descriptors of the fence slots, the event socket and the service socket.
    Setup {
        /// What to add to the monotonic clock to get the host's; `None` if the host's time is
        /// virtual and must be asked for.
        clock_offset_ns: Option<i64>,
    },
    /// With the descriptor of one more connection for requests.
    Connect,
}

/// A call of the plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    Create,
    Destroy,
    DeviceCount,
    DeviceOpen {
        index: u32,
    },
    DeviceClose {
        device: u64,
    },
    SetOperatingPoint {
        device: u64,
        index: u32,
    },
    DeviceReset {
        device: u64,
    },
    Telemetry {
        device: u64,
    },
    QuerySupport {
        device: u64,
        graph: GraphRecord,
    },
    Estimate {
        device: u64,
        graph: GraphRecord,
        nodes: Vec<u32>,
        part_ends: Vec<u64>,
    },
    Compile {
        device: u64,
        graph: GraphRecord,
        options: OptionsRecord,
    },
    BlobBytes {
        blob: u64,
    },
    BlobDestroy {
        blob: u64,
    },
    Load {
        device: u64,
        threads: u32,
        source: SourceRecord,
        graph: Option<GraphRecord>,
    },
    ExecutableDestroy {
        executable: u64,
    },
    BufferCreate {
        device: u64,
        bytes: u64,
        alignment: u64,
    },
    BufferImport {
        device: u64,
        kind: u32,
        offset: u64,
        bytes: u64,
    },
    BufferExport {
        buffer: u64,
        kind: u32,
    },
    BufferBegin {
        buffer: u64,
        access: u32,
        offset: u64,
        bytes: u64,
    },
    BufferEnd {
        buffer: u64,
    },
    BufferDestroy {
        buffer: u64,
    },
    Execute(ExecuteRecord),
    FenceWait {
        fence: u64,
        timeout_ns: u64,
    },
    FenceShape {
        fence: u64,
        port: u32,
    },
    FenceSteps {
        fence: u64,
    },
    FenceExport {
        fence: u64,
    },
    FenceImport {
        device: u64,
        fence: u64,
        slot: u32,
    },
    FencesDestroy {
        fences: Vec<u64>,
    },
    Cancel {
        fence: u64,
    },
}

/// A run to start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExecuteRecord {
    pub executable: u64,
    /// The number that the host gave to the fence.
    pub fence: u64,
    /// Where its end is reported.
    pub slot: u32,
    pub priority: u32,
    pub flags: u32,
    pub deadline_ns: u64,
    pub bindings: Vec<BindingRecord>,
    pub waits: Vec<u64>,
    /// Fences that the host no longer holds.
    pub destroyed: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BindingRecord {
    pub port: u32,
    pub buffer: u64,
    pub offset: u64,
    pub bytes: u64,
    /// Whether the run writes it.
    pub is_output: bool,
    /// Range of the buffer that the host has written since the plugin last had it, where the plugin's memory
    /// is another: offset and bytes.
    pub written: Option<(u64, u64)>,
    /// Extents, the first `rank` of which count; `None` without extents.
    pub dims: Option<(u8, [i64; polychip_abi::POLYCHIP_MAX_RANK])>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OptionsRecord {
    pub precision: u32,
    pub threads: u32,
    pub operating_point: u32,
    /// Ports with their requested layouts.
    pub ports: Vec<(u32, u32)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum SourceRecord {
    Blob(u64),
    /// The whole of the first descriptor, so many bytes.
    Bytes(u64),
}

/// The answer to a [`Request`].
pub(crate) type Answer = std::result::Result<Reply, FailureRecord>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    Count(u32),
    Device {
        device: u64,
        info: Box<DeviceRecord>,
    },
    Telemetry(TelemetryRecord),
    Support(Vec<(u32, String)>),
    Costs(Vec<CostRecord>),
    Blob(u64),
    /// So many bytes in the first descriptor.
    Bytes(u64),
    Executable {
        executable: u64,
        info: ExecutableRecord,
        ports: Vec<PortRecord>,
    },
    /// A buffer; whether the plugin has memory of its own for it, which is copied when a run begins and ends.
    Buffer {
        buffer: u64,
        copied: bool,
    },
    Memory {
        offset: u64,
        bytes: u64,
    },
    Shape(Vec<i64>),
    Steps(Vec<StepRecord>),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FailureRecord {
    pub status: u32,
    pub vendor_code: i64,
    pub node: u32,
    pub tensor: u32,
    pub message: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DeviceRecord {
    pub kind: u32,
    pub flags: u32,
    pub import_kinds: u32,
    pub export_kinds: u32,
    pub import_alignment: u32,
    pub name: String,
    pub vendor: String,
    pub soc: String,
    pub driver: String,
    pub settings: String,
    pub memory_bytes: u64,
    pub peak_macs_per_s: u64,
    pub peak_bytes_per_s: u64,
    pub rates_measured_s: u64,
    pub link_bytes_per_s: u64,
    pub preemption: u32,
    pub queue_depth: u32,
    pub preemption_bound_ns: u64,
    pub switch_ns: u64,
    /// Name, clock in kilohertz, power in milliwatts.
    pub points: Vec<(String, u64, u64)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TelemetryRecord {
    pub valid: u32,
    pub time_ns: u64,
    pub temperature_mc: i64,
    pub power_mw: u64,
    pub energy_uj: u64,
    pub frequency_khz: u64,
    pub memory_used_bytes: u64,
    pub load_permille: u32,
    pub throttle: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CostRecord {
    pub valid: u32,
    pub flags: u32,
    pub error_permille: u32,
    pub time_ns: u64,
    pub launch_ns: u64,
    pub energy_uj: u64,
    pub power_mw: u64,
    pub memory_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExecutableRecord {
    pub input_count: u32,
    pub constant_bytes: u64,
    pub arena_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PortRecord {
    pub flags: u32,
    pub dtype: u32,
    pub layout: u32,
    pub state_port: u32,
    pub alignment: u32,
    pub memory_kinds: u32,
    pub bytes: u64,
    pub dims: Vec<i64>,
    pub strides: Vec<i64>,
    pub encoding: Option<EncodingRecord>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepRecord {
    pub flags: u32,
    pub name: String,
    pub nodes: Vec<u32>,
    pub time_ns: u64,
    pub operations: u64,
    pub moved_bytes: u64,
}

/// A message that the child sends without a request, on the event socket.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The run of this slot has ended, and the host had asked to be told.
    Ended { slot: u32 },
}

/// A request of the plugin to the host's services, on the service socket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Service {
    /// Not answered.
    Log {
        level: u32,
        text: String,
    },
    Now,
    SleepUntil {
        until_ns: u64,
    },
    StoreRead {
        key: String,
    },
    StoreWrite {
        key: String,
        value: Vec<u8>,
    },
    Configuration {
        key: String,
    },
}

/// The host's answer to a [`Service`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Served {
    Done,
    Time(u64),
    Value(Option<Vec<u8>>),
    Failed(u32),
}

/// Appends a record to `buffer`. Allocates only if the buffer is too small.
pub(crate) fn encode<T: Serialize>(record: &T, buffer: &mut Vec<u8>) -> Result<()> {
    let taken = std::mem::take(buffer);
    *buffer = postcard::to_extend(record, taken).map_err(|error| {
        Error::new(
            ErrorKind::Persistent,
            format!("a record cannot be written: {error}"),
        )
    })?;
    Ok(())
}

/// Reads a record; all bytes must belong to it.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> std::result::Result<T, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((record, [])) => Ok(record),
        Ok((_, rest)) => Err(format!("{} bytes follow a record", rest.len())),
        Err(error) => Err(format!("{} bytes are no record: {error}", bytes.len())),
    }
}

/// Reads bytes as each record that the host receives, and converts what is valid.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_each(bytes: &[u8]) {
    let _greeting = decode::<Greeting>(bytes);
    let _event = decode::<Event>(bytes);
    let _service = decode::<Service>(bytes);
    match decode::<Answer>(bytes) {
        Ok(Err(failure)) => {
            let _error = failure.error();
        }
        Ok(Ok(reply)) => {
            let mut again = Vec::new();
            encode(&Ok::<_, FailureRecord>(reply), &mut again).expect("what was read is written");
        }
        Err(_) => {}
    }
}

impl FailureRecord {
    /// Whether the status is one of the contract.
    pub(crate) fn is_of_contract(&self) -> bool {
        ErrorKind::from_status(self.status).is_none_or(|kind| kind.status() == self.status)
    }

    /// The failure as an error; `None` if it claims success.
    pub(crate) fn error(self) -> Option<Error> {
        let kind = ErrorKind::from_status(self.status)?;
        let mut error = Error::new(kind, self.message).with_vendor_code(self.vendor_code);
        if self.node != polychip_abi::POLYCHIP_NO_INDEX {
            error = error.at_node(self.node);
        }
        if self.tensor != polychip_abi::POLYCHIP_NO_INDEX {
            error = error.at_tensor(self.tensor);
        }
        Some(error)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn execute() -> Request {
        Request::Execute(ExecuteRecord {
            executable: 3,
            fence: 9,
            slot: 4,
            bindings: vec![BindingRecord {
                port: 1,
                buffer: 7,
                offset: 256,
                bytes: 1 << 20,
                is_output: true,
                written: Some((64, 4096)),
                dims: Some((2, [5; 16])),
            }],
            waits: vec![8],
            destroyed: vec![1, 2],
            ..ExecuteRecord::default()
        })
    }

    fn answers() -> Vec<Answer> {
        vec![
            Ok(Reply::Done),
            Ok(Reply::Device {
                device: 1,
                info: Box::new(DeviceRecord {
                    name: "npu".into(),
                    ..DeviceRecord::default()
                }),
            }),
            Ok(Reply::Support(vec![(0, String::new()), (3, "rank 7".into())])),
            Ok(Reply::Executable {
                executable: 2,
                info: ExecutableRecord::default(),
                ports: vec![PortRecord {
                    dims: vec![1, 3, 224, 224],
                    ..PortRecord::default()
                }],
            }),
            Ok(Reply::Steps(vec![StepRecord::default()])),
            Err(FailureRecord {
                status: 5,
                message: "lost".into(),
                ..FailureRecord::default()
            }),
        ]
    }

    #[test]
    fn records_survive_the_crossing() {
        let mut bytes = Vec::new();
        encode(&execute(), &mut bytes).unwrap();
        assert_eq!(decode::<Request>(&bytes).unwrap(), execute());
        for answer in answers() {
            bytes.clear();
            encode(&answer, &mut bytes).unwrap();
            assert_eq!(decode::<Answer>(&bytes).unwrap(), answer);
            bytes.push(0);
            assert!(decode::<Answer>(&bytes).unwrap_err().contains("follow"));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Neither side panics at, or allocates without limit for, what the other may send.
        #[test]
        fn mutated_records_are_read_or_refused(
            which in 0usize..7,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = Vec::new();
            match answers().get(which) {
                Some(answer) => encode(answer, &mut bytes).unwrap(),
                None => encode(&execute(), &mut bytes).unwrap(),
            }
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            let _ = decode::<Answer>(&bytes);
            let _ = decode::<Request>(&bytes);
            let _ = decode::<Service>(&bytes);
            let _ = decode::<Greeting>(&bytes);
        }
    }
}
