//! What each colour stands for, in the dashboards, the page, the terminal, the demo and the plots: the one definition.
//!
//! The uplink is orange and the downlink blue, everywhere, and nothing else is: these two stay apart in every form of colour
//! vision. Phases, verdicts, decisions, and what fills a buffer have colours of their own. A colour never says anything alone: a
//! word, a sign or a place says the same.
//!
//! `dashboards/colours.json` is written from here for the programs in other languages (`./dev generate`).

use crate::autorate::Decision;
use crate::findings::{Phase, Verdict};
use crate::segment::Direction;

/// One colour on each kind of ground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// `0xRRGGBB`, where the ground may be light or dark: Grafana, plots.
    pub any: u32,
    /// On a light ground, dark enough to be read as text.
    pub light: u32,
    /// On a dark ground, light enough to be read as text.
    pub dark: u32,
    /// The nearest of xterm's 256 for a terminal of either ground.
    pub xterm: u8,
}

/// Okabe and Ito's vermilion and blue, and kin of theirs for text.
const UP: Colour = Colour { any: 0xd5_5e_00, light: 0xb4_53_0a, dark: 0xf5_a8_57, xterm: 208 };
const DOWN: Colour = Colour { any: 0x00_72_b2, light: 0x0b_5c_ad, dark: 0x64_b1_ff, xterm: 33 };

/// Everything that has a colour: group, name by which the API calls it, colour.
pub fn all() -> Vec<(&'static str, &'static str, Colour)> {
    let mut all: Vec<_> = Direction::ALL.map(|x| ("direction", x.name(), of_direction(x))).to_vec();
    all.extend(Phase::ALL.map(|phase| ("phase", phase.name(), of_phase(phase))));
    all.extend(Verdict::ALL.map(|verdict| ("verdict", verdict.name(), of_verdict(verdict))));
    all.extend(Decision::ALL.map(|decision| ("decision", decision.name(), of_decision(decision))));
    all.extend(KINDS.map(|(kind, colour)| ("kind", kind, colour)));
    all.extend(SEVERITIES.map(|(severity, colour)| ("severity", severity, colour)));
    all
}

/// What belongs to a direction: its buffer, its rate, its flows.
pub const fn of_direction(direction: Direction) -> Colour {
    direction.pick(UP, DOWN)
}

/// The phase that holds.
pub const fn of_phase(phase: Phase) -> Colour {
    match phase {
        Phase::UplinkBound => Colour { any: 0x7c_21_7a, light: 0x7c_21_7a, dark: 0xc0_6a_be, xterm: 133 },
        Phase::DownlinkBound => Colour { any: 0x3f_d6_a9, light: 0x0e_72_56, dark: 0x3f_d6_a9, xterm: 79 },
        Phase::Balanced => Colour { any: 0xe8_dc_8a, light: 0x70_62_10, dark: 0xe8_dc_8a, xterm: 186 },
        Phase::Idle => Colour { any: 0x7d_7c_86, light: 0x5f_5e_68, dark: 0x9a_99_a4, xterm: 244 },
    }
}

/// The verdict that holds. Red is trouble that stands, yellow is trouble that comes and goes.
pub const fn of_verdict(verdict: Verdict) -> Colour {
    match verdict {
        Verdict::Swinging => Colour { any: 0xf2_cc_0c, light: 0x8a_6a_00, dark: 0xf2_cc_0c, xterm: 220 },
        Verdict::LockedUplink => Colour { any: 0xb0_0d_2a, light: 0xa0_0c_26, dark: 0xff_9d_8f, xterm: 196 },
        Verdict::LockedDownlink => {
            Colour { any: 0xff_65_6c, light: 0xb8_26_30, dark: 0xff_9d_8f, xterm: 203 }
        }
        Verdict::AckCompression => {
            Colour { any: 0xd0_92_e4, light: 0x7a_40_90, dark: 0xd0_92_e4, xterm: 176 }
        }
        Verdict::OneWay => Colour { any: 0x84_a4_ae, light: 0x48_66_70, dark: 0x84_a4_ae, xterm: 109 },
        Verdict::Balanced => Colour { any: 0x4e_c8_94, light: 0x17_60_3d, dark: 0x7f_dc_ae, xterm: 78 },
        Verdict::Clear => Colour { any: 0x5f_66_72, light: 0x5f_66_72, dark: 0x9a_a8_b8, xterm: 246 },
        Verdict::Unknown => Colour { any: 0xf9_fb_ce, light: 0x6e_6c_30, dark: 0xf9_fb_ce, xterm: 230 },
    }
}

/// What is decided about a rate that is found. What changes nothing is grey.
pub const fn of_decision(decision: Decision) -> Colour {
    match decision {
        Decision::Hold => Colour { any: 0xda_e4_d8, light: 0x41_4d_47, dark: 0xda_e4_d8, xterm: 254 },
        Decision::Raise => Colour { any: 0x4b_c0_68, light: 0x33_80_46, dark: 0x4b_c0_68, xterm: 77 },
        Decision::Lower => Colour { any: 0xfd_cd_26, light: 0x8a_6e_14, dark: 0xfd_cd_26, xterm: 220 },
        Decision::Drain => Colour { any: 0x9a_12_1f, light: 0x9a_11_1f, dark: 0xff_5a_68, xterm: 160 },
        Decision::Outage => Colour { any: 0xb6_42_c9, light: 0xb1_40_c3, dark: 0xcf_4b_e5, xterm: 134 },
    }
}

