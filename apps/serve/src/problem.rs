//! A request error, as returned to the client.
//!
//! Invariant: the body has the form that clients of the path expect, whatever the status: OpenAI's, with the fields
//! `message`, `type`, `param` and `code` in `error`, unless the path is of another interface.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Seconds after which a client that was sent away may come again.
const RETRY_AFTER: &str = "1";

/// What is wrong with a request, or why it cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
}

impl Problem {
    /// As JSON in an interface's form.
    pub(crate) fn formed(&self, form: Form) -> Value {
        match form {
            Form::OpenAi => self.json(),
            Form::Anthropic => json!({
                "type": "error",
                "error": {"type": self.anthropic_type(), "message": self.with_param()},
            }),
            Form::Ollama => json!({"error": self.with_param()}),
        }
    }

    /// The message, which names the field: these forms have no place for it.
    fn with_param(&self) -> String {
        match &self.param {
            Some(param) if !self.message.contains(param.as_str()) => format!("{param}: {}", self.message),
            _ => self.message.clone(),
        }
    }

    fn anthropic_type(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            StatusCode::GATEWAY_TIMEOUT => "timeout_error",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        }
    }

    fn new(status: StatusCode, code: Option<&'static str>, message: impl Into<String>) -> Problem {
        Problem {
            status,
            message: message.into(),
            param: None,
            code,
        }
    }

    /// The request says nothing that can be understood.
    pub(crate) fn bad(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, None, message)
    }

    /// A parameter's value is wrong.
    pub(crate) fn value(param: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, Some("invalid_value"), message).of(param)
    }

    /// A parameter, or a value of it, is known to clients but not supported here.
    pub(crate) fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, Some("unsupported_parameter"), message).of(param)
    }

    /// An unknown parameter.
    pub(crate) fn unknown(param: &str) -> Problem {
        let message = format!("parameter {param:?} is unknown, or has no effect here (--strict)");
        Problem::new(StatusCode::BAD_REQUEST, Some("unknown_parameter"), message).of(param)
    }

    /// A parameter is missing.
    pub(crate) fn missing(param: &str) -> Problem {
        let message = format!("parameter {param:?} is missing");
        Problem::new(
            StatusCode::BAD_REQUEST,
            Some("missing_required_parameter"),
            message,
        )
        .of(param)
    }

    pub(crate) fn context_length(param: &str, tokens: usize, capacity: usize) -> Problem {
        let message = format!(
            "the prompt has {tokens} tokens; prompt and answer together must fit the context length of {capacity} (--context)"
        );
        Problem::new(StatusCode::BAD_REQUEST, Some("context_length_exceeded"), message).of(param)
    }

    pub(crate) fn text_length(param: &str, bytes: usize, capacity: usize) -> Problem {
        let message = format!(
            "the prompt has {bytes} bytes, more than {capacity} tokens can hold; prompt and answer together must fit that context length (--context)"
        );
        Problem::new(StatusCode::BAD_REQUEST, Some("context_length_exceeded"), message).of(param)
    }

    pub(crate) fn key() -> Problem {
        let message =
            "this server requires a key: send the header `Authorization: Bearer KEY` or `x-api-key: KEY`";
        Problem::new(StatusCode::UNAUTHORIZED, Some("invalid_api_key"), message)
    }

    pub(crate) fn host(host: &str) -> Problem {
        let message = format!(
            "the server accepts only requests to this machine's own names, and {host:?} is not one; allow it with --allow-host, or any name with a key (--api-key)"
        );
        Problem::new(StatusCode::FORBIDDEN, Some("host_not_allowed"), message)
    }

    pub(crate) fn model(asked: &str, known: &[String]) -> Problem {
        let message = format!(
            "unknown model {asked:?}; this server runs {} (further names: --alias NAME, --any-model)",
            known.join(", ")
        );
        Problem::new(StatusCode::NOT_FOUND, Some("model_not_found"), message).of("model")
    }

    pub(crate) fn path(method: &str, path: &str) -> Problem {
        let message = format!("no route {method} {path}");
        Problem::new(StatusCode::NOT_FOUND, Some("unknown_url"), message)
    }

    pub(crate) fn method(method: &str, path: &str) -> Problem {
        let message = format!("{path} does not take {method}");
        Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            Some("method_not_allowed"),
            message,
        )
    }

    pub(crate) fn slow_body(seconds: u64) -> Problem {
        let message = format!("the body did not arrive within {seconds} seconds");
        Problem::new(StatusCode::REQUEST_TIMEOUT, Some("body_timeout"), message)
    }

    pub(crate) fn large_body(limit: usize) -> Problem {
        let message = format!("the body has more than {limit} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, Some("body_too_large"), message)
    }

    pub(crate) fn content_type(found: &str) -> Problem {
        let message =
            format!("the body is {found}: send JSON, and the header `Content-Type: application/json`");
        Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Some("unsupported_media_type"),
            message,
        )
    }

    pub(crate) fn full(waiting: usize) -> Problem {
        let message = format!("{waiting} requests are already waiting; try again later");
        Problem::new(StatusCode::TOO_MANY_REQUESTS, Some("queue_full"), message)
    }

    /// Too many bytes of bodies are on their way.
    pub(crate) fn many_bodies(limit: usize) -> Problem {
        let message =
            format!("the bodies of all requests together exceed the limit of {limit} bytes; try again later");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, Some("too_many_bodies"), message)
    }

    /// The server lacks something for the request, which may be there later.
    pub(crate) fn unavailable(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, Some("unavailable"), message)
    }

    pub(crate) fn shutting_down() -> Problem {
        let message = "the server is shutting down";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, Some("shutting_down"), message)
    }

    pub(crate) fn timeout(seconds: u64) -> Problem {
        let message = format!(
            "the request was not read and answered within {seconds} seconds (--timeout); ask for a shorter answer with `max_tokens`"
        );
        Problem::new(StatusCode::GATEWAY_TIMEOUT, Some("timeout"), message)
    }

    /// The client reads too slowly.
    pub(crate) fn slow_reader(seconds: u64) -> Problem {
        let message = format!("the client read nothing of the answer for {seconds} seconds");
        Problem::new(StatusCode::REQUEST_TIMEOUT, Some("slow_reader"), message)
    }

    /// A device failed, or a bug of ours.
    pub(crate) fn internal(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, None, message)
    }

    fn of(mut self, param: impl Into<String>) -> Problem {
        self.param = Some(param.into());
        self
    }

    /// The status of the response that holds it.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// As JSON.
    pub(crate) fn json(&self) -> Value {
        let kind = match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        json!({"error": {
            "message": self.message,
            "type": kind,
            "param": self.param,
            "code": self.code,
        }})
    }
}

/// An interface's form of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    OpenAi,
    Anthropic,
    Ollama,
}

impl Form {
    /// The form that clients of a path expect.
    pub(crate) fn of_path(path: &str) -> Form {
        if path.starts_with("/api/") {
            Form::Ollama
        } else if path.starts_with("/v1/messages") {
            Form::Anthropic
        } else {
            Form::OpenAi
        }
    }

    /// The response in this form, if it is a problem.
    pub(crate) fn apply(self, mut response: Response) -> Response {
        if self == Form::OpenAi {
            return response;
        }
        let Some(problem) = response.extensions_mut().remove::<Problem>() else {
            return response;
        };
        // its length is another
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = Json(problem.formed(self)).into_response().into_body();
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.json())).into_response();
        response.extensions_mut().insert(self.clone());
        let headers = response.headers_mut();
        match self.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            // what is left of the body is not read
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}
