//! What is written comes back; whatever a file may lie about is refused by name.

use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::ErrorKind;
use crate::gguf::{Gguf, ValueType};
use crate::testing::{GgufWriter, random_blocks};

fn refused(writer: &GgufWriter) -> (ErrorKind, String) {
    of_bytes(writer.finish())
}

fn of_bytes(bytes: Vec<u8>) -> (ErrorKind, String) {
    let error = read(&bytes).err().expect("the file is refused");
    (error.kind(), error.to_string())
}

fn malformed(writer: &GgufWriter, words: &str) {
    let (kind, message) = refused(writer);
    assert_eq!(
        (kind, message.contains(words)),
        (ErrorKind::Malformed, true),
        "{message}"
    );
}

/// A file with one tensor of four floats.
fn small() -> GgufWriter {
    let mut writer = GgufWriter::new();
    writer.text("name", "small");
    writer.tensor("t", TensorType::F32, &[4], vec![0; 16]);
    writer
}

#[test]
fn values_of_every_type_come_back() {
    let mut writer = small();
    for (key, kind, value) in [
        ("u8", ValueType::U8, vec![200]),
        ("i8", ValueType::I8, vec![200]),
        ("u16", ValueType::U16, 60_000_u16.to_le_bytes().to_vec()),
        ("i16", ValueType::I16, (-5_i16).to_le_bytes().to_vec()),
        ("i32", ValueType::I32, (-7_i32).to_le_bytes().to_vec()),
        ("u64", ValueType::U64, u64::MAX.to_le_bytes().to_vec()),
        ("i64", ValueType::I64, i64::MIN.to_le_bytes().to_vec()),
        ("f64", ValueType::F64, 0.1_f64.to_le_bytes().to_vec()),
    ] {
        writer.raw(key, kind.code(), value);
    }
    writer.u32("u32", 7);
    writer.f32("f32", 0.5);
    writer.flag("yes", true);
    writer.texts("texts", &["a", "", "é"]);
    writer.f32s("floats", &[1.0, -1.0]);
    let file = Gguf::read(writer.finish().into()).unwrap();
    for (key, value) in [
        ("u8", Value::U8(200)),
        ("i8", Value::I8(-56)),
        ("u16", Value::U16(60_000)),
        ("i16", Value::I16(-5)),
        ("u32", Value::U32(7)),
        ("i32", Value::I32(-7)),
        ("f32", Value::F32(0.5)),
        ("u64", Value::U64(u64::MAX)),
        ("i64", Value::I64(i64::MIN)),
        ("f64", Value::F64(0.1)),
        ("yes", Value::Bool(true)),
        ("name", Value::Text("small")),
    ] {
        assert_eq!(file.value(key), Some(value), "{key}");
    }
    let texts = file.array("texts", ValueType::Text).unwrap().unwrap();
    assert_eq!(texts.texts().collect::<Vec<_>>(), ["a", "", "é"]);
    let floats = file.array("floats", ValueType::F32).unwrap().unwrap();
    assert_eq!(
        floats.values().collect::<Vec<_>>(),
        [Value::F32(1.0), Value::F32(-1.0)]
    );
    assert_eq!(file.integer("u16").unwrap(), Some(60_000));
    let error = file.integer("i16").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(
        error.to_string(),
        "key \"i16\" must be an unsigned 32-bit integer, and is -5 (i16)"
    );
    assert_eq!(file.text("none").unwrap(), None);
}

#[test]
fn truncated_files_are_refused() {
    let bytes = small().finish();
    for end in 0..bytes.len() {
        let (kind, message) = of_bytes(bytes[..end].to_vec());
        assert_eq!(kind, ErrorKind::Malformed, "{end}: {message}");
    }
    assert!(read(&bytes).is_ok());
}

#[test]
fn other_files_and_versions_are_refused_by_name() {
    assert!(
        of_bytes(b"PK\x03\x04 and more".to_vec())
            .1
            .contains("not a GGUF file")
    );
    for (version, words) in [
        (1, "version 1"),
        (4, "version 4"),
        (2_u32.swap_bytes(), "big-endian"),
        (3_u32.swap_bytes(), "big-endian"),
    ] {
        let mut writer = small();
        writer.version = version;
        let (kind, message) = refused(&writer);
        assert_eq!(
            (kind, message.contains(words)),
            (ErrorKind::Unsupported, true),
            "{message}"
        );
    }
}

#[test]
fn version_2_reads_as_version_3() {
    let mut writer = small();
    let new = Gguf::read(writer.finish().into()).unwrap();
    writer.version = 2;
    let old = Gguf::read(writer.finish().into()).unwrap();
    assert_eq!(old.text("name").unwrap(), new.text("name").unwrap());
    let [old, new] = [&old, &new].map(|file| file.tensor("t").unwrap());
    assert_eq!((old.kind(), old.dims()), (new.kind(), new.dims()));
    assert_eq!(old.bytes(), new.bytes());
}

#[test]
fn oversized_counts_allocate_no_memory() {
    for (at, count, words) in [
        (8, u64::MAX, "tensors; the maximum is"),
        (8, 60_000, "60000 tensors, but has"),
        (16, 1 << 40, "keys; the maximum is"),
        (16, 65_536, "65536 keys, but has"),
    ] {
        let mut bytes = small().finish();
        bytes[at..at + 8].copy_from_slice(&count.to_le_bytes());
        let (_, message) = of_bytes(bytes);
        assert!(message.contains(words), "{message}");
    }
    let array = |item: u32, len: u64| {
        let mut writer = small();
        let value = [item.to_le_bytes().to_vec(), len.to_le_bytes().to_vec()].concat();
        writer.raw("a", ValueType::Array.code(), value);
        writer
    };
    malformed(
        &array(ValueType::Text.code(), u64::MAX),
        "strings, but the file has only",
    );
    malformed(
        &array(ValueType::U64.code(), u64::MAX / 8 + 1),
        "u64, but the file has only",
    );
    malformed(&array(77, 0), "has type 77");
    let (kind, message) = refused(&array(ValueType::Array.code(), 1));
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(message.contains("array of arrays"), "{message}");
}

