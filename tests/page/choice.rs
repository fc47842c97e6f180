//! The form that asks for a token, and the choice between links.

use std::time::{Duration, Instant};

use pendulum_lab::agent::Agent;
use pendulum_lab::topology::{LAN_DEVICE, WAN_DEVICE};
use serde_json::json;

use crate::browser::Browser;
use crate::live::{URL, WITNESS, check_isolation, wait_live};
use crate::{PENDULUM, lab};

const PATIENCE: Duration = Duration::from_secs(30);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// As a person would: the token into its field, and the form sent.
fn enter(browser: &mut Browser, token: &str) {
    browser.evaluate(&format!("document.getElementById('token').value = '{token}'"));
    browser.evaluate("document.getElementById('token-form').requestSubmit()");
}

/// Waits until the page shows this link: in its title, in the choice, and in what it is sent.
fn wait_shown(browser: &mut Browser, link: &str) {
    let shown = format!(
        "document.title.includes(' {link} ') && document.getElementById('link').value === '{link}' && \
         window.sent?.tick?.link === '{link}' && window.sent?.state?.name === '{link}'"
    );
    browser.wait_until(&format!("{link} is shown"), &shown);
}

#[test]
fn the_page_asks_for_the_token_and_shows_the_link_that_was_chosen() {
    let test = "the_page_asks_for_the_token_and_shows_the_link_that_was_chosen";
    let Some((_guard, lab)) = lab(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let (file, token) = (directory.path().join("pendulum.toml"), directory.path().join("token"));
    std::fs::write(&token, TOKEN).unwrap();
    let config = format!(
        "listen = \"{}\"\n[http]\ntoken-file = \"{}\"\n[[link]]\nwan = \"{WAN_DEVICE}\"\nname = \"dsl\"\n\
         [[link]]\nwan = \"{LAN_DEVICE}\"\nname = \"lte\"\n",
        Agent::ADDRESS,
        token.display()
    );
    std::fs::write(&file, config).unwrap();
    let gateway = lab.gateway();
    let mut command = gateway.command(PENDULUM).unwrap();
    command.arg("run").arg("--config").arg(&file);
    let mut agent = gateway.spawn(command, "agent").unwrap();
    // Any answer will do; most it gives only to who has the token.
    let deadline = Instant::now() + PATIENCE;
    while gateway.run("curl", &["-s", "-m", "5", "-o", "/dev/null", URL]).is_err() {
        assert!(Instant::now() < deadline, "the agent does not answer: {}", agent.stderr().unwrap());
        std::thread::sleep(Duration::from_millis(100));
    }

    let mut browser = Browser::start(&lab, WITNESS);
    browser.look(1360, 940, 1.0, false);
    let loaded = "location.href !== 'about:blank' && !!document.getElementById('token-form')";
    browser.call("Page.navigate", json!({ "url": URL }));
    let asks = "document.getElementById('condition')?.dataset.kind === 'token' && \
                !document.getElementById('token-form').hidden && document.getElementById('main').hidden";
    browser.wait_until("it asks for the token", asks);
    let reason = browser.text("token-reason");
    assert!(reason.contains("token"), "{reason}");
    enter(&mut browser, "not-the-token-0123456789");
    browser.wait_until("it asks again", asks);
    enter(&mut browser, TOKEN);
    wait_live(&mut browser);
    let open = "document.getElementById('token-form').hidden && !document.getElementById('main').hidden";
    assert_eq!(browser.evaluate(open), true);

    let links = "[...document.getElementById('link').options].map((option) => option.value)";
    assert_eq!(browser.evaluate(links), json!(["dsl", "lte"]));
    wait_shown(&mut browser, "dsl");
    let choose = |link| {
        format!(
            "document.getElementById('link').value = '{link}'; \
             document.getElementById('link').dispatchEvent(new Event('change'))"
        )
    };
    browser.evaluate(&choose("lte"));
    wait_shown(&mut browser, "lte");

    // The token and the choice stay with the tab, and only there.
    browser.call("Page.reload", json!({}));
    browser.wait_until("it is loaded anew", loaded);
    wait_live(&mut browser);
    wait_shown(&mut browser, "lte");
    assert_eq!(browser.evaluate("location.hash"), "#lte");
    let kept = format!("Object.values(localStorage).concat(document.cookie).join().includes('{TOKEN}')");
    assert_eq!(browser.evaluate(&kept), false);
    browser.evaluate(&choose("dsl"));
    wait_shown(&mut browser, "dsl");
    check_isolation(&mut browser);
    assert!(agent.stop(libc::SIGTERM, PATIENCE).unwrap().success(), "{}", agent.stderr().unwrap());
}
