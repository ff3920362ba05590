//! The committed C header compiles as C11 and as C++17, and says the same layout as the Rust structs.
//!
//! Where there is no C compiler the tests say so and pass.

#![cfg(target_pointer_width = "64")]

use std::path::Path;
use std::process::Command;

/// A source that includes the header and asserts every size and offset.
fn source() -> String {
    let mut text = String::from(
        "#include \"polychip_plugin.h\"\n\
         #ifdef __cplusplus\n#define CHECK(what) static_assert(what, #what)\n\
         #else\n#define CHECK(what) _Static_assert(what, #what)\n#endif\n",
    );
    let mut name = "";
    let golden = polychip_abi::layout::golden();
    for line in golden.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [of, "size", size, "align", _] => {
                name = of;
                text.push_str(&format!("CHECK(sizeof(struct {of}) == {size});\n"));
            }
            [offset, size, field] => {
                text.push_str(&format!("CHECK(offsetof(struct {name}, {field}) == {offset});\n"));
                text.push_str(&format!(
                    "CHECK(sizeof(((struct {name} *)0)->{field}) == {size});\n"
                ));
            }
            _ => panic!("line of the layout: {line:?}"),
        }
    }
    text
}

fn compiles(compiler: &str, standard: &str, suffix: &str) {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let file = std::env::temp_dir().join(format!("polychip-header-{}.{suffix}", std::process::id()));
    std::fs::write(&file, source()).unwrap();
    let output = Command::new(compiler)
        .arg(standard)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"])
        .args([&include, &file])
        .output();
    std::fs::remove_file(&file).unwrap();
    match output {
        Ok(output) => assert!(
            output.status.success(),
            "{compiler} {standard}: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => eprintln!("skipped: no compiler {compiler}: {error}"),
    }
}

#[test]
fn the_header_is_c11_with_the_layout_of_the_rust_structs() {
    compiles("cc", "-std=c11", "c");
}

#[test]
fn the_header_is_cpp17_with_the_layout_of_the_rust_structs() {
    compiles("c++", "-std=c++17", "cpp");
}
