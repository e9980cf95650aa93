//! What a message may hold.
//!
//! Always true: what passed here fits into both databases, and is as large as the options allow at most.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::options::MessageOptions;

/// Most users that one message mentions.
pub const MAX_MENTIONS: usize = 50;
/// Most bytes of what a client calls a message.
const MAX_CLIENT_ID_BYTES: usize = 128;

/// A text and what was added to it, checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ValidatedContent {
    pub(super) text: String,
    /// JSON.
    pub(super) metadata: Option<String>,
    pub(super) mentions: Vec<UserId>,
}

impl ValidatedContent {
    /// Checks a text and its metadata.
    pub(super) fn new(
        text: String,
        metadata: Option<&Value>,
        options: &MessageOptions,
    ) -> Result<Self> {
        check_size("the content", text.len(), options.max_content_bytes)?;
        if text.contains('\0') {
            return Err(invalid("`content` contains a NUL character; remove it"));
        }
        let metadata = metadata.filter(|it| !it.is_null());
        if text.is_empty() && metadata.is_none() {
            return Err(invalid(
                "`content` is empty and `metadata` is absent; give at least one of them",
            ));
        }
        let (metadata, mentions) = match metadata {
            Some(metadata) => {
                let (metadata, mentions) = validate_metadata(metadata, options.max_metadata_bytes)?;
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
fn validate_metadata(metadata: &Value, most: usize) -> Result<(String, Vec<UserId>)> {
    let Value::Object(fields) = metadata else {
        return Err(invalid("`metadata` must be a JSON object"));
    };
    let text = metadata.to_string();
    check_size("the metadata", text.len(), most)?;
    // JSON text has no control character as it is, and PostgreSQL takes no zero byte in a text.
    if text.contains("\\u0000") && contains_nul(metadata) {
        return Err(invalid("`metadata` contains a NUL character; remove it"));
    }
    let mentions = match fields.get("mentions") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(users)) => parse_mentions(users)?,
        Some(_) => return Err(invalid("`metadata.mentions` must be a list of user ids")),
    };
    Ok((text, mentions))
}

fn parse_mentions(users: &[Value]) -> Result<Vec<UserId>> {
    if users.len() > MAX_MENTIONS {
        return Err(Error::TooMany {
            items: "mentions",
            given: users.len(),
            max: MAX_MENTIONS,
        });
    }
    let mut mentions = Vec::with_capacity(users.len());
    for user in users {
        let user = user.as_str();
        let user = user.ok_or_else(|| invalid("`metadata.mentions` must be a list of user ids"))?;
        mentions.push(UserId::new(user)?);
    }
    mentions.sort_unstable();
    mentions.dedup();
    Ok(mentions)
}

fn contains_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(contains_nul),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains('\0') || contains_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Checks what a client calls a message.
pub(super) fn validate_client_id(client_id: &str) -> Result<()> {
    let printable = !client_id.is_empty() && !client_id.chars().any(char::is_control);
    if !printable || client_id.len() > MAX_CLIENT_ID_BYTES {
        let text = format!("`clientId` is not 1 to {MAX_CLIENT_ID_BYTES} bytes of printable text");
        return Err(Error::InvalidRequest(text));
    }
    Ok(())
}

fn check_size(part: &'static str, given: usize, max: usize) -> Result<()> {
    match given > max {
        true => Err(Error::ContentTooLarge { part, given, max }),
        false => Ok(()),
    }
}

fn invalid(text: &str) -> Error {
    Error::InvalidRequest(text.to_owned())
}
