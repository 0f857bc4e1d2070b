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
    let needs = needs(spec);
    let packed = || needs.iter().filter(|need| need.packed);
    for name in bundle.orders() {
        // Of a matrix's input, of a stack's, one after another, or of a norm's output.
        let own = packed().find(|need| need.name.strip_suffix(".weight") == Some(name));
        let (count, width) = match own.map(|need| &need.shape[..]) {
            Some([count, _, width]) => (*count, *width),
            Some([.., width]) => (1, *width),
            _ => (1, spec.d_model),
        };
        let order = bundle.stored_order(name).unwrap_or_default();
        let fits = order.len() == count * width;
        if !fits || order.iter().any(|k| *k as usize >= width) {
            let (name, found) = (name.to_owned(), order.len());
            let width = if fits { width } else { count * width };
            return Err(LoadError::Order { name, found, width });
        }
    }
    packed().try_for_each(|need| stored(bundle, &need.name).map(drop))
}
