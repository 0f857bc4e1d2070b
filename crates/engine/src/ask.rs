//! Answers as values of Rust types: the type's schema is the answer's form.
use crate::error::{Error, Result};
use crate::request::{Finish, RequestError};
use crate::sample::Sampling;
use crate::session::Session;
use rinfer_grammar::{Field, Grammar, Shares, Spacing};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// How sure the model was of a part of its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Confidence {
    /// Where it is: a JSON pointer into the answer, such as `/tags/0`.
    pub path: String,
    /// From 0 to 1: of the value, among all that might have stood there, where it was decided.
    pub probability: f32,
}

impl Session {
    /// Asks for the answer to `text` as a `T`: fields come in the order of the type, integers stay
    /// within theirs, and names are those that serde reads. The model reads the type's schema, with
    /// its documentation, after the text, unless [`Session::show_schema`] leaves it out. Stop texts do not apply. The answer's
    /// text becomes part of the conversation.
    ///
    /// # Errors
    /// As [`Session::say`]; a part of the type's schema that is not supported, by its place; an answer
    /// that was cut, or that `T` refuses for a reason that its schema does not have. The conversation
    /// is then as before.
    pub fn ask<T: JsonSchema + DeserializeOwned>(&mut self, text: impl Into<String>) -> Result<T> {
        let schema = schema::<T>();
        let text = self.with_schema(text.into(), &schema);
        let grammar = Grammar::Schema(schema, Spacing::default());
        Ok(self.in_form(text, Arc::new(grammar))?.0)
    }

    /// The same, with the model's confidence in each boolean, each whole number and each string of
    /// which the type lists all (an enum).
    ///
    /// # Errors
    /// As [`Session::ask`].
    pub fn ask_with_confidence<T: JsonSchema + DeserializeOwned>(
        &mut self,
        text: impl Into<String>,
    ) -> Result<(T, Vec<Confidence>)> {
        let shares = Shares::default();
        let schema = schema::<T>();
        let text = self.with_schema(text.into(), &schema);
        let form = Grammar::Schema(schema, Spacing::default());
        let grammar = Arc::new(Grammar::Measured(Box::new(form), shares.clone()));
        let (value, text) = self.in_form(text, grammar.clone())?;
        let fields = grammar.fields(&text).map_err(RequestError::from)?;
        let sure =
            |field: &Field| Confidence { path: field.path.clone(), probability: shares.of(field) };
        Ok((value, fields.iter().map(sure).collect()))
    }

    /// The message, and what the answer is to look like.
    fn with_schema(&self, text: String, schema: &serde_json::Value) -> String {
        let mut shown = schema.clone();
        if let Some(map) = shown.as_object_mut() {
            map.shift_remove("$schema");
        }
        match self.show_schema {
            true => format!("{text}\n\nAnswer as JSON that satisfies this JSON Schema:\n{shown}"),
            false => text,
        }
    }

    /// A value, and the text that it is read from.
    fn in_form<T: DeserializeOwned>(
        &mut self,
        text: String,
        grammar: Arc<Grammar>,
    ) -> Result<(T, String)> {
        let length = self.history().len();
        let found = self.formed(text, grammar);
        if found.is_err() {
            self.forget_after(length);
        }
        found
    }

    fn formed<T: DeserializeOwned>(
        &mut self,
        text: String,
        grammar: Arc<Grammar>,
    ) -> Result<(T, String)> {
        let wrong = |problem| Error::Typed { name: std::any::type_name::<T>(), problem };
        let (grammar, stop) = (Some(grammar), Vec::new());
        let formed = Sampling { grammar, stop, ..self.sampling().clone() };
        let usual = std::mem::replace(self.sampling(), formed);
        let said = self.say(text).and_then(|mut reply| {
            let text = reply.by_ref().collect::<Result<String>>()?;
            Ok((text, reply.finish(), reply.usage().generated))
        });
        *self.sampling() = usual;
        match said? {
            (text, Some(Finish::Stop), _) => {
                let value = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
                Ok((value, text))
            }
            (.., tokens) => Err(wrong(format!(
                "it was cut after {tokens} tokens: allow more of them, or a larger context"
            ))),
        }
    }
}

/// What serde reads as a `T`. A set may be written with repetitions: reading it takes them out.
fn schema<T: JsonSchema>() -> serde_json::Value {
    let repeat = |schema: &mut Schema| _ = schema.remove("uniqueItems");
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(repeat));
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
