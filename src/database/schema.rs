//! The schema of an installation, and the one place where SQL text is put together.

use sqlx::AssertSqlSafe;

use super::identifier::{Identifier, IdentifierError};
use super::ids::StreamId;

/// The schema that holds one sqlstreams installation, `sqlstreams` by default.
///
/// Statements name it explicitly instead of relying on `search_path`, which a pooler in
/// transaction mode does not keep from one transaction to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schema(Identifier);

impl Schema {
    /// The schema with this name.
    ///
    /// # Errors
    /// When the name is no possible [`Identifier`].
    pub fn new(name: impl Into<String>) -> Result<Self, IdentifierError> {
        Identifier::new(name).map(Self)
    }

    /// Its bare name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// `template` with every `{schema}` replaced by the quoted name.
    ///
    /// Safe: the template is part of the program and an [`Identifier`] is always quoted.
    pub(crate) fn sql(&self, template: &'static str) -> AssertSqlSafe<String> {
        self.fill(template)
    }

    /// As [`Schema::sql`], with every `{stream}` replaced by the number that the tables of the
    /// stream carry in their names.
    pub(crate) fn stream_sql(&self, stream: StreamId, template: &'static str) -> AssertSqlSafe<String> {
        self.fill(&template.replace("{stream}", &stream.0.to_string()))
    }

    /// The name goes in last: nothing is replaced in it.
    fn fill(&self, template: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(template.replace("{schema}", &self.0.to_string()))
    }
}

impl Default for Schema {
    fn default() -> Self {
        Self(Identifier::default_schema())
    }
}

impl std::str::FromStr for Schema {
    type Err = IdentifierError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

impl std::fmt::Display for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
