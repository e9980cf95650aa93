//! Values of fields: times, numbers, and fields that only one kind of file has.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::{Serialize, Serializer};

use super::error::{LineProblem, LineResult};
use crate::clock::Timestamp;
use crate::database::copy::CellValue;
use crate::database::{from_db_integer, to_db_integer};
use crate::messages::MAX_SEQ;

/// Last millisecond of the year 9999, after which ISO 8601 cannot show a time.
const MAX_TIME_MS: u64 = 253_402_300_799_999;

/// A time: written as ISO 8601, read as ISO 8601 or as milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime(pub Timestamp);

impl FileTime {
    /// The time in the database.
    pub(super) fn to_db(self) -> i64 {
        to_db_integer(self.0.as_millis())
    }

    /// The time of a column.
    pub(super) fn from_db(ms: i64) -> Self {
        Self(Timestamp(from_db_integer(ms)))
    }

    /// The time of a column in which 0 means that there is none.
    pub(super) fn from_db_nonzero(ms: i64) -> Option<Self> {
        (ms > 0).then(|| Self::from_db(ms))
    }
}

impl fmt::Display for FileTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_iso8601())
    }
}

impl Serialize for FileTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TimeVisitor)
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = FileTime;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a time: ISO 8601 with a zone, such as \"2026-01-31T12:00:00.000Z\", or milliseconds since 1970",
        )
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<FileTime, E> {
        let time = Timestamp::parse_iso8601(text);
        let time = time.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))?;
        self.visit_u64(time.as_millis())
    }

    fn visit_u64<E: serde::de::Error>(self, ms: u64) -> Result<FileTime, E> {
        match ms <= MAX_TIME_MS {
            true => Ok(FileTime(Timestamp(ms))),
            false => Err(E::custom("the time is after the year 9999")),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, ms: i64) -> Result<FileTime, E> {
        let ms = u64::try_from(ms).map_err(|_| E::custom("the time is before 1970"))?;
        self.visit_u64(ms)
    }
}

/// A position in a conversation or a version: a whole number below 2^52.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
pub struct FileNumber(pub u64);

impl<'de> Deserialize<'de> for FileNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            number if number < MAX_SEQ => Ok(Self(number)),
            number => Err(D::Error::custom(format!("{number} is too large"))),
        }
    }
}

impl FileNumber {
    pub(super) fn to_db(self) -> i64 {
        to_db_integer(self.0)
    }

    pub(super) fn from_db(number: i64) -> Self {
        Self(from_db_integer(number))
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

/// A field that each line of a file that Parlor exported has.
pub(super) fn required<T: Clone>(field: &Option<T>, name: &str) -> LineResult<T> {
    field.clone().ok_or_else(|| {
        let text = "the field is missing; a file with a line of the type `parlor` must contain everything that Parlor exported";
        LineProblem::new(name, text)
    })
}

/// A field that only files have that Parlor exported.
pub(super) fn must_be_absent<T>(field: &Option<T>, name: &str) -> LineResult<()> {
    match field {
        None => Ok(()),
        Some(_) => Err(LineProblem::new(
            name,
            "only a file that Parlor exported has this field; remove the field",
        )),
    }
}

/// Reads the cells of a row in the order of the columns.
pub(super) struct CellReader(std::vec::IntoIter<CellValue>);

impl CellReader {
    pub(super) fn new(row: Vec<CellValue>) -> Self {
        Self(row.into_iter())
    }

    pub(super) fn optional_text(&mut self) -> Option<String> {
        match self.0.next() {
            Some(CellValue::Text(text)) => text,
            _ => None,
        }
    }

    pub(super) fn text(&mut self) -> String {
        self.optional_text().unwrap_or_default()
    }

    pub(super) fn optional_number(&mut self) -> Option<i64> {
        match self.0.next() {
            Some(CellValue::Number(number)) => number,
            _ => None,
        }
    }

    pub(super) fn number(&mut self) -> i64 {
        self.optional_number().unwrap_or_default()
    }
}

/// A cell with a text.
pub(super) fn text(text: impl Into<String>) -> CellValue {
    CellValue::Text(Some(text.into()))
}

/// A cell with a text, or NULL.
pub(super) fn optional_text(text: Option<impl Into<String>>) -> CellValue {
    CellValue::Text(text.map(Into::into))
}

/// A cell with a number.
pub(super) fn number(number: i64) -> CellValue {
    CellValue::Number(Some(number))
}
