"""`python -m exporter`: the exporter alone, with settings from the environment and a file."""

import sys

from exporter.core.config import ExportSettings
from exporter.serve.service import run
from pipeline.part import main_of_part

if __name__ == "__main__":
    sys.exit(main_of_part("export", ExportSettings, run))
