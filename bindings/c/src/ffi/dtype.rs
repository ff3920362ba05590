//! Codes of the element types of a tensor, numbered as ONNX numbers its `TensorProto.DataType`, and as the plugin contract does.
//!
//! Invariant: a code never changes its meaning.

/// ONNX `float`: 32-bit IEEE float.
pub const POLYCHIP_DTYPE_F32: u32 = 1;
/// ONNX `uint8`: unsigned 8-bit integer.
pub const POLYCHIP_DTYPE_U8: u32 = 2;
/// ONNX `int8`: signed 8-bit integer.
pub const POLYCHIP_DTYPE_I8: u32 = 3;
/// ONNX `uint16`: unsigned 16-bit integer.
pub const POLYCHIP_DTYPE_U16: u32 = 4;
/// ONNX `int16`: signed 16-bit integer.
pub const POLYCHIP_DTYPE_I16: u32 = 5;
/// ONNX `int32`: signed 32-bit integer.
pub const POLYCHIP_DTYPE_I32: u32 = 6;
/// ONNX `int64`: signed 64-bit integer.
pub const POLYCHIP_DTYPE_I64: u32 = 7;
/// ONNX `string`: text, one UTF-8 string per element.
pub const POLYCHIP_DTYPE_STRING: u32 = 8;
/// ONNX `bool`: truth value, one byte of 0 or 1.
pub const POLYCHIP_DTYPE_BOOL: u32 = 9;
/// ONNX `float16`: 16-bit IEEE float.
pub const POLYCHIP_DTYPE_F16: u32 = 10;
/// ONNX `double`: 64-bit IEEE float.
pub const POLYCHIP_DTYPE_F64: u32 = 11;
/// ONNX `uint32`: unsigned 32-bit integer.
pub const POLYCHIP_DTYPE_U32: u32 = 12;
/// ONNX `uint64`: unsigned 64-bit integer.
pub const POLYCHIP_DTYPE_U64: u32 = 13;
/// ONNX `complex64`: complex number of two 32-bit floats.
pub const POLYCHIP_DTYPE_C64: u32 = 14;
/// ONNX `complex128`: complex number of two 64-bit floats.
pub const POLYCHIP_DTYPE_C128: u32 = 15;
/// ONNX `bfloat16`: 16-bit float with the exponent range of 32-bit floats.
pub const POLYCHIP_DTYPE_BF16: u32 = 16;
/// ONNX `float8e4m3fn`: 8-bit float, 4 exponent bits, finite values and NaN only.
pub const POLYCHIP_DTYPE_F8E4M3FN: u32 = 17;
/// ONNX `float8e4m3fnuz`: 8-bit float, 4 exponent bits, finite values, NaN and one zero.
pub const POLYCHIP_DTYPE_F8E4M3FNUZ: u32 = 18;
/// ONNX `float8e5m2`: 8-bit float, 5 exponent bits.
pub const POLYCHIP_DTYPE_F8E5M2: u32 = 19;
/// ONNX `float8e5m2fnuz`: 8-bit float, 5 exponent bits, finite values, NaN and one zero.
pub const POLYCHIP_DTYPE_F8E5M2FNUZ: u32 = 20;
/// ONNX `uint4`: unsigned 4-bit integer, two per byte, low half first.
pub const POLYCHIP_DTYPE_U4: u32 = 21;
/// ONNX `int4`: signed 4-bit integer, two per byte, low half first.
pub const POLYCHIP_DTYPE_I4: u32 = 22;
/// ONNX `float4e2m1`: 4-bit float, two per byte, low half first.
pub const POLYCHIP_DTYPE_F4E2M1: u32 = 23;
/// ONNX `float8e8m0`: 8-bit power-of-two scale without sign.
pub const POLYCHIP_DTYPE_F8E8M0: u32 = 24;
/// ONNX `uint2`: unsigned 2-bit integer, four per byte, low bits first.
pub const POLYCHIP_DTYPE_U2: u32 = 25;
/// ONNX `int2`: signed 2-bit integer, four per byte, low bits first.
pub const POLYCHIP_DTYPE_I2: u32 = 26;
/// ONNX `float6e2m3`: 6-bit float, 2 exponent bits.
pub const POLYCHIP_DTYPE_F6E2M3: u32 = 27;
/// ONNX `float6e3m2`: 6-bit float, 3 exponent bits.
pub const POLYCHIP_DTYPE_F6E3M2: u32 = 28;

#[cfg(test)]
mod tests {
    use polychip::DType;

    #[test]
    fn every_type_has_its_code() {
        let source = include_str!("dtype.rs");
        for dtype in DType::ALL {
            let line = format!(
                "pub const POLYCHIP_DTYPE_{}: u32 = {};\n",
                dtype.name().to_uppercase(),
                dtype.code()
            );
            assert!(source.contains(&line), "{line}");
        }
        assert_eq!(
            source.matches("\npub const POLYCHIP_DTYPE_").count(),
            DType::ALL.len()
        );
    }
}
