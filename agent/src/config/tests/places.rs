//! The line and the key that a refusal names, wherever the value stands.

use super::*;

#[test]
fn the_line_is_that_of_the_value() {
    let link = "[[link]]\nwan = \"eth0\"\n";
    for (text, expected) in [
        // Each element of a list that has a line for each.
        (format!("{link}lan = [\n  \"br0\",\n  \"a b\",\n]\n"), "5: link[0].lan[1]: `a b` cannot"),
        (format!("{link}lan = [\"a b\", \"br0\"]\n"), "3: link[0].lan[0]: `a b` cannot"),
        // Comments, empty lines and line ends of other systems count as lines.
        (format!("# one\n\n# three\n{link}name = \"a b\"\n"), "6: link[0].name: `a b` cannot"),
        (format!("{}name = \"a b\"\r\n", link.replace('\n', "\r\n")), "3: link[0].name: `a b` cannot"),
        // Letters of several bytes before it.
        (format!("# äöü €\n{link}max-flows = 1\n"), "4: link[0].max-flows: 1 is out of range"),
        // The second table, and tables written in a line.
        (format!("{link}{link}wan2 = 1\n"), "5: link[1].wan2: unknown key `wan2`"),
        ("link = [{ wan = \"a\" }, { wan = \"b/c\" }]\n".to_owned(), "1: link[1].wan: `b/c` cannot"),
        (format!("shape.rate-percent = 49\n{link}"), "1: shape.rate-percent: 49 is out of range"),
        (format!("{link}[shape]\n\nmode = \"enforce\"\nab-test = \"1s\"\n"), "6: shape.ab-test: 1s is out"),
        (format!("detector = {{ evidence = \"1ms\" }}\n{link}"), "1: detector.evidence: 1ms is out of range"),
        (format!("{link}[detector]\n\n\nevidence = \"1ms\"\n"), "6: detector.evidence: 1ms is out of range"),
        (format!("colour = 1\n{link}"), "1: colour: unknown key `colour`"),
    ] {
        let message = refusal(&text);
        assert!(message.starts_with(&format!("test.toml:{expected}")), "{text}\n{message}");
    }
}

/// The name of the file is the one that was given, with its directories.
#[test]
fn a_file_is_read_as_its_text_says() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.toml");
    std::fs::write(&path, SHIPPED).unwrap();
    assert_eq!(Config::load(&path).unwrap(), parse(SHIPPED).unwrap());
    std::fs::write(&path, "listen = 1\n").unwrap();
    let message = Config::load(&path).expect_err("no address").to_string();
    assert!(message.starts_with(&format!("{}:1: listen: invalid type", path.display())), "{message}");
    // What is no text is no configuration either.
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    let error = Config::load(&path).expect_err("no text");
    assert_eq!(error.exit(), Exit::NoInput);
    assert!(error.to_string().ends_with("; name an existing, readable file"), "{error}");
}

/// A file that says nothing but a device, and a command line that does, are the same configuration.
#[test]
fn what_is_not_said_is_the_default_in_every_way() {
    let expected = Config { links: vec![LinkConfig::new("eth0")], ..Config::default() };
    assert_eq!(parse("[[link]]\nwan = \"eth0\"\n").unwrap(), expected);
    let tables = "[http]\n[flows]\n[detector]\n[events]\n[log]\n[metrics]\n[privileges]\n[shape]\n";
    assert_eq!(parse(&format!("[[link]]\nwan = \"eth0\"\n{tables}")).unwrap(), expected);
    assert_eq!(crate::cli::overrides(&["--wan", "eth0"]).resolve(None).unwrap(), expected);
}

/// Names of links and of devices are compared each with their own kind.
#[test]
fn a_name_may_be_another_link_s_device() {
    let config = parse("[[link]]\nwan = \"a\"\nname = \"b\"\n[[link]]\nwan = \"b\"\nname = \"a\"\n").unwrap();
    let ends: Vec<_> = config.links.iter().map(|link| (link.wan.as_str(), link.name.as_str())).collect();
    assert_eq!(ends, [("a", "b"), ("b", "a")]);
    assert!(!config.links[0].is_same(&config.links[1]));
    let other = LinkConfig { max_flows: 1, nursery: 1, lan: vec!["c".to_owned()], ..config.links[0].clone() };
    assert!(other.is_same(&config.links[0]));
    // Two links may lead to the same home.
    let home = "[[link]]\nwan = \"a\"\nlan = [\"br0\"]\n[[link]]\nwan = \"b\"\nlan = [\"br0\"]\n";
    assert_eq!(parse(home).unwrap().links[1].lan, ["br0"]);
}

/// TLS has both files or neither; the token needs none of them.
#[test]
fn a_lonely_half_of_tls_is_named() {
    let link = "[[link]]\nwan = \"eth0\"\n";
    let (certificate, key) = ("tls-certificate = \"/c\"\n", "tls-key = \"/k\"\n");
    for (lonely, this, missing) in
        [(certificate, "tls-certificate", "tls-key"), (key, "tls-key", "tls-certificate")]
    {
        let message = refusal(&format!("{link}[http]\n{lonely}"));
        let expected = format!(
            "test.toml:4: http.{this}: `{this}` without `{missing}`; TLS needs both: add `{missing}`"
        );
        assert_eq!(message, expected);
    }
    let both = parse(&format!("{link}[http]\n{key}{certificate}")).unwrap().http.tls.unwrap();
    assert_eq!((both.certificate, both.key), ("/c".into(), "/k".into()));
    let token = parse(&format!("{link}[http]\ntoken-file = \"/t\"\n")).unwrap().http;
    assert_eq!(token, HttpConfig { token_file: Some("/t".into()), ..HttpConfig::default() });
}
