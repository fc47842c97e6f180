//! Hanging the programs on a device, and taking down what a crashed run left there.
//!
//! Each hook has mechanisms, best first; the one in use is reported. The programs never end the
//! processing of a packet, so they go in front of other programs: those may.

use aya::Ebpf;
use aya::programs::links::LinkOrder;
use aya::programs::tc::{NlOptions, SchedClassifierLink, TcAttachOptions, TcAttachType};
use aya::programs::xdp::{XdpLink, XdpMode};
use aya::programs::{ProgramError, SchedClassifier, Xdp};
use pendulum_model::named;
use serde::Serialize;

use super::{BpfError, clsact};
use crate::exit::chain;
use crate::net;
use crate::net::clsact::Clsact;

/// Where a program hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// TC ingress of the WAN device: `pendulum_down`.
    Ingress,
    /// TC egress of the WAN device: `pendulum_up`.
    Egress,
    /// XDP of the WAN device: `pendulum_xdp`, instead of TC ingress.
    Xdp,
}

impl Hook {
    /// The program that is attached here.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Ingress => "pendulum_down",
            Self::Egress => "pendulum_up",
            Self::Xdp => "pendulum_xdp",
        }
    }

    const fn side(self) -> TcAttachType {
        match self {
            Self::Egress => TcAttachType::Egress,
            Self::Ingress | Self::Xdp => TcAttachType::Ingress,
        }
    }
}

named! {
    /// How it is attached there.
    pub enum Mechanism {
        /// A TCX link (Linux 6.6): gone with this process.
        Tcx = "tcx",
        /// A filter of the clsact qdisc: stays behind after a crash, until the next start.
        Clsact = "clsact",
        /// XDP in the driver. Never in the network stack (generic XDP): that turns receive offload off and copies what is not linear.
        XdpNative = "xdp-native",
    }
}

/// What [`super::LinkPrograms::attach`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AttachReport {
    /// Each hook and its mechanism.
    pub hooks: Vec<(Hook, Mechanism)>,
    /// Why ingress is measured by TC although XDP was asked for: the driver's reason.
    pub stepped_down: Option<String>,
}

/// An attached program; dropping it takes it down.
#[derive(Debug)]
enum AttachedProgram {
    #[expect(dead_code, reason = "held for its Drop")]
    Tc(SchedClassifierLink),
    #[expect(dead_code, reason = "held for its Drop")]
    Xdp(XdpLink),
}

/// All that is attached to one device.
#[derive(Debug)]
pub(super) struct Attachment {
    // Filters go before the qdisc that they are attached to.
    held: Vec<AttachedProgram>,
    clsact: Option<Clsact>,
    pub(super) report: AttachReport,
}

impl Attachment {
    pub(super) fn is_attached(&self, program: &str) -> bool {
        self.report.hooks.iter().any(|(hook, _)| hook.program() == program)
    }
}

/// Hang the programs on a device.
pub(super) fn attach(
    object: &mut Ebpf,
    device: &str,
    ifindex: u32,
    hooks: [Hook; 2],
) -> Result<Attachment, BpfError> {
    let mut attachment = Attachment { held: Vec::new(), clsact: None, report: AttachReport::default() };
    for mut hook in hooks {
        let mut xdp = None;
        if hook == Hook::Xdp {
            match attach_xdp(object, device, ifindex)? {
                Ok(held) => xdp = Some((held, Mechanism::XdpNative)),
                Err(reason) => {
                    attachment.report.stepped_down = Some(reason);
                    hook = Hook::Ingress;
                    load_ingress(object)?;
                }
            }
        }
        let (held, mechanism) = match xdp {
            Some(attached) => attached,
            None => attach_tc(object, device, ifindex, hook, &mut attachment.clsact)?,
        };
        attachment.held.push(held);
        attachment.report.hooks.push((hook, mechanism));
    }
    Ok(attachment)
}

/// The program of TC ingress, which is not loaded where XDP was asked for.
fn load_ingress(object: &mut Ebpf) -> Result<(), BpfError> {
    let program: &mut SchedClassifier = find(object, Hook::Ingress)?;
    match program.load() {
        Ok(()) | Err(ProgramError::AlreadyLoaded) => Ok(()),
        Err(source) => Err(BpfError::Program { program: Hook::Ingress.program(), source: Box::new(source) }),
    }
}

