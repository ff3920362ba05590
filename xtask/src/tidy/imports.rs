//! Which file of a crate names things of which other file: `use` lines and paths, followed through re-exports to the
//! file that defines the thing.
//!
//! Invariants:
//! 1. Modules of tests (`#[cfg(test)]`, and those borrowed by `#[path]`) and what they import are left out.
//! 2. The crate's root (`lib.rs`, `main.rs`) only joins files: it is no end of an import.
//! 3. A re-export counts where the file that makes it uses the name too; who imports the re-exported name imports the
//!    file that defines it.
//!
//! Not here: what the compiler alone knows (methods, `Deref`, names that macros make). Read by tokens, so text in
//! comments and strings names nothing. Start at [`of_crate`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Who imports from whom, and what.
pub(super) type Imports = BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>;

/// The imports between the files of the crate whose root is this file, relative to `base`.
pub(super) fn of_crate(base: &Path, root: &Path) -> Result<Imports> {
    let mut reader = Reader {
        base,
        modules: Vec::new(),
    };
    let folder = root.parent().unwrap_or(Path::new("")).to_owned();
    reader.file(root, folder, None)?;
    Ok(reader.imports(root))
}

/// A module: a file, or a block of one.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// Where the files of its child modules lie.
    folder: PathBuf,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    uses: Vec<Use>,
    /// Paths of at least two segments in code.
    paths: BTreeSet<Vec<String>>,
    /// Names in code.
    words: BTreeSet<String>,
}

/// One name that a `use` brings in; `*` for all of a module.
struct Use {
    name: String,
    path: Vec<String>,
    /// Others may import it from here.
    exported: bool,
}

/// What a path leads to: a module, or a thing that a module defines.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Target {
    Module(usize),
    Item(usize),
}

struct Reader<'a> {
    base: &'a Path,
    modules: Vec<Module>,
}

/// Re-exports of re-exports that are followed.
const DEEPEST: usize = 16;

