//! Packed weights: how pieces of them are made, and how the parts of a device share them.
//!
//! Invariants:
//! 1. A section that some loaded part or blob holds is used again, not packed again, where its [`Recipe`] is the same.
//! 2. A recipe names all that the bytes depend on, the contents of constants included, and not where these lie: a model
//!    whose constants are folded anew for another input size shares them too, and no address outlives its model. Debug
//!    builds pack what they find again and compare, so that every test proves that.
//! 3. Sections that are packed together lie together, on huge pages where those pay; so they are freed together.
//! 4. The contents of a constant are hashed once as long as an executable that was loaded with it lives: until then the
//!    host keeps these bytes where they are. So another size of a model reads no weight.
//! 5. What packs a section holds what it packs, scales and zero points too. So it is dropped when all is packed, and a
//!    program holds where its sections are, and no more.
//!
//! Not here: how weights are laid out (`cpu-kernels`), how they travel in a blob (`blob`).
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use memmap2::{MmapOptions, MmapRaw};
use polychip_cpu_kernels::conv::ConvParams;
use polychip_cpu_kernels::{AlignedVec, ThreadPool};
use polychip_sdk::{Constant, Error, ErrorKind, Result};

use crate::part::Tensor;

/// Makes a section of the packed weights of zeros.
pub(crate) type Pack = Box<dyn Fn(&mut [f32]) -> Result<()> + Send + Sync>;

/// The hash of a recipe.
type Key = [u8; 32];

/// A piece of the packed weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    /// Where it starts in a blob, in floats.
    pub(crate) start: usize,
    /// Length, in floats.
    pub(crate) len: usize,
}

/// How a section is made.
pub(crate) struct Packer {
    /// Length of the section, in floats.
    pub(crate) len: usize,
    /// What its bytes depend on.
    pub(crate) recipe: Recipe,
    /// Fills it.
    pub(crate) pack: Pack,
}

/// All that the bytes of a section depend on: who packs it, with which parameters, of what.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    description: String,
    sources: Vec<Arc<Tensor>>,
}

impl Recipe {
    /// A section made by `packer`; what it depends on follows.
    pub(crate) fn new(packer: &str) -> Self {
        Self {
            description: packer.to_owned(),
            sources: Vec::new(),
        }
    }

    /// It depends on this value, as far as that shows when it is printed.
    pub(crate) fn by(mut self, value: impl std::fmt::Debug) -> Self {
        // nothing fails that writes to a text
        let _ = write!(self.description, " {value:?}");
        self
    }

    /// It depends on what the layout of a convolution's weights does: not on the size of the image.
    pub(crate) fn by_params(self, params: &ConvParams) -> Self {
        let window = &params.window;
        self.by((params.in_channels, params.out_channels, params.groups))
            .by((window.kernel, window.strides, window.dilations))
    }

    /// It depends on the values of this constant.
    pub(crate) fn of(self, source: &Tensor) -> Self {
        self.of_shared(&Arc::new(source.clone()))
    }

    /// As [`of`](Self::of), of a constant that the packer holds, too.
    pub(crate) fn of_shared(mut self, source: &Arc<Tensor>) -> Self {
        self.description.push_str(" of");
        self.sources.push(Arc::clone(source));
        self
    }

    /// It depends on the values of this constant, or on there being none.
    pub(crate) fn of_any(self, source: Option<&Tensor>) -> Self {
        match source {
            Some(source) => self.of(source),
            None => self.by("none"),
        }
    }

