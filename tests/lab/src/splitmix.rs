//! SplitMix64: any two inputs give unrelated outputs.

/// The step of its sequence.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Its output function.
pub(crate) const fn mixed(input: u64) -> u64 {
    let mixed = (input ^ (input >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for seed 0 of the generator's reference implementation.
    #[test]
    fn it_is_the_published_sequence() {
        let outputs = [1, 2, 3].map(|n| mixed(STEP.wrapping_mul(n)));
        assert_eq!(outputs, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }
}
