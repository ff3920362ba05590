//! Statements.

use naga::{AtomicFunction, Block, Expression, Handle, Statement, SwitchValue, TypeInner};
use polychip_sdk::Result;

use super::super::writer::{is_whole, unknown};
use super::{Body, DEEP};

impl<'a> Body<'_, 'a> {
    pub(super) fn block(&mut self, block: &'a Block) -> Result<()> {
        for statement in block.iter() {
            self.statement(statement)?;
        }
        Ok(())
    }

    /// A block between braces of its own.
    fn nested(&mut self, block: &'a Block) -> Result<()> {
        self.indent += 1;
        // what is computed inside is not seen outside
        let baked = self.baked.clone();
        let result = self.block(block);
        self.baked = baked;
        self.indent -= 1;
        result
    }

    pub(super) fn statement(&mut self, statement: &'a Statement) -> Result<()> {
        match statement {
            Statement::Emit(range) => {
                for handle in range.clone() {
                    self.emit(handle)?;
                }
            }
            Statement::Block(block) => {
                self.line(format_args!("{{"));
                self.nested(block)?;
                self.line(format_args!("}}"));
            }
            Statement::If {
                condition,
                accept,
                reject,
            } => {
                let (condition, _) = self.expression(*condition)?;
                self.line(format_args!("if ({condition}) {{"));
                self.nested(accept)?;
                if !reject.is_empty() {
                    self.line(format_args!("}} else {{"));
                    self.nested(reject)?;
                }
                self.line(format_args!("}}"));
            }
            Statement::Switch { selector, cases } => {
                let (selector, _) = self.expression(*selector)?;
                self.line(format_args!("switch ({selector}) {{"));
                for case in cases {
                    match case.value {
                        SwitchValue::I32(value) => self.line(format_args!("case {value}:")),
                        SwitchValue::U32(value) => self.line(format_args!("case {value}u:")),
                        SwitchValue::Default => self.line(format_args!("default:")),
                    }
                    if case.fall_through && case.body.is_empty() {
                        continue;
                    }
                    self.line(format_args!("{{"));
                    self.nested(&case.body)?;
                    if !case.fall_through && !case.body.last().is_some_and(Statement::is_terminator) {
                        self.line(format_args!("    break;"));
                    }
                    self.line(format_args!("}}"));
                }
                self.line(format_args!("}}"));
            }
            Statement::Loop {
                body,
                continuing,
                break_if,
            } => {
                if break_if.is_some() {
                    return unknown("a loop that ends by `break if`");
                }
                self.line(format_args!("for (;;) {{"));
                self.continuing.push(continuing);
                // the last block sees what the body computed
                self.indent += 1;
                let baked = self.baked.clone();
                self.block(body)?;
                if !body.last().is_some_and(Statement::is_terminator) {
                    self.block(continuing)?;
                }
                self.baked = baked;
                self.indent -= 1;
                self.continuing.pop();
                self.line(format_args!("}}"));
            }
            Statement::Break => self.line(format_args!("break;")),
            Statement::Continue => {
                if let Some(continuing) = self.continuing.last().copied() {
                    self.line(format_args!("{{"));
                    self.nested(continuing)?;
                    self.line(format_args!("}}"));
                }
                self.line(format_args!("continue;"));
            }
            Statement::Return { value: None } => self.line(format_args!("return;")),
            Statement::Return { value: Some(value) } => {
                let whole = is_whole(self.inner(*value));
                let (value, _) = self.expression(*value)?;
                if whole {
                    self.line(format_args!("*result = {value};"));
                    self.line(format_args!("return;"));
                } else {
                    self.line(format_args!("return {value};"));
                }
            }
            Statement::ControlBarrier(barrier) => {
                let mut fences = Vec::new();
                if barrier.contains(naga::Barrier::WORK_GROUP) {
                    fences.push("CLK_LOCAL_MEM_FENCE");
                }
                if barrier.contains(naga::Barrier::STORAGE) {
                    fences.push("CLK_GLOBAL_MEM_FENCE");
                }
                if fences.is_empty() || barrier.contains(naga::Barrier::SUB_GROUP) {
                    return unknown(format_args!("a barrier of {barrier:?}"));
                }
                self.line(format_args!("barrier({});", fences.join(" | ")));
            }
            Statement::Store { pointer, value } => {
                let (value, _) = self.expression(*value)?;
                let text = self.store(*pointer, value)?;
                self.line(format_args!("{text}"));
            }
            Statement::Atomic {
                pointer,
                fun,
                value,
                result,
            } => {
                let name = match fun {
                    AtomicFunction::Add => "atomic_add",
                    AtomicFunction::Subtract => "atomic_sub",
                    AtomicFunction::And => "atomic_and",
                    AtomicFunction::ExclusiveOr => "atomic_xor",
                    AtomicFunction::InclusiveOr => "atomic_or",
                    AtomicFunction::Min => "atomic_min",
                    AtomicFunction::Max => "atomic_max",
                    AtomicFunction::Exchange { compare: None } => "atomic_xchg",
                    AtomicFunction::Exchange { .. } => return unknown("an atomic exchange that compares"),
                };
                let lvalue = self.lvalue(*pointer)?.text;
                let (value, _) = self.expression(*value)?;
                let call = format!("{name}(&{lvalue}, {value})");
                match result {
                    None => self.line(format_args!("{call};")),
                    Some(result) => self.bake(*result, call)?,
                }
            }
            Statement::Call {
                function,
                arguments,
                result,
            } => {
                let mut given = Vec::new();
                for &argument in arguments {
                    let (text, _) = self.expression(argument)?;
                    given.push(if is_whole(self.inner(argument)) {
                        format!("&{text}")
                    } else {
                        text
                    });
                }
                let whole = result.filter(|&result| is_whole(self.inner(result)));
                if let Some(result) = whole {
                    let ty = self.writer.value(self.inner(result))?;
                    self.line(format_args!("{ty} e{};", result.index()));
                    self.baked[result.index()] = true;
                    given.push(format!("&e{}", result.index()));
                }
                // the kernel's variables go along, by address
                for global in self.writer.used(self.callee(*function)) {
                    let name = self.writer.global(global);
                    let space = self.writer.module.global_variables[global].space;
                    let is_binding = matches!(space, naga::AddressSpace::Storage { .. });
                    given.push(if self.is_kernel && !is_binding {
                        format!("&{name}")
                    } else {
                        name
                    });
                }
                let call = format!("f{}({})", function.index(), given.join(", "));
                match result.filter(|_| whole.is_none()) {
                    None => self.line(format_args!("{call};")),
                    Some(result) => self.bake(result, call)?,
                }
            }
            other => return unknown(format_args!("{other:?}")),
        }
        Ok(())
    }

    /// Computes an expression at its place in the text, if it needs a constant.
    fn emit(&mut self, handle: Handle<Expression>) -> Result<()> {
        let inner = self.inner(handle);
        if matches!(inner, TypeInner::Pointer { .. } | TypeInner::ValuePointer { .. }) {
            return Ok(());
        }
        let uses = self.info[handle].ref_count;
        if uses == 0 {
            return Ok(());
        }
        let (text, depth) = self.spelled(handle)?;
        let reads = matches!(self.function.expressions[handle], Expression::Load { .. });
        // these are given away by their address
        let whole = is_whole(inner);
        if uses > 1 || reads || whole || depth > DEEP {
            self.bake(handle, text)?;
        }
        Ok(())
    }

    fn bake(&mut self, handle: Handle<Expression>, text: String) -> Result<()> {
        let ty = self.writer.value(self.inner(handle))?;
        self.line(format_args!("const {ty} e{} = {text};", handle.index()));
        self.baked[handle.index()] = true;
        Ok(())
    }

    /// What is known of a function that is called.
    fn callee(&self, function: Handle<naga::Function>) -> &'a naga::valid::FunctionInfo {
        &self.all[function]
    }
}
