"""What the two OpenAI protocols share: their error messages, and how tools are declared."""

from typing import Any

from segue.rehearsal.types import Fault, Refusal, Tool

_ERRORS: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "The request is not valid."),
    401: (
        "invalid_request_error",
        "invalid_api_key",
        "Incorrect API key provided: rehearsal. You can find your API key at"
        " https://platform.openai.com/account/api-keys.",
    ),
    403: (
        "request_forbidden",
        "unsupported_country_region_territory",
        "Country, region, or territory not supported",
    ),
    404: (
        "invalid_request_error",
        "model_not_found",
        "The model does not exist or you do not have access to it.",
    ),
    429: ("tokens", "rate_limit_exceeded", "Rate limit reached for this model on tokens per min (TPM)."),
    500: ("server_error", None, "The server had an error while processing your request. Sorry about that!"),
    503: (
        "server_error",
        "server_is_overloaded",
        "The engine is currently overloaded, please try again later.",
    ),
    529: (
        "server_error",
        "server_is_overloaded",
        "The engine is currently overloaded, please try again later.",
    ),
}


_DECLINED = (
    "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
    " Please try again with a different prompt."
)


def refuse(fault: Fault, too_long: str) -> Refusal:
    kind, code, message = _ERRORS.get(fault.status, ("server_error", None, "Error"))
    if fault.context:
        kind, code, message = "invalid_request_error", "context_length_exceeded", too_long
    if fault.declined:
        kind, code, message = "invalid_request_error", "invalid_prompt", _DECLINED
    headers = {}
    if fault.retry_after is not None:
        message += f" Please try again in {fault.retry_after:g}s."
        headers = {"retry-after": f"{fault.retry_after:g}"}
    error = {"message": message, "type": kind, "param": None, "code": code}
    return Refusal(fault.status, {"error": error}, headers)


def tools(declared: list[dict[str, Any]], namespace: str = "") -> list[Tool]:
    """Functions of both shapes, free-text tools, the built-in shell, and tools inside a namespace."""
    found: list[Tool] = []
    for one in declared:
        kind = one.get("type", "function")
        spec = one.get("function") or one
        if kind == "namespace":
            found += tools(one.get("tools") or [], one.get("name", ""))
        elif kind in ("function", "custom", "local_shell"):
            properties = (spec.get("parameters") or {}).get("properties") or {}
            found.append(Tool(spec.get("name", kind), kind, properties, namespace))
    return found
