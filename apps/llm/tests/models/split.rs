//! A model in several files reads as the whole one; files that are missing, renamed or of others are refused by name.

use std::path::{Path, PathBuf};

use polychip::Policy;
use polychip_llm::gguf::{Gguf, TensorType, ValueType};
use polychip_llm::testing::{GgufWriter, TinyModel};
use polychip_llm::{Architecture, ErrorKind, LanguageModel};

use crate::options;

fn data(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(seed)).collect()
}

/// File `index` of `count`, with one tensor of its own; the first has the model's key.
fn piece(index: u16, count: u16, tensors: i32) -> GgufWriter {
    let mut writer = GgufWriter::new();
    if index == 0 {
        writer.text("general.architecture", "llama");
    }
    place(&mut writer, index, count, tensors);
    let name = format!("blk.{index}.weight");
    writer.tensor(&name, TensorType::Q5_1, &[64, 3], data(index as u8 + 3, 6 * 24));
    writer
}

/// Adds the keys of one file of a split model.
fn place(writer: &mut GgufWriter, index: u16, count: u16, tensors: i32) {
    writer.raw("split.no", ValueType::U16.code(), index.to_le_bytes().to_vec());
    writer.raw("split.count", ValueType::U16.code(), count.to_le_bytes().to_vec());
    writer.raw(
        "split.tensors.count",
        ValueType::I32.code(),
        tensors.to_le_bytes().to_vec(),
    );
}

fn named(folder: &Path, index: u16, count: u16) -> PathBuf {
    folder.join(format!("tiny-{:05}-of-{count:05}.gguf", index + 1))
}

/// Writes a model of three files, and returns the first one's path.
fn three(folder: &Path) -> PathBuf {
    for index in 0..3 {
        std::fs::write(named(folder, index, 3), piece(index, 3, 3).finish()).unwrap();
    }
    named(folder, 0, 3)
}

fn refused(path: &Path) -> String {
    Gguf::open(path).unwrap_err().to_string()
}

#[test]
fn all_files_are_read_from_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let first = three(folder.path());
    let file = Gguf::open(&first).unwrap();
    assert_eq!(file.text("general.architecture").unwrap(), Some("llama"));
    assert_eq!(file.tensors().count(), 3);
    assert_eq!(file.pieces().len(), 3);
    let sizes: u64 = (0..3)
        .map(|index| named(folder.path(), index, 3).metadata().unwrap().len())
        .sum();
    assert_eq!(file.file_bytes(), sizes);
    for index in 0..3u8 {
        let tensor = file.tensor(&format!("blk.{index}.weight")).unwrap();
        assert_eq!(tensor.bytes(), data(index + 3, 6 * 24));
        let (mut mapped, mut read) = (vec![0.0; 64 * 3], vec![1.0; 64 * 3]);
        tensor.dequantize(0, &mut mapped);
        file.read_weights(&tensor, 0, &mut read).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&mapped), bits(&read));
    }
}

#[cfg(unix)]
#[test]
fn links_of_a_download_cache_are_followed() {
    let (blobs, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for index in 0..3 {
        let blob = blobs.path().join(format!("{index}f00"));
        std::fs::write(&blob, piece(index, 3, 3).finish()).unwrap();
        std::os::unix::fs::symlink(&blob, named(folder.path(), index, 3)).unwrap();
    }
    assert_eq!(
        Gguf::open(&named(folder.path(), 0, 3)).unwrap().tensors().count(),
        3
    );
}

#[test]
fn missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let first = three(folder.path());
    std::fs::remove_file(named(folder.path(), 1, 3)).unwrap();
    let message = refused(&first);
    assert!(
        message.contains("split into 3 files, of which tiny-00002-of-00003.gguf is missing beside"),
        "{message}"
    );
    std::fs::remove_file(named(folder.path(), 2, 3)).unwrap();
    let message = refused(&first);
    assert!(
        message.contains("tiny-00002-of-00003.gguf, tiny-00003-of-00003.gguf are missing"),
        "{message}"
    );
    // a file that lies about its number of files costs no memory
    let many = named(folder.path(), 0, u16::MAX);
    std::fs::write(&many, piece(0, u16::MAX, 3).finish()).unwrap();
    assert!(
        refused(&many).contains("and 65530 more are missing"),
        "{}",
        refused(&many)
    );
}

