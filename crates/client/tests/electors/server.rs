//! On the embedded server, over real connections.

use std::time::Duration;

use incumbent::{Elector, Handle, Profile, Term};
use incumbent_server::Server;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

async fn server() -> (Server, Config) {
    let server = Server::builder().in_memory().start().await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    (server, config)
}

/// A member of a fleet that tells `(name, started)`.
fn member(
    config: &Config,
    name: &'static str,
    version: &str,
    told: &mpsc::UnboundedSender<(&'static str, bool)>,
) -> (Handle, JoinHandle<()>) {
    let elector = Elector::builder(config.clone(), "lock")
        .identity(name)
        .versions(version, None)
        .strategy("OldestEmulationVersion")
        .profile(Profile::Fast)
        .settle(Duration::ZERO)
        .build()
        .unwrap();
    let handle = elector.handle();
    let told = told.clone();
    let run = tokio::spawn(elector.run(move |term: Term| {
        let told = told.clone();
        async move {
            told.send((name, true)).unwrap();
            term.cancelled().await;
            told.send((name, false)).unwrap();
            Ok::<(), std::io::Error>(())
        }
    }));
    (handle, run)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_moves_the_lead_in_order() {
    let (server, config) = server().await;
    let (told, mut events) = mpsc::unbounded_channel();
    let (a, a_run) = member(&config, "a", "1.1.0", &told);
    assert_eq!(events.recv().await, Some(("a", true)));
    // An older version joins: it is the right one to lead.
    let (b, b_run) = member(&config, "b", "1.0.0", &told);
    assert_eq!(events.recv().await, Some(("a", false)));
    assert_eq!(events.recv().await, Some(("b", true)));
    let mut status = b.status();
    status.wait_for(|s| s.candidates.len() == 2).await.unwrap();
    // And leaves: the newer one takes over again.
    b.shutdown();
    b_run.await.unwrap();
    assert_eq!(events.recv().await, Some(("b", false)));
    assert_eq!(events.recv().await, Some(("a", true)));
    a.shutdown();
    a_run.await.unwrap();
    assert_eq!(events.recv().await, Some(("a", false)));
    drop(told);
    assert_eq!(events.recv().await, None);
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b48_a_server_that_is_away_for_a_moment_ends_no_term() {
    let folder = tempfile::tempdir().unwrap();
    let start = |addr| Server::builder().data_dir(folder.path()).listen(addr).start();
    let first = start(([127, 0, 0, 1], 0).into()).await.unwrap();
    let addr = first.addr();
    let kubeconfig = Kubeconfig::from_yaml(first.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let (told, mut events) = mpsc::unbounded_channel();
    let (a, a_run) = member(&config, "a", "1.0.0", &told);
    assert_eq!(events.recv().await, Some(("a", true)));
    first.shutdown().await;
    let second = start(addr).await.unwrap();
    // It goes on renewing on the new server.
    let mut status = a.status();
    let before = status.borrow_and_update().clone();
    assert_eq!(before.role, "leading");
    status.wait_for(|s| s.last_error.is_none() && s.expires_in_ms > Some(5000)).await.unwrap();
    assert!(a.is_leader());
    a.shutdown();
    a_run.await.unwrap();
    assert_eq!(events.recv().await, Some(("a", false)));
    assert!(events.try_recv().is_err(), "one term only");
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b38_what_is_wrong_is_said_before_anything_is_left() {
    let (server, config) = server().await;
    let build = |config: &Config, lock: &str| Elector::builder(config.clone(), lock).build().unwrap();
    build(&config, "lock").preflight(Duration::from_secs(10)).await.unwrap();
    let missing = build(&config, "nowhere/lock").preflight(Duration::from_secs(10)).await.unwrap_err();
    assert_eq!(missing.to_string(), "namespace \"nowhere\" does not exist");
    let mut stranger = config.clone();
    stranger.auth_info = Default::default();
    let refused = build(&stranger, "lock").preflight(Duration::from_secs(10)).await.unwrap_err();
    assert!(refused.to_string().starts_with("no permission to get lease default/lock"), "{refused}");
    let mut dead = config.clone();
    dead.cluster_url = "http://127.0.0.1:1".parse().unwrap();
    let unreachable = build(&dead, "lock").preflight(Duration::from_secs(10)).await.unwrap_err();
    assert!(unreachable.to_string().starts_with("the API server cannot be reached"), "{unreachable}");
    let leases = incumbent::list_leases(config, "default", Duration::from_secs(10)).await.unwrap();
    assert!(leases.is_empty(), "nothing was left");
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b08_two_processes_with_one_name_do_not_take_each_other_for_themselves() {
    let (server, config) = server().await;
    let (told, mut events) = mpsc::unbounded_channel();
    let (a, a_run) = member(&config, "twin", "1.0.0", &told);
    assert_eq!(events.recv().await, Some(("twin", true)));
    let (b, b_run) = member(&config, "twin", "1.0.0", &told);
    let mut status = b.status();
    status.wait_for(|s| s.candidates.len() == 2).await.unwrap();
    assert!(a.is_leader() && !b.is_leader());
    assert_ne!(a.identity(), b.identity());
    b.shutdown();
    b_run.await.unwrap();
    a.shutdown();
    a_run.await.unwrap();
    server.shutdown().await;
}
