//! A message of a chat.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Author: `system`, `user`, `assistant`, `tool`, or another role that the template knows.
    pub role: String,
    /// Text of the message.
    pub content: String,
    /// Further fields of the message that the template may read, such as `tool_calls` and `tool_call_id`.
    #[serde(default)]
    pub fields: Map<String, Value>,
}

impl Message {
    /// Creates a message.
    #[must_use]
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message {
            role: role.into(),
            content: content.into(),
            fields: Map::new(),
        }
    }

    /// Sets a further field.
    #[must_use]
    pub fn with_field(mut self, name: impl Into<String>, value: Value) -> Message {
        self.fields.insert(name.into(), value);
        self
    }
}
