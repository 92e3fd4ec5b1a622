"""What the tests share: the definition of the result, random scenarios, and ways to run them through an engine.

| file | what it is |
|---|---|
| `definition.py` | the result of an operator over a whole input, without an engine |
| `queries.py` | operators to test, each with its definition |
| `scenarios.py` | random queries, streams and executions (Hypothesis) |
| `run.py` | run a scenario through any engine, or step by step through every interleaving |
| `trace.py` | what the reference engine did, seen from outside |
| `buffer_contract.py` | the contract of a tuple buffer, for every implementation |
"""

import pytest

pytest.register_assert_rewrite("tests.harness.buffer_contract", "tests.harness.run", "tests.harness.trace")
