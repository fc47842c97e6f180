//! Follows the devices of this namespace as they come, go and change.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use rtnetlink::packet_core::NetlinkPayload;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::{Handle, MulticastGroup};
use tokio::sync::watch;
use tracing::{debug, warn};

use super::{Devices, NetError};

/// Pause before a broken netlink socket is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// A subscription to device changes. [`DeviceWatch::follow`] has to run for the table to stay true.
pub struct DeviceWatch {
    subscription: NetlinkSubscription,
    devices: Devices,
    publish: watch::Sender<Arc<Devices>>,
}

struct NetlinkSubscription {
    handle: Handle,
    messages: BoxStream<'static, NetlinkPayload<RouteNetlinkMessage>>,
}

impl NetlinkSubscription {
    fn open() -> Result<Self, NetError> {
        let (connection, handle, messages) =
            rtnetlink::new_multicast_connection(&[MulticastGroup::Link]).map_err(NetError::Socket)?;
        // It ends with handle and messages.
        tokio::spawn(connection);
        let messages = messages.map(|(message, _)| message.payload).boxed();
        Ok(Self { handle, messages })
    }
}

impl DeviceWatch {
    /// Subscribes first and lists then, so that no change falls between.
    ///
    /// # Errors
    /// Route netlink does not answer.
    pub async fn start() -> Result<(Self, watch::Receiver<Arc<Devices>>), NetError> {
        let subscription = NetlinkSubscription::open()?;
        let devices = Devices::dump(&subscription.handle).await?;
        let (publish, receive) = watch::channel(Arc::new(devices.clone()));
        Ok((Self { subscription, devices, publish }, receive))
    }

    /// Keeps the published table true until cancelled.
    pub async fn follow(mut self) -> Infallible {
        loop {
            match self.subscription.messages.next().await {
                Some(NetlinkPayload::InnerMessage(message)) => {
                    self.devices.apply(&message);
                    self.publish();
                }
                Some(NetlinkPayload::Overrun(_)) => {
                    debug!("device changes came faster than they were read; listing again");
                    self.list_again().await;
                }
                Some(_) => {}
                None => self.reopen().await,
            }
        }
    }

    fn publish(&self) {
        self.publish.send_if_modified(|published| {
            let changed = **published != self.devices;
            if changed {
                *published = Arc::new(self.devices.clone());
            }
            changed
        });
    }

    async fn list_again(&mut self) {
        match Devices::dump(&self.subscription.handle).await {
            Ok(devices) => {
                self.devices = devices;
                self.publish();
            }
            Err(error) => {
                warn!("{error}");
                self.reopen().await;
            }
        }
    }

    async fn reopen(&mut self) {
        loop {
            tokio::time::sleep(REOPEN_PAUSE).await;
            let opened = match NetlinkSubscription::open() {
                Ok(subscription) => {
                    let listed = Devices::dump(&subscription.handle).await;
                    listed.map(|devices| (subscription, devices))
                }
                Err(error) => Err(error),
            };
            match opened {
                Ok((subscription, devices)) => {
                    (self.subscription, self.devices) = (subscription, devices);
                    self.publish();
                    return;
                }
                Err(error) => warn!("device changes are not seen: {error}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn in_a_runtime(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    /// A watch that has no device yet and gets these messages; whether it finds loopback.
    async fn finds_loopback(messages: BoxStream<'static, NetlinkPayload<RouteNetlinkMessage>>) -> bool {
        let (publish, mut receive) = watch::channel(Arc::new(Devices::default()));
        let mut subscription = NetlinkSubscription::open().unwrap();
        subscription.messages = messages;
        let watch = DeviceWatch { subscription, devices: Devices::default(), publish };
        let following = tokio::spawn(watch.follow());
        let found = tokio::time::timeout(
            20 * REOPEN_PAUSE,
            receive.wait_for(|devices| devices.by_name("lo").is_some()),
        );
        let is_found = found.await.is_ok();
        following.abort();
        is_found
    }

    #[test]
    fn after_changes_that_were_missed_devices_are_listed_again() {
        in_a_runtime(async {
            let missed = stream::iter([NetlinkPayload::Overrun(vec![])]);
            assert!(finds_loopback(missed.chain(stream::pending()).boxed()).await);
        });
    }

    #[test]
    fn a_subscription_that_ends_is_opened_again() {
        in_a_runtime(async { assert!(finds_loopback(stream::empty().boxed()).await) });
    }

    #[test]
    fn a_subscription_that_is_dropped_leaves_nothing_running() {
        in_a_runtime(async {
            let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
            let subscription = NetlinkSubscription::open().unwrap();
            tokio::task::yield_now().await;
            assert_eq!(tasks(), 1);
            drop(subscription);
            tokio::task::yield_now().await;
            assert_eq!(tasks(), 0);
        });
    }
}
