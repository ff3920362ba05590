//! The committed C header compiles as C11 and as C++17, with the layout of the Rust structs.
//!
//! A C compiler is present because Rust links with it. Without a C++ compiler, that test is reported
//! as skipped.

use std::path::Path;
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};
use polychip_test_requirements::{Need, left_out, skipped};

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

fn compiles(compiler: &str, standard: &str, suffix: &str) -> Result<(), Failed> {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let file = std::env::temp_dir().join(format!("polychip-header-{}.{suffix}", std::process::id()));
    std::fs::write(&file, source()).unwrap();
    let output = Command::new(compiler)
        .arg(standard)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"])
        .args([&include, &file])
        .output();
    std::fs::remove_file(&file).unwrap();
    let output = output.map_err(|error| format!("{compiler}: {error}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{compiler} {standard}: {words}").into());
    }
    Ok(())
}

fn main() {
    let arguments = Arguments::from_args();
    if !cfg!(target_pointer_width = "64") {
        let trial = left_out("header", "the committed layout is that of 64 bits");
        libtest_mimic::run(&arguments, vec![trial]).exit();
    }
    let cpp = "header_is_cpp17_with_the_layout_of_the_rust_structs";
    let trials = vec![
        Trial::test("header_is_c11_with_the_layout_of_the_rust_structs", || {
            compiles("cc", "-std=c11", "c")
        }),
        match Command::new("c++").arg("--version").output() {
            Ok(said) if !said.status.success() => {
                let words = String::from_utf8_lossy(&said.stderr).trim().to_owned();
                skipped(cpp, Need::Cpp, &format!("c++: {words}"))
            }
            Ok(_) => Trial::test(cpp, || compiles("c++", "-std=c++17", "cpp")),
            Err(error) => skipped(cpp, Need::Cpp, &format!("c++: {error}")),
        },
    ];
    libtest_mimic::run(&arguments, trials).exit();
}
