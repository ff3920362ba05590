//! Reading the text form.
//!
//! Invariants:
//! 1. Bad text is an error with its line; sizes that lie allocate nothing.
//! 2. A tensor is declared once, before it is read; a node's outputs are declared where it stands.

use std::collections::BTreeMap;
use std::sync::Arc;

use polychip_ops::{AttrKey, AttrValue, Attributes, BlockLayout, DType, Dim, Literal, Op, TensorType};

use super::lex::{Token, lex};
use super::values;
use crate::{
    Body, Capture, Constant, Container, Encoding, EncodingAxis, Error, Graph, Group, GroupKind, Node, NodeId,
    State, Tensor, TensorId,
};

/// Deepest nesting of bodies and decompositions.
const DEPTH: usize = 32;

pub(super) fn parse(text: &str) -> Result<Graph, Error> {
    parse_within(text, values::DRAWN_IN_ALL)
}

/// Reads a text that draws at most so many bytes from seeds.
pub(super) fn parse_within(text: &str, drawable: usize) -> Result<Graph, Error> {
    let mut parser = Parser {
        tokens: lex(text)?,
        at: 0,
        depth: 0,
        drawable,
    };
    parser.word("graph")?;
    let graph = parser.graph()?;
    match parser.peek() {
        Token::End => Ok(graph),
        _ => parser.expected("the end"),
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    /// Bytes that may yet be drawn from seeds.
    drawable: usize,
}

/// Tensors of the graph that is read, by the number that the text gives them.
type Known = BTreeMap<String, TensorId>;

impl Parser {
    /// An error about the token just read.
    fn error(&self, message: impl Into<String>) -> Error {
        let (line, _) = self.tokens[self.at.saturating_sub(1).min(self.tokens.len() - 1)];
        Error::text(line, message)
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].1
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn expected<T>(&mut self, what: &str) -> Result<T, Error> {
        let (line, found) = &self.tokens[self.at.min(self.tokens.len() - 1)];
        Err(Error::text(
            *line,
            format!("expected {what}, not {}", found.show()),
        ))
    }

    fn is_mark(&self, mark: &str) -> bool {
        matches!(self.peek(), Token::Mark(found) if *found == mark)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if found == word)
    }

    fn eat_mark(&mut self, mark: &str) -> bool {
        let found = self.is_mark(mark);
        self.at += usize::from(found);
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn mark(&mut self, mark: &str) -> Result<(), Error> {
        if self.eat_mark(mark) {
            Ok(())
        } else {
            self.expected(&format!("`{mark}`"))
        }
    }

    fn word(&mut self, word: &str) -> Result<(), Error> {
        if self.eat_word(word) {
            Ok(())
        } else {
            self.expected(&format!("`{word}`"))
        }
    }

    fn any_word(&mut self, what: &str) -> Result<String, Error> {
        match self.peek() {
            Token::Word(_) => match self.next() {
                Token::Word(word) => Ok(word),
                _ => unreachable!("invariant: it was a word"),
            },
            _ => self.expected(what),
        }
    }

    fn text(&mut self, what: &str) -> Result<String, Error> {
        match self.peek().clone() {
            Token::Text(text) => {
                self.at += 1;
                Ok(text)
            }
            _ => self.expected(what),
        }
    }

    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, Error> {
        let parsed = match self.peek() {
            Token::Word(word) => word.parse().ok(),
            _ => None,
        };
        match parsed {
            Some(number) => {
                self.at += 1;
                Ok(number)
            }
            None => self.expected(what),
        }
    }

    fn hex(&mut self) -> Result<u32, Error> {
        let word = self.any_word("a number as 0x00000000")?;
        let digits = word
            .strip_prefix("0x")
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        digits.ok_or_else(|| self.error(format!("`{word}` is no number as 0x00000000")))
    }

    /// `[a, b, …]`.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Parser) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        self.mark("[")?;
        let mut items = Vec::new();
        while !self.eat_mark("]") {
            if !items.is_empty() {
                self.mark(",")?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// What follows `graph`, `body …` or `decomposition`.
    fn graph(&mut self) -> Result<Graph, Error> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.error(format!("graphs are nested more than {DEPTH} deep")));
        }
        let mut graph = Graph::new(self.text("the graph's name")?);
        let mut known = Known::new();
        let mut nodes: Vec<NodeId> = Vec::new();
        self.mark("{")?;
        while !self.eat_mark("}") {
            if self.eat_word("input") {
                let id = self.declare(&mut graph, &mut known)?;
                graph.inputs.push(id);
            } else if self.eat_word("missing") {
                self.declare(&mut graph, &mut known)?;
            } else if self.eat_word("const") {
                let id = self.declare(&mut graph, &mut known)?;
                self.mark("=")?;
                let ty = graph.tensor(id).ty.clone();
                let blocks = graph
                    .tensor(id)
                    .encoding
                    .as_ref()
                    .and_then(Encoding::block_layout);
                let bytes = self.elements(&ty, blocks)?;
                graph.tensor_mut(id).data = Some(Constant::new(bytes));
            } else if self.eat_word("output") {
                let id = self.tensor(&known)?;
                graph.outputs.push(id);
            } else if self.eat_word("state") {
                let input = self.tensor(&known)?;
                self.mark("->")?;
                let output = self.tensor(&known)?;
                graph.states.push(State { input, output });
            } else if self.eat_word("group") {
                let word = self.any_word("the kind of the group")?;
                let kind = GroupKind::ALL.into_iter().find(|kind| kind.name() == word);
                let kind = kind.ok_or_else(|| self.error(format!("there is no group kind `{word}`")))?;
                let members = self.list(|parser| {
                    let word = parser.any_word("a node as n0")?;
                    let index = word
                        .strip_prefix('n')
                        .and_then(|digits| digits.parse::<usize>().ok());
                    let node = index.and_then(|index| nodes.get(index)).copied();
                    node.ok_or_else(|| parser.error(format!("there is no node `{word}` before the group")))
                })?;
                graph.groups.push(Group { kind, nodes: members });
            } else {
                nodes.push(self.node(&mut graph, &mut known)?);
            }
        }
        self.depth -= 1;
        Ok(graph)
    }

    /// A tensor that was declared.
    fn tensor(&mut self, known: &Known) -> Result<TensorId, Error> {
        let word = self.any_word("a tensor as t0")?;
        known
            .get(&word)
            .copied()
            .ok_or_else(|| self.error(format!("tensor `{word}` is not declared before")))
    }

    /// Declares `t0 "name": type …`.
    fn declare(&mut self, graph: &mut Graph, known: &mut Known) -> Result<TensorId, Error> {
        let word = self.any_word("a tensor as t0")?;
        if !word
            .strip_prefix('t')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        {
            return Err(self.error(format!("expected a tensor as t0, not `{word}`")));
        }
        let mut tensor = Tensor::untyped(self.text("the tensor's name")?);
        self.mark(":")?;
        for container in Container::ALL {
            if container != Container::Tensor && self.eat_word(container.name()) {
                tensor.container = container;
            }
        }
        if !self.eat_word("untyped") {
            tensor.ty = self.ty()?;
            tensor.typed = true;
        }
        tensor.upper_bound = self.eat_word("bound");
        if self.eat_word("encoded") {
            tensor.encoding = Some(self.encoding()?);
        }
        let id = graph.add_tensor(tensor);
        if known.insert(word.clone(), id).is_some() {
            return Err(self.error(format!("tensor `{word}` is declared twice")));
        }
        Ok(id)
    }

    fn dtype(&mut self) -> Result<DType, Error> {
        let word = self.any_word("an element type")?;
        DType::from_name(&word).ok_or_else(|| self.error(format!("there is no element type `{word}`")))
    }

    fn ty(&mut self) -> Result<TensorType, Error> {
        let dtype = self.dtype()?;
        if let (true, Some((_, Token::Mark("..")))) = (self.is_mark("["), self.tokens.get(self.at + 1)) {
            self.at += 2;
            self.mark("]")?;
            return Ok(TensorType::unranked(dtype));
        }
        let dims = self.list(|parser| {
            if parser.eat_mark("?") {
                return Ok(Dim::Unknown);
            }
            match parser.peek().clone() {
                Token::Text(symbol) => {
                    parser.at += 1;
                    Ok(Dim::symbol(&symbol))
                }
                Token::Word(word) if word.starts_with(|c: char| c.is_ascii_digit()) => {
                    Ok(Dim::Known(parser.number("a size")?))
                }
                Token::Word(word) => {
                    parser.at += 1;
                    Ok(Dim::symbol(&word))
                }
                _ => parser.expected("a size"),
            }
        })?;
        Ok(TensorType::new(dtype, dims))
    }

    fn encoding(&mut self) -> Result<Encoding, Error> {
        let real = self.dtype()?;
        self.word("per")?;
        let axis = if self.eat_word("tensor") {
            EncodingAxis::PerTensor
        } else if self.eat_word("axis") {
            EncodingAxis::PerAxis(self.number("an axis")?)
        } else if self.eat_word("block") {
            EncodingAxis::PerBlock {
                axis: self.number("an axis")?,
                block: self.number("a block size")?,
            }
        } else if self.eat_word("blocks") {
            let named = |layout: &BlockLayout| self.eat_word(layout.name());
            match BlockLayout::ALL.into_iter().find(named) {
                Some(layout) => EncodingAxis::Blocks(layout),
                None => return self.expected("a layout of blocks"),
            }
        } else {
            return self.expected("`tensor`, `axis`, `block` or `blocks`");
        };
        let scales = self.list(Parser::float)?;
        let zero_points = self.list(|parser| parser.number("a zero point"))?;
        Ok(Encoding {
            axis,
            scales: scales.into(),
            zero_points: zero_points.into(),
            real,
        })
    }

    fn float(&mut self) -> Result<f32, Error> {
        if self.eat_word("bits") {
            return Ok(f32::from_bits(self.hex()?));
        }
        let word = self.any_word("a float")?;
        let value = values::parse_float(&word).ok_or_else(|| self.error(format!("`{word}` is no float")))?;
        #[allow(clippy::cast_possible_truncation)] // the text is that of a 32-bit float
        Ok(value as f32)
    }

    /// Elements of a constant of this type, or its blocks.
    fn elements(&mut self, ty: &TensorType, blocks: Option<BlockLayout>) -> Result<Vec<u8>, Error> {
        let Some(count) = ty.elements() else {
            return Err(self.error(format!("a constant has the type {ty}")));
        };
        let blocks = blocks.map(|layout| ty.sizes().and_then(|sizes| layout.byte_len(&sizes)));
        let bytes = if self.is_mark("[") && blocks.is_none() {
            if ty.dtype == DType::String {
                let texts = self.list(|parser| parser.text("a text"))?;
                let literal = Literal::from_strings(&texts).filter(|_| texts.len() == count);
                let literal = literal.ok_or_else(|| self.error(format!("type {ty} needs {count} texts")))?;
                return Ok(literal.bytes.to_vec());
            }
            let numbers = self.list(|parser| parser.any_word("a number"))?;
            values::bytes_of(ty.dtype, &numbers)
                .ok_or_else(|| self.error(format!("a number does not fit {}", ty.dtype)))?
        } else if self.eat_word("seed") {
            let seed = self.hex()?;
            let bytes = blocks.unwrap_or_else(|| ty.dtype.byte_len(count));
            let drawn = bytes.and_then(|bytes| {
                self.drawable = self.drawable.checked_sub(bytes)?;
                values::draw(ty.dtype, bytes, seed)
            });
            drawn.ok_or_else(|| self.error(format!("a constant of type {ty} cannot be drawn from a seed")))?
        } else if self.eat_word("hex") {
            let text = self.text("bytes")?;
            let digit = |byte: u8| {
                char::from(byte)
                    .to_digit(16)
                    .and_then(|digit| u8::try_from(digit).ok())
            };
            let pairs = text.as_bytes().chunks(2).map(|pair| match *pair {
                [high, low] => Some(digit(high)? << 4 | digit(low)?),
                _ => None,
            });
            pairs
                .collect::<Option<Vec<u8>>>()
                .ok_or_else(|| self.error("bytes are not hexadecimal pairs"))?
        } else {
            return self.expected("`[`, `seed` or `hex`");
        };
        let fits = match blocks.unwrap_or_else(|| ty.dtype.byte_len(count)) {
            Some(expected) => expected == bytes.len(),
            None if blocks.is_some() => false,
            None => ty
                .sizes()
                .and_then(|sizes| Literal::new(ty.dtype, sizes, &bytes[..]))
                .is_some(),
        };
        if fits {
            Ok(bytes)
        } else {
            Err(self.error(format!("{} bytes do not fit the type {ty}", bytes.len())))
        }
    }

    fn node(&mut self, graph: &mut Graph, known: &mut Known) -> Result<NodeId, Error> {
        let mut outputs = Vec::new();
        while !self.eat_mark("=") {
            if !outputs.is_empty() {
                self.mark(",")?;
            }
            outputs.push(if self.eat_word("_") {
                None
            } else {
                Some(self.declare(graph, known)?)
            });
        }
        let mut node = if self.eat_word("custom") {
            let domain = self.text("the op's domain")?;
            Node::custom(&domain, &self.text("the op's name")?, Vec::new(), outputs)
        } else {
            let word = self.any_word("an op")?;
            let op = Op::from_name(&word).ok_or_else(|| self.error(format!("there is no op `{word}`")))?;
            Node::new(op, Vec::new(), outputs)
        };
        node.name = self.text("the node's name")?;
        self.mark("(")?;
        while !self.eat_mark(")") {
            if !node.inputs.is_empty() {
                self.mark(",")?;
            }
            let input = if self.eat_word("_") {
                None
            } else {
                Some(self.tensor(known)?)
            };
            node.inputs.push(input);
        }
        if self.eat_mark("{") {
            node.attributes = self.attributes()?;
        }
        while self.eat_word("body") {
            let word = self.any_word("the body's attribute")?;
            let attr = polychip_ops::Attr::from_name(&word)
                .ok_or_else(|| self.error(format!("there is no attribute `{word}`")))?;
            let mut outer = Vec::new();
            self.mark("(")?;
            while !self.eat_mark(")") {
                if !outer.is_empty() {
                    self.mark(",")?;
                }
                let id = self.tensor(known)?;
                self.mark("->")?;
                self.any_word("a tensor of the body")?;
                outer.push(id);
            }
            let inner = self.graph()?;
            let Some(formals) = inner.inputs.len().checked_sub(outer.len()) else {
                return Err(self.error("a body has fewer inputs than captures"));
            };
            let captures = outer
                .iter()
                .zip(&inner.inputs[formals..])
                .map(|(&outer, &inner)| Capture { outer, inner })
                .collect();
            node.bodies.push(Body {
                attr,
                graph: inner,
                captures,
            });
        }
        if self.eat_word("decomposition") {
            node.decomposition = Some(Box::new(self.graph()?));
        }
        Ok(graph.add_node(node))
    }

    fn attributes(&mut self) -> Result<Attributes, Error> {
        let mut attributes = Attributes::new();
        while !self.eat_mark("}") {
            if !attributes.is_empty() {
                self.mark(",")?;
            }
            let name = match self.peek().clone() {
                Token::Text(name) | Token::Word(name) => name,
                _ => return self.expected("an attribute's name"),
            };
            self.at += 1;
            self.mark(":")?;
            let value = self.attribute()?;
            let key = AttrKey::from_name(&name);
            if attributes.get_key(&key).is_some() {
                return Err(self.error(format!("attribute `{name}` is given twice")));
            }
            attributes.set(key, value);
        }
        Ok(attributes)
    }

    fn attribute(&mut self) -> Result<AttrValue, Error> {
        if let Token::Text(_) = self.peek() {
            return Ok(AttrValue::String(self.text("a text")?.into()));
        }
        if self.eat_word("ints") {
            return Ok(AttrValue::Ints(self.list(|parser| parser.number("an integer"))?));
        }
        if self.eat_word("floats") {
            return Ok(AttrValue::Floats(self.list(Parser::float)?));
        }
        if self.eat_word("strings") {
            let texts = self.list(|parser| parser.text("a text"))?;
            return Ok(AttrValue::Strings(texts.into_iter().map(Arc::from).collect()));
        }
        if let Token::Word(word) = self.peek() {
            if let Ok(value) = word.parse() {
                self.at += 1;
                return Ok(AttrValue::Int(value));
            }
            if DType::from_name(word).is_some() {
                let ty = self.ty()?;
                self.mark("=")?;
                let bytes = self.elements(&ty, None)?;
                let literal = ty.sizes().and_then(|sizes| Literal::new(ty.dtype, sizes, bytes));
                return literal
                    .map(AttrValue::Tensor)
                    .ok_or_else(|| self.error(format!("an attribute has the type {ty}")));
            }
        }
        Ok(AttrValue::Float(self.float()?))
    }
}
