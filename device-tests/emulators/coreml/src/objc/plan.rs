//! `MLComputePlan`: which unit computes each operation, and its share of the whole.

#![allow(unsafe_code)]

use std::path::PathBuf;
use std::sync::Arc;

use super::classes::{Methods, Sel, Unit, class, methods};
use super::foundation::{failure, list, text};
use super::model;
use super::object::{Body, Held, Id, Intended, Object, Plan};
use crate::program::{Ready, Stated};
use crate::world;

pub(super) fn table() -> Vec<(&'static str, Methods, Methods)> {
    vec![
        (
            "MLComputePlan",
            methods!["loadContentsOfURL:configuration:completionHandler:" = load],
            methods![
                "modelStructure" = structure,
                "computeDeviceUsageForMLProgramOperation:" = usage,
                "estimatedCostOfMLProgramOperation:" = cost,
            ],
        ),
        ("MLModelStructure", methods![], methods!["program" = program]),
        (
            "MLModelStructureProgram",
            methods![],
            methods!["functions" = functions],
        ),
        (
            "MLModelStructureProgramFunction",
            methods![],
            methods!["block" = block],
        ),
        (
            "MLModelStructureProgramBlock",
            methods![],
            methods!["operations" = operations],
        ),
        (
            "MLModelStructureProgramOperation",
            methods![],
            methods!["operatorName" = operator_name, "outputs" = outputs],
        ),
        (
            "MLModelStructureProgramNamedValueType",
            methods![],
            methods!["name" = name],
        ),
        (
            "MLComputePlanDeviceUsage",
            methods![],
            methods![
                "preferredComputeDevice" = preferred,
                "supportedComputeDevices" = supported
            ],
        ),
        ("MLComputePlanCost", methods![], methods!["weight" = weight]),
    ]
}

/// A block that takes an object and an error, as clients lay it out.
#[repr(C)]
struct Handler {
    isa: *const u8,
    flags: i32,
    reserved: i32,
    invoke: unsafe extern "C" fn(*mut Handler, Id, Id),
    descriptor: *const [usize; 2],
}

/// A copy of a client's block.
struct Copied(Box<[u64]>);

// SAFETY: a block's bytes; the thread that calls the block owns them.
unsafe impl Send for Copied {}

impl Copied {
    /// # Safety
    /// `block` is a block.
    unsafe fn of(block: *const Handler) -> Copied {
        // SAFETY: the caller vouches for it; the second word of a descriptor is the block's size.
        let size = unsafe { (*(*block).descriptor)[1] };
        let mut bytes = vec![0u64; size.div_ceil(8)].into_boxed_slice();
        // SAFETY: as many bytes are there.
        unsafe { std::ptr::copy_nonoverlapping(block.cast::<u8>(), bytes.as_mut_ptr().cast(), size) };
        Copied(bytes)
    }

    fn call(mut self, object: Id, error: Id) {
        let block: *mut Handler = self.0.as_mut_ptr().cast();
        // SAFETY: a copy of a block, which takes these.
        let invoke = unsafe { (*block).invoke };
        // SAFETY: as above.
        unsafe { invoke(block, object, error) };
    }
}

unsafe extern "C" fn load(_: Id, _: Sel, address: Id, configuration: Id, handler: *const Handler) {
    // SAFETY: the client gives a file's address and a configuration.
    let (folder, units): (PathBuf, isize) = unsafe { (model::path_of(address), model::units(configuration)) };
    // SAFETY: the client gives a block.
    let block = unsafe { Copied::of(handler) };
    let unit = match units {
        1 => Unit::Gpu,
        3 => Unit::Ane,
        _ => Unit::Processor,
    };
    // on a thread of its own, as the system does
    std::thread::spawn(move || {
        let made = model::open(&folder);
        match made {
            Ok(ready) => {
                let ready = Arc::new(ready);
                let plan = Object::with(class("MLComputePlan"), Body::Plan(Plan { ready, unit }));
                block.call(plan.id(), std::ptr::null_mut());
            }
            Err(why) => {
                let error = failure(3, why);
                block.call(std::ptr::null_mut(), error.id());
            }
        }
    });
}

/// The program that an object of the structure represents.
unsafe fn ready<'a>(this: Id) -> Option<&'a Arc<Ready>> {
    // SAFETY: the receiver is a live object.
    match unsafe { (*this).body() }? {
        Body::Plan(plan) => Some(&plan.ready),
        Body::Structure(ready) => Some(ready),
        _ => None,
    }
}

/// The same program behind another class.
unsafe fn as_class(this: Id, name: &'static str) -> Option<Held> {
    // SAFETY: the receiver is a live object.
    let ready = unsafe { ready(this) }?;
    Some(Object::with(class(name), Body::Structure(Arc::clone(ready))))
}

fn given(held: Option<Held>) -> Id {
    held.map_or(std::ptr::null_mut(), Held::autorelease)
}

