//! Which combinations are run where everything crossed with everything would take too long: every pair of values appears at least
//! once, not every combination. `check` compares the tables here with the whole product.

use std::collections::BTreeSet;

use salon_testkit::Failure;

use crate::clients::{Client, Era, Sdk, Transport};
use crate::conformance::Suite;
use crate::door::At;
use crate::stage::Way;

/// A suite, how the guest came to the room, and where the suite connects. Each suite comes to both addresses and by both ways.
pub(crate) const CONFORMANCE: [(Suite, Way, At); 10] = [
    (Suite::ALL[0], Way::Join, At::Guest),
    (Suite::ALL[0], Way::Url, At::Room),
    (Suite::ALL[1], Way::Url, At::Guest),
    (Suite::ALL[1], Way::Join, At::Room),
    (Suite::ALL[2], Way::Join, At::Guest),
    (Suite::ALL[2], Way::Url, At::Room),
    (Suite::ALL[3], Way::Url, At::Guest),
    (Suite::ALL[3], Way::Join, At::Room),
    (Suite::ALL[4], Way::Join, At::Guest),
    (Suite::ALL[4], Way::Url, At::Room),
];

/// Which revisions a client's guest speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuestEra {
    /// Those of the client.
    Same,
    /// Only those that the client does not speak.
    Other,
}

/// Clients, each once with a guest of its own era; the address is chosen so that every era comes by every transport to both.
pub(crate) const CLIENTS: [(Client, GuestEra, At); 19] = [
    (Client(Sdk::TypeScript1, Era::Legacy, Transport::Http), GuestEra::Same, At::Guest),
    (Client(Sdk::TypeScript1, Era::Legacy, Transport::Sse), GuestEra::Same, At::Room),
    (Client(Sdk::TypeScript1, Era::Legacy, Transport::WebSocket), GuestEra::Same, At::Guest),
    (Client(Sdk::TypeScript1, Era::Legacy, Transport::Stdio), GuestEra::Same, At::Room),
    (Client(Sdk::TypeScript2, Era::Legacy, Transport::Http), GuestEra::Same, At::Room),
    (Client(Sdk::TypeScript2, Era::Modern, Transport::Http), GuestEra::Same, At::Guest),
    (Client(Sdk::TypeScript2, Era::Modern, Transport::Stdio), GuestEra::Same, At::Room),
    (Client(Sdk::Python1, Era::Legacy, Transport::Http), GuestEra::Same, At::Guest),
    (Client(Sdk::Python1, Era::Legacy, Transport::Sse), GuestEra::Same, At::Guest),
    (Client(Sdk::Python1, Era::Legacy, Transport::WebSocket), GuestEra::Same, At::Room),
    (Client(Sdk::Python2, Era::Legacy, Transport::Http), GuestEra::Same, At::Room),
    (Client(Sdk::Python2, Era::Legacy, Transport::Stdio), GuestEra::Same, At::Guest),
    (Client(Sdk::Python2, Era::Modern, Transport::Http), GuestEra::Same, At::Room),
    (Client(Sdk::Python2, Era::Modern, Transport::Stdio), GuestEra::Same, At::Guest),
    (Client(Sdk::TypeScript1, Era::Legacy, Transport::Http), GuestEra::Other, At::Room),
    (Client(Sdk::Python1, Era::Legacy, Transport::WebSocket), GuestEra::Other, At::Guest),
    (Client(Sdk::TypeScript2, Era::Modern, Transport::Http), GuestEra::Other, At::Guest),
    (Client(Sdk::Python2, Era::Modern, Transport::Http), GuestEra::Other, At::Room),
    (Client(Sdk::Python2, Era::Modern, Transport::Stdio), GuestEra::Other, At::Guest),
];

/// Clients that are played against a guest of the other era; that this is not all of them is for time as well.
const ACROSS: [Client; 5] = [
    Client(Sdk::TypeScript1, Era::Legacy, Transport::Http),
    Client(Sdk::Python1, Era::Legacy, Transport::WebSocket),
    Client(Sdk::TypeScript2, Era::Modern, Transport::Http),
    Client(Sdk::Python2, Era::Modern, Transport::Http),
    Client(Sdk::Python2, Era::Modern, Transport::Stdio),
];

/// A combination, as the value of each of its factors.
type Combination = Vec<String>;

/// A value, with the place of its factor in a combination.
type Level<'a> = (usize, &'a str);

fn of_suite((suite, way, at): (Suite, Way, At)) -> Combination {
    vec![suite.name(), way.name().into(), at.name().into()]
}

fn of_client((Client(sdk, era, transport), guest, at): (Client, GuestEra, At)) -> Combination {
    vec![format!("{sdk:?}"), format!("{era:?}"), format!("{transport:?}"), format!("{guest:?}"), at.name().into()]
}

/// The pairs of values of different factors that are there.
fn pairs(combinations: &[Combination]) -> BTreeSet<(Level<'_>, Level<'_>)> {
    let mut found = BTreeSet::new();
    for values in combinations {
        for (one, first) in values.iter().enumerate() {
            found.extend(
                values.iter().enumerate().skip(one + 1).map(|(two, second)| ((one, &**first), (two, &**second))),
            );
        }
    }
    found
}

/// Every pair that the product has is in the table, and the table has nothing that the product has not.
fn covers(what: &str, product: &[Combination], table: &[Combination]) -> Result<(), Failure> {
    if let Some(stranger) = table.iter().find(|one| !product.contains(one)) {
        return Err(format!("{what}: {stranger:?} is no combination"));
    }
    let (wanted, found) = (pairs(product), pairs(table));
    let missing: Vec<_> = wanted.difference(&found).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("{what}: no combination has {missing:?}")) }
}

pub(crate) fn check() -> Result<(), Failure> {
    let suites = Suite::ALL.into_iter().flat_map(|suite| [Way::Join, Way::Url].map(|way| (suite, way)));
    let product: Vec<_> = suites.flat_map(|(suite, way)| At::ALL.map(|at| of_suite((suite, way, at)))).collect();
    covers("conformance", &product, &CONFORMANCE.map(of_suite))?;

    let same = Client::ALL.into_iter().map(|client| (client, GuestEra::Same));
    let all = same.chain(ACROSS.map(|client| (client, GuestEra::Other)));
    let product: Vec<_> = all.flat_map(|(client, guest)| At::ALL.map(|at| of_client((client, guest, at)))).collect();
    let table = CLIENTS.map(of_client);
    covers("clients", &product, &table)?;
    // More than pairs: a client is a way of its own, so each is there, and each era comes by each transport to each address.
    let parts = |combinations: &[Combination], places: &[usize]| -> BTreeSet<Combination> {
        combinations.iter().map(|values| places.iter().map(|&at| values[at].clone()).collect()).collect()
    };
    for places in [[0, 1, 2, 3], [1, 2, 4, 4]] {
        if parts(&product, &places) != parts(&table, &places) {
            return Err(format!("clients: the factors {places:?} are not all there"));
        }
    }
    Ok(())
}
