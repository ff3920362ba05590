//! The xyz plugin as a loadable library. It contains only the C export.

polychip_sdk::export_plugin!(polychip_xyz::XyzPlugin);
