//! Namespaces of participant ids, and the grant of a bridge that speaks for the participants in them.
//!
//! A namespace belongs to one bridge, which the gateway's configuration names. Nobody else enters or speaks as one of its ids, also while the
//! bridge is away. Deliberately absent: tokens, and where a bridge's ghosts sit.

use std::fmt;
use std::str::FromStr;

use salon_protocol::{Code, ParticipantId, ParticipantKind, Refusal};

/// How many namespaces a bridge may act for.
pub const MAX_NAMESPACES_OF_BRIDGE: usize = 16;

/// How many namespaces a gateway may declare.
pub const MAX_NAMESPACES: usize = 256;

/// The ids that begin with a prefix, written `matrix:*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace(Box<str>);

/// Why a text is not a namespace, or namespaces do not fit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidNamespace {
    /// It does not end with `*`.
    NoStar,
    /// Its prefix has no letter or digit, or does not end with a separator: `matrix*` would also take the ids of `matrixbot`.
    NoSeparator,
    /// Its prefix has a character that no id has, or is too long.
    NoId,
    /// It has ids of the gateway's own.
    Reserved,
    /// It has ids that another namespace has, too.
    Overlaps(Namespace, Namespace),
    /// It has the id of a bridge.
    HasBridge(Namespace, ParticipantId),
    /// There are too many; the number is how many there may be.
    TooMany(usize),
}

impl fmt::Display for InvalidNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStar => f.write_str("a namespace ends with `*`, such as `matrix:*`"),
            Self::NoSeparator => {
                f.write_str("a namespace has a name, a separator such as `:` and then `*`, such as `matrix:*`")
            }
            Self::NoId => f.write_str("a namespace has only characters that participant ids have, and at most 64"),
            Self::Reserved => f.write_str("ids that begin with `system:` are the gateway's own"),
            Self::Overlaps(one, other) => write!(f, "the namespaces `{one}` and `{other}` have ids in common"),
            Self::HasBridge(namespace, bridge) => {
                write!(f, "the namespace `{namespace}` has the id of the bridge `{bridge}`")
            }
            Self::TooMany(most) => write!(f, "there are more than {most} namespaces"),
        }
    }
}

impl Namespace {
    /// The longest prefix. It leaves as many characters of an id for the name on the platform.
    const MAX_CHARS: usize = 64;

    /// Whether an id is in the namespace.
    pub fn contains(&self, id: &ParticipantId) -> bool {
        id.as_str().starts_with(&*self.0)
    }

    /// Whether an id is in the namespace or could be taken for one that is: letters count in either case.
    fn resembles(&self, id: &ParticipantId) -> bool {
        let prefix = id.as_str().as_bytes().get(..self.0.len());
        prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(self.0.as_bytes()))
    }

    /// Whether all ids of another namespace are in this one.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&*self.0)
    }

    fn overlaps(&self, other: &Self) -> bool {
        let shorter = self.0.len().min(other.0.len());
        self.0.as_bytes()[..shorter].eq_ignore_ascii_case(&other.0.as_bytes()[..shorter])
    }
}

impl FromStr for Namespace {
    type Err = InvalidNamespace;

    fn from_str(text: &str) -> Result<Self, InvalidNamespace> {
        let prefix = text.strip_suffix('*').ok_or(InvalidNamespace::NoStar)?;
        // An id can be made of the prefix and a name behind it, so the prefix has the characters of ids.
        ParticipantId::new(format!("{prefix}x")).map_err(|_| InvalidNamespace::NoId)?;
        let has_name = prefix.bytes().any(|byte| byte.is_ascii_alphanumeric());
        if !has_name || prefix.ends_with(|last: char| last.is_ascii_alphanumeric()) {
            return Err(InvalidNamespace::NoSeparator);
        }
        if prefix.len() > Self::MAX_CHARS {
            return Err(InvalidNamespace::NoId);
        }
        let reserved = ParticipantId::RESERVED_PREFIX;
        let shorter = reserved.len().min(prefix.len());
        if reserved.as_bytes()[..shorter].eq_ignore_ascii_case(&prefix.as_bytes()[..shorter]) {
            return Err(InvalidNamespace::Reserved);
        }
        Ok(Self(prefix.into()))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}*", self.0)
    }
}

