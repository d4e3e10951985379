//! The rules for names, and what a real server says of a name that breaks them.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const PREFIX_PART: &str = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn is_label(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && edge(text.bytes().next())
        && edge(text.bytes().next_back())
}

fn is_name_part(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && edge(text.bytes().next())
        && edge(text.bytes().next_back())
}

/// What is wrong with a DNS subdomain, the name of most objects.
pub(super) fn subdomain(text: &str) -> Option<&'static str> {
    if text.len() > 253 {
        return Some("must be no more than 253 characters");
    }
    (!text.split('.').all(is_label)).then_some(SUBDOMAIN)
}

/// What is wrong with a DNS label, the name of a namespace.
pub(super) fn label(text: &str) -> Option<&'static str> {
    if text.len() > 63 {
        return Some("must be no more than 63 characters");
    }
    (!is_label(text)).then_some(LABEL)
}

/// What is wrong with a qualified name: a label key, a finalizer, a strategy.
pub(super) fn qualified(text: &str) -> Option<&'static str> {
    let (prefix, name) = match text.split_once('/') {
        Some((_, rest)) if rest.contains('/') => return Some(QUALIFIED),
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    match prefix {
        Some("") => return Some("prefix part must be non-empty"),
        Some(prefix) if subdomain(prefix).is_some() => return Some(PREFIX_PART),
        _ => {}
    }
    match name.len() {
        0 => Some("name part must be non-empty"),
        1..=63 => (!is_name_part(name)).then_some(NAME_PART),
        _ => Some("name part must be no more than 63 characters"),
    }
}

/// What is wrong with the value of a label.
pub(super) fn label_value(text: &str) -> Option<&'static str> {
    if text.len() > 63 {
        return Some("must be no more than 63 characters");
    }
    (!text.is_empty() && !is_name_part(text)).then_some(LABEL_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "a-b.c", "0", "kube-scheduler", &"a".repeat(253)] {
            assert_eq!(subdomain(good), None, "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", "a/b", &"a".repeat(254)] {
            assert!(subdomain(bad).is_some(), "{bad}");
        }
        for good in ["a", "example.com/My_Name.1"] {
            assert_eq!(qualified(good), None, "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "A/b", "a b", "-a"] {
            assert!(qualified(bad).is_some(), "{bad}");
        }
        assert_eq!(label_value(""), None);
        assert!(label_value("a b").is_some());
        assert!(label("a.b").is_some());
    }
}
