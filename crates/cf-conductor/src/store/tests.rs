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
