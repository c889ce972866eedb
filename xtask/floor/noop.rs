//! A program that ends at once: the cheapest start there is, and the agent that does nothing.

fn main() {}
