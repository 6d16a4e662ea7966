//! Cache lines under the MESI protocol.
//!
//! For each line and CPU there is a state: *modified* (the only copy, memory is
//! stale), *exclusive* (the only copy, memory has the same), *shared* (perhaps
//! one of several), *invalid* (none). A load needs any copy, a store the only
//! one; what an access has to fetch follows from the states alone.
//!
//! Caches are taken to be large enough: a line leaves one only because another
//! CPU stores to it. With thousands of CPUs a table of states would be mostly
//! invalid entries, so a line knows who has it: one owner, or a set of sharers.

/// A CPU's state of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The only copy, and newer than memory.
    Modified,
    /// The only copy, as memory has it.
    Exclusive,
    /// A copy, perhaps not the only one, as memory has it.
    Shared,
    /// None.
    Invalid,
}

/// Where an access found the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In the CPU's own cache, in a state that suffices: nothing is transferred.
    Here,
    /// In the cache of the CPU that owned it.
    At(usize),
    /// In memory, for a load of what nobody owns.
    Memory,
    /// For a store: copies, all of which lost it, on the CPUs from the first to
    /// the last of these two.
    Copies(usize, usize),
}

/// Who has a copy.
#[derive(Clone, Debug)]
enum Holders {
    /// One CPU alone; whether it has stored to it.
    Owner { cpu: usize, dirty: bool },
    /// Any number, none of which has stored to it since memory has it.
    Sharers(Set),
}

/// One line in the caches of all CPUs.
#[derive(Clone, Debug)]
pub struct Line {
    holders: Holders,
    cpus: usize,
}

impl Line {
    /// A line that none of `cpus` has.
    pub fn new(cpus: usize) -> Self {
        Self {
            holders: Holders::Sharers(Set::new(cpus)),
            cpus,
        }
    }

    /// The state of `cpu`'s copy.
    pub fn state(&self, cpu: usize) -> State {
        match &self.holders {
            Holders::Owner { cpu: owner, dirty } if *owner == cpu => match dirty {
                true => State::Modified,
                false => State::Exclusive,
            },
            Holders::Sharers(set) if set.contains(cpu) => State::Shared,
            _ => State::Invalid,
        }
    }

    /// `cpu` loads from the line.
    pub fn load(&mut self, cpu: usize) -> Found {
        match &mut self.holders {
            Holders::Owner { cpu: owner, .. } if *owner == cpu => Found::Here,
            Holders::Owner { cpu: owner, .. } => {
                let owner = *owner;
                let mut set = Set::new(self.cpus);
                set.insert(owner);
                set.insert(cpu);
                self.holders = Holders::Sharers(set);
                Found::At(owner)
            }
            Holders::Sharers(set) if set.contains(cpu) => Found::Here,
            Holders::Sharers(set) if set.bounds().is_none() => {
                self.holders = Holders::Owner { cpu, dirty: false };
                Found::Memory
            }
            Holders::Sharers(set) => {
                set.insert(cpu);
                Found::Memory
            }
        }
    }

    /// `cpu` stores to the line, or exchanges a word of it.
    pub fn store(&mut self, cpu: usize) -> Found {
        let found = match &self.holders {
            Holders::Owner { cpu: owner, .. } if *owner == cpu => Found::Here,
            Holders::Owner { cpu: owner, .. } => Found::At(*owner),
            Holders::Sharers(set) => set
                .bounds()
                .map_or(Found::Memory, |(first, last)| Found::Copies(first, last)),
        };
        self.holders = Holders::Owner { cpu, dirty: true };
        found
    }
}

/// A set of CPUs.
#[derive(Clone, Debug)]
struct Set(Vec<u64>);

impl Set {
    fn new(cpus: usize) -> Self {
        Self(vec![0; cpus.div_ceil(64)])
    }

    /// A CPU beyond those that there are is not entered.
    fn insert(&mut self, cpu: usize) {
        if let Some(word) = self.0.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }

    fn contains(&self, cpu: usize) -> bool {
        let word = self.0.get(cpu / 64).copied().unwrap_or(0);
        word >> (cpu % 64) & 1 == 1
    }

