"""The facets of a `Journal`, each under the name of its module.

For example: `journal.families.members(run_id)`.

A facet has the store or its writer, and the rules that it needs. It does not know the journal. The
rules are in `journal.rules` and `journal.stored_runs`, and use no event loop.
"""
