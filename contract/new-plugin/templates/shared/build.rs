//! Derives the plugin's build id from its sources.

fn main() {
    polychip_build_id::emit();
}
