//! Classes of store errors: unavailable, full, or rejected.
//!
//! Invariants:
//! 1. An error that Redis wraps in another one has the class of the wrapped error.
//! 2. The error of a pipeline has the class that passes by itself, if one of its commands has one: first unavailable,
//!    then full. A command that was rejected as well is rejected again later.

use redis::{ErrorKind, RedisError, ServerError, ServerErrorKind};

/// Class of a store error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreErrorClass {
    /// The store is unreachable or not ready. Retry later (`503 store_unavailable`).
    Unavailable,
    /// The store has no memory or disk space left (`507 store_full`).
    Full,
    /// The store rejected the request: wrong type, invalid arguments, an error of a script. A retry does not help.
    Rejected,
}

/// Classifies an error of the store.
///
/// `MISCONF` is [`StoreErrorClass::Full`]: the server rejects writes because it cannot persist them, which in practice
/// means a full disk.
pub fn classify_error(error: &RedisError) -> StoreErrorClass {
    match error.kind() {
        ErrorKind::Io
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::AuthenticationFailed
        | ErrorKind::Parse => StoreErrorClass::Unavailable,
        ErrorKind::Server(ServerErrorKind::ExecAbort) => classify_exec_abort(error),
        _ => {
            let classes = server_errors(error);
            let classes = classes.iter().map(|error| classify_code(error_code(error)));
            let class = classes.min().or_else(|| error.code().map(classify_code));
            class.unwrap_or(StoreErrorClass::Rejected)
        }
    }
}

/// A transaction that was rejected while its commands were queued has the class of its first rejected command. A
/// transaction that was rejected at `EXEC` has the class of the reason in its text.
fn classify_exec_abort(error: &RedisError) -> StoreErrorClass {
    let errors = server_errors(error);
    let first = errors.first().map(|error| classify_code(error_code(error)));
    first.unwrap_or_else(|| classify_code(wrapped_code("EXECABORT", error.detail())))
}

/// The error replies of the server in an error: none, one, or several of a transaction.
pub(crate) fn server_errors(error: &RedisError) -> Vec<ServerError> {
    let errors = error.clone().into_server_errors().unwrap_or_default();
    errors.iter().map(|(_, error)| error.clone()).collect()
}

/// Code of an error reply. If the server wraps another error, the code of that error.
pub(crate) fn error_code(error: &ServerError) -> &str {
    wrapped_code(error.code(), error.details())
}

/// The wrapped code in `ERR Error running script (…): @user_script: 1: -OOM …` (Redis before 7.0) and in `EXECABORT
/// Transaction discarded because of: OOM …`.
fn wrapped_code<'a>(code: &'a str, detail: Option<&'a str>) -> &'a str {
    let separator = match (code, detail) {
        ("ERR", Some(detail)) if detail.starts_with("Error running script") => ": -",
        ("EXECABORT", _) => "because of: ",
        _ => return code,
    };
    let wrapped = detail.and_then(|detail| detail.split_once(separator));
    let wrapped = wrapped.and_then(|(_, cause)| cause.split(' ').next());
    wrapped.unwrap_or(code)
}

fn classify_code(code: &str) -> StoreErrorClass {
    match code {
        "LOADING" | "READONLY" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" | "BUSY"
        | "NOREPLICAS" | "MOVED" | "ASK" | "UNBLOCKED" | "NOMASTERLINK" => {
            StoreErrorClass::Unavailable
        }
        "OOM" | "MISCONF" => StoreErrorClass::Full,
        _ => StoreErrorClass::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> StoreErrorClass {
        let value =
            redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("a valid reply");
        classify_error(&value.extract_error().expect_err("an error reply"))
    }

    #[test]
    fn redis_errors_are_classified_as_unavailable_full_or_rejected() {
        for text in [
            "LOADING Redis is loading",
            "READONLY You can't",
            "CLUSTERDOWN Hash slot",
            "TRYAGAIN",
            "BUSY Redis",
            "ERR Error running script (call to f_e0e1): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.",
        ] {
            assert_eq!(reply(text), StoreErrorClass::Unavailable, "{text}");
        }
        for text in [
            "OOM command not allowed",
            "MISCONF Redis is configured to save RDB snapshots",
            "ERR Error running script (call to f_e0e1): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.",
            "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.",
        ] {
            assert_eq!(reply(text), StoreErrorClass::Full, "{text}");
        }
        for text in [
            "ERR syntax error",
            "WRONGTYPE Operation",
            "NOSCRIPT No",
            "NOPERM no",
            "CROSSSLOT Keys",
            "ERR Error running script (call to f_e0e1): @user_script:1: WRONGTYPE Operation",
            "EXECABORT Transaction discarded because of previous errors.",
        ] {
            assert_eq!(reply(text), StoreErrorClass::Rejected, "{text}");
        }
    }

    #[test]
    fn a_broken_connection_is_unavailable() {
        let error = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(classify_error(&error.into()), StoreErrorClass::Unavailable);
        assert_eq!(
            classify_error(&(ErrorKind::Io, "store unavailable").into()),
            StoreErrorClass::Unavailable
        );
    }
}
