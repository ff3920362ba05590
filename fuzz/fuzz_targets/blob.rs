//! Arbitrary bytes as a compiled blob: refused by the container and by the CPU plugin, or read whole.
//!
//! Invariants: the hash covers all bytes, so each input is tried unchanged, with a corrected hash, and as a change of
//! a valid blob; sections of an accepted blob lie inside it; an executable loaded from cached bytes runs. Not here:
//! bytes changed after loading.

#![no_main]

mod patches;

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use patches::patched;
use polychip_graph::text;
use polychip_host::{CompileOptions, Device, Executable, FlatGraph, Host, Memory, Submission};
use polychip_sdk::BlobReader;

const PART: &str = include_str!("blob/part.txt");
const BUILD_ID_AT: std::ops::Range<usize> = 24..32;
const HASH_AT: std::ops::Range<usize> = 32..64;

struct World {
    host: Host,
    part: FlatGraph,
    /// The part as this machine compiles it.
    blob: Vec<u8>,
}

thread_local! {
    static WORLD: OnceCell<World> = const { OnceCell::new() };
}

fuzz_target!(|input: &[u8]| {
    WORLD.with(|world| {
        let world = world.get_or_init(open);
        one(world, input);
        one(world, &repaired(input.to_vec()));
        one(world, &repaired(patched(&world.blob, input)));
    });
});

/// The bytes with the hash that they should have.
fn repaired(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= HASH_AT.end {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&bytes[..HASH_AT.start])
            .update(&bytes[HASH_AT.end..]);
        bytes[HASH_AT].copy_from_slice(hasher.finalize().as_bytes());
    }
    bytes
}

fn one(world: &World, bytes: &[u8]) {
    if let Some(build_id) = build_id(bytes)
        && let Ok(reader) = BlobReader::open(bytes, build_id)
    {
        let total: usize = reader
            .sections()
            .map(|(_, section)| section.iter().map(|&byte| usize::from(byte)).sum::<usize>())
            .sum();
        std::hint::black_box(total);
        let _missing = reader.section(u32::MAX);
    }
    let device = &world.host.devices()[0];
    // two copies, as a cache may return bytes at any address
    let shifted = Bytes::from([&[0], bytes].concat()).slice(1..);
    for bytes in [Bytes::copy_from_slice(bytes), shifted] {
        if let Ok(executable) = device.load_bytes(bytes, &world.part, 1) {
            run(device, &executable);
        }
    }
}

/// The build id that the bytes claim.
fn build_id(bytes: &[u8]) -> Option<&str> {
    let len = u64::from_le_bytes(bytes.get(BUILD_ID_AT)?.try_into().ok()?);
    let id = bytes.get(HASH_AT.end..)?.get(..usize::try_from(len).ok()?)?;
    std::str::from_utf8(id).ok()
}

fn open() -> World {
    let host = Host::builder()
        .linked(polychip_cpu::query)
        .configure("cpu", "cpu.threads", "1")
        .build();
    let graph = text::parse(PART).expect("the fixed part is right");
    let part = FlatGraph::new(&graph, &[]).expect("the fixed part is flat");
    let mut compiled = host.devices()[0]
        .compile(&part, &CompileOptions::default())
        .expect("the CPU compiles the fixed part");
    let blob = compiled.bytes().expect("the CPU serialises it").to_vec();
    World { host, part, blob }
}

fn run(device: &Device, executable: &Executable) {
    let mut submission = Submission::new(executable, 0);
    for (number, port) in executable.ports().iter().enumerate() {
        let memory = Memory::new(port.bytes).expect("a page of memory");
        let buffer = Arc::new(
            device
                .import_buffer(&memory)
                .expect("the CPU imports host memory"),
        );
        submission
            .bind(number as u32, &buffer, 0)
            .expect("the buffer fits its port");
    }
    let fence = executable
        .execute(&mut submission, &[])
        .expect("a loaded part runs");
    fence.wait(Duration::from_secs(10)).expect("a loaded part ends");
}
