//! Element types as buffers (PEP 3118) and DLPack name them.

use std::ffi::CStr;

use polychip::DType;

/// The format of a buffer; `None` for a type without one.
pub(crate) fn format(dtype: DType) -> Option<&'static CStr> {
    Some(match dtype {
        DType::Bool => c"?",
        DType::I8 => c"b",
        DType::U8 => c"B",
        DType::I16 => c"h",
        DType::U16 => c"H",
        DType::I32 => c"i",
        DType::U32 => c"I",
        DType::I64 => c"q",
        DType::U64 => c"Q",
        DType::F16 => c"e",
        DType::F32 => c"f",
        DType::F64 => c"d",
        DType::C64 => c"Zf",
        DType::C128 => c"Zd",
        _ => return None,
    })
}

/// The type for a buffer's format and element size.
pub(crate) fn of_format(format: &CStr, size: usize) -> Option<DType> {
    let format = format.to_str().ok()?;
    let little = cfg!(target_endian = "little");
    let letters = match format.as_bytes().first()? {
        b'@' | b'=' => &format[1..],
        b'<' if little => &format[1..],
        b'>' | b'!' if !little => &format[1..],
        _ => format,
    };
    Some(match (letters, size) {
        ("?", 1) => DType::Bool,
        ("b", 1) => DType::I8,
        ("B" | "c", 1) => DType::U8,
        ("h" | "i" | "l" | "q" | "n", 2) => DType::I16,
        ("H" | "I" | "L" | "Q" | "N", 2) => DType::U16,
        ("h" | "i" | "l" | "q" | "n", 4) => DType::I32,
        ("H" | "I" | "L" | "Q" | "N", 4) => DType::U32,
        ("h" | "i" | "l" | "q" | "n", 8) => DType::I64,
        ("H" | "I" | "L" | "Q" | "N", 8) => DType::U64,
        ("e", 2) => DType::F16,
        ("f", 4) => DType::F32,
        ("d", 8) => DType::F64,
        ("Zf", 8) => DType::C64,
        ("Zd", 16) => DType::C128,
        _ => return None,
    })
}

/// DLPack's code and bits; `None` for a type without them.
pub(crate) fn dlpack(dtype: DType) -> Option<(u8, u8)> {
    Some(match dtype {
        DType::I8 => (0, 8),
        DType::I16 => (0, 16),
        DType::I32 => (0, 32),
        DType::I64 => (0, 64),
        DType::U8 => (1, 8),
        DType::U16 => (1, 16),
        DType::U32 => (1, 32),
        DType::U64 => (1, 64),
        DType::F16 => (2, 16),
        DType::F32 => (2, 32),
        DType::F64 => (2, 64),
        DType::BF16 => (4, 16),
        DType::C64 => (5, 64),
        DType::C128 => (5, 128),
        DType::Bool => (6, 8),
        DType::F8E4M3FN => (10, 8),
        DType::F8E4M3FNUZ => (11, 8),
        DType::F8E5M2 => (12, 8),
        DType::F8E5M2FNUZ => (13, 8),
        _ => return None,
    })
}

/// The type for DLPack's code and bits.
pub(crate) fn of_dlpack(code: u8, bits: u8) -> Option<DType> {
    let all = [
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
        DType::F8E4M3FN,
        DType::F8E4M3FNUZ,
        DType::F8E5M2,
        DType::F8E5M2FNUZ,
    ];
    all.into_iter().find(|dtype| dlpack(*dtype) == Some((code, bits)))
}

/// Whether an array of one type may be passed for an input of another: the same type, or the bits
/// of a type that arrays cannot name.
pub(crate) fn fits(given: DType, wanted: DType) -> bool {
    given == wanted
        || match wanted {
            DType::BF16 => given == DType::U16,
            DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E5M2 | DType::F8E5M2FNUZ => given == DType::U8,
            _ => false,
        }
}

/// The name of the type in array libraries.
pub(crate) fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::I8 => "int8",
        DType::U8 => "uint8",
        DType::I16 => "int16",
        DType::U16 => "uint16",
        DType::I32 => "int32",
        DType::U32 => "uint32",
        DType::I64 => "int64",
        DType::U64 => "uint64",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::C64 => "complex64",
        DType::C128 => "complex128",
        DType::String => "string",
        DType::U4 => "uint4",
        DType::I4 => "int4",
        DType::F8E4M3FN => "float8_e4m3fn",
        DType::F8E4M3FNUZ => "float8_e4m3fnuz",
        DType::F8E5M2 => "float8_e5m2",
        DType::F8E5M2FNUZ => "float8_e5m2fnuz",
        other => other.name(),
    }
}

/// Unsigned integers of the same width, which hold the bits of a type that arrays cannot name.
pub(crate) fn bits(dtype: DType) -> DType {
    match dtype.byte_len(1) {
        Some(2) => DType::U16,
        Some(4) => DType::U32,
        Some(8) => DType::U64,
        _ => DType::U8,
    }
}
