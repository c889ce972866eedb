//! The conductor of cf: store, sources, batch loop and executor.
