//! Floating-point formats of 16 bits and fewer, by definition: sign, exponent, mantissa.
//!
//! Invariants: `encode` rounds once, to nearest with ties to even, from an exact `f64`;
//! `decode(encode(x)) == x` for each representable `x`.
//! Not here: 32-bit and wider formats, which the language has.

use super::element::Element;

/// What a format does beyond its finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    /// The top exponent holds infinities and NaNs.
    Ieee,
    /// No infinity; NaN is all ones below the sign.
    AllOnesNan,
    /// No infinity, no negative zero; NaN is the sign bit alone.
    SignNan,
    /// Finite numbers only.
    Finite,
}

/// One format: `1` sign bit, `exponent` bits, `mantissa` bits.
#[derive(Clone, Copy, Debug)]
struct Format {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

const fn format(element: Element) -> Option<Format> {
    let (exponent, mantissa, bias, special) = match element {
        Element::F16 => (5, 10, 15, Special::Ieee),
        Element::BF16 => (8, 7, 127, Special::Ieee),
        Element::F8E4M3FN => (4, 3, 7, Special::AllOnesNan),
        Element::F8E4M3FNUZ => (4, 3, 8, Special::SignNan),
        Element::F8E5M2 => (5, 2, 15, Special::Ieee),
        Element::F8E5M2FNUZ => (5, 2, 16, Special::SignNan),
        Element::F6E2M3 => (2, 3, 1, Special::Finite),
        Element::F6E3M2 => (3, 2, 3, Special::Finite),
        Element::F4E2M1 => (2, 1, 1, Special::Finite),
        _ => return None,
    };
    Some(Format {
        exponent,
        mantissa,
        bias,
        special,
    })
}

fn pow2(e: i32) -> f64 {
    2f64.powi(e)
}

impl Format {
    fn sign_bit(self) -> u16 {
        1 << (self.exponent + self.mantissa)
    }

    /// The largest finite code, without sign.
    fn max_code(self) -> u16 {
        let all = self.sign_bit() - 1;
        match self.special {
            Special::Ieee => (((1 << self.exponent) - 1) << self.mantissa) - 1,
            Special::AllOnesNan => all - 1,
            Special::SignNan | Special::Finite => all,
        }
    }

    fn nan(self) -> Option<u16> {
        let all = self.sign_bit() - 1;
        match self.special {
            Special::Ieee => Some((((1 << self.exponent) - 1) << self.mantissa) | 1 << (self.mantissa - 1)),
            Special::AllOnesNan => Some(all),
            Special::SignNan => Some(self.sign_bit()),
            Special::Finite => None,
        }
    }

    fn decode(self, code: u16) -> f64 {
        let negative = code & self.sign_bit() != 0;
        let magnitude = code & (self.sign_bit() - 1);
        let exponent = i32::from(magnitude >> self.mantissa);
        let fraction = magnitude & ((1 << self.mantissa) - 1);
        let value = match self.special {
            Special::Ieee if exponent == (1 << self.exponent) - 1 => {
                if fraction == 0 {
                    f64::INFINITY
                } else {
                    f64::NAN
                }
            }
            Special::AllOnesNan if magnitude == self.sign_bit() - 1 => f64::NAN,
            Special::SignNan if code == self.sign_bit() => return f64::NAN,
            _ => {
                let mantissa_bits = self.mantissa as i32;
                if exponent == 0 {
                    f64::from(fraction) * pow2(1 - self.bias - mantissa_bits)
                } else {
                    f64::from(fraction + (1 << self.mantissa)) * pow2(exponent - self.bias - mantissa_bits)
                }
            }
        };
        if negative { -value } else { value }
    }