/// Which namespaces there are, and whose they are. Empty where no bridge is declared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Namespaces(Vec<(Namespace, ParticipantId)>);

impl Namespaces {
    /// Namespaces and the bridges they belong to. No two may overlap, and no bridge may be in one.
    pub fn new(owned: Vec<(Namespace, ParticipantId)>) -> Result<Self, InvalidNamespace> {
        if owned.len() > MAX_NAMESPACES {
            return Err(InvalidNamespace::TooMany(MAX_NAMESPACES));
        }
        for (at, (one, _)) in owned.iter().enumerate() {
            if let Some((other, _)) = owned[..at].iter().find(|(other, _)| one.overlaps(other)) {
                return Err(InvalidNamespace::Overlaps(other.clone(), one.clone()));
            }
            if let Some((_, bridge)) = owned.iter().find(|(_, bridge)| one.resembles(bridge)) {
                return Err(InvalidNamespace::HasBridge(one.clone(), bridge.clone()));
            }
        }
        Ok(Self(owned))
    }

    /// Every namespace, with its bridge.
    pub fn iter(&self) -> impl Iterator<Item = (&Namespace, &ParticipantId)> {
        self.0.iter().map(|(namespace, bridge)| (namespace, bridge))
    }

    /// Refuses an id that only a bridge may use, or that could be taken for such a one.
    pub fn check(&self, id: &ParticipantId) -> Result<(), Refusal> {
        match self.0.iter().find(|(namespace, _)| namespace.resembles(id)) {
            None => Ok(()),
            Some((namespace, bridge)) => {
                let message =
                    format!("the ids `{namespace}` belong to the bridge `{bridge}`: nobody else may be `{id}`");
                Err(Refusal::new(Code::Forbidden, message))
            }
        }
    }

    /// The first namespace that a bridge acts for without its having been declared for that bridge.
    pub fn undeclared<'a>(&self, bridge: &ParticipantId, acts_for: &'a [Namespace]) -> Option<&'a Namespace> {
        let is_declared =
            |claimed: &Namespace| self.0.iter().any(|(declared, owner)| owner == bridge && declared.covers(claimed));
        acts_for.iter().find(|claimed| !is_declared(claimed))
    }
}

/// What lets a participant act for others: the grant of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GhostGrant {
    /// The namespaces of its ghosts; never none.
    pub namespaces: Vec<Namespace>,
    /// How many ghosts it may have in all rooms of a gateway together; `None` leaves it to the gateway's limit, which holds in any case.
    pub max: Option<usize>,
    /// What its ghosts may be; never none. The first is what a ghost is that does not say.
    pub kinds: Vec<ParticipantKind>,
    /// Whether its ghosts may call others. Without it they may chat, answer, and ask the gateway what needs no more than that.
    pub calls: bool,
}

impl GhostGrant {
    /// A grant for namespaces: people who may chat, as many as the gateway allows.
    pub fn new(namespaces: Vec<Namespace>) -> Self {
        Self { namespaces, max: None, kinds: vec![ParticipantKind::Human], calls: false }
    }

    /// Whether an id is one that the bridge may speak for.
    pub fn contains(&self, id: &ParticipantId) -> bool {
        self.namespaces.iter().any(|namespace| namespace.contains(id))
    }

