//! The filters of a clsact qdisc over netlink: what aya leaves out. Needed where the kernel has no TCX (before 6.6) only.

use std::io;

use aya::programs::tc::TcAttachType;
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{TcAttribute, TcFilterBpfOption, TcHandle, TcMessage, TcOption};
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// Both sides of `TC_H_CLSACT`, of <linux/pkt_sched.h>.
const SIDES: [TcHandle; 2] =
    [TcHandle { major: 0xffff, minor: 0xfff2 }, TcHandle { major: 0xffff, minor: 0xfff3 }];

/// The names of all filters on both sides of a device's clsact qdisc; `None` for a filter of another kind than bpf.
///
/// # Errors
/// What the kernel says. A device without clsact has no filters.
pub(super) fn filters(ifindex: u32) -> io::Result<Vec<Option<String>>> {
    let mut names = Vec::new();
    for side in SIDES {
        names.extend(on_side(ifindex, side)?.iter().filter_map(options).map(bpf_name));
    }
    Ok(names)
}

/// Remove the filters that run a program of this name on one side; whether there were any. aya's `qdisc_detach_program` (0.14) reads the
/// options of every kind as bpf's, and finds nothing where a u32 or flower filter stands.
///
/// # Errors
/// What the kernel says. A device without clsact has no filters.
pub(super) fn remove_program(ifindex: u32, side: TcAttachType, program: &str) -> io::Result<bool> {
    let side = SIDES[usize::from(matches!(side, TcAttachType::Egress))];
    let mut found = false;
    for mut filter in on_side(ifindex, side)? {
        if options(&filter).and_then(bpf_name).as_deref() == Some(program) {
            filter.header.parent = side;
            filter.attributes = vec![TcAttribute::Kind("bpf".into())];
            request(RouteNetlinkMessage::DelTrafficFilter(filter), NLM_F_ACK)?;
            found = true;
        }
    }
    Ok(found)
}

fn on_side(ifindex: u32, side: TcHandle) -> io::Result<Vec<TcMessage>> {
    let mut message = TcMessage::with_index(ifindex.cast_signed());
    message.header.parent = side;
    let filters = request(RouteNetlinkMessage::GetTrafficFilter(message), NLM_F_DUMP)?;
    Ok(filters
        .into_iter()
        .filter_map(|answer| match answer {
            RouteNetlinkMessage::NewTrafficFilter(filter) => Some(filter),
            _ => None,
        })
        .collect())
}

/// A dump starts with a header entry for each priority, which has no options.
fn options(filter: &TcMessage) -> Option<&[TcOption]> {
    filter.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Options(options) => Some(options.as_slice()),
        _ => None,
    })
}

fn bpf_name(options: &[TcOption]) -> Option<String> {
    options.iter().find_map(|option| match option {
        TcOption::Bpf(TcFilterBpfOption::ProgName(name)) => Some(name.clone()),
        _ => None,
    })
}

/// One request and all that the kernel answers to it.
fn request(payload: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut message = NetlinkMessage::from(payload);
    message.header.flags = NLM_F_REQUEST | flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;

    let mut answers = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        if collect(&datagram, &mut answers)? {
            return Ok(answers);
        }
    }
}

/// Take the messages out of one datagram; whether it was the last.
fn collect<M: NetlinkDeserializable>(datagram: &[u8], answers: &mut Vec<M>) -> io::Result<bool> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let message = NetlinkMessage::<M>::deserialize(rest).map_err(io::Error::other)?;
        let length = usize::try_from(message.header.length).unwrap_or(usize::MAX).next_multiple_of(4);
        match message.payload {
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) if error.code.is_none() => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            NetlinkPayload::InnerMessage(inner) => answers.push(inner),
            _ => {}
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(false)
}
