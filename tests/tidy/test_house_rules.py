"""Every file of the project keeps the house rules of `rules.py`."""

import pytest

from tests.tidy.rules import EXCEPTIONS, Source, complaints, project_files, read, short_file, short_functions


@pytest.mark.parametrize("path", project_files())
def test_house_rules(path):
    found = complaints(read(path))
    assert not found, "\n".join(found)


def test_exceptions_have_a_reason_and_are_still_needed():
    for place, reason in EXCEPTIONS.items():
        assert reason.strip(), f"{place}: say why"
        path, _, function = place.partition("::")
        rule, start = (short_functions, f"{function} has ") if function else (short_file, "")
        # A copy at a place without an exception shows what the rule would say.
        copy = Source("src/stretch/copy.py", read(path).text)
        needed = any(complaint.startswith(start) for _, complaint in rule(copy))
        assert needed, f"{place}: take it out of EXCEPTIONS, nothing is over the limit there"
