//! What `salon bridge init PLATFORM` writes and says.

/// What it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitOptions {
    /// NAME of `[bridges.NAME]`.
    pub name: String,
    /// The server of the platform, where one was named.
    pub server: Option<String>,
    /// The channel and the topic to begin with.
    pub channel: Option<String>,
    pub topic: String,
    /// Random texts for secrets that the platform and the bridge share: 64 hexadecimal digits each.
    pub secrets: [String; 2],
}

/// Files to write and steps to take.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InitPlan {
    /// The section `[bridges.NAME]` for `salon.toml`.
    pub section: String,
    pub files: Vec<InitFile>,
    /// What a person has to do, in order. Sentences.
    pub steps: Vec<String>,
}

/// A file to write. One that exists is never replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitFile {
    /// Relative to the folder of `salon.toml`.
    pub path: String,
    pub text: String,
    /// Whether only its owner may read it.
    pub is_secret: bool,
}
