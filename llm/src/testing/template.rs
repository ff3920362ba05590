//! One mutant of a chat template, by its seed: pieces of Jinja put in, taken out, doubled and exchanged.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What templates are made of, and what asks for much.
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

/// The mutant of a template that has this seed.
#[must_use]
pub fn template_mutant(template: &str, seed: u64) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut characters: Vec<char> = template.chars().collect();
    for _ in 0..random.random_range(1..6) {
        let from = random.random_range(0..=characters.len());
        let to = random.random_range(from..=characters.len().min(from + 12));
        match random.random_range(0..6) {
            0 => {
                characters.drain(from..to);
            }
            1 => {
                let copy: Vec<char> = characters[from..].to_vec();
                characters.extend(copy);
            }
            2 => {
                let character = *['{', '}', '%', '|', '\'', '(', ')', '[', '.', ' ', '\n', '\u{0}', 'é']
                    .choose(&mut random)
                    .unwrap_or(&' ');
                characters.insert(from, character);
            }
            _ => {
                let piece = PIECES.choose(&mut random).unwrap_or(&"");
                let count = *[1, 1, 1, 2, 40].choose(&mut random).unwrap_or(&1);
                let piece: Vec<char> = piece.repeat(count).chars().collect();
                characters.splice(from..from, piece);
            }
        }
    }
    characters.into_iter().collect()
}
