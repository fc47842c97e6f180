//! The sender's clock (RFC 7323): when the packets between two measured ones of a flow were sent.

/// The clock of one flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// TSval and entry of its newest measured packet.
    pub(super) measured: Option<(u32, f64)>,
    /// Numbers of its packets since then.
    pub(super) waiting: Vec<u64>,
}

/// When a packet entered that was sent at `tsval`, between two measured ones of its flow.
pub(super) fn interpolate(before: Option<(u32, f64)>, after: (u32, f64), tsval: u32) -> Option<f64> {
    if tsval == after.0 {
        return Some(after.1);
    }
    let (before_tsval, before_ns) = before?;
    let whole = after.0.wrapping_sub(before_tsval).cast_signed();
    let part = tsval.wrapping_sub(before_tsval).cast_signed();
    if whole <= 0 || part < 0 || part > whole {
        return None;
    }
    Some(before_ns + (after.1 - before_ns) * f64::from(part) / f64::from(whole))
}
