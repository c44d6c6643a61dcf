//! Names in SQL text stay names, whatever they hold.

use proptest::prelude::*;
use sqlstreams::database::Schema;
use sqlstreams::database::identifier::{Identifier, IdentifierError, MAX_IDENTIFIER_BYTES};

/// What Postgres reads between double quotes.
fn unquoted(sql: &str) -> Option<String> {
    let inner = sql.strip_prefix('"')?.strip_suffix('"')?;
    let mut name = String::new();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        if character == '"' && characters.next() != Some('"') {
            return None;
        }
        name.push(character);
    }
    Some(name)
}

proptest! {
    #[test]
    fn what_is_written_is_one_quoted_name_and_reads_back_as_given(name in "[^\0]{1,20}") {
        prop_assume!(name.len() <= MAX_IDENTIFIER_BYTES);
        let identifier = Identifier::new(name.clone()).expect("possible");
        prop_assert_eq!(unquoted(&identifier.to_string()), Some(name.clone()));
        prop_assert_eq!(identifier.name(), name);
    }

    #[test]
    fn quotes_cannot_close_the_name(quotes in "[\"';\\\\-]{1,63}") {
        let identifier = Identifier::new(quotes.clone()).expect("possible");
        prop_assert_eq!(unquoted(&identifier.to_string()), Some(quotes));
    }

    #[test]
    fn a_name_that_postgres_would_cut_is_refused(name in "[a-zé漢]{64,100}") {
        prop_assert_eq!(Identifier::new(name.clone()), Err(IdentifierError::TooLong(name.len())));
    }
}

#[test]
fn the_limit_counts_bytes() {
    assert!(Identifier::new("x".repeat(63)).is_ok());
    assert_eq!(Identifier::new("x".repeat(64)), Err(IdentifierError::TooLong(64)));
    assert!(Identifier::new("é".repeat(31)).is_ok());
    assert_eq!(Identifier::new("é".repeat(32)), Err(IdentifierError::TooLong(64)));
}

#[test]
fn no_name_is_empty_or_holds_a_nul() {
    assert_eq!(Identifier::new(""), Err(IdentifierError::Empty));
    assert_eq!(Identifier::new("a\0b"), Err(IdentifierError::Nul));
    assert!(Schema::new("").is_err());
}

#[test]
fn reserved_words_are_names_like_others() {
    for word in ["select", "table", "user", "order", "SELECT"] {
        assert_eq!(
            Identifier::new(word).expect("possible").to_string(),
            format!("\"{word}\"")
        );
    }
}
