//! Arrays of records that a plugin fills, checked afterwards: which ones it filled, and whether it
//! wrote behind the last one.
//!
//! Invariant: a record that the plugin did not fill is never taken for an answer.

use polychip_abi as abi;
use polychip_abi::Sized;

/// Records behind the last one, which a plugin must not touch.
const SPARE: usize = 2;

/// A reason that no plugin gives: the record is not filled.
const UNANSWERED: u32 = u32::MAX;

/// Records for the answers of `query_support`, one for each of `nodes` nodes.
pub struct SupportRecords {
    records: Vec<abi::polychip_support>,
    nodes: usize,
}

impl SupportRecords {
    /// Empty records.
    #[must_use]
    pub fn new(nodes: usize) -> SupportRecords {
        let empty = abi::polychip_support {
            reason: UNANSWERED,
            ..abi::polychip_support::sized()
        };
        SupportRecords {
            records: vec![empty; nodes + SPARE],
            nodes,
        }
    }

    /// Address of the first record, for the plugin.
    pub fn as_mut_ptr(&mut self) -> *mut abi::polychip_support {
        self.records.as_mut_ptr()
    }

    /// The answers, one for each node.
    ///
    /// # Errors
    /// The plugin answered for fewer nodes or for more, as text.
    pub fn answers(&self) -> Result<&[abi::polychip_support], String> {
        let (answers, spare) = self.records.split_at(self.nodes);
        let is_touched = |record: &abi::polychip_support| {
            record.reason != UNANSWERED
                || record.detail_len != 0
                || record.detail.iter().any(|byte| *byte != 0)
        };
        if spare.iter().any(is_touched) {
            return Err(format!(
                "query_support wrote behind its records: it answered for more than the {} nodes of the graph",
                self.nodes
            ));
        }
        let answered = answers
            .iter()
            .filter(|record| record.reason != UNANSWERED)
            .count();
        if answered < self.nodes {
            return Err(format!(
                "query_support answered for {answered} of {} nodes",
                self.nodes
            ));
        }
        Ok(answers)
    }
}

/// Records for the answers of `estimate`, one for each of `parts` parts.
pub struct CostRecords {
    records: Vec<abi::polychip_cost>,
    parts: usize,
}

impl CostRecords {
    /// Empty records.
    #[must_use]
    pub fn new(parts: usize) -> CostRecords {
        CostRecords {
            records: vec![abi::polychip_cost::sized(); parts + SPARE],
            parts,
        }
    }

    /// Address of the first record, for the plugin.
    pub fn as_mut_ptr(&mut self) -> *mut abi::polychip_cost {
        self.records.as_mut_ptr()
    }

    /// The costs, one for each part.
    ///
    /// # Errors
    /// The plugin wrote behind the last one, as text.
    pub fn costs(&self) -> Result<&[abi::polychip_cost], String> {
        let (costs, spare) = self.records.split_at(self.parts);
        let is_touched =
            |record: &abi::polychip_cost| record.valid != 0 || record.flags != 0 || record.time_ns != 0;
        if spare.iter().any(is_touched) {
            return Err(format!(
                "estimate wrote behind its records: it estimated more than the {} parts that it was asked for",
                self.parts
            ));
        }
        Ok(costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_additional_answers_are_errors() {
        let mut records = SupportRecords::new(3);
        for index in 0..3 {
            assert_eq!(
                records.answers().err().unwrap(),
                format!("query_support answered for {index} of 3 nodes")
            );
            records.records[index].reason = abi::POLYCHIP_SUPPORT_YES;
        }
        assert_eq!(records.answers().unwrap().len(), 3);
        records.records[3].reason = abi::POLYCHIP_SUPPORT_YES;
        assert!(records.answers().err().unwrap().contains("more than the 3 nodes"));
        let mut costs = CostRecords::new(1);
        assert_eq!(costs.costs().unwrap().len(), 1);
        costs.records[1].valid = 1;
        assert!(costs.costs().err().unwrap().contains("more than the 1 parts"));
    }
}
