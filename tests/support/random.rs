//! What decides in `make chaos` and `make soak`: numbers from a seed, and the numbers of the command line.

/// SplitMix64: small, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    /// A number below the bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// One of them.
    pub fn of<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.below(things.len() as u64) as usize]
    }
}

/// The number after an option; the default when it is not there.
pub fn option(name: &str, default: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let after = arguments.iter().position(|argument| argument == name).map(|at| at + 1);
    after.map_or(default, |at| {
        arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name} NUMBER"))
    })
}
