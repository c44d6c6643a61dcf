//! Durations as people write them.

use proptest::prelude::*;
use sqlstreams::api::Duration;

proptest! {
    #[test]
    fn what_is_written_reads_back(millis in 0_u64..3_155_760_000_000) {
        let duration = Duration::from(std::time::Duration::from_millis(millis));
        prop_assert_eq!(duration.to_string().parse::<Duration>(), Ok(duration));
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC*") {
        let _ = text.parse::<Duration>();
    }
}

#[test]
fn texts_and_what_they_mean() {
    let cases = [
        ("500ms", 500, "500ms"),
        ("90s", 90_000, "1m30s"),
        ("1h30m", 5_400_000, "1h30m"),
        ("7d", 604_800_000, "7d"),
        ("0s", 0, "0s"),
        ("1m1ms", 60_001, "1m1ms"),
    ];
    for (text, millis, written) in cases {
        let duration: Duration = text.parse().expect(text);
        assert_eq!(std::time::Duration::from(duration).as_millis(), millis, "{text}");
        assert_eq!(duration.to_string(), written, "{text}");
    }
}

#[test]
fn what_is_no_duration_is_refused_with_an_example() {
    for text in [
        "",
        "5",
        "s",
        "1 s",
        "-1s",
        "1.5h",
        "1w",
        "99999999999999999999s",
        "40000d",
        "1s2",
    ] {
        let error = text.parse::<Duration>().expect_err(text).to_string();
        assert!(error.contains("such as 500ms, 30s, 1h30m or 7d"), "{error}");
    }
}
