"""Runs the fold alone (`python -m streaming`), with settings from the environment and a file."""

import sys

from pipeline.part import main_of_part
from streaming.config import StreamSettings
from streaming.service import run

if __name__ == "__main__":
    sys.exit(main_of_part("stream", StreamSettings, run))
