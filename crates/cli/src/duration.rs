//! Durations on the command line: `15s`, `1m30s`, `500ms`.

use std::time::Duration;

/// Parses a duration with units. A bare number is refused: nobody should have to guess its unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let error = || format!("{text:?} is not a duration: write it with a unit, as 15s, 500ms, 1m30s or 2h");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    if rest.is_empty() {
        return Err(error());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
        let number: f64 = rest[..digits].parse().map_err(|_| error())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(error()),
        };
        rest = &rest[letters..];
        total += Duration::try_from_secs_f64(number * unit).map_err(|_| error())?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in [
            ("15s", 15_000),
            ("500ms", 500),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1.5s", 1500),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "15", "s", "-1s", "1x", "1.2.3s", "1s5", "1e9h", "99999999999999999999999h"] {
            let error = parse(bad).unwrap_err();
            assert!(error.contains("write it with a unit"), "{bad}");
        }
    }
}
