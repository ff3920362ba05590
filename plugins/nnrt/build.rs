//! Names the build after the sources that it is made of.

fn main() {
    polychip_build_id::emit();
}
