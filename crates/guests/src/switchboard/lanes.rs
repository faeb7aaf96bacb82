//! Connections to the server: who uses which, and what their coming and going means.

use std::time::Instant;

use salon_mcp::handshake::HandshakeParams;
use salon_mcp::{Era, Revision};
use salon_protocol::RpcError;
use serde_json::json;

use super::call::LaneCallStage;
use super::listening::LaneListen;
use super::questions::WithdrawnCalls;
use super::{CallerId, LaneId, MAX_OWN_LANES, MAX_OWN_LANES_OF_ONE, Switchboard, SwitchboardAction, shared_handshake};

#[derive(Debug)]
pub(super) struct UpstreamLane {
    pub(super) era: Era,
    /// Whose it is; nobody's is everybody's.
    pub(super) owner: Option<CallerId>,
    pub(super) is_open: bool,
    /// What its server speaks on it: what was agreed when it was opened.
    pub(super) revision: Revision,
    /// Its owner has another by now; it goes when its last call is done.
    pub(super) retired: bool,
    /// The level asked of a server whose log lines are shared.
    pub(super) level: Option<salon_protocol::LogLevel>,
    pub(super) listening: LaneListen,
    /// Calls that the server may still be working on, though nobody waits for them.
    pub(super) withdrawn: WithdrawnCalls,
}

impl UpstreamLane {
    pub(super) fn open(era: Era, owner: Option<CallerId>, revision: Revision) -> Self {
        Self {
            era,
            owner,
            is_open: true,
            revision,
            retired: false,
            level: None,
            listening: LaneListen::default(),
            withdrawn: WithdrawnCalls::default(),
        }
    }
}

impl Switchboard {
    /// The lane a caller's requests of an era go by, opened where there is none yet. `isolated` says that the caller wants its own.
    pub(super) fn lane_for(&mut self, caller: &CallerId, era: Era, isolated: bool) -> Result<LaneId, RpcError> {
        let own = self.setting.isolated || isolated;
        let known = self.callers.entry(caller.clone()).or_default();
        let existing = if own { known.lanes.get(&era) } else { self.shared.get(&era) };
        if let Some(lane) = existing {
            return Ok(*lane);
        }
        let (handshake_params, revision) = if own {
            (known.handshake_params.clone(), known.revision)
        } else {
            (shared_handshake(&self.setting, &self.ours, era), Revision::R2025_11_25)
        };
        if own {
            self.check_own_lanes(caller)?;
        }
        let lane = LaneId(u32::try_from(self.fresh()).unwrap_or(u32::MAX));
        let owner = own.then(|| caller.clone());
        self.lanes.insert(lane, UpstreamLane { is_open: false, ..UpstreamLane::open(era, owner, revision) });
        if own {
            self.callers.entry(caller.clone()).or_default().lanes.insert(era, lane);
        } else {
            self.shared.insert(era, lane);
        }
        self.actions.push_back(SwitchboardAction::Open {
            lane,
            era,
            handshake_params: Box::new(handshake_params),
            revision,
        });
        Ok(lane)
    }

    /// Refuses another lane of a caller's own where there are too many, unless an idle one can be closed for it.
    fn check_own_lanes(&mut self, caller: &CallerId) -> Result<(), RpcError> {
        let refusal = |board: &Self| {
            let owners = board.lanes.values().filter_map(|lane| lane.owner.as_ref());
            let (all, theirs) = owners.fold((0, 0), |(all, theirs), owner| {
                (all + 1, theirs + usize::from(owner.participant == caller.participant))
            });
            let name = &board.setting.name;
            if theirs >= MAX_OWN_LANES_OF_ONE {
                return Some(format!(
                    "`{name}` already serves {MAX_OWN_LANES_OF_ONE} sessions of yours with a connection of their own"
                ));
            }
            (all >= MAX_OWN_LANES)
                .then(|| format!("`{name}` already serves {MAX_OWN_LANES} callers with a connection of their own"))
        };
        if refusal(self).is_some() {
            self.close_idle_lanes(caller);
        }
        match refusal(self) {
            None => Ok(()),
            Some(told) => Err(RpcError::new(RpcError::INTERNAL, told).with_data(&json!({ "code": "rate_limited" }))),
        }
    }

