"""Who decides about the parallelism: measured load in, a decision with its reason out.

| part | what it is |
|---|---|
| `decision` | the protocol `Controller`, the record `Decision`, and what controllers may look back at |
| `threshold` | limits on how busy instances are |
| `elastic` | the limits of a parallelism, and who chooses within them |

Sees metrics and nothing else: no engine, no thread, no clock. Who asks a controller and does what it says is
`runtime.control`.
"""

from stretch.controllers.decision import Controller, Decision, History, keep, resize
from stretch.controllers.elastic import Elastic, elastic
from stretch.controllers.threshold import ThresholdController

__all__ = ["Controller", "Decision", "Elastic", "History", "ThresholdController", "elastic", "keep", "resize"]
