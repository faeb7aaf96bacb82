//! Existing MCP servers as guests: those of the official TypeScript, Python and Rust SDKs, brought into rooms by the real binary, and
//! called by the library, by the command line, and by each other. And existing MCP clients that come to such rooms: those of the
//! official SDKs, and the official conformance suite. And the commands of the documentation for newcomers, which use some of them.
//!
//! Servers, clients and the suite are installed by `scripts/test`. Without them the trials say so and are ignored, unless `SALON_INTEROP=required`.
//! `salon` and `rmcp-server` are those that Cargo built last: a run of the whole workspace builds them, one of this package alone does not.

mod callers;
mod clients;
mod commands;
mod conformance;
mod documents;
mod door;
mod each_other;
mod features;
mod fidelity;
mod guest_oauth;
mod merged;
mod mishaps;
mod oauth;
mod origin;
mod pairs;
mod process;
mod proxy;
mod stage;
mod ten;
mod wire;

use libtest_mimic::{Arguments, Trial};
use salon_testkit::{Failure, is_interop_required, report_ignored};

use crate::clients::Era;
use crate::oauth::OAuthClient;
use crate::origin::{Installed, Origin};
use crate::pairs::GuestEra;
use crate::stage::Way;
use crate::ten::Eras;

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    // Trials wait for other processes far more than they compute.
    arguments.test_threads.get_or_insert(4);
    let installed = Installed::find();
    let mut trials = Vec::new();
    let mut trial = |name: String, test: Box<dyn FnOnce(Installed) -> Result<(), Failure> + Send>| {
        let installed = installed.clone();
        let ignored = installed.is_err() && !is_interop_required();
        trials.push(Trial::test(name, move || Ok(test(installed?)?)).with_ignored_flag(ignored));
    };
    for origin in Origin::ALL {
        for way in Way::ALL {
            let test = move |installed| salon_testkit::run(features::all(installed, origin, way));
            trial(format!("{}::{}", origin.name(), way.name()), Box::new(test));
        }
    }
    let test = |installed| salon_testkit::run(features::all(installed, Origin::Everything, Way::Sse));
    trial(format!("{}::{}", Origin::Everything.name(), Way::Sse.name()), Box::new(test));
    trial("each_other".into(), Box::new(|installed| salon_testkit::run(each_other::all(installed))));
    trial("twenty_callers".into(), Box::new(|installed| salon_testkit::run(callers::twenty(installed))));
    trial("killed_gateway".into(), Box::new(|installed| salon_testkit::run(mishaps::killed_gateway(installed))));
    trial("ended_owner".into(), Box::new(|installed| salon_testkit::run(mishaps::ended_owner(installed))));
    for (suite, way, at) in pairs::CONFORMANCE {
        let test = move |installed| salon_testkit::run(conformance::run(installed, way, at, suite));
        trial(format!("conformance::{}::{}::{}", suite.name(), at.name(), way.name()), Box::new(test));
    }
    for (client, guest, at) in pairs::CLIENTS {
        let group = if guest == GuestEra::Same { "client" } else { "across_eras" };
        let test = move |installed| salon_testkit::run(clients::all(installed, client, guest, at));
        trial(format!("{group}::{}::{}", client.name(), at.name()), Box::new(test));
    }
    for eras in Eras::ALL {
        let test = move |installed| salon_testkit::run(ten::at_once(installed, eras));
        trial(format!("ten_clients::{}", eras.name()), Box::new(test));
    }
    for (name, era) in [("legacy", Era::Legacy), ("modern", Era::Modern)] {
        let test = move |installed| salon_testkit::run(fidelity::both_ways(installed, era));
        trial(format!("fidelity::{name}"), Box::new(test));
        let test = move |installed| salon_testkit::run(merged::all(installed, era));
        trial(format!("merged::{name}"), Box::new(test));
    }
    for client in OAuthClient::ALL {
        let test = move |installed| salon_testkit::run(oauth::signs_in(installed, client));
        trial(format!("oauth::signs_in::{}", client.name()), Box::new(test));
        let test = move |installed| salon_testkit::run(oauth::shows_how_to_get_a_token(installed, client));
        trial(format!("oauth::without::{}", client.name()), Box::new(test));
    }
    trial("oauth::id_token".into(), Box::new(|installed| salon_testkit::run(oauth::refuses_an_id_token(installed))));
    trial("oauth::guest::browser".into(), Box::new(|installed| salon_testkit::run(guest_oauth::by_browser(installed))));
    trial("oauth::guest::device".into(), Box::new(|installed| salon_testkit::run(guest_oauth::by_device(installed))));
    for (page, has_gateway) in documents::PAGES {
        let test = move |installed| salon_testkit::run(documents::run(installed, page, has_gateway));
        trial(format!("documents::{page}"), Box::new(test));
    }
    // Need nothing that is installed.
    trials.push(Trial::test("command_blocks_are_found", || Ok(documents::check()?)));
    trials.push(Trial::test("every_pair_is_run", || Ok(pairs::check()?)));
    if let Err(missing) = &installed
        && !is_interop_required()
    {
        report_ignored(missing);
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
