//! One mutant of a model.
//!
//! Invariants:
//! 1. Same bytes and same seed, same mutant.
//! 2. Each of its at most three changes adds at most [`LARGEST_GROWTH`].

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::wire::{self, Field, Value};

/// How much longer a mutant may be than its model, in bytes.
const LARGEST_GROWTH: usize = 4 << 20;
/// One mutant of so many is made of bytes, whatever they mean.
const OF_BYTES: u32 = 6;
/// Numbers at which sizes, types, axes and counts break.
const NUMBERS: [u64; 22] = [
    0,
    1,
    2,
    3,
    7,
    8,
    16,
    127,
    255,
    256,
    65_535,
    1 << 20,
    1_000_000_000,
    (1 << 31) - 1,
    1 << 31,
    1 << 32,
    1_000_000_000_000,
    i64::MAX as u64,
    i64::MIN as u64,
    u64::MAX,
    u64::MAX - 1,
    u64::MAX - 6,
];

/// A mutant of a model, and what was done in words.
#[must_use]
pub fn mutate(model: &[u8], seed: u64) -> (String, Vec<u8>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let fields = (!rng.random_ratio(1, OF_BYTES))
        .then(|| wire::read(model))
        .flatten();
    let Some(mut fields) = fields else {
        return of_bytes(model, &mut rng);
    };
    let donor = fields.clone();
    let mut words = Vec::new();
    for _ in 0..[1, 1, 1, 2, 3][rng.random_range(0..5)] {
        words.push(once(&mut fields, &donor, model.len(), &mut rng));
    }
    (words.join("; "), wire::write(&fields))
}

fn of_bytes(model: &[u8], rng: &mut ChaCha8Rng) -> (String, Vec<u8>) {
    let mut bytes = model.to_vec();
    if bytes.is_empty() || rng.random_ratio(1, 4) {
        let length = rng.random_range(0..=bytes.len());
        bytes.truncate(length);
        return (format!("cut to {length} bytes"), bytes);
    }
    let mut words = Vec::new();
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..bytes.len());
        let mask = [0x01, 0x02, 0x04, 0x7f, 0x80, 0xff][rng.random_range(0..6)];
        bytes[at] ^= mask;
        words.push(format!("byte {at} changed by {mask:#x}"));
    }
    (words.join("; "), bytes)
}

/// A place in a tree of fields: the index at each level.
type Path = Vec<usize>;

fn places(fields: &[Field], path: &mut Path, all: &mut Vec<Path>) {
    for (index, field) in fields.iter().enumerate() {
        path.push(index);
        all.push(path.clone());
        if let Value::Message(inner) = &field.value {
            places(inner, path, all);
        }
        path.pop();
    }
}

/// A place, drawn level by level more often than evenly: a table of weights has thousands of fields, a node has five.
fn draw(fields: &[Field], rng: &mut ChaCha8Rng) -> Option<Path> {
    if rng.random_ratio(1, 3) {
        let mut all = Vec::new();
        places(fields, &mut Vec::new(), &mut all);
        return all.choose(rng).cloned();
    }
    let mut path = Vec::new();
    let mut level = fields;
    loop {
        if level.is_empty() {
            return (!path.is_empty()).then_some(path);
        }
        let index = rng.random_range(0..level.len());
        path.push(index);
        match &level[index].value {
            Value::Message(inner) if !rng.random_ratio(1, 8) => level = inner,
            _ => return Some(path),
        }
    }
}

/// The list that holds a place, and the index in it.
fn holder<'a>(fields: &'a mut Vec<Field>, path: &[usize]) -> (&'a mut Vec<Field>, usize) {
    let (&index, inner) = path.split_first().expect("invariant: a path has a level");
    if inner.is_empty() {
        return (fields, index);
    }
    match &mut fields[index].value {
        Value::Message(message) => holder(message, inner),
        _ => unreachable!("invariant: only messages have places inside"),
    }
}

/// A field of this number somewhere, such as another node's name or another tensor's size.
fn another<'a>(fields: &'a [Field], number: u32, rng: &mut ChaCha8Rng) -> Option<&'a Field> {
    fn gather<'a>(fields: &'a [Field], number: u32, all: &mut Vec<&'a Field>) {
        for field in fields {
            if field.number == number {
                all.push(field);
            }
            if let Value::Message(inner) = &field.value {
                gather(inner, number, all);
            }
        }
    }
    let mut all = Vec::new();
    gather(fields, number, &mut all);
    all.choose(rng).copied()
}