impl Reader<'_> {
    fn file(&mut self, file: &Path, folder: PathBuf, parent: Option<usize>) -> Result<usize> {
        let full = self.base.join(file);
        let text = fs::read_to_string(&full).with_context(|| file.display().to_string())?;
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| anyhow!("{}: {error}", file.display()))?;
        let id = self.modules.len();
        self.modules.push(Module {
            file: file.to_owned(),
            folder,
            parent,
            ..Module::default()
        });
        self.items(&trees(tokens), id, true)?;
        Ok(id)
    }

    /// Goes through the items of a module (`top`), or through the code inside of one.
    fn items(&mut self, tokens: &[TokenTree], module: usize, top: bool) -> Result<()> {
        let mut at = 0;
        while at < tokens.len() {
            if is_punct(&tokens[at], '#') {
                let next = attribute_end(tokens, at);
                at = if is_left_out(&tokens[next - 1]) {
                    item_end(tokens, next)
                } else {
                    next
                };
                continue;
            }
            let Some(word) = ident(tokens.get(at)) else {
                if let TokenTree::Group(group) = &tokens[at] {
                    self.items(&trees(group.stream()), module, false)?;
                }
                at += 1;
                continue;
            };
            match word.as_str() {
                "pub" => {
                    at += 1;
                    let restricted = matches!(tokens.get(at), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
                    // the word of a path in `pub(in path)` is no import; a tuple field's type in parentheses is no limit
                    if restricted && ident(first(&tokens[at]).as_ref()).is_some_and(|word| is_scope(&word)) {
                        at += 1;
                    }
                    if ident(tokens.get(at)).is_some_and(|word| word == "use") {
                        at = self.take_use(tokens, at, module, true);
                    }
                }
                "use" => at = self.take_use(tokens, at, module, false),
                "mod" if ident(tokens.get(at + 1)).is_some() => at = self.take_mod(tokens, at, module)?,
                _ => at = self.take_path(tokens, at, module, top),
            }
        }
        Ok(())
    }

    /// A declared module: its file, or its block.
    fn take_mod(&mut self, tokens: &[TokenTree], at: usize, module: usize) -> Result<usize> {
        let name = ident(tokens.get(at + 1)).unwrap_or_default();
        let folder = self.modules[module].folder.join(&name);
        let child = match tokens.get(at + 2) {
            Some(TokenTree::Group(group)) => {
                let id = self.modules.len();
                self.modules.push(Module {
                    file: self.modules[module].file.clone(),
                    folder,
                    parent: Some(module),
                    ..Module::default()
                });
                self.items(&trees(group.stream()), id, true)?;
                id
            }
            _ => {
                let file = self.modules[module].folder.join(format!("{name}.rs"));
                self.file(&file, folder, Some(module))?
            }
        };
        self.modules[module].children.insert(name, child);
        Ok(at + 3)
    }

    /// The names that a `use` brings in.
    fn take_use(&mut self, tokens: &[TokenTree], at: usize, module: usize, exported: bool) -> usize {
        let end = (at..tokens.len())
            .find(|at| is_punct(&tokens[*at], ';'))
            .unwrap_or(tokens.len());
        let mut found = Vec::new();
        use_tree(&tokens[at + 1..end], &[], &mut found);
        self.modules[module]
            .uses
            .extend(found.into_iter().map(|(name, path)| Use { name, path, exported }));
        end + 1
    }

    /// A word of code: the start of a path, a name, or a keyword before the name of an item.
    fn take_path(&mut self, tokens: &[TokenTree], at: usize, module: usize, top: bool) -> usize {
        const DEFINING: [&str; 8] = [
            "fn", "struct", "enum", "union", "trait", "type", "const", "static",
        ];
        let first = ident(tokens.get(at)).unwrap_or_default();
        if top && (DEFINING.contains(&first.as_str()) || first == "macro_rules") {
            let skipped = usize::from(first == "macro_rules");
            if let Some(name) = ident(tokens.get(at + 1 + skipped))
                && !DEFINING.contains(&name.as_str())
            {
                self.modules[module].items.insert(name);
                return at + 2 + skipped;
            }
            return at + 1;
        }
        // `a.b::<T>()` and `<T as A>::b` start no path of modules
        let goes_on = at > 0 && (is_punct(&tokens[at - 1], '.') || is_punct(&tokens[at - 1], ':'));
        let goes_on = goes_on
            && (is_punct(&tokens[at - 1], '.')
                || at > 1 && is_punct(&tokens[at - 2], ':') && is_joint(&tokens[at - 2]));
        let mut path = vec![first.clone()];
        let mut at = at + 1;
        while is_separator(tokens, at)
            && let Some(name) = ident(tokens.get(at + 2))
        {
            path.push(name);
            at += 3;
        }
        if !goes_on {
            let module = &mut self.modules[module];
            module.words.insert(first);
            if path.len() > 1 {
                module.paths.insert(path);
            }
        }
        at
    }

    /// The imports between the files that were read.
    fn imports(&self, root: &Path) -> Imports {
        let mut found = Imports::new();
        let mut add = |from: usize, to: usize, name: &str| {
            let (from, to) = (&self.modules[from].file, &self.modules[to].file);
            if from != to && from != root && to != root {
                found
                    .entry((from.clone(), to.clone()))
                    .or_default()
                    .insert(name.to_owned());
            }
        };
        for (id, module) in self.modules.iter().enumerate() {
            for brought in &module.uses {
                let used = !brought.exported || module.words.contains(&brought.name);
                if !used {
                    continue;
                }
                match self.resolve(id, &brought.path, 0) {
                    Some(Target::Item(to)) => add(id, to, brought.path.last().expect("invariant: not empty")),
                    Some(Target::Module(to)) if brought.name == "*" => add(id, to, "*"),
                    // a module's name alone imports nothing: the paths that start with it do
                    Some(Target::Module(_)) | None => {}
                }
            }
            for path in &module.paths {
                if let Some(Target::Item(to)) = self.resolve(id, path, 0) {
                    // of an item's path its own name, not what belongs to it
                    let name = path
                        .iter()
                        .rev()
                        .find(|name| self.modules[to].items.contains(*name));
                    add(id, to, name.or(path.last()).expect("invariant: not empty"));
                }
            }
        }
        found
    }

    /// The target of a path in this module; none where it leads out of the crate.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<Target> {
        if depth > DEEPEST {
            return None;
        }
        let mut module = from;
        let mut rest = path;
        let mut relative = true;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => {
                    while let Some(parent) = self.modules[module].parent {
                        module = parent;
                    }
                }
                "super" => module = self.modules[module].parent?,
                "self" => {}
                _ => break,
            }
            relative = false;
            rest = others;
        }
        while let Some((name, others)) = rest.split_first() {
            if name == "*" {
                break;
            }
            match self.member(module, name, others.is_empty(), relative, depth)? {
                Target::Module(next) => module = next,
                item => return Some(item),
            }
            relative = false;
            rest = others;
        }
        Some(Target::Module(module))
    }

    /// What a name is in a module. A path that starts with the name may as well leave the crate.
    fn member(&self, module: usize, name: &String, last: bool, first: bool, depth: usize) -> Option<Target> {
        let here = &self.modules[module];
        let child = here.children.get(name).map(|id| Target::Module(*id));
        let brought = || {
            here.uses
                .iter()
                .filter(|brought| brought.name == *name)
                .find_map(|brought| self.resolve(module, &brought.path, depth + 1))
        };
        // a function may be named as a module is: the last word of a path is the function
        if last {
            if here.items.contains(name) {
                return Some(Target::Item(module));
            }
            if let Some(target) = brought().or(child) {
                return Some(target);
            }
        } else {
            if let Some(target) = child.or_else(brought) {
                return Some(target);
            }
            if here.items.contains(name) {
                return Some(Target::Item(module));
            }
        }
        for glob in here.uses.iter().filter(|brought| brought.name == "*") {
            if let Some(Target::Module(of)) = self.resolve(module, &glob.path, depth + 1)
                && of != module
                && let Some(target) = self.member(of, name, last, true, depth + 1)
            {
                return Some(target);
            }
        }
        // not found among what the text defines: a macro made it, unless the path starts here
        (!first && !here.uses.iter().any(|brought| brought.name == *name)).then_some(Target::Item(module))
    }
}

