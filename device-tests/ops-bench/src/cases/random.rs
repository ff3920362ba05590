//! Cases with random sizes: the lines of `ops.txt` with other numbers, as models have them and benchmarks do not: odd,
//! prime and 1.
//!
//! Each number of a line's shapes is drawn anew, log-uniformly from an eighth to twice of what it is, the same at each
//! place of the line; so are the attributes that repeat it. Most ops do not take all sizes: a draw that is no valid model
//! is drawn again, and after some tries only the number behind the `@` is.
//!
//! Invariant: the same seed draws the same cases on every host.

use std::collections::BTreeMap;

use polychip_conformance::ops;
use polychip_conformance::problem::Numbers;
use polychip_graph::{Graph, infer};
use polychip_ops::Literal;

use super::{Case, OF_IMAGES, Size, TABLE, channels_last};

/// Draws of a line before only the number behind the `@` is drawn.
const TRIES: usize = 12;
/// The most elements of an input or output: a run takes less than a second.
const MOST_ELEMENTS: usize = 1 << 22;
/// Numbers up to here are often sizes of windows, not of images.
const WINDOW: i64 = 7;

/// Ops whose values or further attributes follow from several sizes at once: only the number behind the `@` is drawn.
const BOUND: [&str; 4] = ["GatherND", "MaxUnpool", "RotaryEmbedding", "ScatterElements"];

/// So many cases whose names contain one of `only`, where there is any.
///
/// # Errors
/// The first line of the table that is not understood, or no line has such a name.
pub(crate) fn cases(count: usize, seed: u64, only: &[String]) -> Result<Vec<Case>, String> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part.as_str()));
    let mut lines = Vec::new();
    let mut family = "";
    for line in TABLE.lines().map(str::trim) {
        if line.starts_with('[') {
            family = line;
        } else if !line.is_empty() && !line.starts_with('#') {
            let specs = ops::read(&format!("{family}\n{}\n", usual(line)?))?;
            if specs.iter().any(|spec| wanted(&spec.name)) {
                lines.push((family, line));
            }
        }
    }
    if lines.is_empty() {
        return Err(format!("no case is named {}", only.join(" or ")));
    }
    let mut numbers = Numbers::of(&format!("random sizes {seed}"));
    let mut cases = Vec::new();
    let mut draws = 0;
    while cases.len() < count {
        draws += 1;
        if draws > 1000 * count {
            return Err(format!(
                "{draws} draws gave {} sound cases of {count}",
                cases.len()
            ));
        }
        let (family, line) = lines[numbers.draw() as usize % lines.len()];
        let is_bound = line
            .split_whitespace()
            .next()
            .is_some_and(|op| BOUND.contains(&op));
        for attempt in 0..=TRIES {
            let drawn = draw(line, attempt < TRIES && !is_bound, &mut numbers)?;
            let specs = ops::read(&format!("{family}\n{drawn}\n"))?;
            let spec = &specs[numbers.draw() as usize % specs.len()];
            if !wanted(&spec.name) {
                continue;
            }
            let Ok((graph, inputs)) = spec.graph() else {
                continue;
            };
            let Some(shapes) = sound(&graph, &inputs) else {
                continue;
            };
            let of_images = OF_IMAGES.contains(&spec.family.as_str());
            cases.push(Case {
                name: format!("{} #{} {shapes}", spec.name, cases.len() + 1),
                size: Size::Random,
                channels_last: of_images.then(|| channels_last(&graph, &inputs)).flatten(),
                made: Ok((graph, inputs)),
            });
            break;
        }
    }
    Ok(cases)
}

/// A size for `%`, and one for `$`.
type Pair = (i64, i64);

/// A line without its sizes, and those.
fn sizes(line: &str) -> Result<(&str, Vec<Pair>), String> {
    let Some((case, sizes)) = line.split_once('@') else {
        return Ok((line, Vec::new()));
    };
    let number = |text: &str| text.parse().map_err(|_| format!("{line}: {text:?} is no size"));
    let pair = |text: &str| {
        let (first, second) = text.split_once(':').unwrap_or((text, text));
        Ok((number(first)?, number(second)?))
    };
    let sizes = sizes
        .split_whitespace()
        .map(pair)
        .collect::<Result<_, String>>()?;
    Ok((case, sizes))
}

/// A line with its usual sizes.
fn usual(line: &str) -> Result<String, String> {
    let (case, sizes) = sizes(line)?;
    Ok(match sizes.get(1) {
        Some((first, second)) => filled(case, (*first, *second)),
        None => case.to_owned(),
    })
}

fn filled(case: &str, (first, second): Pair) -> String {
    case.replace('%', &first.to_string())
        .replace('$', &second.to_string())
}

/// A line with random sizes; without `all`, only where the table has several.
fn draw(line: &str, all: bool, numbers: &mut Numbers) -> Result<String, String> {
    let (case, sizes) = sizes(line)?;
    let filled = match (sizes.first(), sizes.last()) {
        (Some(least), Some(most)) => {
            let at = numbers.between(0.0, 1.0);
            let between = |least: i64, most: i64| {
                let (least, most) = (least as f64, most as f64);
                (least * (most / least).powf(at)).round() as i64
            };
            filled(case, (between(least.0, most.0), between(least.1, most.1)))
        }
        _ => case.to_owned(),
    };
    if !all {
        return Ok(filled);
    }
    let mut drawn = BTreeMap::new();
    let mut parts = filled.split('|').map(str::to_owned).collect::<Vec<_>>();
    if let Some(inputs) = parts.get_mut(2) {
        *inputs = shapes(inputs, &mut drawn, numbers);
    }
    if let Some(attributes) = parts.get_mut(3) {
        *attributes = repeated(attributes, &drawn);
    }
    Ok(parts.join("|"))
}

