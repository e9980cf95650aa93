//! Constructors for replies of commands.

use redis::Value;

use crate::numbers::format_score;

/// `+OK`.
pub const OK: Value = Value::Okay;
/// The null bulk string.
pub const NIL: Value = Value::Nil;

pub fn bulk(bytes: impl Into<Vec<u8>>) -> Value {
    Value::BulkString(bytes.into())
}

pub fn bulk_or_nil(bytes: Option<impl AsRef<[u8]>>) -> Value {
    bytes.map_or(NIL, |bytes| bulk(bytes.as_ref()))
}

/// Integer reply from a count.
pub fn integer(n: usize) -> Value {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Integer reply 1 or 0.
pub fn flag(yes: bool) -> Value {
    Value::Int(i64::from(yes))
}

/// A score as a bulk string, as in RESP2.
pub fn score_bulk(score: f64) -> Value {
    bulk(format_score(score))
}

/// An array.
pub fn array(items: impl IntoIterator<Item = Value>) -> Value {
    Value::Array(items.into_iter().collect())
}

pub fn bulk_array(items: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Value {
    array(items.into_iter().map(|item| bulk(item.as_ref())))
}

/// Reply of one step of a scan command.
pub fn scan_page(cursor: u64, items: Vec<Value>) -> Value {
    array([bulk(cursor.to_string()), array(items)])
}
