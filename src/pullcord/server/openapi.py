"""The OpenAPI document, made from the table of routes and the types they take and answer."""

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from pullcord import __version__
from pullcord.server.routes import Route
from pullcord.server.wire import Problem

_REF: Final = "#/components/schemas/{name}"
_PROBLEM: Final = {
    "description": "Not done, and why.",
    "content": {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}},
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return what these routes take and answer, as OpenAPI 3.1."""
    routes = list(routes)
    types = {kind for route in routes for kind in (route.takes, route.gives) if kind} | {Problem}
    ordered = sorted(types, key=lambda kind: kind.__name__)
    schemas, components = msgspec.json.schema_components(ordered, ref_template=_REF)
    found = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, found)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pullcord",
            "version": __version__,
            "description": "Pause, redirect, resume or cancel a running agent.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, found: dict[type, dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": _name(route),
        "summary": route.about,
        "parameters": [*_in_path(route), *_in_query(route)],
        "responses": {str(route.status): _answer(route, found), "default": _PROBLEM},
    }
    if route.right is not None:
        made["security"] = [{"token": []}]
        wider = [f" With `{field}`: the right to {right}." for field, right in route.wider]
        made["description"] = f"Needs the right to {route.right}.{''.join(wider)}"
    if route.method == "POST":
        made["parameters"].append(
            {
                "name": "X-Pullcord",
                "in": "header",
                "required": True,
                "schema": {"type": "string", "const": "1"},
            }
        )
    if route.takes:
        content = {"application/json": {"schema": found[route.takes]}}
        made["requestBody"] = {"required": True, "content": content}
    return made


def _name(route: Route) -> str:
    words = re.findall(r"[a-z]+", route.path.replace("{run}", "").replace("{grant}", ""))
    is_one = route.path.endswith("}")
    return "_".join([route.method.lower(), *words, *(["one"] if is_one else [])])


def _in_path(route: Route) -> list[dict[str, Any]]:
    pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": pattern},
        }
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]


def _in_query(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "in": "query",
            "required": False,
            "description": one.about,
            "schema": {"type": one.kind},
        }
        for one in route.query
    ]


def _answer(route: Route, found: dict[type, dict[str, Any]]) -> dict[str, Any]:
    if route.streams:
        return {"description": "As it happens.", "content": {"text/event-stream": {}}}
    if route.gives is None:
        return {"description": "Done."}
    content = {"application/json": {"schema": found[route.gives]}}
    return {"description": "Done.", "content": content}
