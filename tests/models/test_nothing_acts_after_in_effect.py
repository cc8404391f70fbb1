"""The model of lease, warden, takeover, partition and cancel says what its README says."""

import pytest
from models.lease.checking import CASES, Case, check, is_there

pytestmark = pytest.mark.skipif(
    not is_there(), reason="spin or gcc is missing: apt-get install spin gcc"
)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_design_holds_and_what_it_is_not_is_refuted(case: Case) -> None:
    found = check(case)
    assert bool(found.trace) == case.refuted, "\n".join(found.trace)
    assert found.states > 10
