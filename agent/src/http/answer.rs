//! The form of answers: JSON, refusals with a reason and a remedy, headers that keep browsers careful.

use axum::body::HttpBody as _;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pendulum_wire as wire;
use serde::Serialize;

/// A request that is not answered as asked.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) reason: String,
    pub(super) remedy: String,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let error = wire::Refusal { status: self.status.as_u16(), reason: self.reason, remedy: self.remedy };
        json(self.status, &wire::Refused { error })
    }
}

/// A JSON answer, with a line end for people at a terminal.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
            (status, headers, bytes).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// What a client sent, short enough to be repeated to it.
pub(super) fn shortened(text: &str) -> String {
    const SHOWN: usize = 80;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}

/// Bytes that an answer holds until it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight(pub(super) usize);

/// What a stream has ready at most: states and ticks of a few links.
const STREAM_BYTES: usize = 64 * 1024;

/// Notes what the answer holds, unless its maker has.
pub(super) async fn weigh(mut response: Response) -> Response {
    let bytes = response.body().size_hint().exact().map_or(STREAM_BYTES, |bytes| bytes as usize);
    response.extensions_mut().get_or_insert(Weight(bytes));
    response
}

/// Scripts and styles of the page's own files only, no frame, no foreign resource, no guess at types, no address in a
/// referrer. Trusted types: nothing can become script or markup that was text.
const GUARDS: [(HeaderName, &str); 3] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
];

pub(super) async fn guard(mut response: Response) -> Response {
    for (name, value) in GUARDS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
