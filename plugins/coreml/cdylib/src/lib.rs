//! The coreml plugin as a library of its own: the export and nothing else.

polychip_sdk::export_plugin!(polychip_coreml::CoremlPlugin);