    /// The lowest and the highest.
    fn bounds(&self) -> Option<(usize, usize)> {
        let first = self.0.iter().position(|word| *word != 0)?;
        let last = self.0.iter().rposition(|word| *word != 0)?;
        let low = self.0.get(first)?.trailing_zeros() as usize;
        let high = self.0.get(last)?.ilog2() as usize;
        Some((first * 64 + low, last * 64 + high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CPUS: usize = 70;

    fn states(line: &Line) -> Vec<State> {
        (0..CPUS).map(|cpu| line.state(cpu)).collect()
    }

    #[test]
    fn the_first_load_is_exclusive_and_the_second_makes_both_share() {
        let mut line = Line::new(CPUS);
        assert_eq!(line.load(3), Found::Memory, "nobody has it");
        assert_eq!(line.state(3), State::Exclusive, "the only copy");
        assert_eq!(line.load(65), Found::At(3), "from the owner");
        assert_eq!(line.state(3), State::Shared, "the owner shares");
        assert_eq!(line.state(65), State::Shared, "so does the other");
        assert_eq!(line.load(4), Found::Memory, "memory is up to date");
        assert_eq!(line.load(4), Found::Here, "a second load hits");
    }

    #[test]
    fn a_store_to_an_exclusive_line_is_silent() {
        let mut line = Line::new(CPUS);
        line.load(3);
        assert_eq!(line.store(3), Found::Here, "nobody has to be asked");
        assert_eq!(line.state(3), State::Modified, "it is dirty now");
        assert_eq!(line.store(3), Found::Here, "a second store hits");
    }

    #[test]
    fn a_store_takes_every_copy_away() {
        let mut line = Line::new(CPUS);
        for cpu in [2, 64, 69] {
            line.load(cpu);
        }
        assert_eq!(line.store(64), Found::Copies(2, 69), "from first to last");
        assert_eq!(line.state(64), State::Modified, "the writer's");
        assert_eq!(line.state(2), State::Invalid, "a reader's");
        assert_eq!(line.store(1), Found::At(64), "ownership moves");
        assert_eq!(line.state(64), State::Invalid, "the old owner's");
        assert_eq!(line.load(64), Found::At(1), "the dirty copy is handed over");
        assert_eq!(line.state(1), State::Shared, "and memory has it too");
    }

    /// The protocol as textbooks have it, a state a CPU.
    fn naive(states: &mut [State], cpu: usize, stores: bool) -> bool {
        let owner = states
            .iter()
            .position(|state| matches!(state, State::Modified | State::Exclusive));
        let alone = states.iter().all(|state| *state == State::Invalid);
        let mine = states[cpu];
        if stores {
            states.fill(State::Invalid);
            states[cpu] = State::Modified;
            return matches!(mine, State::Modified | State::Exclusive);
        }
        if mine != State::Invalid {
            return true;
        }
        if let Some(owner) = owner {
            states[owner] = State::Shared;
        }
        states[cpu] = if alone {
            State::Exclusive
        } else {
            State::Shared
        };
        false
    }

    proptest! {
        #[test]
        fn states_are_those_of_the_textbook(
            accesses in prop::collection::vec((0..CPUS, any::<bool>()), 1..200),
        ) {
            let mut line = Line::new(CPUS);
            let mut textbook = vec![State::Invalid; CPUS];
            for (cpu, stores) in accesses {
                let found = if stores { line.store(cpu) } else { line.load(cpu) };
                let hit = naive(&mut textbook, cpu, stores);
                prop_assert_eq!(found == Found::Here, hit, "a hit of CPU {}", cpu);
                let now = states(&line);
                prop_assert_eq!(&now, &textbook, "after an access of CPU {}", cpu);
                let count = |wanted: &[State]| now.iter().filter(|s| wanted.contains(s)).count();
                let owners = count(&[State::Modified, State::Exclusive]);
                prop_assert!(owners <= 1, "{} owners", owners);
                prop_assert!(owners == 0 || count(&[State::Shared]) == 0, "a copy beside the only one");
            }
        }
    }
}
