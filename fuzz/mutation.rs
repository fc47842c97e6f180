//! Inputs made from others by chance: each number gives one, always the same.

/// Values at which a length, a count or an offset goes wrong, when it does.
const EDGES: [u64; 12] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, u64::MAX];

/// SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`; 0 if that is 0.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % (bound.max(1) as u64)) as usize
    }
}

/// One of `inputs`, with one to eight changes.
pub(crate) fn mutated(inputs: &[Vec<u8>], number: u64, longest: usize) -> Vec<u8> {
    let mut chance = Chance(number);
    let mut bytes = inputs[chance.below(inputs.len())].clone();
    bytes.truncate(longest);
    for _ in 0..=chance.below(8) {
        change(&mut bytes, inputs, &mut chance);
        bytes.truncate(longest);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, inputs: &[Vec<u8>], chance: &mut Chance) {
    let at = chance.below(bytes.len());
    let length = 1 + chance.below(64.min(bytes.len()));
    let end = (at + length).min(bytes.len());
    match chance.below(8) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << chance.below(8),
        1 if !bytes.is_empty() => bytes[at] = chance.next() as u8,
        2 => drop(bytes.drain(at..end)),
        3 => bytes.truncate(at),
        // Again what was there.
        4 => {
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
        // A number in either byte order.
        5 => {
            let width = [1, 2, 4, 8][chance.below(4)];
            let edge = EDGES[chance.below(EDGES.len())].wrapping_add(chance.below(3) as u64).wrapping_sub(1);
            let mut part = edge.to_le_bytes()[..width].to_vec();
            if chance.below(2) == 0 {
                part.reverse();
            }
            let end = (at + width).min(bytes.len());
            bytes.splice(at..end, part);
        }
        // A piece of another input, over what was there or between.
        6 => {
            let other = &inputs[chance.below(inputs.len())];
            let from = chance.below(other.len());
            let part = other[from..(from + length).min(other.len())].to_vec();
            let end = if chance.below(2) == 0 { at } else { end };
            bytes.splice(at..end, part);
        }
        _ => bytes.insert(at, b"0123456789.\"[]=\n\r\t -\0\xff"[chance.below(22)]),
    }
}
