//! NumPy files as literals.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use npyz::{DType as NpyType, NpyFile, TypeChar};
use polychip_ops::{DType, Literal};

/// Reads a file of plain numbers in C order.
///
/// # Errors
/// The file is not readable, or holds a type that tensors do not have.
pub fn read(path: &Path) -> Result<Literal> {
    read_npy(path).with_context(|| path.display().to_string())
}

fn read_npy(path: &Path) -> Result<Literal> {
    let file = NpyFile::new(BufReader::new(File::open(path)?))?;
    ensure!(file.order() == npyz::Order::C, "the array is not in C order");
    let shape: Vec<usize> = file
        .shape()
        .iter()
        .map(|size| usize::try_from(*size))
        .collect::<Result<_, _>>()?;
    let NpyType::Plain(plain) = file.dtype() else {
        bail!("the array has fields")
    };
    let dtype = match (plain.type_char(), plain.size_field()) {
        (TypeChar::Float, 2) => DType::F16,
        (TypeChar::Float, 4) => DType::F32,
        (TypeChar::Float, 8) => DType::F64,
        (TypeChar::Int, 1) => DType::I8,
        (TypeChar::Int, 2) => DType::I16,
        (TypeChar::Int, 4) => DType::I32,
        (TypeChar::Int, 8) => DType::I64,
        (TypeChar::Uint, 1) => DType::U8,
        (TypeChar::Uint, 2) => DType::U16,
        (TypeChar::Uint, 4) => DType::U32,
        (TypeChar::Uint, 8) => DType::U64,
        (TypeChar::Bool, 1) => DType::Bool,
        (kind, size) => bail!("elements of type {kind:?} with {size} bytes"),
    };
    let bytes = elements(file, dtype)?;
    Literal::new(dtype, shape, bytes).context("the array's size does not fit its shape")
}

fn elements<R: std::io::Read>(file: NpyFile<R>, dtype: DType) -> Result<Vec<u8>> {
    macro_rules! read_as {
        ($rust:ty) => {
            file.data::<$rust>()?
                .map(|value| Ok(value?.to_le_bytes()))
                .collect::<Result<Vec<_>>>()?
                .concat()
        };
    }
    Ok(match dtype {
        DType::F32 => read_as!(f32),
        DType::F64 => read_as!(f64),
        DType::I8 => read_as!(i8),
        DType::I16 => read_as!(i16),
        DType::I32 => read_as!(i32),
        DType::I64 => read_as!(i64),
        DType::U8 => read_as!(u8),
        DType::U16 => read_as!(u16),
        DType::U32 => read_as!(u32),
        DType::U64 => read_as!(u64),
        DType::Bool => file
            .data::<bool>()?
            .map(|value| Ok(u8::from(value?)))
            .collect::<Result<_>>()?,
        other => bail!("arrays of {} are not read here", other.name()),
    })
}
