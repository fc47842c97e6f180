//! The clsact qdisc of a device, which classic TC filters are attached to.

use std::io;
use std::time::{Duration, Instant};

use tracing::warn;

use super::QdiscTree;
use super::control::{Filter, TCA_KIND, read_filters, tcmsg};
use super::message::{Attributes, code};
use super::qdisc::{INGRESS, ingress_qdisc};
use super::request::{Action, request};

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
/// Programs need no clsact from this kernel on.
pub(crate) const TCX: (u8, u8, u16) = (6, 6, 0);
const HANDLE: u32 = 0xffff_0000;

/// Holds a device's clsact qdisc. Dropped, it takes away what it has made, unless somebody hung a filter of his own
/// there meanwhile: then the qdisc is his. Neither waits: [`quiet_moment`] does, before.
#[derive(Debug)]
pub(crate) struct Clsact {
    ifindex: u32,
    is_ours: bool,
}

impl Clsact {
    /// The one that is there, or a new one.
    ///
    /// # Errors
    /// What the kernel says; [`io::ErrorKind::ResourceBusy`] if packets would never leave again.
    pub(crate) fn on(ifindex: u32) -> io::Result<Self> {
        match ingress_qdisc(ifindex)?.as_deref() {
            None => {}
            Some("clsact") => return Ok(Self { ifindex, is_ours: holds_only_ours(&read_filters(ifindex)?) }),
            Some(other) => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    format!("an {other} qdisc is in its place, as SQM makes one; stop the tool that made it"),
                ));
            }
        }
        Ok(Self { ifindex, is_ours: add(ifindex)? })
    }
}

/// Adds one to a device; whether there was none.
///
/// # Errors
/// As [`Clsact::on`].
pub(crate) fn add(ifindex: u32) -> io::Result<bool> {
    refuse_if_stuck(ifindex)?;
    let kind = Attributes::new().with_text(TCA_KIND, "clsact");
    match request(RTM_NEWQDISC, Action::Create, &tcmsg(ifindex, HANDLE, INGRESS, 0), &kind) {
        Ok(()) => Ok(true),
        Err(error) if code(&error) == Some(libc::EEXIST) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether these are the filters of a clsact that a killed agent has left: one whose filters are all ours. It had made the qdisc, or had found
/// it empty; in both cases nobody misses it.
pub(crate) fn holds_only_ours(filters: &[Filter]) -> bool {
    !filters.is_empty() && filters.iter().all(Filter::is_of_this_program)
}

impl Drop for Clsact {
    fn drop(&mut self) {
        if self.is_ours
            && read_filters(self.ifindex).is_ok_and(|found| found.is_empty())
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
    refuse_if_stuck(ifindex)?;
    request(RTM_DELQDISC, Action::Change, &tcmsg(ifindex, HANDLE, INGRESS, 0), &Attributes::new())
}

/// How long the device's own queue may take to become empty.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(5);

/// Waits, for a second at most, for a moment in which nothing stands in the device's queue. Before clsact is added or removed: many
/// kernels (6.1, 6.12; not 7.2) stop the device's queue for a moment then (`qdisc_graft`, `dev_deactivate`), and what stands in it is lost.
pub(crate) async fn quiet_moment(ifindex: u32) {
    let end = Instant::now() + PATIENCE;
    // A device that cannot be read is gone.
    while QdiscTree::read(ifindex).is_ok_and(|tree| tree.backlog() > 0) && Instant::now() < end {
        tokio::time::sleep(STEP).await;
    }
}

/// The same before programs are attached or taken down, where the kernel attaches them to clsact (before Linux 6.6: no TCX).
pub(crate) async fn quiet_moment_before_attaching(ifindex: u32) {
    if !crate::kernel::is_at_least(TCX) {
        quiet_moment(ifindex).await;
    }
}

/// On the same kernels an hfsc in which something stood never sends again, since its classes still count as scheduled
/// (`cl_in_el_or_vttree`).
fn refuse_if_stuck(ifindex: u32) -> io::Result<()> {
    let tree = QdiscTree::read(ifindex)?;
    if tree.has("hfsc") && tree.backlog() > 0 {
        return Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "packets wait in the device's hfsc qdisc, which on many kernels never sends again if clsact is added or removed \
             meanwhile; stop the traffic for a moment, or add it beforehand (`tc qdisc add dev DEV clsact`)",
        ));
    }
    Ok(())
}
