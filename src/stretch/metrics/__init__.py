"""What a running job shows of itself: plain records that can be kept, compared and printed.

Depends on nothing but errors. Knows no engine: engines fill these records, controllers and users read them.
"""

from stretch.metrics.latency import Latency
from stretch.metrics.load import Load, Work
from stretch.metrics.metrics import InstanceMetrics, Metrics
from stretch.metrics.reconfiguration import Progress, Reconfiguration, ReconfigurationRecord, Status

__all__ = [
    "InstanceMetrics",
    "Latency",
    "Load",
    "Metrics",
    "Progress",
    "Reconfiguration",
    "ReconfigurationRecord",
    "Status",
    "Work",
]
