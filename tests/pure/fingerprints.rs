//! Errors that differ only in numbers, ids and addresses.

use proptest::prelude::*;
use sqlstreams::delivery::fingerprint::{MAX_FINGERPRINT_BYTES, fingerprint};

#[test]
fn what_differs_between_messages_is_folded() {
    let cases = [
        ("card 4711 declined", "card <n> declined"),
        ("order-103: HTTP 404", "order-<n>: HTTP <n>"),
        ("no order 0b9f5ef0-41b1-4a4c-9a0e-27e1a0b3a1f7.", "no order <uuid>."),
        ("id=0B9F5EF0-41B1-4A4C-9A0E-27E1A0B3A1F7,", "id=<uuid>,"),
        ("object deadbeef01 is gone", "object <hex> is gone"),
        ("at 0x7ffee3", "at <hex>"),
        ("user alice@example.com unknown", "user <address> unknown"),
        ("dial tcp 10.1.2.3:5432: refused", "dial tcp <address>: refused"),
        ("dial [2001:db8::1]:443", "dial <address>"),
        (
            "GET https://api.example.com/v1/cards/17?x=2 failed",
            "GET <address> failed",
        ),
        ("(\"https://example.com\")", "(\"<address>\")"),
        ("two\n  lines\tand tabs", "two lines and tabs"),
        ("took 1.5s of 30s", "took <n>.<n>s of <n>s"),
        ("decoded the facade", "decoded the facade"),
        ("", ""),
    ];
    for (error, expected) in cases {
        assert_eq!(fingerprint(error), expected, "{error}");
    }
}

#[test]
fn different_faults_stay_apart() {
    assert_ne!(fingerprint("card 1 declined"), fingerprint("card 1 expired"));
}

proptest! {
    #[test]
    fn every_fingerprint_is_bounded_and_folding_it_again_changes_nothing_of_its_length(error in ".{0,3000}") {
        let once = fingerprint(&error);
        prop_assert!(once.len() <= MAX_FINGERPRINT_BYTES);
        prop_assert!(!once.contains(|c: char| c.is_ascii_digit()));
    }

    #[test]
    fn numbers_make_no_difference(a in any::<u64>(), b in any::<u64>()) {
        prop_assert_eq!(fingerprint(&format!("payment {a} failed")), fingerprint(&format!("payment {b} failed")));
    }
}
