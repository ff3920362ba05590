//! Sums and maxima over the threads of a team: through subgroups where the device has them in one size, else through
//! the memory of the workgroup.
//!
//! Invariant: all threads of the workgroup reach the statements.

use std::fmt::Write as _;

use crate::{Limits, WgslBuilder};

/// How two values become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combine {
    Sum,
    Max,
}

impl Combine {
    fn two(self, a: &str, b: &str) -> String {
        match self {
            Combine::Sum => format!("({a} + {b})"),
            Combine::Max => format!("max({a}, {b})"),
        }
    }

    fn of_subgroup(self) -> &'static str {
        match self {
            Combine::Sum => "subgroupAdd",
            Combine::Max => "subgroupMax",
        }
    }
}

/// Teams of neighbouring threads of a workgroup.
pub(crate) struct Reduction<'a> {
    /// Threads of the workgroup.
    pub(crate) threads: u32,
    /// Threads of a team, a power of two.
    pub(crate) lanes: u32,
    /// Limits of the device.
    pub(crate) limits: &'a Limits,
}

impl Reduction<'_> {
    /// Threads of a subgroup, if each team is whole subgroups.
    fn subgroup(&self) -> Option<u32> {
        let [least, most] = self.limits.subgroup;
        let whole = self.limits.features.subgroups
            && least == most
            && least > 1
            && self.lanes.is_multiple_of(least)
            && self.threads.is_multiple_of(self.lanes);
        whole.then_some(least)
    }

    /// Declares the memory `partial` for so many values at once.
    pub(crate) fn declare(&self, text: &mut WgslBuilder, values: u32) {
        let Reduction { threads, lanes, .. } = *self;
        match self.subgroup() {
            Some(size) => {
                text.needs(|needs| needs.subgroups = true);
                if lanes > size {
                    text.shared("partial", "f32", 4, threads / size * values);
                }
            }
            None => {
                text.shared("partial", "f32", 4, threads * values);
            }
        }
    }

    /// Statements behind which these variables (`f32`) are the sums of a team's, in its first thread at least.
    pub(crate) fn sums(&self, variables: &[&str]) -> String {
        self.combine(variables, Combine::Sum, false)
    }

    /// Statements behind which all threads of a team have the sum or the maximum of this variable (`f32`). The
    /// memory may be used again only behind another barrier.
    pub(crate) fn all(&self, variable: &str, how: Combine) -> String {
        self.combine(&[variable], how, true)
    }

    fn combine(&self, variables: &[&str], how: Combine, in_all: bool) -> String {
        let Reduction { threads, lanes, .. } = *self;
        let mut body = String::new();
        if let Some(size) = self.subgroup() {
            for variable in variables {
                let _ = writeln!(body, "    {variable} = {}({variable});", how.of_subgroup());
            }
            if lanes == size {
                // callers count on a barrier
                return if in_all {
                    body + "    workgroupBarrier();\n"
                } else {
                    body
                };
            }
            let each = threads / size;
            let _ = writeln!(body, "    if lane == 0u {{");
            for (index, variable) in (0u32..).zip(variables) {
                let _ = writeln!(
                    body,
                    "        partial[{}u + thread / {size}u] = {variable};",
                    index * each
                );
            }
            body += "    }\n    workgroupBarrier();\n";
            let of_team = lanes / size;
            for (index, variable) in (0u32..).zip(variables) {
                let part =
                    |i: u32| format!("partial[{}u + thread / {lanes}u * {of_team}u]", index * each + i);
                let whole = (1..of_team).fold(part(0), |whole, i| how.two(&whole, &part(i)));
                let _ = writeln!(body, "    {variable} = {whole};");
            }
            return body;
        }
        for (index, variable) in (0u32..).zip(variables) {
            let _ = writeln!(body, "    partial[{}u + thread] = {variable};", index * threads);
        }
        let _ = writeln!(
            body,
            "    workgroupBarrier();
    for (var half = {}u; half > 0u; half >>= 1u) {{
        if thread % {lanes}u < half {{",
            lanes / 2
        );
        for index in 0..variables.len() as u32 {
            let at = format!("partial[{}u + thread]", index * threads);
            let other = format!("partial[{}u + thread + half]", index * threads);
            let _ = writeln!(body, "            {at} = {};", how.two(&at, &other));
        }
        body += "        }\n        workgroupBarrier();\n    }\n";
        for (index, variable) in (0u32..).zip(variables) {
            let _ = writeln!(
                body,
                "    {variable} = partial[{}u + thread / {lanes}u * {lanes}u];",
                index * threads
            );
        }
        body
    }
}
