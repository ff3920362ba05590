//! Size of a Linux program without symbols, from the headers of its loaded segments (elf(5), 64 bits, little endian).

/// Where the first segment's header stands, how long each is, and how many there are: of the program's header.
const PHOFF: usize = 32;
const PHENTSIZE: usize = 54;
const PHNUM: usize = 56;
/// A segment that is loaded.
const LOAD: u32 = 1;
/// Where a segment begins in the file, and its length there: of its header.
const OFFSET: usize = 8;
const FILESZ: usize = 32;

/// The end of the last segment that is loaded from the file; `None` for anything but such a program.
pub(super) fn loaded(file: &[u8]) -> Option<u64> {
    // class 64 bits, data little endian
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let first = usize::try_from(u64::from_le_bytes(at(file, PHOFF)?)).ok()?;
    let (each, count) = (
        u16::from_le_bytes(at(file, PHENTSIZE)?),
        u16::from_le_bytes(at(file, PHNUM)?),
    );
    let mut end = None;
    for segment in 0..usize::from(count) {
        let header = file.get(first.checked_add(segment * usize::from(each))?..)?;
        if u32::from_le_bytes(at(header, 0)?) == LOAD {
            let last = u64::from_le_bytes(at(header, OFFSET)?)
                .checked_add(u64::from_le_bytes(at(header, FILESZ)?))?;
            end = end.max(Some(last));
        }
    }
    end
}

fn at<const N: usize>(bytes: &[u8], from: usize) -> Option<[u8; N]> {
    bytes.get(from..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaded_size_is_found_and_other_files_are_rejected() {
        let mut file = vec![0u8; 64 + 2 * 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[PHOFF] = 64;
        file[PHENTSIZE] = 56;
        file[PHNUM] = 2;
        // one is loaded, the other, which is longer, is not
        for (segment, kind, offset, size) in [(0, 1, 100, 23), (1, 4, 100, 90)] {
            let header = 64 + segment * 56;
            file[header] = kind;
            file[header + OFFSET] = offset;
            file[header + FILESZ] = size;
        }
        assert_eq!(loaded(&file), Some(123));
        assert_eq!(loaded(&file[..100]), None);
        assert_eq!(loaded(b"#!/bin/sh"), None);
    }

    #[test]
    #[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
    fn loaded_size_excludes_symbols() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let loaded = loaded(&file).unwrap();
        assert!(loaded > 100_000 && loaded < file.len() as u64);
    }
}
