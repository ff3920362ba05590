//! The body of a function: its expressions and its statements.
//!
//! Invariants:
//! 1. What memory holds is read where the text says so, into a constant of its own.
//! 2. An expression that is used more than once, or is deep, is computed once, into a constant named `e` and its
//!    number.
//!
//! Not here: functions of numbers (`math`).

mod expression;
mod statement;

use naga::{AddressSpace, Block, Expression, Function, Handle, Statement, TypeInner};
use polychip_sdk::Result;

use super::types::Shape;
use super::writer::{Writer, unknown};

/// Deepest nesting that is written in one expression: compilers refuse some hundreds.
const DEEP: u32 = 24;

/// A function being written.
pub(super) struct Body<'w, 'a> {
    writer: &'w mut Writer<'a>,
    function: &'a Function,
    info: &'a naga::valid::FunctionInfo,
    /// Of the whole text.
    all: &'a naga::valid::ModuleInfo,
    /// Whether it is the kernel itself, which holds the variables of the workgroup.
    is_kernel: bool,
    /// Which expressions are constants by now.
    baked: Vec<bool>,
    text: String,
    indent: usize,
    /// What goes before a `continue`, of each loop around: its last block.
    continuing: Vec<&'a Block>,
}

/// An expression that can be assigned to.
struct LValue {
    /// Text that may stand on the left of an assignment.
    text: String,
    space: &'static str,
    /// Whether it is the start of a binding, which is a pointer already.
    is_binding: bool,
    /// Element of a vector of 16-bit floats that are only stored, whose address C does not give by name.
    is_memory: bool,
}

impl<'w, 'a> Body<'w, 'a> {
    pub(super) fn new(
        writer: &'w mut Writer<'a>,
        function: &'a Function,
        info: &'a naga::valid::FunctionInfo,
        all: &'a naga::valid::ModuleInfo,
        is_kernel: bool,
    ) -> Body<'w, 'a> {
        Body {
            writer,
            function,
            info,
            all,
            is_kernel,
            baked: vec![false; function.expressions.len()],
            text: String::new(),
            indent: 1,
            continuing: Vec::new(),
        }
    }

    /// Writes it.
    pub(super) fn write(mut self) -> Result<String> {
        for (handle, local) in self.function.local_variables.iter() {
            let inner = &self.writer.module.types[local.ty].inner;
            let ty = self.writer.value(inner)?;
            let value = match local.init {
                Some(init) => self.expression(init)?.0,
                None => self.writer.zero(inner)?,
            };
            let name = self.local(handle);
            self.line(format_args!("{ty} {name} = {value};"));
        }
        let body = &self.function.body;
        let end = match body.last() {
            Some(Statement::Return { value: None }) => body.len() - 1,
            _ => body.len(),
        };
        let statements: Vec<&Statement> = body.iter().collect();
        for statement in &statements[..end] {
            self.statement(statement)?;
        }
        // pocl 3.1 computes wrong where a kernel may end before a barrier and has none at its end; who comes
        // here comes with the whole workgroup, where no thread could leave after the last barrier
        let last = statements
            .iter()
            .rposition(|statement| has(statement, is_barrier));
        if self.is_kernel
            && let Some(last) = last
            && statements[..last]
                .iter()
                .any(|statement| has(statement, is_return))
            && !statements[last..end]
                .iter()
                .any(|statement| has(statement, is_return))
        {
            self.line(format_args!("barrier(CLK_LOCAL_MEM_FENCE);"));
        }
        for statement in &statements[end..] {
            self.statement(statement)?;
        }
        Ok(self.text)
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        use std::fmt::Write as _;
        let _ = writeln!(self.text, "{:indent$}{text}", "", indent = 4 * self.indent);
    }

    fn inner(&self, expression: Handle<Expression>) -> &'a TypeInner {
        let module = self.writer.module;
        self.info[expression].ty.inner_with(&module.types)
    }

    /// Scalar or vector that an expression is, or points to.
    fn shape(&self, expression: Handle<Expression>) -> Result<Shape> {
        let inner = self.inner(expression);
        let pointee = match *inner {
            TypeInner::Pointer { base, .. } => &self.writer.module.types[base].inner,
            _ => inner,
        };
        match Shape::of(pointee) {
            Some(shape) => Ok(shape),
            None => unknown(format_args!("{pointee:?} as a number")),
        }
    }

    fn local(&self, handle: Handle<naga::LocalVariable>) -> String {
        let name = self.function.local_variables[handle]
            .name
            .as_deref()
            .unwrap_or("v");
        format!("{name}_v{}", handle.index())
    }
}

fn is_barrier(statement: &Statement) -> bool {
    matches!(statement, Statement::ControlBarrier(_))
}

fn is_return(statement: &Statement) -> bool {
    matches!(statement, Statement::Return { .. })
}

/// Whether a statement, or one inside it, is of a kind.
fn has(statement: &Statement, kind: fn(&Statement) -> bool) -> bool {
    let any = |block: &Block| block.iter().any(|statement| has(statement, kind));
    kind(statement)
        || match statement {
            Statement::Block(block) => any(block),
            Statement::If { accept, reject, .. } => any(accept) || any(reject),
            Statement::Loop { body, continuing, .. } => any(body) || any(continuing),
            Statement::Switch { cases, .. } => cases.iter().any(|case| any(&case.body)),
            _ => false,
        }
}

/// Word of OpenCL C for a space.
fn space(of: AddressSpace) -> Result<&'static str> {
    match of {
        AddressSpace::Storage { .. } => Ok("__global"),
        AddressSpace::WorkGroup => Ok("__local"),
        AddressSpace::Function => Ok("__private"),
        other => unknown(format_args!("memory in the space {other:?}")),
    }
}
