//! The bearer token.

use std::path::Path;

use super::StartError;
use super::data_dir::{read_private, write_private};

/// A token of 256 random bits.
pub(super) fn random() -> String {
    let mut bytes = [0; 32];
    if let Err(error) = getrandom::fill(&mut bytes) {
        // A server whose token can be guessed must not run.
        panic!("the system gives no random bytes: {error}");
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The token in a file; a new one if there is no file.
pub(super) fn read_or_make(path: &Path) -> Result<String, StartError> {
    match read_private(path)? {
        Some(text) => checked(text.trim(), path),
        None => {
            let token = random();
            write_private(path, token.as_bytes())?;
            Ok(token)
        }
    }
}

/// A token that can stand in a header and in a kubeconfig.
pub(super) fn checked(token: &str, path: &Path) -> Result<String, StartError> {
    let why = if token.is_empty() {
        "it is empty"
    } else if !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)) {
        "only letters, digits and -._~+/= may be in it"
    } else {
        return Ok(token.into());
    };
    Err(StartError::BadToken { path: path.into(), why })
}

/// Whether an `Authorization` header carries the token. Takes the same time wherever they differ.
pub(super) fn is_bearer(header: &[u8], token: &str) -> bool {
    let given = match header.split_at_checked(7) {
        Some((scheme, given)) if scheme.eq_ignore_ascii_case(b"bearer ") => given,
        _ => return false,
    };
    let token = token.as_bytes();
    let differing = given.iter().zip(token).fold(0, |bits, (a, b)| std::hint::black_box(bits | (a ^ b)));
    differing == 0 && given.len() == token.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        assert!(is_bearer(b"Bearer abc", "abc"));
        assert!(is_bearer(b"bearer abc", "abc"));
        for wrong in [&b""[..], b"Bearer ", b"Bearer ab", b"Bearer abcd", b"Bearer abd", b"Basic abc", b"abc"]
        {
            assert!(!is_bearer(wrong, "abc"), "{wrong:?}");
        }
    }
}
