//! What a topic's settings allow: capabilities, roles, and rules that hold calls until somebody approves them.
//!
//! Every value is plain data, judged by pure functions. Deliberately absent: IO, a clock, and where the settings are stored.
#![warn(missing_docs)]

mod act;
mod authority;
mod capability;
mod notice;
mod pattern;
mod role;
mod rule;
mod settings;

pub use act::{Act, called_tool, is_client_request};
pub use authority::{Authority, HeldBy, OPERATOR_PERMISSION};
pub use capability::{CapabilityPattern, CapabilitySet, InvalidCapability};
pub use notice::{
    APPROVAL_DECIDED_METHOD, APPROVAL_REQUESTED_METHOD, ApprovalDecision, ApprovalRequest, ControlNotice, Decision,
    SETTINGS_METHOD, SettingsChange,
};
pub use pattern::{InvalidPattern, NamePattern};
pub use role::{InvalidRole, RoleName};
pub use rule::{CallRule, Principal, RuleEffect};
pub use settings::{InvalidSettings, TopicAccess, TopicSettings};
