//! The contract of [`Cluster`] as a suite that every engine runs; the numbers are those of its documentation.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;

use super::checks::{all, within};
use crate::cluster::{Cluster, Keyspace};

/// How long something is waited for between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Kept for longer than the suite takes.
const LONG: Keyspace = Keyspace { name: "long", time_to_live: Duration::from_secs(600) };
const SHORT: Keyspace = Keyspace { name: "short", time_to_live: Duration::from_secs(1) };

/// An engine as the suite needs it.
pub trait ClusterEngine {
    /// Two nodes of a new cluster; on one machine they are the same.
    fn nodes(&self, spaces: &[Keyspace]) -> impl Future<Output = [Arc<dyn Cluster>; 2]>;
}

/// Runs the whole suite; panics at the first broken promise.
pub async fn run(engine: &impl ClusterEngine) {
    let nodes = engine.nodes(&[LONG, SHORT]).await;
    all(vec![
        within("1: a value is kept for its time", values_are_kept_for_their_time(&nodes)).boxed_local(),
        within("2: a value is taken once", values_are_taken_once(&nodes)).boxed_local(),
        within("3: no change is lost", no_change_is_lost(&nodes)).boxed_local(),
        within("4: every follower gets everything", followers_hear_everything(engine)).boxed_local(),
    ])
    .await;
}

/// What a key has.
async fn value(node: &Arc<dyn Cluster>, space: Keyspace, key: &str) -> Option<Vec<u8>> {
    let seen = Mutex::new(None);
    let look = |known: Option<&[u8]>| {
        *seen.lock().expect("a look") = known.map(<[u8]>::to_vec);
        None
    };
    node.change(space, key, &look).await.expect("a look");
    seen.into_inner().expect("a look")
}

async fn values_are_kept_for_their_time([one, two]: &[Arc<dyn Cluster>; 2]) {
    assert_eq!(value(one, LONG, "kept").await, None, "1: nobody has kept anything");
    for space in [SHORT, LONG] {
        one.keep(space, "kept", b"first".to_vec()).await.expect("kept");
        one.keep(space, "kept", b"second".to_vec()).await.expect("kept");
    }
    assert_eq!(value(two, LONG, "kept").await.as_deref(), Some(&b"second"[..]), "1: the other node has another value");
    while value(two, SHORT, "kept").await.is_some() {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    assert_eq!(one.take(SHORT, "kept").await, Ok(None), "1: it is over on every node");
    assert!(value(two, LONG, "kept").await.is_some(), "1: another keyspace's values are kept for longer");
}

async fn values_are_taken_once([one, two]: &[Arc<dyn Cluster>; 2]) {
    assert_eq!(one.take(LONG, "taken").await, Ok(None), "2: nobody has kept anything");
    for value in [&b"first"[..], b"second"] {
        two.keep(LONG, "taken", value.to_vec()).await.expect("kept");
        let takers = (0..8).map(|number| [one, two][number % 2].take(LONG, "taken"));
        let taken: Vec<_> = join_all(takers).await.into_iter().filter_map(|taken| taken.expect("an answer")).collect();
        assert_eq!(taken, [value], "2: one of all takes it");
        assert_eq!(one.take(LONG, "taken").await, Ok(None), "2: it was taken");
    }
}

async fn no_change_is_lost([one, two]: &[Arc<dyn Cluster>; 2]) {
    let add = |letter: u8| {
        move |known: Option<&[u8]>| {
            let known = known.unwrap_or_default();
            (!known.contains(&letter)).then(|| [known, &[letter]].concat())
        }
    };
    let changes: Vec<_> = (b'a'..=b'h').map(add).collect();
    let changing = changes.iter().enumerate().map(|(at, change)| [one, two][at % 2].change(LONG, "changed", change));
    join_all(changing).await.into_iter().for_each(|changed| changed.expect("changed"));
    let letters: BTreeSet<_> = value(one, LONG, "changed").await.expect("a value").into_iter().collect();
    assert_eq!(letters, (b'a'..=b'h').collect(), "3: a change was lost");
}

async fn followers_hear_everything(engine: &impl ClusterEngine) {
    let [one, two] = engine.nodes(&[LONG, SHORT]).await;
    let mut expected = BTreeSet::new();
    for number in 0..3_u8 {
        one.keep(LONG, &format!("followed-{number}"), vec![number]).await.expect("kept");
        expected.insert(vec![number]);
    }
    one.keep(SHORT, "elsewhere", b"elsewhere".to_vec()).await.expect("kept");
    let heard = [(); 2].map(|()| Arc::<Mutex<BTreeSet<Vec<u8>>>>::default());
    for (node, heard) in [&one, &two].into_iter().zip(&heard) {
        let own = heard.clone();
        let hear = Box::new(move |value: &[u8]| _ = own.lock().expect("heard").insert(value.to_vec()));
        node.follow(LONG, hear).await.expect("followed");
        assert_eq!(*heard.lock().expect("heard"), expected, "4: what there was has been heard when it resolves");
    }
    two.keep(LONG, "followed-0", b"later".to_vec()).await.expect("kept");
    one.change(LONG, "followed-9", &|_| Some(b"new".to_vec())).await.expect("changed");
    expected.extend([b"later".to_vec(), b"new".to_vec()]);
    for heard in &heard {
        while *heard.lock().expect("heard") != expected {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}
