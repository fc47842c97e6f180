//! What the model of paper 000 predicts for a link of the lab, as goodput.

use pendulum_model::rate::BufferSize;
use pendulum_model::ratio::{Setting, paper};
use pendulum_model::segment::PerDirection;

use super::scenario::Figures;
use crate::lab::LinkSpec;
use crate::shaper::FULL_FRAME_BYTES;

/// Payload of a full frame: 1,500 bytes of IP less 20 of IPv4 and 32 of TCP with timestamps.
const FULL_PAYLOAD_BYTES: f64 = 1448.0;

/// Share of the link rate that arrives as payload in full segments.
pub const PAYLOAD_SHARE: f64 = FULL_PAYLOAD_BYTES / FULL_FRAME_BYTES as f64;

/// A download that has the link to itself fills it.
pub fn download_alone(link: &LinkSpec) -> Figures {
    Figures::new(link.downlink.rate.bits_per_second() as f64 * PAYLOAD_SHARE, 0.0)
}

/// One download beside one upload by 000 Eq. 6–11, unlimited TCP buffers, delayed ACKs. Several uploads count as one: the paper
/// found no difference (000 §4). Nothing is predicted for buffers counted in packets: they have no closed form.
pub fn download_and_upload(link: &LinkSpec) -> Figures {
    let (BufferSize::Bytes(down), BufferSize::Bytes(up)) = (link.downlink.buffer, link.uplink.buffer) else {
        return Figures::default();
    };
    let capacity =
        PerDirection { up: link.uplink.rate.bytes_per_second(), down: link.downlink.rate.bytes_per_second() };
    let buffer = PerDirection { up: up as f64, down: down as f64 };
    let propagation = link.delays.propagation.as_secs_f64();
    let predicted =
        Setting::new(capacity, buffer, propagation).ok().and_then(|setting| paper::predict(&setting).ok());
    predicted.map_or_else(Figures::default, |predicted| {
        let goodput = |bytes_per_second: f64| bytes_per_second * 8.0 * PAYLOAD_SHARE;
        Figures {
            ratio: Some(predicted.ratio),
            ..Figures::new(goodput(predicted.throughput.down), goodput(predicted.throughput.up))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_buffers_predict_equal_throughput_on_the_link_of_figure_1() {
        let predicted = download_and_upload(&LinkSpec::FIG1);
        assert!((predicted.ratio.unwrap() - 1.0).abs() < 1e-9);
        let upload = predicted.upload_bps.unwrap();
        assert!((170_000.0..196_000.0).contains(&upload), "{upload}");
    }

    #[test]
    fn packet_buffers_have_no_prediction() {
        let mut link = LinkSpec::FIG1;
        link.uplink.buffer = BufferSize::Packets(20);
        assert_eq!(download_and_upload(&link), Figures::default());
    }

    #[test]
    fn alone_the_download_fills_the_link() {
        let alone = download_alone(&LinkSpec::FIG1).download_bps.unwrap();
        assert!((2_290_000.0..2_300_000.0).contains(&alone), "{alone}");
    }
}
