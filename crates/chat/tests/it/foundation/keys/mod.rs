//! Declarations, names and the generated reference of the keys.

mod builders;
mod declarations;
mod matching;
mod reference;
mod schema_document;
mod settings;
