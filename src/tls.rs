//! The one TLS provider of the program.

use std::sync::Once;

static INSTALLED: Once = Once::new();

/// Makes ring the provider of all TLS connections of the process, unless the process has chosen
/// one already. May be called any number of times.
pub fn install() {
    INSTALLED.call_once(|| {
        // Fails only where another one is installed, which then serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
