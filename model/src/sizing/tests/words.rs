//! Advice in words: every figure of it, with its unit.

use super::super::*;
use super::{input, with_buffers};
use crate::rate::in_words;
use crate::ratio::Confidence;

fn lines(advice: &Advice) -> Vec<String> {
    advice.to_string().lines().map(str::to_owned).collect()
}

#[track_caller]
fn assert_line(advice: &Advice, line: &str) {
    let found = lines(advice);
    assert!(found.iter().any(|found| found == line), "no {line:?} in\n{}", found.join("\n"));
}

#[test]
fn the_words_hold_the_figures() {
    let advice = advise(&with_buffers("30000", None)).expect("advice");
    assert_line(&advice, "Wanted: download/upload ratio r = k = 12.24, so that both links can be full.");
    assert_line(&advice, "Predicted r of the recommended buffers: 12.24 by the paper (Eq. 11),");
    assert_line(&advice, &format!("  {:.2} by the refined model.", advice.refined_ratio));
    assert_line(&advice, "Recommended uplink buffer    2971 bytes");
    assert_line(&advice, "  if it counts packets       10 packets");
    assert_line(&advice, "Downlink buffer              30000 bytes, as given");
    assert_line(&advice, "Longest wait in both queues  221 ms");
    // Of 2,400 and 196 kbit/s.
    let (down, up) = (advice.download_bps, advice.upload_bps);
    assert_line(
        &advice,
        &format!("Expected download            {}, {:.0} % of the link", in_words(down), down / 24e3),
    );
    assert_line(
        &advice,
        &format!("Expected upload              {}, {:.0} % of the link", in_words(up), up / 1.96e3),
    );
    let packets = advice.explanation.one_way_packets;
    let rule = format!("One-way rule of thumb        {} packets up, {} down", packets.up, packets.down);
    assert_line(&advice, &rule);
    assert_line(&advice, "To apply it:");
    for command in &advice.commands {
        assert_line(&advice, &format!("  {command}"));
    }
    let both = advise(&with_buffers("30000", Some("30000"))).expect("advice");
    assert_line(&both, "Predicted r of your buffers: 1.37 by the paper (Eq. 11),");
    let none = advise(&input()).expect("advice");
    assert_line(&none, "Downlink buffer              62200 bytes, recommended");
}

/// Where the ACKs fill the uplink's buffer (γ = 412,000/3,980 is above 1/a = 80) the paper has no ratio, and the words say so.
#[test]
fn what_the_paper_cannot_say_is_said() {
    let advice = advise(&with_buffers("400000", Some("3000"))).expect("advice");
    assert_eq!(advice.paper_ratio, None);
    assert_line(&advice, "Predicted r of your buffers: none by the paper (ACKs fill the uplink buffer),");
}

/// How far to trust the figures, and each reason not to.
#[test]
fn trust_is_put_into_words() {
    let mut packets = with_buffers("50p", Some("50p"));
    packets.unit = BufferUnit::Packets;
    for input in [input(), with_buffers("30000", Some("30000")), with_buffers("3000", None), packets] {
        let advice = advise(&input).expect("advice");
        let why = &advice.explanation;
        let formula = match input.unit {
            BufferUnit::Bytes => "the refined model",
            BufferUnit::Packets => "the empirical rules for packet buffers",
        };
        let confidence = match why.confidence {
            Confidence::High => "expect an error of a factor of 1.2 to 1.5",
            Confidence::Moderate => "expect an error of a factor of about 1.4, at worst 2.5",
            Confidence::Low => "an order of magnitude at best",
        };
        assert_line(&advice, &format!("Expected figures: {formula}, {confidence}."));
        let reasons = lines(&advice).iter().filter(|line| line.starts_with("  - ")).count();
        assert_eq!(reasons, why.caveats.len() + usize::from(why.uplink_at_minimum));
    }
    let large = advise(&with_buffers("30000", Some("30000"))).expect("advice");
    assert!(large.to_string().contains("  - the uplink buffer is large: the paper's ratio is too low"));
}
