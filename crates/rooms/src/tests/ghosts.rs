//! Ghosts and their bridge: who is present, who may speak, and how much. How that looks on the wire is told as scenes.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use salon_control::{GhostGrant, Namespace, Namespaces};
use salon_log::sqlite::{Sqlite, SqliteOptions};
use salon_protocol::{Code, ParticipantId};

use super::{admission, draft, room, settings, soon};
use crate::{Admission, BridgeSettings, GhostIntroduction, Ghosts, Publishing, Rate, Rooms, Seat, Settings};

const BRIDGE: &str = "bridge:m";
const GHOSTS: [&str; 3] = ["m:ann", "m:bob", "m:cat"];

fn who(id: &str) -> ParticipantId {
    ParticipantId::new(id).expect("an id")
}

fn namespace() -> Namespace {
    "m:*".parse().expect("a namespace")
}

fn bridges() -> BridgeSettings {
    let namespaces = Namespaces::new(vec![(namespace(), who(BRIDGE))]).expect("one");
    BridgeSettings { namespaces, ..BridgeSettings::default() }
}

fn log() -> Arc<Sqlite> {
    Arc::new(Sqlite::temporary(SqliteOptions::default()).expect("a log"))
}

fn rooms_on(log: &Arc<Sqlite>, settings: Settings) -> Rooms {
    Rooms::new(log.clone(), settings, Box::new(|_| Box::pin(std::future::pending())))
}

fn bridge(after: Option<&str>) -> Admission {
    Admission { ghosts: Some(GhostGrant::new(vec![namespace()])), ..admission(BRIDGE, after) }
}

fn ghost(id: &str, name: &str) -> GhostIntroduction {
    GhostIntroduction { id: who(id), name: Some(name.into()), kind: None }
}