fn attach_tc(
    object: &mut Ebpf,
    device: &str,
    ifindex: u32,
    hook: Hook,
    clsact: &mut Option<Clsact>,
) -> Result<(AttachedProgram, Mechanism), BpfError> {
    let program: &mut SchedClassifier = find(object, hook)?;
    // aya decides for TCX by the kernel's version and does not step down if it fails: we do.
    let tcx = TcAttachOptions::TcxOrder(LinkOrder::first());
    if let Ok(id) = program.attach_with_options(device, hook.side(), tcx) {
        let link = program.take_link(id).map_err(|e| refused(hook, device, &e))?;
        return Ok((AttachedProgram::Tc(link), Mechanism::Tcx));
    }
    if clsact.is_none() {
        let failed = |source| BpfError::Clsact { action: "add", device: device.to_owned(), source };
        *clsact = Some(Clsact::on(ifindex).map_err(failed)?);
    }
    // Priority 0: the kernel picks the one before the first filter that is there.
    let id = program
        .attach_with_options(device, hook.side(), TcAttachOptions::Netlink(NlOptions::default()))
        .map_err(|e| refused(hook, device, &e))?;
    let link = program.take_link(id).map_err(|e| refused(hook, device, &e))?;
    Ok((AttachedProgram::Tc(link), Mechanism::Clsact))
}

/// In the driver; inside, why the driver does not take it.
fn attach_xdp(
    object: &mut Ebpf,
    device: &str,
    ifindex: u32,
) -> Result<Result<AttachedProgram, String>, BpfError> {
    let program: &mut Xdp = find(object, Hook::Xdp)?;
    match program.attach_to_if_index(ifindex, XdpMode::Driver) {
        Ok(id) => {
            let link = program.take_link(id).map_err(|e| refused(Hook::Xdp, device, &e))?;
            Ok(Ok(AttachedProgram::Xdp(link)))
        }
        Err(error) if is_occupied(&error) => Err(BpfError::Attach {
            program: Hook::Xdp.program(),
            device: device.to_owned(),
            reason: chain(&error),
            remedy: "another XDP program may be there (`ip link show` names it); use ingress-hook = \"tc\"",
        }),
        Err(error) => Ok(Err(chain(&error))),
    }
}

/// `dev_xdp_attach` of net/core/dev.c: EBUSY behind a program of the same mode, EEXIST behind one of another.
fn is_occupied(error: &ProgramError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let code = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        if code.is_some_and(|code| [libc::EBUSY, libc::EEXIST].contains(&code)) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn find<'a, P>(object: &'a mut Ebpf, hook: Hook) -> Result<&'a mut P, BpfError>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program>,
{
    let missing = BpfError::Missing { what: "program", name: hook.program() };
    let Some(program) = object.program_mut(hook.program()) else { return Err(missing) };
    program.try_into().map_err(|_| missing)
}

fn refused(hook: Hook, device: &str, error: &ProgramError) -> BpfError {
    BpfError::Attach {
        program: hook.program(),
        device: device.to_owned(),
        reason: chain(error),
        remedy: "check that the device exists and that this process has CAP_NET_ADMIN and CAP_BPF",
    }
}

/// Take one program's filters off a device (kernels without TCX only). Answers what was removed.
fn remove_filter(device: &str, ifindex: u32, side: TcAttachType, program: &str) -> Option<String> {
    match clsact::remove_program(ifindex, side, program) {
        Ok(found) => found.then(|| format!("filter {program} of {device}")),
        Err(error) => {
            tracing::debug!(device, program, error = chain(&error), "the filters cannot be looked through");
            None
        }
    }
}

/// Take down filters that an earlier run left on a device when it crashed (kernels without TCX only).
/// Answers what was removed. Nothing else on the device is touched.
///
/// # Errors
/// [`BpfError::Clsact`] if the kernel refuses to list or remove.
pub fn remove_leftovers(device: &str, ifindex: u32) -> Result<Vec<String>, BpfError> {
    let failed = |action| move |source| BpfError::Clsact { action, device: device.to_owned(), source };
    let mut removed = Vec::new();
    for (side, program) in [
        (TcAttachType::Ingress, Hook::Ingress.program()),
        (TcAttachType::Egress, Hook::Egress.program()),
        (TcAttachType::Egress, super::SHAPE_PROGRAM),
    ] {
        removed.extend(remove_filter(device, ifindex, side, program));
    }
    // The crashed run had added the qdisc, or had found it empty; in both cases nobody misses it.
    if !removed.is_empty() && clsact::filters(ifindex).map_err(failed("list the filters of"))?.is_empty() {
        net::clsact::remove(ifindex).map_err(failed("remove"))?;
        removed.push(format!("clsact qdisc of {device}"));
    }
    Ok(removed)
}
