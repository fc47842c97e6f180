//! What a user feels beside the traffic: a ping from the home to the internet.

use std::time::Duration;

use crate::experiment::ExperimentError;
use crate::lab::Lab;
use crate::process::Process;
use crate::topology::{IpVersion, Role};

/// Between two requests: enough of them for a 95th percentile within a quarter of a minute, and a few hundredths of the slowest uplink.
const INTERVAL: Duration = Duration::from_millis(250);
/// Data of each request, which must hold ping's time stamp.
const BYTES: &str = "16";
/// What is under way when the last request was sent is waited for so long.
const LINGER: Duration = Duration::from_secs(4);

/// A ping that runs.
pub(super) struct ControlPing {
    process: Process,
    sent: u32,
}

/// What a ping saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(super) struct Pinged {
    /// 95th percentile of the round trips, seconds.
    pub(super) p95_s: Option<f64>,
    /// Share of the requests without a reply.
    pub(super) loss: Option<f64>,
}

impl ControlPing {
    /// Starts one that sends for `length`.
    pub(super) fn start(lab: &Lab, length: Duration) -> Result<Self, ExperimentError> {
        let host = lab.host(Role::U2);
        let sent = (length.as_secs_f64() / INTERVAL.as_secs_f64()) as u32;
        let mut command = host.command("ping")?;
        command.args(["-n", "-s", BYTES, "-i", &INTERVAL.as_secs_f64().to_string(), "-c", &sent.to_string()]);
        command.args(["-W", &LINGER.as_secs().to_string()]);
        command.args(Role::D1.address(IpVersion::V4).map(|address| address.to_string()));
        Ok(Self { process: host.spawn(command, "ping")?, sent })
    }

    /// Waits for its end; `settling` is the share of the requests left out at the begin.
    pub(super) fn finish(mut self, settling: f64) -> Result<Pinged, ExperimentError> {
        self.process.wait_timeout(LINGER + 2 * INTERVAL)?;
        let text = self.process.stdout()?;
        Ok(evaluate(&text, self.sent, (f64::from(self.sent) * settling) as u32))
    }
}

/// Reads the lines of iputils' ping: `… icmp_seq=12 ttl=62 time=34.5 ms`. Only numbers above `skipped` count.
fn evaluate(text: &str, sent: u32, skipped: u32) -> Pinged {
    let mut times: Vec<f64> = text
        .lines()
        .filter(|line| !line.contains("DUP!"))
        .filter_map(|line| {
            let value = |key: &str| line.split_once(key)?.1.split_ascii_whitespace().next();
            let number: u32 = value("icmp_seq=")?.parse().ok()?;
            let milliseconds: f64 = value("time=")?.parse().ok()?;
            (number > skipped && number <= sent).then_some(milliseconds / 1e3)
        })
        .collect();
    let requests = sent.saturating_sub(skipped);
    if requests == 0 {
        return Pinged::default();
    }
    times.sort_by(f64::total_cmp);
    // Nearest rank: the least time that 95 % of the replies do not exceed.
    let rank = (times.len() as f64 * 0.95).ceil() as usize;
    Pinged {
        p95_s: times.get(rank.saturating_sub(1)).copied(),
        loss: Some(1.0 - times.len() as f64 / f64::from(requests)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u32, milliseconds: f64) -> String {
        format!("24 bytes from 10.0.1.2: icmp_seq={number} ttl=62 time={milliseconds} ms\n")
    }

    #[test]
    fn the_beginning_is_left_out_and_a_missing_reply_is_a_loss() {
        // 40 requests, the first 20 left out; number 30 has no reply; numbers 39 and 40 are slow.
        let text: String = (1..=40)
            .filter(|number| *number != 30)
            .map(|number| {
                line(
                    number,
                    if number <= 20 {
                        900.0
                    } else if number > 38 {
                        80.0
                    } else {
                        50.0
                    },
                )
            })
            .collect();
        let seen = evaluate(&text, 40, 20);
        assert_eq!(seen.loss.map(|loss| (loss * 20.0).round()), Some(1.0));
        // 19 replies: rank 19 of 19 is 80 ms; of 20 replies with one slow, rank 19 would be 50 ms.
        assert_eq!(seen.p95_s, Some(0.08));
        let one_slow: String =
            (1..=20).map(|number| line(number, if number == 7 { 80.0 } else { 50.0 })).collect();
        assert_eq!(evaluate(&one_slow, 20, 0), Pinged { p95_s: Some(0.05), loss: Some(0.0) });
    }

    #[test]
    fn without_replies_there_is_no_time_and_all_is_lost() {
        let text = "PING 10.0.1.2 (10.0.1.2) 16(44) bytes of data.\n\n3 packets transmitted, 0 received\n";
        assert_eq!(evaluate(text, 4, 1), Pinged { p95_s: None, loss: Some(1.0) });
        assert_eq!(evaluate(text, 0, 0), Pinged::default());
    }

    #[test]
    fn a_second_reply_to_one_request_does_not_count() {
        let twice = format!("{}24 bytes from 10.0.1.2: icmp_seq=1 ttl=62 time=9 ms (DUP!)\n", line(1, 5.0));
        assert_eq!(evaluate(&twice, 2, 0), Pinged { p95_s: Some(0.005), loss: Some(0.5) });
    }
}
