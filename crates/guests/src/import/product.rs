//! Whose file it is, as far as that changes what is written in it.

use std::path::Path;
use std::time::Duration;

/// A program that keeps MCP servers in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// `claude_desktop_config.json`.
    ClaudeDesktop,
    /// `~/.claude.json` and `.mcp.json`.
    ClaudeCode,
    /// `.cursor/mcp.json`.
    Cursor,
    /// `mcp_config.json`.
    Windsurf,
    /// `.gemini/settings.json`.
    Gemini,
    /// `cline_mcp_settings.json`.
    Cline,
    /// `.vscode/mcp.json`, and `mcp.json` among a user's settings.
    VsCode,
    /// `zed/settings.json`, and `.zed/settings.json` of a project.
    Zed,
    /// `.codex/config.toml`.
    Codex,
    /// Any other file.
    Unknown,
}

impl Product {
    /// The product whose files are called so.
    pub fn of(path: &Path) -> Self {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        match (folder, name) {
            (_, "claude_desktop_config.json") => Self::ClaudeDesktop,
            (_, ".claude.json" | ".mcp.json") => Self::ClaudeCode,
            (".cursor", "mcp.json") => Self::Cursor,
            ("windsurf", "mcp_config.json") => Self::Windsurf,
            (".gemini", "settings.json") => Self::Gemini,
            (_, "cline_mcp_settings.json") => Self::Cline,
            (".vscode" | "User", "mcp.json" | "settings.json") => Self::VsCode,
            ("zed" | ".zed", "settings.json") => Self::Zed,
            (".codex", "config.toml") => Self::Codex,
            _ => Self::Unknown,
        }
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::Windsurf => "Windsurf",
            Self::Gemini => "Gemini CLI",
            Self::Cline => "Cline",
            Self::VsCode => "VS Code",
            Self::Zed => "Zed",
            Self::Codex => "Codex",
            Self::Unknown => "a file",
        }
    }

    /// The folder whose servers a file names, where it is that of a project.
    pub fn workspace(path: &Path) -> Option<&Path> {
        let folder = path.parent()?;
        let is_settings = |name: &str| folder.file_name().is_some_and(|folder| folder == name);
        if path.file_name()? == ".mcp.json" {
            return Some(folder);
        }
        if [".vscode", ".cursor", ".gemini", ".zed"].into_iter().any(is_settings) { folder.parent() } else { None }
    }

    /// A number under `timeout`. Cline and Codex count seconds; Gemini and Claude Code milliseconds. Of any other file it is not known: below
    /// 1000 it is taken for seconds, because nobody gives a server less than one.
    pub(super) fn timeout(self, number: f64) -> Option<Duration> {
        let seconds = match self {
            Self::Cline | Self::Codex => number,
            Self::Gemini | Self::ClaudeCode => number / 1000.0,
            _ if number < 1000.0 => number,
            _ => number / 1000.0,
        };
        Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero())
    }
}
