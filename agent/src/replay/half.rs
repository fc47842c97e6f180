//! What one end of a flow has sent: `struct pendulum_half` of `bpf/abi.h`, field by field and of the same widths, so
//! that both can be compared for equality.

/// Segments in flight whose RTT is being timed, for each half of a flow.
pub const PROBES: usize = 8;

/// Bits of [`Half::flags`]: `enum pendulum_half_flag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum HalfFlag {
    /// `seq_next` is valid.
    Seq = 1 << 0,
    /// `ack_highest` is valid.
    Ack = 1 << 1,
    /// Its SYN was seen: `isn`, `wscale`, `mss` are valid.
    Syn = 1 << 2,
    /// Has sent FIN.
    Fin = 1 << 3,
    /// Has sent RST.
    Rst = 1 << 4,
    /// Sends timestamps (RFC 7323).
    Ts = 1 << 5,
    /// Its SYN offered SACK.
    SackOk = 1 << 6,
    /// Its SYN carried the window scale option.
    Wscale = 1 << 7,
    /// MPTCP option seen.
    Mptcp = 1 << 8,
    /// AccECN option seen.
    Accecn = 1 << 9,
    /// `hole_*` describe a gap in the sequence space.
    Hole = 1 << 10,
    /// `window_raw` is valid.
    Window = 1 << 11,
    /// `tsecr_newest` is valid.
    Tsecr = 1 << 12,
}

/// A segment whose RTT is being timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// TSval, or the sequence number after the segment.
    pub key: u32,
    /// When it passed, in ticks of 1024 ns; 0: the slot is free.
    pub at: u32,
}

/// What one end of a flow has sent: `struct pendulum_half`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Half {
    /// Time of its first segment.
    pub first_seen_ns: u64,
    /// Time of its newest segment.
    pub last_seen_ns: u64,
    /// Link-layer bytes.
    pub wire_bytes: u64,
    /// TCP payload, retransmissions included.
    pub payload_bytes: u64,
    /// Segments of every class.
    pub segments: u64,
    /// Segments of class `data`.
    pub data_segments: u64,
    /// Pure ACKs of every kind.
    pub ack_segments: u64,
    /// Bytes of the other half's data that this half acknowledged.
    pub acked_bytes: u64,
    /// Segments of any class that acknowledged something new.
    pub advancing_acks: u64,
    /// Sum of the RTT samples of what it sent.
    pub rtt_sum_us: u64,
    /// When the newest gap opened.
    pub hole_at_ns: u64,
    /// Number of RTT samples.
    pub rtt_samples: u32,
    /// Smallest RTT sample; 0: none yet.
    pub rtt_min_us: u32,
    /// Newest RTT sample.
    pub rtt_last_us: u32,
    /// Segments with payload that had passed before.
    pub retransmitted_segments: u32,
    /// Segments with payload that filled a gap which had just opened.
    pub reordered_segments: u32,
    /// Largest outstanding data so far.
    pub in_flight_max_bytes: u32,
    /// Initial sequence number, of its newest SYN.
    pub isn: u32,
    /// Highest sequence number sent, plus one.
    pub seq_next: u32,
    /// Highest acknowledgement number sent.
    pub ack_highest: u32,
    /// The newest gap in the sequence space starts here …
    pub hole_start: u32,
    /// … and ends before this.
    pub hole_end: u32,
    /// Newest TSval sent.
    pub tsval_newest: u32,
    /// Newest TSecr sent.
    pub tsecr_newest: u32,
    /// Window field of its newest header, unscaled.
    pub window_raw: u16,
    /// Maximum segment size of its SYN; 0: unknown.
    pub mss: u16,
    /// Set of [`HalfFlag`].
    pub flags: u16,
    /// Window scale of its SYN.
    pub wscale: u8,
    /// Segments whose RTT is being timed.
    pub probes: [Probe; PROBES],
}

impl Half {
    /// Whether a flag is set.
    pub const fn has(&self, flag: HalfFlag) -> bool {
        self.flags & flag as u16 != 0
    }

    pub(super) const fn set(&mut self, flag: HalfFlag) {
        self.flags |= flag as u16;
    }

    pub(super) const fn clear(&mut self, flag: HalfFlag) {
        self.flags &= !(flag as u16);
    }

    /// Nothing that is in flight can be timed any more.
    pub(super) fn forget_probes(&mut self) {
        for probe in &mut self.probes {
            probe.at = 0;
        }
    }
}
