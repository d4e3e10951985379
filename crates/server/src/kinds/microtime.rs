//! Instants as Kubernetes writes them: `MicroTime` with six digits, `Time` with whole seconds.

use jiff::Timestamp;
use jiff::fmt::strtime;

/// The present, as a `Time`.
pub(crate) fn now_in_seconds() -> String {
    strtime::format("%Y-%m-%dT%H:%M:%SZ", Timestamp::now()).unwrap_or_default()
}

/// A `MicroTime` in UTC. Exactly six digits of fraction, then `Z` or an offset.
///
/// # Errors
/// What a real server says of such a text.
pub(super) fn canonical_micro(text: &str) -> Result<String, String> {
    canonical(text, 6, "2006-01-02T15:04:05.000000Z07:00", "%Y-%m-%dT%H:%M:%S.%6fZ")
}

/// A `Time` in UTC, in whole seconds; fractions are cut off.
///
/// # Errors
/// What a real server says of such a text.
pub(super) fn canonical_seconds(text: &str) -> Result<String, String> {
    canonical(text, 0, "2006-01-02T15:04:05Z07:00", "%Y-%m-%dT%H:%M:%SZ")
}

fn canonical(text: &str, digits: usize, layout: &str, output: &str) -> Result<String, String> {
    let refuse = |rest: &str, part: &str| {
        format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}")
    };
    let shape = b"0000-00-00T00:00:00";
    let head =
        text.as_bytes().iter().zip(shape).take_while(|(byte, wanted)| {
            if **wanted == b'0' { byte.is_ascii_digit() } else { byte == wanted }
        });
    if head.count() < shape.len() {
        return Err(refuse(text, "2006"));
    }
    // The head is ASCII, so the cut is at a character.
    let rest = &text[shape.len()..];
    let fraction = rest
        .strip_prefix('.')
        .map_or("", |rest| &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()]);
    let zone = if fraction.is_empty() { rest } else { &rest[1 + fraction.len()..] };
    if digits > 0 && fraction.len() < digits {
        return Err(refuse(rest, ".000000"));
    }
    if digits > 0 && fraction.len() > digits {
        return Err(refuse(&rest[1 + digits..], "Z07:00"));
    }
    let offset = zone.as_bytes();
    let valid = zone == "Z"
        || (offset.len() == 6
            && matches!(offset[0], b'+' | b'-')
            && offset[3] == b':'
            && [1, 2, 4, 5].iter().all(|at| offset[*at].is_ascii_digit()));
    if !valid {
        return Err(refuse(zone, "Z07:00"));
    }
    let instant: Timestamp = text.parse().map_err(|_| format!("parsing time {text:?}: out of range"))?;
    strtime::format(output, instant).map_err(|_| format!("parsing time {text:?}: out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_six_digits_are_a_micro_time() {
        let good = "2026-11-30T23:15:37.225039Z";
        assert_eq!(canonical_micro(good).as_deref(), Ok(good));
        assert_eq!(
            canonical_micro("2026-12-01T01:15:37.225039+02:00").as_deref(),
            Ok("2026-11-30T23:15:37.225039Z")
        );
        for bad in [
            "",
            "2026-11-30T23:15:37Z",
            "2026-11-30T23:15:37.225Z",
            "2026-11-30T23:15:37.225039000Z",
            "2026-11-30T23:15:37.225039",
            "2026-13-30T23:15:37.225039Z",
            "2026-11-30t23:15:37.225039Z",
            "é",
        ] {
            assert!(canonical_micro(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn refusals_are_worded_as_a_real_server_does() {
        let said = |text| canonical_micro(text).unwrap_err();
        assert_eq!(
            said("2026-01-01T00:00:00Z"),
            r#"parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
        assert!(said("2026-01-01T00:00:00.123456789Z").ends_with(r#"cannot parse "789Z" as "Z07:00""#));
        assert!(said("").ends_with(r#"cannot parse "" as "2006""#));
    }
}
