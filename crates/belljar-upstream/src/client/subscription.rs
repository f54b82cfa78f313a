//! Subscribes to changes of tools at servers of versions without `initialize`, which notify only subscribers (MCP
//! 2026-07-28, `subscriptions/listen`). Servers of earlier versions notify every client.
//!
//! It does not read the tools again; a caller that needs them does.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ServerNotification, SubscriptionFilter};
use rmcp::service::{Peer, ServiceError, Subscription};
use tokio::task::JoinSet;

use super::handler::Changes;

/// First and longest pause before a subscription that the server has ended is renewed.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// Subscribes until the returned set is dropped, if the server says that it notifies about changed tools.
pub(crate) fn subscribe(peer: &Peer<RoleClient>, changes: &Changes) -> JoinSet<()> {
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
                // The tools may have changed between their listing and this subscription, without a notification.
                changes.tools_changed();
                if hear(subscription, &changes).await {
                    pause = BACK_OFF.0;
                }
            }
            // The server does not support subscriptions, whatever its capabilities say.
            Err(ServiceError::McpError(_)) => return,
            Err(error) => tracing::debug!(%error, "a server is not listened to"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(BACK_OFF.1);
    }
}

/// Receives notifications until the subscription ends. Returns whether there were any.
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
