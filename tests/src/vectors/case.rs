//! A case as it stands in a file, and access to its fields by name and type.

use std::fmt;

use serde_json::{Map, Value};

/// The fields of a case; the last three are for readers.
const CASE_FIELDS: &[&str] = &[
    "id", "kind", "inputs", "expected", "policy", "reports", "formula", "note",
];

/// Computed outputs by name.
pub type Outputs = Map<String, Value>;

/// Why a case did not pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// No code for this kind.
    UnknownKind(String),
    /// A field that its place does not have: the place, the field.
    Unknown(&'static str, String),
    /// A field that its place needs: the place, the field.
    Missing(&'static str, String),
    /// A field of another type or range: the place, the field, what it should
    /// be, what it is.
    NotA(&'static str, String, &'static str, Value),
    /// The inputs belong to no such case, or the code under test contradicts
    /// itself.
    Impossible(String),
    /// The outputs differ: expected, computed.
    Mismatch(Outputs, Outputs),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(f, "unknown kind '{kind}'"),
            Self::Unknown(place, field) => write!(f, "unknown {place} '{field}'"),
            Self::Missing(place, field) => write!(f, "missing {place} '{field}'"),
            Self::NotA(place, field, wanted, value) => {
                write!(f, "{place} '{field}' is no {wanted}: {value}")
            }
            Self::Impossible(reason) => f.write_str(reason),
            Self::Mismatch(expected, got) => write!(
                f,
                "expected {}, got {}",
                Value::Object(expected.clone()),
                Value::Object(got.clone())
            ),
        }
    }
}

impl std::error::Error for Failure {}

/// One case of a file.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, unique in its file; `?` if it has none.
    pub id: String,
    /// What it is a case of; `?` if that is not said.
    pub kind: String,
    fields: Value,
}

/// The two halves of a well-formed case.
#[derive(Debug)]
pub struct Form<'a> {
    /// What the formula is given.
    pub inputs: Fields<'a>,
    /// What it has to give.
    pub expected: Fields<'a>,
}

impl Case {
    /// The case that `fields` describes, well-formed or not.
    #[must_use]
    pub fn new(fields: &Value) -> Self {
        let text = |name| {
            fields
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or("?")
                .to_owned()
        };
        Self {
            id: text("id"),
            kind: text("kind"),
            fields: fields.clone(),
        }
    }

    /// Its two halves.
    ///
    /// # Errors
    ///
    /// [`Failure`] that names a field which is missing, unknown or of
    /// another type.
    pub fn form(&self) -> Result<Form<'_>, Failure> {
        let Value::Object(map) = &self.fields else {
            return Err(Failure::Impossible(format!("no case but {}", self.fields)));
        };
        let case = Fields {
            map,
            place: "field",
        };
        case.only(CASE_FIELDS)?;
        case.text("id")?;
        case.text("kind")?;
        Ok(Form {
            inputs: case.object("inputs")?.placed("input"),
            expected: case.object("expected")?.placed("expected field"),
        })
    }
}

/// Named values of one place in a case.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    map: &'a Map<String, Value>,
    place: &'static str,
}

impl<'a> Fields<'a> {
    /// The same fields under another name for their place.
    const fn placed(self, place: &'static str) -> Self {
        Self { place, ..self }
    }

