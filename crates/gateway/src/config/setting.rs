//! What a declaration of a setting says, and the names and texts that follow from it.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use salon_control::Namespace;
use salon_log::Durability;
use salon_protocol::ParticipantId;

use super::Overrides;
use super::value::{
    Address, ClaimName, Count, Creation, Deadline, Depth, Durable, Format, HostName, IntegrityKey, InvalidValue,
    Issuer, KeysAt, LogFormat, NamespaceOwner, Origin, PublicUrl, Replicas, ResourceUrl, RetentionAge, RetentionCount,
    ShardCount, Size, Span, Store, StoreName, StoreUrl, ToolPattern, TopicCreation, Topics,
};
use crate::auth::Confirmation;
use crate::auth::jwks::JwksSource;

/// A setting: its three names, and its declaration in `settings.rs`.
#[derive(Debug)]
pub struct Setting {
    /// In the file, such as `limits.rate`.
    pub key: String,
    /// On the command line, such as `--limits-rate`.
    pub flag: String,
    /// In the environment, such as `SALON_LIMITS_RATE`.
    pub variable: String,
    /// Everything else.
    pub declaration: &'static Declaration,
}

/// What `settings.rs` says of a setting.
#[derive(Debug)]
pub struct Declaration {
    /// The section of the file; empty for a key outside of every section.
    pub section: &'static str,
    /// The key in its section.
    pub name: &'static str,
    /// The heading in the help; empty for the general options.
    pub heading: &'static str,
    /// Lines of Markdown: the help up to the first empty line, then what only the documentation says.
    pub docs: &'static [&'static str],
    /// The default as a person would write it, where there is one.
    pub default: Option<&'static str>,
    /// What to say of the default where there is none, or where it depends on the machine.
    pub shown_default: Option<&'static str>,
    /// A value for the example file, where there is no default.
    pub example: Option<&'static str>,
    /// What stands for the value in the help.
    pub placeholder: &'static str,
    /// How the value is given.
    pub form: SettingForm,
    /// Whether the value may hold a password, so that no error may repeat it.
    pub is_secret: bool,
    /// Refuses a text that is no value of this setting.
    pub check: fn(&str) -> Result<(), InvalidValue>,
}

/// How the value of a setting is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingForm {
    /// As one text.
    Single,
    /// As several: an array in the file, a repeated flag, a variable with commas.
    List,
    /// As `true` or `false`; a flag without a value is `true`.
    Switch,
}

/// Every setting that has a variable and a flag: all but those of single topics. In the order of their declarations.
pub static SETTINGS: LazyLock<Vec<Setting>> =
    LazyLock::new(|| Overrides::declarations().into_iter().map(Setting::new).collect());

impl Setting {
    fn new(declaration: &'static Declaration) -> Self {
        let key = match declaration.section {
            "" => declaration.name.to_owned(),
            section => format!("{section}.{}", declaration.name),
        };
        let flag = format!("--{}", key.replace(['.', '_'], "-"));
        let variable = format!("SALON_{}", key.replace('.', "_").to_uppercase());
        Self { key, flag, variable, declaration }
    }

    /// The setting of a key.
    pub fn of_key(key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }

    /// The help of the flag: one sentence without a period, and the default.
    pub fn help(&self) -> String {
        let mut help = self.declaration.paragraphs().next().unwrap_or_default();
        if self.declaration.form == SettingForm::List {
            help.push_str("; may be repeated");
        }
        if let Some(default) = self.declaration.shown_default.or(self.declaration.default) {
            let _ = write!(help, " [default: {default}]");
        }
        help
    }
}

impl Declaration {
    /// The documentation, by paragraphs.
    pub(super) fn paragraphs(&self) -> impl Iterator<Item = String> {
        self.docs.split(|line| line.trim().is_empty()).map(|lines| {
            let lines: Vec<_> = lines.iter().map(|line| line.trim()).collect();
            lines.join(" ")
        })
    }
}

/// A type of values that settings have.
pub trait SettingValue: Sized {
    /// What the gateway works with.
    type Native;
    /// What stands for a value in the help.
    const PLACEHOLDER: &'static str;
    /// How values are given.
    const FORM: SettingForm = SettingForm::Single;
    /// Whether a value may hold a password.
    const IS_SECRET: bool = false;

    /// Reads what variables and flags give: several texts for a list, else one.
    fn from_texts(texts: &[String]) -> Result<Self, InvalidValue>;

    /// The value without what only the file's format needs.
    fn into_native(self) -> Self::Native;

