//! When a link is simulated, and what is said meanwhile.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::*;

const AT: Duration = Duration::from_secs(1_000);

fn question(down: &str, up: &str, round_trip_ms: u64) -> Question {
    let rate = |text: &str| text.parse().expect("a rate");
    let input = AdviceInput::new(rate(down), rate(up), Duration::from_millis(round_trip_ms));
    let advice = Arc::new(sizing::advise(&input).expect("advice"));
    let size = |bytes| Buffer::DropTail(BufferSize::Bytes(bytes));
    Question { input, advice, buffer: PerDirection { up: size(30_000), down: size(30_000) } }
}

fn link() -> Question {
    question("2400kbit", "196kbit", 40)
}

/// Waits for the thread, as the next second would.
fn settled(predictor: &mut Predictor) {
    let end = Instant::now() + Duration::from_secs(60);
    while predictor.running.is_some() {
        predictor.collect();
        assert!(Instant::now() < end, "the simulation does not end");
        std::thread::yield_now();
    }
}

fn reason(simulated: &Advice) -> &str {
    simulated.predicted_reason.as_deref().expect("no figure")
}

/// The answer carries the link that was asked for.
fn echo(question: &Question) -> Advice {
    let downlink_rate_bps = question.input.downlink_rate.bits_per_second();
    let inputs = PredictedInputs { downlink_rate_bps, ..PredictedInputs::default() };
    Advice { predicted_inputs: Some(inputs), ..not_simulated("") }
}

fn echoing() -> Predictor {
    Predictor { simulate: echo, ..Predictor::default() }
}

fn simulated_down(simulated: &Advice) -> Option<u64> {
    simulated.predicted_inputs.as_ref().map(|inputs| inputs.downlink_rate_bps)
}

#[test]
fn nothing_is_said_before_the_simulation_has_ended() {
    let mut predictor = echoing();
    let first = predictor.consider(AT, link());
    assert_eq!(first.predicted_inputs, None);
    assert!(reason(&first).contains("simulated"), "{first:?}");
    settled(&mut predictor);
    let then = predictor.consider(AT + Duration::from_secs(1), link());
    assert_eq!(simulated_down(&then), Some(2_400_000));
}

#[test]
fn small_changes_are_the_same_link_and_do_not_add_up() {
    let mut predictor = echoing();
    predictor.consider(AT, link());
    settled(&mut predictor);
    let later = AT + 10 * PERIOD;
    for near in [question("2290kbit", "196kbit", 40), question("2510kbit", "205kbit", 41)] {
        assert_eq!(simulated_down(&predictor.consider(later, near)), Some(2_400_000));
        assert!(predictor.running.is_none());
    }
    // Five per cent of what was simulated, not of what was found last.
    let far = predictor.consider(later, question("2530kbit", "196kbit", 40));
    assert_eq!(far.predicted_inputs, None);
    settled(&mut predictor);
    let then = predictor.consider(later, question("2530kbit", "196kbit", 40));
    assert_eq!(simulated_down(&then), Some(2_530_000));
}

#[test]
fn a_millisecond_is_nothing_though_it_is_a_large_share() {
    let short = question("2400kbit", "196kbit", 4);
    assert!(question("2400kbit", "196kbit", 5).is_near(&short));
    assert!(!question("2400kbit", "196kbit", 6).is_near(&short));
}

#[test]
fn each_figure_of_the_link_counts() {
    let mut other_buffer = link();
    other_buffer.buffer.up = Buffer::DropTail(BufferSize::Bytes(30_001));
    let mut managed = link();
    managed.buffer.down = Buffer::Other("fq_codel".into());
    for other in [
        question("2600kbit", "196kbit", 40),
        question("2400kbit", "180kbit", 40),
        question("2400kbit", "196kbit", 43),
        other_buffer,
        managed,
    ] {
        assert!(link().is_near(&link()));
        assert!(!other.is_near(&link()), "{other:?}");
        let mut predictor = echoing();
        predictor.consider(AT, link());
        settled(&mut predictor);
        assert_eq!(predictor.consider(AT + PERIOD, other).predicted_inputs, None);
    }
}