#[test]
fn other_files_than_the_first_name_it() {
    let folder = tempfile::tempdir().unwrap();
    three(folder.path());
    let message = refused(&named(folder.path(), 1, 3));
    assert!(
        message.contains("is file 2 of 3 of a split model: open the first one, tiny-00001-of-00003.gguf"),
        "{message}"
    );
    let renamed = folder.path().join("model.gguf");
    std::fs::rename(named(folder.path(), 0, 3), &renamed).unwrap();
    assert!(refused(&renamed).contains("must keep its name: NAME-00001-of-00003.gguf"));
    let fourth = named(folder.path(), 3, 3);
    std::fs::rename(&renamed, &fourth).unwrap();
    assert!(refused(&fourth).contains("must be named tiny-00001-of-00003.gguf"));
    let error = Gguf::read(piece(0, 3, 3).finish().into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("open its first file by its path"));
}

#[test]
fn files_of_other_models_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = three(folder.path());
    let third = named(folder.path(), 2, 3);
    let whole = std::fs::read(&third).unwrap();
    for (bytes, words) in [
        (piece(1, 3, 3).finish(), "states that it is file 2 of 3"),
        (piece(2, 4, 3).finish(), "states that it is file 3 of 4"),
        (GgufWriter::new().finish(), "states that it is file 1 of 0"),
        (
            whole[..whole.len() - 60].to_vec(),
            "tiny-00003-of-00003.gguf: tensor",
        ),
        (b"version https://git-lfs".to_vec(), "not a GGUF file"),
    ] {
        std::fs::write(&third, bytes).unwrap();
        let message = refused(&first);
        assert!(message.contains(words), "{message}");
    }
    let mut twice = piece(2, 3, 3);
    twice.tensor("blk.0.weight", TensorType::F32, &[1], vec![0; 4]);
    std::fs::write(&third, twice.finish()).unwrap();
    assert!(refused(&first).contains("\"blk.0.weight\" appears twice"));
    std::fs::write(&third, whole).unwrap();
    std::fs::write(&first, piece(0, 3, 5).finish()).unwrap();
    assert!(refused(&first).contains("with 5 tensors, but they hold 3"));
    // one file is no split model
    std::fs::write(&first, piece(0, 1, 1).finish()).unwrap();
    assert_eq!(Gguf::open(&first).unwrap().tensors().count(), 1);
}

#[test]
fn split_model_runs_as_the_whole_one() {
    let tiny = TinyModel {
        architecture: Architecture::Qwen2,
        kind: TensorType::Q4_K,
        layers: 3,
        tied: true,
        seed: 4,
    };
    let whole = Gguf::read(tiny.writer().finish().into()).unwrap();
    let names: Vec<String> = whole.tensors().map(|tensor| tensor.name().to_owned()).collect();
    let folder = tempfile::tempdir().unwrap();
    for index in 0..3 {
        let mut writer = if index == 0 {
            tiny.writer()
        } else {
            GgufWriter::new()
        };
        names.iter().for_each(|name| writer.remove_tensor(name));
        place(&mut writer, index, 3, names.len() as i32);
        for name in names.iter().skip(index.into()).step_by(3) {
            let tensor = whole.tensor(name).unwrap();
            writer.tensor(name, tensor.kind(), tensor.dims(), tensor.bytes().to_vec());
        }
        std::fs::write(named(folder.path(), index, 3), writer.finish()).unwrap();
    }
    let options = || options().policy(Policy::latency().threads(1)).capacity(32);
    let split = LanguageModel::open(named(folder.path(), 0, 3), options()).unwrap();
    let whole = LanguageModel::of("whole", whole, options()).unwrap();
    let [split, whole] = [split, whole].map(|model| {
        let mut sequence = model.sequence().unwrap();
        sequence.append(&[5, 80, 3, 77, 1]).unwrap().to_vec()
    });
    assert_eq!(split, whole);
}
