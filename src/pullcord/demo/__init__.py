"""Two agents to try the cord on: a churn report and a churn analyst. No key, no network."""
