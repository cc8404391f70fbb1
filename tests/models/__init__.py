"""Everything about models."""
