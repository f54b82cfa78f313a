//! The schema of `login`, for editors.

use serde_json::{Value, json};

use super::read::TYPES;

/// The schema of `login`.
pub(in crate::config) fn schema() -> Value {
    let text = |about: &str| json!({"type": "string", "minLength": 1, "description": about});
    let client = |properties: &mut Value| {
        properties["client_id"] = text("the client's name there");
        properties["client_secret"] = text("its secret, best as a reference");
        properties["private_key"] = text(
            "its private key in PEM (PKCS #8), best as a reference; it signs an assertion (private_key_jwt)",
        );
        properties["key_id"] = text("the kid of that key");
        properties["audience"] = text("whom the assertion is for; left out, the issuer");
        properties["issuer"] = text("the authorization server; left out, the one that the server names");
        properties["token_endpoint"] =
            text("where tokens are asked for; left out, what the issuer's metadata say");
    };
    let mut properties = json!({
        "type": {"enum": TYPES.map(|(name, _)| name), "description": "who logs in: the user in a browser, or belljar by itself"},
        "dpop": {"type": "boolean", "default": false, "description": "whether only tokens that are bound to a key are used"},
        "scopes": {"type": "array", "items": {"type": "string", "pattern": r"^\S+$"},
            "description": "what is asked for; left out, what the server says"},
        "assertion": text("workload_identity: the platform's token"),
        "assertion_file": text("workload_identity: the file with it, read whenever a token is asked for"),
        "id_token": text("enterprise: the user's ID token"),
        "id_token_file": text("enterprise: the file with it, read whenever a token is asked for"),
    });
    client(&mut properties);
    let mut provider = json!({});
    client(&mut provider);
    properties["idp"] = json!({"type": "object", "additionalProperties": false, "required": ["issuer", "client_id"],
        "description": "enterprise: the identity provider that has given the ID token", "properties": provider});
    json!({"type": "object", "additionalProperties": false, "properties": properties,
        "description": "how belljar logs in to a remote server; left out, the user does it with `belljar login`"})
}