/// The leaves of a tree of `use`: each name with its whole path.
fn use_tree(tokens: &[TokenTree], before: &[String], found: &mut Vec<(String, Vec<String>)>) {
    for branch in tokens.split(|token| is_punct(token, ',')) {
        let mut path = before.to_vec();
        let mut name = None;
        let mut at = 0;
        let mut is_group = false;
        while at < branch.len() {
            match &branch[at] {
                TokenTree::Ident(word) if word == "as" => {
                    name = ident(branch.get(at + 1));
                    at += 1;
                }
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Punct(sign) if sign.as_char() == '*' => path.push("*".into()),
                TokenTree::Group(group) => {
                    use_tree(&trees(group.stream()), &path, found);
                    is_group = true;
                }
                _ => {}
            }
            at += 1;
        }
        if is_group || path.len() == before.len() {
            continue;
        }
        // `use a::{self, b}` brings in `a`
        if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
            path.pop();
        }
        let last = path.last().cloned().unwrap_or_default();
        found.push((name.unwrap_or(last), path));
    }
}

fn trees(tokens: TokenStream) -> Vec<TokenTree> {
    tokens.into_iter().collect()
}

fn first(token: &TokenTree) -> Option<TokenTree> {
    match token {
        TokenTree::Group(group) => group.stream().into_iter().next(),
        _ => None,
    }
}

/// Whether a word in the parentheses after `pub` limits who sees the thing.
fn is_scope(word: &str) -> bool {
    matches!(word, "crate" | "super" | "self" | "in")
}

fn ident(token: Option<&TokenTree>) -> Option<String> {
    match token? {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    }
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

fn is_joint(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.spacing() == proc_macro2::Spacing::Joint)
}

/// Whether the tokens at this place are `::`.
fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    tokens
        .get(at)
        .is_some_and(|token| is_punct(token, ':') && is_joint(token))
        && tokens.get(at + 1).is_some_and(|token| is_punct(token, ':'))
}

