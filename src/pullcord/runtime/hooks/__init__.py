"""Hooks: functions and webhooks that receive a notice when a run moves."""
