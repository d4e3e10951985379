//! What happened, as text (if asked for) and as a digest (always).

use std::fmt::{Arguments, Write as _};

use crate::clock::Time;

/// The record of one run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    on: bool,
    text: String,
    digest: u64,
}

impl Trace {
    pub(crate) fn new(on: bool) -> Trace {
        Trace { on, text: String::new(), digest: 0xcbf2_9ce4_8422_2325 }
    }

    pub(crate) fn on(&self) -> bool {
        self.on
    }

    /// Adds a line; the caller asks [`Trace::on`] first, so that nothing is formatted in vain.
    pub(crate) fn line(&mut self, at: Time, what: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{:>10.4} {what}", at as f64 / 1e9);
    }

    /// Mixes a number into the digest.
    pub(crate) fn mix(&mut self, n: u64) {
        self.digest = (self.digest ^ n).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    pub(crate) fn finish(self) -> (String, u64) {
        (self.text, self.digest)
    }
}

/// Adds a line to the trace of a world, if there is one.
macro_rules! say {
    ($world:expr, $($what:tt)*) => {
        if $world.trace.on() {
            let at = $world.now;
            $world.trace.line(at, format_args!($($what)*));
        }
    };
}
pub(crate) use say;
