"""`python -m stretch.cli` is `stretch`."""

import sys

from stretch.cli import main

sys.exit(main())
