//! The clsact qdisc of a device, which classic TC filters hang on.

use std::io;
use std::time::{Duration, Instant};

use tracing::warn;

use super::QdiscTree;
use super::control::{RTM_NEWQDISC, TCA_KIND, has_filters, tcmsg};
use super::qdisc::{INGRESS, has_clsact};
use super::request::{Attributes, Deed, request};

const RTM_DELQDISC: u16 = 37;
const HANDLE: u32 = 0xffff_0000;

/// Holds a device's clsact qdisc. Dropped, it takes away what it has made, unless somebody hung a filter of his own
/// there meanwhile: then the qdisc is his.
#[derive(Debug)]
pub(crate) struct Clsact {
    ifindex: u32,
    is_ours: bool,
}

impl Clsact {
    /// How long the device's own queue may take to become empty.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

    /// The one that is there, or a new one. Waits so long at most for a moment in which nothing stands in the device's queue.
    ///
    /// # Errors
    /// What the kernel says; [`io::ErrorKind::ResourceBusy`] if packets would never leave again.
    pub(crate) fn on(ifindex: u32, patience: Duration) -> io::Result<Self> {
        if has_clsact(ifindex)? {
            return Ok(Self { ifindex, is_ours: false });
        }
        quiet_moment(ifindex, patience)?;
        let kind = Attributes::new().with_text(TCA_KIND, "clsact");
        match request(RTM_NEWQDISC, Deed::Create, &tcmsg(ifindex, HANDLE, INGRESS, 0), &kind) {
            Ok(()) => Ok(Self { ifindex, is_ours: true }),
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(Self { ifindex, is_ours: false }),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Clsact {
    fn drop(&mut self) {
        if self.is_ours
            && has_filters(self.ifindex).is_ok_and(|any| !any)
            && let Err(error) = remove(self.ifindex)
            && error.kind() == io::ErrorKind::ResourceBusy
        {
            // Empty it does no harm. If the device is gone, so is the qdisc: no news.
            warn!(ifindex = self.ifindex, "the device keeps an empty clsact qdisc: {error}");
        }
    }
}

/// Removes a device's clsact qdisc and all filters in it.
pub(crate) fn remove(ifindex: u32) -> io::Result<()> {
    quiet_moment(ifindex, Clsact::PATIENCE)?;
    request(RTM_DELQDISC, Deed::Change, &tcmsg(ifindex, HANDLE, INGRESS, 0), &Attributes::new())
}

/// To add or remove clsact, many kernels (6.1, 6.12; not 7.2) stop the device's queue for a moment (`qdisc_graft`, `dev_deactivate`): what
/// stands in it is lost. An hfsc in which something stood never sends again, since its classes still count as
/// scheduled (`cl_in_el_or_vttree`).
fn quiet_moment(ifindex: u32, patience: Duration) -> io::Result<()> {
    let end = Instant::now() + patience;
    loop {
        let tree = QdiscTree::read(ifindex)?;
        if tree.root().is_none_or(|root| root.backlog_packets == 0) {
            return Ok(());
        }
        if Instant::now() >= end {
            return if tree.has("hfsc") { Err(busy()) } else { Ok(()) };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn busy() -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "packets wait in the device's hfsc qdisc, which on many kernels never sends again if clsact is added or removed \
         meanwhile; stop the traffic for a moment, or add it beforehand (`tc qdisc add dev DEV clsact`)",
    )
}
