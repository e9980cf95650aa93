//! Enums of conversations and members, with their texts in rows and JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! text_enum {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        // Not `rename` per variant: the schema derive cannot see it through the macro.
        #[serde(rename_all = "snake_case")]
        pub enum $type {
            $($(#[$doc])* $variant,)+
        }

        impl $type {
            /// Text in rows and JSON.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl TryFrom<String> for $type {
            type Error = UnknownEnumText;

            fn try_from(word: String) -> Result<Self, UnknownEnumText> {
                match word.as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(UnknownEnumText(word)),
                }
            }
        }
    };
}

/// A row has an enum text that this program does not know.
#[derive(Debug, thiserror::Error)]
#[error("unknown value {0:?}")]
pub struct UnknownEnumText(String);

text_enum! {
    /// Kind of a conversation.
    pub enum ConversationKind {
        /// Conversation of two users. It exists once per pair, and its members never change.
        Direct = "direct",
        /// Conversation of any number of users.
        Group = "group",
        /// Conversation of a user with the agents who answer.
        Support = "support",
    }
}

text_enum! {
    /// Whether members see messages that were sent before they joined.
    pub enum History {
        /// Members see all messages.
        All = "all",
        /// Members only see messages that were sent after they joined.
        SinceJoin = "since_join",
    }
}

text_enum! {
    /// Priority of a support conversation.
    pub enum Priority {
        /// Highest priority.
        Urgent = "urgent",
        /// Above `normal`.
        High = "high",
        /// Usual priority.
        Normal = "normal",
        /// Lowest priority.
        Low = "low",
    }
}

text_enum! {
    /// Role of a member.
    pub enum MemberRole {
        /// May do everything, including to delete the conversation and to change owners.
        Owner = "owner",
        /// May change the conversation and its members, but not its owners.
        Admin = "admin",
        /// May read and write messages.
        Member = "member",
    }
}
