//! What a topic's settings allow: capabilities, roles, and rules that hold calls until somebody approves them.
//!
//! Every value is plain data, judged by pure functions. Deliberately absent: IO, a clock, and where the settings are stored.
#![warn(missing_docs)]

mod act;
mod authority;
mod capability;
mod direct;
mod limits;
mod namespace;
mod notice;
mod pattern;
mod role;
mod rule;
mod rule_list;
mod settings;

pub use act::{Act, called_arguments, called_tool, is_client_request};
pub use authority::{Authority, HeldBy, OPERATOR_PERMISSION};
pub use capability::{CapabilityPattern, CapabilitySet, InvalidCapability};
pub use direct::{DirectConversation, InvalidConversation, MAX_DIRECT_MEMBERS};
pub use limits::{TopicLimits, TopicRetention};
pub use namespace::{GhostGrant, InvalidNamespace, MAX_NAMESPACES, MAX_NAMESPACES_OF_BRIDGE, Namespace, Namespaces};
pub use notice::{
    APPROVAL_DECIDED_METHOD, APPROVAL_REQUESTED_METHOD, ApprovalDecision, ApprovalRequest, ControlNotice,
    DELETED_METHOD, Decision, MAX_REDACTED_MESSAGES, MessageRedaction, REDACTED_METHOD, RedactedMessage,
    SETTINGS_METHOD, SettingsChange, TopicDeletion, text_digest, tombstone_of,
};
pub use pattern::{InvalidPattern, NamePattern};
pub use role::{InvalidRole, RoleName};
pub use rule::{CallRule, Principal, RuleEffect};
pub use rule_list::RuleList;
pub use settings::{InvalidSettings, SettingsSubject, TopicAccess, TopicSettings};
