//! Mutants of a chat template, by seed: pieces of Jinja inserted, removed, doubled and exchanged.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Pieces of templates, and pieces that demand much work.
const PIECES: [&str; 48] = [
    "{% for m in messages %}",
    "{% endfor %}",
    "{% if loop.first %}",
    "{% else %}",
    "{% endif %}",
    "{% set x = x ~ x %}",
    "{% set x = messages %}",
    "{% set ns = namespace(s='ab') %}",
    "{% set ns.s = ns.s + ns.s %}",
    "{% macro f(a) %}{{ f(a) }}{% endmacro %}",
    "{{ f(1) }}",
    "{% for i in range(100000) %}",
    "{{ range(99999999) | join }}",
    "{{ 'a' * 99999999 }}",
    "{{ [1, 2] * 99999999 }}",
    "{{ messages | tojson }}",
    "{{ messages | tojson(indent=99999999) }}",
    "{{ m.content | trim }}",
    "{{ m['content'].split('a') }}",
    "{{ m.content[::-1] }}",
    "{{ x.replace('', x) }}",
    "{{ x | replace('a', x) }}",
    "{{ '%99999999d' % 1 }}",
    "{{ '{:>99999999}'.format(1) }}",
    "{{ x | indent(99999999) }}",
    "{{ x | center(99999999) }}",
    "{{ raise_exception('no') }}",
    "{{ strftime_now('%Y %q %') }}",
    "{{ bos_token }}",
    "{{ messages[0] }}",
    "{{ 2 ** 99999 }}",
    "{{ 1 // 0 }}",
    "{{ messages | map(attribute='role') | list }}",
    "{{ messages | batch(99999999, 1) | list }}",
    "{{ messages | slice(99999999) | list }}",
    "{% include 'chat' %}",
    "{% import 'chat' as c %}",
    "{% extends 'chat' %}",
    "{% block b %}{{ self.b() }}{% endblock %}",
    "{% call f(1) %}",
    "{% endcall %}",
    "{% generation %}",
    "{{ ((((((((",
    "))))))))",
    "{%- raw %}",
    "{% endraw %}",
    "{#",
    "'",
];

/// Mutates a template by this seed.
#[must_use]
pub fn template_mutant(template: &str, seed: u64) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut text = template.to_owned();
    for _ in 0..*[1, 1, 1, 2, 3].choose(&mut random).unwrap_or(&1) {
        text = once(&text, &mut random);
    }
    text
}

fn once(text: &str, random: &mut ChaCha8Rng) -> String {
    // most changes are made between two tags, so that most mutants still compile
    let between = random.random_ratio(3, 4);
    let places: Vec<usize> = (0..=text.len())
        .filter(|at| text.is_char_boundary(*at))
        .filter(|at| !between || *at == 0 || text[..*at].ends_with("%}") || text[..*at].ends_with("}}"))
        .collect();
    let at = *places.choose(random).unwrap_or(&0);
    let (before, behind) = text.split_at(at);
    match random.random_range(0..8) {
        0 => {
            let to = *places
                .iter()
                .filter(|to| **to >= at)
                .nth(random.random_range(0..4))
                .unwrap_or(&at);
            format!("{before}{}", &text[to..])
        }
        1 => format!("{text}{behind}"),
        2 => {
            let character = [
                '{', '}', '%', '|', '\'', '(', ')', '[', '.', ' ', '\n', '\u{0}', 'é',
            ];
            format!("{before}{}{behind}", character.choose(random).unwrap_or(&' '))
        }
        _ => {
            let piece = PIECES.choose(random).unwrap_or(&"");
            let count = *[1, 1, 1, 2, 40].choose(random).unwrap_or(&1);
            format!("{before}{}{behind}", piece.repeat(count))
        }
    }
}
