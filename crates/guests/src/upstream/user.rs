//! The user that a guest's program runs as, where that is another than ours.
//!
//! Deliberately absent: directories of users other than the files of the system. What is not in `/etc/passwd` is named by its numbers.

use std::ffi::OsString;
use std::path::Path;

/// A user and a group of this system, by their numbers, and what programs expect to find in the environment of that user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestUser {
    pub(super) uid: u32,
    pub(super) gid: u32,
    env: Vec<(&'static str, OsString)>,
}

impl GuestUser {
    /// Reads `USER`, `USER:GROUP`, `UID` or `UID:GID`. Only root may start programs as somebody else, so anybody else is refused.
    pub fn lookup(text: &str) -> Result<Self, String> {
        let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
        let user = Self::resolve(text, &read("/etc/passwd"), &read("/etc/group"))?;
        match rustix::process::geteuid().is_root() {
            true => Ok(user),
            false => Err(format!("a program runs as `{text}` only if Salon itself runs as root")),
        }
    }

    /// The same by the text of the two files (`passwd(5)`, `group(5)`).
    fn resolve(text: &str, passwd: &str, groups: &str) -> Result<Self, String> {
        let (name, group) = text.split_once(':').map_or((text, None), |(name, group)| (name, Some(group)));
        if name.is_empty() || group.is_some_and(str::is_empty) {
            return Err(format!("`{text}` is not a user: write `USER`, `USER:GROUP`, or their numbers"));
        }
        let fields = |line: &'_ str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
        let is_it = |fields: &Vec<String>, name: &str| {
            // A name overrides a number, as for `chown`.
            fields.len() > 2 && (fields[0] == name || fields[2] == name)
        };
        let known = passwd.lines().map(fields).filter(|fields| is_it(fields, name));
        let known = known.min_by_key(|fields| fields[0] != name);
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number != u32::MAX);
        let uid = known.as_ref().and_then(|fields| number(&fields[2])).or_else(|| number(name));
        let uid = uid.ok_or_else(|| format!("there is no user `{name}` in /etc/passwd"))?;
        let gid = match group {
            Some(group) => {
                let found = groups.lines().map(fields).filter(|fields| is_it(fields, group));
                let found = found.min_by_key(|fields| fields[0] != group);
                let gid = found.and_then(|fields| number(&fields[2])).or_else(|| number(group));
                gid.ok_or_else(|| format!("there is no group `{group}` in /etc/group"))?
            }
            None => {
                let gid = known.as_ref().and_then(|fields| number(fields.get(3)?));
                gid.ok_or_else(|| format!("`{name}` is not in /etc/passwd: name its group too, as `{name}:GROUP`"))?
            }
        };
        let field = |at: usize| known.as_ref().and_then(|fields| fields.get(at)).filter(|text| !text.is_empty());
        let mut env = vec![("HOME", field(5).map_or("/", String::as_str).into())];
        env.extend(field(0).into_iter().flat_map(|name| [("USER", name.into()), ("LOGNAME", name.into())]));
        env.extend(field(6).map(|shell| ("SHELL", shell.into())));
        Ok(Self { uid, gid, env })
    }

    /// Whether a variable of ours is about our user, and not for this one.
    pub(super) fn replaces(name: &str) -> bool {
        matches!(name, "HOME" | "USER" | "LOGNAME" | "SHELL" | "TMPDIR") || name.starts_with("XDG_")
    }

    /// What stands in the environment instead.
    pub(super) fn env(&self) -> impl Iterator<Item = (&'static str, &OsString)> {
        self.env.iter().map(|(name, value)| (*name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\nmcp:x:1001:1002:MCP servers:/srv/mcp:/bin/sh\n7:x:900:900::/seven:\n";
    const GROUP: &str = "root:x:0:\ntools:x:2000:mcp\n";

    fn told(text: &str) -> String {
        match GuestUser::resolve(text, PASSWD, GROUP) {
            Ok(user) => {
                let env: Vec<_> = user.env().map(|(name, value)| format!("{name}={}", value.display())).collect();
                format!("{}:{} {}", user.uid, user.gid, env.join(" "))
            }
            Err(why) => why,
        }
    }

    #[test]
    fn a_user_is_named_or_numbered() {
        assert_eq!(told("mcp"), "1001:1002 HOME=/srv/mcp USER=mcp LOGNAME=mcp SHELL=/bin/sh");
        assert_eq!(told("1001"), told("mcp"));
        assert_eq!(told("mcp:tools"), "1001:2000 HOME=/srv/mcp USER=mcp LOGNAME=mcp SHELL=/bin/sh");
        assert_eq!(told("mcp:3000"), "1001:3000 HOME=/srv/mcp USER=mcp LOGNAME=mcp SHELL=/bin/sh");
        assert_eq!(told("5000:5000"), "5000:5000 HOME=/");
        assert_eq!(told("7"), "900:900 HOME=/seven USER=7 LOGNAME=7", "a name overrides a number");
    }

    #[test]
    fn who_is_not_there_is_refused() {
        assert_eq!(told("nobody-here"), "there is no user `nobody-here` in /etc/passwd");
        assert_eq!(told("5000"), "`5000` is not in /etc/passwd: name its group too, as `5000:GROUP`");
        assert_eq!(told("mcp:none"), "there is no group `none` in /etc/group");
        // The largest number means "leave it as it is" to the system.
        assert_eq!(told("4294967295:0"), "there is no user `4294967295` in /etc/passwd");
        for text in ["", ":", "mcp:", ":tools"] {
            assert_eq!(told(text), format!("`{text}` is not a user: write `USER`, `USER:GROUP`, or their numbers"));
        }
    }
}
