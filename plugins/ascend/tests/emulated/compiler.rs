//! Every way in which the compiler can fail.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use polychip_host::{CompileOptions, Device, FlatGraph};
use polychip_parts::{load, relu_of_sum};

use crate::board::{Board, compiler, run};

/// A program in the compiler's place; `$out` is what `--output` says.
fn program(folder: &Path, body: &str) -> PathBuf {
    let text = format!(
        "#!/bin/sh\nfor word in \"$@\"; do case \"$word\" in --output=*) out=\"${{word#--output=}}\";; esac; done\n\
         dirname \"$out\" >> '{0}/folders'\necho \"$@\" > '{0}/words'\n{body}\n",
        folder.display()
    );
    let path = folder.join("atc");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The words with which a compilation fails.
fn failure(device: &Device) -> String {
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let failed = device.compile(&flat, &CompileOptions::default()).map(drop);
    failed.unwrap_err().to_string()
}

#[test]
fn every_compiler_end_is_named_and_leaves_no_file() {
    let board = Board::new();
    for (body, parts) in [
        (
            "echo boom >&2; exit 3",
            &["exit status: 3", "without an answer", "boom"][..],
        ),
        (
            "echo 'ATC run failed'; echo 'EZ3003: no kernel for Relu'; exit 1",
            &["refused the part", "EZ3003: no kernel"],
        ),
        ("kill -9 $$", &["signal: 9"]),
        ("exit 0", &["left no compiled part"]),
        ("echo text > \"$out.om\"", &["5 bytes that are no .om file"]),
        ("printf IMOD > \"$out.om\"", &["4 bytes that are no .om file"]),
        ("mkdir \"$out.om\"", &["left no compiled part", "no file"]),
        ("mkfifo \"$out.om\"", &["left no compiled part", "no file"]),
        ("sleep 60 & wait", &["more than 1 s", "timeout_s"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = program(folder.path(), body).display().to_string();
        let device = board.device(&[("atc", &path), ("timeout_s", "1")]);
        let found = failure(&device);
        assert!(found.contains(&path), "{found}");
        for part in parts {
            assert!(found.contains(part), "{body}: {found}");
        }
        let left = std::fs::read_to_string(folder.path().join("folders")).unwrap();
        assert!(
            left.lines().count() == 1 && !Path::new(left.trim()).exists(),
            "{left} is left"
        );
    }
}

/// What looks like a compiled part and is none is refused by the library, when it is loaded.
#[test]
fn unreadable_om_file_is_refused_at_load() {
    let board = Board::new();
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path(), "printf 'IMODxxxxxxxxxxxxxxxx' > \"$out.om\"");
    let device = board.device(&[("atc", &path.display().to_string())]);
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let error = device.load(blob, &flat, 1).map(drop).unwrap_err();
    assert!(
        error.to_string().contains("does not read what the compiler made"),
        "{error}"
    );
}

/// A part of another graph, behind a right mark, is refused by what its ports are.
#[test]
fn om_file_of_another_part_is_refused_by_its_ports() {
    let board = Board::new();
    let folder = tempfile::tempdir().unwrap();
    // what the emulated compiler made of a part of one input of other extents
    let other = polychip_parts::binary(
        polychip_ops::Op::Add,
        polychip_ops::DType::F32,
        [&[2, 3], &[2, 3]],
    );
    let kept = folder.path().join("kept.om");
    let keeper = format!(
        "'{}' \"$@\" && cp \"$out.om\" '{}'",
        compiler().display(),
        kept.display()
    );
    let path = program(folder.path(), &keeper).display().to_string();
    drop(load(&board.device(&[("atc", &path)]), &other));
    let path = program(folder.path(), &format!("cp '{}' \"$out.om\"", kept.display()));
    let device = board.device(&[("atc", &path.display().to_string())]);
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let error = device.load(blob, &flat, 1).map(drop).unwrap_err();
    assert!(error.to_string().contains("the compiler made"), "{error}");
}

#[test]
fn command_line_matches_the_vendors() {
    let board = Board::new();
    let folder = tempfile::tempdir().unwrap();
    let device = board.device(&[("atc", &program(folder.path(), "exit 1").display().to_string())]);
    failure(&device);
    let words = std::fs::read_to_string(folder.path().join("words")).unwrap();
    for part in [
        "--model=/",
        "--framework=5",
        "--output=/",
        "--soc_version=Ascend310P3",
        "--input_shape=i0:4",
        "--precision_mode=force_fp16",
    ] {
        assert!(words.contains(part), "{words} lacks {part}");
    }
}

/// The emulated compiler knows one chip.
#[test]
fn unknown_chip_is_refused_by_name() {
    let board = Board::new();
    let found = failure(&board.device(&[("soc_version", "Ascend910X")]));
    assert!(
        found.contains("E10001") && found.contains("Ascend910X"),
        "{found}"
    );
}

/// A compiler that is not there is a reason at each node, and the device still loads what was compiled before.
#[test]
fn without_a_compiler_every_node_states_the_reason() {
    let board = Board::new();
    let device = board.device(&[("atc", "/nowhere/atc")]);
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let answer = device.query_support(&flat).unwrap()[0].clone();
    assert_eq!(answer.reason, polychip_abi::POLYCHIP_SUPPORT_VENDOR);
    assert!(
        answer.detail.contains("/nowhere/atc") && answer.detail.contains("set_env.sh"),
        "{}",
        answer.detail
    );
    assert!(failure(&device).contains("/nowhere/atc"));
    // a program in place of the compiler, whose release somebody states
    let mut blob = board
        .device(&[("cann", "8.0")])
        .compile(&flat, &CompileOptions::default())
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let stated = program(folder.path(), "exit 1").display().to_string();
    let device = board.device(&[("atc", &stated), ("cann", "8.0")]);
    let executable = device
        .load_bytes(blob.bytes().unwrap().to_vec().into(), &flat, 1)
        .unwrap();
    assert_eq!(run(&device, &executable, &[1.0; 4], 4)[0], 2.0);
}
