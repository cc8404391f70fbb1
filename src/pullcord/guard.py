"""What watches a run that nobody is looking at, and when it pulls the cord."""

from pullcord.core.trail import Runaway

__all__ = ["Runaway"]
