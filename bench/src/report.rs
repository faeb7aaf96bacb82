//! Records of single runs, and the tables made from them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Deserializer, Serialize};

use crate::contender::{Contender, output};
use crate::procfs;
use crate::scenario::{BenchPlan, Figure, Figures, Regime, Scenario};
use crate::stats::Spread;

/// Where and from what a run was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunSetting {
    pub(crate) date: String,
    pub(crate) machine: String,
    pub(crate) commit: String,
    /// What holds the data directories of measured servers.
    pub(crate) file_system: String,
    pub(crate) seconds: f64,
    pub(crate) rounds: u32,
    /// The windows of saturated fan-outs. Runs before there were several have one, as a number.
    #[serde(alias = "window", deserialize_with = "one_or_more")]
    pub(crate) windows: Vec<u32>,
    pub(crate) contenders: Vec<String>,
    pub(crate) skipped: Vec<String>,
}

impl RunSetting {
    pub(crate) fn new(seconds: f64, rounds: u32, windows: &[u32]) -> Result<Self> {
        let git = |arguments: &[&str]| output(Command::new("git").args(arguments));
        let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|_| "unknown".to_owned());
        let changed = git(&["status", "--porcelain"]).is_ok_and(|changes| !changes.is_empty());
        Ok(Self {
            date: output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?,
            machine: procfs::machine()?,
            commit: if changed { format!("{commit} with uncommitted changes") } else { commit },
            file_system: procfs::file_system(&std::env::temp_dir())?,
            seconds,
            rounds,
            windows: windows.to_vec(),
            contenders: Vec::new(),
            skipped: Vec::new(),
        })
    }

    /// The windows as a summary has them.
    pub(crate) fn window_list(&self) -> String {
        self.windows.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    }

    /// A short name of the machine, fit for a file name.
    pub(crate) fn slug(&self) -> String {
        let known = self.machine.split(", Linux").next().unwrap_or_default().to_lowercase();
        let words: Vec<&str> =
            known.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        words.join("-")
    }
}

fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Windows {
        One(u32),
        More(Vec<u32>),
    }
    Ok(match Windows::deserialize(from)? {
        Windows::One(window) => vec![window],
        Windows::More(windows) => windows,
    })
}

/// One run of one plan against one contender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) scenario: Scenario,
    pub(crate) case: String,
    pub(crate) regime: Regime,
    /// Messages in flight in each room of a saturated run. Records of older runs have none: theirs is that of the setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<u32>,
    pub(crate) contender: Contender,
    pub(crate) round: u32,
    #[serde(default, skip_serializing_if = "Figures::is_empty")]
    pub(crate) figures: Figures,
    /// Why the run counts for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) void: Option<String>,
}

impl RunRecord {
    /// What one run gave.
    pub(crate) fn new(
        scenario: Scenario,
        case: &str,
        (regime, window): (Regime, Option<u32>),
        contender: Contender,
        round: u32,
        outcome: Result<Figures>,
    ) -> Self {
        let (figures, void) = match outcome {
            Ok(figures) => (figures, None),
            Err(error) => (Figures::default(), Some(format!("{error:#}"))),
        };
        Self { scenario, case: case.to_owned(), regime, window, contender, round, figures, void }
    }
}

/// All runs of a directory.
pub(crate) struct BenchReport {
    pub(crate) setting: RunSetting,
    pub(crate) records: Vec<RunRecord>,
}

impl BenchReport {
    pub(crate) fn load(directory: &Path) -> Result<Self> {
        let path = directory.join("raw.jsonl");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let mut lines = text.lines();
        let setting = serde_json::from_str(lines.next().context("the file is empty")?)?;
        let records = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
        Ok(Self { setting, records })
    }

    /// Whether a run counts for nothing.
    pub(crate) fn has_void(&self) -> bool {
        self.records.iter().any(|record| record.void.is_some())
    }

    /// Writes `raw.jsonl` (the setting, then a line for each run) and `summary.md`.
    pub(crate) fn save(&self, directory: &Path) -> Result<()> {
        save_run(directory, &self.setting, &json_lines(&self.records)?, &self.summary()?)
    }

    fn summary(&self) -> Result<String> {
        let setting = &self.setting;
        let mut out = String::new();
        writeln!(out, "# Benchmark of {}\n", setting.date)?;
        writeln!(out, "- machine: {}", setting.machine)?;
        writeln!(out, "- commit: {}", setting.commit)?;
        writeln!(out, "- data on: {}", setting.file_system)?;
        let RunSetting { seconds, rounds, windows, .. } = setting;
        let windows = if windows.is_empty() { String::new() } else { format!(", window {}", setting.window_list()) };
        writeln!(out, "- runs: {rounds} rounds of {seconds} s{windows}; median (lowest–highest)")?;
        for contender in &setting.contenders {
            writeln!(out, "- contender: {contender}")?;
        }
        for skipped in &setting.skipped {
            writeln!(out, "- skipped: {skipped}")?;
        }
        let scenarios: BTreeSet<Scenario> = self.records.iter().map(|record| record.scenario).collect();
        for scenario in scenarios {
            writeln!(out, "\n## {}\n\n{}", scenario.name(), self.table(|record| record.scenario == scenario)?)?;
        }
        for record in &self.records {
            if let Some(reason) = &record.void {
                let (scenario, contender) = (record.scenario.name(), record.contender.name());
                writeln!(out, "\nVoid: {scenario} {}, {contender}, round {}: {reason}", record.case, record.round)?;
            }
        }
        Ok(out)
    }

