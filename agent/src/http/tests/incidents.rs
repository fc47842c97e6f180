//! The list of incidents, one of them, and what there is without a state directory.

use super::*;
use crate::incident::tests::a_store_with_a_lock;

async fn ask_with(journal: Journal, config: &HttpConfig, path: &str) -> (StatusCode, HeaderMap, Value) {
    let active = Active::start(Config::default()).1;
    let app =
        App::new(example::board(vec![example::link("dsl")]), journal, active, true, watch::channel(false).1);
    let router = router(Arc::new(app), Access::new(config, LOCAL).unwrap());
    let (status, headers, body) = ask(router, Request::get(path).body(Body::empty()).unwrap()).await;
    (status, headers, serde_json::from_str(&body).unwrap())
}

#[tokio::test]
async fn without_a_state_directory_the_list_says_so() {
    let (status, list) = get("/api/v1/incidents").await;
    assert_eq!((status, list["incidents"].as_array().unwrap().len()), (StatusCode::OK, 0));
    assert!(list["trouble"].as_str().unwrap().contains("STATE_DIRECTORY"), "{list}");
    let (status, refused) = get("/api/v1/incidents/x").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(refused["error"]["remedy"], "/api/v1/incidents lists those that are kept");
}

#[tokio::test]
async fn an_incident_is_listed_and_sent_as_a_file_to_those_who_are_let_in() {
    let directory = tempfile::tempdir().unwrap();
    let (store, id) = a_store_with_a_lock(directory.path());
    let journal = Journal::keeping(None, Some(store));
    let open = HttpConfig::default();
    let (_, _, list) = ask_with(journal.clone(), &open, "/api/v1/incidents").await;
    assert_eq!((&list["incidents"][0]["id"], &list["trouble"]), (&id.clone().into(), &Value::Null));
    let path = format!("/api/v1/incidents/{id}");
    let (status, headers, incident) = ask_with(journal.clone(), &open, &path).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers["content-disposition"], format!("attachment; filename=\"{id}.json\"").as_str());
    assert_eq!(incident["summary"], list["incidents"][0]);
    let (status, ..) = ask_with(journal.clone(), &open, "/api/v1/incidents/..%2F..%2Fetc%2Fpasswd").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    // The same guard as on the other paths.
    let token = directory.path().join("token");
    std::fs::write(&token, "0123456789abcdef").unwrap();
    let guarded = HttpConfig { token_file: Some(token), ..HttpConfig::default() };
    for path in ["/api/v1/incidents", &path] {
        let (status, ..) = ask_with(journal.clone(), &guarded, path).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
    }
    // A file that is damaged later.
    std::fs::write(directory.path().join(format!("{id}.json.gz")), [0x1f, 0x8b, 8]).unwrap();
    let (status, _, refused) = ask_with(journal, &open, &path).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(refused["error"]["reason"].as_str().unwrap().contains(&id), "{refused}");
}
