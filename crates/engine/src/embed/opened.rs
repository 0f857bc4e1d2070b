//! What an open checkpoint is used for.
use crate::error::{Error, Result};
use crate::load::Opened;
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

    /// That the model is for another use.
    pub(crate) fn unfit(&self, problem: &str) -> Error {
        Error::Unfit { file: self.name.clone(), problem: problem.to_owned() }
    }
}
