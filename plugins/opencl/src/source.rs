//! OpenCL C of a kernel: the WGSL of the generators is parsed by naga, and written from naga's form.
//!
//! Invariants:
//! 1. A text that is not wholly understood is an error that names what is not; nothing is left out.
//! 2. The kernel is called [`ENTRY`]. Binding `i` is two arguments: `2 i`, a buffer, and `2 i + 1`, a `ulong`, the
//!    byte of the buffer where the binding starts.
//! 3. Integers wrap, and division by zero gives the dividend, as in WGSL: C leaves both open. An index is not checked.
//! 4. Floats are not contracted: a product is rounded before it is added to unless the text says `fma`.
//!
//! Not here: the generators (`gpu-kernels`), the driver's compiler (`driver`).

mod body;
mod functions;
mod math;
mod types;
mod writer;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use naga::{AddressSpace, Handle, Module, TypeInner};
use polychip_sdk::{Error, Result};

use self::body::Body;
pub use self::writer::Half;
use self::writer::{Writer, is_whole, unknown};

/// Name of the kernel.
pub const ENTRY: &str = "polychip_main";

/// Writes the OpenCL C 1.2 of a kernel.
///
/// # Errors
/// If the text is not WGSL, or uses a construct that this writer does not support.
pub fn translate(wgsl: &str, half: Half) -> Result<String> {
    let module = naga::front::wgsl::Frontend::new_with_options(naga::front::wgsl::Options {
        capabilities: naga::valid::Capabilities::all(),
        ..naga::front::wgsl::Options::new()
    })
    .parse(wgsl)
    .map_err(|error| {
        Error::unsupported(format!(
            "a kernel's text is no WGSL: {}",
            error.emit_to_string(wgsl)
        ))
    })?;
    let info = naga::valid::Validator::new(
        naga::valid::ValidationFlags::all(),
        naga::valid::Capabilities::all(),
    )
    .validate(&module)
    .map_err(|error| {
        Error::unsupported(format!(
            "a kernel's text is not valid: {}",
            error.emit_to_string(wgsl)
        ))
    })?;
    let mut writer = Writer {
        module: &module,
        half,
        declared: Vec::new(),
        functions: BTreeMap::new(),
    };
    writer.module(&info)
}

impl<'a> Writer<'a> {
    fn module(&mut self, info: &'a naga::valid::ModuleInfo) -> Result<String> {
        let module = self.module;
        let [entry] = &module.entry_points[..] else {
            return unknown("a text with more or less than one kernel");
        };
        let tables = self.tables()?;
        let mut text = String::new();
        for (handle, function) in module.functions.iter() {
            let of = &info[handle];
            let mut parameters = Vec::new();
            for (index, argument) in function.arguments.iter().enumerate() {
                let inner = &module.types[argument.ty].inner;
                let ty = self.value(inner)?;
                parameters.push(if is_whole(inner) {
                    format!("const {ty} *a{index}")
                } else {
                    format!("const {ty} a{index}")
                });
            }
            let mut result = "void".to_owned();
            if let Some(of) = &function.result {
                let inner = &module.types[of.ty].inner;
                let ty = self.value(inner)?;
                if is_whole(inner) {
                    parameters.push(format!("{ty} *result"))
                } else {
                    result = ty
                }
            }
            for global in self.used(of) {
                parameters.push(self.parameter(global)?);
            }
            let body = Body::new(self, function, of, info, false).write()?;
            let _ = writeln!(
                text,
                "static {result} f{}({}) {{\n{body}}}\n",
                handle.index(),
                if parameters.is_empty() {
                    "void".to_owned()
                } else {
                    parameters.join(", ")
                }
            );
        }
        let kernel = self.kernel(entry, info)?;
        let mut all = String::from("#pragma OPENCL FP_CONTRACT OFF\n");
        if self.half == Half::Native && kernel_uses_half(module) {
            all.push_str("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n");
        }
        for (_, declaration) in &self.declared {
            all.push_str(declaration);
        }
        for function in self.functions.values() {
            all.push_str(function);
        }
        all.push_str(&tables);
        all.push_str(&text);
        all.push_str(&kernel);
        Ok(all)
    }

    /// Constants that are arrays, which are indexed where they lie.
    fn tables(&mut self) -> Result<String> {
        let module = self.module;
        let mut text = String::new();
        for (handle, constant) in module.constants.iter() {
            let inner = &module.types[constant.ty].inner;
            if matches!(inner, TypeInner::Array { .. }) {
                let ty = self.value(inner)?;
                let value = self.initialiser(constant.init)?;
                let _ = writeln!(text, "__constant {ty} c{} = {value};", handle.index());
            }
        }
        Ok(text)
    }

