//! The SoCs that the vendor's library accepts, and the known facts about each.
//!
//! Invariant: *accepted* means that a device can be created, not that the SoC has an HTP.
//!
//! Not here: the ops of a SoC (`support`). If public clients do not name the architecture of a SoC,
//! it counts as v68, the oldest, so that unknown features are refused.

/// One SoC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Soc {
    /// The vendor's number.
    pub(crate) id: u32,
    /// Hexagon architecture.
    pub(crate) arch: u32,
}

/// The SoC that validates before a device is created.
pub(crate) const DEFAULT: Soc = Soc { id: 30, arch: 68 };

/// Ids that `deviceCreate` accepts.
const ACCEPTED: [(u32, u32); 8] = [
    (1, 13),
    (15, 21),
    (25, 43),
    (45, 78),
    (82, 97),
    (99, 120),
    (122, 122),
    (123, 123),
];

/// Architectures of the SoCs that ExecuTorch names, without those of v68.
const ARCHS: [(u32, u32); 18] = [
    (36, 69),
    (42, 69),
    (43, 73),
    (45, 73),
    (46, 73),
    (52, 73),
    (53, 69),
    (57, 75),
    (58, 73),
    (69, 79),
    (72, 81),
    (75, 79),
    (77, 73),
    (87, 81),
    (95, 81),
    (96, 81),
    (97, 81),
    (30, 68),
];

/// Ids on which finalize emits estimates.
const ESTIMATED: [u32; 7] = [52, 62, 63, 72, 77, 95, 114];

impl Soc {
    /// The SoC of this id, if a device can be created for it.
    pub(crate) fn from_id(id: u32) -> Option<Soc> {
        ACCEPTED
            .iter()
            .any(|&(first, last)| (first..=last).contains(&id))
            .then(|| Soc {
                id,
                arch: ARCHS
                    .iter()
                    .find(|(known, _)| *known == id)
                    .map_or(68, |&(_, arch)| arch),
            })
    }

    /// The SoC that a request for an architecture selects; others are silently ignored.
    pub(crate) fn from_arch(arch: u32) -> Soc {
        match arch {
            73 => Soc { id: 43, arch },
            75 => Soc { id: 57, arch },
            79 => Soc { id: 69, arch },
            81 => Soc { id: 87, arch },
            _ => DEFAULT,
        }
    }

    /// Whether tensors of 32-bit floats are computed with the accuracy of 16.
    pub(crate) fn halves(self) -> bool {
        self.arch > 68
    }

    /// Whether finalize emits estimates.
    pub(crate) fn estimates(self) -> bool {
        ESTIMATED.contains(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_were_tried() {
        let accepted = (0..=130).filter(|&id| Soc::from_id(id).is_some()).count();
        assert_eq!(accepted, 13 + 7 + 19 + 34 + 16 + 22 + 2);
        for id in [0, 14, 22, 24, 44, 79, 81, 98, 121, 124] {
            assert_eq!(Soc::from_id(id), None, "{id}");
        }
        for (arch, id) in [
            (68, 30),
            (73, 43),
            (75, 57),
            (79, 69),
            (81, 87),
            (60, 30),
            (91, 30),
        ] {
            assert_eq!(Soc::from_arch(arch).id, id, "v{arch}");
        }
        assert!(Soc::from_id(72).unwrap().estimates() && !Soc::from_id(57).unwrap().estimates());
        assert!(Soc::from_id(36).unwrap().halves() && !DEFAULT.halves());
    }
}
