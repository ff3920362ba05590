//! Reading the file of weights.

use super::element::Type;

const HEADER: usize = 64;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

/// The format's code of a type that the emulator executes.
fn code_of(ty: Type) -> Option<u32> {
    match ty {
        Type::F16 => Some(1),
        Type::F32 => Some(2),
        Type::I32 => Some(14),
        Type::U8 => Some(3),
        Type::I8 => Some(4),
        Type::Bool | Type::Text => None,
    }
}

/// The elements of an entry, which has to be of this type.
pub(super) fn entry(file: &[u8], offset: u64, ty: Type) -> Result<Vec<u8>, String> {
    let wrong = |what: &str| format!("weight.bin: {what} at offset {offset}");
    let at = usize::try_from(offset).map_err(|_| wrong("no entry"))?;
    let (count, version) = (word(file, 0), word(file, 4));
    if version != Some(2) || count.is_none_or(|count| count == 0) || file.len() < HEADER {
        return Err(wrong("no file of version 2"));
    }
    if !at.is_multiple_of(64) || at < HEADER || word(file, at) != Some(0xDEAD_BEEF) {
        return Err(wrong("no entry"));
    }
    if word(file, at + 4) != code_of(ty) {
        return Err(wrong("an entry of another type"));
    }
    let size = long(file, at + 8).ok_or_else(|| wrong("a torn entry"))?;
    let data = long(file, at + 16).ok_or_else(|| wrong("a torn entry"))?;
    if !data.is_multiple_of(64)
        || file
            .get(at + 24..at + 64)
            .is_none_or(|rest| rest.iter().any(|&byte| byte != 0))
    {
        return Err(wrong("a strange entry"));
    }
    let end = data.checked_add(size);
    let elements = end.and_then(|end| file.get(data..end));
    elements
        .map(<[u8]>::to_vec)
        .ok_or_else(|| wrong("an entry past the end"))
}
