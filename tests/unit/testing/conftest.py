"""The command line in this process, as in the tests of ``noetl.cli``."""

from tests.unit.cli.conftest import database as database
from tests.unit.cli.conftest import noetl as noetl
