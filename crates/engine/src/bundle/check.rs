//! What must be true of a spec and of tensors that come from a file.
use crate::backend::LoadError;
use crate::cpu::stored::stored;
use crate::error::{Error, Result};
use crate::spec::ModelSpec;
use crate::weights::{self, needs};
use rinfer_formats::{Bundle, Weights};
use serde_json::Value;

/// No width, count or length of a model is larger, as in [`crate::config`]: so no product of three
/// overflows.
const LARGEST: u64 = 1 << 24;

/// Bounds every whole number.
///
/// # Errors
/// The first beyond, by its place.
pub fn numbers(file: &str, spec: &Value) -> Result<()> {
    fn walk(value: &Value, at: &str) -> std::result::Result<(), (String, String)> {
        match value {
            Value::Array(all) => {
                all.iter().enumerate().try_for_each(|(i, v)| walk(v, &format!("{at}.{i}")))
            }
            Value::Object(all) => {
                all.iter().try_for_each(|(key, v)| walk(v, &format!("{at}.{key}")))
            }
            Value::Number(n) if n.as_u64().is_some_and(|n| n > LARGEST) => {
                Err((at.to_owned(), n.to_string()))
            }
            _ => Ok(()),
        }
    }
    walk(spec, "spec").map_err(|(field, found)| {
        let expected = format!("at most {LARGEST}");
        Error::Field { file: file.to_owned(), field, found, expected }
    })
}

/// The bundle holds what `spec` needs, no more and no less, in layouts that are known here.
///
/// # Errors
/// The first tensor that is not so.
pub fn tensors(spec: &ModelSpec, bundle: &Bundle) -> std::result::Result<(), LoadError> {
    weights::check(spec, bundle)?;
    for need in needs(spec).iter().filter(|need| !need.packed) {
        let norm = need.name.strip_suffix(".weight").unwrap_or(&need.name);
        let (order, width) = (bundle.stored_order(norm).unwrap_or_default(), spec.d_model);
        let fits = order.is_empty() || order.len() == width;
        if !fits || order.iter().any(|k| *k as usize >= width) {
            let (name, found) = (norm.to_owned(), order.len());
            return Err(LoadError::Order { name, found, width });
        }
    }
    for need in needs(spec).iter().filter(|need| need.packed) {
        let [count, _, width] = need.shape[..] else { continue };
        let stack = need.name.strip_suffix(".weight").unwrap_or(&need.name);
        let order = bundle.stored_order(stack).unwrap_or_default();
        let fits = order.is_empty() || order.len() == count * width;
        if !fits || order.iter().any(|k| *k as usize >= width) {
            let (name, found) = (stack.to_owned(), order.len());
            let width = if fits { width } else { count * width };
            return Err(LoadError::Order { name, found, width });
        }
    }
    needs(spec)
        .iter()
        .filter(|need| need.packed)
        .try_for_each(|need| stored(bundle, &need.name).map(drop))
}
