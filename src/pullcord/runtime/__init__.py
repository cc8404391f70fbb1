"""Starts, drives and controls runs."""
