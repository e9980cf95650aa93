//! What conversations and members can be, by the words of rows and JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! text_enum {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        // Not word by word, which the schema would not see through the macro.
        #[serde(rename_all = "snake_case")]
        pub enum $type {
            $($(#[$doc])* $variant,)+
        }

        impl $type {
            /// The word in rows and JSON.
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

/// A row has a word that this program does not know.
#[derive(Debug, thiserror::Error)]
#[error("unknown value {0:?}")]
pub struct UnknownEnumText(String);

text_enum! {
    /// What kind of conversation it is.
    pub enum ConversationKind {
        /// Of two people, for good; there is one for each pair.
        Direct = "direct",
        /// Of any number of people.
        Group = "group",
        /// Of somebody with a question and those who answer.
        Support = "support",
    }
}

text_enum! {
    /// What members see of the time before they joined.
    pub enum History {
        /// Everything.
        All = "all",
        /// Nothing.
        SinceJoin = "since_join",
    }
}

text_enum! {
    /// How much a support conversation presses.
    pub enum Priority {
        /// First.
        Urgent = "urgent",
        /// Before the usual.
        High = "high",
        /// As usual.
        Normal = "normal",
        /// Last.
        Low = "low",
    }
}

text_enum! {
    /// What a member may do.
    pub enum MemberRole {
        /// Everything, also delete the conversation and make owners.
        Owner = "owner",
        /// Change the conversation and its members, but not its owners.
        Admin = "admin",
        /// Read and write.
        Member = "member",
    }
}
