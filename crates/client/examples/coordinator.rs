//! Calls the same tool of several participants, in three ways: the first answer, all answers, and the answer of the majority.
//!
//! ```text
//! SALON_TOKEN=… cargo run -p salon-client --example coordinator -- room:lab say '{"text":"hello"}'
//! ```
#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::env;
use std::error::Error;
use std::time::Duration;

use salon_client::{Client, Gateway, Gather, Gathered, StaticToken};
use serde_json::value::RawValue;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let gateway = env::var("SALON_GATEWAY").unwrap_or_else(|_| "http://127.0.0.1:8787".into());
    let token = env::var("SALON_TOKEN").map_err(|_| "SALON_TOKEN is not set: `salon token` makes one")?;
    let mut args = env::args().skip(1);
    let topic = args.next().unwrap_or_else(|| "room:lab".into()).parse()?;
    let tool = args.next().unwrap_or_else(|| "say".into());
    let arguments = RawValue::from_string(args.next().unwrap_or_else(|| r#"{"text":"hello"}"#.into()))?;

    let client = Client::new(Gateway::new(&gateway)?, StaticToken::new(token));
    let room = client.room(topic).join().await?;

    let offers = room.tools().await;
    for (who, why) in &offers.silent {
        println!("{who} does not say what it offers: {why}");
    }
    let able: Vec<_> =
        offers.tools.into_iter().filter(|(_, offered)| offered.name == tool).map(|(who, _)| who).collect();
    println!("{} participants here offer `{tool}`", able.len());

    for strategy in [Gather::First, Gather::All, Gather::Majority] {
        let asking = room.gather(able.clone(), &tool, &arguments).strategy(strategy).deadline(Duration::from_secs(10));
        tell(strategy, &asking.await);
    }
    room.leave().await;
    Ok(())
}

fn tell(strategy: Gather, gathered: &Gathered) {
    println!("\n{strategy:?}:");
    for (who, answer) in &gathered.answers {
        println!("  {who}: {}", answer.text());
    }
    for (who, why) in &gathered.missing {
        println!("  {who} gave no answer: {why}");
    }
    if let Some(agreed) = &gathered.agreed {
        println!("  → {}", agreed.text());
    }
}