#[test]
fn names_values_and_text_are_checked() {
    let with = |change: &dyn Fn(&mut GgufWriter)| {
        let mut writer = small();
        change(&mut writer);
        writer
    };
    malformed(
        &with(&|writer| writer.text("name", "again")),
        "key \"name\" appears twice",
    );
    malformed(&with(&|writer| writer.text("", "x")), "has no name");
    malformed(
        &with(&|writer| writer.text(&"k".repeat(65_536), "x")),
        "the maximum is 65535",
    );
    malformed(
        &with(&|writer| writer.raw("b", ValueType::Bool.code(), vec![2])),
        "boolean with value 2",
    );
    malformed(&with(&|writer| writer.raw("b", 13, vec![0])), "has type 13");
    let wrong = [2_u64.to_le_bytes().to_vec(), vec![0xc3, 0x28]].concat();
    malformed(
        &with(&|writer| writer.raw("s", ValueType::Text.code(), wrong.clone())),
        "is not UTF-8",
    );
    let long = [u64::MAX.to_le_bytes().to_vec(), b"x".to_vec()].concat();
    malformed(
        &with(&|writer| writer.raw("s", ValueType::Text.code(), long.clone())),
        "the file ends inside",
    );
}

#[test]
fn tensors_are_checked() {
    let with = |name: &str, code: u32, dims: &[u64], offset: Option<u64>| {
        let mut writer = small();
        writer.raw_tensor(name, code, dims, vec![0; 64], offset);
        writer
    };
    malformed(&with("t", 0, &[4], None), "tensor \"t\" appears twice");
    malformed(&with("", 0, &[4], None), "has no name");
    malformed(&with(&"n".repeat(65), 0, &[4], None), "the maximum is 64");
    malformed(&with("u", 0, &[], None), "0 dimensions");
    malformed(&with("u", 0, &[1; 5], None), "5 dimensions");
    malformed(&with("u", 0, &[4, 0], None), "is empty");
    malformed(&with("u", 0, &[1 << 32, 1 << 32], None), "too large");
    malformed(&with("u", 0, &[1 << 62], None), "too large");
    malformed(&with("u", 8, &[33], None), "not a multiple of 32");
    malformed(
        &with("u", 0, &[4], Some(16)),
        "not a multiple of the alignment 32",
    );
    malformed(&with("u", 0, &[4], Some(u64::MAX - 31)), "exceeds the file");
    malformed(&with("u", 0, &[40], None), "exceeds the file");
    malformed(&with("u", 0, &[4], Some(0)), "\"t\" and \"u\" overlap");
    let (kind, message) = refused(&with("u", 17, &[256], None));
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(
        message.starts_with("tensor \"u\" has type IQ2_XS (17), which is not supported"),
        "{message}"
    );
}

#[test]
fn file_alignment_is_used() {
    for alignment in [8, 64, 4096] {
        let mut writer = small();
        writer.u32("general.alignment", alignment);
        writer.alignment = alignment.into();
        writer.tensor("u", TensorType::F32, &[1], 2.5_f32.to_le_bytes().to_vec());
        let file = Gguf::read(writer.finish().into()).unwrap();
        assert_eq!(file.alignment(), alignment);
        let tensor = file.tensor("u").unwrap();
        assert!(tensor.range().start.is_multiple_of(alignment as usize));
        let mut out = [0.0];
        tensor.dequantize(0, &mut out);
        assert_eq!(out, [2.5]);
    }
    for alignment in [0, 1, 4, 24, 1 << 21] {
        let mut writer = small();
        writer.u32("general.alignment", alignment);
        malformed(&writer, "power of two");
    }
}

proptest! {
    #[test]
    fn tensors_round_trip(
        kinds in prop::collection::vec((prop::sample::select(TensorType::ALL.to_vec()), 1..4_u64, 1..5_u64), 1..8),
        seed in any::<u64>(),
    ) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut writer = GgufWriter::new();
        let mut written = Vec::new();
        for (index, (kind, blocks, rows)) in kinds.into_iter().enumerate() {
            let data = random_blocks(kind, (blocks * rows) as usize, &mut random);
            let dims = [blocks * kind.block_len() as u64, rows];
            writer.tensor(&format!("t{index}"), kind, &dims, data.clone());
            written.push((kind, dims, data));
        }
        let file = Gguf::read(writer.finish().into()).unwrap();
        for (index, (kind, dims, data)) in written.into_iter().enumerate() {
            let tensor = file.tensor(&format!("t{index}")).unwrap();
            prop_assert_eq!(tensor.kind(), kind);
            prop_assert_eq!(tensor.dims(), &dims);
            prop_assert_eq!(tensor.bytes(), &data);
            prop_assert_eq!(tensor.len() as u64, dims[0] * dims[1]);
            // any part of a tensor is the same part of the whole
            let mut whole = vec![0.0; tensor.len()];
            tensor.dequantize(0, &mut whole);
            prop_assert!(whole.iter().all(|value| value.is_finite()));
            let row = dims[0] as usize;
            let mut last = vec![0.0; row];
            tensor.dequantize((tensor.len() - row) / kind.block_len(), &mut last);
            prop_assert_eq!(&whole[tensor.len() - row..], &last);
        }
    }
}
