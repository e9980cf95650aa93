//! Placeholders mark where the attachments belong in the JSON of a packet: `{"_placeholder":true,"num":0}`.

use serde_json::Value;

use super::socket_io::SocketIoPacketError;

/// Checks that every placeholder in the JSON of a binary packet refers to one of its attachments. JSON that is nested
/// deeper than 128 levels is rejected.
///
/// # Errors
/// A placeholder refers to an unknown attachment, or the text is not JSON.
pub fn check_placeholders(json: &str, attachments: usize) -> Result<(), SocketIoPacketError> {
    match serde_json::from_str(json) {
        Ok(value) if refers_to_attachments(&value, attachments) => Ok(()),
        _ => Err(SocketIoPacketError::UnknownPlaceholder),
    }
}

fn refers_to_attachments(value: &Value, attachments: usize) -> bool {
    match value {
        Value::Object(fields) => {
            let is_placeholder = fields.get("_placeholder") == Some(&Value::Bool(true));
            let number = fields.get("num").and_then(Value::as_u64);
            (!is_placeholder || number.is_some_and(|number| number < attachments as u64))
                && fields
                    .values()
                    .all(|field| refers_to_attachments(field, attachments))
        }
        Value::Array(elements) => elements
            .iter()
            .all(|element| refers_to_attachments(element, attachments)),
        _ => true,
    }
}
