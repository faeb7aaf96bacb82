//! The documentation as a site: `cargo xtask site` stages the pages, lets mdBook make HTML of them, and follows every link of the result.
//!
//! The pages are written to be read in the repository, where they link to source files. The staged copies have the repository's layout, so that
//! links between pages stay as they are. A link to something that is no page of the site becomes its text.

mod html;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::metadata::{Metadata, output};
use crate::tidy::SourceTree;

/// What `cargo xtask site` is told.
pub(crate) struct SiteBuild {
    mdbook: PathBuf,
}

impl SiteBuild {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, String> {
        match arguments {
            [] => Ok(Self { mdbook: "mdbook".into() }),
            ["--mdbook", program] => Ok(Self { mdbook: program.into() }),
            _ => Err("usage: cargo xtask site [--mdbook PROGRAM]".into()),
        }
    }

    pub(crate) fn build(&self) -> Result<(), String> {
        let metadata = Metadata::here()?;
        let tree = SourceTree::read(&metadata.workspace_root)?;
        let book = metadata.target_directory.join("site");
        let made = book.join("html");
        if book.exists() {
            fs::remove_dir_all(&book).map_err(|error| format!("{}: {error}", book.display()))?;
        }
        let staged = stage::pages(&tree)?;
        for (path, content) in &staged {
            write(&book.join("src").join(path), content.as_bytes())?;
        }
        for picture in tree.paths.iter().filter(|path| path.ends_with(".png") && path.starts_with("docs/")) {
            let bytes =
                fs::read(metadata.workspace_root.join(picture)).map_err(|error| format!("{picture}: {error}"))?;
            write(&book.join("src").join(picture), &bytes)?;
        }
        let settings = fs::read(metadata.workspace_root.join("docs/book.toml"))
            .map_err(|error| format!("docs/book.toml: {error}"))?;
        write(&book.join("book.toml"), &settings)?;
        let program = if self.mdbook.components().count() > 1 {
            metadata.workspace_root.join(&self.mdbook)
        } else {
            self.mdbook.clone()
        };
        output(Command::new(program).arg("build").arg("--dest-dir").arg(&made).arg(&book))?;
        let broken = html::broken_links(&made)?;
        if !broken.is_empty() {
            return Err(format!("{}\nsite: {} links to fix", broken.join("\n"), broken.len()));
        }
        println!("site: {} pages in {}", staged.len() - 1, made.display());
        Ok(())
    }
}

fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, content));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
