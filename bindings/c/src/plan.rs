//! Plans that are made or read before they are compiled.

use polychip::{Plan, Planned, Policy};

use crate::failure::{Failure, Result};
use crate::handle::{Kind, Object, Table};
use crate::model::ModelObject;
use crate::runtime::RuntimeObject;
use crate::status::POLYCHIP_ERROR_BAD_PLAN;

/// A plan of a model, with the graph, devices and costs that it was made from.
pub(crate) struct PlanObject(pub(crate) Planned);

impl PlanObject {
    /// Reads a plan's file, and checks it for this model.
    pub(crate) fn read(
        runtime: &RuntimeObject,
        model: &ModelObject,
        policy: &Policy,
        file: &str,
    ) -> Result<PlanObject> {
        let plan = Plan::from_json(file)
            .map_err(|error| Failure::new(POLYCHIP_ERROR_BAD_PLAN, format!("not a plan: {error}")))?;
        Ok(PlanObject(runtime.runtime.with_plan(&model.0, policy, plan)?))
    }
}

impl Object for PlanObject {
    fn table() -> &'static Table<PlanObject> {
        static TABLE: Table<PlanObject> = Table::new(Kind::Plan);
        &TABLE
    }
}