fn say(seat: &Seat, id: &str, from: &str) -> Publishing {
    let payload = r#""method":"notifications/chat/message","params":{"text":"hi"}"#;
    seat.publish(draft(id, from, r#""to":[]"#, payload))
}

async fn present(rooms: &Rooms) -> BTreeSet<String> {
    let roster = rooms.roster(&room()).await.expect("a roster");
    roster.iter().map(|present| present.id.to_string()).collect()
}

/// A ghost that says too much is refused and nothing else waits for that; when all of them together do, nothing more is read.
#[tokio::test]
async fn ghosts_have_rates_of_their_own_and_one_together() {
    let log = log();
    let bridges = BridgeSettings { rate: Rate { per_second: 1, burst: 30 }, ..bridges() };
    let rooms = rooms_on(&log, Settings { rate: Rate { per_second: 1, burst: 8 }, bridges, ..settings() });
    let seat = rooms.enter(&room(), bridge(None)).await.expect("a seat").seat;
    let ghosts = seat.ghosts().expect("a bridge");
    for id in GHOSTS {
        ghosts.clone().enter(ghost(id, "x")).await.expect("entered");
    }
    // Under load a second may pass between two of them, which gives one more back.
    let count =
        |outcomes: &[Publishing], wanted: fn(&Publishing) -> bool| outcomes.iter().filter(|one| wanted(one)).count();
    let anns: Vec<_> = (0..20).map(|n| say(&seat, &format!("a{n}"), "m:ann")).collect();
    assert!((8..15).contains(&count(&anns, |one| matches!(one, Publishing::Submitted(_)))));
    assert!(count(&anns, |one| matches!(one, Publishing::Refused(refusal) if refusal.code == Code::RateLimited)) >= 5);
    assert_eq!(count(&anns, |one| matches!(one, Publishing::Limited(..))), 0, "others could not speak meanwhile");
    assert!(matches!(say(&seat, "b0", "m:bob"), Publishing::Submitted(_)), "each has a rate of its own");
    let bobs: Vec<_> = (1..18).map(|n| say(&seat, &format!("b{n}"), "m:bob")).collect();
    let limited = bobs.iter().find_map(|one| match one {
        Publishing::Limited(refusal, _) => Some(refusal.message.clone()),
        _ => None,
    });
    assert!(limited.is_some_and(|message| message.contains("`limits.bridge_rate`")));
    drop((anns, bobs));
    assert!(matches!(say(&seat, "own", BRIDGE), Publishing::Submitted(_)), "what the bridge says itself is its own");
}

#[tokio::test]
async fn a_bridge_has_so_many_ghosts_in_all_rooms() {
    let log = log();
    let rooms = rooms_on(&log, Settings { bridges: BridgeSettings { ghosts: 2, ..bridges() }, ..settings() });
    let seat = rooms.enter(&room(), bridge(None)).await.expect("a seat").seat;
    let other = rooms.enter(&"room:b".parse().expect("a topic"), bridge(None)).await.expect("a seat").seat;
    let (here, there) = (seat.ghosts().expect("a bridge"), other.ghosts().expect("a bridge"));
    here.clone().enter(ghost("m:ann", "Ann")).await.expect("entered");
    there.clone().enter(ghost("m:ann", "Ann")).await.expect("entered");
    let refused = here.clone().enter(ghost("m:bob", "Bob")).await.expect_err("too many");
    assert_eq!(
        refused.to_string(),
        "forbidden: the bridge has 2 ghosts, which is its limit (`ghosts_max`, `limits.ghosts`)"
    );
    // A new connection takes the places of an old one, which count once.
    let again = rooms.enter(&room(), bridge(None)).await.expect("a seat").seat;
    again.ghosts().expect("a bridge").enter(ghost("m:ann", "Ann")).await.expect("entered");
    drop(other);
    again.ghosts().expect("a bridge").enter(ghost("m:bob", "Bob")).await.expect("there is room again");
}

#[derive(Debug, Clone)]
enum BridgeStep {
    /// A new connection; one that lives is replaced, and its seat kept.
    Connect {
        resumes: bool,
    },
    Enter {
        ghost: usize,
        name: usize,
    },
    LeaveGhost {
        ghost: usize,
    },
    /// The connection is lost, and its seat kept.
    Lose,
    /// The connection is closed by the bridge.
    Close,
    /// The grace of the oldest seat that is kept is over.
    GraceOver,
    Speak {
        ghost: usize,
    },
    /// Somebody tries to be a ghost.
    Intrude {
        ghost: usize,
    },
}

fn step() -> impl Strategy<Value = BridgeStep> {
    let ghost = 0..GHOSTS.len();
    prop_oneof![
        2 => any::<bool>().prop_map(|resumes| BridgeStep::Connect { resumes }),
        5 => (ghost.clone(), 0..2usize).prop_map(|(ghost, name)| BridgeStep::Enter { ghost, name }),
        1 => ghost.clone().prop_map(|ghost| BridgeStep::LeaveGhost { ghost }),
        1 => Just(BridgeStep::Lose),
        1 => Just(BridgeStep::Close),
        2 => Just(BridgeStep::GraceOver),
        2 => ghost.clone().prop_map(|ghost| BridgeStep::Speak { ghost }),
        1 => ghost.prop_map(|ghost| BridgeStep::Intrude { ghost }),
    ]
}

/// A seat, and the ghosts that must be present by it.
struct ModelSeat {
    seat: Seat,
    ghosts: BTreeSet<&'static str>,
}

impl ModelSeat {
    fn handle(&self) -> Ghosts {
        self.seat.ghosts().expect("a bridge")
    }
}

struct BridgeModel {
    rooms: Rooms,
    live: Option<ModelSeat>,
    kept: Vec<ModelSeat>,
    said: usize,
}

impl BridgeModel {
    async fn step(&mut self, step: &BridgeStep) {
        match step {
            BridgeStep::Connect { resumes } => {
                let seat = self.rooms.enter(&room(), bridge(resumes.then_some("first"))).await.expect("a seat").seat;
                self.kept.extend(self.live.replace(ModelSeat { seat, ghosts: BTreeSet::new() }));
            }
            BridgeStep::Enter { ghost: number, name } => {
                let Some(live) = &mut self.live else { return };
                let name = ["Ann", "Bob"][*name];
                let entered = live.handle().enter(ghost(GHOSTS[*number], name)).await.expect("entered");
                assert_eq!((entered.name.as_deref(), entered.via.as_ref()), (Some(name), Some(&who(BRIDGE))));
                live.ghosts.insert(GHOSTS[*number]);
                for kept in &mut self.kept {
                    kept.ghosts.remove(GHOSTS[*number]);
                }
            }
            BridgeStep::LeaveGhost { ghost } => {
                let Some(live) = &mut self.live else { return };
                live.handle().leave(&who(GHOSTS[*ghost]), None);
                live.ghosts.remove(GHOSTS[*ghost]);
            }
            BridgeStep::Lose => self.kept.extend(self.live.take()),
            BridgeStep::Close => drop(self.live.take()),
            BridgeStep::GraceOver if self.kept.is_empty() => {}
            BridgeStep::GraceOver => drop(self.kept.remove(0)),
            BridgeStep::Speak { ghost } => {
                let Some(live) = &self.live else { return };
                self.said += 1;
                let spoken = say(&live.seat, &format!("s{}", self.said), GHOSTS[*ghost]).outcome().await;
                let may_speak = live.ghosts.contains(GHOSTS[*ghost]);
                assert_eq!(
                    spoken.map(|_| ()).map_err(|refusal| refusal.code),
                    match may_speak {
                        true => Ok(()),
                        false => Err(Code::FromMismatch),
                    }
                );
            }
            BridgeStep::Intrude { ghost } => {
                let refused = self.rooms.enter(&room(), admission(GHOSTS[*ghost], None)).await.err();
                assert_eq!(refused.map(|refusal| refusal.code), Some(Code::Forbidden));
                self.said += 1;
                let payload = r#""method":"notifications/x""#;
                let said = draft(&format!("s{}", self.said), GHOSTS[*ghost], r#""to":[]"#, payload);
                let refused = self.rooms.publish(&room(), &who(GHOSTS[*ghost]), said).await.err();
                assert_eq!(refused.map(|refusal| refusal.code), Some(Code::Forbidden));
            }
        }
    }

    /// Waits until those are present who must be, and nobody else.
    async fn settle(&self) {
        let seats = || self.live.iter().chain(&self.kept);
        let ghosts = seats().flat_map(|seat| &seat.ghosts).map(|ghost| (*ghost).to_owned());
        let bridge = seats().next().map(|_| BRIDGE.to_owned());
        let expected: BTreeSet<_> = ghosts.chain(bridge).chain(["alice".to_owned()]).collect();
        let coming = async {
            while present(&self.rooms).await != expected {
                tokio::task::yield_now().await;
            }
        };
        let settled = tokio::time::timeout(std::time::Duration::from_secs(20), coming).await;
        assert!(settled.is_ok(), "present are {:?}, expected {expected:?}", present(&self.rooms).await);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Joins, takeovers and leaves of a bridge and its ghosts in any order: a ghost is present while a seat of its bridge has it, and no
    /// longer; only the connection that entered it speaks for it, and nobody else can be it.
    #[test]
    fn ghosts_come_and_go_with_their_bridge(steps in proptest::collection::vec(step(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let log = log();
            let rooms = rooms_on(&log, Settings { rate: Rate::UNLIMITED, bridges: bridges(), ..settings() });
            let alice = rooms.enter(&room(), admission("alice", None)).await.expect("a seat").seat;
            say(&alice, "first", "alice").outcome().await.expect("stored");
            let mut model = BridgeModel { rooms, live: None, kept: Vec::new(), said: 0 };
            for step in &steps {
                model.step(step).await;
                model.settle().await;
            }
            (model.live, model.kept) = (None, Vec::new());
            soon("everybody to leave", model.settle()).await;
        });
    }
}
