"""`python -m pullcord` is `pullcord`."""

from pullcord.cli.entry import command

command()
