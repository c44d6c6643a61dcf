//! Durations as people write them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration as StdDuration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use thiserror::Error;

const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];
/// What [`Duration`] can be read from, for schemas.
const PATTERN: &str = "^([0-9]{1,9}(ms|s|m|h|d)){1,5}$";
/// One hundred years: beyond it a date might not be representable.
const MAX_MILLIS: u64 = 36_525 * 86_400_000;

/// A length of time, in whole milliseconds, written as `500ms`, `30s`, `1h30m` or `7d`; a day has
/// 24 hours. At most 100 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration(StdDuration);

/// Why a text is no [`Duration`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("\"{0}\" is not a duration of at most 100 years such as 500ms, 30s, 1h30m or 7d")]
pub struct DurationError(String);

impl Duration {
    /// So many seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(StdDuration::from_secs(seconds))
    }
}

impl From<Duration> for StdDuration {
    fn from(duration: Duration) -> Self {
        duration.0
    }
}

impl From<StdDuration> for Duration {
    /// Cuts what is below a millisecond.
    fn from(duration: StdDuration) -> Self {
        let millis = u64::try_from(duration.as_millis())
            .unwrap_or(MAX_MILLIS)
            .min(MAX_MILLIS);
        Self(StdDuration::from_millis(millis))
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || DurationError(text.chars().take(40).collect());
        let mut rest = text;
        let mut millis: u64 = 0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(error)?;
            let (number, tail) = rest.split_at(digits);
            let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let factor = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?.1;
            let number: u64 = number.parse().map_err(|_| error())?;
            millis = number
                .checked_mul(factor)
                .and_then(|part| millis.checked_add(part))
                .ok_or_else(error)?;
            rest = tail;
        }
        if text.is_empty() || millis > MAX_MILLIS {
            return Err(error());
        }
        Ok(Self(StdDuration::from_millis(millis)))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(MAX_MILLIS);
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, factor) in UNITS {
            if rest >= factor {
                write!(f, "{}{unit}", rest / factor)?;
                rest %= factor;
            }
        }
        Ok(())
    }
}

impl Serialize for Duration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": PATTERN, "maxLength": 40 })
    }
}
