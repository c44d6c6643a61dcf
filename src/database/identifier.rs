//! Names that may stand in SQL text.

use std::fmt;

use thiserror::Error;

/// The most bytes that Postgres keeps of a name; a longer one would be cut without a word.
pub const MAX_IDENTIFIER_BYTES: usize = 63;

/// A Postgres identifier. The only way to write it out is quoted, so whatever it holds stays a name.
///
/// Compared and stored as given: no folding to lower case, since it is always quoted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identifier(String);

/// Why a text can be no [`Identifier`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum IdentifierError {
    /// Postgres knows no empty names.
    #[error("a name must not be empty")]
    Empty,
    /// Postgres would cut it and could then take one name for another.
    #[error("a name may have at most {MAX_IDENTIFIER_BYTES} bytes, this one has {0}")]
    TooLong(usize),
    /// No text in Postgres can hold it.
    #[error("a name must not contain a NUL character")]
    Nul,
}

impl Identifier {
    /// Takes the name as it is.
    ///
    /// # Errors
    /// When it is empty, longer than [`MAX_IDENTIFIER_BYTES`] or holds a NUL.
    pub fn new(name: impl Into<String>) -> Result<Self, IdentifierError> {
        let name = name.into();
        if name.is_empty() {
            Err(IdentifierError::Empty)
        } else if name.len() > MAX_IDENTIFIER_BYTES {
            Err(IdentifierError::TooLong(name.len()))
        } else if name.contains('\0') {
            Err(IdentifierError::Nul)
        } else {
            Ok(Self(name))
        }
    }

    /// The bare name, for a bind parameter or a message; never for SQL text.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// Writes the name as SQL wants it: in double quotes, with those inside doubled
/// ([lexical structure](https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-IDENTIFIERS)).
impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.replace('"', "\"\""))
    }
}

impl std::str::FromStr for Identifier {
    type Err = IdentifierError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

impl Identifier {
    pub(super) fn default_schema() -> Self {
        Self("sqlstreams".into())
    }
}
