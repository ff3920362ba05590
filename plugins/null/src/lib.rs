//! (polychip-null: to be written)
