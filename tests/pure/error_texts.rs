//! What is kept of a handler's error.

use proptest::prelude::*;
use sqlstreams::delivery::outcome::{CUT_MARK, ErrorText, MAX_ERROR_BYTES};

#[test]
fn an_error_is_kept_verbatim() {
    let text = "card declined: \"do not honour\"\n\tat charge (cards.rs:42) ✓";
    assert_eq!(ErrorText::new(text).as_str(), text);
}

#[test]
fn what_postgres_cannot_store_is_replaced() {
    assert_eq!(ErrorText::new(b"a\0b\xffc").as_str(), "a\u{fffd}b\u{fffd}c");
}

#[test]
fn a_long_error_is_cut_between_characters_and_says_so() {
    let text = "é".repeat(MAX_ERROR_BYTES);
    let kept = ErrorText::new(&text);
    assert!(kept.as_str().ends_with(CUT_MARK));
    assert!(!kept.as_str().contains('\u{fffd}'), "no character is cut in two");
    assert!(kept.as_str().len() <= MAX_ERROR_BYTES);
    assert!(kept.as_str().len() > MAX_ERROR_BYTES - 16);
}

#[test]
fn an_error_of_exactly_the_bound_is_whole() {
    let text = "x".repeat(MAX_ERROR_BYTES);
    assert_eq!(ErrorText::new(&text).as_str(), text);
}

proptest! {
    #[test]
    fn every_text_can_be_stored(bytes in proptest::collection::vec(any::<u8>(), 0..20_000), more in any::<bool>()) {
        let kept = ErrorText::cut(&bytes, more);
        prop_assert!(kept.as_str().len() <= MAX_ERROR_BYTES);
        prop_assert!(!kept.as_str().contains('\0'));
        prop_assert!(!more || kept.as_str().ends_with(CUT_MARK));
    }
}
