//! From what people call a server to a participant's id.

use std::collections::HashSet;

use salon_protocol::ParticipantId;

/// The longest id, in characters.
const MAX_LENGTH: usize = 128;

/// The ids that are taken. One value a topic.
#[derive(Debug, Clone, Default)]
pub struct TakenNames(HashSet<String>);

impl TakenNames {
    /// Marks an id as taken; false when it was already.
    pub fn take(&mut self, id: &ParticipantId) -> bool {
        self.0.insert(id.as_str().to_owned())
    }

    /// An id for a name: what would have to be escaped somewhere becomes `-`, and one that is taken gets a number. Whether it differs from the name
    /// is for the caller to print.
    pub fn id_for(&mut self, name: &str) -> ParticipantId {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._:~@-".contains(c);
        let mut base: String = name.chars().take(MAX_LENGTH).map(|c| if allowed(c) { c } else { '-' }).collect();
        if let Some(rest) = base.strip_prefix("system:") {
            base = format!("system-{rest}");
        }
        // Neither is an id; nor does anybody want to read them.
        if matches!(&*base, "" | "." | "..") {
            base = "guest".into();
        }
        let numbered = |number: usize| {
            if number == 1 {
                return base.clone();
            }
            let ending = format!("-{number}");
            let kept: String = base.chars().take(MAX_LENGTH - ending.len()).collect();
            kept + &ending
        };
        let id = (1..).map(numbered).find(|id| !self.0.contains(id)).expect("numbers do not run out");
        self.0.insert(id.clone());
        ParticipantId::new(id).expect("it has only characters that an id may have, and not too many")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gets_an_id_of_its_own() {
        let mut names = TakenNames::default();
        let taken = names.id_for("files");
        assert!(!names.take(&taken) && names.take(&ParticipantId::new("web").expect("an id")));
        let ids = ["files", "files", "my server/ö", "my-server--", "system:gateway", "", "web", "@scope/pkg"];
        let ids = ids.map(|name| names.id_for(name).to_string());
        assert_eq!(
            ids,
            ["files-2", "files-3", "my-server--", "my-server---2", "system-gateway", "guest", "web-2", "@scope-pkg"]
        );
        let long = "x".repeat(500);
        assert_eq!(names.id_for(&long).as_str().len(), 128);
        assert_eq!(names.id_for(&long).as_str()[125..], *"x-2");
    }
}
