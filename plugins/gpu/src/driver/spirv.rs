//! A kernel's text as the words that Vulkan takes.
//!
//! Invariants:
//! 1. The words are those that wgpu would make of the same text with the same checks left out.
//! 2. Capabilities that the device does not have are not used: products of packed bytes are spelt out without them.
//!
//! Not here: the pipeline made of the words (`vulkan_pipeline`).

use polychip_gpu_kernels::Kernel;
use wgpu::naga;
use wgpu::naga::back::spv;

/// What the device's shaders may use.
#[derive(Debug, Clone)]
pub(super) struct Dialect {
    /// Version of SPIR-V.
    pub(super) version: (u8, u8),
    /// Features of the open device.
    pub(super) features: wgpu::Features,
    /// Whether products of packed bytes are instructions.
    pub(super) dot_products: bool,
    /// Whether integers of 8 bits are types.
    pub(super) bytes: bool,
}

impl Dialect {
    fn capabilities(&self) -> Vec<spv::Capability> {
        use spv::Capability as Has;
        let mut all = vec![Has::Shader, Has::Matrix];
        let has = |feature| self.features.contains(feature);
        if has(wgpu::Features::SUBGROUP) {
            all.extend([
                Has::GroupNonUniform,
                Has::GroupNonUniformVote,
                Has::GroupNonUniformArithmetic,
                Has::GroupNonUniformBallot,
                Has::GroupNonUniformShuffle,
                Has::GroupNonUniformShuffleRelative,
                Has::GroupNonUniformQuad,
            ]);
        }
        if has(wgpu::Features::SHADER_INT64) {
            all.push(Has::Int64);
        }
        if has(wgpu::Features::SHADER_F16) {
            all.push(Has::Float16);
        }
        if has(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
            all.extend([Has::CooperativeMatrixKHR, Has::VulkanMemoryModel]);
        }
        if self.dot_products {
            all.extend([
                Has::DotProductInputAllKHR,
                Has::DotProductInput4x8BitKHR,
                Has::DotProductInput4x8BitPackedKHR,
                Has::DotProductKHR,
            ]);
        }
        if self.bytes {
            all.push(Has::Int8);
        }
        all
    }

    /// The words of a kernel, whose entry is `main` and whose bindings are those of set 0.
    ///
    /// # Errors
    /// What is wrong with the text, with its place.
    pub(super) fn words(&self, kernel: &Kernel) -> Result<Vec<u32>, String> {
        let text = naga::front::wgsl::Options {
            capabilities: naga::valid::Capabilities::all(),
            ..naga::front::wgsl::Options::new()
        };
        let module = naga::front::wgsl::Frontend::new_with_options(text)
            .parse(&kernel.wgsl)
            .map_err(|error| error.emit_to_string(&kernel.wgsl))?;
        let valid = naga::valid::Validator::new(
            naga::valid::ValidationFlags::all(),
            naga::valid::Capabilities::all(),
        )
        .validate(&module)
        .map_err(|error| error.emit_to_string(&kernel.wgsl))?;
        let place = |binding| {
            let of = naga::ResourceBinding { group: 0, binding };
            let to = spv::BindingInfo {
                descriptor_set: 0,
                binding,
                binding_array_size: None,
            };
            (of, to)
        };
        let unchecked = naga::proc::BoundsCheckPolicy::Unchecked;
        let options = spv::Options {
            lang_version: self.version,
            flags: spv::WriterFlags::empty(),
            fake_missing_bindings: false,
            binding_map: (0u32..)
                .zip(&kernel.bindings)
                .map(|(binding, _)| place(binding))
                .collect(),
            capabilities: Some(self.capabilities().into_iter().collect()),
            bounds_check_policies: naga::proc::BoundsCheckPolicies {
                index: unchecked,
                buffer: unchecked,
                image_load: unchecked,
                binding_array: unchecked,
            },
            zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
            force_loop_bounding: false,
            // kernels of compute hand nothing on to other stages
            use_storage_input_output_16: false,
            // an element may be divided by another that is 0
            emit_int_div_checks: true,
            ..spv::Options::default()
        };
        let entry = spv::PipelineOptions {
            shader_stage: naga::ShaderStage::Compute,
            entry_point: "main".to_owned(),
        };
        spv::write_vec(&module, &valid, &options, Some(&entry)).map_err(|error| error.to_string())
    }
}