    /// Closes the lanes of the participant's session that has been idle for the longest time. It may have ended without a word; if not, its
    /// next call opens a lane again.
    fn close_idle_lanes(&mut self, caller: &CallerId) {
        let idle = self.least_recent(&caller.participant, |known| known.open == 0 && !known.lanes.is_empty());
        let Some(known) = idle.and_then(|idle| self.callers.get_mut(&idle)) else { return };
        for lane in std::mem::take(&mut known.lanes).into_values() {
            self.close(lane);
        }
    }

    /// A lane can be used; its server speaks that revision on it.
    pub(crate) fn opened(&mut self, lane: LaneId, revision: Revision, now: Instant) {
        let Some(known) = self.lanes.get_mut(&lane) else { return };
        (known.is_open, known.revision) = (true, revision);
        for number in self.calls_where(|call| call.lane == lane && matches!(call.state, LaneCallStage::Waiting)) {
            self.dispatch(number, now);
        }
        self.listen(lane, now);
    }

    /// A lane is gone, or could not be had. Its calls are answered at once.
    pub(crate) fn ended(&mut self, lane: LaneId, why: &str, now: Instant) {
        if lane == LaneId::BASE {
            if !std::mem::replace(&mut self.lost, true) {
                let lanes: Vec<_> = self.lanes.keys().copied().collect();
                for lane in lanes {
                    self.fail_lane(lane, why, now);
                }
                self.actions.push_back(SwitchboardAction::Lost { why: why.to_owned() });
            }
            return;
        }
        if self.lanes.contains_key(&lane) {
            self.fail_lane(lane, why, now);
            self.forget_lane(lane);
        }
    }

    fn fail_lane(&mut self, lane: LaneId, why: &str, now: Instant) {
        self.withdraw_asks(lane);
        for number in self.calls_where(|call| call.lane == lane) {
            let failure =
                RpcError::new(RpcError::INTERNAL, format!("the server of `{}` is gone: {why}", self.setting.name));
            self.fail(number, &failure.with_data(&json!({ "code": "closing" })), now);
        }
    }

    /// A caller sent other handshake parameters: its next requests go by another lane.
    pub(super) fn retire(&mut self, caller: &CallerId, handshake_params: &HandshakeParams) {
        let Some(known) = self.callers.get_mut(caller) else { return };
        if known.handshake_params.capabilities.get() == handshake_params.capabilities.get() {
            return;
        }
        for lane in std::mem::take(&mut known.lanes).into_values() {
            if let Some(lane) = self.lanes.get_mut(&lane) {
                lane.retired = true;
            }
            self.close_if_done(lane);
        }
    }

    pub(super) fn close_if_done(&mut self, lane: LaneId) {
        let retired = self.lanes.get(&lane).is_some_and(|known| known.retired);
        if retired && !self.calls.values().any(|call| call.lane == lane && call.asked().is_some()) {
            self.close(lane);
        }
    }

    pub(super) fn close(&mut self, lane: LaneId) {
        if self.lanes.contains_key(&lane) {
            self.withdraw_asks(lane);
            for number in self.calls_where(|call| call.lane == lane) {
                self.remove(number);
            }
            self.forget_lane(lane);
            self.actions.push_back(SwitchboardAction::Close { lane });
        }
    }

    fn forget_lane(&mut self, lane: LaneId) {
        self.lanes.remove(&lane);
        self.timers.forget(super::SwitchboardTimer::Listen(lane));
        self.shared.retain(|_, shared| *shared != lane);
        for caller in self.callers.values_mut() {
            caller.lanes.retain(|_, own| *own != lane);
            caller.subscriptions.retain(|(of, _), _| *of != lane);
        }
    }
}
