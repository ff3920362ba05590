//! Bind groups: made at load for what lies in the arena and the constants, and once per set of bound memory for
//! what lies in ports.
//!
//! Invariant: at most [`KEPT`] sets are kept, those used last; none outlives its buffers.

use super::run::Bound;
use super::{GpuExecutable, lock};
use crate::driver::gpu::Gpu;
use crate::program::{Home, Step};

/// Sets kept per part and lane.
const KEPT: usize = 32;

/// What the steps over ports bind, for one set of bound memory.
struct Set {
    /// Number and offset of each port's buffer.
    key: Vec<(u64, u64)>,
    groups: Vec<wgpu::BindGroup>,
    used: u64,
}

/// Sets of one part and lane.
#[derive(Default)]
pub(super) struct Sets {
    sets: Vec<Set>,
    clock: u64,
}

impl Sets {
    /// Drops what names a buffer.
    pub(super) fn forget(&mut self, buffer: u64) {
        self.sets
            .retain(|set| set.key.iter().all(|(number, _)| *number != buffer));
    }
}

impl GpuExecutable {
    /// What one step binds.
    pub(super) fn bind(
        &self,
        lane: usize,
        step: &Step,
        layout: &wgpu::BindGroupLayout,
        bound: &[Bound],
    ) -> wgpu::BindGroup {
        let kernel = &self.program.kernels[step.kernel as usize];
        let entries: Vec<wgpu::BindGroupEntry<'_>> = (0u32..)
            .zip(&kernel.bindings)
            .zip(&step.operands)
            .map(|((binding, of), &operand)| {
                let (buffer, offset) = match self.program.values[operand as usize].home {
                    Home::Arena(at) => (&self.arena.lanes[lane], at),
                    Home::Constants(at) => (&self.constants.lanes[lane], at),
                    Home::Port(port) => {
                        let bound = &bound[port as usize];
                        (&bound.piece().lanes[lane], bound.offset())
                    }
                };
                wgpu::BindGroupEntry {
                    binding,
                    resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                        buffer,
                        offset,
                        size: wgpu::BufferSize::new(of.bytes),
                    }),
                }
            })
            .collect();
        self.gpu.lanes[lane]
            .device
            .create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout,
                entries: &entries,
            })
    }

    /// Records all launches.
    pub(super) fn encode(
        &self,
        lane: usize,
        pass: &mut wgpu::ComputePass<'_>,
        bound: &[Bound],
    ) -> polychip_sdk::Result<()> {
        let prepared = &self.lanes[lane];
        let mut sets = lock(&prepared.sets);
        sets.clock += 1;
        let clock = sets.clock;
        let known = sets.sets.iter().position(|set| {
            set.key.len() == bound.len()
                && set
                    .key
                    .iter()
                    .zip(bound)
                    .all(|(key, bound)| *key == (bound.number(), bound.offset()))
        });
        let at = match known {
            Some(at) => at,
            None => {
                let groups = Gpu::caught(&self.gpu.lanes[lane], || {
                    let steps = self.program.steps.iter().zip(&prepared.fixed);
                    steps
                        .filter(|(_, fixed)| fixed.is_none())
                        .map(|(step, _)| {
                            let layout = &prepared.pipelines[step.kernel as usize].layout;
                            self.bind(lane, step, layout, bound)
                        })
                        .collect()
                })?;
                if sets.sets.len() >= KEPT {
                    let oldest = (0..sets.sets.len()).min_by_key(|&at| sets.sets[at].used);
                    sets.sets.swap_remove(oldest.unwrap_or(0));
                }
                sets.sets.push(Set {
                    key: bound
                        .iter()
                        .map(|bound| (bound.number(), bound.offset()))
                        .collect(),
                    groups,
                    used: clock,
                });
                sets.sets.len() - 1
            }
        };
        let set = &mut sets.sets[at];
        set.used = clock;
        let mut of_ports = set.groups.iter();
        let mut current = None;
        for (step, fixed) in self.program.steps.iter().zip(&prepared.fixed) {
            if current != Some(step.kernel) {
                pass.set_pipeline(&prepared.pipelines[step.kernel as usize].pipeline);
                current = Some(step.kernel);
            }
            let group = match fixed {
                Some(group) => group,
                None => of_ports
                    .next()
                    .expect("invariant: a set has a group per step over ports"),
            };
            pass.set_bind_group(0, group, &[]);
            let [x, y, z] = self.program.kernels[step.kernel as usize].groups;
            pass.dispatch_workgroups(x, y, z);
        }
        Ok(())
    }
}