fn once(fields: &mut Vec<Field>, donor: &[Field], length: usize, rng: &mut ChaCha8Rng) -> String {
    let Some(path) = draw(fields, rng) else {
        return "nothing to change".to_owned();
    };
    let (list, index) = holder(fields, &path);
    let number = list[index].number;
    let what = match rng.random_range(0..12) {
        0 => {
            list.remove(index);
            "removed"
        }
        1 => {
            let copy = list[index].clone();
            list.insert(index, copy);
            "doubled"
        }
        2 => {
            let other = rng.random_range(0..list.len());
            list.swap(index, other);
            "swapped with a neighbour"
        }
        3 => {
            if let Some(other) = another(donor, number, rng) {
                list[index] = other.clone();
            }
            "made another field of its number"
        }
        4 => {
            list[index].number = [1, 2, 3, 4, 5, 6, 7, 8, 12, 20][rng.random_range(0..10)];
            "given another number"
        }
        5 => {
            let one = wire::write(std::slice::from_ref(&list[index])).len();
            let times = [10, 100, 3000, 100_000][rng.random_range(0..4)].min(LARGEST_GROWTH / 2 / one);
            let copies = vec![list[index].clone(); times];
            list.splice(index..index, copies);
            "repeated"
        }
        6 => {
            nest(&mut list[index], length, rng);
            "put inside itself"
        }
        _ => {
            change(&mut list[index].value, donor, rng);
            "changed"
        }
    };
    format!("field {path:?} (number {number}) {what}")
}

/// A field as the last one of its own message, many times over: calls in calls, graphs in graphs.
fn nest(field: &mut Field, length: usize, rng: &mut ChaCha8Rng) {
    let times = [2, 20, 200][rng.random_range(0..3)];
    let one = wire::write(std::slice::from_ref(field)).len();
    for _ in 0..times.min(LARGEST_GROWTH / 4 / one.max(1)) {
        let copy = field.clone();
        let Value::Message(inner) = &mut field.value else {
            return;
        };
        inner.push(copy);
        if wire::write(std::slice::from_ref(field)).len() > length.min(LARGEST_GROWTH) {
            return;
        }
    }
}

fn change(value: &mut Value, donor: &[Field], rng: &mut ChaCha8Rng) {
    match value {
        Value::Varint(number) => {
            *number = match rng.random_range(0..4) {
                0 => number.wrapping_add(1),
                1 => number.wrapping_sub(1),
                _ => *NUMBERS.choose(rng).expect("invariant: the table is not empty"),
            };
        }
        Value::Fixed64(bytes) => *bytes = rng.random(),
        Value::Fixed32(bytes) => {
            let float = [0.0, -1.0, 1e30, f32::NAN, f32::INFINITY, -0.0][rng.random_range(0..6)];
            *bytes = float.to_le_bytes();
        }
        Value::Bytes(bytes) => match rng.random_range(0..6) {
            0 => bytes.clear(),
            1 => bytes.truncate(bytes.len() / 2),
            2 => {
                let times = [2, 1000][rng.random_range(0..2)].min(LARGEST_GROWTH / 4 / bytes.len().max(1));
                *bytes = bytes.repeat(times.max(1));
            }
            // names that are other names: edges that lead elsewhere, ops that are others
            3 | 4 => {
                let number = [1, 2, 3, 4, 5, 8][rng.random_range(0..6)];
                if let Some(Value::Bytes(other)) = another(donor, number, rng).map(|field| &field.value) {
                    bytes.clone_from(other);
                }
            }
            _ => {
                if !bytes.is_empty() {
                    let at = rng.random_range(0..bytes.len());
                    bytes[at] = rng.random();
                }
            }
        },
        Value::Message(fields) => {
            if fields.len() > 1 {
                let keep = rng.random_range(0..fields.len());
                fields.truncate(keep);
            } else {
                fields.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shapes/shapes.onnx");

    #[test]
    fn a_seed_gives_one_mutant_and_another_seed_another() {
        let model = std::fs::read(DEMO).unwrap();
        assert_eq!(mutate(&model, 7), mutate(&model, 7));
        let mutants: BTreeSet<Vec<u8>> = (0..100).map(|seed| mutate(&model, seed).1).collect();
        assert!(mutants.len() > 90, "{}", mutants.len());
    }

    #[test]
    fn a_mutant_is_bounded() {
        let model = std::fs::read(DEMO).unwrap();
        for seed in 0..300 {
            let (what, mutant) = mutate(&model, seed);
            assert!(mutant.len() <= model.len() + 3 * LARGEST_GROWTH, "{seed}: {what}");
        }
    }
}
