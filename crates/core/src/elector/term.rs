//! Terms: starting and stopping the user's work, in order (docs/protocol.md §3, §4).

use super::{Command, Elector, StopReason, TermStart, TermStop, Validity, WorkEnd};
use crate::tenure::Appointed;
use crate::time::Instant;
use crate::token::FencingToken;

/// A term whose work may still live.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) number: u64,
    pub(super) validity: Validity,
    pub(super) stopping: Option<StopReason>,
    kill_at: Option<Instant>,
    aborted: bool,
}

impl Term {
    pub(super) fn leads(&self, now: Instant) -> bool {
        self.stopping.is_none() && now < self.validity.until
    }

    /// Whether the term was lost: nothing extends it any more.
    pub(super) fn lost(&self) -> bool {
        self.stopping.is_some_and(StopReason::is_loss)
    }
}

impl Elector {
    /// Starts a term if nothing forbids it.
    pub(super) fn start_term(&mut self) {
        // What contradicted us is judged before work starts.
        if self.sync.must_read
            || self.term.is_some()
            || self.exit.is_some()
            || self.shutdown.is_some()
            || !self.contends()
        {
            return;
        }
        let timing = &self.config.timing;
        let now = self.now.mono;
        let Some(tenure) = &mut self.tenure else { return };
        let (Some(s), Some(written), true, false) =
            (tenure.renewed, tenure.written, tenure.fresh, tenure.exit_unknown)
        else {
            return;
        };
        if !tenure.valid(now, timing.renew_deadline()) {
            return;
        }
        // Work of a holder of ours may still live: only its own word that it has ended excepts.
        if tenure.appointed != Appointed::Transfer
            && self.view.guarded(now)
            && !fault!(self.config, ObeyAtOnce)
        {
            if let Some(guard) = self.view.guard() {
                self.wake_at(guard);
            }
            return;
        }
        let validity = Validity { until: s + timing.renew_deadline(), hard_end: s + timing.hard_end() };
        if validity.until.since(now) < timing.retry_period() {
            // So little is left that work would be cancelled as soon as it started: renew first.
            self.renew_at = now;
            return;
        }
        self.terms += 1;
        let number = self.terms;
        self.term = Some(Term { number, validity, stopping: None, kill_at: None, aborted: false });
        self.own.term_began();
        self.wake_at(validity.until);
        self.handover.reset();
        self.out.push(Command::StartTerm(TermStart { number, token: FencingToken::new(written), validity }));
    }

    /// A renewal counts: the term, if work of one lives and it was not lost, is valid for longer.
    pub(super) fn extend_term(&mut self) {
        let Some(s) = self.tenure.as_ref().and_then(|t| t.renewed) else { return };
        let timing = &self.config.timing;
        let Some(term) = &mut self.term else { return };
        if term.lost() && !fault!(self.config, NoHardEnd) && !fault!(self.config, LateAckRevives) {
            return;
        }
        if fault!(self.config, LateAckRevives) && term.stopping == Some(StopReason::RenewDeadline) {
            term.stopping = None;
        }
        let validity = Validity { until: s + timing.renew_deadline(), hard_end: s + timing.hard_end() };
        if validity > term.validity {
            term.validity = validity;
            self.out.push(Command::Extend(validity));
        }
    }

    /// Ends what time has ended: the term at its deadline, its work at the hard end.
    pub(super) fn guard_term(&mut self) {
        let now = self.now.mono;
        let Some(term) = &self.term else { return };
        if now >= term.validity.until && !term.lost() {
            self.stop_term(StopReason::RenewDeadline);
        }
        let Some(term) = &mut self.term else { return };
        if !term.lost() {
            let until = term.validity.until;
            self.wake_at(until);
        } else if now < term.validity.hard_end {
            let hard_end = term.validity.hard_end;
            self.wake_at(hard_end);
        } else if !term.aborted {
            term.aborted = true;
            self.out.push(Command::Abort);
        }
    }

    /// Cancels the term, or turns a planned stop into a loss. Asked twice is stopped once.
    pub(super) fn stop_term(&mut self, reason: StopReason) {
        let timing = &self.config.timing;
        let now = self.now.mono;
        let Some(term) = &mut self.term else { return };
        match term.stopping {
            Some(_) if !reason.is_loss() => return,
            Some(before) if before.is_loss() => return,
            _ => {}
        }
        let kill_at = if reason.is_loss() {
            let by_deadline = term.validity.until + timing.stop_grace();
            (now + timing.stop_grace()).min(by_deadline).min(term.kill_at.unwrap_or(by_deadline))
        } else {
            now + timing.drain_timeout()
        };
        term.stopping = Some(reason);
        term.kill_at = Some(kill_at);
        let number = term.number;
        self.out.push(Command::StopTerm(TermStop { number, reason, kill_at }));
        if !reason.is_loss() {
            // Renewals and pings go on while work ends.
            self.handover.ping_now();
            if fault!(self.config, ReleaseBeforeWorkEnds) {
                self.plan_exit();
            }
        }
    }

    /// All work of the term has ended.
    pub(super) fn work_ended(&mut self, how: WorkEnd) {
        if self.term.is_none() {
            return;
        }
        self.stop_term(StopReason::WorkEnded);
        let Some(term) = self.term.take() else { return };
        self.work_ended_at = self.now.mono;
        let reason = term.stopping.unwrap_or(StopReason::WorkEnded);
        if let Some(tenure) = &mut self.tenure {
            tenure.fresh = false;
        }
        self.own.term_ended();
        let failed = how == WorkEnd::Failed || matches!(reason, StopReason::WorkEnded | StopReason::Transfer);
        if failed && !fault!(self.config, NoBackoff) {
            self.hold_back = Some(self.now.mono + self.config.timing.retry_period() * 2);
        }
        if !reason.is_loss() || self.shutdown.is_some() || self.hold_back.is_some() {
            self.plan_exit();
        } else {
            self.renew_at = self.now.mono;
        }
    }
}
