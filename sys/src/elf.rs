//! The header of an ELF file: whether it is a library for this processor.
//!
//! Invariant: only the header is checked; on systems with another format, nothing is.

/// Number of bytes that [`check`] reads.
pub(crate) const HEAD_BYTES: u64 = 20;

/// `e_machine` of the ELF specification.
const MACHINES: &[(u16, &str)] = &[
    (3, "x86"),
    (40, "arm"),
    (62, "x86_64"),
    (164, "hexagon"),
    (183, "aarch64"),
    (243, "riscv64"),
    (258, "loongarch64"),
];

/// Returns the reason why a file is not an ELF file for this processor.
pub(crate) fn check(head: &[u8]) -> std::result::Result<(), String> {
    if cfg!(any(target_vendor = "apple", windows)) {
        return Ok(());
    }
    let Some((bits, little, machine)) = read(head) else {
        return Err("it is no ELF library".to_owned());
    };
    let here = MACHINES.iter().find(|(_, name)| *name == std::env::consts::ARCH);
    let right = here.is_none_or(|(number, _)| *number == machine);
    if right && bits == usize::BITS && little == cfg!(target_endian = "little") {
        return Ok(());
    }
    let name = MACHINES.iter().find(|(number, _)| *number == machine);
    let name = name.map_or_else(
        || format!("ELF machine {machine}"),
        |(_, name)| (*name).to_owned(),
    );
    Err(format!(
        "it is built for {name} ({bits} bits), this process runs on {} ({} bits)",
        std::env::consts::ARCH,
        usize::BITS
    ))
}

/// Returns the number of bits, whether the file is little-endian, and the machine.
fn read(head: &[u8]) -> Option<(u32, bool, u16)> {
    let head: &[u8; 20] = head.get(..20)?.try_into().ok()?;
    if head[..4] != *b"\x7fELF" {
        return None;
    }
    let little = head[5] == 1;
    let machine = [head[18], head[19]];
    let machine = if little {
        u16::from_le_bytes(machine)
    } else {
        u16::from_be_bytes(machine)
    };
    Some((if head[4] == 2 { 64 } else { 32 }, little, machine))
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::check;

    fn head(bits: u8, machine: u8) -> [u8; 20] {
        let mut head = [0; 20];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', bits, 1]);
        head[18] = machine;
        head
    }

    #[test]
    fn another_processor_is_named() {
        assert_eq!(check(&head(2, 62)), Ok(()));
        let other = check(&head(2, 183)).unwrap_err();
        assert_eq!(
            other,
            "it is built for aarch64 (64 bits), this process runs on x86_64 (64 bits)"
        );
        assert!(check(&head(1, 3)).unwrap_err().contains("x86 (32 bits)"));
        assert!(check(&head(2, 164)).unwrap_err().contains("hexagon"));
        assert!(check(&head(2, 1)).unwrap_err().contains("ELF machine 1"));
    }

    #[test]
    fn non_elf_file_is_reported() {
        for bytes in [&b""[..], b"MZ", &[0; 20]] {
            assert_eq!(check(bytes).unwrap_err(), "it is no ELF library");
        }
    }
}
