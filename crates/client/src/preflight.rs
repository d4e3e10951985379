//! Finding out whether an election can work at all, before anything depends on it.

use std::time::Duration;

use futures::future::BoxFuture;
use incumbent_core::{LockName, Outcome, Refusal};

use crate::api::LeaseApi;

/// Why an election cannot work here.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PreflightError(String);

/// One read, and one write that is only rehearsed. `patience` is for each.
pub(crate) async fn preflight(
    api: &dyn LeaseApi,
    lock: &LockName,
    patience: Duration,
) -> Result<(), PreflightError> {
    let limited = async |what: &str, answer: BoxFuture<'static, Outcome>| {
        tokio::time::timeout(patience, answer).await.map_err(|_| {
            api.gave_up();
            PreflightError(format!(
                "the API server did not answer within {patience:?} when asked to {what} lease {lock}"
            ))
        })
    };
    let judge = |what: &str, outcome: Outcome| match outcome {
        Outcome::Ok(record) => Ok(Some(record)),
        Outcome::NotFound | Outcome::Conflict => Ok(None),
        Outcome::Refused { refusal: Refusal::NotSent, message, .. } => {
            Err(PreflightError(format!("the API server cannot be reached: {message}")))
        }
        Outcome::Refused { refusal: Refusal::NoNamespace, .. } => {
            Err(PreflightError(format!("namespace {:?} does not exist", lock.namespace())))
        }
        Outcome::Refused { refusal: Refusal::Throttled, .. } => Ok(None),
        Outcome::Refused { message, .. } => {
            Err(PreflightError(format!("no permission to {what} lease {lock}: {message}")))
        }
        Outcome::Unknown { message, .. } => {
            Err(PreflightError(format!("the API server failed when asked to {what} lease {lock}: {message}")))
        }
    };
    let present = judge("get", limited("get", api.read()).await?)?;
    let what = if present.is_some() { "update" } else { "create" };
    let rehearsed = limited(what, api.rehearse(present)).await?;
    judge(what, rehearsed).map(drop)
}