    fn encode(self, value: f64, saturate: bool) -> u16 {
        if value.is_nan() {
            // a format without NaN gets its negative zero, as the common software does
            return self.nan().unwrap_or(self.sign_bit());
        }
        let sign = if value.is_sign_negative() {
            self.sign_bit()
        } else {
            0
        };
        let magnitude = value.abs();
        let over = |max: u16| -> u16 {
            if saturate {
                return sign | max;
            }
            match self.special {
                Special::Ieee => sign | (max + 1),
                Special::AllOnesNan => sign | (self.sign_bit() - 1),
                Special::SignNan => self.sign_bit(),
                Special::Finite => sign | max,
            }
        };
        if magnitude.is_infinite() {
            return over(self.max_code());
        }
        let mantissa_bits = self.mantissa as i32;
        let lowest = 1 - self.bias;
        let mut exponent = (((magnitude.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(lowest);
        let mut steps = (magnitude * pow2(mantissa_bits - exponent)).round_ties_even();
        if steps >= pow2(mantissa_bits + 1) {
            steps /= 2.0;
            exponent += 1;
        }
        if exponent + self.bias >= 1 << self.exponent {
            return over(self.max_code());
        }
        let steps = steps as u16;
        let code = if steps < 1 << self.mantissa {
            steps
        } else {
            (((exponent + self.bias) as u16) << self.mantissa) + (steps - (1 << self.mantissa))
        };
        if code > self.max_code() {
            return over(self.max_code());
        }
        if code == 0 && self.special == Special::SignNan {
            return 0;
        }
        sign | code
    }
}

/// How a power-of-two scale ([`Element::F8E8M0`]) rounds a value between two powers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleRounding {
    /// To the next power above.
    Up,
    /// To the next power below.
    Down,
    /// To the nearer power.
    Nearest,
}

/// The code of `value` as an exponent-only scale; NaN (255) for what has none.
#[must_use]
pub fn encode_scale(value: f64, saturate: bool, rounding: ScaleRounding) -> u8 {
    if value.is_nan() || value <= 0.0 && (value < 0.0 || !saturate) {
        return if value == 0.0 { 0 } else { 255 };
    }
    if value.is_infinite() {
        return if saturate { 254 } else { 255 };
    }
    if value < pow2(-127) {
        return 0;
    }
    let mut exponent = ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let power = pow2(exponent);
    let up = match rounding {
        ScaleRounding::Up => value > power,
        ScaleRounding::Down => false,
        ScaleRounding::Nearest => value >= 1.5 * power,
    };
    if up {
        exponent += 1;
    }
    if exponent > 127 {
        return if saturate { 254 } else { 255 };
    }
    (exponent + 127) as u8
}

/// The value of `code` in a float format of 16 bits or fewer, or of a sub-byte integer.
///
/// # Panics
/// If `element` is wider than 16 bits: a caller's mistake.
#[must_use]
pub fn decode(element: Element, code: u16) -> f64 {
    match (format(element), element.int_bits()) {
        (Some(format), _) => format.decode(code),
        (None, Some((bits, _))) if bits < 8 => decode_int(element, code as u8) as f64,
        _ if element == Element::F8E8M0 => {
            if code == 255 {
                f64::NAN
            } else {
                pow2(i32::from(code) - 127)
            }
        }
        _ => unreachable!("invariant: {element:?} is a small format"),
    }
}

/// The code of `value` in a float format of 16 bits or fewer, rounded once to nearest even.
///
/// With `saturate`, what is too large becomes the largest finite number; without, it becomes
/// infinity, or NaN where the format has no infinity. Formats of finite numbers only always saturate.
///
/// # Panics
/// If `element` is no float of 16 bits or fewer: a caller's mistake.
#[must_use]
pub fn encode(element: Element, value: f64, saturate: bool) -> u16 {
    match format(element) {
        Some(format) => format.encode(value, saturate),
        None if element == Element::F8E8M0 => {
            u16::from(encode_scale(value, saturate, ScaleRounding::Nearest))
        }
        None => unreachable!("invariant: {element:?} is a small float"),
    }
}

/// The value of a sub-byte integer's code.
#[must_use]
pub fn decode_int(element: Element, code: u8) -> i128 {
    match element.int_bits() {
        Some((bits, true)) if bits < 8 => {
            let shift = 8 - bits;
            i128::from(((code << shift) as i8) >> shift)
        }
        Some((bits, false)) if bits < 8 => i128::from(code & ((1 << bits) - 1)),
        _ => unreachable!("invariant: {element:?} is a sub-byte integer"),
    }
}

/// The code of a sub-byte integer: the low bits of `value`.
#[must_use]
pub fn encode_int(element: Element, value: i128) -> u8 {
    let bits = element.int_bits().map_or(8, |b| b.0);
    (value & ((1 << bits) - 1)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: [Element; 9] = [
        Element::F16,
        Element::BF16,
        Element::F8E4M3FN,
        Element::F8E4M3FNUZ,
        Element::F8E5M2,
        Element::F8E5M2FNUZ,
        Element::F6E2M3,
        Element::F6E3M2,
        Element::F4E2M1,
    ];

    #[test]
    fn every_code_survives_a_round_trip() {
        for element in SMALL {
            let bits = element.bits().expect("small floats have bits");
            for code in 0..=(u16::MAX >> (16 - bits)) {
                let value = decode(element, code);
                let back = encode(element, value, false);
                if value.is_nan() {
                    assert!(decode(element, back).is_nan(), "{element:?} {code:#x}");
                } else {
                    assert_eq!(back, code, "{element:?} {value}");
                }
            }
        }
    }

    #[test]
    fn ties_round_to_even() {
        for element in SMALL {
            let max = format(element).expect("a small float").max_code();
            for code in 0..max {
                let (low, high) = (decode(element, code), decode(element, code + 1));
                let even = if code % 2 == 0 { code } else { code + 1 };
                assert_eq!(
                    encode(element, f64::midpoint(low, high), true),
                    even,
                    "{element:?}"
                );
                let above = f64::midpoint(low, high) + (high - low) * 1e-9;
                assert_eq!(encode(element, above, true), code + 1, "{element:?}");
            }
        }
    }

    #[test]
    fn matches_half() {
        for i in 0..100_000u32 {
            let value = f32::from_bits(i.wrapping_mul(2_654_435_761));
            if value.is_nan() {
                continue;
            }
            assert_eq!(
                encode(Element::F16, f64::from(value), false),
                half::f16::from_f32(value).to_bits()
            );
            assert_eq!(
                encode(Element::BF16, f64::from(value), false),
                half::bf16::from_f32(value).to_bits()
            );
        }
    }

    #[test]
    fn overflow() {
        assert_eq!(encode(Element::F8E4M3FN, 1e9, true), 0x7e);
        assert_eq!(encode(Element::F8E4M3FN, 1e9, false), 0x7f);
        assert_eq!(encode(Element::F8E5M2, f64::INFINITY, true), 0x7b);
        assert_eq!(encode(Element::F8E5M2, f64::NEG_INFINITY, false), 0xfc);
        assert_eq!(encode(Element::F8E4M3FNUZ, -1e9, false), 0x80);
        assert_eq!(encode(Element::F4E2M1, -100.0, false), 0xf);
        assert_eq!(encode_int(Element::I4, -1), 0xf);
        assert_eq!(decode_int(Element::I4, 0xf), -1);
        assert_eq!(decode_int(Element::U2, 0x3), 3);
    }
}
