//! Validation of the content of a message.
//!
//! Invariants:
//! 1. Validated content can be stored in both databases.
//! 2. Validated content is not larger than [`MessageOptions`] allows.

use serde_json::Value;

use crate::api::error::{Error, Result};
use crate::ids::UserId;
use crate::options::MessageOptions;

/// Maximum number of mentions in a message.
pub const MAX_MENTIONS: usize = 50;
/// Maximum length of a client id in bytes.
const MAX_CLIENT_ID_BYTES: usize = 128;

/// Validated text, metadata and mentions of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ValidatedContent {
    pub(crate) text: String,
    /// JSON text.
    pub(crate) metadata: Option<String>,
    pub(crate) mentions: Vec<UserId>,
}

impl ValidatedContent {
    /// Validates text and metadata. Metadata that is `null` counts as absent.
    pub(crate) fn new(
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

/// Validates metadata. Returns it as JSON text, with the users that it mentions.
fn validate_metadata(metadata: &Value, most: usize) -> Result<(String, Vec<UserId>)> {
    let Value::Object(fields) = metadata else {
        return Err(invalid("`metadata` must be a JSON object"));
    };
    let text = metadata.to_string();
    check_size("the metadata", text.len(), most)?;
    // JSON text contains a NUL only as the escape `\u0000`, which PostgreSQL cannot convert to a text value.
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

/// Validates a client id.
pub(crate) fn validate_client_id(client_id: &str) -> Result<()> {
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
