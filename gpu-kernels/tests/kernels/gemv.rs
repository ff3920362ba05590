//! Products of a few rows with weights in blocks: every layout, with normalised rows and gates, in teams of all sizes.

use std::sync::Arc;

use libtest_mimic::Trial;
use polychip_gpu_kernels::{
    Access, Binary, Broadcast, Epilogue, EpilogueOperand, ExpandBlocks, Expression, Gemv, Quants, RmsScale,
    Scalar, Teams, Unary,
};

use crate::{device::Gpu, judge::trial};

fn teams(lanes: u32, teams: u32, columns: u32) -> Teams {
    Teams {
        lanes,
        teams,
        columns,
    }
}

/// sum + residual
fn residual(scalar: Scalar) -> Epilogue {
    Epilogue {
        expression: Expression::Operand(0).binary(Binary::Add, Expression::Operand(1)),
        operands: vec![EpilogueOperand {
            scalar,
            broadcast: Broadcast::Same,
            access: Access::Read,
        }],
        output: scalar,
        columns: None,
    }
}

pub(crate) fn trials(gpu: &Result<Arc<Gpu>, String>) -> Vec<Trial> {
    let norm = RmsScale {
        epsilon: 1e-5,
        access: Access::Constant,
    };
    let gate = Expression::Operand(0)
        .unary(Unary::Silu)
        .binary(Binary::Mul, Expression::Operand(1));
    let mut trials = Vec::new();
    for quants in Quants::ALL {
        for (n, k, output) in [(5, 512, Scalar::F32), (33, 256, Scalar::F16)] {
            let generator = ExpandBlocks { n, k, quants, output };
            let name = format!("expand/{}/{}/{n}x{k}", quants.name(), output.name());
            trials.push(trial(gpu, name, generator));
        }
        for (m, n, k, way) in [
            (1, 64, 512, teams(32, 4, 1)),
            (1, 37, 768, teams(32, 4, 2)),
            (1, 12, 2304, teams(128, 1, 4)),
            (1, 20, 256, teams(64, 2, 2)),
            (3, 22, 768, teams(32, 4, 1)),
            (8, 8, 512, teams(32, 4, 1)),
        ] {
            for (scalar, normed, gated) in [
                (Scalar::F32, false, false),
                (Scalar::F32, true, false),
                (Scalar::F32, true, true),
                (Scalar::F16, true, true),
                (Scalar::F16, false, false),
            ] {
                let generator = Gemv {
                    m,
                    n,
                    k,
                    quants,
                    scalar,
                    norm: normed.then_some(norm),
                    gate: gated.then(|| gate.clone()),
                    epilogue: if gated {
                        Epilogue::sum(scalar)
                    } else {
                        residual(scalar)
                    },
                    teams: way,
                };
                let name = format!(
                    "gemv/{}/{}/{m}x{n}x{k}/{}x{}x{}/{normed}/{gated}",
                    quants.name(),
                    scalar.name(),
                    way.lanes,
                    way.teams,
                    way.columns
                );
                trials.push(trial(gpu, name, generator));
            }
        }
    }
    trials
}
