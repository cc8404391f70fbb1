"""Spans and metrics of runs, by OpenTelemetry's conventions for generative AI.

Made from the records that the owner of a run writes and reads, so nothing is measured that the
journal does not know. Prompts, arguments, results and texts are never exported.
"""

from pullcord.telemetry.run_spans import Telemetry

__all__ = ["Telemetry"]
