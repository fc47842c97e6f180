//! Advice and predictions for people.

use std::fmt;

use crate::rate::in_words;
use crate::ratio::{Caveat, Confidence};

use super::{Advice, BufferUnit, CongestionControl, Predicted, QueueManagement, Transfers};

impl fmt::Display for Advice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = &self.explanation;
        let of = if why.ratios_of_given_buffers { "your buffers" } else { "the recommended buffers" };
        writeln!(
            out,
            "Wanted: download/upload ratio r = k = {:.2}, so that both links can be full.",
            self.wanted_ratio
        )?;
        match self.paper_ratio {
            Some(ratio) => writeln!(out, "Predicted r of {of}: {ratio:.2} by the paper (Eq. 11),")?,
            None => writeln!(out, "Predicted r of {of}: none by the paper (ACKs fill the uplink buffer),")?,
        }
        writeln!(out, "  {:.2} by the refined model.", self.refined_ratio)?;
        writeln!(out)?;
        writeln!(out, "Recommended uplink buffer    {} bytes", self.uplink_buffer_bytes)?;
        writeln!(out, "  if it counts packets       {} packets", self.uplink_buffer_packets)?;
        let origin = if why.downlink_recommended { "recommended" } else { "as given" };
        writeln!(out, "Downlink buffer              {} bytes, {origin}", self.downlink_buffer_bytes)?;
        let share = |bps: f64, rate: crate::rate::Rate| 100.0 * bps / rate.bits_per_second() as f64;
        let (down, up) = (share(self.download_bps, why.rates.down), share(self.upload_bps, why.rates.up));
        writeln!(
            out,
            "Expected download            {}, {down:.0} % of the link",
            in_words(self.download_bps)
        )?;
        writeln!(out, "Expected upload              {}, {up:.0} % of the link", in_words(self.upload_bps))?;
        writeln!(out, "Longest wait in both queues  {:.0} ms", self.max_queue_delay_s * 1e3)?;
        let packets = why.one_way_packets;
        writeln!(out, "One-way rule of thumb        {} packets up, {} down", packets.up, packets.down)?;
        writeln!(out)?;
        writeln!(out, "Expected figures: {}, {}.", formula(why.unit), confidence(why.confidence))?;
        if why.uplink_at_minimum {
            writeln!(
                out,
                "  - r = k would need less than one packet upstream; enlarge the downlink buffer."
            )?;
        }
        for caveat in &why.caveats {
            writeln!(out, "  - {}", text(*caveat))?;
        }
        writeln!(out)?;
        writeln!(out, "To apply it:")?;
        for command in &self.commands {
            writeln!(out, "  {command}")?;
        }
        Ok(())
    }
}

fn formula(unit: BufferUnit) -> &'static str {
    match unit {
        BufferUnit::Bytes => "the refined model",
        BufferUnit::Packets => "the empirical rules for packet buffers",
    }
}

fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "expect an error of a factor of 1.2 to 1.5",
        Confidence::Moderate => "expect an error of a factor of about 1.4, at worst 2.5",
        Confidence::Low => "an order of magnitude at best",
    }
}

fn text(caveat: Caveat) -> &'static str {
    match caveat {
        Caveat::AcksStandUpstream => {
            "the uplink buffer is large: the paper's ratio is too low, for much of the download stands as ACKs upstream"
        }
        Caveat::BufferBelowBandwidthDelay => {
            "a buffer is below the bandwidth-delay product: its link idles after each loss"
        }
        Caveat::FewSegments => "a buffer holds fewer than four segments: losses may end in timeouts",
        Caveat::TwoSolutions => {
            "the TCP buffers allow two operating points; the paper's ratio is one of them"
        }
        Caveat::PacketCounted => {
            "packet-counted buffers have no closed form; byte-counted ones are easier to size"
        }
    }
}

impl fmt::Display for Predicted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.ratio_interval;
        write!(
            out,
            "download {}, upload {} of payload, r = {:.2} ({low:.2} to {high:.2});\n  ",
            in_words(self.download_bps),
            in_words(self.upload_bps),
            self.ratio,
        )?;
        let times = |mean: f64, p95: f64| {
            format!(
                "{:.0} ms to a round trip on average, up to {:.0} ms for 95 % of the time",
                mean * 1e3,
                p95 * 1e3
            )
        };
        write!(out, "both queues add {}", times(self.queue_delay_mean_s, self.queue_delay_p95_s))?;
        if self.aqm == QueueManagement::Cake {
            let own = times(self.transfers_queue_delay_mean_s, self.transfers_queue_delay_p95_s);
            write!(out, ", of whatever else is sent;\n  of the transfers' own frames: {own}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Transfers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count =
            |number: u32, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let which = match self.congestion_control {
            CongestionControl::Reno => "reno",
            CongestionControl::Cubic => "CUBIC",
            CongestionControl::Bbr => "BBR",
        };
        let paced = if self.paced { ", paced" } else { "" };
        let cake = match self.queue_management {
            QueueManagement::Fifo => "",
            QueueManagement::Cake => ", cake before the uplink",
        };
        write!(
            out,
            "{} and {} with {which}{paced}{cake}",
            count(self.downloads, "download"),
            count(self.uploads, "upload")
        )
    }
}
