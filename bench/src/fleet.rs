//! Electors in this process, and what their terms tell.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use incumbent::{Elector, Handle, Profile};
use kube::Config;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What a term told: which member, and when by this process's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    Started { member: usize, at: Instant },
    Ended { at: Instant },
}

/// One elector.
pub(crate) struct Member {
    pub(crate) handle: Handle,
    run: JoinHandle<()>,
}

impl Member {
    /// Shuts it down and waits until it has.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.handle.shutdown();
        self.run.await.context("an elector panicked")
    }
}

/// Members of one lock.
pub(crate) struct Fleet {
    config: Config,
    lock: String,
    told: mpsc::UnboundedSender<Told>,
    pub(crate) events: mpsc::UnboundedReceiver<Told>,
}

impl Fleet {
    pub(crate) fn new(config: &Config, lock: &str) -> Fleet {
        let (told, events) = mpsc::unbounded_channel();
        Fleet { config: config.clone(), lock: lock.to_owned(), told, events }
    }

    /// Adds an elector whose work ends as soon as it is asked to.
    pub(crate) fn join(&self, member: usize, version: &str, settle: Duration) -> anyhow::Result<Member> {
        let elector = Elector::builder(self.config.clone(), self.lock.clone())
            .identity(format!("member-{member}"))
            .versions(version, None)
            .strategy("OldestEmulationVersion")
            .profile(Profile::Default)
            .settle(settle)
            .build()?;
        let handle = elector.handle();
        let told = self.told.clone();
        let work = Arc::new(move |term: incumbent::Term| {
            let told = told.clone();
            async move {
                // Nobody listens any more: the measurement is over.
                let _ = told.send(Told::Started { member, at: Instant::now() });
                term.cancelled().await;
                let _ = told.send(Told::Ended { at: Instant::now() });
                Ok::<(), std::io::Error>(())
            }
        });
        let run = tokio::spawn(async move { elector.run(move |term| work(term)).await });
        Ok(Member { handle, run })
    }

    /// Waits for the next start of a term; returns who, when, and when the one before ended, if that was seen.
    pub(crate) async fn next_start(&mut self) -> anyhow::Result<(usize, Instant, Option<Instant>)> {
        let mut ended = None;
        loop {
            let event = tokio::time::timeout(Duration::from_secs(60), self.events.recv())
                .await
                .context("nobody leads for a minute")?
                .context("all electors have ended")?;
            match event {
                Told::Started { member, at } => return Ok((member, at, ended)),
                Told::Ended { at } => ended = Some(at),
            }
        }
    }

    /// Waits until `n` candidates stand on the lock, as `member` sees it.
    pub(crate) async fn announced(&self, member: &Member, n: usize) -> anyhow::Result<()> {
        let mut status = member.handle.status();
        let all = status.wait_for(|s| s.candidates.iter().filter(|c| c.eligible).count() >= n);
        tokio::time::timeout(Duration::from_secs(30), all)
            .await
            .context("the candidates did not announce themselves")??;
        Ok(())
    }
}
