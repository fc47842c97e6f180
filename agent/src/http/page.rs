//! The live page: the files of `agent/web/dist`, which are part of the binary.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

/// A file of the page.
#[derive(Clone, Copy)]
struct Asset {
    path: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

macro_rules! asset {
    ($path:literal, $file:literal, $content_type:literal) => {
        Asset {
            path: $path,
            content_type: $content_type,
            content: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/web/dist/", $file)),
        }
    };
}

const ASSETS: [Asset; 4] = [
    asset!("/", "index.html", "text/html; charset=utf-8"),
    asset!("/page.js", "page.js", "text/javascript; charset=utf-8"),
    asset!("/page.css", "page.css", "text/css; charset=utf-8"),
    asset!("/icon.svg", "icon.svg", "image/svg+xml"),
];

/// The paths of the page's files.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    ASSETS.into_iter().fold(Router::new(), |router, asset| {
        let tag = entity_tag(asset.content);
        router.route(asset.path, get(async move |headers: HeaderMap| answer(asset, &tag, &headers)))
    })
}

/// Whether a path is that of a file of the page.
pub(super) fn is_asset(path: &str) -> bool {
    ASSETS.iter().any(|asset| asset.path == path)
}

/// Changes with the content. Weak, since the same file may go out compressed.
fn entity_tag(content: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("W/\"{:016x}\"", hasher.finish())
}

/// `no-cache`: browsers keep a file, and ask each time whether it is still the same, since the agent may have been updated.
fn answer(asset: Asset, tag: &str, request: &HeaderMap) -> Response {
    let validators = [(CACHE_CONTROL, "no-cache"), (ETAG, tag)];
    let known = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    if known.flat_map(|list| list.split(',')).any(|known| known.trim() == tag) {
        return (StatusCode::NOT_MODIFIED, validators).into_response();
    }
    (validators, [(CONTENT_TYPE, asset.content_type)], asset.content).into_response()
}

#[cfg(test)]
mod tests;
