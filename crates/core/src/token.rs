//! Fencing tokens.

use std::fmt;

use crate::record::Revision;

/// A number that rises with every term of a lock: the resourceVersion of the acknowledged write that began it.
///
/// It rises across deletion and re-creation of the Lease and across restarts of the server, which a counter
/// inside the Lease would not; it does not rise across a restore of the store from a backup, unless the
/// store's revision is raised. Whoever guards a resource keeps the highest token seen per lock and refuses
/// lower ones: a lease alone cannot exclude a process that was paused between its last check and its write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FencingToken(Revision);

impl FencingToken {
    pub(crate) fn new(revision: Revision) -> Self {
        FencingToken(revision)
    }

    /// The number to send along with guarded requests.
    pub fn as_u64(self) -> u64 {
        self.0.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
