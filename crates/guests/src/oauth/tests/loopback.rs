//! The port that the browser comes back to.

use salon_testkit::http::HttpCall;
use salon_testkit::within;

use crate::oauth::redirect::RedirectListener;

#[tokio::test]
async fn only_the_awaited_request_ends_the_waiting() {
    let listener = RedirectListener::bind().await.unwrap();
    let uri = listener.uri();
    let address = uri.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/callback")).unwrap().parse().unwrap();
    let waiting = listener.wait(|query| (query == "code=1").then(|| query.to_owned()));
    let browser = async {
        // Opened in advance, as browsers do, and never used.
        let _idle = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut answers = Vec::new();
        for (method, path) in [("GET", "/favicon.ico"), ("GET", "/callback?code=2"), ("GET", "/callback?code=1")] {
            let answer = HttpCall::new(method, path).send(address).await.unwrap();
            answers.push(format!("{} {}", answer.status, answer.body.trim_end()));
        }
        answers
    };
    let (outcome, answers) = within("the browser", async { tokio::join!(waiting, browser) }).await.unwrap();
    assert_eq!(outcome.unwrap(), "code=1");
    insta::assert_snapshot!(answers.join("\n"), @"
    404 There is nothing here.
    400 This is not the sign-in that Salon waits for.
    200 Salon has the answer. You can close this page; the terminal tells the rest.
    ");
}