    fn key(&self, len: usize, contents: &Contents) -> Key {
        let mut hasher = blake3::Hasher::new();
        let feed = |hasher: &mut blake3::Hasher, bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        feed(&mut hasher, self.description.as_bytes());
        feed(&mut hasher, &(len as u64).to_le_bytes());
        for source in &self.sources {
            let Tensor {
                dtype,
                plain,
                packed,
                dims,
                bounds: _,
                constant,
                fill,
                encoding,
                name: _,
            } = &**source;
            let kind = encoding
                .as_ref()
                .map(|encoding| (encoding.kind, encoding.real_dtype));
            let description = format!("{dtype:?} {plain} {packed} {dims:?} {kind:?} {fill:?}");
            feed(&mut hasher, description.as_bytes());
            // of blocks there are millions
            for number in encoding.iter().flat_map(|encoding| &encoding.scales) {
                hasher.update(&number.to_bits().to_le_bytes());
            }
            for number in encoding.iter().flat_map(|encoding| &encoding.zero_points) {
                hasher.update(&number.to_le_bytes());
            }
            let bytes = constant.as_ref().map_or(0, |constant| constant.bytes().len());
            hasher.update(&(bytes as u64).to_le_bytes());
            if let Some(constant) = constant {
                hasher.update(&contents.of(constant));
            }
        }
        *hasher.finalize().as_bytes()
    }
}

/// Where the bytes of a constant lie: their address, and how many they are.
type Place = (usize, usize);

/// Bytes from which on the hash of a constant is remembered.
const REMEMBERED: usize = 4 << 10;

/// Hashes of constants' contents.
#[derive(Debug, Default)]
struct Contents {
    /// Those of constants that loaded parts hold, by part, the latest last.
    known: Vec<Arc<BTreeMap<Place, Key>>>,
    /// Those that were made or found since.
    used: Mutex<BTreeMap<Place, Key>>,
}

impl Contents {
    fn of(&self, constant: &Constant) -> Key {
        let bytes = constant.bytes();
        let place = (bytes.as_ptr().addr(), bytes.len());
        let hash = || {
            let mut hasher = blake3::Hasher::new();
            constant.blocks(|block| {
                hasher.update(block);
            });
            *hasher.finalize().as_bytes()
        };
        if bytes.len() < REMEMBERED {
            return hash();
        }
        let known = self.known.iter().rev().find_map(|held| held.get(&place));
        let key = known.copied().unwrap_or_else(hash);
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.insert(place, key);
        key
    }
}

/// Hashes of the constants of loaded parts, by a number of each part.
#[derive(Debug, Default)]
struct Registry {
    next: u64,
    parts: BTreeMap<u64, Arc<BTreeMap<Place, Key>>>,
}

/// Keeps the hashes of the constants that a loaded part holds. They are forgotten when this is dropped, even
/// while another part reads them: what is allocated later may lie at the same addresses.
#[derive(Debug)]
pub(crate) struct HeldContents {
    part: u64,
    registry: Arc<Mutex<Registry>>,
}

impl Drop for HeldContents {
    fn drop(&mut self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.parts.remove(&self.part);
    }
}

/// The address of the first float of a section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address(pub(crate) *const f32);

// SAFETY: an address is a number until it is read, and packed weights are only read.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// The packed weights of a program, in memory.
pub(crate) struct Packed {
    /// Where each section is.
    table: Vec<Address>,
    /// Held for that memory; what lies in cached bytes lives as long as those, which the contract says.
    held: Vec<Arc<WeightMemory>>,
    /// Bytes that no other had.
    own_bytes: u64,
    /// Hashes of what was packed.
    contents: BTreeMap<Place, Key>,
}

impl Packed {
    /// Sections that lie as in a blob, in memory of their own.
    pub(crate) fn of_memory(sections: &[Section], memory: AlignedVec) -> Self {
        let mut packed = Self::at(sections, memory.as_ptr());
        packed.held.push(Arc::new(WeightMemory::Heap(memory)));
        packed
    }

    /// Sections that lie as in a blob, in cached bytes from this offset on.
    pub(crate) fn of_bytes(sections: &[Section], bytes: Constant, offset: usize) -> Self {
        Self::at(sections, bytes.bytes()[offset..].as_ptr().cast())
    }

