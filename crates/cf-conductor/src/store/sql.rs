//! How the words and numbers of the domain stand in rows. Nothing else knows.

use std::time::Duration;

use cf_core::Timestamp;
use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Row, RowIndex};

/// Reads a column that holds a word or an id.
///
/// Columns are named everywhere but on paths that read thousands of rows, where looking the name up is what costs.
pub(crate) fn parsed<T>(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text = row
        .get_ref(column)?
        .as_str()
        .map_err(|_| wrong_type(row, column))?;
    text.parse()
        .map_err(|error: T::Err| broken(row, column, error))
}

/// The same for a column that may be null.
pub(crate) fn parsed_opt<T>(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Option<T>>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    match row
        .get_ref(column)?
        .as_str_or_null()
        .map_err(|_| wrong_type(row, column))?
    {
        None => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|error: T::Err| broken(row, column, error)),
    }
}

/// Reads a time.
pub(crate) fn time(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Timestamp> {
    let ms: i64 = row.get(column)?;
    Timestamp::from_millisecond(ms).map_err(|error| broken(row, column, error))
}

/// Reads a time that may be null.
pub(crate) fn time_opt(
    row: &Row<'_>,
    column: impl RowIndex,
) -> rusqlite::Result<Option<Timestamp>> {
    let ms: Option<i64> = row.get(column)?;
    ms.map(|ms| Timestamp::from_millisecond(ms).map_err(|error| broken(row, column, error)))
        .transpose()
}

/// Reads a duration in milliseconds that may be null.
pub(crate) fn duration_opt(
    row: &Row<'_>,
    column: impl RowIndex,
) -> rusqlite::Result<Option<Duration>> {
    let ms: Option<i64> = row.get(column)?;
    Ok(ms
        .and_then(|ms| u64::try_from(ms).ok())
        .map(Duration::from_millis))
}

/// Reads JSON.
pub(crate) fn json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: impl RowIndex,
) -> rusqlite::Result<T> {
    let text = row
        .get_ref(column)?
        .as_str()
        .map_err(|_| wrong_type(row, column))?;
    serde_json::from_str(text).map_err(|error| broken(row, column, error))
}

/// Reads JSON that may be null.
pub(crate) fn json_opt<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: impl RowIndex,
) -> rusqlite::Result<Option<T>> {
    match row
        .get_ref(column)?
        .as_str_or_null()
        .map_err(|_| wrong_type(row, column))?
    {
        None => Ok(None),
        Some(text) => serde_json::from_str(text)
            .map(Some)
            .map_err(|error| broken(row, column, error)),
    }
}

/// A duration as whole milliseconds, as stored.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A value as JSON text, as stored.
pub(crate) fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value)
        .expect("values of the domain have no maps with keys that are not text")
}

fn index(row: &Row<'_>, column: impl RowIndex) -> usize {
    column.idx(row.as_ref()).unwrap_or(0)
}

fn wrong_type(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Error {
    broken(row, column, FromSqlError::InvalidType)
}

fn broken(
    row: &Row<'_>,
    column: impl RowIndex,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(index(row, column), Type::Text, Box::new(error))
}
