//! `sqlstreams metric`

use clap::{Args, Subcommand, ValueEnum};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::database_arguments::DatabaseArguments;
use super::output::print;
use super::{Failure, block_on};
use crate::database::{Database, GroupId, statistics};
use crate::statistics::catalog;
use crate::statistics::model::Model;

/// The metrics, and their values
#[derive(Debug, Args)]
pub(super) struct Metric {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
}

/// List the metrics: their values where a database is named, else what they mean
#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    database: DatabaseArguments,

    /// Only groups of this stream
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,

    /// Only groups of this name
    #[arg(long, value_name = "NAME")]
    group: Option<String>,

    /// Form of the list
    #[arg(long, value_name = "FORM", default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
    Yaml,
}

/// What a metric means.
#[derive(Debug, Serialize)]
struct Meaning {
    name: &'static str,
    prometheus: String,
    unit: &'static str,
    description: &'static str,
}

/// The value of a metric for a group.
#[derive(Debug, Serialize)]
struct Value {
    name: &'static str,
    stream: String,
    group: String,
    value: serde_json::Number,
    unit: &'static str,
}

impl Metric {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let Command::List(list) = &self.command;
        if list.database.given() {
            block_on(list.values())
        } else if list.stream.is_some() || list.group.is_some() {
            Err("values are in a database; give --database-url or --database-folder".into())
        } else {
            list.meanings()
        }
    }
}

impl List {
    fn meanings(&self) -> Result<(), Failure> {
        let meanings: Vec<Meaning> = catalog::ALL
            .into_iter()
            .map(|metric| Meaning {
                name: metric.name(),
                prometheus: metric.prometheus_name(),
                unit: metric.unit().name(),
                description: metric.description(),
            })
            .collect();
        self.print(&meanings, ["NAME", "UNIT", "DESCRIPTION"], |meaning| {
            [meaning.name.into(), meaning.unit.into(), meaning.description.into()]
        })
    }

    async fn values(&self) -> Result<(), Failure> {
        let model = self.look(&self.database.open("sqlstreams-metric", 1)?).await?;
        let mut values = Vec::new();
        for (stream, group) in self.chosen(&model) {
            for metric in catalog::ALL {
                if let Some(value) = metric.value(group, model.at()) {
                    values.push(Value {
                        name: metric.name(),
                        stream: stream.to_owned(),
                        group: group.counters.name.clone(),
                        value: number(value),
                        unit: metric.unit().name(),
                    });
                }
            }
        }
        self.print(&values, ["NAME", "STREAM", "GROUP", "VALUE", "UNIT"], |value| {
            [
                value.name.into(),
                value.stream.clone(),
                value.group.clone(),
                value.value.to_string(),
                value.unit.into(),
            ]
        })
    }

    async fn look(&self, database: &Database) -> Result<Model, Failure> {
        let mut model = Model::default();
        model.counted(statistics::counters(database).await?);
        let groups: Vec<GroupId> = self.chosen(&model).map(|(_, group)| group.counters.id).collect();
        model.progressed(statistics::progress(database, &groups).await?);
        Ok(model)
    }

    fn chosen<'a>(
        &'a self,
        model: &'a Model,
    ) -> impl Iterator<Item = (&'a str, &'a crate::statistics::model::GroupNumbers)> {
        model
            .groups()
            .filter_map(|group| {
                let stream = model.stream(group.counters.stream)?;
                Some((stream.identity.name.as_str(), group))
            })
            .filter(|(stream, group)| {
                self.stream.as_ref().is_none_or(|wanted| wanted == stream)
                    && self.group.as_ref().is_none_or(|wanted| *wanted == group.counters.name)
            })
    }

    fn print<T: Serialize, const N: usize>(
        &self,
        all: &[T],
        header: [&str; N],
        cells: impl Fn(&T) -> [String; N],
    ) -> Result<(), Failure> {
        match self.output {
            Output::Json => print(&format!("{}\n", serde_json::to_string_pretty(all)?))?,
            Output::Yaml => print(&serde_yaml::to_string(all)?)?,
            Output::Table => {
                let mut table = Table::new();
                table.load_style(NOTHING).set_header(header);
                for one in all {
                    table.add_row(cells(one));
                }
                for (place, name) in header.iter().enumerate() {
                    if *name == "VALUE"
                        && let Some(column) = table.column_mut(place)
                    {
                        column.set_cell_alignment(CellAlignment::Right);
                    }
                }
                print(&format!("{}\n", table.trim_fmt()))?;
            }
        }
        Ok(())
    }
}

/// Whole numbers without a point; ages to the millisecond.
#[allow(clippy::cast_possible_truncation)]
fn number(value: f64) -> serde_json::Number {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        (value as i64).into()
    } else {
        serde_json::Number::from_f64((value * 1000.0).round() / 1000.0).unwrap_or_else(|| 0.into())
    }
}
