//! Ids from a seed.

use crate::rng::Rng;

/// A UUID of version 4 whose random bits come from the seed.
pub(crate) fn id(rng: &mut Rng) -> String {
    let (high, low) = (rng.next(), rng.next());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_uuid_and_the_same_for_the_same_seed() {
        let one = id(&mut Rng::of_round(1, 2));
        assert_eq!(one, id(&mut Rng::of_round(1, 2)));
        let lengths: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&one[14..15], "4");
    }
}
