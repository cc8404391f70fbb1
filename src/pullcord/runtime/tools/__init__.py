"""Tool calls: approval, execution, result."""
