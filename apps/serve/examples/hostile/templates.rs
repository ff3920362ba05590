//! Chat templates that grow in one direction.

use crate::Draws;

/// What is done with a value in the end.
const USES: [&str; 22] = [
    "{{ ns.x }}",
    "{{ ns.x ~ '' }}",
    "{{ ns.x == ns.x }}",
    "{{ ns.x == ns.y }}",
    "{{ ns.x < ns.y }}",
    "{{ ns.x in [ns.y] }}",
    "{{ ns.x | tojson }}",
    "{{ ns.x | string | length }}",
    "{{ ns.x | list | length }}",
    "{{ [ns.x, ns.y] | sort }}",
    "{{ [ns.x, ns.y] | unique }}",
    "{{ [ns.x, ns.y] | join(',') }}",
    "{{ ','.join([ns.x]) }}",
    "{{ '{}'.format(ns.x) }}",
    "{{ '%s' | format(ns.x) }}",
    "{{ {ns.x: 1} }}",
    "{{ [ns.x] | map('string') | list }}",
    "{{ ns.x | pprint }}",
    "{{ [ns.x] | groupby('0') }}",
    "{{ ns.x | replace('1', '22') | length }}",
    "{{ ns.x | first | string }}",
    "ok",
];

fn looped(start: &str, count: usize, step: &str, end: &str) -> String {
    format!(
        "{{% set ns = namespace(x={start}, y={start}) %}}{{% for i in range({count}) %}}{{% set ns.x = {step} %}}{{% endfor %}}{end}"
    )
}

/// A template and its name.
pub(crate) fn template(draws: &mut Draws) -> (String, String) {
    let size = draws.size(100_000);
    let end = draws.one(&USES);
    match draws.below(5) {
        0 => {
            let step = draws.one(&[
                "[ns.x]",
                "{'a': ns.x}",
                "[ns.x, 1]",
                "{'a': [ns.x]}",
                "namespace(x=ns.x)",
                "dict(a=ns.x)",
            ]);
            (
                format!("{step} nested {size} deep, then {end}"),
                looped("[1]", size, step, end),
            )
        }
        1 => {
            let count = size.min(300);
            let step = draws.one(&[
                "[ns.x, ns.x]",
                "{'a': ns.x, 'b': ns.x}",
                "ns.x + ns.x",
                "ns.x ~ ns.x",
                "ns.x * 2",
                "[ns.x] * 3",
                "ns.x | string ~ ns.x",
            ]);
            (
                format!("{step} doubled {count} times, then {end}"),
                looped("[1]", count, step, end),
            )
        }
        2 => {
            let own = draws.one(&[
                "{% set ns.x = ns %}",
                "{% set ns.x = [ns] %}",
                "{% set ns.x = {'a': ns} %}{% set ns.y = ns.x %}",
                "{% set o = namespace(a=ns) %}{% set ns.x = o %}{% set ns.y = ns.x %}",
            ]);
            (
                format!("{own}, then {end}"),
                format!("{{% set ns = namespace(x=1, y=2) %}}{own}{end}"),
            )
        }
        3 => source(draws, size),
        _ => slow(draws, size),
    }
}

