//! The nnrt plugin as a library of its own: the export and nothing else.

polychip_sdk::export_plugin!(polychip_nnrt::NnrtPlugin);
