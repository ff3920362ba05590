//! Memory that chip and processor share, and a chip whose view of it is another.

use std::sync::Arc;
use std::time::Duration;

use polychip_host::{Memory, Submission};
use polychip_parts::{buffers, floats, load, numbers, read, relu_of_sum, write};

use crate::board::Board;

const PATIENCE: Duration = Duration::from_secs(60);

/// With the runtime's own maintenance switched off, `begin_access` and `end_access` alone keep the views together.
#[test]
fn accesses_keep_an_incoherent_chip_coherent() {
    let board = Board::own();
    board.incoherent(true);
    {
        let device = board.device(&[("caches", "access"), ("lanes", "1")]);
        let executable = load(&device, &relu_of_sum());
        let mut submission = Submission::new(&executable, 4);
        let buffers = buffers(&device, &executable, &mut submission);
        for round in 0..5u8 {
            let x = f32::from(round);
            write(&buffers[0], &floats(&[x; 4]));
            let fence = executable.execute(&mut submission, &[]).unwrap();
            fence.wait(PATIENCE).unwrap();
            assert_eq!(numbers(&read(&buffers[1], 16))[..1], [x + 1.0]);
        }
        assert!(board.counts().syncs > 0);
    }
    board.incoherent(false);
}

/// The same memory written to behind the buffer's back is stale for the chip: the emulator would catch a plugin that
/// forgot its maintenance.
#[test]
fn memory_written_without_an_access_is_stale_for_the_chip() {
    let board = Board::own();
    board.incoherent(true);
    for (caches, seen) in [("access", 2.0), ("run", 8.0)] {
        let device = board.device(&[("caches", caches), ("lanes", "1")]);
        let executable = load(&device, &relu_of_sum());
        let mut submission = Submission::new(&executable, 4);
        let memory = Memory::file(executable.ports()[0].bytes).unwrap();
        let input = Arc::new(device.import_buffer(&memory).unwrap());
        // another device's buffer over the same file, which tells ours nothing
        let other = board.device(&[]).import_buffer(&memory).unwrap();
        let output = Arc::new(device.create_buffer(executable.ports()[1].bytes, 64).unwrap());
        submission.bind(0, &input, 0).unwrap();
        submission.bind(1, &output, 0).unwrap();
        let mut once = || {
            executable
                .execute(&mut submission, &[])
                .unwrap()
                .wait(PATIENCE)
                .unwrap();
            numbers(&read(&output, 16))[0]
        };
        write(&input, &floats(&[1.0; 4]));
        assert_eq!(once(), 2.0);
        write(&other, &floats(&[7.0; 4]));
        assert_eq!(once(), seen, "caches={caches}");
    }
    board.incoherent(false);
}

/// Memory at an offset of a buffer, of every alignment.
#[test]
fn every_memory_kind_can_be_bound() {
    let board = Board::own();
    let device = board.device(&[]);
    let executable = load(&device, &relu_of_sum());
    for alignment in [4, 64, 4096, 1 << 16] {
        let mut submission = Submission::new(&executable, 4);
        let input = Arc::new(device.create_buffer(256, alignment).unwrap());
        let output = Arc::new(device.create_buffer(256, alignment).unwrap());
        submission.bind(0, &input, 64).unwrap();
        submission.bind(1, &output, 128).unwrap();
        write(&input, &floats(&[[0.0; 16], [3.0; 16]].concat()));
        executable
            .execute(&mut submission, &[])
            .unwrap()
            .wait(PATIENCE)
            .unwrap();
        let found = numbers(&read(&output, 256));
        assert_eq!(found[32..36], [4.0, 2.0, 3.5, 0.0]);
        let beside: Vec<f32> = [&found[..32], &found[36..]].concat();
        assert_eq!(beside, [0.0; 60], "nothing beside the port is written");
    }
}

/// Contexts forget the memory of buffers that are gone.
#[test]
fn repeated_buffers_leak_nothing() {
    let board = Board::own();
    let device = board.device(&[("lanes", "1")]);
    let executable = load(&device, &relu_of_sum());
    for round in 0..40u8 {
        let mut submission = Submission::new(&executable, 4);
        let buffers = buffers(&device, &executable, &mut submission);
        write(&buffers[0], &floats(&[f32::from(round); 4]));
        executable
            .execute(&mut submission, &[])
            .unwrap()
            .wait(PATIENCE)
            .unwrap();
        assert_eq!(numbers(&read(&buffers[1], 16))[0], f32::from(round) + 1.0);
    }
    assert!(board.counts().memories <= 6, "{:?}", board.counts());
}