    /// The same with relative paths taken from a folder.
    #[must_use]
    fn relative_to(self, _folder: &Path) -> Self {
        self
    }

    /// Refuses a text that is no such value.
    fn check(text: &str) -> Result<(), InvalidValue> {
        Self::from_texts(&[text.to_owned()]).map(drop)
    }
}

/// The text of a setting that has one; the last counts.
fn single(texts: &[String]) -> &str {
    texts.last().map_or("", String::as_str)
}

macro_rules! setting_values {
    ($($name:ident($native:ty) $placeholder:literal $($secret:ident)?;)*) => {$(
        impl SettingValue for $name {
            type Native = $native;
            const PLACEHOLDER: &'static str = $placeholder;
            $(const IS_SECRET: bool = stringify!($secret).len() > 0;)?

            fn from_texts(texts: &[String]) -> Result<Self, InvalidValue> {
                single(texts).parse()
            }
            fn into_native(self) -> $native {
                self.0
            }
        }
    )*};
}

setting_values! {
    Address(SocketAddr) "ADDR";
    Size(usize) "SIZE";
    Span(Duration) "TIME";
    Deadline(Duration) "TIME";
    RetentionAge(Option<Duration>) "TIME";
    RetentionCount(Option<u64>) "COUNT";
    Count(usize) "COUNT";
    Depth(usize) "COUNT";
    Replicas(Option<usize>) "COUNT";
    Topics(u64) "COUNT";
    ShardCount(u16) "COUNT";
    Origin(String) "ORIGIN";
    HostName(String) "NAME";
    PublicUrl(String) "URL";
    Issuer(String) "URL";
    ResourceUrl(String) "URL";
    ClaimName(String) "CLAIM";
    IntegrityKey((String, Confirmation)) "ID=KEY";
    NamespaceOwner((Namespace, ParticipantId)) "NAMESPACE=BRIDGE";
    ToolPattern(String) "PATTERN";
    Creation(TopicCreation) "anyone|permitted|operator";
    StoreUrl(Store) "sqlite|URL" secret;
    StoreName(String) "NAME";
    Durable(Durability) "full|os";
    Format(LogFormat) "human|json";
}

impl SettingValue for KeysAt {
    type Native = JwksSource;
    const PLACEHOLDER: &'static str = "FILE|URL";

    fn from_texts(texts: &[String]) -> Result<Self, InvalidValue> {
        single(texts).parse()
    }
    fn into_native(self) -> JwksSource {
        self.0
    }
    fn relative_to(self, folder: &Path) -> Self {
        Self(self.0.relative_to(folder))
    }
}

impl SettingValue for PathBuf {
    type Native = Self;
    const PLACEHOLDER: &'static str = "FILE";

    fn from_texts(texts: &[String]) -> Result<Self, InvalidValue> {
        match single(texts) {
            "" => Err(InvalidValue::new("", "a path")),
            path => Ok(path.into()),
        }
    }
    fn into_native(self) -> Self {
        self
    }
    fn relative_to(self, folder: &Path) -> Self {
        folder.join(self)
    }
}

impl SettingValue for String {
    type Native = Self;
    const PLACEHOLDER: &'static str = "TEXT";

    fn from_texts(texts: &[String]) -> Result<Self, InvalidValue> {
        Ok(single(texts).to_owned())
    }
    fn into_native(self) -> Self {
        self
    }
}

impl SettingValue for bool {
    type Native = Self;
    const PLACEHOLDER: &'static str = "BOOL";
    const FORM: SettingForm = SettingForm::Switch;

    fn from_texts(texts: &[String]) -> Result<Self, InvalidValue> {
        // The words that variables of other programs have.
        let text = single(texts);
        match &*text.to_ascii_lowercase() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
            "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
            _ => Err(InvalidValue::new(text, "`true` or `false`")),
        }
    }
    fn into_native(self) -> Self {
        self
    }
}

impl<T: SettingValue> SettingValue for Vec<T> {
    type Native = Vec<T::Native>;
    const PLACEHOLDER: &'static str = T::PLACEHOLDER;
    const FORM: SettingForm = SettingForm::List;
    const IS_SECRET: bool = T::IS_SECRET;

    fn from_texts(texts: &[String]) -> Result<Self, InvalidValue> {
        texts.iter().map(|text| T::from_texts(std::slice::from_ref(text))).collect()
    }
    fn into_native(self) -> Self::Native {
        self.into_iter().map(T::into_native).collect()
    }
    fn relative_to(self, folder: &Path) -> Self {
        self.into_iter().map(|value| value.relative_to(folder)).collect()
    }
}
