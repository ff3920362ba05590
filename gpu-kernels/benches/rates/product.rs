//! Products of a size, their inputs, and a check of some of their values in f64.

use half::f16;
use polychip_gpu_kernels::{
    Epilogue, Gemm, GemmInt8, GemmTile, Generate, Kernel, Limits, Right, Scalar, Values, pack_b,
};

use crate::stopwatch::{Launch, Stopwatch};

/// A product of one size and type, in any tile.
pub(crate) struct Product {
    scalar: Scalar,
    m: u32,
    n: u32,
    k: u32,
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Product {
    pub(crate) fn new(scalar: Scalar, [m, n, k]: [u32; 3]) -> Product {
        let values = |seed, count: u32| -> Vec<f32> {
            let floats = Values::floats(seed, count as usize);
            match scalar {
                Scalar::F16 => floats.iter().map(|&x| f16::from_f32(x).to_f32()).collect(),
                Scalar::I8 => floats.iter().map(|&x| (x * 127.0).round()).collect(),
                _ => floats,
            }
        };
        Product {
            scalar,
            m,
            n,
            k,
            a: values(1, m * k),
            b: values(2, k * n),
        }
    }

    fn float(&self, tile: GemmTile) -> Gemm {
        Gemm {
            batch: Vec::new(),
            m: self.m,
            n: self.n,
            k: self.k,
            transposed_a: false,
            b: Right::Packed,
            scalar: self.scalar,
            epilogue: Epilogue::sum(self.scalar),
            tile,
        }
    }

    fn int8(&self, tile: GemmTile) -> GemmInt8 {
        GemmInt8 {
            batch: Vec::new(),
            m: self.m,
            n: self.n,
            k: self.k,
            a: Scalar::I8,
            a_zero: 0,
            b: Scalar::I8,
            b_zeros: Vec::new(),
            epilogue: Epilogue::sum(Scalar::I32),
            tile,
        }
    }

    pub(crate) fn candidates(&self, limits: &Limits) -> Vec<GemmTile> {
        let any = GemmTile::Sliced {
            across: 1,
            down: 1,
            rows: 1,
            slices: 1,
        };
        match self.scalar {
            Scalar::I8 => self.int8(any).candidates(limits),
            _ => self.float(any).candidates(limits),
        }
    }

    pub(crate) fn kernel(&self, tile: GemmTile, limits: &Limits) -> Result<Kernel, String> {
        match self.scalar {
            Scalar::I8 => self.int8(tile).kernel(limits),
            _ => self.float(tile).kernel(limits),
        }
        .map_err(|error| error.to_string())
    }

    /// Bytes of a and b.
    pub(crate) fn inputs(&self) -> Result<[Vec<u8>; 2], String> {
        let bytes = |values: &[f32]| -> Vec<u8> {
            match self.scalar {
                Scalar::I8 => values.iter().map(|&x| (x as i8) as u8).collect(),
                Scalar::F16 => Values::F16(values.iter().map(|&x| f16::from_f32(x)).collect()).bytes(),
                _ => Values::F32(values.to_vec()).bytes(),
            }
        };
        let b = match self.scalar {
            Scalar::I8 => {
                let any = GemmTile::Sliced {
                    across: 1,
                    down: 1,
                    rows: 1,
                    slices: 1,
                };
                self.int8(any).pack_b(&bytes(&self.b), false)
            }
            scalar => pack_b(
                &bytes(&self.b),
                scalar,
                scalar,
                1,
                self.k as usize,
                self.n as usize,
                false,
            ),
        };
        Ok([bytes(&self.a), b.map_err(|error| error.to_string())?])
    }

    /// Compares values all over the output with sums in f64.
    pub(crate) fn check(&self, watch: &Stopwatch, launch: &Launch) -> Result<(), String> {
        let count = self.m as usize * self.n as usize;
        let bytes = watch.read(launch, 2)?;
        let got = match self.scalar {
            Scalar::I8 => Values::I32(vec![0; count]),
            Scalar::F16 => Values::F16(vec![f16::ZERO; count]),
            _ => Values::F32(vec![0.0; count]),
        }
        .read_alike(&bytes);
        let (n, k) = (self.n as usize, self.k as usize);
        let tolerance = match self.scalar {
            Scalar::I8 => 0.0,
            Scalar::F16 => (k as f64).sqrt() / 500.0,
            _ => (k as f64).sqrt() * 1e-5,
        };
        // a step that is prime to most sizes meets every row and column of a tile
        for at in (0..count).step_by((count / 2003).max(1) | 1) {
            let (row, column) = (at / n, at % n);
            let sum: f64 = (0..k)
                .map(|i| f64::from(self.a[row * k + i]) * f64::from(self.b[i * n + column]))
                .sum();
            let near = (sum - got[at]).abs() <= tolerance;
            if !near {
                return Err(format!("[{row}, {column}] is {}, should be {sum}", got[at]));
            }
        }
        Ok(())
    }

    pub(crate) fn name(&self) -> String {
        format!("gemm/{}x{}x{}/{}", self.m, self.n, self.k, self.scalar.name())
    }

    pub(crate) fn operations(&self) -> f64 {
        2.0 * f64::from(self.m) * f64::from(self.n) * f64::from(self.k)
    }
}
