//! The page in a real browser: what it draws is read back from its DOM. Skipped, with a printed reason, without chromium.

#![allow(clippy::unwrap_used, reason = "a test may stop at what cannot be")]

mod sample;

use prony_model::Run;
use std::process::Command;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The DOM after the page of a run has drawn itself; none without a browser.
fn dom(run: &Run) -> Option<String> {
    drawn(&prony_report::html(run))
}

fn drawn(html: &str) -> Option<String> {
    let has = |name: &str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    let Some(browser) = BROWSERS.into_iter().find(|name| has(name)) else {
        eprintln!("skipped: no browser found (looked for {}); `apt install chromium` mends that", BROWSERS.join(", "));
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    std::fs::write(&page, html).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--virtual-time-budget=3000"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .args(["--window-size=1200,900", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(dom.contains("</html>"), "{browser} gave no page: {}", String::from_utf8_lossy(&output.stderr));
    // The data stands in the DOM as it was put in; what was drawn from it stands before.
    let (before, after) = dom.split_once("<script type=\"application/json\"").unwrap();
    let rest = after.split_once("</script>").unwrap().1;
    let drawn = before.split_once("<body>").unwrap().1;
    Some(format!("{}{rest}", title(before) + drawn))
}

fn title(head: &str) -> String {
    let title = head.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    format!("<title>{title}</title>")
}

fn count(dom: &str, what: &str) -> usize {
    dom.matches(what).count()
}

#[track_caller]
fn reads_sensibly(dom: &str) {
    for bad in ["undefined", "NaN", "[object", "Infinity", "null"] {
        assert!(!dom.contains(bad), "the page shows `{bad}`");
    }
    assert!(count(dom, "<h1") == 1);
    for part in dom.split("<svg ").skip(1) {
        assert!(part.contains("aria-label=\""), "a drawing has no description");
    }
}

#[test]
fn browser_draws_the_whole_loop() {
    let Some(dom) = dom(&sample::whole()) else { return };
    reads_sensibly(&dom);
    assert!(dom.contains("<h1>Connections to the upstream are not reused, at lb.</h1>"));
    assert!(dom.contains("<title>prony: Connections to the upstream are not reused, at lb.</title>"));
    assert!(dom.contains("The remedy gains 63.3 % throughput: proven, 95 % interval +61.9 % to +64.7 %."));
    assert_eq!(count(&dom, "class=\"card for\"") + count(&dom, "class=\"card against\""), 5);
    assert_eq!(count(&dom, "<section "), 15);
    assert_eq!(count(&dom, "class=\"dot a\""), 8, "trials of A");
    assert_eq!(count(&dom, "class=\"dot b\""), 8, "trials of B");
    assert_eq!(count(&dom, "class=\"interval "), 4 + 3 + 1, "effects, doses and a removal");
    assert_eq!(count(&dom, "class=\"line "), 2 + 3 + 3, "the curve, the percentiles, two resources and a sole limit");
    assert!(dom.contains("CPU of lb: elasticity 1.04"), "both doses are fitted by one elasticity");
    assert_eq!(count(&dom, "class=\"dot origin\""), 1);
    assert_eq!(count(&dom, "class=\"heat-mark\""), 25, "trials over time");
    assert_eq!(count(&dom, "class=\"node limits\""), 1);
    assert_eq!(count(&dom, "class=\"edge\""), 3);
    assert_eq!(count(&dom, "rect class=\"cpu-softirq\""), 4 * 3, "hosts times levels");
    assert!(dom.contains("+            proxy_http_version 1.1;"));
    assert_eq!(count(&dom, "class=\"flame-frame\""), 2 * 11, "hosts times frames, `all` among them");
    assert!(dom.contains("tcp_sendmsg: 50 % of the CPU samples, 1000 of 2000"), "shares under the pointer");
    assert_eq!(
        count(&dom, "rect class=\"flame-kernel\""),
        2 * (5 + 2),
        "in the flame graph and around the hottest function"
    );
    assert!(dom.contains("Around tcp_sendmsg: in 50 % of the CPU samples, itself in 50 %"));
    assert_eq!(count(&dom, "flame-difference"), 0, "nothing was named to hold it against");
    assert!(dom.contains("Validity gates: 1, each held in every trial"));
    assert!(dom.contains("What hosts differ in (1)"), "the nginx of s1 is an older one");
    assert!(dom.contains("Hottest functions of lb"));
}

#[test]
fn browser_holds_a_profile_against_an_earlier_one() {
    let Some(dom) = drawn(&prony_report::html_after(&sample::whole(), &sample::earlier())) else { return };
    reads_sensibly(&dom);
    assert_eq!(count(&dom, "class=\"flame-difference\""), 1, "lb alone was looked at before");
    assert!(dom.contains("Difference from run 20261119-101500-11aa"));
    assert!(dom.contains("tcp_sendmsg: 50 % of the CPU samples, 1000 of 2000; 20 % before, +30.0 points"));
    assert!(dom.contains("No longer seen") && dom.contains(">ngx_http_log_handler</th>"), "what vanished is told");
    assert_eq!(count(&dom, ">-50.0</td>"), 1, "vfs_write");
}

#[test]
fn browser_draws_runs_that_have_little() {
    let cases = [
        (
            sample::only_url(),
            "http://127.0.0.1:8080/ answers at least 151,000 requests per second; the generator was the limit.",
        ),
        (sample::interrupted(), "Interrupted by the user."),
        (sample::no_proof(), "Not grounded"),
        (sample::only_gaps(), "The run failed: connection refused by 10.77.0.2:8080"),
        (Run::default(), "Nothing was measured."),
    ];
    for (run, expected) in cases {
        let Some(dom) = dom(&run) else { return };
        reads_sensibly(&dom);
        assert!(dom.contains(expected), "{expected}");
    }
}

#[test]
fn browser_takes_hostile_texts_as_texts() {
    let Some(dom) = dom(&sample::hostile()) else { return };
    assert!(!dom.contains("<title>owned"), "a script of the data ran");
    assert_eq!(count(&dom, "<img"), 0);
    assert_eq!(count(&dom, "<section "), 15);
    assert!(dom.contains("&lt;img src=x onerror="), "the text is shown as it is");
}

#[test]
fn the_file_asks_for_nothing_from_elsewhere() {
    let page = prony_report::html(&Run::default());
    for url in page.match_indices("://").map(|(at, _)| &page[at.saturating_sub(5)..(at + 24).min(page.len())]) {
        // Names of XML vocabularies look like addresses and are never asked for.
        assert!(url.contains("www.w3.org/2000/svg"), "an address stands in the page: {url}");
    }
    for tag in [" src=", "<link rel=\"stylesheet\"", "<link rel=\"preload\"", "@import", "url("] {
        assert!(!page.contains(tag), "`{tag}` loads something");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn the_data_survives_the_page() {
    let run = sample::hostile();
    let page = prony_report::html(&run);
    let data = page.split_once("id=\"prony-data\">").unwrap().1.split_once("</script>").unwrap().0;
    let of_page: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(of_page, serde_json::from_str::<serde_json::Value>(&prony_report::json(&run)).unwrap());
    assert_eq!(of_page["schema"], "prony.report/1");
}
