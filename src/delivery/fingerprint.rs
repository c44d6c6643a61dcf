//! Errors that are the same but for numbers, ids and addresses, told as the same.

/// The most bytes of a fingerprint.
pub const MAX_FINGERPRINT_BYTES: usize = 256;
/// So many bytes of an error are looked at.
const READ_BYTES: usize = 2048;

/// Folds what differs from one message to the next: UUIDs to `<uuid>`, hexadecimal ids to `<hex>`,
/// numbers to `<n>`, and e-mail addresses, URLs and network addresses to `<address>`. White space
/// is folded to one space and the result is at most [`MAX_FINGERPRINT_BYTES`] long.
#[must_use]
pub fn fingerprint(error: &str) -> String {
    let error = &error[..error.floor_char_boundary(READ_BYTES)];
    let mut folded = String::new();
    for word in error.split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        fold_word(word, &mut folded);
        if folded.len() > MAX_FINGERPRINT_BYTES {
            break;
        }
    }
    folded.truncate(folded.floor_char_boundary(MAX_FINGERPRINT_BYTES));
    folded
}

/// A word is all that stands between two spaces, brackets and quotation marks included.
fn fold_word(word: &str, folded: &mut String) {
    let mut rest = word;
    while !rest.is_empty() {
        let mut length = rest.find(is_delimiter).unwrap_or(rest.len());
        if rest[..length].contains("://") {
            // A query belongs to its URL.
            length = rest.find(|c| is_delimiter(c) && c != '=').unwrap_or(rest.len());
        }
        let (piece, tail) = rest.split_at(length);
        fold_piece(piece, folded);
        let end = tail.find(|c| !is_delimiter(c)).unwrap_or(tail.len());
        folded.push_str(&tail[..end]);
        rest = &tail[end..];
    }
}

/// What can stand around an id or an address, but not inside.
fn is_delimiter(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | '`' | '(' | ')' | '<' | '>' | '{' | '}' | ',' | ';' | '=' | '|'
    )
}

fn fold_piece(piece: &str, folded: &mut String) {
    let core = piece.trim_end_matches(['.', ':', '!', '?']);
    if is_address(core) {
        folded.push_str("<address>");
        folded.push_str(&piece[core.len()..]);
        return;
    }
    let mut rest = piece;
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_alphanumeric() {
            let length = token_length(rest);
            fold_token(&rest[..length], folded);
            rest = &rest[length..];
        } else {
            folded.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
}

/// Of a UUID where one stands here, else of the run of letters and digits.
fn token_length(text: &str) -> usize {
    const UUID: usize = 36;
    if text.get(..UUID).is_some_and(is_uuid) && !text[UUID..].starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return UUID;
    }
    text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len())
}

fn fold_token(token: &str, folded: &mut String) {
    if is_uuid(token) {
        folded.push_str("<uuid>");
    } else if is_hex_id(token) {
        folded.push_str("<hex>");
    } else {
        let mut digits = false;
        for c in token.chars() {
            match (c.is_ascii_digit(), digits) {
                (true, false) => folded.push_str("<n>"),
                (true, true) => {}
                (false, _) => folded.push(c),
            }
            digits = c.is_ascii_digit();
        }
    }
}

fn is_uuid(token: &str) -> bool {
    token.len() == 36
        && token.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// `0x` and digits, or eight or more hexadecimal digits that are not all decimal and not a word.
fn is_hex_id(token: &str) -> bool {
    let all_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match token.strip_prefix("0x") {
        Some(digits) => !digits.is_empty() && all_hex(digits),
        None => {
            token.len() >= 8
                && all_hex(token)
                && token.bytes().any(|byte| byte.is_ascii_digit())
                && token.bytes().any(|byte| byte.is_ascii_alphabetic())
        }
    }
}

fn is_address(piece: &str) -> bool {
    piece.contains("://") || is_email(piece) || is_network_address(piece)
}

fn is_email(piece: &str) -> bool {
    piece
        .split_once('@')
        .is_some_and(|(user, host)| !user.is_empty() && host.contains('.') && !host.contains('@'))
}

/// With or without a port or a prefix length.
fn is_network_address(piece: &str) -> bool {
    let host = piece.split('/').next().unwrap_or(piece);
    host.parse::<std::net::IpAddr>().is_ok() || host.parse::<std::net::SocketAddr>().is_ok()
}
