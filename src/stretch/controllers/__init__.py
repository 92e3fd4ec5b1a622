"""Who decides about the parallelism: measured load in, a decision with its reason out.

| part | what it is |
|---|---|
| `decision` | the protocol `Controller`, the record `Decision`, and what controllers may look back at |
| `threshold` | limits on how busy instances are |
| `model`, `costs` | work that is to come, by a model of what it costs |
| `balance` | other owners for key groups, so that instances have about the same work |
| `elastic` | the limits of a parallelism, and who chooses within them |
| `trace`, `simulation` | what arrived and what it cost, recorded or made up, played to a controller without a cluster |

Sees metrics and nothing else: no engine, no thread, no clock. Who asks a controller and does what it says is
`runtime.control`.
"""

from stretch.controllers.balance import BalanceController
from stretch.controllers.costs import Costs
from stretch.controllers.decision import Controller, Decision, History, keep, resize
from stretch.controllers.elastic import Elastic, elastic
from stretch.controllers.model import ModelController
from stretch.controllers.simulation import Machine, Simulation, simulate
from stretch.controllers.threshold import ThresholdController
from stretch.controllers.trace import Moment, Trace, phases
from stretch.metrics import Work

__all__ = [
    "BalanceController",
    "Controller",
    "Costs",
    "Decision",
    "Elastic",
    "History",
    "Machine",
    "ModelController",
    "Moment",
    "Simulation",
    "ThresholdController",
    "Trace",
    "Work",
    "elastic",
    "keep",
    "phases",
    "resize",
    "simulate",
]