    fn at(sections: &[Section], first: *const f32) -> Self {
        let table = sections.iter().map(|section| first.wrapping_add(section.start));
        let bytes = sections.iter().map(|section| 4 * section.len as u64);
        Self {
            table: table.map(Address).collect(),
            held: Vec::new(),
            own_bytes: bytes.sum(),
            contents: BTreeMap::new(),
        }
    }

    /// Where each section is, in the order of the program's.
    pub(crate) fn table(&self) -> &[Address] {
        &self.table
    }

    /// Bytes that no other had when these were packed.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.own_bytes
    }

    /// All sections as they lie in a blob, where they do in memory: none was found.
    pub(crate) fn whole(&self, sections: &[Section], len: usize) -> Option<&[f32]> {
        let memory = self.held.first()?.floats();
        let mut locations = self.table.iter().zip(sections);
        let is_whole =
            locations.all(|(address, section)| address.0 == memory.as_ptr().wrapping_add(section.start));
        memory.get(..len).filter(|_| is_whole)
    }

    /// The floats of section `index`.
    pub(crate) fn section(&self, sections: &[Section], index: usize) -> &[f32] {
        self.floats(index, sections[index].len)
    }

    /// The first `len` floats of section `index`, which has as many.
    fn floats(&self, index: usize, len: usize) -> &[f32] {
        if len == 0 {
            return &[];
        }
        // SAFETY: the table was made of these sections, and what it points into is held, or are the blob's cached bytes,
        // which outlive what is loaded of them.
        unsafe { std::slice::from_raw_parts(self.table[index].0, len) }
    }
}

/// A section that some part holds.
struct Shelved {
    memory: Weak<WeightMemory>,
    start: usize,
}

/// The packed sections of a device's parts.
#[derive(Default)]
pub(crate) struct Weights {
    shelf: Mutex<BTreeMap<Key, Shelved>>,
    contents: Arc<Mutex<Registry>>,
    /// Where sections lie in files; `None` in memory.
    files: Option<WeightFiles>,
}

/// Packed weights in files.
#[derive(Debug, Clone)]
pub(crate) struct WeightFiles {
    /// The folder of the files.
    pub(crate) folder: PathBuf,
    /// Weights that are packed together and have fewer bytes stay in memory.
    pub(crate) min_bytes: u64,
}

/// Memory of packed sections.
#[derive(Debug)]
pub(crate) enum WeightMemory {
    Heap(AlignedVec),
    /// A file without a name, mapped, and its floats: the system may drop its pages and read them again.
    File(MmapRaw, usize),
}

impl WeightMemory {
    /// A file of zeros in this folder, whose space on the disk is reserved.
    fn in_file(folder: &Path, floats: usize) -> std::io::Result<WeightMemory> {
        let bytes = floats.saturating_mul(4);
        let file = tempfile::tempfile_in(folder)?;
        file.set_len(bytes as u64)?;
        // otherwise a full disk would end the process at a write to the mapping
        #[cfg(any(target_os = "linux", target_os = "android"))]
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64)?;
        let mapping = MmapOptions::new().len(bytes).map_raw(&file)?;
        Ok(WeightMemory::File(mapping, floats))
    }

    fn floats(&self) -> &[f32] {
        match self {
            WeightMemory::Heap(memory) => memory,
            // SAFETY: the mapping has as many floats, is aligned to a page, and lives as long as this. Nothing else writes
            // the file: it has no name.
            WeightMemory::File(mapping, floats) => unsafe {
                std::slice::from_raw_parts(mapping.as_ptr().cast(), *floats)
            },
        }
    }

    fn floats_mut(&mut self) -> &mut [f32] {
        match self {
            WeightMemory::Heap(memory) => memory,
            // SAFETY: as above; the reference to this is the only one.
            WeightMemory::File(mapping, floats) => unsafe {
                std::slice::from_raw_parts_mut(mapping.as_mut_ptr().cast(), *floats)
            },
        }
    }

    /// Writes a file's pages to the disk, so that the system can drop them at once.
    fn write_back(&self) -> Result<()> {
        match self {
            WeightMemory::Heap(_) => Ok(()),
            WeightMemory::File(mapping, _) => mapping
                .flush()
                .map_err(|error| no_file(format!("packed weights cannot be written: {error}"))),
        }
    }

    /// Bytes that the system cannot take back.
    fn resident_bytes(&self) -> u64 {
        match self {
            WeightMemory::Heap(memory) => 4 * memory.len() as u64,
            WeightMemory::File(..) => 0,
        }
    }
}

