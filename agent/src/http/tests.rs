use std::net::{IpAddr, Ipv4Addr};

use axum::body::Body;
use axum::http::Request;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;

use super::*;
use crate::config::Config;
use crate::config::Http;
use crate::snapshot::{LinkSnapshot, example};

fn app(links: Vec<LinkSnapshot>) -> Router {
    guarded(links, &Http::default(), LOCAL)
}

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn guarded(links: Vec<LinkSnapshot>, config: &Http, listen: IpAddr) -> Router {
    let (journal, stopping) = (Journal::new(None), watch::channel(false).1);
    let active = Active::start(Config::default()).1;
    let app = App::new(example::board(links), journal, active, true, stopping);
    router(Arc::new(app), Access::new(config, listen).unwrap())
}

async fn ask(router: Router, request: Request<Body>) -> (StatusCode, HeaderMap, String) {
    use hyper::service::Service as _;
    let response = TowerToHyperService::new(router).call(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(path: &str) -> (StatusCode, Value) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let (status, headers, body) = ask(app(vec![example::link("dsl")]), request).await;
    assert_eq!(headers[CONTENT_TYPE], "application/json");
    (status, serde_json::from_str(&body).unwrap())
}

#[tokio::test]
async fn state_has_the_documented_fields() {
    let (status, state) = get("/api/v1/state").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(state["version"], env!("CARGO_PKG_VERSION"));
    let link = &state["links"][0];
    for (pointer, expected) in [
        ("/name", Value::from("dsl")),
        ("/wan", "wan0".into()),
        ("/device", "up".into()),
        ("/attached", true.into()),
        ("/hooks/ifindex", 3.into()),
        ("/hooks/egress", "tcx".into()),
        ("/hooks/ingress", "clsact".into()),
        ("/hooks/link_layer", "ethernet".into()),
        ("/trouble", Value::Null),
        ("/link/uplink_rate_bps", 200_000.into()),
        ("/link/downlink_rate_bps", Value::Null),
        ("/link/rate_source", "config".into()),
        ("/directions/up/segments/data", 1_000.into()),
        ("/directions/down/segments/dup_ack", 2_002.into()),
        ("/directions/up/bytes", 1_206_600.into()),
        ("/directions/up/retransmitted_segments", 1_005.into()),
        ("/directions/up/throughput_bps", 100_000.0.into()),
        ("/directions/up/unseen_ratio", 0.25.into()),
        ("/directions/up/goodput_bps", 96_000.0.into()),
        ("/directions/up/utilization", 0.5.into()),
        ("/directions/down/utilization", Value::Null),
        ("/directions/up/in_flight_bytes", 4_321.into()),
        ("/directions/down/flows", 3.into()),
        ("/directions/up/rtt/samples", 10.into()),
        ("/directions/up/rtt/min_s", 0.03.into()),
        ("/directions/up/rtt/mean_s", 0.04.into()),
        ("/directions/up/ack_burst/p95", 1.into()),
        ("/directions/up/ack_burst/histogram/20", 1.into()),
        ("/flow_table/evicted", 7.into()),
        ("/losses/link_header", 100.into()),
        ("/losses/event_log", 1.into()),
        ("/phase", "uplink_bound".into()),
        ("/phase_for_s", 12.0.into()),
        ("/phase_source", "queue_and_windows".into()),
        ("/phase_share/uplink_bound", 0.85.into()),
        ("/phase_seconds/downlink_bound", 20.25.into()),
        ("/phase_transitions", 6.into()),
        ("/verdict", "locked_uplink".into()),
        ("/verdict_for_s", 30.0.into()),
        ("/evidence/rule", "one_buffer_never_empties".into()),
        ("/evidence/figures/0/threshold", 0.8.into()),
        ("/swing_period_s", 2.5.into()),
        ("/queue_correlation", (-0.75).into()),
        ("/queue_lag_s", 0.3.into()),
        ("/throughput_ratio/measured", 1.25.into()),
        ("/throughput_ratio/predicted", 1.5.into()),
        ("/base_round_trip_s", 0.04.into()),
        ("/unfair/down", true.into()),
        ("/round_trip_classes/down/near_far_ratio", 4.0.into()),
        ("/advice/confidence", "moderate".into()),
        ("/sources/0/what", "queue".into()),
        ("/sources/0/source", "tracepoint".into()),
        ("/degraded/0", "the uplink's queue is read by netlink; load BTF".into()),
        ("/directions/up/queue/standing_bytes", 3_028.0.into()),
        ("/programs/0/runs", 41.into()),
        ("/maps/0/capacity", 256.into()),
    ] {
        assert_eq!(link.pointer(pointer), Some(&expected), "{pointer} in {link:#}");
    }
}

#[tokio::test]
async fn findings_of_a_link_that_is_not_measured_are_unknown() {
    let mut silent = example::link("dsl");
    silent.findings = None;
    let request = Request::get("/api/v1/state").body(Body::empty()).unwrap();
    let (_, _, body) = ask(app(vec![silent]), request).await;
    let link = &serde_json::from_str::<Value>(&body).unwrap()["links"][0];
    for field in ["phase", "phase_share", "phase_seconds", "verdict", "evidence", "advice", "unfair"] {
        assert_eq!(link.get(field), Some(&Value::Null), "{field}");
    }
    assert_eq!(link.pointer("/throughput_ratio/measured"), Some(&Value::Null));
}

#[tokio::test]
async fn flows_come_busiest_first_and_no_more_than_asked_for() {
    let (status, report) = get("/api/v1/flows?limit=2").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(report["total"], 3);
    let flows = report["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 2);
    let first = &flows[0];
    assert_eq!(first["client"], "192.0.2.3:40003");
    assert_eq!(first["server"], "192.0.2.100:443");
    assert_eq!((&first["home"], &first["direction"]), (&Value::from("client"), &Value::from("down")));
    assert_eq!(first["up"]["throughput_bps"], 24_000.0);
    assert_eq!(first["up"]["rtt_min_s"], 0.03);
    assert_eq!(first["down"]["in_flight_bytes"], 2_896);
    let (_, report) = get("/api/v1/flows?sort=bytes").await;
    assert_eq!(report["flows"][0]["client"], "192.0.2.1:40001");
}

#[tokio::test]
async fn wrong_requests_get_a_reason_and_a_remedy() {
    for (path, status, part) in [
        ("/api/v1/flows?limit=0", 400, "limit=0 is out of range"),
        ("/api/v1/flows?limit=1000000", 400, "out of range"),
        ("/api/v1/flows?limit=-1", 400, "limit"),
        ("/api/v1/flows?limt=5", 400, "limt"),
        ("/api/v1/flows?sort=size", 400, "size"),
        ("/api/v1/flows?link=lte", 400, "there is no link lte"),
        ("/api/v2/state", 404, "there is no /api/v2/state"),
    ] {
        let (code, body) = get(path).await;
        assert_eq!(code.as_u16(), status, "{path}");
        let error = &body["error"];
        assert_eq!(error["status"], status);
        assert!(error["reason"].as_str().unwrap().contains(part), "{path}: {error}");
        assert!(!error["remedy"].as_str().unwrap().is_empty());
    }
    let (_, body) = get(&format!("/{}", "x".repeat(4_000))).await;
    assert!(body["error"]["reason"].as_str().unwrap().len() < 200);
}

#[tokio::test]
async fn only_reading_is_allowed() {
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let request = Request::builder().method(method).uri("/metrics").body(Body::empty()).unwrap();
        let (status, headers, body) = ask(app(vec![]), request).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(headers["allow"], "GET,HEAD");
        assert!(body.contains("use GET"), "{body}");
    }
}

#[tokio::test]
async fn ready_means_attached_and_sampled() {
    let ready = example::link("dsl");
    let mut detached = ready.clone();
    detached.hooks = None;
    detached.trouble = Some("network device `wan0` does not exist".into());
    let mut not_sampled = ready.clone();
    not_sampled.samples = 0;
    for (links, expected) in [
        (vec![ready.clone()], 200),
        (vec![detached.clone(), ready], 200),
        (vec![detached], 503),
        (vec![not_sampled], 503),
        (vec![], 503),
    ] {
        let request = Request::get("/readyz").body(Body::empty()).unwrap();
        let (status, _, body) = ask(app(links), request).await;
        assert_eq!(status.as_u16(), expected, "{body}");
    }
}

#[tokio::test]
async fn metrics_come_in_the_format_asked_for() {
    for (accept, content_type) in [
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
    ] {
        let request = Request::get("/metrics").header(ACCEPT, accept).body(Body::empty()).unwrap();
        let (status, headers, body) = ask(app(vec![example::link("dsl")]), request).await;
        assert_eq!((status, &headers[CONTENT_TYPE]), (StatusCode::OK, &content_type.parse().unwrap()));
        assert!(body.ends_with("# EOF\n"));
    }
}

#[tokio::test]
async fn the_page_loads_its_own_files_only_and_each_once() {
    for (path, content_type, part) in [
        ("/", "text/html; charset=utf-8", "<title>Pendulum</title>"),
        ("/page.js", "text/javascript; charset=utf-8", "Leon Sorokin"),
        ("/page.css", "text/css; charset=utf-8", "--up"),
        ("/icon.svg", "image/svg+xml", "<svg"),
    ] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let (status, headers, body) = ask(app(vec![]), request).await;
        assert_eq!((status, &headers[CONTENT_TYPE]), (StatusCode::OK, &content_type.parse().unwrap()));
        assert!(body.contains(part), "{path}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers[CACHE_CONTROL], "no-cache");

        let again = Request::get(path).header("if-none-match", &headers["etag"]).body(Body::empty()).unwrap();
        let (status, _, body) = ask(app(vec![]), again).await;
        assert_eq!((status, body.as_str()), (StatusCode::NOT_MODIFIED, ""));
        let other = Request::get(path).header("if-none-match", "\"other\"").body(Body::empty()).unwrap();
        assert_eq!(ask(app(vec![]), other).await.0, StatusCode::OK);
    }
}

#[tokio::test]
async fn foreign_names_are_refused() {
    let config = Http { names: vec!["gateway.example".to_owned()], ..Http::default() };
    let wide: IpAddr = Ipv4Addr::UNSPECIFIED.into();
    for (listen, path, host, expected) in [
        (LOCAL, "/api/v1/flows", "127.0.0.1:9924", 200),
        (LOCAL, "/api/v1/flows", "[::1]:9924", 200),
        (LOCAL, "/api/v1/flows", "192.0.2.1", 200),
        (LOCAL, "/api/v1/flows", "LocalHost:9924", 200),
        (LOCAL, "/api/v1/flows", "Gateway.example.:80", 200),
        (LOCAL, "/api/v1/flows", "evil.example", 421),
        (LOCAL, "/api/v1/flows", "127.0.0.1.evil.example:9924", 421),
        (LOCAL, "/metrics", "evil.example", 421),
        (LOCAL, "/", "", 421),
        (wide, "/api/v1/flows", "evil.example", 421),
        (wide, "/metrics", "gw.monitoring.example", 200),
    ] {
        let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
        let (status, _, body) = ask(guarded(vec![], &config, listen), request).await;
        assert_eq!(status.as_u16(), expected, "{listen} {path} {host}: {body}");
        assert!(expected == 200 || body.contains("add the name to `names`"), "{body}");
    }
    let absolute =
        Request::get("http://evil.example/metrics").header("host", "127.0.0.1").body(Body::empty());
    assert_eq!(ask(app(vec![]), absolute.unwrap()).await.0, StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn a_token_is_asked_for_everywhere_but_in_the_page_s_files_and_health() {
    let token = "0123456789abcdef0123456789abcdef";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{token}\n")).unwrap();
    let config = Http { token_file: Some(file.path().to_owned()), ..Http::default() };
    for (path, sent, expected) in [
        ("/metrics", None, 401),
        ("/readyz", None, 401),
        ("/api/v1/flows", Some("Bearer 0123456789abcdef0123456789abcdeF"), 401),
        ("/api/v1/flows", Some("Bearer 0123456789abcdef"), 401),
        ("/api/v1/flows", Some("Basic 0123456789abcdef0123456789abcdef"), 401),
        ("/nothing", None, 401),
        ("/api/v1/flows", Some("bearer 0123456789abcdef0123456789abcdef"), 200),
        ("/metrics", Some("Bearer 0123456789abcdef0123456789abcdef"), 200),
        ("/", None, 200),
        ("/page.js", None, 200),
        ("/healthz", None, 200),
    ] {
        let mut request = Request::get(path);
        if let Some(sent) = sent {
            request = request.header("authorization", sent);
        }
        let (status, headers, body) =
            ask(guarded(vec![], &config, LOCAL), request.body(Body::empty()).unwrap()).await;
        assert_eq!(status.as_u16(), expected, "{path} {sent:?}");
        assert!(!body.contains(token), "{body}");
        assert_eq!(headers.contains_key("www-authenticate"), expected == 401);
    }
}

#[test]
fn what_is_no_token_is_refused_at_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = Http { token_file: Some(file.path().to_owned()), ..Http::default() };
    for (content, part) in [
        ("", "holds 0 characters"),
        ("secret\n", "holds 6 characters"),
        ("two words, and long enough", "visible ASCII"),
        (&"x".repeat(600), "holds 600 characters"),
    ] {
        std::fs::write(file.path(), content).unwrap();
        let error = Access::new(&config, LOCAL).expect_err(content).to_string();
        assert!(error.contains(part) && error.contains("openssl rand"), "{error}");
        assert!(content.is_empty() || !error.contains(content.trim()), "{error}");
    }
    drop(file);
    let error = Access::new(&config, LOCAL).expect_err("no file").to_string();
    assert!(error.starts_with("http.token-file /") && error.contains("cannot be read"), "{error}");
}

#[tokio::test]
async fn large_answers_are_compressed_for_those_who_can_read_it() {
    for (path, accept, expected) in [
        ("/metrics", "gzip, deflate", Some("gzip")),
        ("/page.js", "gzip", Some("gzip")),
        ("/metrics", "identity", None),
        ("/metrics", "gzip;q=0", None),
        ("/healthz", "gzip", None),
    ] {
        let request = Request::get(path).header("accept-encoding", accept).body(Body::empty()).unwrap();
        let response = hyper::service::Service::call(
            &TowerToHyperService::new(app(vec![example::link("dsl")])),
            request,
        );
        let headers = response.await.unwrap().into_parts().0.headers;
        let encoding = headers.get("content-encoding").map(|value| value.to_str().unwrap());
        assert_eq!(encoding, expected, "{path} {accept}");
    }
}