/// Inputs, with each number in the brackets of those without given values drawn once.
fn shapes(inputs: &str, drawn: &mut BTreeMap<i64, i64>, numbers: &mut Numbers) -> String {
    let input = |input: &str, drawn: &mut BTreeMap<i64, i64>, numbers: &mut Numbers| {
        let (Some(open), Some(close)) = (input.find('['), input.find(']')) else {
            return input.to_owned();
        };
        if input.contains('{') {
            return input.to_owned();
        }
        let dims: Vec<String> = input[open + 1..close]
            .split(',')
            .map(|dim| match dim.trim().parse::<i64>() {
                Ok(size) if size > 1 => drawn
                    .entry(size)
                    .or_insert_with(|| other(size, numbers))
                    .to_string(),
                _ => dim.to_owned(),
            })
            .collect();
        let behind = match input[close..].split_once("..") {
            // values up to a size, such as classes
            Some((before, most)) => match most.trim().parse().ok().and_then(|most: i64| drawn.get(&most)) {
                Some(size) => format!("{before}..{size}"),
                None => input[close..].to_owned(),
            },
            None => input[close..].to_owned(),
        };
        format!("{}[{}{behind}", &input[..open], dims.join(","))
    };
    let inputs: Vec<String> = inputs
        .split(';')
        .map(|text| input(text, drawn, numbers))
        .collect();
    inputs.join(";")
}

/// Another number than one of a shape.
fn other(size: i64, numbers: &mut Numbers) -> i64 {
    let is_window = size <= WINDOW;
    match numbers.int(0, 10) {
        0 => 1,
        1..=5 if is_window => size,
        _ if is_window => numbers.int(1, WINDOW + 1),
        _ => (size as f64 / 8.0 * 16f64.powf(numbers.between(0.0, 1.0)))
            .round()
            .max(1.0) as i64,
    }
}

/// Attributes, with those that repeat a number of a shape changed with it.
fn repeated(attributes: &str, drawn: &BTreeMap<i64, i64>) -> String {
    let attribute = |text: &str| {
        let repeats = ["group=", "num_heads=", "hidden_size="];
        let changed = repeats.iter().find_map(|name| {
            let size = drawn.get(&text.strip_prefix(name)?.parse().ok()?)?;
            Some(format!("{name}{size}"))
        });
        changed.unwrap_or_else(|| text.to_owned())
    };
    let attributes: Vec<String> = attributes.split_whitespace().map(attribute).collect();
    format!(" {}", attributes.join(" "))
}

/// The shapes of a graph's inputs as text, if it is valid and of a fair size.
fn sound(graph: &Graph, inputs: &[Literal]) -> Option<String> {
    let mut typed = graph.clone();
    infer(&mut typed).ok()?;
    polychip_graph::verify(&typed).ok()?;
    let is_fair = |sizes: &[usize]| {
        let elements = sizes.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
        elements.is_some_and(|elements| (1..=MOST_ELEMENTS).contains(&elements))
    };
    let results = typed.outputs.iter().all(|&id| match typed.tensor(id).ty.sizes() {
        Some(sizes) => is_fair(&sizes),
        None => true,
    });
    let shapes: Vec<String> = inputs
        .iter()
        .map(|input| {
            let dims: Vec<String> = input.shape.iter().map(usize::to_string).collect();
            dims.join("x")
        })
        .collect();
    (results && inputs.iter().all(|input| is_fair(&input.shape))).then(|| shapes.join(" "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_draws_the_same_valid_cases_of_most_ops() {
        let [first, again] = [0, 0].map(|_| cases(600, 7, &[]).unwrap());
        let names = |cases: &[Case]| cases.iter().map(|case| case.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&first), names(&again));
        assert_ne!(names(&first), names(&cases(600, 8, &[]).unwrap()));
        let ops: BTreeSet<&str> = first
            .iter()
            .filter_map(|case| case.name.split('/').next())
            .collect();
        assert!(ops.len() >= 100, "{}", ops.len());
        let shapes: BTreeSet<&str> = first
            .iter()
            .filter_map(|case| case.name.split('#').nth(1))
            .collect();
        assert!(shapes.len() >= 500, "{}", shapes.len());
    }

    #[test]
    fn a_number_is_the_same_wherever_it_stands() {
        let mut numbers = Numbers::of("a number");
        let line = "Conv depthwise | f32 | T[1,%,56,56]; T[%,1,3,3]!w0; i64[2]={56,3} | group=% pads=1,1 @ 16 128 512";
        for _ in 0..20 {
            let drawn = draw(line, true, &mut numbers).unwrap();
            let parts: Vec<&str> = drawn.split('|').collect();
            let channels = parts[2].split(['[', ',']).nth(2).unwrap();
            assert!(parts[2].contains(&format!("T[{channels},1,")), "{drawn}");
            assert!(parts[3].contains(&format!("group={channels} ")), "{drawn}");
            assert!(parts[2].ends_with("i64[2]={56,3} "), "{drawn}");
            let drawn = draw("Loss | f32 | T[16,100]; i64[16]~0..100", true, &mut numbers).unwrap();
            let classes = drawn.split([',', ']']).nth(1).unwrap();
            assert!(drawn.ends_with(&format!("]~0..{classes}")), "{drawn}");
        }
    }
}
