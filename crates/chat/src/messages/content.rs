//! What a message may hold.
//!
//! Always true: what passed here fits into both databases, and is as large as the options allow at most.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::options::MessageOptions;

/// Most users that one message mentions.
pub const MOST_MENTIONS: usize = 50;
/// Most bytes of what a client calls a message.
const MOST_CLIENT_ID: usize = 128;

/// A text and what was added to it, checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Content {
    pub(super) text: String,
    /// JSON.
    pub(super) metadata: Option<String>,
    pub(super) mentions: Vec<UserId>,
}

impl Content {
    /// Checks a text and its metadata.
    pub(super) fn check(
        text: String,
        metadata: Option<&Value>,
        options: &MessageOptions,
    ) -> Result<Self> {
        fits("the content", text.len(), options.max_content)?;
        if text.contains('\0') {
            return Err(invalid("`content` has a zero byte"));
        }
        let metadata = metadata.filter(|it| !it.is_null());
        if text.is_empty() && metadata.is_none() {
            return Err(invalid("`content` is empty and there is no `metadata`"));
        }
        let (metadata, mentions) = match metadata {
            Some(metadata) => {
                let (metadata, mentions) = added(metadata, options.max_metadata)?;
                (Some(metadata), mentions)
            }
            None => (None, Vec::new()),
        };
        Ok(Self {
            text,
            metadata,
            mentions,
        })
    }
}

/// The metadata as text, and who is mentioned in it.
fn added(metadata: &Value, most: usize) -> Result<(String, Vec<UserId>)> {
    let Value::Object(fields) = metadata else {
        return Err(invalid("`metadata` is no object"));
    };
    let text = metadata.to_string();
    fits("the metadata", text.len(), most)?;
    // JSON text has no control character as it is, and PostgreSQL takes no zero byte in a text.
    if text.contains("\\u0000") && has_zero(metadata) {
        return Err(invalid("`metadata` has a zero byte"));
    }
    let mentions = match fields.get("mentions") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(users)) => mentioned(users)?,
        Some(_) => return Err(invalid("`metadata.mentions` is no list of user ids")),
    };
    Ok((text, mentions))
}

fn mentioned(users: &[Value]) -> Result<Vec<UserId>> {
    if users.len() > MOST_MENTIONS {
        return Err(Error::TooMany {
            what: "mentions",
            given: users.len(),
            most: MOST_MENTIONS,
        });
    }
    let mut mentions = Vec::with_capacity(users.len());
    for user in users {
        let user = user.as_str();
        let user = user.ok_or_else(|| invalid("`metadata.mentions` is no list of user ids"))?;
        mentions.push(UserId::new(user)?);
    }
    mentions.sort_unstable();
    mentions.dedup();
    Ok(mentions)
}

fn has_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(has_zero),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains('\0') || has_zero(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Checks what a client calls a message.
pub(super) fn check_client_id(client_id: &str) -> Result<()> {
    let printable = !client_id.is_empty() && !client_id.chars().any(char::is_control);
    if !printable || client_id.len() > MOST_CLIENT_ID {
        let text = format!("`clientId` is not 1 to {MOST_CLIENT_ID} bytes of printable text");
        return Err(Error::InvalidRequest(text));
    }
    Ok(())
}

fn fits(what: &'static str, given: usize, most: usize) -> Result<()> {
    match given > most {
        true => Err(Error::ContentTooLarge { what, given, most }),
        false => Ok(()),
    }
}

fn invalid(text: &str) -> Error {
    Error::InvalidRequest(text.to_owned())
}
