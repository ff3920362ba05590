//! Messages between a process and its sandboxes: their length as 32 bits, little-endian, and their bytes.

use std::io::{self, Read, Write};

/// Writes a message of several parts.
pub(super) fn write(out: &mut impl Write, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "a message of more than 4 GiB");
    out.write_all(&u32::try_from(length).map_err(too_long)?.to_le_bytes())?;
    for part in parts {
        out.write_all(part)?;
    }
    out.flush()
}

/// Reads a message of at most `most` bytes; `None` at the end.
pub(super) fn read(input: &mut impl Read, most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > most {
        let words = format!("a message of {length} bytes; the maximum is {most}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_return_whole_and_long_ones_are_refused() {
        let mut bytes = Vec::new();
        write(&mut bytes, &[b"ab", b"", b"c"]).unwrap();
        write(&mut bytes, &[]).unwrap();
        let mut input = &bytes[..];
        assert_eq!(read(&mut input, 3).unwrap().unwrap(), b"abc");
        assert_eq!(read(&mut input, 3).unwrap().unwrap(), b"");
        assert!(read(&mut input, 3).unwrap().is_none());
        assert!(
            read(&mut &bytes[..], 2)
                .unwrap_err()
                .to_string()
                .contains("3 bytes")
        );
        assert!(read(&mut &bytes[..6], 3).is_err());
    }
}
