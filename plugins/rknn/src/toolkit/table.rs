//! The table of layers that the toolkit prints while it builds: the target and the cost of each
//! layer.
//!
//! A row follows a prefix that ends with `]`: number, op, type, target, shapes (with blanks),
//! cycles of memory, NPU and both as `a/b/c`, on some chips a share in percent, kilobytes moved,
//! name. Invalid rows are skipped: the text is not a documented format.
//!
//! Invariant: nothing here fails; a log without a table yields no rows.

/// Target of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Npu,
    Cpu,
    Gpu,
}

/// A layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The op after fusion.
    pub(crate) op: String,
    pub(crate) target: Target,
    /// Cycles, the longer of memory and arithmetic; 0 where the toolkit counts none for this op.
    pub(crate) cycles: u64,
    /// Kilobytes read and written.
    pub(crate) kilobytes: u64,
    /// As `Conv:n3`.
    pub(crate) name: String,
}

const DTYPES: [&str; 8] = [
    "FLOAT16", "INT8", "UINT8", "INT16", "FLOAT32", "INT64", "BOOL", "INT32",
];

impl Row {
    /// Whether it is an input or output, which the runtime prepares on the processor.
    fn is_port(&self) -> bool {
        matches!(&*self.op, "InputOperator" | "OutputOperator")
    }

    /// Whether the toolkit puts work of the part on the processor.
    pub(crate) fn is_fallback(&self) -> bool {
        self.target != Target::Npu && !self.is_port()
    }

    /// The one node of the graph that the layer stands for; none for several, or for a layer of the toolkit's own.
    pub(crate) fn node(&self) -> Option<u32> {
        let name = self.name.rsplit(':').next()?;
        name.strip_prefix('n')?.parse().ok()
    }
}

/// The rows of a log.
pub(crate) fn rows(log: &str) -> Vec<Row> {
    log.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<Row> {
    // shapes hold brackets on no release seen; a prefix may hold several
    line.match_indices(']')
        .find_map(|(at, _)| columns(line.get(at + 1..)?))
}

fn columns(text: &str) -> Option<Row> {
    let mut words = text.split_whitespace();
    words.next()?.parse::<u32>().ok()?;
    let op = words.next()?.to_owned();
    if !DTYPES.contains(&words.next()?) {
        return None;
    }
    let target = match words.next()? {
        "NPU" => Target::Npu,
        "CPU" => Target::Cpu,
        "GPU" => Target::Gpu,
        _ => return None,
    };
    let cycles = words.find_map(cycles)?;
    let mut next = words.next()?;
    let share = next.strip_suffix('%');
    if share.is_some_and(|share| share.bytes().all(|byte| byte.is_ascii_digit())) {
        next = words.next()?;
    }
    Some(Row {
        op,
        target,
        cycles,
        kilobytes: next.parse().ok()?,
        name: words.next()?.to_owned(),
    })
}

/// The last of `a/b/c`.
fn cycles(word: &str) -> Option<u64> {
    let mut parts = word.split('/');
    let mut part = || parts.next()?.parse::<u64>().ok();
    let (_, _, both) = (part()?, part()?, part()?);
    parts.next().is_none().then_some(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    // rows of the form noted of release 2.5.0, in words of our own
    const LOG: &str = "\
I RKNN: [10:00:00.000] compiling
D RKNN: [10:00:00.100] ---------------------------------------------------
D RKNN: [10:00:00.100] ID   OpType           DataType Target InputShape   OutputShape   Cycles(DDR/NPU/Total)    RW(KB)       FullName
D RKNN: [10:00:00.100] 0    InputOperator    FLOAT16  CPU    \\            (1,64,112,112)  0/0/0                    0            InputOperator:i0
D RKNN: [10:00:00.100] 1    ConvRelu         INT8     NPU    (1,64,112,112),(64,64,3,3),(64)    (1,64,112,112)  140000/451584/451584     1604         Conv:n0
D RKNN: [10:00:00.100] 2    exNorm           FLOAT16  NPU    (1,128,256),(256),(256) (1,128,256)   0/0/0   33%  128          LayerNormalization:n12
D RKNN: [10:00:00.100] 3    Erf              FLOAT16  CPU    (1,8) (1,8)    0/0/0    1   Erf:n4
D RKNN: [10:00:00.100] 4    Reshape          FLOAT16  NPU    (1,8) (8)    0/0/0    1   Reshape:n5_tp_rs
D RKNN: [10:00:00.100] 5    OutputOperator   FLOAT16  CPU    (8) \\    0/0/0    1   OutputOperator:o0
Unkown op target: 0
";

    #[test]
    fn rows_are_read_with_and_without_a_share() {
        let rows = rows(LOG);
        assert_eq!(rows.len(), 6);
        assert_eq!(
            rows[1],
            Row {
                op: "ConvRelu".into(),
                target: Target::Npu,
                cycles: 451_584,
                kilobytes: 1604,
                name: "Conv:n0".into()
            }
        );
        assert_eq!((rows[2].kilobytes, rows[2].node()), (128, Some(12)));
        assert_eq!(rows[4].node(), None);
        let fallen: Vec<&str> = rows
            .iter()
            .filter(|row| row.is_fallback())
            .map(|row| &*row.op)
            .collect();
        assert_eq!(fallen, ["Erf"]);
    }

    #[test]
    fn invalid_rows_are_skipped() {
        for line in [
            "",
            "]",
            "] 1",
            "] x Conv INT8 NPU (1) 1/2/3 4 n",
            "] 1 Conv INT9 NPU (1) 1/2/3 4 n",
            "] 1 Conv INT8 TPU (1) 1/2/3 4 n",
            "] 1 Conv INT8 NPU (1) 1/2 4 n",
            "] 1 Conv INT8 NPU (1) 1/2/3/4 4 n",
            "] 1 Conv INT8 NPU (1) 1/2/99999999999999999999999 4 n",
            "] 1 Conv INT8 NPU (1) 1/2/3 -4 n",
            "] 1 Conv INT8 NPU (1) 1/2/3 4",
            "é] é",
        ] {
            assert_eq!(rows(line), [], "{line}");
        }
    }
}
