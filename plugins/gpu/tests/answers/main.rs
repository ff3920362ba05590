//! The GPU's answers beside the CPU's, family by family and in small networks, on the GPU that is there: a software
//! one in ordinary CI. Without one each test is reported as skipped.

mod elementwise;
mod image;
mod language;
mod movement;
mod net;
mod product;

use libtest_mimic::{Arguments, Trial};
use polychip_test_requirements::{Need, skipped};

/// A test with its name.
type Test = (&'static str, fn());

/// Functions of the file as tests, with their names.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), $name as fn())),*]
    };
}
pub(crate) use tests;

fn main() {
    let arguments = Arguments::from_args();
    let missing = net::missing();
    let mut trials = Vec::new();
    for (file, tests) in [
        ("elementwise", elementwise::TESTS),
        ("image", image::TESTS),
        ("language", language::TESTS),
        ("movement", movement::TESTS),
        ("product", product::TESTS),
    ] {
        for &(name, test) in tests {
            let name = format!("{file}::{name}");
            trials.push(match &missing {
                Some(why) => skipped(&name, Need::Vulkan, why),
                None => Trial::test(name, move || {
                    test();
                    Ok(())
                }),
            });
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