fn no_file(words: String) -> Error {
    Error::new(ErrorKind::OutOfMemory, words)
}

/// The location of a packed section.
struct SectionLocation {
    /// None for a section in the new memory.
    memory: Option<Arc<WeightMemory>>,
    start: usize,
}

impl Weights {
    /// Packed weights in memory, or as `files` describes in files.
    pub(crate) fn over(files: Option<WeightFiles>) -> Weights {
        Weights {
            files,
            ..Weights::default()
        }
    }

    /// Zeroed memory for sections of which the last has so many floats.
    fn memory(&self, floats: usize, last: usize) -> Result<WeightMemory> {
        let whole = floats.saturating_add(beyond(last));
        let mut memory = match &self.files {
            Some(files) if floats > 0 && 4 * floats as u64 >= files.min_bytes => {
                WeightMemory::in_file(&files.folder, whole).map_err(|error| {
                    no_file(format!(
                        "no file of {} bytes for packed weights in {} (cpu.weights-folder): {error}",
                        4 * whole,
                        files.folder.display()
                    ))
                })?
            }
            _ => WeightMemory::Heap(crate::arena::memory(whole, "packed weights")?),
        };
        memory.floats_mut()[floats..].fill(0.0);
        Ok(memory)
    }

    fn shelf(&self) -> MutexGuard<'_, BTreeMap<Key, Shelved>> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the hashes of what was packed for a part that is loaded now, as far as these constants are its own. They are
    /// known as long as the result lives: no longer than the loaded part.
    pub(crate) fn hold(&self, packed: &Packed, constants: Vec<Constant>) -> HeldContents {
        let place = |constant: Constant| (constant.bytes().as_ptr().addr(), constant.bytes().len());
        let own = constants.into_iter().map(place).filter_map(|place| {
            let key = packed.contents.get(&place)?;
            Some((place, *key))
        });
        let own: BTreeMap<Place, Key> = own.collect();
        let mut registry = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let part = registry.next;
        registry.next += 1;
        registry.parts.insert(part, Arc::new(own));
        HeldContents {
            part,
            registry: Arc::clone(&self.contents),
        }
    }

    /// Hashes of the constants that parts hold which are loaded now. What is packed now lies at other addresses, even if
    /// a part is dropped meanwhile.
    fn held(&self) -> Vec<Arc<BTreeMap<Place, Key>>> {
        let registry = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        registry.parts.values().cloned().collect()
    }

    /// Packs the sections that no part holds, and shares the rest.
    ///
    /// On the threads that will run the program, so that loading takes no more of the machine than running.
    pub(crate) fn pack(&self, packers: &[Packer], pool: &ThreadPool) -> Result<Packed> {
        let contents = Contents {
            known: self.held(),
            ..Contents::default()
        };
        let keys = keys(packers, &contents, pool);
        let (locations, new, floats) = self.locations(packers, &keys);
        let last = new.last().map_or(0, |&index| packers[index].len);
        let mut memory = self.memory(floats, last)?;
        let new_packers: Vec<(usize, &Packer)> = new
            .iter()
            .map(|&index| (locations[index].start, &packers[index]))
            .collect();
        fill(&new_packers, &mut memory.floats_mut()[..floats], pool)?;
        memory.write_back()?;
        // without what lies behind the sections
        let own_bytes = memory.resident_bytes().min(4 * floats as u64);
        let memory = Arc::new(memory);
        let mut held = vec![Arc::clone(&memory)];
        let mut table = Vec::with_capacity(packers.len());
        for location in &locations {
            let own = location.memory.as_ref().unwrap_or(&memory);
            table.push(Address(own.floats()[location.start..].as_ptr()));
            if held.iter().all(|held| !Arc::ptr_eq(held, own)) {
                held.push(Arc::clone(own));
            }
        }
        let mut shelf = self.shelf();
        shelf.retain(|_, shelved| shelved.memory.strong_count() > 0);
        for index in new {
            let shelved = Shelved {
                memory: Arc::downgrade(&memory),
                start: locations[index].start,
            };
            shelf.insert(keys[index], shelved);
        }
        drop(shelf);
        let packed = Packed {
            table,
            held,
            own_bytes,
            contents: contents.used.into_inner().unwrap_or_else(PoisonError::into_inner),
        };
        #[cfg(debug_assertions)]
        packed.check(packers, pool)?;
        Ok(packed)
    }

