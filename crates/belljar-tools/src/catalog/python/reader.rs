//! Reads a JSON Schema as Python types.
//!
//! Anything that it does not understand is `Any`. No schema makes it slow, since it visits a bounded number of schemas.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::facts::{Facts, Identity};
use super::notes::notes;
use super::types::{Field, Object, Type, Typed};
use crate::catalog::tool::Tool;

/// The largest depth of types within types.
const NESTED_MAX: usize = 24;
const CHOICES_MAX: usize = 30;

/// The limits on how much of a schema is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadLimits {
    /// The largest number of schemas and properties that are visited.
    pub(super) nodes_max: usize,
    /// The largest number of characters of the notes on one field; 0: no notes are made.
    pub(super) notes_chars_max: usize,
}

/// The parameters that a tool's input schema describes, as an object whose fields may be empty, and the other objects
/// that it refers to.
pub(super) fn parameters(schema: &Map<String, Value>, limits: ReadLimits) -> (Object<'_>, Vec<Object<'_>>) {
    let mut reader = Reader::new(schema, limits);
    let mut facts = Facts::default();
    facts.add_object(schema, schema, &mut reader.budget);
    // Keys that only some of the alternatives have are optional.
    for choice in std::mem::take(&mut facts.choices).into_iter().flatten().take(CHOICES_MAX) {
        let mut of_choice = Facts::default();
        of_choice.add(choice, schema, &mut reader.budget);
        for (name, schemas) in of_choice.properties {
            if !facts.properties.iter().any(|(known, _)| *known == name) {
                facts.properties.push((name, schemas));
            }
        }
    }
    let fields = reader.fields(&facts);
    let rest = reader.rest(&facts);
    (Object { hint: String::new(), fields, rest }, reader.objects)
}

/// The type of a tool's result, if its server declares one. If the result is wrapped, it is the type of the value
/// inside.
pub(super) fn described_result(tool: &Tool, limits: ReadLimits) -> Option<Typed<'_>> {
    let output = tool.output_schema.as_ref()?;
    Some(described_within(tool.wrapped_result().unwrap_or(output), output, "result", limits))
}

/// The type of a schema inside `root`, to which its references refer.
pub(super) fn described_within<'s>(
    schema: &'s Map<String, Value>,
    root: &'s Map<String, Value>,
    hint: &str,
    limits: ReadLimits,
) -> Typed<'s> {
    let mut reader = Reader::new(root, limits);
    let mut facts = Facts::default();
    facts.add_object(schema, root, &mut reader.budget);
    let kind = reader.kind(facts, hint);
    Typed { kind, objects: reader.objects }
}

struct Reader<'s> {
    root: &'s Map<String, Value>,
    budget: usize,
    notes_chars_max: usize,
    nested: usize,
    objects: Vec<Object<'s>>,
    /// Objects that were read before, so that recursive schemas come to an end.
    known: HashMap<Identity, usize>,
    /// The objects that are being read now, within each other.
    open: Vec<Identity>,
}

impl<'s> Reader<'s> {
    fn new(root: &'s Map<String, Value>, limits: ReadLimits) -> Self {
        Self {
            root,
            budget: limits.nodes_max,
            notes_chars_max: limits.notes_chars_max,
            nested: 0,
            objects: Vec::new(),
            known: HashMap::new(),
            open: Vec::new(),
        }
    }

