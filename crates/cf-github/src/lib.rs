//! GitHub as a typed, cached and paced client that answers what is known about many links at once.