/// What fills a buffer, by its name in the API.
const KINDS: [(&str, Colour); 4] = [
    ("tcp_data", Colour { any: 0x5a_33_c1, light: 0x5a_33_c1, dark: 0xa0_88_f0, xterm: 99 }),
    ("ack", Colour { any: 0xca_fe_6f, light: 0x52_7a_10, dark: 0xca_fe_6f, xterm: 155 }),
    ("udp", Colour { any: 0x37_c8_81, light: 0x13_7a_49, dark: 0x37_c8_81, xterm: 78 }),
    ("other", Colour { any: 0x97_97_b5, light: 0x5c_5c_7a, dark: 0x97_97_b5, xterm: 103 }),
];

/// How urgent something is.
const SEVERITIES: [(&str, Colour); 3] = [
    ("critical", Colour { any: 0xb0_0d_2a, light: 0xa3_20_0d, dark: 0xff_9d_8f, xterm: 196 }),
    ("warning", Colour { any: 0xf2_cc_0c, light: 0x8a_53_00, dark: 0xff_c5_6b, xterm: 220 }),
    ("good", Colour { any: 0x4e_c8_94, light: 0x17_60_3d, dark: 0x7f_dc_ae, xterm: 78 }),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Full colour vision, and the three forms in which one kind of cone is missing (Machado, Oliveira and Fernandes 2009,
    /// severity 1), as matrices over linear red, green and blue.
    const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
        ("full", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
        ),
        (
            "deuteranopia",
            [
                [0.367_322, 0.860_646, -0.227_968],
                [0.280_085, 0.672_501, 0.047_413],
                [-0.011_820, 0.042_940, 0.968_881],
            ],
        ),
        (
            "tritanopia",
            [
                [1.255_528, -0.076_749, -0.178_779],
                [-0.078_411, 0.930_809, 0.147_602],
                [0.004_733, 0.691_367, 0.303_900],
            ],
        ),
    ];
    /// Least distance in CIE 1976 L*a*b*: 2.3 is just noticeable side by side; what is looked up in a legend needs several times that.
    const APART: f64 = 15.0;

    /// Linear red, green, blue (IEC 61966-2-1).
    fn linear(rgb: u32) -> [f64; 3] {
        [16, 8, 0].map(|shift| {
            let part = f64::from((rgb >> shift) & 0xff) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn product(matrix: [[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
    }

    fn lab(rgb: u32, vision: [[f64; 3]; 3]) -> [f64; 3] {
        const XYZ: [[f64; 3]; 3] =
            [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]];
        const WHITE: [f64; 3] = [0.950_47, 1.0, 1.088_83];
        let seen = product(vision, linear(rgb)).map(|part| part.clamp(0.0, 1.0));
        let xyz = product(XYZ, seen);
        let [x, y, z] = [0, 1, 2].map(|index| {
            let part = xyz[index] / WHITE[index];
            if part > 0.008_856 { part.cbrt() } else { 7.787 * part + 16.0 / 116.0 }
        });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn distance(one: [f64; 3], other: [f64; 3]) -> f64 {
        one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    /// WCAG 2: contrast ratio.
    fn contrast(one: u32, other: u32) -> f64 {
        let luminance = |rgb| product([[0.2126, 0.7152, 0.0722], [0.0; 3], [0.0; 3]], linear(rgb))[0] + 0.05;
        let (a, b) = (luminance(one), luminance(other));
        a.max(b) / a.min(b)
    }

    #[test]
    fn the_members_of_a_group_are_distinguished_by_every_eye() {
        for (vision, matrix) in VISIONS {
            for (group, name, colour) in all() {
                for (other_group, other, against) in all() {
                    let compared = group == other_group || (group == "phase" && other_group == "direction");
                    if !compared || (group, name) == (other_group, other) {
                        continue;
                    }
                    let apart = distance(lab(colour.any, matrix), lab(against.any, matrix));
                    assert!(
                        apart > APART,
                        "{group} {name} and {other_group} {other} are {apart:.0} apart, {vision}"
                    );
                }
            }
        }
    }

    #[test]
    fn text_in_every_colour_can_be_read() {
        // The page's grounds.
        for (group, name, colour) in all() {
            let on_light = contrast(colour.light, 0xff_ff_ff);
            let on_dark = contrast(colour.dark, 0x15_1c_25);
            assert!(on_light >= 4.5 && on_dark >= 4.5, "{group} {name}: {on_light:.1}, {on_dark:.1}");
        }
    }

    #[test]
    fn only_the_uplink_is_orange_and_only_the_downlink_blue() {
        let [red, green, blue] = [16, 8, 0].map(|shift| (UP.any >> shift) & 0xff);
        assert!(red > 2 * green && green > blue, "orange");
        let [red, green, blue] = [16, 8, 0].map(|shift| (DOWN.any >> shift) & 0xff);
        assert!(blue > green && green > red, "blue");
    }
}
