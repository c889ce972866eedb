//! Deliveries to the webhook, one after the other, each tried a few times.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use cf_github::{Undelivered, Webhook};

use super::{Call, LOOK, Shared};

/// The waits before the second, third and fourth try.
const BACKOFF: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(16),
];

/// Delivers until nobody tells anything more. What waits when everything is over is left out.
pub(super) fn deliver(webhook: &Webhook, calls: &Receiver<Call>, shared: &Shared) {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            for call in calls {
                shared.note(&call, &format!("webhook: cannot be sent: {error}"));
            }
            return;
        }
    };
    for call in calls {
        let told = runtime.block_on(async {
            tokio::select! {
                biased;
                sent = one(webhook, &call) => sent,
                () = over(shared) => Err("left out: the batch has ended".to_owned()),
            }
        });
        let told = told.map_or_else(
            |why| format!("webhook: {why}"),
            |()| "webhook: delivered".to_owned(),
        );
        shared.note(&call, &told);
    }
}

/// Delivers one, tried again as long as that may help.
///
/// # Errors
///
/// In words, why it was given up.
async fn one(webhook: &Webhook, call: &Call) -> Result<(), String> {
    let delivery = crate::ambient::fresh_id().to_string();
    let mut waits = BACKOFF.into_iter();
    loop {
        let Err(Undelivered { why, passing }) =
            webhook.send(call.kind, &delivery, &call.body).await
        else {
            return Ok(());
        };
        match waits.next().filter(|_| passing) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => return Err(format!("given up: {why}")),
        }
    }
}

/// Ends when everything is over.
async fn over(shared: &Shared) {
    while !shared.is_over() {
        tokio::time::sleep(LOOK).await;
    }
}
