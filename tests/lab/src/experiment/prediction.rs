//! What the models predict for a link of the lab, as goodput.

use pendulum_model::rate::BufferSize;
use pendulum_model::ratio::{Prediction, Setting, packets, paper, refined};
use pendulum_model::segment::PerDirection;

use super::figures::{Figures, Predicted};
use crate::lab::LinkSpec;
use crate::shaper::FULL_FRAME_BYTES;

/// Payload of a full frame: 1,500 bytes of IP less 20 of IPv4 and 32 of TCP with timestamps.
const FULL_PAYLOAD_BYTES: f64 = 1448.0;

/// Share of the link rate that arrives as payload in full segments.
pub const PAYLOAD_SHARE: f64 = FULL_PAYLOAD_BYTES / FULL_FRAME_BYTES as f64;

/// A download that has the link to itself fills it.
pub fn download_alone(link: &LinkSpec) -> Predicted {
    let paper = Figures::new(link.downlink.rate.bits_per_second() as f64 * PAYLOAD_SHARE, 0.0);
    Predicted { paper, refined: paper }
}

/// One download beside one upload, unlimited TCP buffers, delayed ACKs: by 000 Eq. 6–11 and by the refined model. Several uploads count as
/// one: the paper found no difference (000 §4).
pub fn download_and_upload(link: &LinkSpec) -> Predicted {
    download_beside_upload(link, true)
}

/// The same with the choice of delayed ACKs. For buffers counted in packets there is no closed form: Eq. 11 stays empty, and the rules of
/// 000 §4.1 stand in the refined model's place.
pub fn download_beside_upload(link: &LinkSpec, delayed_acks: bool) -> Predicted {
    beside_upload(link, delayed_acks, None)
}

/// The same with TCP buffers of so many bytes, `B_TCP`.
pub fn beside_upload(link: &LinkSpec, delayed_acks: bool, tcp_buffer: Option<u64>) -> Predicted {
    let in_packets = matches!(link.uplink.buffer, BufferSize::Packets(_));
    let capacity =
        PerDirection { up: link.uplink.rate.bytes_per_second(), down: link.downlink.rate.bytes_per_second() };
    let buffer =
        PerDirection { up: link.uplink.buffer_bytes() as f64, down: link.downlink.buffer_bytes() as f64 };
    // What both connections have in common; of two access wires the shorter.
    let access = link.delays.d1_access.min(link.delays.u1_access);
    let propagation = (link.delays.propagation + access).as_secs_f64();
    let Ok(setting) = Setting::new(capacity, buffer, propagation) else { return Predicted::default() };
    let setting = setting.with_delayed_acks(delayed_acks);
    let setting = setting.with_tcp_buffer(tcp_buffer.map_or(f64::INFINITY, |bytes| bytes as f64));
    if in_packets {
        return Predicted { paper: Figures::default(), refined: figures(&packets::predict(&setting)) };
    }
    Predicted {
        paper: paper::predict(&setting)
            .map_or_else(|_| Figures::default(), |prediction| figures(&prediction)),
        refined: figures(&refined::predict(&setting)),
    }
}

fn figures(prediction: &Prediction) -> Figures {
    let goodput = |bytes_per_second: f64| bytes_per_second * 8.0 * PAYLOAD_SHARE;
    Figures {
        ratio: Some(prediction.ratio),
        ..Figures::new(goodput(prediction.throughput.down), goodput(prediction.throughput.up))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_buffers_predict_equal_throughput_on_the_link_of_figure_1() {
        let predicted = download_and_upload(&LinkSpec::FIG1);
        assert!((predicted.paper.ratio.unwrap() - 1.0).abs() < 1e-9);
        let upload = predicted.paper.upload_bps.unwrap();
        assert!((170_000.0..196_000.0).contains(&upload), "{upload}");
        // The refined model counts what stands as ACKs upstream, so its download is larger.
        assert!(predicted.refined.ratio.unwrap() > 1.0);
    }

    #[test]
    fn packet_buffers_have_no_equation() {
        let mut link = LinkSpec::FIG1;
        link.uplink.buffer = BufferSize::Packets(20);
        let predicted = download_and_upload(&link);
        assert_eq!(predicted.paper, Figures::default());
        assert!(predicted.refined.ratio.is_some());
    }

    #[test]
    fn alone_the_download_fills_the_link() {
        let alone = download_alone(&LinkSpec::FIG1).paper.download_bps.unwrap();
        assert!((2_290_000.0..2_300_000.0).contains(&alone), "{alone}");
    }
}