    /// Where each section is to be; which ones have to be packed, in the order in which they lie; and the floats of those.
    fn locations(&self, packers: &[Packer], keys: &[Key]) -> (Vec<SectionLocation>, Vec<usize>, usize) {
        let shelf = self.shelf();
        let (mut new, mut floats) = (Vec::new(), 0);
        let mut starts = BTreeMap::new();
        let mut location = |(index, packer): (usize, &Packer)| {
            let key = &keys[index];
            let found = shelf.get(key).and_then(|shelved| {
                let memory = shelved.memory.upgrade()?;
                Some(SectionLocation {
                    memory: Some(memory),
                    start: shelved.start,
                })
            });
            found.unwrap_or_else(|| {
                let start = *starts.entry(*key).or_insert_with(|| {
                    let start = floats;
                    // the whole fits the address space where the program's packed weights do
                    floats = (floats + packer.len).next_multiple_of(ALIGN);
                    new.push(index);
                    start
                });
                SectionLocation { memory: None, start }
            })
        };
        let locations = packers.iter().enumerate().map(&mut location).collect();
        (locations, new, floats)
    }
}

/// Most floats of memory behind the last section, 512 KiB: the largest usual panel.
///
/// A product prefetches what follows its last panel, as much as a panel. Where nothing is mapped behind the last
/// section, the processor looks each of these addresses up in vain: convolutions of a voice took up to eight times as
/// long. So some memory follows that is written once.
const MOST_BEYOND: usize = 128 << 10;

/// Floats of memory behind a last section of so many floats.
pub(crate) fn beyond(last: usize) -> usize {
    last.min(MOST_BEYOND)
}

/// Floats of a cache line: where sections start.
pub(crate) const ALIGN: usize = crate::arena::ALIGN / 4;

fn keys(packers: &[Packer], contents: &Contents, pool: &ThreadPool) -> Vec<Key> {
    let keys: Vec<OnceLock<Key>> = packers.iter().map(|_| OnceLock::new()).collect();
    let order = largest_first(packers.iter());
    pool.run(order.len(), &|chunk| {
        let index = order[chunk];
        keys[index].get_or_init(|| packers[index].recipe.key(packers[index].len, contents));
    });
    let keys = keys.into_iter().map(OnceLock::into_inner);
    keys.map(|key| key.expect("invariant: every chunk ran")).collect()
}

/// Indices of packers, those of the largest sections first: the last to begin is then a small one.
fn largest_first<'a>(packers: impl Iterator<Item = &'a Packer>) -> Vec<usize> {
    let lens: Vec<usize> = packers.map(|packer| packer.len).collect();
    let mut order: Vec<usize> = (0..lens.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(lens[index]));
    order
}

