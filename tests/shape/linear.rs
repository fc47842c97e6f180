//! What the filter copies: `bpf_skb_pull_data` allocates, and takes a clone apart. TEST_RUN makes linear packets only, hence a real
//! device and frames of which the test chooses how much is linear.

use aya::maps::{Array, MapData};

use crate::cable::{NEAR, PacketSocket, is_root, with_cable};
use crate::craft::{self, LinkLayer};
use crate::failures::compile;
use crate::kernel::Filter;
use crate::rig::skipped;

/// Above a page: smaller frames become linear whatever is asked for (`packet_alloc_skb`).
const PAYLOAD: usize = 4200;

/// Before all of the program's source: calls are counted in its `.bss`.
const COUNT_PULLS: &str = "volatile __u64 pulls;\n\
    #define bpf_skb_pull_data(skb, bytes) (pulls++, (bpf_skb_pull_data)(skb, bytes))";

#[test]
fn data_is_left_where_it_lies() {
    const TEST: &str = "data_is_left_where_it_lies";
    if !is_root() {
        return skipped(TEST, "needs root");
    }
    let object = match compile(COUNT_PULLS) {
        Ok(object) => object,
        Err(reason) => return skipped(TEST, &reason),
    };
    let mut filter = Filter::new(&object, LinkLayer::Ethernet);
    with_cable(|| {
        filter.programs.attach(NEAR).expect("the program attaches");
        let socket = PacketSocket::new(NEAR);
        // Bytes of the linear part, with Ethernet; whether anything must be pulled to know the connection.
        let v4 = [(14, 1), (33, 1), (34, 1), (53, 1), (54, 0), (66, 0), (113, 0)];
        let v6 = [(14, 1), (53, 1), (54, 1), (73, 1), (74, 0), (86, 0)];
        let data = || craft::up().payload(PAYLOAD).ts(9, 8);
        for (packet, cases) in [(data(), &v4[..]), (data().v6(), &v6)] {
            let frame = packet.build(LinkLayer::Ethernet);
            for &(linear, expected) in cases {
                let before = pulls(&mut filter);
                socket.send(&frame.bytes, linear);
                assert_eq!(pulls(&mut filter) - before, expected, "{linear} bytes are linear");
            }
        }
        filter.programs.detach();
    });
}

fn pulls(filter: &mut Filter) -> u64 {
    let map = filter.programs.object_mut().map_mut(".bss").expect("the object counts");
    let map: Array<&mut MapData, u64> = map.try_into().expect("an array");
    map.get(&0, 0).expect("readable")
}
