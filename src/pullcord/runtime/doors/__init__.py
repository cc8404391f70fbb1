"""The doors of an agent's context, except tools: steps, models, questions, children, text."""