unsafe extern "C" fn structure(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    given(unsafe { as_class(this, "MLModelStructure") })
}

unsafe extern "C" fn program(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    given(unsafe { as_class(this, "MLModelStructureProgram") })
}

unsafe extern "C" fn functions(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    let main = unsafe { as_class(this, "MLModelStructureProgramFunction") };
    let pairs = main.into_iter().map(|main| ("main".to_owned(), main)).collect();
    Object::with(class("NSDictionary"), Body::Dictionary(pairs)).autorelease()
}

unsafe extern "C" fn block(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    given(unsafe { as_class(this, "MLModelStructureProgramBlock") })
}

unsafe extern "C" fn operations(this: Id, _: Sel) -> Id {
    let operation = |stated: &Stated| {
        let body = Body::Operation {
            name: stated.op.clone(),
            output: stated.output.clone(),
        };
        Object::with(class("MLModelStructureProgramOperation"), body)
    };
    // SAFETY: the receiver is a live object.
    let ready = unsafe { ready(this) };
    let operations = ready.map(|ready| ready.operations.iter().map(operation).collect());
    list(operations.unwrap_or_default()).autorelease()
}

/// Op and first output of an operation.
unsafe fn named<'a>(this: Id) -> Option<(&'a str, &'a str)> {
    if this.is_null() {
        return None;
    }
    // SAFETY: a live object.
    match unsafe { (*this).body() }? {
        Body::Operation { name, output } => Some((name, output)),
        _ => None,
    }
}

unsafe extern "C" fn operator_name(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    given(unsafe { named(this) }.map(|(name, _)| text(name)))
}

unsafe extern "C" fn outputs(this: Id, _: Sel) -> Id {
    let value = |(_, output): (&str, &str)| {
        let body = Body::Named(output.to_owned());
        Object::with(class("MLModelStructureProgramNamedValueType"), body)
    };
    // SAFETY: the receiver is a live object.
    let value = unsafe { named(this) }.map(value);
    list(value.into_iter().collect()).autorelease()
}

unsafe extern "C" fn name(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    match unsafe { (*this).body() } {
        Some(Body::Named(name)) => text(name).autorelease(),
        _ => std::ptr::null_mut(),
    }
}

/// The plan, and its entry for an operation.
unsafe fn stated<'a>(this: Id, operation: Id) -> Option<(&'a Plan, &'a Stated)> {
    // SAFETY: receiver and operation are live objects.
    let (body, (_, output)) = unsafe { ((*this).body()?, named(operation)?) };
    let Body::Plan(plan) = body else { return None };
    let stated = plan
        .ready
        .operations
        .iter()
        .find(|stated| stated.output == output)?;
    Some((plan, stated))
}

unsafe extern "C" fn usage(this: Id, _: Sel, operation: Id) -> Id {
    // SAFETY: receiver and operation are live objects.
    let Some((plan, stated)) = (unsafe { stated(this, operation) }) else {
        return std::ptr::null_mut();
    };
    let refused = world::faults()
        .at("plan", |op| stated.op.strip_prefix("ios17.") == Some(op))
        .is_some();
    let supported = match plan.unit {
        Unit::Processor => false,
        Unit::Gpu => !refused,
        Unit::Ane => !refused && stated.half,
    };
    let body = Body::Usage(Intended {
        unit: plan.unit,
        supported,
    });
    Object::with(class("MLComputePlanDeviceUsage"), body).autorelease()
}

unsafe extern "C" fn cost(this: Id, _: Sel, operation: Id) -> Id {
    // SAFETY: receiver and operation are live objects.
    let stated = unsafe { stated(this, operation) };
    let cost =
        |(_, stated): (&Plan, &Stated)| Object::with(class("MLComputePlanCost"), Body::Cost(stated.weight));
    given(stated.map(cost))
}

unsafe fn intended(this: Id) -> Option<Intended> {
    // SAFETY: the receiver is a live object.
    match unsafe { (*this).body() }? {
        Body::Usage(intended) => Some(*intended),
        _ => None,
    }
}

fn device(unit: Unit) -> Held {
    Object::with(unit.class(), Body::Device)
}

unsafe extern "C" fn preferred(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    let intended = unsafe { intended(this) };
    given(intended.map(|intended| {
        device(if intended.supported {
            intended.unit
        } else {
            Unit::Processor
        })
    }))
}

unsafe extern "C" fn supported(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    let intended = unsafe { intended(this) };
    let mut devices = vec![device(Unit::Processor)];
    devices.extend(
        intended
            .filter(|intended| intended.supported)
            .map(|intended| device(intended.unit)),
    );
    list(devices).autorelease()
}

unsafe extern "C" fn weight(this: Id, _: Sel) -> f64 {
    // SAFETY: the receiver is a live object.
    match unsafe { (*this).body() } {
        Some(Body::Cost(weight)) => *weight,
        _ => 0.0,
    }
}
