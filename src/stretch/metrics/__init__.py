"""What a running job shows of itself: plain records that can be kept, compared and printed.

Depends on nothing but errors. Knows no engine: engines fill these records, controllers and users read them.
"""

from stretch.metrics.load import Load, Reading, Work
from stretch.metrics.reconfiguration import Progress, Reconfiguration, Status

__all__ = ["Load", "Progress", "Reading", "Reconfiguration", "Status", "Work"]
