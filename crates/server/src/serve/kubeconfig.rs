//! The kubeconfig that clients need.

/// A kubeconfig with one context. `authority` is the PEM of whom to trust, if the server speaks TLS. The token
/// holds no character that means something in YAML.
pub(super) fn text(url: &str, token: &str, authority: Option<&str>) -> String {
    let trust = authority
        .map(|pem| format!("    certificate-authority-data: {}\n", base64(pem.as_bytes())))
        .unwrap_or_default();
    format!(
        r#"apiVersion: v1
kind: Config
clusters:
- name: incumbent
  cluster:
    server: "{url}"
{trust}users:
- name: incumbent
  user:
    token: "{token}"
contexts:
- name: incumbent
  context:
    cluster: incumbent
    user: incumbent
    namespace: default
current-context: incumbent
"#
    )
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