#[test]
fn a_link_that_changes_all_the_time_is_simulated_once_in_a_period() {
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    let mut predictor = Predictor {
        simulate: |question| {
            BEGUN.fetch_add(1, Ordering::Relaxed);
            echo(question)
        },
        ..Predictor::default()
    };
    let seconds = 3 * PERIOD.as_secs() as u32;
    for second in 0..seconds {
        let down = ["2400kbit", "1200kbit"][second as usize % 2];
        let said = predictor.consider(AT + Duration::from_secs(second.into()), question(down, "196kbit", 40));
        // What is said is of this link, or nothing.
        let bits = if second % 2 == 0 { 2_400_000 } else { 1_200_000 };
        assert!(said.predicted_inputs.is_none() || simulated_down(&said) == Some(bits), "{said:?}");
        settled(&mut predictor);
    }
    assert!((1..=3).contains(&BEGUN.load(Ordering::Relaxed)), "{BEGUN:?}");
}

#[test]
fn a_simulation_that_dies_says_so_and_is_repeated() {
    let mut predictor = Predictor { simulate: |_| panic!("as intended"), ..Predictor::default() };
    predictor.consider(AT, link());
    settled(&mut predictor);
    let said = predictor.consider(AT + Duration::from_secs(1), link());
    assert_eq!(reason(&said), "the simulation has failed");
    predictor.simulate = echo;
    predictor.consider(AT + PERIOD, link());
    settled(&mut predictor);
    assert!(predictor.consider(AT + PERIOD, link()).predicted_inputs.is_some());
}

#[test]
fn an_answer_is_that_of_the_command() {
    let asked = link();
    let answer = asked.answer();
    let mut input = asked.input.clone();
    let advised = sizing::predict(&input, &asked.advice, Transfers::default()).expect("figures");
    input.uplink_buffer = Some(BufferSize::Bytes(30_000));
    input.downlink_buffer = Some(BufferSize::Bytes(30_000));
    let present = sizing::predict(&input, &asked.advice, Transfers::default()).expect("figures");
    let best =
        sizing::recommend(&input, &asked.advice, Transfers::default(), sizing::DELAY_BOUND).expect("figures");
    assert_ne!(present, advised);
    assert_eq!((answer.predicted, answer.predicted_reason), (Some(present.into()), None));
    assert_eq!(answer.predicted_as_advised, Some(advised.into()));
    assert_eq!(answer.recommended, Some(best));
    let expected = PredictedInputs {
        downlink_rate_bps: 2_400_000,
        uplink_rate_bps: 196_000,
        rtt_s: 0.04,
        downlink_buffer: Some("30000b".to_owned()),
        uplink_buffer: Some("30000b".to_owned()),
        congestion_control: "cubic".into(),
        downloads: 1,
        uploads: 1,
    };
    assert_eq!(answer.predicted_inputs, Some(expected));
}

#[test]
fn buffers_that_are_not_known_or_not_simulated_leave_only_the_advice() {
    let mut elsewhere = link();
    elsewhere.buffer.down = Buffer::Elsewhere;
    let mut managed = link();
    managed.buffer.up = Buffer::Other("fq_codel".into());
    for (asked, part) in
        [(elsewhere, "the size of the downlink's buffer"), (managed, "uplink's queue is fq_codel")]
    {
        let answer = asked.answer();
        assert!(reason(&answer).contains(part), "{answer:?}");
        assert!(answer.recommended_reason.expect("a reason").contains(part));
        assert!(answer.predicted_as_advised.is_some());
        assert_eq!(answer.predicted_inputs.and_then(|inputs| inputs.uplink_buffer), None);
    }
    let fast = question("1gbit", "500mbit", 10).answer();
    assert!(reason(&fast).contains("too fast"));
    assert!(fast.predicted_as_advised_reason.is_some() && fast.recommended_reason.is_some());
}

#[test]
fn packets_and_bytes_may_be_mixed() {
    let mut asked = link();
    asked.buffer.up = Buffer::DropTail(BufferSize::Packets(20));
    let in_packets = asked.answer().predicted.expect("figures");
    asked.buffer.up = Buffer::DropTail(BufferSize::Packets(10));
    let smaller = asked.answer().predicted.expect("figures");
    assert!(smaller.queue_delay_mean_s < in_packets.queue_delay_mean_s, "{smaller:?} {in_packets:?}");
}
