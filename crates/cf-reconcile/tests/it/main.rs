//! The tables of this crate as a whole: printed for people, and played through against an outside world.

mod grid;
mod printed;
mod simulation;
