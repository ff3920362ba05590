//! Templates are bounded, and what they use that is not there is named.

use super::*;
use crate::ErrorKind;

fn render(source: &str) -> Result<String> {
    ChatTemplate::new(source)?.render(&[Message::new("user", "hello")], false)
}

/// Without a sandbox.
fn render_here(source: &str) -> Result<String> {
    let template = ChatTemplate {
        source: source.to_owned(),
        renderer: Mutex::new(None),
        variables: Vec::new(),
        now: None,
    };
    let messages = [Message::new("user", "hello")];
    template.run_here(Some(Chat {
        messages: Cow::Borrowed(&messages),
        add_generation_prompt: false,
        variables: Cow::Borrowed(&[]),
        now: None,
    }))
}

/// By a sandbox, where there is one, and without.
fn refused(source: &str, words: &str) {
    // a busy machine may end a sandbox at its limits of time, but not each time
    let by_sandbox = (0..5)
        .map(|_| render(source).unwrap_err())
        .find(|error| !error.to_string().contains("than the limit of"));
    let by_sandbox = by_sandbox.expect("five sandboxes reached their limits of time");
    for error in [by_sandbox, render_here(source).unwrap_err()] {
        assert_eq!(
            (error.kind(), error.to_string().contains(words)),
            (ErrorKind::Template, true),
            "{error}"
        );
    }
}

#[test]
fn template_errors_keep_their_message() {
    refused(
        "{% if messages[0].role != 'system' %}{{ raise_exception('a system message must come first') }}{% endif %}",
        "refused: a system message must come first",
    );
}

#[test]
fn what_is_not_known_is_named() {
    refused("\n{{ messages | nofilter }}", "line 2");
    refused("{{ messages | nofilter }}", "nofilter");
    refused("{{ nofunction() }}", "nofunction");
    refused("{{ messages[0].content.nomethod() }}", "nomethod");
    refused("{% if messages is notest %}{% endif %}", "notest");
    refused("{% include 'other' %}", "chat template");
    refused("{% for m in messages %}", "chat template");
    refused("{{ strftime_now('%!') }}", "strftime_now");
    refused("{{ messages | tojson(intent=2) }}", "intent");
    refused("{{ {1: 2} | tojson }}", "a key is 1");
}

#[test]
fn rendering_is_bounded() {
    for endless in [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(s='ab') %}{% for a in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s='ab') %}{% for a in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{{ messages | tojson(indent=999999999999) }}",
        "{{ '{:>999999999999}'.format(1) }}",
        "{{ '{:.99999999999999999999f}'.format(1) }}",
        "{% set s = 'x' * 99999999 %}{{ ('{0}' * 99).format(s) }}",
        "{% set s = 'x' * 9999999 %}{{ ''.join([s] * 9999) }}",
        "{% set s = 'x' * 9999999 %}{{ s.join([1] * 9999) }}",
    ] {
        refused(endless, "steps");
    }
    refused("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "recursion");
    let long = ChatTemplate::new(&" ".repeat((1 << 20) + 1)).unwrap_err();
    assert!(long.to_string().contains("maximum of 1048576"), "{long}");
}

#[test]
fn counted_methods_match_python() {
    let text =
        render("{{ ', '.join(['a', 1, none]) }} {{ '{:>4}|{0}|{n}'.replace('{:', '{0:').format('e', n=2) }}")
            .unwrap();
    assert_eq!(text, "a, 1, None    e|e|2");
    refused("{{ ''.join() }}", "join takes one argument, but got 0");
    refused("{{ ''.join(1) }}", "not iterable");
}

#[test]
fn variables_are_json_and_replaceable() {
    let template = ChatTemplate::new("{{ deep.list[1] }}{{ flag }}").unwrap();
    let template = template.with_json("deep", r#"{"list": [1, "two"]}"#).unwrap();
    let template = template
        .with_json("flag", "1")
        .unwrap()
        .with_json("flag", "2")
        .unwrap();
    assert_eq!(template.render(&[], false).unwrap(), "two2");
    let error = ChatTemplate::new("")
        .unwrap()
        .with_json("tools", "[")
        .unwrap_err();
    assert!(
        error.to_string().contains("variable \"tools\" is not JSON"),
        "{error}"
    );
    let error = ChatTemplate::new("").unwrap().with_time("yesterday").unwrap_err();
    assert!(error.to_string().contains("time \"yesterday\""), "{error}");
    let year = ChatTemplate::new("{{ strftime_now('%Y') }}")
        .unwrap()
        .render(&[], false)
        .unwrap();
    assert!(year.parse::<u32>().is_ok_and(|year| year > 2024), "{year}");
}

#[test]
fn long_tags_are_refused_wherever_they_hide() {
    let nots = "not ".repeat(MAX_TAG / 4 + 1);
    for source in [
        format!("{{{{ {nots} true }}}}"),
        format!("{{% if {nots} true %}}{{% endif %}}"),
        format!("{{# a comment's ' #}}{{{{ '}}}}' ~ \"\\\"}}}}\" ~ {nots} true }}}}"),
    ] {
        let error = ChatTemplate::new(&source).unwrap_err();
        assert!(error.to_string().contains("maximum of 16384"), "{error}");
    }
    let comment = format!("{{# {nots} #}}{{{{ 1 }}}}");
    assert_eq!(render(&comment).unwrap(), "1");
}

#[test]
fn values_that_hold_themselves_or_share_parts_are_not_printed() {
    let own = "{% set ns = namespace() %}{% set ns.a = ns %}";
    let shared =
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
    for (source, words) in [
        (format!("{own}{{{{ ns }}}}"), "nested more than 100 deep"),
        (
            format!("{own}{{{{ ', '.join([ns]) }}}}"),
            "nested more than 100 deep",
        ),
        (
            format!("{own}{{{{ '{{}}'.format(ns) }}}}"),
            "nested more than 100 deep",
        ),
        (format!("{shared}{{{{ ns.x }}}}"), "steps"),
        (format!("{shared}{{{{ ns.x | tojson }}}}"), "steps"),
    ] {
        refused(&source, words);
    }
}

#[test]
fn lists_nested_by_a_loop_are_dropped() {
    let nested =
        "{% set ns = namespace(x=[]) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}ok";
    assert_eq!(render_here(nested).unwrap(), "ok");
}
