//! `GET /openapi.json`: the routes, from the tables by which requests are read.
use crate::app::POSTS;
use crate::fields::{Fate, Field, Spec};
use serde_json::{Map, Value, json};

/// What answers are, by name.
const ANSWERS: &str = include_str!("openapi/answers.json");

/// Routes that are only asked: what they tell, and the schema of that.
const GETS: &[(&str, &str, &str)] = &[
    ("/health", "Whether the server answers; asks for no key", "Health"),
    ("/metrics", "Counters, as Prometheus reads them", "text/plain"),
    ("/openapi.json", "This document", "Object"),
    ("/v1/models", "What is served, as OpenAI and Anthropic list it", "Models"),
    ("/v1/models/{id}", "One of that", "Model"),
    ("/admin/models", "With --admin: what is loaded", "Object"),
    ("/admin/generations", "With --admin: what is answered now", "Object"),
];

/// Administration, with --admin: what it does, and its fields.
const ADMIN: &[(&str, &str, &[&str])] = &[
    ("/admin/models/load", "Loads a model", &["model"]),
    (
        "/admin/models/unload",
        "Unloads a model when its answers are done, or ends them after `drain` seconds",
        &["model", "drain"],
    ),
    ("/admin/generations/cancel", "Ends what is answered", &["id"]),
];

/// The document.
pub fn document() -> Value {
    let mut paths = Map::new();
    for (path, about, answer) in GETS {
        let mut told = json!({"summary": about, "responses": responses(path, answer, None)});
        if path.contains("{id}") {
            let schema = json!({"type": "string"});
            told["parameters"] =
                json!([{"name": "id", "in": "path", "required": true, "schema": schema}]);
        }
        paths.insert((*path).to_owned(), json!({"get": told}));
    }
    for (path, _, spec) in POSTS {
        let body =
            json!({"required": true, "content": {"application/json": {"schema": request(spec)}}});
        let told = json!({
            "summary": spec.about, "requestBody": body,
            "responses": responses(path, spec.answer, spec.streams),
        });
        paths.insert((*path).to_owned(), json!({"post": told}));
    }
    for (path, about, fields) in ADMIN {
        let kind = |name: &str| json!({"type": if name == "drain" { "integer" } else { "string" }});
        let properties: Map<String, Value> =
            fields.iter().map(|name| ((*name).to_owned(), kind(name))).collect();
        let schema = json!({
            "type": "object", "properties": properties, "required": [fields[0]], "additionalProperties": false,
        });
        let body = json!({"required": true, "content": {"application/json": {"schema": schema}}});
        let told = json!({"summary": about, "requestBody": body, "responses": responses(path, "Object", None)});
        paths.insert((*path).to_owned(), json!({"post": told}));
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "rinfer", "version": env!("CARGO_PKG_VERSION"), "license": {"name": "MIT"}},
        "servers": [{"url": "/"}],
        "security": [{}, {"bearer": []}, {"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    })
}

fn schemas() -> Value {
    // The file is part of the program, and a test reads it.
    serde_json::from_str(ANSWERS).unwrap_or_default()
}

/// A request's object: what is read, what has no effect, and what is refused.
fn request(spec: &Spec) -> Value {
    let known = || spec.known.iter().copied().flatten();
    let mut properties: Map<String, Value> =
        known().map(|field| (field.name.to_owned(), property(field))).collect();
    for (name, fate) in spec.fates {
        let told = match fate {
            Fate::Refused(instead) => {
                json!({"description": format!("refused: {instead}"), "deprecated": true})
            }
            Fate::Inert(why) => json!({"description": format!("no effect: {why}")}),
        };
        properties.insert((*name).to_owned(), told);
    }
    let needed: Vec<&str> = known().filter(|field| field.needed).map(|field| field.name).collect();
    json!({"type": "object", "properties": properties, "required": needed})
}

/// A field; null is none.
fn property(field: &Field) -> Value {
    let mut told: Value = serde_json::from_str(field.schema).unwrap_or_default();
    if !field.needed
        && let Some(kind) = told.get("type").cloned()
    {
        told["type"] = match kind {
            Value::Array(kinds) => kinds.into_iter().chain(["null".into()]).collect(),
            kind => json!([kind, "null"]),
        };
        if let Some(Value::Array(words)) = told.get_mut("enum") {
            words.push(Value::Null);
        }
    }
    told["description"] = field.about.into();
    told
}

/// What comes back: the answer, whole and perhaps as events, or an error.
fn responses(path: &str, answer: &str, events: Option<&str>) -> Value {
    let of = |name: &str| json!({"schema": {"$ref": format!("#/components/schemas/{name}")}});
    let mut content = match answer {
        "text/plain" => json!({"text/plain": {"schema": {"type": "string"}}}),
        name => json!({"application/json": of(name)}),
    };
    if let Some(event) = events {
        // Of a stream, each event's data.
        content["text/event-stream"] = of(event);
    }
    let error = if path.starts_with("/v1/messages") { "AnthropicError" } else { "Error" };
    let error = json!({"application/json": of(error)});
    json!({
        "200": {"description": "The answer", "content": content},
        "default": {"description": "Why there is none", "content": error},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_json() {
        assert!(schemas().is_object());
        for field in POSTS.iter().flat_map(|(.., spec)| spec.known.iter().copied().flatten()) {
            assert!(
                serde_json::from_str::<Value>(field.schema).is_ok_and(|s| s.is_object()),
                "{}",
                field.name
            );
            assert!(!field.about.is_empty(), "{}", field.name);
        }
    }
}
