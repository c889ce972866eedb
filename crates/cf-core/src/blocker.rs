//! Questions that a person must answer.

use crate::words;

words! {
    /// Where a blocker stands.
    pub enum BlockerStatus ("blocker status") {
        /// Nobody has answered.
        Open = "OPEN",
        /// A person answered; the answer goes into the next prompt.
        Answered = "ANSWERED",
        /// No answer is needed any more.
        Resolved = "RESOLVED",
    }
}

words! {
    /// Who asked.
    pub enum Asker ("asker") {
        /// `cf` itself, such as about processes that it could not end.
        System = "system",
        /// An agent, from within an attempt.
        Agent = "agent",
        /// A person.
        Human = "human",
    }
}