/// Packs sections to where they start in `memory`, which is zeros; in the order in which they lie.
fn fill(packers: &[(usize, &Packer)], memory: &mut [f32], pool: &ThreadPool) -> Result<()> {
    let mut pieces = Vec::with_capacity(packers.len());
    let (mut rest, mut start) = (memory, 0);
    for &(first, packer) in packers {
        let (piece, behind) = first
            .checked_sub(start)
            .and_then(|gap| rest.split_at_mut_checked(gap))
            .and_then(|(_, rest)| rest.split_at_mut_checked(packer.len))
            .ok_or_else(|| Error::bad_blob("packed weights are too short"))?;
        pieces.push(Mutex::new((piece, packer, Ok(()))));
        (rest, start) = (behind, first + packer.len);
    }
    let order = largest_first(packers.iter().map(|(_, packer)| *packer));
    pool.run(order.len(), &|chunk| {
        let mut piece = pieces[order[chunk]]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (target, packer, result) = &mut *piece;
        *result = (packer.pack)(target);
    });
    pieces
        .into_iter()
        .try_for_each(|piece| piece.into_inner().unwrap_or_else(PoisonError::into_inner).2)
}

#[cfg(debug_assertions)]
impl Packed {
    /// Packs every section again: what was found is what would have been packed.
    fn check(&self, packers: &[Packer], pool: &ThreadPool) -> Result<()> {
        for (index, packer) in packers.iter().enumerate() {
            let mut again = crate::arena::memory(packer.len, "packed weights")?;
            fill(&[(0, packer)], &mut again, pool)?;
            let have = self.floats(index, packer.len);
            let same = have
                .iter()
                .zip(&again[..])
                .all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(
                same,
                "invariant: a recipe names all that its section depends on: {}",
                packer.recipe.description
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polychip_ops::DType;

    /// Packers of as many floats, which give a value each.
    fn packers(values: &[(usize, f32)]) -> Vec<Packer> {
        let packer = |&(len, value): &(usize, f32)| Packer {
            len,
            recipe: Recipe::new("value").by(value),
            pack: Box::new(move |target| {
                target.fill(value);
                Ok(())
            }),
        };
        values.iter().map(packer).collect()
    }

    #[test]
    fn hashes_of_a_part_are_forgotten_with_it_even_while_they_are_read() {
        let (weights, pool) = (Weights::default(), ThreadPool::new(1));
        let packed = weights.pack(&packers(&[(3, 1.0)]), &pool).unwrap();
        let [first, second] = [(); 2].map(|()| weights.hold(&packed, Vec::new()));
        let read = weights.held();
        assert_eq!(read.len(), 2);
        drop(first);
        assert_eq!(weights.held().len(), 1);
        drop(second);
        assert!(weights.held().is_empty());
    }

    #[test]
    fn hashes_of_constants_are_remembered_as_long_as_a_part_holds_them() {
        let (weights, pool) = (Weights::default(), ThreadPool::new(1));
        let mut bytes = vec![1; REMEMBERED];
        // SAFETY: the bytes live until the end of the test, and change only between uses of such values.
        let constant = |bytes: &[u8]| unsafe { Constant::kept(bytes) };
        // the section is the same for all bytes, so that the check of debug builds finds no difference
        let pack = |bytes: &[u8]| {
            let source = Tensor {
                constant: Some(constant(bytes)),
                ..Tensor::new(DType::U8, Some(vec![bytes.len()]))
            };
            let packer = Packer {
                recipe: Recipe::new("of bytes").of(&source),
                ..packers(&[(3, 1.0)]).remove(0)
            };
            weights.pack(&[packer], &pool).unwrap()
        };
        let first = pack(&bytes);
        let held = weights.hold(&first, vec![constant(&bytes)]);
        assert_eq!(first.own_bytes(), 64);
        bytes[0] = 2;
        assert_eq!(pack(&bytes).own_bytes(), 0, "the bytes are not read again");
        drop(held);
        assert_eq!(pack(&bytes).own_bytes(), 64, "other bytes at the same address");
    }

    #[test]
    fn shared_sections_are_not_packed_again() {
        let (weights, pool) = (Weights::default(), ThreadPool::new(2));
        let some = packers(&[(100, 1.0), (3, 2.0), (0, 5.0), (100, 1.0)]);
        let first = weights.pack(&some, &pool).unwrap();
        // the last is the first, and each starts at a cache line
        assert_eq!(first.own_bytes(), 4 * (112 + 16));
        assert_eq!(first.table()[0].0, first.table()[3].0);
        let others = packers(&[(3, 2.0), (50, 3.0), (3, 1.0)]);
        let second = weights.pack(&others, &pool).unwrap();
        assert_eq!(
            second.own_bytes(),
            4 * (64 + 16),
            "a part of another length is another"
        );
        assert_eq!(second.table()[0].0, first.table()[1].0);
        assert_eq!(second.floats(1, 50), [3.0; 50]);
        drop(first);
        assert_eq!(
            weights.pack(&some, &pool).unwrap().own_bytes(),
            0,
            "the second holds it"
        );
        drop(second);
        let again = weights.pack(&some, &pool).unwrap();
        assert_eq!(again.own_bytes(), 4 * (112 + 16));
        assert_eq!(weights.shelf().len(), 3);
    }

    #[test]
    fn weights_in_files_are_the_same_and_hold_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let pool = ThreadPool::new(1);
        let len = (1 << 16) + 3;
        let packers = || {
            [Packer {
                len,
                recipe: Recipe::new("counts"),
                pack: Box::new(|floats: &mut [f32]| {
                    floats
                        .iter_mut()
                        .enumerate()
                        .for_each(|(at, float)| *float = at as f32);
                    Ok(())
                }),
            }]
        };
        let over = |folder: PathBuf, min_bytes| Weights::over(Some(WeightFiles { folder, min_bytes }));
        let in_files = over(folder.path().to_owned(), 1 << 18);
        let packed = in_files.pack(&packers(), &pool).unwrap();
        assert_eq!(packed.own_bytes(), 0);
        let section = [Section { start: 0, len }];
        let expected: Vec<f32> = (0..len).map(|at| at as f32).collect();
        assert_eq!(packed.section(&section, 0), expected);
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "it has no name"
        );
        // another part shares it
        assert_eq!(
            in_files.pack(&packers(), &pool).unwrap().table()[0].0,
            packed.table()[0].0
        );
        let gone = over(folder.path().join("none"), 1 << 18);
        let error = gone.pack(&packers(), &pool).err().unwrap();
        assert!(error.to_string().contains("cpu.weights-folder"), "{error}");
        let small = over(folder.path().join("none"), 1 << 19);
        let in_memory = small.pack(&packers(), &pool).unwrap();
        assert_eq!(in_memory.own_bytes(), 4 * len.next_multiple_of(ALIGN) as u64);
    }

    #[test]
    fn recipe_key_depends_on_contents_not_names() {
        let tensor = |fill: Vec<u8>, name: &str| Tensor {
            fill: Some(fill),
            name: name.to_owned(),
            ..Tensor::new(DType::F32, Some(vec![2]))
        };
        let (a, b) = (tensor(vec![1, 2, 3, 4], "a"), tensor(vec![1, 2, 3, 5], "a"));
        let contents = Contents::default();
        let key = |tensor: &Tensor| Recipe::new("x").of(tensor).key(2, &contents);
        assert_eq!(key(&a), key(&tensor(vec![1, 2, 3, 4], "b")));
        assert_ne!(key(&a), key(&b));
        assert_ne!(
            Recipe::new("x").of_any(None).key(2, &contents),
            Recipe::new("x").key(2, &contents)
        );
        assert_ne!(
            Recipe::new("x").by(0.0f32).key(2, &contents),
            Recipe::new("x").by(-0.0f32).key(2, &contents)
        );
        assert_ne!(
            Recipe::new("x").of(&a).of(&b).key(2, &contents),
            Recipe::new("x").of(&b).of(&a).key(2, &contents)
        );
    }
}