    fn kernel(&mut self, entry: &'a naga::EntryPoint, info: &'a naga::valid::ModuleInfo) -> Result<String> {
        let module = self.module;
        let mut bindings = BTreeMap::new();
        let mut shared = String::new();
        for (handle, global) in module.global_variables.iter() {
            match (global.space, &global.binding) {
                (AddressSpace::Storage { access }, Some(binding)) if binding.group == 0 => {
                    let constant = if access.contains(naga::StorageAccess::STORE) {
                        ""
                    } else {
                        "const "
                    };
                    bindings.insert(binding.binding, (handle, constant));
                }
                (AddressSpace::WorkGroup, None) => {
                    let ty = self.memory(&module.types[global.ty].inner)?;
                    let _ = writeln!(shared, "    __local {ty} {};", self.global(handle));
                }
                (space, _) => return unknown(format_args!("a variable in the space {space:?}")),
            }
        }
        let mut parameters = Vec::new();
        let mut pointers = String::new();
        for (index, (&binding, &(handle, constant))) in (0u32..).zip(&bindings) {
            if binding != index {
                return unknown(format_args!("bindings that leave out {index}"));
            }
            parameters.push(format!("__global {constant}uchar *b{index}, ulong o{index}"));
            let element = self.element(handle)?;
            let _ = writeln!(
                pointers,
                "    {constant}__global {element} *{name} = ({constant}__global {element} *)(b{index} + o{index});",
                name = self.global(handle),
            );
        }
        let mut arguments = String::new();
        for (index, argument) in entry.function.arguments.iter().enumerate() {
            let ty = self.value(&module.types[argument.ty].inner)?;
            let three = |what: &str| format!("(uint3)((uint){what}(0), (uint){what}(1), (uint){what}(2))");
            let value = match argument.binding {
                Some(naga::Binding::BuiltIn(builtin)) => match builtin {
                    naga::BuiltIn::WorkGroupId => three("get_group_id"),
                    naga::BuiltIn::LocalInvocationId => three("get_local_id"),
                    naga::BuiltIn::GlobalInvocationId => three("get_global_id"),
                    naga::BuiltIn::NumWorkGroups => three("get_num_groups"),
                    naga::BuiltIn::LocalInvocationIndex => {
                        let [x, y, _] = entry.workgroup_size;
                        format!(
                            "(uint)get_local_id(0) + {x}u * ((uint)get_local_id(1) + {y}u * (uint)get_local_id(2))"
                        )
                    }
                    other => return unknown(format_args!("the kernel's argument {other:?}")),
                },
                _ => return unknown("an argument of the kernel that no driver gives"),
            };
            let _ = writeln!(arguments, "    const {ty} a{index} = {value};");
        }
        let body = Body::new(self, &entry.function, info.get_entry_point(0), info, true).write()?;
        let [x, y, z] = entry.workgroup_size;
        Ok(format!(
            "__kernel __attribute__((reqd_work_group_size({x}, {y}, {z})))\nvoid {ENTRY}({}) {{\n{shared}{pointers}{arguments}{body}}}\n",
            parameters.join(", ")
        ))
    }

    /// Variables that a function or what it calls touches, in order.
    fn used(&self, info: &naga::valid::FunctionInfo) -> Vec<Handle<naga::GlobalVariable>> {
        let all = self.module.global_variables.iter();
        all.map(|(handle, _)| handle)
            .filter(|&handle| !info[handle].is_empty())
            .collect()
    }

    /// Name of a variable of the kernel: a pointer to elements for a binding, the memory itself for the workgroup's.
    fn global(&self, handle: Handle<naga::GlobalVariable>) -> String {
        let name = self.module.global_variables[handle]
            .name
            .as_deref()
            .unwrap_or("g");
        format!("{name}_g{}", handle.index())
    }

    /// Text of the type of a binding's elements in memory.
    fn element(&mut self, handle: Handle<naga::GlobalVariable>) -> Result<String> {
        let module = self.module;
        match &module.types[module.global_variables[handle].ty].inner {
            TypeInner::Array {
                base,
                size: naga::ArraySize::Dynamic,
                ..
            } => self.memory(&module.types[*base].inner),
            _ => unknown("a binding that is no array"),
        }
    }

    /// How a function is given a variable of the kernel.
    fn parameter(&mut self, handle: Handle<naga::GlobalVariable>) -> Result<String> {
        let global = &self.module.global_variables[handle];
        let name = self.global(handle);
        match global.space {
            AddressSpace::Storage { access } => {
                let element = self.element(handle)?;
                let constant = if access.contains(naga::StorageAccess::STORE) {
                    ""
                } else {
                    "const "
                };
                Ok(format!("{constant}__global {element} *{name}"))
            }
            _ => {
                let ty = self.memory(&self.module.types[global.ty].inner)?;
                Ok(format!("__local {ty} *{name}"))
            }
        }
    }

    /// A function of ours: its text is made where it is first called.
    fn function(&mut self, name: &str, text: impl FnOnce() -> String) {
        if !self.functions.contains_key(name) {
            self.functions.insert(name.to_owned(), text());
        }
    }
}

/// Whether any type of the text is made of 16-bit floats.
fn kernel_uses_half(module: &Module) -> bool {
    module.types.iter().any(|(_, ty)| {
        ty.inner
            .scalar()
            .is_some_and(|scalar| scalar == naga::Scalar::F16)
    })
}

#[cfg(test)]
mod tests;
