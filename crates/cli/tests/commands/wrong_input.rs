//! Wrong input: one clear sentence, the right exit code, nothing left.

use crate::site::{Site, incumbent, text};

#[test]
fn one_sentence_the_right_code_and_nothing_left() {
    let site = Site::new();
    let kubeconfig = site.kubeconfig().into_os_string().into_string().unwrap();
    let dead = site.folder.path().join("dead");
    let served = std::fs::read_to_string(site.kubeconfig()).unwrap();
    let port =
        served.split("127.0.0.1:").nth(1).unwrap().split(|c: char| !c.is_ascii_digit()).next().unwrap();
    std::fs::write(&dead, served.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:1")).unwrap();
    let dead = dead.into_os_string().into_string().unwrap();
    let table: &[(&[&str], i32, &str)] = &[
        (
            &["--lock", "l", "--renew-deadline", "15s", "--", "true"],
            125,
            "renew deadline 15s must be shorter than",
        ),
        (&["--lock", "l", "--lease-duration", "1500ms", "--", "true"], 125, "has a fraction of a second"),
        (&["--lock", "l", "--attempt-timeout", "9s", "--", "true"], 125, "attempt timeout 9s"),
        (&["--lock", "l", "--binary-version", "1.0", "--", "true"], 125, "is not a semantic version"),
        (
            &["--lock", "l", "--binary-version", "1.0.0", "--emulation-version", "2.0.0", "--", "true"],
            125,
            "is newer than binary version",
        ),
        (&["--lock", "l", "--strategy", "best", "--", "true"], 125, "strategy \"best\" is not known"),
        (&["--lock", "l", "--strategy", "newest-version", "--", "true"], 125, "give the binary version"),
        (&["--lock", "Not_A_Name", "--", "true"], 125, "is not a DNS subdomain"),
        (&["--lock", "l", "--identity", "a/b", "--", "true"], 125, "identity name"),
        (&["--lock", "nowhere/l", "--", "true"], 125, "namespace \"nowhere\" does not exist"),
        (&["--lock", "l", "--context", "none", "--", "true"], 125, "cannot be used"),
        (&["--lock", "l", "--", "no-such-command"], 127, "not found"),
        (&["--lock", "l", "--", "/etc/passwd"], 126, "cannot be executed"),
    ];
    for (words, code, sentence) in table {
        let output = incumbent().args(["run", "--kubeconfig", &kubeconfig]).args(*words).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{words:?}: {said}");
        assert!(said.starts_with("incumbent: ") && said.contains(sentence), "{words:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{words:?}: {said}");
    }
    for (kubeconfig, sentence) in [(&*dead, "cannot be reached"), ("/nonexistent", "kubeconfig /nonexistent")]
    {
        let words = ["run", "--kubeconfig", kubeconfig, "--lock", "l", "--", "true"];
        let output = incumbent().args(words).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(sentence) && said.trim_end().lines().count() == 1, "{said}");
        let status = incumbent().args(["status", "--kubeconfig", kubeconfig, "l"]).output().unwrap();
        assert_eq!(status.status.code(), Some(1));
    }
    let listed = incumbent().args(["status", "--kubeconfig", &kubeconfig]).output().unwrap();
    assert_eq!(text(&listed.stdout), "no leases\n", "something was left");
}

#[test]
fn mistakes_in_usage_have_a_code_of_their_own() {
    for (words, code) in [
        (&["run", "--lock", "l"] as &[&str], 125),
        (&["run", "--lock", "l", "--bogus", "--", "true"], 125),
        (&["run", "--lock", "l", "--lease-duration", "15", "--", "true"], 125),
        (&["status", "--bogus"], 2),
        (&["bogus"], 2),
        (&["demo", "--context", "x"], 2),
        (&["--help"], 0),
        (&["run", "--help"], 0),
    ] {
        let output = incumbent().args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output.stderr));
    }
}

#[test]
fn without_any_server_it_says_how_to_start_one() {
    let output = incumbent().args(["status"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("start one with `incumbent server`"), "{}", text(&output.stderr));
}
