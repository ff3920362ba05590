//! The bytes of a vocabulary's tokens, as a message.

use crate::TokenId;

/// The bytes of each token, and the tokens that end an answer.
#[derive(Debug)]
pub(crate) struct TokenTable {
    pub(crate) ends: Vec<TokenId>,
    pub(crate) tokens: Vec<Vec<u8>>,
}

impl TokenTable {
    /// As a message: the number of ends and the ends, then the tokens, each behind its length.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let number = |out: &mut Vec<u8>, number: usize| out.extend((number as u32).to_le_bytes());
        number(&mut out, self.ends.len());
        for end in &self.ends {
            number(&mut out, *end as usize);
        }
        for token in &self.tokens {
            number(&mut out, token.len());
            out.extend(token);
        }
        out
    }

    /// Of a message; `None` if the bytes are not a vocabulary.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<TokenTable> {
        fn number(rest: &mut &[u8]) -> Option<u32> {
            let (first, behind) = rest.split_first_chunk()?;
            *rest = behind;
            Some(u32::from_le_bytes(*first))
        }
        let mut rest = bytes;
        let ends = number(&mut rest)?;
        let ends = (0..ends).map(|_| number(&mut rest)).collect::<Option<_>>()?;
        let mut tokens = Vec::new();
        while !rest.is_empty() {
            let length = number(&mut rest)? as usize;
            let (token, behind) = rest.split_at_checked(length)?;
            tokens.push(token.to_vec());
            rest = behind;
        }
        Some(TokenTable { ends, tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::TokenTable;

    #[test]
    fn table_returns_from_its_bytes() {
        let table = TokenTable {
            ends: vec![1, 2],
            tokens: vec![b"a".to_vec(), Vec::new(), b"long one".to_vec()],
        };
        let bytes = table.to_bytes();
        let read = TokenTable::of_bytes(&bytes).unwrap();
        assert_eq!((read.ends, read.tokens), (table.ends, table.tokens));
        assert!(TokenTable::of_bytes(&bytes[..bytes.len() - 1]).is_none());
    }
}
