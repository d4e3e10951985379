//! A kube-rs controller that runs on one replica at a time.
//!
//! Start it twice against any cluster, then end the one that leads: the other one goes on.
//!
//! ```console
//! $ cargo run -p incumbent --features rustls-tls --example controller
//! ```

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use incumbent::{Elector, Term};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::Action;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Config};

/// What a reconcile needs. It belongs to one term.
struct Context {
    term: Term,
}

async fn reconcile(object: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, kube::Error> {
    // The clock may say that another process leads by now.
    if context.term.is_leader() {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        println!("reconciling {name} with token {}", context.term.fencing_token());
    }
    Ok(Action::requeue(Duration::from_secs(300)))
}

fn retry(_: Arc<ConfigMap>, error: &kube::Error, _: Arc<Context>) -> Action {
    eprintln!("{error}");
    Action::requeue(Duration::from_secs(5))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::infer().await?;
    let client = Client::try_from(config.clone())?;
    let elector = Elector::builder(config, "incumbent-example")
        .versions(env!("CARGO_PKG_VERSION"), None)
        .strategy("OldestEmulationVersion")
        .build()?;
    let interrupted = async {
        // Without a handler there is nothing to wait for: then the process ends as any other does.
        let _ = tokio::signal::ctrl_c().await;
    };
    elector
        .run_until(interrupted, move |term| {
            // A factory: every term has a controller, caches and a context of its own.
            let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
            async move {
                let stop = term.clone();
                let context = Arc::new(Context { term });
                Controller::new(maps, watcher::Config::default())
                    .graceful_shutdown_on(async move { stop.cancelled().await })
                    .run(reconcile, retry, context)
                    .for_each(|_| async {})
                    .await;
                Ok::<(), kube::Error>(())
            }
        })
        .await;
    Ok(())
}
