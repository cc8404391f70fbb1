"""A span's identity as text, so that it can be kept in a journal (W3C `traceparent`)."""

import re
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import SpanContext, TraceFlags

_FORM: Final = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def as_text(context: SpanContext) -> str:
    """Empty: there is no span."""
    if not context.is_valid:
        return ""
    flags = int(context.trace_flags)
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"


def as_context(text: str) -> SpanContext | None:
    """None: it is not the identity of a span."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    made = SpanContext(int(found[1], 16), int(found[2], 16), True, TraceFlags(int(found[3], 16)))
    return made if made.is_valid else None


def here() -> str:
    """Of the span that is current."""
    return as_text(trace.get_current_span().get_span_context())
