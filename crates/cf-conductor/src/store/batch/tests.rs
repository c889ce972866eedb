use super::*;
use crate::store::Store;

#[test]
fn events_without_an_action_are_not_read_for_what_reconciliation_did() {
    let mut store = Store::in_memory().unwrap();
    let batch = BatchId(uuid::Uuid::from_u128(7));
    let by = cf_core::Actor::Batch(batch);
    let seqs = store
        .write(&by, |tx| {
            let mut seqs = Vec::new();
            for n in 0..50 {
                let mut event = Event::new(EventType::BatchTaskSkipped).batch(batch);
                if n % 10 == 0 {
                    event = event.with("action", "SKIP");
                }
                seqs.push(tx.append(event)?);
            }
            tx.append(Event::new(EventType::BatchTaskSkipped).with("action", "SKIP"))?;
            Ok(seqs)
        })
        .unwrap();
    let read = |after| {
        let events = store
            .read(|reader| reader.reconciliation_events_after(batch, after))
            .unwrap();
        events.iter().map(|event| event.seq).collect::<Vec<_>>()
    };
    assert_eq!(read(0), [seqs[0], seqs[10], seqs[20], seqs[30], seqs[40]]);
    assert_eq!(read(seqs[20]), [seqs[30], seqs[40]]);
    assert!(read(seqs[40]).is_empty());
    let plan: String = store
        .read(|reader| {
            reader
                .conn
                .query_row(
                    &format!("EXPLAIN QUERY PLAN {RECONCILIATION_EVENTS}"),
                    (batch.to_string(), 0),
                    |row| row.get("detail"),
                )
                .doing("explain")
        })
        .unwrap();
    assert!(
        plan.contains("USING INDEX event_action (batch=? AND seq>?)"),
        "{plan}"
    );
}
