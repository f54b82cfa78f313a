//! Python types. The objects among them are in a table, so that types can refer to each other.
//!
//! They borrow from the schema or the results that they were read from, and do not define how a type is written.

use serde_json::Value;

/// A type.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type<'s> {
    /// Any value, or a type that is not understood.
    Any,
    /// No value.
    Never,
    /// `None`.
    Null,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `float`.
    Float,
    /// `str`.
    Str,
    /// The value that the sandbox makes of binary content.
    Blob,
    /// One of these values: texts, numbers and booleans, at least one, without duplicates.
    Literal(Vec<&'s Value>),
    /// A list of any length.
    List(Box<Type<'s>>),
    /// A list that begins with items of these types.
    Tuple(Vec<Type<'s>>),
    /// A dict with unknown keys.
    Dict(Box<Type<'s>>),
    /// A dict with known keys, by its index in the table.
    Object(usize),
    /// One of these types: at least two, without duplicates, `None` last.
    Union(Vec<Type<'s>>),
}

/// A dict with known keys.
#[derive(Debug, Clone, Default)]
pub(super) struct Object<'s> {
    /// Words from which the name of its class is made, in any spelling.
    pub(super) hint: String,
    /// The known keys, without duplicates. Only the object of a tool's parameters may have none.
    pub(super) fields: Vec<Field<'s>>,
    /// The type of values under further keys, if there may be some.
    pub(super) rest: Option<Type<'s>>,
}

/// A known key.
#[derive(Debug, Clone)]
pub(super) struct Field<'s> {
    /// The key in the server's spelling.
    pub(super) name: &'s str,
    /// Whether the key is always present.
    pub(super) is_required: bool,
    /// The type of its value.
    pub(super) kind: Type<'s>,
    /// The value that the server uses if the key is absent.
    pub(super) default: Option<&'s Value>,
    /// Notes about it beside its type: one line that is safe to show, or an empty text.
    pub(super) notes: String,
}

/// A type, and the objects that it refers to.
#[derive(Debug, Clone)]
pub(super) struct Typed<'s> {
    pub(super) kind: Type<'s>,
    pub(super) objects: Vec<Object<'s>>,
}

impl<'s> Type<'s> {
    /// The union of some types, in its simplest form.
    pub(super) fn any_of(kinds: Vec<Type<'s>>) -> Self {
        let mut found: Vec<Type<'s>> = Vec::new();
        let mut values: Vec<&'s Value> = Vec::new();
        let mut literal_at = None;
        for kind in kinds.into_iter().flat_map(Self::alternatives) {
            match kind {
                Self::Any => return Self::Any,
                Self::Never => {}
                Self::Literal(more) => {
                    literal_at.get_or_insert(found.len());
                    values.extend(more);
                }
                other if found.contains(&other) => {}
                other => found.push(other),
            }
        }
        if let Some(at) = literal_at {
            found.insert(at, Self::Literal(unique(values)));
        }
        found.sort_by_key(|kind| *kind == Self::Null);
        match found.len() {
            0 => Self::Never,
            1 => found.remove(0),
            _ => Self::Union(found),
        }
    }

    /// The type of a value that is one of these; `None` if one of them is a list or a dict.
    pub(super) fn one_of(values: &[&'s Value]) -> Option<Self> {
        if values.iter().any(|value| value.is_array() || value.is_object()) {
            return None;
        }
        let known: Vec<&Value> = values.iter().copied().filter(|value| !value.is_null()).collect();
        let mut kinds = Vec::new();
        if !known.is_empty() {
            kinds.push(Self::Literal(known));
        }
        if values.iter().any(|value| value.is_null()) {
            kinds.push(Self::Null);
        }
        Some(Self::any_of(kinds))
    }

    /// The union of the types of these values.
    pub(super) fn of_values(values: &[&Value]) -> Self {
        Self::any_of(values.iter().map(|value| Self::of_value(value)).collect())
    }

    fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(number) if number.is_f64() => Self::Float,
            Value::Number(_) => Self::Int,
            Value::String(_) => Self::Str,
            Value::Array(_) => Self::List(Box::new(Self::Any)),
            Value::Object(_) => Self::Dict(Box::new(Self::Any)),
        }
    }

    fn alternatives(self) -> Vec<Self> {
        match self {
            Self::Union(kinds) => kinds,
            other => vec![other],
        }
    }
}

/// The values without duplicates, in order; `true` and `1` are different.
fn unique(values: Vec<&Value>) -> Vec<&Value> {
    let mut seen = std::collections::HashSet::new();
    values.into_iter().filter(|value| seen.insert(value.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unions_say_each_thing_once_and_none_last() {
        let (a, b, one) = (json!("a"), json!("b"), json!(1));
        let union = Type::any_of(vec![
            Type::Null,
            Type::Literal(vec![&a]),
            Type::Str,
            Type::Never,
            Type::Union(vec![Type::Str, Type::Literal(vec![&b, &a, &one])]),
        ]);
        assert_eq!(union, Type::Union(vec![Type::Literal(vec![&a, &b, &one]), Type::Str, Type::Null]));
        assert_eq!(Type::any_of(vec![Type::Str, Type::Any]), Type::Any);
        assert_eq!(Type::any_of(vec![]), Type::Never);
    }

    #[test]
    fn values_that_python_cannot_list_have_only_their_types() {
        let (list, text, nothing) = (json!([1]), json!("a"), json!(null));
        assert_eq!(Type::one_of(&[&list, &text]), None);
        assert_eq!(
            Type::one_of(&[&nothing, &text]),
            Some(Type::Union(vec![Type::Literal(vec![&text]), Type::Null]))
        );
        assert_eq!(
            Type::of_values(&[&list, &text, &nothing]),
            Type::Union(vec![Type::List(Box::new(Type::Any)), Type::Str, Type::Null])
        );
    }
}