/// Where an attribute ends that starts here (`#[…]`, `#![…]`).
fn attribute_end(tokens: &[TokenTree], at: usize) -> usize {
    let inner = tokens.get(at + 1).is_some_and(|token| is_punct(token, '!'));
    (at + 2 + usize::from(inner)).min(tokens.len())
}

/// Whether these are the brackets of `#[cfg(test)]`, or of `#[path]`, by which benchmarks borrow files of tests.
fn is_left_out(brackets: &TokenTree) -> bool {
    let TokenTree::Group(group) = brackets else {
        return false;
    };
    let text: String = group
        .stream()
        .to_string()
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,") || text.starts_with("path=")
}

/// Where the item, field or statement ends that starts here.
fn item_end(tokens: &[TokenTree], mut at: usize) -> usize {
    const ITEMS: [&str; 7] = ["fn", "impl", "struct", "enum", "trait", "mod", "type"];
    let mut is_item = false;
    // a value may hold braces before its end
    let mut to_semicolon = false;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(sign) if sign.as_char() == ';' => return at + 1,
            TokenTree::Punct(sign) if sign.as_char() == ',' && !is_item && !to_semicolon => return at + 1,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && !to_semicolon => {
                return at + 1;
            }
            TokenTree::Ident(word) => {
                is_item |= ITEMS.iter().any(|item| word == item);
                let value = word == "static" || word == "const" || word == "use" || word == "let";
                to_semicolon = (to_semicolon || value) && !is_item;
            }
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports of a made-up crate, as `from > to: names`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = of_crate(folder.path(), Path::new("src/lib.rs")).unwrap();
        found
            .iter()
            .map(|((from, to), names)| {
                let short = |file: &Path| file.strip_prefix("src").unwrap().display().to_string();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                format!("{} > {}: {}", short(from), short(to), names.join(" "))
            })
            .collect()
    }

    #[test]
    fn an_import_leads_to_the_file_that_defines_the_name() {
        let found = imports(&[
            (
                "src/lib.rs",
                "mod a; mod b; mod c; pub use b::Thing; pub use c::deep;",
            ),
            (
                "src/a.rs",
                "use crate::{Thing, c::deep::{self, Low as Lower}}; fn f() { deep::run(); crate::c::top(); }",
            ),
            ("src/b.rs", "pub struct Thing; impl Thing { fn a() {} }"),
            (
                "src/c.rs",
                "pub(crate) mod deep; pub(crate) use deep::High; pub fn top() {}",
            ),
            (
                "src/c/deep.rs",
                "pub struct Low; pub struct High; pub fn run() { super::top() }",
            ),
        ]);
        assert_eq!(
            found,
            [
                "a.rs > b.rs: Thing",
                "a.rs > c/deep.rs: Low run",
                "a.rs > c.rs: top",
                "c/deep.rs > c.rs: top",
            ]
        );
    }

    #[test]
    fn tests_comments_and_other_crates_import_nothing() {
        let found = imports(&[
            ("src/lib.rs", "mod a; mod b;"),
            (
                "src/a.rs",
                "//! crate::b::Thing\n use std::fmt; #[cfg(test)] use crate::b::Thing; fn f() { \"crate::b::Thing\"; }
                 #[cfg(test)] mod tests { use crate::b::Thing; } #[cfg(test)] mod missing;
                 struct S { #[cfg(test)] t: crate::b::Thing, u: u32 }",
            ),
            (
                "src/b.rs",
                "pub struct Thing; pub(in crate::a) struct Other; #[derive(Debug)] struct T(u8);",
            ),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_reexport_is_an_import_where_the_name_is_used_too() {
        let files = |code: &str| {
            imports(&[
                ("src/lib.rs", "mod a;"),
                ("src/a.rs", &format!("mod b; pub(crate) use b::Thing; {code}")),
                ("src/a/b.rs", "pub(crate) struct Thing;"),
            ])
        };
        assert_eq!(files(""), [""; 0]);
        assert_eq!(files("fn f(t: Thing) {}"), ["a.rs > a/b.rs: Thing"]);
        assert_eq!(files("fn f(t: b::Thing) {}"), ["a.rs > a/b.rs: Thing"]);
    }
}
