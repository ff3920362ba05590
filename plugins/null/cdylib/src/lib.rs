//! (polychip-plugin-null: to be written)
