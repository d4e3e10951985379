//! Wrong input: one clear sentence, the right exit code, and nothing half made.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::interop::site::Site;
use crate::peers::{Rights, User};

/// The lock that no wrong command may create.
const LOCK: &str = "default/mistake";

struct Case<'a> {
    words: Vec<&'a str>,
    kubeconfig: &'a Path,
    code: i32,
    /// What the sentence has to contain.
    says: &'a str,
    /// The command line itself is wrong: a hint how to get help follows the sentence.
    usage: bool,
}

pub(super) fn run(site: &Site) -> anyhow::Result<String> {
    let folder = site.folder.join("mistakes");
    fs::create_dir(&folder)?;
    let owner = site.kubeconfig.as_path();
    let unreachable = altered(&folder, owner, "server", "https://127.0.0.1:1")?;
    let stranger = altered(&folder, owner, "token", "not-a-token")?;
    let missing = folder.join("missing");
    let plain = folder.join("not-executable");
    fs::write(&plain, "not a program\n")?;
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644))?;
    let plain = plain.to_str().context("a path of text")?;
    let run = |options: &[&'static str]| [&["run", "--lock", LOCK], options, &["--", "true"]].concat();
    let case = |words: Vec<_>, kubeconfig, code, says| Case { words, kubeconfig, code, says, usage: false };
    let usage = |words: Vec<_>, code, says| Case { words, kubeconfig: owner, code, says, usage: true };
    let mut cases = vec![
        // Timing.
        case(run(&["--renew-deadline", "15s"]), owner, 125, "renew deadline 15s"),
        case(run(&["--lease-duration", "1500ms"]), owner, 125, "lease duration 1.5s"),
        case(run(&["--retry-period", "10s"]), owner, 125, "retry period 10s"),
        case(run(&["--attempt-timeout", "9s"]), owner, 125, "attempt timeout 9s"),
        case(run(&["--stop-grace", "14s"]), owner, 125, "stop grace 14s"),
        usage(run(&["--lease-duration", "15"]), 125, "\"15\" is not a duration"),
        // Versions, strategies, names.
        case(run(&["--binary-version", "1.0"]), owner, 125, "binary version \"1.0\""),
        case(
            run(&["--binary-version", "1.0.0", "--emulation-version", "1.1.0"]),
            owner,
            125,
            "emulation version 1.1.0 is newer",
        ),
        case(run(&["--strategy", "oldest"]), owner, 125, "strategy \"oldest\" is not known"),
        case(vec!["run", "--lock", "Mistake", "--", "true"], owner, 125, "lock name \"Mistake\""),
        usage(vec!["run", "--lock", LOCK, "--profile", "slow", "--", "true"], 125, "'slow'"),
        // Commands.
        case(
            vec!["run", "--lock", LOCK, "--", "no-such-command"],
            owner,
            127,
            "\"no-such-command\" not found",
        ),
        case(vec!["run", "--lock", LOCK, "--", plain], owner, 126, "cannot be executed"),
        usage(vec!["run", "--lock", LOCK], 125, "required arguments"),
        usage(vec!["run", "--", "true"], 125, "required arguments"),
        usage(vec!["run", "--nonsense", "--lock", LOCK, "--", "true"], 125, "'--nonsense'"),
        // Servers.
        case(run(&[]), &unreachable, 125, "cannot be reached"),
        case(run(&[]), &missing, 125, "missing cannot be used"),
        case(run(&[]), &stranger, 125, "Unauthorized"),
        case(run(&["--context", "elsewhere"]), owner, 125, "elsewhere"),
        // The same of `status`.
        case(vec!["status", LOCK], owner, 1, "there is no lease default/mistake"),
        case(vec!["status", LOCK], &unreachable, 1, "lease default/mistake cannot be read"),
        case(vec!["status", LOCK], &missing, 1, "missing cannot be used"),
        case(vec!["status", LOCK], &stranger, 1, "Unauthorized"),
        case(vec!["status", "Mistake"], owner, 2, "lock name \"Mistake\""),
        usage(vec!["status", "--nonsense"], 2, "'--nonsense'"),
    ];
    let named = site.as_cluster().map(|cluster| cluster.kubeconfig(User::Elector(Rights::Named)));
    if let Ok(named) = &named {
        let nowhere = vec!["run", "--lock", "nowhere/mistake", "--", "true"];
        cases.push(case(nowhere, owner, 125, "namespace \"nowhere\" does not exist"));
        cases.push(case(run(&[]), named, 125, "no permission to get lease default/mistake"));
        cases.push(case(vec!["status", LOCK], named, 1, "forbidden"));
    }
    let wrong: Vec<String> =
        cases.iter().filter_map(|c| check(site, c).err()).map(|e| format!("{e:#}")).collect();
    ensure!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    let leases = site.kubectl(&["get", "leases", "--all-namespaces", "-o", "name"])?;
    ensure!(!leases.to_lowercase().contains("mistake"), "a lease was left: {leases}");
    Ok(format!("{} cases", cases.len()))
}

fn check(site: &Site, case: &Case<'_>) -> anyhow::Result<()> {
    let output = site.incumbent(case.kubeconfig, &case.words)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let words = case.words.join(" ");
    ensure!(
        output.status.code() == Some(case.code),
        "{words}: {} instead of {}: {said}",
        output.status,
        case.code
    );
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    let sentence = lines.next().unwrap_or_default();
    ensure!(sentence.contains(case.says), "{words}: {said}");
    ensure!(!said.contains("panicked"), "{words}: {said}");
    if case.usage {
        ensure!(said.trim_end().ends_with("try '--help'."), "{words}: no hint: {said}");
    } else {
        ensure!(
            sentence.starts_with("incumbent: ") && lines.next().is_none(),
            "{words}: not one line: {said}"
        );
    }
    Ok(())
}

/// A copy of a kubeconfig, in JSON or YAML, in which `key` has another value.
fn altered(folder: &Path, kubeconfig: &Path, key: &str, value: &str) -> anyhow::Result<PathBuf> {
    let text = fs::read_to_string(kubeconfig)?;
    let changed = replace(&text, key, value).with_context(|| format!("no {key} in the kubeconfig"))?;
    let path = folder.join(format!("other-{key}"));
    fs::write(&path, changed)?;
    Ok(path)
}

fn replace(text: &str, key: &str, value: &str) -> Option<String> {
    let at = text.find(&format!("{key}:")).or_else(|| text.find(&format!("\"{key}\":")))?;
    let colon = at + text[at..].find(':')?;
    let from = colon + text[colon..].find('"')? + 1;
    let to = from + text[from..].find('"')?;
    Some(format!("{}{value}{}", &text[..from], &text[to..]))
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn a_value_is_replaced_in_both_notations() {
        assert_eq!(replace("a: \"x\"\nb: \"y\"\n", "b", "z").unwrap(), "a: \"x\"\nb: \"z\"\n");
        assert_eq!(replace(r#"{"a": "x", "b": "y"}"#, "a", "z").unwrap(), r#"{"a": "z", "b": "y"}"#);
        assert_eq!(replace("a: \"x\"", "c", "z"), None);
    }
}
