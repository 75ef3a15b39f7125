"""Reading HTTP requests and writing JSON responses.

`app` uses it for the protocol's endpoints, `control` for the simulator's own. Nothing here knows an
endpoint.
"""

import json
from typing import Any

from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request, Response

from hpc.autoscale.simulator.errors import BadRequest
from hpc.autoscale.simulator.reading import parse_json, shown

LARGEST_BODY = 16 * 1024 * 1024


def json_body(request: Request) -> dict[str, Any]:
    """The JSON object in the body of a request, whatever content type it claims.

    Raises BadRequest.
    """
    value = json_value(request, "a JSON object")
    if not isinstance(value, dict):
        raise BadRequest(f"the body: expected a JSON object, found {shown(value)}")
    return value


def json_value(request: Request, expected: str = "JSON") -> Any:
    """What is in the body of a request. Raises BadRequest."""
    data = request.get_data(cache=False)
    try:
        return parse_json(data)
    except ValueError as error:
        raise BadRequest(f"the body: expected {expected}: {error}") from None


def text(request: Request, name: str) -> str | None:
    """A text in the query, None when absent. Raises BadRequest for an empty one."""
    value = request.args.get(name)
    if value is not None and not value.strip():
        raise BadRequest(f"{name}: expected a value, found nothing")
    return value


def boolean(request: Request, name: str) -> bool:
    """A boolean in the query, false when absent. Raises BadRequest."""
    value = request.args.get(name, "false")
    if value.lower() not in ("true", "false"):
        raise BadRequest(f"{name}: expected true or false, found {shown(value)}")
    return value.lower() == "true"


def whole(request: Request, name: str) -> int | None:
    """A whole number in the query, None when absent. Raises BadRequest."""
    value = text(request, name)
    if value is None:
        return None
    if not value.isascii() or not value.isdecimal() or len(value) > 15:
        raise BadRequest(f"{name}: expected a whole number, found {shown(value)}")
    return int(value)


# -------------------------------------------------------------------- responses


def reply(value: object, status: int = 200) -> Response:
    """A JSON response."""
    return Response(json.dumps(value), status, content_type="application/json")


def message(status: int, code: str, explanation: str) -> Response:
    """A response with an error, in the form that CycleCloud's clients parse."""
    return reply({"Code": code, "Message": explanation, "Detail": "", "StatusCode": status}, status)


def unauthorized() -> Response:
    """The response to wrong or missing credentials."""
    response = message(401, "Unauthorized", "The user name or the password is wrong or missing")
    response.headers["WWW-Authenticate"] = 'Basic realm="CycleCloud simulator"'
    return response


def http_error(request: Request, error: HTTPException) -> Response:
    """The response to what werkzeug refuses.

    That is an unknown path, a wrong verb, or a body that is too large or does not arrive.
    """
    status = error.code or 500
    explanation = {
        404: f"There is no {request.method} {request.path} here",
        405: f"{request.path} does not take {request.method}",
        413: f"expected a body of at most {LARGEST_BODY} bytes",
    }.get(status, error.description or error.name)
    return message(status, error.name.replace(" ", ""), explanation)
