"""`python -m pullcord` is `pullcord`."""

import sys

from pullcord.cli.main import main

sys.exit(main())
