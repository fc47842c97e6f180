use std::net::IpAddr;

use serde_json::json;

use super::*;
use crate::snapshot::example;

#[test]
fn lan_says_which_traffic_is_homes() {
    let mut link = LinkConfig::new("wan0");
    let translated = |device: &str| Home {
        translated_from: Some(IpAddr::from([192, 168, 1, 7])),
        reached: Some(Reached::Through(device.to_owned())),
    };
    let said = |home: &Home, link: &LinkConfig| {
        let whose = whose(home, link);
        [whose.home_host_source.as_deref(), whose.home_device.as_deref(), whose.traffic.as_deref()]
            .map(|known| known.map(str::to_owned))
    };
    let of = |device: &str, traffic: &str| ["conntrack", device, traffic].map(|known| Some(known.to_owned()));
    assert_eq!(said(&translated("br0"), &link), of("br0", "home"));
    link.lan = vec!["br0".to_owned()];
    assert_eq!(said(&translated("br0"), &link), of("br0", "home"));
    assert_eq!(said(&translated("docker0"), &link), of("docker0", "other"));
    let own = Home { reached: Some(Reached::Own), ..Home::default() };
    assert_eq!(said(&own, &link), [None, None, Some("gateway".to_owned())]);
    // On a bridge the route to home is not known, and says nothing.
    let bridged = Home { reached: Some(Reached::Through("wan0".to_owned())), ..Home::default() };
    assert_eq!(said(&bridged, &link), [None, None, None]);
    assert_eq!(whose(&Home::default(), &link), Flow::default());
}

fn rows() -> Vec<FlowRow> {
    example::link("dsl").flows.rows.clone()
}

/// The kernel is asked for the connection that the table has, with whether it must still know it.
#[test]
fn a_connection_is_asked_for_by_its_ends_its_beginning_and_whether_it_is_open() {
    let mut row = rows().remove(1);
    let expected = WanConnection {
        home: "192.0.2.2:40002".parse().unwrap(),
        remote: "192.0.2.100:443".parse().unwrap(),
        // Home sent first, in second 1; the other end in second 2.
        began_ns: 1_000_000_000,
        is_open: true,
    };
    assert_eq!(connection(&row), expected);
    row.is_closed = true;
    row.halves.down.first_seen_ns = 999;
    assert_eq!(connection(&row), WanConnection { began_ns: 999, is_open: false, ..expected });
    // Of an end that was never seen nothing began.
    row.halves.up.first_seen_ns = 0;
    assert_eq!(connection(&row).began_ns, 999);
    row.halves.down.first_seen_ns = 0;
    assert_eq!(connection(&row).began_ns, 0);
}

/// Both count alike: neither the larger way nor their product makes a flow busy.
#[test]
fn the_busiest_flow_has_the_largest_sum_of_both_ways() {
    let mut rows = rows();
    // Sums 12, 11 and 10; products 20, 10 and 25; differences 8, 9 and 0; of one way 2, 10 and 5.
    for (row, [up, down]) in rows.iter_mut().zip([[2_u16, 10], [10, 1], [5, 5]]) {
        for (half, figure) in row.halves.both_mut().into_iter().zip([up, down]) {
            half.wire_rate = f32::from(figure);
            half.wire_bytes = u64::from(100 * figure);
        }
    }
    for (sort, of_one) in [(FlowOrder::Rate, 1.0), (FlowOrder::Bytes, 100.0)] {
        let ranks: Vec<f64> = rows.iter().map(|row| rank(row, sort)).collect();
        assert_eq!(ranks, [12.0 * of_one, 11.0 * of_one, 10.0 * of_one], "{sort:?}");
    }
}

/// Home and configuration of each flow are those of its own row and link, whichever come first in the list.
#[test]
fn whose_a_flow_is_belongs_to_it_alone() {
    let links = ["dsl", "lte", "fibre"].map(|name| Arc::new(example::link(name)));
    let flows: Vec<ListedFlow> = links
        .iter()
        .zip([0, 1, 2])
        .map(|(link, row)| (Arc::clone(&link.name), link.flows.rows[row].clone()))
        .collect();
    let through = |last: u8, device: &str| Home {
        translated_from: Some(IpAddr::from([192, 168, 1, last])),
        reached: Some(Reached::Through(device.to_owned())),
    };
    let homes = |missing: Option<&str>| Homes {
        homes: vec![through(7, "br0"), through(8, "br0"), through(9, "br0")],
        missing: missing.map(str::to_owned),
    };
    // `fibre` has just been taken out of the file.
    let configured = [
        LinkConfig { name: "lte".to_owned(), lan: vec!["br1".to_owned()], ..LinkConfig::new("wwan0") },
        LinkConfig { name: "dsl".to_owned(), ..LinkConfig::new("ppp0") },
    ];
    let told = |homes| {
        let report = FlowList { total: 42, listed: flows.clone(), homes, configured: configured.to_vec() };
        let listed = (0..3).filter_map(|index| report.flow(index)).collect();
        assert!(report.flow(3).is_none());
        serde_json::to_value(Flows { flows: listed, ..report.head() }).unwrap()
    };
    let report = told(homes(None));
    assert_eq!(report["total"], 42);
    assert_eq!(report.get("home_host_missing"), None);
    let whose = |index: usize| {
        let flow = &report["flows"][index];
        let key = |key: &str| flow.get(key).cloned();
        (flow["link"].clone(), flow["client"].clone(), key("home_host"), key("traffic"))
    };
    let known =
        |link, client, host, traffic| (json!(link), json!(client), Some(json!(host)), Some(json!(traffic)));
    assert_eq!(whose(0), known("dsl", "192.0.2.1:40001", "192.168.1.7", "home"));
    // `lan` of `lte` does not have the device.
    assert_eq!(whose(1), known("lte", "192.0.2.2:40002", "192.168.1.8", "other"));
    assert_eq!(whose(2), (json!("fibre"), json!("192.0.2.3:40003"), None, None));

    // Where nobody could be asked, the flows are listed all the same.
    let unknown = told(Homes { homes: vec![], missing: Some("no permission".to_owned()) });
    assert_eq!(unknown["home_host_missing"], "no permission");
    assert_eq!(unknown["flows"].as_array().map(Vec::len), Some(3));
    assert_eq!(unknown["flows"][0].get("home_host"), None);
}
