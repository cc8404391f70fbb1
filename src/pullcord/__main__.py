"""`python -m pullcord` is `pullcord`."""

from pullcord.cli.startup import command

command()
