//! Answers as values of Rust types: the type's schema is the answer's form.
use crate::error::{Error, Result};
use crate::request::Finish;
use crate::sample::Sampling;
use crate::session::Session;
use rinfer_grammar::{Grammar, Spacing};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use std::sync::Arc;

impl Session {
    /// Asks for the answer to `text` as a `T`: fields come in the order of the type, integers stay
    /// within theirs, and names are those that serde reads. Stop texts do not apply. The answer's
    /// text becomes part of the conversation.
    ///
    /// # Errors
    /// As [`Session::say`]; a part of the type's schema that is not supported, by its place; an answer
    /// that was cut, or that `T` refuses for a reason that its schema does not have. The conversation
    /// is then as before.
    pub fn ask<T: JsonSchema + DeserializeOwned>(&mut self, text: impl Into<String>) -> Result<T> {
        let length = self.history().len();
        let found = self.in_form::<T>(text.into());
        if found.is_err() {
            self.forget_after(length);
        }
        found
    }

    fn in_form<T: JsonSchema + DeserializeOwned>(&mut self, text: String) -> Result<T> {
        let wrong = |problem| Error::Typed { name: std::any::type_name::<T>(), problem };
        let grammar = Some(Arc::new(Grammar::Schema(schema::<T>(), Spacing::default())));
        let stop = Vec::new();
        let formed = Sampling { grammar, stop, ..self.sampling().clone() };
        let usual = std::mem::replace(self.sampling(), formed);
        let said = self.say(text).and_then(|mut reply| {
            let text = reply.by_ref().collect::<Result<String>>()?;
            Ok((text, reply.finish(), reply.usage().generated))
        });
        *self.sampling() = usual;
        match said? {
            (text, Some(Finish::Stop), _) => {
                serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))
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
