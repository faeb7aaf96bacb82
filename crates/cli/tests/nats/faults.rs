//! Three gateways on three NATS servers, and what may fail of them, each in a scene of its own. What is checked at the end of each, and who
//! is in the rooms meanwhile, `salon_testkit::faults` says.

use std::path::Path;

use libtest_mimic::Trial;
use salon_testkit::faults::{FaultStage, clock_obstacle};
use salon_testkit::{Failure, nats_trials};

use crate::salon::BINARY;

pub(crate) fn trials() -> Vec<Trial> {
    let trials = nats_trials![
        a_gateway_is_killed,
        a_nats_server_is_killed,
        the_leader_of_a_topic_is_killed,
        a_gateway_is_cut_off_from_nats,
        everything_is_killed_and_started_again,
        the_gateways_are_restarted_one_after_the_other,
        a_gateway_stands_still,
        nats_is_away_for_longer_than_a_lease,
    ];
    let clock = nats_trials![the_clock_of_a_gateway_jumps].into_iter().map(|trial| match clock_obstacle() {
        Some(_) => trial.with_ignored_flag(true),
        None => trial,
    });
    trials.into_iter().chain(clock).collect()
}

async fn scene(faults: impl AsyncFnOnce(&mut FaultStage) -> Result<(), Failure>) {
    play(FaultStage::open(Path::new(BINARY)), faults).await;
}

async fn play(
    stage: impl Future<Output = Result<FaultStage, Failure>>,
    faults: impl AsyncFnOnce(&mut FaultStage) -> Result<(), Failure>,
) {
    let played = async {
        let mut stage = stage.await?;
        match faults(&mut stage).await {
            Ok(()) => stage.finish().await,
            Err(told) => Err(stage.explain(told)),
        }
    };
    played.await.unwrap_or_else(|told| panic!("{told}"));
}

async fn a_gateway_is_killed() {
    scene(async |stage| {
        stage.kill(1).await?;
        stage.works(&[0, 2]).await?;
        // A participant that does not come back has left once the lease is over.
        stage.sees(0, "visitor-1", false).await?;
        stage.start(1).await
    })
    .await;
}

async fn a_nats_server_is_killed() {
    scene(async |stage| {
        for number in 0..3 {
            stage.servers.kill(number).await?;
            stage.works(&[0, 1, 2]).await?;
            stage.servers.revive(number).await?;
            stage.works(&[0, 1, 2]).await?;
        }
        Ok(())
    })
    .await;
}

async fn the_leader_of_a_topic_is_killed() {
    scene(async |stage| {
        let leader = stage.leader().await?;
        stage.servers.kill(leader).await?;
        stage.works(&[0, 1, 2]).await?;
        stage.servers.revive(leader).await
    })
    .await;
}

async fn a_gateway_is_cut_off_from_nats() {
    scene(async |stage| {
        stage.cut_off(1);
        stage.ready(1, 503).await?;
        stage.refuses(1).await?;
        stage.works(&[0, 2]).await?;
        // For longer than a lease: to the others, participants that are only there have left.
        stage.sees(0, "visitor-1", false).await?;
        stage.rejoin(1);
        stage.ready(1, 200).await?;
        stage.works(&[0, 1, 2]).await?;
        stage.sees(0, "visitor-1", true).await
    })
    .await;
}

async fn everything_is_killed_and_started_again() {
    scene(async |stage| {
        for number in 0..3 {
            stage.servers.kill(number).await?;
            stage.kill(number).await?;
        }
        stage.servers.revive_all().await?;
        stage.start_all().await
    })
    .await;
}

async fn the_gateways_are_restarted_one_after_the_other() {
    scene(async |stage| {
        for gateway in 0..3 {
            stage.stop(gateway).await?;
            stage.start(gateway).await?;
            stage.works(&[0, 1, 2]).await?;
        }
        Ok(())
    })
    .await;
}

async fn a_gateway_stands_still() {
    scene(async |stage| {
        stage.pause(1).await?;
        // For longer than a lease: to the others, participants that are only there have left.
        stage.sees(0, "visitor-1", false).await?;
        stage.resume(1).await?;
        stage.works(&[0, 1, 2]).await?;
        stage.sees(0, "visitor-1", true).await
    })
    .await;
}

async fn nats_is_away_for_longer_than_a_lease() {
    scene(async |stage| {
        for number in 0..3 {
            stage.servers.kill(number).await?;
        }
        for gateway in 0..3 {
            stage.ready(gateway, 503).await?;
        }
        stage.refuses_for_long(0).await?;
        stage.servers.revive_all().await?;
        // No gateway was gone, so every participant is still there.
        for gateway in 0..3 {
            stage.ready(gateway, 200).await?;
        }
        stage.works(&[0, 1, 2]).await?;
        for who in ["visitor-0", "visitor-1", "visitor-2"] {
            stage.sees(0, who, true).await?;
        }
        Ok(())
    })
    .await;
}

/// An hour forth, back, and behind everybody else's. Leases are the servers' time. Tokens are older than an hour and valid for a day.
async fn the_clock_of_a_gateway_jumps() {
    play(FaultStage::open_with_clock(Path::new(BINARY), 1), async |stage| {
        for by in ["+3600", "+0", "-3600", "+3600"] {
            stage.shift_clock(1, by)?;
            stage.works(&[0, 1, 2]).await?;
            stage.ready(1, 200).await?;
            // Nobody's place is lost, by the gateway's own account and by that of another.
            for gateway in [0, 1] {
                stage.sees(gateway, "visitor-1", true).await?;
            }
        }
        // It takes part again after a restart, with a clock that is wrong from the beginning.
        stage.stop(1).await?;
        stage.start(1).await
    })
    .await;
}