    fn facts(&mut self, schemas: &[&'s Value]) -> Facts<'s> {
        let mut facts = Facts::default();
        for schema in schemas {
            facts.add(schema, self.root, &mut self.budget);
        }
        facts
    }

    fn fields(&mut self, facts: &Facts<'s>) -> Vec<Field<'s>> {
        let mut fields = Vec::new();
        for (name, schemas) in &facts.properties {
            let of_field = self.facts(schemas);
            let notes = match self.notes_chars_max {
                0 => String::new(),
                chars_max => notes(&of_field, chars_max),
            };
            let default = of_field.default;
            let kind = self.kind(of_field, name);
            fields.push(Field { name, is_required: facts.required.contains(name), kind, default, notes });
        }
        fields
    }

    fn kind(&mut self, facts: Facts<'s>, hint: &str) -> Type<'s> {
        if self.budget == 0 || self.nested == NESTED_MAX {
            return Type::Any;
        }
        let identity = facts.identity();
        if self.open.contains(&identity) {
            return Type::Any;
        }
        self.nested += 1;
        self.open.push(identity);
        let kind = self.plain(&facts, facts.name.unwrap_or(hint));
        self.open.pop();
        self.nested -= 1;
        if facts.is_nullable { Type::any_of(vec![kind, Type::Null]) } else { kind }
    }

    fn plain(&mut self, facts: &Facts<'s>, hint: &str) -> Type<'s> {
        if facts.is_never {
            return Type::Never;
        }
        if let Some(kind) = facts.values.as_deref().and_then(Type::one_of) {
            return kind;
        }
        if let Some((choices, _)) = facts.choices.split_first() {
            return self.chosen(facts, choices, hint);
        }
        match &facts.kinds {
            Some(kinds) => Type::any_of(kinds.iter().map(|kind| self.named(kind, facts, hint)).collect()),
            None if !facts.properties.is_empty() || !facts.patterns.is_empty() => self.object(facts, hint),
            None if facts.rest.is_some_and(Value::is_object) => self.object(facts, hint),
            None if facts.items.is_some() || facts.prefix.is_some() => self.list(facts, hint),
            None => facts.values.as_deref().map_or(Type::Any, Type::of_values),
        }
    }

    /// The union of the alternatives, each merged with the common facts. If the facts have several lists of
    /// alternatives, the others are left out, since they would only multiply the combinations.
    fn chosen(&mut self, facts: &Facts<'s>, choices: &'s [Value], hint: &str) -> Type<'s> {
        let mut common = facts.clone();
        common.choices.clear();
        common.is_nullable = false;
        let mut kinds = Vec::new();
        for choice in choices.iter().take(CHOICES_MAX) {
            let mut chosen = common.clone();
            chosen.add(choice, self.root, &mut self.budget);
            kinds.push(self.kind(chosen, hint));
        }
        if choices.len() > CHOICES_MAX {
            kinds.push(Type::Any);
        }
        Type::any_of(kinds)
    }

    fn named(&mut self, kind: &str, facts: &Facts<'s>, hint: &str) -> Type<'s> {
        match kind {
            "string" => Type::Str,
            "integer" => Type::Int,
            "number" => Type::Float,
            "boolean" => Type::Bool,
            "null" => Type::Null,
            "array" => self.list(facts, hint),
            "object" => self.object(facts, hint),
            _ => Type::Any,
        }
    }

    fn list(&mut self, facts: &Facts<'s>, hint: &str) -> Type<'s> {
        let hint = format!("{hint} item");
        match (facts.prefix, facts.items) {
            (Some(prefix), None) if !prefix.is_empty() && prefix.len() <= CHOICES_MAX => {
                Type::Tuple(prefix.iter().map(|item| self.of(item, &hint)).collect())
            }
            (_, Some(items)) => Type::List(Box::new(self.of(items, &hint))),
            _ => Type::List(Box::new(Type::Any)),
        }
    }

    fn object(&mut self, facts: &Facts<'s>, hint: &str) -> Type<'s> {
        if facts.properties.is_empty() {
            return Type::Dict(Box::new(self.rest(facts).unwrap_or(Type::Any)));
        }
        let identity = facts.identity();
        if let Some(place) = self.known.get(&identity) {
            return Type::Object(*place);
        }
        let place = self.objects.len();
        self.known.insert(identity, place);
        self.objects.push(Object { hint: hint.to_owned(), ..Object::default() });
        let open = std::mem::take(&mut self.open);
        let fields = self.fields(facts);
        let rest = self.rest(facts);
        self.open = open;
        self.objects[place] = Object { hint: hint.to_owned(), fields, rest };
        Type::Object(place)
    }

    /// The type of values under unknown keys, if the schema allows such keys.
    fn rest(&mut self, facts: &Facts<'s>) -> Option<Type<'s>> {
        let told = match facts.rest {
            Some(schema @ Value::Object(_)) => vec![schema],
            Some(Value::Bool(true)) => return Some(Type::Any),
            _ => Vec::new(),
        };
        if facts.is_cut {
            return Some(Type::Any);
        }
        let schemas: Vec<&Value> = facts.patterns.iter().copied().chain(told).collect();
        if schemas.is_empty() {
            return None;
        }
        Some(Type::any_of(schemas.into_iter().map(|schema| self.of(schema, "value")).collect()))
    }

    fn of(&mut self, schema: &'s Value, hint: &str) -> Type<'s> {
        let facts = self.facts(&[schema]);
        self.kind(facts, hint)
    }
}
