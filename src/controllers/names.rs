//! Names of the objects that the operator makes.

use sha2::{Digest, Sha256};

/// `{base}-{suffix}`, cut to `limit` bytes where it must be: then a hash of the whole keeps two
/// names apart that begin alike.
pub(crate) fn child_name(base: &str, suffix: &str, limit: usize) -> String {
    let whole = format!("{base}-{suffix}");
    if whole.len() <= limit {
        return whole;
    }
    format!(
        "{}-{suffix}",
        bounded_by(base, &whole, limit.saturating_sub(suffix.len() + 1))
    )
}

/// `name`, cut to `limit` bytes where it must be, with a hash of the whole at its end.
pub(crate) fn bounded(name: &str, limit: usize) -> String {
    if name.len() <= limit {
        name.to_owned()
    } else {
        bounded_by(name, name, limit)
    }
}

fn bounded_by(name: &str, hashed: &str, limit: usize) -> String {
    let tail = format!("-{:08x}", hash(hashed) & 0xffff_ffff);
    // Names of resources are ASCII.
    let kept = name
        .get(..limit.saturating_sub(tail.len()).min(name.len()))
        .unwrap_or_default();
    format!("{}{tail}", kept.trim_end_matches(['-', '.']))
}

/// The first 64 bits of the SHA-256 of a text: the same on every machine and in every release.
pub(crate) fn hash(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    digest
        .iter()
        .take(8)
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}
