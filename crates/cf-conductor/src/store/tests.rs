//! What holds for every transaction.

use cf_core::Actor;

use super::{Durability, Store};

#[test]
fn a_transaction_is_as_durable_as_is_asked_for_however_often_that_changes() {
    let mut store = Store::in_memory().unwrap();
    let levels = [(Durability::Full, 2), (Durability::Normal, 1)];
    for (durability, level) in levels.into_iter().cycle().take(6) {
        store.write_as(&Actor::Cli, durability, |_| Ok(())).unwrap();
        let is: i64 = store
            .conn
            .pragma_query_value(None, "synchronous", |row| row.get(0))
            .unwrap();
        assert_eq!(is, level, "{durability:?}");
    }
}

/// The flags are set for this workspace as a whole (`.cargo/config.toml`), far from what they are about: a crate that
/// builds SQLite in another way would lose them without a word. SQLite does not tell whether it uses `fdatasync`.
#[test]
fn sqlite_is_built_as_the_workspace_asks_for() {
    let store = Store::in_memory().unwrap();
    let mut options = store.conn.prepare("PRAGMA compile_options").unwrap();
    let options: Vec<String> = options
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let is_set = |option: &str| options.iter().any(|set| set == option);
    assert!(is_set("THREADSAFE=2"), "{options:?}");
    assert!(is_set("DEFAULT_MEMSTATUS=0"), "{options:?}");
    assert!(is_set("OMIT_LOAD_EXTENSION"), "{options:?}");
    assert!(!is_set("ENABLE_FTS5"), "{options:?}");
}
