//! The start page: what there is to look at.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Html;

use super::App;
use crate::snapshot::LinkSnapshot;

pub(super) async fn landing(State(app): State<Arc<App>>) -> Html<String> {
    let mut rows = String::new();
    for link in app.board.snapshots() {
        // Names are checked against a small alphabet or by the kernel's rule, which allows `<` and `&`.
        let _ = writeln!(
            rows,
            "<li><b>{}</b> on {}: {}</li>",
            escaped(&link.name),
            escaped(&link.wan),
            escaped(&condition(&link))
        );
    }
    Html(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Pendulum</title>\
         <meta name=\"viewport\" content=\"width=device-width\"></head>\n<body>\n<h1>Pendulum {version}</h1>\n\
         <ul>\n{rows}</ul>\n<ul>\n\
         <li><a href=\"/api/v1/state\">State</a> of every link, JSON</li>\n\
         <li><a href=\"/api/v1/flows\">Flows</a>, busiest first, JSON</li>\n\
         <li><a href=\"/metrics\">Metrics</a> for Prometheus</li>\n\
         <li><a href=\"/healthz\">Health</a>, <a href=\"/readyz\">readiness</a></li>\n\
         </ul>\n</body>\n</html>\n",
        version = env!("CARGO_PKG_VERSION"),
    ))
}

fn condition(link: &LinkSnapshot) -> String {
    match (&link.hooks, &link.trouble) {
        (Some(_), _) if link.is_ready() => "measured".to_owned(),
        (Some(_), _) => "attached".to_owned(),
        (None, Some(trouble)) => format!("not measured: {trouble}"),
        (None, None) => format!("not measured: its device is {}", link.device.name()),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
