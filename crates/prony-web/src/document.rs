//! The document of the API (OpenAPI 3.1), made of the table of routes and of the declarations of the types.

use crate::api::{self, Problem};
use crate::routes::{Answer, Parameter, ParameterSchema, Place, ROUTES, Route};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use prony_report::typed::Typed as _;
use serde_json::{Map, Value, json};

/// Codes that any route may be refused with, and why.
const REFUSED: &[(u16, &str)] = &[
    (400, "The request is wrong; the text says how."),
    (401, "The token is missing or wrong."),
    (403, "It came from another site, or without the header `X-Prony`."),
    (404, "What was named is not there."),
    (408, "The request did not come to its end in time."),
    (409, "It cannot be done as things are."),
    (413, "The body is too large."),
    (415, "The body is no JSON by its type."),
    (421, "The server is not known by the name in `Host`."),
    (500, "The machine refused; the text says what."),
    (503, "Too many pages look on; try again later."),
];

/// Those of them that every route has.
const ALWAYS: &[u16] = &[400, 401, 408, 421, 500];

/// The whole document.
pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = operation(route);
    }
    let mut schemas = prony_report::types().schemas;
    schemas.extend(api::types().schemas);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "prony serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Recorded runs, comparisons, histories, experiments and stack files. The pages of `prony serve` use \
                            this and nothing else. Fields are only ever added.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        // A server on loopback may have no token.
        "security": [{}, { "bearer": [] }, { "basic": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "basic": { "type": "http", "scheme": "basic", "description": "Any name, and the token as the password." },
            },
        },
    })
}

/// As it is committed and served.
pub fn text() -> String {
    let text = serde_json::to_string_pretty(&document()).expect("a document is made of strings and numbers");
    text + "\n"
}

/// Serves it.
pub(crate) async fn serve() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], text())
}

fn operation(route: &Route) -> Value {
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.about,
        "responses": responses(route),
    });
    let mut parameters: Vec<Value> = route.parameters.iter().map(parameter).collect();
    if route.method != "get" {
        // Another site's page cannot send it without asking first, and is never answered.
        parameters.push(json!({
            "name": "X-Prony", "in": "header", "required": true, "schema": { "type": "string", "enum": ["1"] },
            "description": "Shows that no other site's page sent the request.",
        }));
    }
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let Some(schema) = route.body {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema() } } });
    }
    operation
}

fn responses(route: &Route) -> Value {
    let (code, content) = match &route.answer {
        Answer::Json(schema) => (200, json!({ "application/json": { "schema": schema() } })),
        Answer::Made(schema) => (201, json!({ "application/json": { "schema": schema() } })),
        Answer::Events(schema) => {
            let data = schema();
            let kind =
                json!({ "type": "string", "description": "Events `now` and `last`; their data is JSON of `x-data`." });
            (200, json!({ "text/event-stream": { "schema": kind, "x-data": data } }))
        }
        Answer::Text(kind) => (200, json!({ *kind: {} })),
    };
    let mut responses = Map::from_iter([(code.to_string(), json!({ "description": "Done.", "content": content }))]);
    let refused = REFUSED.iter().filter(|(code, _)| ALWAYS.contains(code) || route.refused.contains(code));
    for (code, why) in refused {
        let content = json!({ "application/json": { "schema": Problem::schema() } });
        responses.insert(code.to_string(), json!({ "description": why, "content": content }));
    }
    Value::Object(responses)
}

fn parameter(parameter: &Parameter) -> Value {
    let place = match parameter.place {
        Place::Path => "path",
        Place::Query => "query",
    };
    let schema = match parameter.schema {
        ParameterSchema::Text => json!({ "type": "string" }),
        ParameterSchema::Pattern(pattern) => json!({ "type": "string", "pattern": pattern }),
        ParameterSchema::Number(most) => json!({ "type": "integer", "minimum": 0, "maximum": most }),
    };
    let Parameter { name, required, about, .. } = parameter;
    json!({ "name": name, "in": place, "required": required, "description": about, "schema": schema })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every `$ref` below a value.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_string));
                object.values().for_each(|inner| references(inner, found));
            }
            Value::Array(list) => list.iter().for_each(|inner| references(inner, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn what_is_referred_to_is_there_and_every_route_too() {
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for reference in &found {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        assert!(found.contains("#/components/schemas/ReportData") && found.contains("#/components/schemas/JobState"));
        let operations: usize =
            document["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len()).sum();
        assert_eq!(operations, ROUTES.len());
        assert!(
            ROUTES.iter().flat_map(|route| route.refused).all(|code| REFUSED.iter().any(|(known, _)| known == code))
        );
    }
}
