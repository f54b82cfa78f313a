//! SHA-256 as hexadecimal digits.

use sha2::{Digest, Sha256};

/// The digest of bytes: 64 digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as two digits each.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    // With each call of a tool: quicker than what formats.
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_as_others_write_them() {
        // FIPS 180-4's example, as sha256sum prints it.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
        assert_eq!(hex(&[0, 9, 0xaf, 0xff]), "0009afff");
    }
}
