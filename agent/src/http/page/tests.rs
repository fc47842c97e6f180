use std::collections::BTreeSet;

use axum::http::HeaderValue;

use super::*;

fn asked(known: &[&str]) -> Response {
    let mut headers = HeaderMap::new();
    for known in known {
        headers.append(IF_NONE_MATCH, HeaderValue::from_str(known).unwrap());
    }
    answer(ASSETS[1], TAG, &headers)
}

const TAG: &str = "W/\"0123456789abcdef\"";

/// One byte more or less is another file for a browser that has an older one.
#[test]
fn a_tag_is_weak_and_changes_with_the_content() {
    let contents = ASSETS.iter().flat_map(|asset| [asset.content, &asset.content[1..]]);
    let tags: BTreeSet<_> = contents.map(entity_tag).collect();
    assert_eq!(tags.len(), 2 * ASSETS.len());
    for tag in tags {
        // RFC 9110 §8.8.3: W/, and in quotes what has neither quotes nor spaces.
        let opaque = tag.strip_prefix("W/\"").and_then(|rest| rest.strip_suffix('"')).unwrap();
        assert!(opaque.len() == 16 && opaque.bytes().all(|byte| byte.is_ascii_hexdigit()), "{tag}");
    }
    assert_eq!(entity_tag(b"same"), entity_tag(b"same"));
}

/// A browser may know several versions: in one header or in many (RFC 9110 §13.1.2).
#[test]
fn what_is_known_is_not_sent_again() {
    let list = format!("\"a\", {TAG} ,\"b\"");
    for known in [&[TAG][..], &[&list], &["\"a\"", TAG]] {
        let answer = asked(known);
        assert_eq!(answer.status(), StatusCode::NOT_MODIFIED, "{known:?}");
        assert_eq!(
            (&answer.headers()[ETAG], &answer.headers()[CACHE_CONTROL]),
            (&TAG.parse().unwrap(), &"no-cache".parse().unwrap())
        );
    }
    let part = &TAG[..TAG.len() - 2];
    for unknown in [&[][..], &["\"a\""], &[part], &["\"a\", \"b\"", "W/\"c\""], &[""]] {
        let answer = asked(unknown);
        assert_eq!(answer.status(), StatusCode::OK, "{unknown:?}");
        assert_eq!(
            (&answer.headers()[ETAG], &answer.headers()[CONTENT_TYPE]),
            (&TAG.parse().unwrap(), &"text/javascript; charset=utf-8".parse().unwrap())
        );
    }
}

/// The token is not asked for these, and for nothing else.
#[test]
fn only_the_page_s_own_paths_are_the_page_s() {
    for path in ["/", "/page.js", "/page.css", "/icon.svg"] {
        assert!(is_asset(path), "{path}");
    }
    for path in ["", "//", "/page", "/page.js/", "/metrics", "/api/v1/flows", "/index.html"] {
        assert!(!is_asset(path), "{path}");
    }
}
