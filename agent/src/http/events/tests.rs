use std::sync::Arc;

use axum::body::Body;
use axum::http::Request as HttpRequest;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::sync::watch;

use crate::config::{Active, Config};
use crate::http::{Access, App, router};
use crate::journal::KEPT;
use crate::journal::tests::journal_of;
use crate::snapshot::example;

/// The answer of an agent on two links with so many events; odd ones are of `dsl`, even ones of `lte`.
async fn ask(events: u64, query: &str) -> (u16, Value) {
    let board = example::board(vec![example::link("dsl"), example::link("lte")]);
    let (active, stopping) = (Active::start(Config::default()).1, watch::channel(false).1);
    let app = App::new(board, journal_of(events), active, true, stopping);
    let request = HttpRequest::get(format!("/api/v1/events{query}")).body(Body::empty()).unwrap();
    let response =
        TowerToHyperService::new(router(Arc::new(app), Access::local())).call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 1 << 22).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn numbers(events: u64, query: &str) -> (Vec<u64>, u64) {
    let (status, report) = ask(events, query).await;
    assert_eq!(status, 200, "{report}");
    let numbers = report["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap());
    (numbers.collect(), report["dropped"].as_u64().unwrap())
}

#[tokio::test]
async fn the_newest_come_oldest_first() {
    assert_eq!(numbers(5, "").await, (vec![1, 2, 3, 4, 5], 0));
    assert_eq!(numbers(5, "?limit=2").await, (vec![4, 5], 0));
    assert_eq!(numbers(5, "?link=lte").await, (vec![2, 4], 0));
    assert_eq!(numbers(0, "").await, (vec![], 0));
}

#[tokio::test]
async fn who_asks_again_gets_what_follows() {
    assert_eq!(numbers(5, "?since=3").await, (vec![4, 5], 0));
    assert_eq!(numbers(5, "?since=1&limit=2").await, (vec![2, 3], 0));
    assert_eq!(numbers(5, "?since=5").await, (vec![], 0));
    let (events, dropped) = numbers(KEPT as u64 + 10, "?since=4&limit=1").await;
    assert_eq!((events, dropped), (vec![11], 6));
}

/// A hundred unless asked for fewer or more; as many as are kept at most.
#[tokio::test]
async fn as_many_as_asked_for() {
    let kept = KEPT as u64;
    for (query, first, last) in [
        ("", 1_101, 1_200),
        ("?limit=1", 1_200, 1_200),
        ("?limit=1000", 201, 1_200),
        // What is asked for from a number on comes from the oldest on.
        ("?since=300", 301, 400),
        ("?since=300&limit=1000", 301, 1_200),
        ("?since=1150", 1_151, 1_200),
    ] {
        let (found, dropped) = numbers(kept + 200, query).await;
        assert_eq!(found, (first..=last).collect::<Vec<_>>(), "{query}");
        assert_eq!(dropped == 0, query.contains("since"), "{query}");
    }
    // All there ever were, and 200 of them are gone.
    let (found, dropped) = numbers(kept + 200, "?since=0&limit=2").await;
    assert_eq!((found, dropped), (vec![201, 202], 200));
}

/// The limit counts what is listed, not what was left out; odd ones are of `dsl`.
#[tokio::test]
async fn events_of_one_link_are_counted_for_themselves() {
    assert_eq!(numbers(9, "?link=dsl&limit=2").await.0, [7, 9]);
    assert_eq!(numbers(9, "?link=dsl&since=1&limit=2").await.0, [3, 5]);
    assert_eq!(numbers(9, "?link=lte&since=8").await.0, Vec::<u64>::new());
}

#[tokio::test]
async fn an_event_is_reported_as_it_was_kept() {
    let (_, report) = ask(2, "?limit=1").await;
    let kept = serde_json::to_value(&*journal_of(2).after(1).0[0]).unwrap();
    let told = &report["events"][0];
    for key in ["seq", "link", "at_s"] {
        assert!(told.get(key).is_some_and(|value| *value == kept[key]), "{key}: {told}");
    }
    assert_eq!(told["link"], "lte");
}

#[tokio::test]
async fn wrong_requests_get_a_reason_and_a_remedy() {
    for (query, part) in [
        ("?limit=0", "limit=0 is out of range"),
        ("?limit=1001", "out of range"),
        ("?since=-1", "since"),
        ("?sinse=1", "sinse"),
        ("?link=x", "there is no link x"),
    ] {
        let (status, body) = ask(1, query).await;
        assert_eq!(status, 400, "{query}");
        assert!(body["error"]["reason"].as_str().unwrap().contains(part), "{body}");
        assert!(body["error"]["remedy"].as_str().unwrap().contains("limit=1…1000"), "{body}");
    }
}
