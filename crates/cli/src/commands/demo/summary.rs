//! What the led programs themselves wrote down, as a table, and whether it is as it should be.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use incumbent::core::name_of;

use super::journal::Term;
use crate::failure::Failure;
use crate::output::Table;
use crate::supervise::BootTime;

/// Prints the table of all terms; fails if anything was wrong.
pub(super) fn tell(terms: &[Term], killed: &[(u32, BootTime)]) -> Result<ExitCode, Failure> {
    let overlaps = terms.iter().filter(|t| t.overlap).count();
    let told =
        format!("terms: {}   overlaps: {overlaps}   (as the led programs wrote them down)", terms.len());
    // Without a reader the exit code still tells.
    let _ = writeln!(std::io::stdout(), "\n{}\n{told}", table(terms, killed));
    let wrong = judge(terms, killed);
    if wrong.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(format!("not as it should be: {}", wrong.join("; "))))
}

/// The end of a term: when it was killed, or the last that was heard of it.
fn end(term: &Term, killed: &[(u32, BootTime)]) -> BootTime {
    killed.iter().find(|(pid, _)| *pid == term.pid).map_or(term.last, |(_, at)| *at)
}

fn table(terms: &[Term], killed: &[(u32, BootTime)]) -> Table {
    let origin = terms.first().map_or(BootTime::from_nanos(0), |t| t.started);
    let seconds = |at: BootTime| format!("{:.3} s", at.since(origin).as_secs_f64());
    let mut table = Table::new(&["TERM", "HOLDER", "VERSION", "TOKEN", "START", "END", "HOW", "GAP BEFORE"]);
    for (i, term) in terms.iter().enumerate() {
        let how = if term.ended {
            "ended its work"
        } else if killed.iter().any(|(pid, _)| *pid == term.pid) {
            "killed"
        } else {
            "vanished"
        };
        let gap = i.checked_sub(1).map_or_else(
            || "-".to_owned(),
            |before| {
                let gap = term.started.since(end(&terms[before], killed));
                if gap < Duration::from_secs(1) {
                    format!("{:.1} ms", gap.as_secs_f64() * 1000.0)
                } else {
                    format!("{:.2} s", gap.as_secs_f64())
                }
            },
        );
        table.row(vec![
            (i + 1).to_string(),
            name_of(&term.identity).to_owned(),
            term.version.clone(),
            term.token.to_string(),
            seconds(term.started),
            seconds(end(term, killed)),
            how.to_owned(),
            gap,
        ]);
    }
    table
}

fn judge(terms: &[Term], killed: &[(u32, BootTime)]) -> Vec<String> {
    let mut wrong = Vec::new();
    if terms.is_empty() {
        wrong.push("nobody ever led".to_owned());
    }
    for (i, term) in terms.iter().enumerate() {
        let name = name_of(&term.identity);
        if term.overlap {
            wrong.push(format!("term {} of {name} began while another program lived", i + 1));
        }
        if !term.ended && !killed.iter().any(|(pid, _)| *pid == term.pid) {
            wrong.push(format!("the program of term {} of {name} did not end its work", i + 1));
        }
        if let Some(before) = i.checked_sub(1).map(|b| &terms[b]) {
            if term.token <= before.token {
                wrong.push(format!("the token of term {} is not above the one before", i + 1));
            }
            if before.ended && term.started < before.last {
                wrong.push(format!("term {} began before the one before had ended", i + 1));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(pid: u32, token: u64, started: u64, last: u64) -> Term {
        Term {
            pid,
            identity: format!("r{pid}_0000000000000001"),
            version: "1.0.0".into(),
            token,
            overlap: false,
            started: BootTime::from_nanos(started),
            last: BootTime::from_nanos(last),
            asked: true,
            ended: true,
        }
    }

    #[test]
    fn what_is_wrong_is_found() {
        let good = [term(1, 5, 10, 20), term(2, 6, 21, 30)];
        assert!(judge(&good, &[]).is_empty());
        let mut overlap = good.clone();
        overlap[1].overlap = true;
        assert!(judge(&overlap, &[])[0].contains("while another program lived"));
        let mut token = good.clone();
        token[1].token = 5;
        assert!(judge(&token, &[])[0].contains("token"));
        let mut unended = good.clone();
        unended[0].ended = false;
        assert!(judge(&unended, &[])[0].contains("did not end"));
        assert!(judge(&unended, &[(1, BootTime::from_nanos(20))]).is_empty(), "killed on purpose");
        assert!(!judge(&[], &[]).is_empty());
        let early = [term(1, 5, 10, 20), term(2, 6, 19, 30)];
        assert!(judge(&early, &[])[0].contains("before the one before had ended"));
    }
}