/// A source that is long in one direction.
fn source(draws: &mut Draws, size: usize) -> (String, String) {
    let kind = draws.one(&[
        "not",
        "minus",
        "plus",
        "concat",
        "and",
        "ternary",
        "brackets",
        "lists",
        "dicts",
        "filters",
        "attributes",
        "items",
        "calls",
        "ifs",
        "fors",
        "elifs",
        "sets",
        "macros",
        "comparisons",
        "power",
        "tests",
        "blocks",
        "arguments",
    ]);
    let many = |text: &str| text.repeat(size);
    let text = match kind {
        "not" => format!("{{{{ {}true }}}}", many("not ")),
        "minus" => format!("{{{{ {}1 }}}}", many("- ")),
        "plus" => format!("{{{{ 1{} }}}}", many(" + 1")),
        "concat" => format!("{{{{ 'a'{} }}}}", many(" ~ 'a'")),
        "and" => format!("{{{{ 1{} }}}}", many(" and 1")),
        "ternary" => format!("{{{{ 1{} }}}}", many(" if 1 else 1")),
        "brackets" => format!("{{{{ {}1{} }}}}", many("("), many(")")),
        "lists" => format!("{{{{ {}1{} }}}}", many("["), many("]")),
        "dicts" => format!("{{{{ {}1{} }}}}", many("{'a':"), many("}")),
        "filters" => format!("{{{{ 'a'{} }}}}", many("|upper")),
        "attributes" => format!("{{{{ messages{} }}}}", many(".a")),
        "items" => format!("{{{{ messages{} }}}}", many("[0]")),
        "calls" => format!("{{{{ {}1{} }}}}", many("range("), many(")")),
        "ifs" => format!("{}{}", many("{% if 1 %}"), many("{% endif %}")),
        "fors" => format!("{}{}", many("{% for a in [1] %}"), many("{% endfor %}")),
        "elifs" => format!("{{% if 0 %}}{}{{% endif %}}", many("{% elif 0 %}")),
        "sets" => format!("{{% set x = [1] %}}{}{{{{ x }}}}", many("{% set x = [x, x] %}")),
        "macros" => format!("{}{}", many("{% macro f() %}"), many("{% endmacro %}")),
        "comparisons" => format!("{{{{ 1{} }}}}", many(" < 2")),
        "power" => format!("{{{{ 1{} }}}}", many(" ** 1")),
        "tests" => format!("{{{{ 1{} }}}}", many(" is defined")),
        "blocks" => format!("{}{}", many("{% filter upper %}"), many("{% endfilter %}")),
        _ => format!("{{{{ range(1{}) }}}}", many(", 1")),
    };
    (format!("{size} {kind}"), text)
}

/// A rendering that takes long.
fn slow(draws: &mut Draws, size: usize) -> (String, String) {
    let kind = draws.one(&[
        "nested loops",
        "slices",
        "sorts",
        "joins",
        "text doubled",
        "replace",
        "wide format",
        "recursion",
        "recursive loop",
        "batch",
        "split",
        "ranges kept",
        "indent",
    ]);
    let list = format!("{{% set ns = namespace(x=range({size}) | list, y=[]) %}}");
    let each = |body: &str| format!("{list}{{% for i in range({size}) %}}{body}{{% endfor %}}ok");
    let text = match kind {
        "nested loops" => each("{% for j in ns.x %}{% for k in ns.x %}{% endfor %}{% endfor %}"),
        "slices" => each("{% set ns.x = ns.x[:] %}"),
        "sorts" => each("{% set ns.y = ns.x | sort(reverse=true) %}"),
        "joins" => each("{% set ns.y = ns.x | join(',') %}"),
        "text doubled" => looped("'ab'", size.min(300), "ns.x ~ ns.x", "{{ ns.x | length }}"),
        "replace" => looped(
            "'ab'",
            size.min(300),
            "ns.x | replace('a', 'aa') | replace('b', 'bb')",
            "{{ ns.x | length }}",
        ),
        "wide format" => {
            format!("{{{{ '{{:>{size}00000}}'.format(1) }}}}{{{{ '%{size}00000d' | format(1) }}}}")
        }
        "recursion" => "{% macro f(x) %}{{ f([x]) }}{{ f([x]) }}{% endmacro %}{{ f(1) }}".to_owned(),
        "recursive loop" => "{% for a in [[1]] recursive %}{{ loop([a, a]) }}{% endfor %}".to_owned(),
        "batch" => each("{% set ns.y = ns.x | batch(2) | list %}"),
        "split" => format!(
            "{{% set s = 'a,' * {size} %}}{{% for i in range({size}) %}}{{% set x = s.split(',') %}}{{% endfor %}}ok"
        ),
        "ranges kept" => each("{% set ns.y = [ns.y, ns.x | list] %}"),
        _ => format!(
            "{{% set s = 'a\\n' * {size} %}}{{% for i in range({size}) %}}{{{{ s | indent({size}) | length }}}}{{% endfor %}}"
        ),
    };
    (format!("{kind} {size}"), text)
}
