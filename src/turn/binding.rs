//! What a presented token is compared by.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Lower-case hex SHA-256 of a presented token (TOK-2). The token itself goes no further than here.
#[must_use]
pub fn digest(token: &str) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(token.as_bytes()) {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TOK-2
    #[test]
    fn a_token_is_stored_as_lower_case_hex_sha_256() {
        assert_eq!(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
