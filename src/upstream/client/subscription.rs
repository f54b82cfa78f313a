//! Hears of changed tools from servers without a handshake: they tell only those that listen (MCP 2026-07-28,
//! `subscriptions/listen`). Servers of earlier versions tell everybody.
//!
//! It reads no list again; whoever needs the tools does.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ServerNotification, SubscriptionFilter};
use rmcp::service::{Peer, ServiceError, Subscription};
use tokio::task::JoinSet;

use super::handler::Changes;

/// First and longest pause before a server that has ended a subscription is listened to again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// Listens until it is dropped, where the server says that it tells of changed tools.
pub(in crate::upstream) fn subscribe(peer: &Peer<RoleClient>, changes: &Changes) -> JoinSet<()> {
    let mut listening = JoinSet::new();
    let tools = peer.peer_info().and_then(|info| info.capabilities.tools.clone());
    if tools.is_some_and(|tools| tools.list_changed == Some(true)) {
        listening.spawn(listen(peer.clone(), changes.clone()));
    }
    listening
}

async fn listen(peer: Peer<RoleClient>, changes: Changes) {
    let mut pause = BACK_OFF.0;
    while !peer.is_transport_closed() {
        match peer.listen(SubscriptionFilter::builder().tools_list_changed().build()).await {
            Ok(subscription) if subscription.acknowledged().tools_list_changed != Some(true) => return,
            Ok(subscription) => {
                // What has changed since the tools were read, and nobody listened, was not told.
                changes.tools_changed();
                if hear(subscription, &changes).await {
                    pause = BACK_OFF.0;
                }
            }
            // It has no such thing, whatever it says of itself.
            Err(ServiceError::McpError(_)) => return,
            Err(error) => tracing::debug!(%error, "a server is not listened to"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(BACK_OFF.1);
    }
}

/// Until the subscription ends; whether anything was told.
async fn hear(mut subscription: Subscription, changes: &Changes) -> bool {
    let mut has_told = false;
    loop {
        match subscription.next().await {
            Ok(Some(ServerNotification::ToolListChangedNotification(_))) => {
                changes.tools_changed();
                has_told = true;
            }
            Ok(Some(_)) => {}
            Ok(None) => return has_told,
            Err(error) => {
                tracing::debug!(%error, "a subscription has ended");
                return has_told;
            }
        }
    }
}
