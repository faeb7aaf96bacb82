//! Where other programs keep their MCP servers.

use std::io;
use std::path::{Path, PathBuf};

/// The files that may be there: those of this user, then those of the folder we are in.
pub(super) fn usual() -> io::Result<Vec<PathBuf>> {
    let absolute = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let here = std::env::current_dir()?;
    Ok(of(absolute("HOME").as_deref(), absolute("XDG_CONFIG_HOME").as_deref(), &here, cfg!(target_os = "macos")))
}

fn of(home: Option<&Path>, config: Option<&Path>, here: &Path, is_mac: bool) -> Vec<PathBuf> {
    let mut files = Vec::new();
    if let Some(home) = home {
        let settings = match config {
            _ if is_mac => home.join("Library/Application Support"),
            Some(config) => config.to_owned(),
            None => home.join(".config"),
        };
        files.extend([
            settings.join("Claude/claude_desktop_config.json"),
            home.join(".claude.json"),
            home.join(".cursor/mcp.json"),
            home.join(".codeium/windsurf/mcp_config.json"),
            home.join(".gemini/settings.json"),
            settings.join("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
            settings.join("Code/User/mcp.json"),
            // Zed has its settings here on a Mac, too.
            config.map_or_else(|| home.join(".config"), Path::to_owned).join("zed/settings.json"),
            home.join(".codex/config.toml"),
        ]);
    }
    let project = [".mcp.json", ".cursor/mcp.json", ".gemini/settings.json", ".vscode/mcp.json", ".zed/settings.json"];
    let of_project = project.iter().map(|name| here.join(name));
    // In the home directory some of them are the same.
    for file in of_project {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use salon_guests::import::Product;

    use super::*;

    #[test]
    fn every_place_is_known_to_be_its_products() {
        for is_mac in [false, true] {
            let files = of(Some(Path::new("/somewhere")), None, Path::new("/srv/lab"), is_mac);
            assert_eq!(files.len(), 14);
            for file in files {
                assert_ne!(Product::of(&file), Product::Unknown, "{}", file.display());
            }
        }
    }

    #[test]
    fn no_file_is_looked_at_twice() {
        let home = Path::new("/somewhere");
        let files = of(Some(home), Some(Path::new("/cfg")), home, false);
        assert_eq!(files.iter().filter(|file| file.ends_with(".cursor/mcp.json")).count(), 1);
        assert!(files.contains(&PathBuf::from("/cfg/Code/User/mcp.json")));
        assert_eq!(of(None, None, home, false).len(), 5);
    }
}
