//! The words of the command line. Small enough that a parser would be more to read than what it replaces.

use std::collections::VecDeque;

use crate::problem::Problem;

/// The words that nobody has asked for yet.
pub(crate) struct Args(VecDeque<String>);

impl Args {
    pub(crate) fn from_env() -> Self {
        Self(std::env::args().skip(1).collect())
    }

    /// Takes the next word, whatever it is.
    pub(crate) fn next_word(&mut self) -> Option<String> {
        self.0.pop_front()
    }

    /// The words that are left.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Takes a flag, and tells whether it was there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|word| word != name);
        self.0.len() < before
    }

    /// Takes an option with its value, written `--name value` or `--name=value`.
    ///
    /// # Errors
    ///
    /// The option is there, and no value follows it.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let assigned = format!("{name}=");
        for at in 0..self.0.len() {
            if let Some(value) = self.0[at].strip_prefix(&assigned) {
                let value = value.to_owned();
                self.0.remove(at);
                return Ok(Some(value));
            }
            if self.0[at] == name {
                self.0.remove(at);
                return match self.0.remove(at) {
                    Some(value) => Ok(Some(value)),
                    None => Err(Problem::new(format!("{name} needs a value"))),
                };
            }
        }
        Ok(None)
    }

    /// Takes an option whose value may be left out: the next word is its value unless that is an option itself.
    pub(crate) fn value_or(&mut self, name: &str, left_out: &str) -> Option<String> {
        let follows = |word: &String| !word.starts_with("--");
        let alone = self.0.iter().position(|word| word == name);
        if let Some(at) = alone.filter(|at| !self.0.get(at + 1).is_some_and(follows)) {
            self.0.remove(at);
            return Some(left_out.to_owned());
        }
        self.value(name).ok().flatten()
    }

    /// Refuses what is left over.
    ///
    /// # Errors
    ///
    /// The first word that nobody asked for.
    pub(crate) fn finish(&mut self) -> Result<(), Problem> {
        match self.next_word() {
            None => Ok(()),
            Some(word) => Err(Problem::new(format!("{word:?} is not understood here"))
                .hint("`cargo xtask help` lists the chores and their options")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Args {
        Args(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn both_spellings_of_a_value_are_taken_and_flags_stay() {
        let mut args = args(&["--json", "a", "--quick", "--rounds=3"]);
        assert_eq!(args.value("--json").unwrap().as_deref(), Some("a"));
        assert_eq!(args.value("--rounds").unwrap().as_deref(), Some("3"));
        assert!(args.flag("--quick"));
        args.finish().unwrap();
    }

    #[test]
    fn a_value_may_be_left_out_where_that_is_said() {
        let taken = |words: &[&str]| args(words).value_or("--svg", "-");
        assert_eq!(taken(&["--quick"]), None);
        assert_eq!(taken(&["--svg"]).as_deref(), Some("-"));
        assert_eq!(taken(&["--svg", "--quick"]).as_deref(), Some("-"));
        assert_eq!(taken(&["--svg", "a.svg"]).as_deref(), Some("a.svg"));
        assert_eq!(taken(&["--svg=a.svg"]).as_deref(), Some("a.svg"));
    }

    #[test]
    fn a_word_that_nobody_asked_for_is_refused() {
        assert!(args(&["--quik"]).finish().is_err());
        assert!(args(&["--json"]).value("--json").is_err());
    }
}
