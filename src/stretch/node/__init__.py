"""A node: one shard of an operator, fed micro-batch by micro-batch, with state that survives the process.

| file | what it is |
|---|---|
| `node.py` | what an embedding (Spark) asks for: `Node` |
| `state_log.py` | versions of a node's state as files: `StateLog` |
"""

from stretch.node.node import Node, NodeMetrics
from stretch.node.order import Heard
from stretch.node.state_log import CommitRecord, StateLog

__all__ = ["CommitRecord", "Heard", "Node", "NodeMetrics", "StateLog"]
