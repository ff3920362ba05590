//! The CPU plugin as a library that a host opens: one export, nothing else.

polychip_sdk::export_plugin!(polychip_cpu::CpuPlugin);