    /// The runs of one plan as a table.
    pub(crate) fn table_of(&self, plan: &BenchPlan) -> Result<String> {
        let wanted = (plan.scenario, plan.case.as_str(), plan.regime, plan.window());
        self.table(|r| (r.scenario, r.case.as_str(), r.regime, r.window) == wanted)
    }

    pub(crate) fn table(&self, wanted: impl Fn(&RunRecord) -> bool) -> Result<String> {
        let records: Vec<&RunRecord> = self.records.iter().filter(|record| wanted(record)).collect();
        let shown: BTreeSet<Figure> = records.iter().flat_map(|record| record.figures.keys().copied()).collect();
        let columns: Vec<(Figure, &str, usize)> = shown
            .into_iter()
            .filter_map(|figure| figure.column().map(|(heading, decimals)| (figure, heading, decimals)))
            .collect();
        let mut rows = vec![["case", "regime", "contender"].map(str::to_owned).to_vec()];
        rows[0].extend(columns.iter().map(|(_, heading, _)| (*heading).to_owned()));
        let mut seen: Vec<(&str, Regime, Option<u32>, Contender)> = Vec::new();
        for record in &records {
            let key = (record.case.as_str(), record.regime, record.window, record.contender);
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let regime = key.2.map(|window| format!("{}, window {window}", key.1.name()));
            let regime = regime.unwrap_or_else(|| key.1.name().to_owned());
            let mut row = vec![key.0.to_owned(), regime, key.3.name().to_owned()];
            let same = || records.iter().filter(move |r| (r.case.as_str(), r.regime, r.window, r.contender) == key);
            let voids = same().filter(|record| record.void.is_some()).count();
            if voids > 0 {
                row[2] = format!("{} ({voids} void)", row[2]);
            }
            row.extend(columns.iter().map(|&(figure, _, decimals)| {
                let values = same().filter_map(|record| record.figures.get(&figure).copied()).collect();
                Spread::of(values).map_or_else(|| "–".to_owned(), |spread| cell(spread, decimals))
            }));
            rows.push(row);
        }
        lay_out(&rows)
    }

    /// The smallest window that a case was measured with, by any contender.
    pub(crate) fn smallest_window(&self, scenario: Scenario, case: &str, regime: Regime) -> Option<u32> {
        let same = |r: &&RunRecord| (r.scenario, r.case.as_str(), r.regime) == (scenario, case, regime);
        self.records.iter().filter(same).filter_map(|record| record.window).min()
    }

    /// A case as targets name it, with the window that is judged.
    pub(crate) fn name_of(&self, scenario: Scenario, case: &str, regime: Regime) -> String {
        let (name, how) = (scenario.name(), regime.name());
        // Some cases name their scenario.
        let what = if case.contains(name) { case.to_owned() } else { format!("{name} {case}") };
        let is_of_windows = scenario == Scenario::Fanout && regime == Regime::Saturated;
        let setting = self.setting.windows.iter().min().copied().filter(|_| is_of_windows);
        match self.smallest_window(scenario, case, regime).or(setting) {
            Some(window) => format!("{what}, {how}, window {window}"),
            None => format!("{what}, {how}"),
        }
    }

    /// The median of a figure over the rounds, with the smallest window where there are several.
    pub(crate) fn median(
        &self,
        scenario: Scenario,
        case: &str,
        regime: Regime,
        of: Contender,
        figure: Figure,
    ) -> Option<f64> {
        let wanted = (scenario, case, regime, self.smallest_window(scenario, case, regime), of);
        let same = |r: &&RunRecord| (r.scenario, r.case.as_str(), r.regime, r.window, r.contender) == wanted;
        let values =
            self.records.iter().filter(same).filter_map(|record| record.figures.get(&figure).copied()).collect();
        Spread::of(values).map(|spread| spread.median)
    }
}

/// Each record as a line of JSON.
pub(crate) fn json_lines(records: &[impl Serialize]) -> Result<Vec<String>> {
    Ok(records.iter().map(serde_json::to_string).collect::<Result<_, _>>()?)
}

/// Writes `raw.jsonl` (the setting, then these lines) and `summary.md`.
pub(crate) fn save_run(directory: &Path, setting: &RunSetting, lines: &[String], summary: &str) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create `{}`", directory.display()))?;
    let mut raw = serde_json::to_string(setting)?;
    for line in lines {
        write!(raw, "\n{line}")?;
    }
    raw.push('\n');
    fs::write(directory.join("raw.jsonl"), raw)?;
    Ok(fs::write(directory.join("summary.md"), summary)?)
}

pub(crate) fn cell(spread: Spread, decimals: usize) -> String {
    let Spread { median, low, high } = spread;
    if low == high {
        format!("{median:.decimals$}")
    } else {
        format!("{median:.decimals$} ({low:.decimals$}–{high:.decimals$})")
    }
}

/// A Markdown table that is also readable as it stands.
pub(crate) fn lay_out(rows: &[Vec<String>]) -> Result<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for (number, row) in rows.iter().enumerate() {
        for (text, width) in row.iter().zip(&widths) {
            write!(out, "| {text:width$} ")?;
        }
        writeln!(out, "|")?;
        if number == 0 {
            for width in &widths {
                write!(out, "|{:-<1$}", "", width + 2)?;
            }
            writeln!(out, "|")?;
        }
    }
    Ok(out)
}
