//! What packets take on the line: `preset`, `link-layer`, `overhead` and `mpu` of `[shape]`, as tc-cake(8) has them.

use serde::{Deserialize, Serialize};

/// What a packet takes on the line beside its IP bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// Bytes beside IP; none: as the kernel counts (on Ethernet 14 bytes of header).
    pub overhead: Option<i16>,
    /// A packet takes at least so many bytes.
    pub mpu: u16,
    /// How bytes are carried.
    pub layer: FrameLayer,
}

/// `CAKE_ATM_*` of linux/pkt_sched.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u32)]
pub enum FrameLayer {
    /// Byte for byte.
    #[default]
    Ethernet = 0,
    /// In cells of 53 bytes, 48 of them for the packet: ADSL.
    Atm = 1,
    /// 65 bytes for 64: VDSL2.
    Ptm = 2,
}

/// Framings by name; the figures are those of tc-cake(8) and sqm-scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Preset {
    /// PPPoE over bridged LLC/SNAP: 40 bytes in cells.
    AdslPppoe,
    /// PPPoA over VC-Mux: 10 bytes in cells.
    AdslPppoa,
    /// Bridged over LLC/SNAP: 32 bytes in cells.
    AdslBridged,
    /// Ethernet over PTM: 22 bytes.
    Vdsl2Ptm,
    /// PPPoE over PTM: 30 bytes.
    Vdsl2Pppoe,
    /// Cable: 18 bytes, at least 64.
    Docsis,
    /// Ethernet with preamble and gap: 38 bytes, at least 84.
    Ethernet,
    /// More than any of them: 48 bytes in cells.
    Conservative,
}

impl Preset {
    pub(super) const fn framing(self) -> Framing {
        let (overhead, mpu, layer) = match self {
            Self::AdslPppoe => (40, 0, FrameLayer::Atm),
            Self::AdslPppoa => (10, 0, FrameLayer::Atm),
            Self::AdslBridged => (32, 0, FrameLayer::Atm),
            Self::Vdsl2Ptm => (22, 0, FrameLayer::Ptm),
            Self::Vdsl2Pppoe => (30, 0, FrameLayer::Ptm),
            Self::Docsis => (18, 64, FrameLayer::Ethernet),
            Self::Ethernet => (38, 84, FrameLayer::Ethernet),
            Self::Conservative => (48, 0, FrameLayer::Atm),
        };
        Framing { overhead: Some(overhead), mpu, layer }
    }
}