    /// What a ghost is: what it asks for where that is allowed, and the first of the kinds where it asks for nothing.
    pub fn kind_of(&self, asked: Option<ParticipantKind>) -> Option<ParticipantKind> {
        match asked {
            None => self.kinds.first().copied(),
            Some(kind) => self.kinds.contains(&kind).then_some(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(text: &str) -> Namespace {
        text.parse().expect("a namespace")
    }

    fn id(text: &str) -> ParticipantId {
        ParticipantId::new(text).expect("an id")
    }

    #[test]
    fn a_namespace_is_a_name_a_separator_and_a_star() {
        for text in ["matrix:*", "matrix:@*", "irc.libera-*", "xmpp|*", "a_*"] {
            assert_eq!(namespace(text).to_string(), text);
        }
        for (text, why) in [
            ("", InvalidNamespace::NoStar),
            ("matrix:", InvalidNamespace::NoStar),
            ("*", InvalidNamespace::NoSeparator),
            (":*", InvalidNamespace::NoSeparator),
            ("matrix*", InvalidNamespace::NoSeparator),
            ("ma*trix:*", InvalidNamespace::NoId),
            ("ma/trix:*", InvalidNamespace::NoId),
            (" matrix:*", InvalidNamespace::NoId),
            ("system:*", InvalidNamespace::Reserved),
            ("System:x:*", InvalidNamespace::Reserved),
        ] {
            assert_eq!(text.parse::<Namespace>(), Err(why), "{text}");
        }
        assert_eq!(format!("{}:*", "x".repeat(64)).parse::<Namespace>(), Err(InvalidNamespace::NoId));
    }

    #[test]
    fn a_namespace_is_one_bridges_and_nobody_elses() {
        let declared = vec![(namespace("matrix:*"), id("bridge:matrix")), (namespace("irc:*"), id("bridge:irc"))];
        let declared = Namespaces::new(declared).expect("they fit");
        let refused = declared.check(&id("matrix:ann")).expect_err("it is the bridge's");
        assert_eq!(
            refused.to_string(),
            "forbidden: the ids `matrix:*` belong to the bridge `bridge:matrix`: nobody else may be `matrix:ann`"
        );
        assert!(declared.check(&id("Matrix:ann")).is_err(), "it reads like one of the bridge's");
        assert!(declared.check(&id("matrix:")).is_err());
        for other in ["matrix", "matrixbot", "ann", "bridge:matrix", "matri"] {
            assert_eq!(declared.check(&id(other)), Ok(()), "{other}");
        }
        let undeclared = |bridge: &str, claims: &[&str]| {
            let claims: Vec<_> = claims.iter().map(|text| namespace(text)).collect();
            declared.undeclared(&id(bridge), &claims).map(ToString::to_string)
        };
        assert_eq!(undeclared("bridge:matrix", &["matrix:*"]), None);
        assert_eq!(undeclared("bridge:matrix", &["matrix:lab:*"]), None, "a part of it");
        assert_eq!(undeclared("bridge:irc", &["irc:*", "matrix:*"]).as_deref(), Some("matrix:*"));
        assert_eq!(undeclared("bridge:matrix", &["m:*"]).as_deref(), Some("m:*"));
        assert_eq!(undeclared("mallory", &["matrix:*"]).as_deref(), Some("matrix:*"));
        assert!(Namespaces::default().undeclared(&id("mallory"), &[namespace("matrix:*")]).is_some());
    }

    #[test]
    fn namespaces_have_no_id_in_common_and_no_bridge() {
        let both = |one: &str, other: &str| {
            Namespaces::new(vec![(namespace(one), id("bridge:a")), (namespace(other), id("bridge:b"))])
        };
        assert!(matches!(both("matrix:*", "matrix:lab:*"), Err(InvalidNamespace::Overlaps(..))));
        assert!(matches!(both("matrix:*", "Matrix:*"), Err(InvalidNamespace::Overlaps(..))));
        assert!(matches!(both("matrix:*", "bridge:*"), Err(InvalidNamespace::HasBridge(..))));
        assert!(both("matrix:*", "matrix-2:*").is_ok());
        let many = (0..=MAX_NAMESPACES).map(|at| (namespace(&format!("n{at}:*")), id("b"))).collect();
        assert_eq!(Namespaces::new(many), Err(InvalidNamespace::TooMany(MAX_NAMESPACES)));
    }

    #[test]
    fn a_ghost_is_what_its_bridge_may_make_of_it() {
        let grant = GhostGrant::new(vec![namespace("matrix:*")]);
        assert_eq!(grant.kind_of(None), Some(ParticipantKind::Human));
        assert_eq!(grant.kind_of(Some(ParticipantKind::Robot)), None);
        assert!(grant.contains(&id("matrix:ann")) && !grant.contains(&id("Matrix:ann")));
    }
}
