//! Mutants of a model's file, by seed.
//!
//! Most mutants change fields, so that they still parse and reach the code after the parser; the
//! others change bytes.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::GgufWriter;
use crate::gguf::Key;

/// One in this many mutants changes arbitrary bytes.
const OF_BYTES: u32 = 4;
/// Numbers at which counts, sizes, types and offsets break.
const NUMBERS: [u64; 18] = [
    0,
    1,
    2,
    3,
    7,
    13,
    31,
    33,
    255,
    256,
    65_536,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX as u64,
    1 << 40,
    i64::MAX as u64,
    u64::MAX,
];
/// Texts at which vocabularies, merges and names break.
const TEXTS: [&str; 16] = [
    "",
    " ",
    "  ",
    "a",
    "Ġ",
    "Ġ Ġ",
    "h e",
    "he ll",
    "<|start|>",
    "<0x0A>",
    "\u{2581}",
    "é",
    "llama",
    "qwen2",
    "gpt-2",
    "llama-bpe",
];

/// A mutated file.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Description of the change.
    pub words: String,
    /// The file.
    pub bytes: Vec<u8>,
}

/// Mutates a file by this seed.
#[must_use]
pub fn mutant(model: &GgufWriter, seed: u64) -> Mutant {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    if random.random_ratio(1, OF_BYTES) {
        return of_bytes(model.finish(), &mut random);
    }
    let mut changed = model.clone();
    let changes = *[1, 1, 1, 2, 3].choose(&mut random).unwrap_or(&1);
    let words: Vec<String> = (0..changes).map(|_| once(&mut changed, &mut random)).collect();
    Mutant {
        words: words.join("; "),
        bytes: changed.finish(),
    }
}

fn number(random: &mut ChaCha8Rng) -> u64 {
    *NUMBERS.choose(random).unwrap_or(&0)
}

fn of_bytes(mut bytes: Vec<u8>, random: &mut ChaCha8Rng) -> Mutant {
    if random.random_ratio(1, 4) {
        bytes.truncate(random.random_range(0..=bytes.len()));
        let words = format!("cut to {} bytes", bytes.len());
        return Mutant { words, bytes };
    }
    let mut words = Vec::new();
    for _ in 0..random.random_range(1..4) {
        // most of a file is weights, and what they are breaks nothing
        let end = if random.random_ratio(9, 10) {
            bytes.len().min(8192)
        } else {
            bytes.len()
        };
        let at = random.random_range(0..end);
        if random.random() {
            let mask = [0x01, 0x02, 0x04, 0x7f, 0x80, 0xff][random.random_range(0..6)];
            bytes[at] ^= mask;
            words.push(format!("byte {at} changed by {mask:#x}"));
        } else {
            let value = number(random);
            let end = bytes.len().min(at + 8);
            bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            words.push(format!("bytes from {at} on are {value}"));
        }
    }
    Mutant {
        words: words.join("; "),
        bytes,
    }
}

fn once(model: &mut GgufWriter, random: &mut ChaCha8Rng) -> String {
    if model.keys.is_empty() || model.tensors.is_empty() {
        return "nothing".to_owned();
    }
    let key = random.random_range(0..model.keys.len());
    let tensor = random.random_range(0..model.tensors.len());
    match random.random_range(0..14) {
        0 => {
            let key = model.keys.remove(key);
            format!("without key {}", key.name)
        }
        1 => {
            let copy = model.keys[key].clone();
            let words = format!("key {} twice", copy.name);
            model.keys.push(copy);
            words
        }
        2 => {
            let other = random.random_range(0..model.keys.len());
            let value = (model.keys[other].code, model.keys[other].value.clone());
            (model.keys[key].code, model.keys[key].value) = value;
            format!(
                "key {} has the value of {}",
                model.keys[key].name, model.keys[other].name
            )
        }
        3 => {
            let code = random.random_range(0..14);
            model.keys[key].code = code;
            format!("key {} is of type {code}", model.keys[key].name)
        }
        4..8 => value(&mut model.keys[key], random),
        8 => {
            let tensor = model.tensors.remove(tensor);
            format!("without tensor {}", tensor.name)
        }
        9 => {
            let code = random.random_range(0..45);
            model.tensors[tensor].code = code;
            format!("tensor {} is of type {code}", model.tensors[tensor].name)
        }
        10 => {
            let dims = &mut model.tensors[tensor].dims;
            match random.random_range(0..3) {
                0 if !dims.is_empty() => {
                    let dim = random.random_range(0..dims.len());
                    dims[dim] = number(random);
                }
                1 => {
                    dims.pop();
                }
                _ => dims.push(number(random)),
            }
            format!(
                "tensor {} is {:?}",
                model.tensors[tensor].name, model.tensors[tensor].dims
            )
        }
        11 => {
            let offset = number(random);
            model.tensors[tensor].offset = Some(offset);
            format!("tensor {} at {offset}", model.tensors[tensor].name)
        }
        12 => {
            let name = (*TEXTS.choose(random).unwrap_or(&"")).repeat(random.random_range(1..20));
            let words = format!("tensor {} is called {name:?}", model.tensors[tensor].name);
            model.tensors[tensor].name = name;
            words
        }
        _ => {
            let alignment = number(random);
            model.keys.retain(|key| key.name != "general.alignment");
            model.u32("general.alignment", alignment as u32);
            format!("alignment {alignment}")
        }
    }
}

/// Changes a value: a number, an item of an array of texts, or any of its bytes.
fn value(key: &mut Key, random: &mut ChaCha8Rng) -> String {
    let words = format!("the value of {} changed", key.name);
    if key.code == 9 && key.value.starts_with(&8_u32.to_le_bytes()) {
        return text_item(key, random);
    }
    if key.value.is_empty() {
        return words;
    }
    let start = random.random_range(0..key.value.len());
    let end = key.value.len().min(start + [1, 4, 8][random.random_range(0..3)]);
    let fresh = if random.random() {
        number(random)
    } else {
        random.random()
    };
    key.value[start..end].copy_from_slice(&fresh.to_le_bytes()[..end - start]);
    words
}

/// Changes, removes or adds an item of an array of texts.
fn text_item(key: &mut Key, random: &mut ChaCha8Rng) -> String {
    let mut items = Vec::new();
    let mut at = 12;
    while let Some(len) = key.value.get(at..at + 8).and_then(|len| len.try_into().ok()) {
        let len = u64::from_le_bytes(len) as usize;
        let Some(item) = key.value.get(at + 8..at + 8 + len) else {
            break;
        };
        items.push(item.to_vec());
        at += 8 + len;
    }
    let index = random.random_range(0..=items.len());
    let mut text = (*TEXTS.choose(random).unwrap_or(&"")).as_bytes().to_vec();
    if random.random_ratio(1, 3) {
        let at = random.random_range(0..=text.len());
        text.insert(at, random.random());
    }
    let words = match random.random_range(0..3) {
        0 if index < items.len() => {
            items.remove(index);
            "gone"
        }
        1 => {
            items.insert(index, text);
            "one more"
        }
        _ => {
            if let Some(item) = items.get_mut(index) {
                *item = text;
            }
            "changed"
        }
    };
    key.value.truncate(4);
    key.value.extend((items.len() as u64).to_le_bytes());
    for item in items {
        key.value.extend((item.len() as u64).to_le_bytes());
        key.value.extend(item);
    }
    format!("item {index} of {}: {words}", key.name)
}
