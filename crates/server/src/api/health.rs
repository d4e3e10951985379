//! `/healthz`, `/livez`, `/readyz`.

use http::StatusCode;

use super::query::Query;
use super::{Answer, Api, text};

/// Whether the store still answers.
pub(super) async fn answer(api: &Api, check: &str, query: &Query) -> Answer {
    match api.store.revision().await {
        Ok(_) if query.flag("verbose") => {
            text(StatusCode::OK, format!("[+]ping ok\n[+]store ok\n{check} check passed\n"))
        }
        Ok(_) => text(StatusCode::OK, "ok"),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("[+]ping ok\n[-]store failed: {error}\n{check} check failed\n"),
        ),
    }
}
