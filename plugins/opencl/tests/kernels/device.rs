//! The first OpenCL device of this machine, a processor too, that runs one kernel at a time.

use std::sync::Arc;

use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, Device, get_all_devices};
use opencl3::kernel::Kernel as ClKernel;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE};
use opencl3::program::Program;
use opencl3::types::{CL_TRUE, cl_mem};
use polychip_gpu_kernels::{Features, Kernel, Limits};
use polychip_opencl::{ENTRY, Half, translate};

/// An open device.
pub(crate) struct Gpu {
    context: Context,
    queue: CommandQueue,
    /// Name and driver.
    pub(crate) name: String,
    pub(crate) limits: Limits,
}

impl Gpu {
    /// Opens the first device; the error gives the reason if it cannot.
    pub(crate) fn open() -> Result<Arc<Gpu>, String> {
        let said = |error: opencl3::error_codes::ClError| format!("no OpenCL: {error}");
        let id = get_all_devices(CL_DEVICE_TYPE_ALL)
            .map_err(said)?
            .into_iter()
            .next();
        let device = Device::new(id.ok_or("no OpenCL device")?);
        let name = format!(
            "{}, {}",
            device.name().map_err(said)?,
            device.driver_version().map_err(said)?
        );
        let context = Context::from_device(&device).map_err(said)?;
        // SAFETY: the device is the context's.
        let queue =
            unsafe { CommandQueue::create_with_properties(&context, device.id(), 0, 0) }.map_err(said)?;
        let sizes = device.max_work_item_sizes().map_err(said)?;
        Ok(Arc::new(Gpu {
            name,
            limits: Limits {
                invocations: device.max_work_group_size().map_err(said)?.min(1024) as u32,
                workgroup: [sizes[0] as u32, sizes[1] as u32, sizes[2] as u32],
                groups: 65_535,
                shared_bytes: device.local_mem_size().map_err(said)?.min(32 << 10) as u32,
                bindings: 16,
                binding_bytes: 1 << 30,
                subgroup: [4, 128],
                features: Features {
                    f16: true,
                    int64: true,
                    subgroups: false,
                    dot4: true,
                    cooperative: 0,
                },
            },
            context,
            queue,
        }))
    }

    /// Runs a kernel over these bytes and gives all bindings afterwards.
    pub(crate) fn run(&self, kernel: &Kernel, before: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
        let source = translate(&kernel.wgsl, Half::Stored).map_err(|e| format!("{e}\n{}", kernel.wgsl))?;
        let program = Program::create_and_build_from_source(&self.context, &source, "-cl-std=CL1.2")
            .map_err(|log| format!("{log}\n{source}"))?;
        self.launch(kernel, before, &program)
            .map_err(|error| format!("{error}\n{source}"))
    }

    fn launch(
        &self,
        kernel: &Kernel,
        before: &[Vec<u8>],
        program: &Program,
    ) -> opencl3::Result<Vec<Vec<u8>>> {
        let compiled = ClKernel::create(program, ENTRY)?;
        let mut buffers = Vec::new();
        for (binding, bytes) in kernel.bindings.iter().zip(before) {
            // SAFETY: no memory of ours is passed in.
            let mut buffer = unsafe {
                Buffer::<u8>::create(
                    &self.context,
                    CL_MEM_READ_WRITE,
                    binding.bytes as usize,
                    std::ptr::null_mut(),
                )
            }?;
            let mut all = bytes.clone();
            all.resize(binding.bytes as usize, 0);
            // SAFETY: waits until it is written.
            unsafe {
                self.queue
                    .enqueue_write_buffer(&mut buffer, CL_TRUE, 0, &all, &[])
            }?;
            buffers.push(buffer);
        }
        for (index, buffer) in (0u32..).zip(&buffers) {
            let memory: cl_mem = opencl3::memory::ClMem::get(buffer);
            // SAFETY: the kernel has a buffer and an offset per binding.
            unsafe { compiled.set_arg(2 * index, &memory) }?;
            // SAFETY: as above.
            unsafe { compiled.set_arg(2 * index + 1, &0u64) }?;
        }
        let local = kernel.workgroup.map(|n| n as usize);
        let global = [0, 1, 2].map(|axis| local[axis] * kernel.groups[axis] as usize);
        // SAFETY: the buffers are as large as the kernel's bindings.
        unsafe {
            self.queue.enqueue_nd_range_kernel(
                compiled.get(),
                3,
                std::ptr::null(),
                global.as_ptr(),
                local.as_ptr(),
                &[],
            )
        }?;
        let mut after = Vec::new();
        for (buffer, binding) in buffers.iter().zip(&kernel.bindings) {
            let mut bytes = vec![0; binding.bytes as usize];
            // SAFETY: waits until it is read.
            unsafe {
                self.queue
                    .enqueue_read_buffer(buffer, CL_TRUE, 0, &mut bytes, &[])
            }?;
            after.push(bytes);
        }
        Ok(after)
    }
}
