//! The kubeconfig that clients need.

use std::net::SocketAddr;

/// A kubeconfig with one context. The token holds no character that means something in YAML.
pub(super) fn text(addr: SocketAddr, token: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Config
clusters:
- name: incumbent
  cluster:
    server: "http://{addr}"
users:
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