    /// Refuses fields other than `known`.
    ///
    /// # Errors
    ///
    /// [`Failure::Unknown`] with the first of them.
    pub fn only(&self, known: &[&str]) -> Result<(), Failure> {
        match self.map.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(Failure::Unknown(self.place, key.clone())),
        }
    }

    /// Compares with what was computed.
    ///
    /// # Errors
    ///
    /// [`Failure::Missing`] where only a field is lacking,
    /// [`Failure::Mismatch`] otherwise.
    pub fn compare(&self, got: &Outputs) -> Result<(), Failure> {
        if self.map == got {
            return Ok(());
        }
        let agree = self
            .map
            .iter()
            .all(|(name, value)| got.get(name) == Some(value));
        match got.keys().find(|&name| !self.map.contains_key(name)) {
            Some(name) if agree => Err(Failure::Missing(self.place, name.clone())),
            _ => Err(Failure::Mismatch(self.map.clone(), got.clone())),
        }
    }

    /// Whether there is a field `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// The field `name` as `wanted`, which `convert` makes of it.
    fn get<T>(
        &self,
        name: &str,
        wanted: &'static str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, Failure> {
        let value = self
            .map
            .get(name)
            .ok_or_else(|| Failure::Missing(self.place, name.to_owned()))?;
        convert(value)
            .ok_or_else(|| Failure::NotA(self.place, name.to_owned(), wanted, value.clone()))
    }

    /// A `u64`.
    ///
    /// # Errors
    ///
    /// [`Failure`] that names the field, as for all types.
    pub fn u64(&self, name: &str) -> Result<u64, Failure> {
        self.get(name, "u64", Value::as_u64)
    }

    /// A `u32`.
    ///
    /// # Errors
    ///
    /// As for `u64`.
    pub fn u32(&self, name: &str) -> Result<u32, Failure> {
        self.get(name, "u32", |value| value.as_u64()?.try_into().ok())
    }

    /// A `u16`.
    ///
    /// # Errors
    ///
    /// As for `u64`.
    pub fn u16(&self, name: &str) -> Result<u16, Failure> {
        self.get(name, "u16", |value| value.as_u64()?.try_into().ok())
    }

    /// An `i64`.
    ///
    /// # Errors
    ///
    /// As for `u64`.
    pub fn i64(&self, name: &str) -> Result<i64, Failure> {
        self.get(name, "i64", Value::as_i64)
    }

    /// An `i32`.
    ///
    /// # Errors
    ///
    /// As for `u64`.
    pub fn i32(&self, name: &str) -> Result<i32, Failure> {
        self.get(name, "i32", |value| value.as_i64()?.try_into().ok())
    }

    /// A truth value.
    ///
    /// # Errors
    ///
    /// As for `u64`.
    pub fn bool(&self, name: &str) -> Result<bool, Failure> {
        self.get(name, "truth value", Value::as_bool)
    }

    /// A truth value that may be left out.
    ///
    /// # Errors
    ///
    /// As for `u64`, except that a missing one is none.
    pub fn optional_bool(&self, name: &str) -> Result<Option<bool>, Failure> {
        self.has(name).then(|| self.bool(name)).transpose()
    }

    /// A string.
    ///
    /// # Errors
    ///
    /// As for `u64`.
    pub fn text(&self, name: &str) -> Result<&'a str, Failure> {
        self.get(name, "string", Value::as_str)
    }

    /// A string that may be left out or null.
    ///
    /// # Errors
    ///
    /// As for `u64`, except that a missing one is none.
    pub fn optional_text(&self, name: &str) -> Result<Option<&'a str>, Failure> {
        match self.map.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.text(name).map(Some),
        }
    }

    /// Named values within a field.
    ///
    /// # Errors
    ///
    /// As for `u64`.
    pub fn object(&self, name: &str) -> Result<Self, Failure> {
        let map = self.get(name, "object", Value::as_object)?;
        Ok(Self { map, ..*self })
    }

    /// A list of what `convert` makes of each element.
    ///
    /// # Errors
    ///
    /// As for `u64`.
    pub fn list<T>(
        &self,
        name: &str,
        wanted: &'static str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Vec<T>, Failure> {
        self.get(name, wanted, |value| {
            value.as_array()?.iter().map(convert).collect()
        })
    }

    /// A list of named values.
    ///
    /// # Errors
    ///
    /// As for `u64`.
    pub fn objects(&self, name: &str) -> Result<Vec<Self>, Failure> {
        self.list(name, "list of objects", |value| {
            let map = value.as_object()?;
            Some(Self { map, ..*self })
        })
    }
}

/// Outputs by name.
pub(super) fn outputs<const N: usize>(fields: [(&str, Value); N]) -> Result<Outputs, Failure> {
    Ok(fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect())
}

/// The only output where the inputs have to be refused.
pub(super) fn rejected() -> Result<Outputs, Failure> {
    outputs([("result", "reject".into())])
}

/// A computed number as an output.
pub(super) fn number(value: impl TryInto<u64> + Copy + fmt::Display) -> Result<Value, Failure> {
    match value.try_into() {
        Ok(value) => Ok(value.into()),
        Err(_) => Err(Failure::Impossible(format!("{value} does not fit a u64"))),
    }
}
