//! The one-dimensional transforms of F(2, 3) and F(4, 3): three taps, two or four results per transform.
//!
//! 1. F(4, 3) evaluates polynomials at 0, ±√½, ±√2 and infinity, F(2, 3) at 0, ±1 and infinity. Points whose
//!    product is 1 keep the constants small: the largest error over 512 channels is 2.2e-6 of the largest result,
//!    against 1.2e-5 with the usual points 0, ±1, ±2, and 1.3e-6 of a direct `f32` sum.
//! 2. `N` is the number of points, 4 or 6; an image is transformed along rows and columns alike.
//!
//! Not here: memory, blocks and threads.

use crate::isa::Simd;

/// √½ and √2: the points of F(4, 3) besides 0 and infinity, with both signs.
const A: f32 = std::f32::consts::FRAC_1_SQRT_2;
const B: f32 = std::f32::consts::SQRT_2;

/// Values of the input at the points.
#[inline(always)]
pub(super) fn input<S: Simd, const N: usize>(s: S, x: [S::F; N]) -> [S::F; N] {
    let mut y = x;
    if N == 4 {
        y[0] = s.sub(x[0], x[2]);
        y[1] = s.add(x[2], x[1]);
        y[2] = s.sub(x[2], x[1]);
        y[3] = s.sub(x[3], x[1]);
    } else {
        // a² = 1/2, b² = 2, a² + b² = 5/2, a² b² = 1
        let (minus, half, sum) = (s.splat(-2.0), s.splat(-0.5), s.splat(-2.5));
        y[0] = s.mul_add(x[2], sum, s.add(x[0], x[4]));
        let (even, odd) = (s.mul_add(x[2], minus, x[4]), s.mul_add(x[1], minus, x[3]));
        y[1] = s.mul_add(odd, s.splat(A), even);
        y[2] = s.mul_add(odd, s.splat(-A), even);
        let (even, odd) = (s.mul_add(x[2], half, x[4]), s.mul_add(x[1], half, x[3]));
        y[3] = s.mul_add(odd, s.splat(B), even);
        y[4] = s.mul_add(odd, s.splat(-B), even);
        y[5] = s.mul_add(x[3], sum, s.add(x[1], x[5]));
    }
    y
}

/// Results from products at the points; the first `N - 2` count.
#[inline(always)]
pub(super) fn output<S: Simd, const N: usize>(s: S, x: [S::F; N]) -> [S::F; N] {
    let mut y = x;
    let (sum, difference) = (s.add(x[1], x[2]), s.sub(x[1], x[2]));
    if N == 4 {
        y[0] = s.add(x[0], sum);
        y[1] = s.add(difference, x[3]);
    } else {
        let (sum_b, difference_b) = (s.add(x[3], x[4]), s.sub(x[3], x[4]));
        y[0] = s.add(s.add(x[0], sum), sum_b);
        y[1] = s.mul_add(difference, s.splat(A), s.mul(difference_b, s.splat(B)));
        y[2] = s.mul_add(sum, s.splat(0.5), s.add(sum_b, sum_b));
        let cubes = s.mul_add(difference_b, s.splat(2.0 * B), x[5]);
        y[3] = s.mul_add(difference, s.splat(0.5 * A), cubes);
    }
    y
}

/// Values of three taps at the points, of which the first `n` are filled.
pub(super) fn taps(n: usize, g: [f64; 3]) -> [f64; 6] {
    let [g0, g1, g2] = g;
    if n == 4 {
        return [g0, (g0 + g1 + g2) / 2.0, (g0 - g1 + g2) / 2.0, g2, 0.0, 0.0];
    }
    let (a, b) = (std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::SQRT_2);
    // over the product of the distances to the other points: 2 a² (a² - b²) = -3/2 and 2 b² (b² - a²) = 6
    let at_a = |p: f64| (g0 + p * g1 + 0.5 * g2) / -1.5;
    let at_b = |p: f64| (g0 + p * g1 + 2.0 * g2) / 6.0;
    [g0, at_a(a), at_a(-a), at_b(b), at_b(-b), g2]
}

/// The three taps from their values at the points: what [`taps`] undoes.
#[inline(always)]
pub(super) fn taps_again<S: Simd, const N: usize>(s: S, u: [S::F; N]) -> [S::F; 3] {
    let difference = s.sub(u[1], u[2]);
    let factor = if N == 4 { 1.0 } else { -1.5 / (2.0 * A) };
    [u[0], s.mul(difference, s.splat(factor)), u[N - 1]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::scalar::Scalar;

    fn close<const N: usize>() {
        let g = [0.3, -0.7, 0.45];
        let x: [f32; N] = std::array::from_fn(|i| ((i * 7) % 5) as f32 * 0.4 - 0.9);
        let u = taps(N, g.map(f64::from));
        let u: [f32; N] = std::array::from_fn(|i| u[i] as f32);
        let v = input::<Scalar, N>(Scalar, x.map(|x| Scalar.splat(x)));
        let products = std::array::from_fn(|i| Scalar.mul(Scalar.splat(u[i]), v[i]));
        let y = output::<Scalar, N>(Scalar, products);
        for i in 0..N - 2 {
            let want = x[i] * g[0] + x[i + 1] * g[1] + x[i + 2] * g[2];
            let [got, ..] = y[i];
            assert!((got - want).abs() < 1e-6, "F({}, 3): {got} is {want}", N - 2);
        }
        let again = taps_again::<Scalar, N>(Scalar, u.map(|u| Scalar.splat(u)));
        for ([again, ..], g) in again.into_iter().zip(g) {
            assert!((again - g).abs() < 1e-6, "F({}, 3): {again} was {g}", N - 2);
        }
    }

    #[test]
    fn transforms_give_a_convolution() {
        close::<4>();
        close::<6>();
    }
}
