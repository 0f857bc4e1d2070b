//! What an open checkpoint is used for.
use super::Companions;
use super::encoder::suited;
use crate::error::{Error, Result};
use crate::fit::Fit;
use crate::load::{Load, Opened};
use crate::spec::{Head, Pool};
use serde_json::{Map, Value, json};

impl Opened {
    /// The same, its rows pooled to a vector a text, whatever its files say of that: also of a model that
    /// writes texts, whose vectors have unit length then.
    ///
    /// # Errors
    /// A bundle, which is as it was made.
    pub fn pooled(mut self, how: Pool) -> Result<Opened> {
        let Some(config) = &self.config else {
            return Err(self.unfit("is a bundle, which pools as it was made to"));
        };
        let mut pooling = match config.get("pooling") {
            Some(Value::Object(stated)) => stated.clone(),
            _ => Map::new(),
        };
        pooling.insert("how".into(), serde_json::to_value(how).unwrap_or_default());
        if matches!(self.spec.head, Head::Lm { .. }) {
            pooling.insert("normalise".into(), true.into());
        }
        self.config = Some(config.with(json!({"pooling": pooling})));
        let spec = self.named()?.spec;
        self.spec = spec;
        Ok(self)
    }

    /// What a load takes for what the model is for: of one that makes vectors or scores, with whole texts in
    /// one pass.
    ///
    /// # Errors
    /// As [`Opened::fit`].
    pub fn takes(&self, load: &Load) -> Result<Fit> {
        let load = match self.spec.head {
            Head::Lm { .. } => load.clone(),
            Head::Pool { .. } => suited(self, &Companions::of(self)?, load),
        };
        self.fit(&load)
    }

    /// That the model is for another use.
    pub(crate) fn unfit(&self, problem: &str) -> Error {
        Error::Unfit { file: self.name.clone(), problem: problem.to_owned() }
    }
}
