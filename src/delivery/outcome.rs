//! How one call of a handler ended, and what is kept of its text.

use std::time::Duration;

/// The most bytes that are kept of an error.
pub const MAX_ERROR_BYTES: usize = 8 * 1024;
/// Ends an error of which not all is kept.
pub const CUT_MARK: &str = " [cut]";

/// How one call of a handler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The message is done.
    Done,
    /// It failed and may be tried again.
    Retry {
        /// Why, in the handler's own words.
        error: ErrorText,
        /// After how long the handler asks to be tried again.
        retry_after: Option<Duration>,
    },
    /// It failed and no retry will help.
    Terminal {
        /// Why, in the handler's own words.
        error: ErrorText,
    },
}

impl Outcome {
    /// A failure that may be tried again.
    #[must_use]
    pub fn retry(error: impl AsRef<[u8]>) -> Self {
        Self::Retry {
            error: ErrorText::new(error),
            retry_after: None,
        }
    }

    /// A failure that no retry will help.
    #[must_use]
    pub fn terminal(error: impl AsRef<[u8]>) -> Self {
        Self::Terminal {
            error: ErrorText::new(error),
        }
    }
}

/// What a handler says of a failure, verbatim as far as Postgres can store it: NUL and what is not
/// UTF-8 are replaced by `U+FFFD`, and what is beyond [`MAX_ERROR_BYTES`] is cut, with
/// [`CUT_MARK`] at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorText(String);

impl ErrorText {
    /// Takes the text of a handler.
    #[must_use]
    pub fn new(text: impl AsRef<[u8]>) -> Self {
        Self::cut(text, false)
    }

    /// As [`ErrorText::new`], where the handler may have said more than `text`.
    #[must_use]
    pub fn cut(text: impl AsRef<[u8]>, more: bool) -> Self {
        let mut bytes = text.as_ref();
        let more = more || bytes.len() > MAX_ERROR_BYTES;
        if more {
            // Not to end in the middle of a character.
            let room = bytes.len().min(MAX_ERROR_BYTES - CUT_MARK.len());
            let start = (room.saturating_sub(3)..=room)
                .rev()
                .find(|end| bytes.get(*end).is_none_or(|byte| byte & 0xc0 != 0x80));
            bytes = &bytes[..start.unwrap_or(room)];
        }
        let mut text = String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}");
        // A replaced byte takes three.
        if text.len() > MAX_ERROR_BYTES || (more && text.len() > MAX_ERROR_BYTES - CUT_MARK.len()) {
            text.truncate(text.floor_char_boundary(MAX_ERROR_BYTES - CUT_MARK.len()));
            text.push_str(CUT_MARK);
        } else if more {
            text.push_str(CUT_MARK);
        }
        Self(text)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}
